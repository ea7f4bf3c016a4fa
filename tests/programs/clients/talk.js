// A client in Node: `talk.js PORT KIND [--hold]`. echo: round trips, then long streams with back-pressure and
// half-close; http: posts of all sizes on kept-alive connections, which come back as they were.
'use strict';
const crypto = require('crypto');
const http = require('http');
const net = require('net');
const { once } = require('events');

const STREAMS = 3;
const STREAM_BYTES = 8 << 20;
const port = Number(process.argv[2]);
const kind = process.argv[3];
const ledger = crypto.createHash('sha256');

function content(seed, length) {
  const key = Buffer.alloc(16);
  key.writeUInt32LE(seed);
  return crypto.createCipheriv('aes-128-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(length));
}

function check(got, wanted, what) {
  if (!got.equals(wanted)) throw new Error(`${what}: ${got.length} of ${wanted.length} bytes, or they differ`);
}

async function middle() {
  if (!process.argv.includes('--hold')) return;
  console.log('half');
  await once(process.stdin, 'data');
  process.stdin.pause();
}

async function dial() {
  const socket = net.connect(port, '127.0.0.1').setNoDelay();
  await once(socket, 'connect');
  return socket;
}

async function receive(socket, length) {
  const pieces = [];
  for (let left = length; left > 0;) {
    const piece = socket.read(Math.min(left, Math.max(1, socket.readableLength)));
    if (piece === null) await once(socket, 'readable');
    else { pieces.push(piece); left -= piece.length; }
  }
  return Buffer.concat(pieces);
}

async function roundTrips(socket) {
  for (let number = 0; number < 130; number++) {
    const data = content(number, number < 30 ? 1 : Math.floor(2 ** (20 * (number - 29) / 100)));
    socket.write(data);
    const back = await receive(socket, data.length);
    check(back, data, `round trip ${number}`);
    ledger.update(back);
  }
}

async function stream(number) {
  const data = content(1000 + number, STREAM_BYTES);
  const socket = await dial();
  for (let n = 0; n < 20; n++) {
    socket.write(data.subarray(n * 50, n * 50 + 50));
    check(await receive(socket, 50), data.subarray(n * 50, n * 50 + 50), `start of stream ${number}`);
  }
  (async () => {
    for (let at = 1000; at < data.length; at += 100000) {
      if (!socket.write(data.subarray(at, at + 100000))) await once(socket, 'drain');
    }
    socket.end();
  })();
  const pieces = [];
  for await (const piece of socket) pieces.push(piece);
  check(Buffer.concat(pieces), data.subarray(1000), `stream ${number}`);
  return data;
}

function post(agent, data) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, agent, method: 'POST' }, async (response) => {
      try {
        const pieces = [];
        for await (const piece of response) pieces.push(piece);
        resolve(Buffer.concat(pieces));
      } catch (problem) { reject(problem); }
    });
    request.on('error', reject);
    request.end(data);
  });
}

async function posts(agent, from) {
  for (let number = from; number < from + 60; number++) {
    const data = content(number, Math.floor(2 ** (22 * (number % 60) / 59)));
    const back = await post(agent, data);
    check(back, data, `post ${number}`);
    ledger.update(back);
  }
}

async function main() {
  if (kind === 'echo') {
    const socket = await dial();
    await roundTrips(socket);
    await middle();
    await roundTrips(socket);
    socket.end();
    for (const data of await Promise.all([...Array(STREAMS).keys()].map(stream))) ledger.update(data);
  } else {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
    await posts(agent, 0);
    await middle();
    await posts(agent, 60);
    const together = [...Array(40).keys()].map((n) => content(n, 100 + n * 5000));
    const back = await Promise.all(together.map((data) => post(agent, data)));
    back.forEach((data, n) => check(data, together[n], `post ${n} of many`));
    agent.destroy();
  }
  console.log('digest', ledger.digest('hex'));
}

main().catch((problem) => { console.error(problem); process.exit(1); });
