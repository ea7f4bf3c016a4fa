// Servers in Node: `serve.js KIND PORT`. echo: streams, half-open; http: POST comes back as it is sent.
'use strict';
const http = require('http');
const net = require('net');

const [kind, port] = [process.argv[2], Number(process.argv[3])];

function echo(socket) {
  socket.on('error', () => socket.destroy());
  socket.pipe(socket);
}

function answer(request, response) {
  response.on('error', () => {});
  request.pipe(response);
}

const server = kind === 'echo' ? net.createServer({ allowHalfOpen: true }, echo) : http.createServer(answer);
server.listen(port, '127.0.0.1');
