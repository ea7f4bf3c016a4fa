#!/usr/bin/env python3
"""Parity tests in Python: what its standard library does with sockets. Same protocol as the C binary:
`list` prints name, flags and clause of each test; `subject NAME` runs one (exit 0 passed, 77 skipped)."""

import asyncio
import concurrent.futures
import ctypes
import http.client
import http.server
import multiprocessing
import os
import selectors
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

SOLO, ANY_PATH = 2, 8
FAMILY = os.environ.get("PARITY_FAMILY", "v4")
ROUNDS = int(os.environ.get("PARITY_ROUNDS", "64"))
EXPECT_UPGRADE = os.environ.get("PARITY_EXPECT_UPGRADE") == "1"
ADDRESS = {"v4": "127.0.0.1", "v6": "::1"}.get(FAMILY, FAMILY)
DOMAIN = socket.AF_INET6 if FAMILY == "v6" else socket.AF_INET

TESTS = {}


def test(clause, flags=0):
    def keep(function):
        TESTS["python." + function.__name__] = (function, SOLO | flags, clause)
        return function
    return keep


def pattern(n, salt=0):
    return bytes((i * 167 + (i >> 8) * 59 + (i >> 16) * 31 + salt) & 0xFF for i in range(n))


def receive(sock, n):
    data = bytearray()
    while len(data) < n:
        piece = sock.recv(n - len(data))
        assert piece, f"end of stream after {len(data)} of {n} bytes"
        data += piece
    return bytes(data)


def kernel_bytes(sock):
    """Bytes that the kernel's TCP has sent and received (struct tcp_info, offsets 200 and 128)."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("Q", info, 200)[0], struct.unpack_from("Q", info, 128)[0]


def warm_up(a, b):
    """Round trips until none of the bytes pass through the kernel's TCP, where that is expected."""
    steady, done = 0, 0
    while done < ROUNDS or (EXPECT_UPGRADE and ROUNDS >= 64 and steady < 4):
        before = kernel_bytes(a)
        a.sendall(pattern(100, done))
        assert receive(b, 100) == pattern(100, done)
        b.sendall(pattern(100, done + 1))
        assert receive(a, 100) == pattern(100, done + 1)
        after = kernel_bytes(a)
        steady = steady + 1 if all(y - x < 100 for x, y in zip(before, after)) else 0
        done += 1
        assert done < 4000 + ROUNDS, "not upgraded"
        if done > 600:
            time.sleep(0.001)


def listener():
    return socket.create_server((ADDRESS, 0), family=DOMAIN)


def pair(warm=True):
    with listener() as server:
        a = socket.create_connection(server.getsockname()[:2])
        b, _ = server.accept()
    if warm:
        warm_up(a, b)
    return a, b


@test("Python: bulk by sendall and recv in threads")
def bulk_in_threads():
    a, b = pair()
    data = pattern(1 << 20)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for source, sink in ((a, b), (b, a)) * 2:
            sending = pool.submit(source.sendall, data)
            assert receive(sink, len(data)) == data
            sending.result()


@test("Python: recv_into, recvfrom, recvmsg, sendmsg")
def buffer_calls():
    a, b = pair()
    assert a.sendmsg([b"one ", b"", b"two ", b"three"]) == 13
    first, second = bytearray(4), bytearray(20)
    n, ancillary, flags, _ = b.recvmsg_into([first, second])
    assert (n, ancillary, flags) == (13, [], 0) and bytes(first + second[:9]) == b"one two three"
    a.sendall(b"abc")
    assert b.recv(10, socket.MSG_PEEK) == b"abc" and b.recvfrom(10) == (b"abc", None)


@test("Python: time-outs")
def timeouts():
    a, b = pair()
    a.settimeout(0.05)
    started = time.monotonic()
    try:
        a.recv(1)
        raise AssertionError("data from nowhere")
    except TimeoutError:
        assert time.monotonic() - started >= 0.045
    b.sendall(b"x")
    assert a.recv(1) == b"x"
    a.setblocking(False)
    try:
        a.recv(1)
        raise AssertionError("data from nowhere")
    except BlockingIOError:
        pass


@test("Python: makefile")
def file_object():
    a, b = pair()
    left, right = a.makefile("rw"), b.makefile("rw")
    for i in range(50):
        left.write(f"line {i}\n")
        left.flush()
        assert right.readline() == f"line {i}\n"
        right.write(f"answer {i}\n")
        right.flush()
        assert left.readline() == f"answer {i}\n"
    left.close()
    a.close()
    assert right.readline() == ""


@test("Python: sendfile")
def send_file():
    a, b = pair()
    data = pattern(2_000_000)
    with tempfile.TemporaryFile() as file, concurrent.futures.ThreadPoolExecutor() as pool:
        file.write(data)
        file.seek(1000)
        sending = pool.submit(a.sendfile, file, 1000)
        assert receive(b, len(data) - 1000) == data[1000:]
        assert sending.result() == len(data) - 1000
    b.sendall(b"after")
    assert receive(a, 5) == b"after"


def echo_selected(selector_class):
    """A single-threaded echo server over a selector, and clients in threads."""
    selector, server = selector_class(), listener()
    server.setblocking(False)
    selector.register(server, selectors.EVENT_READ)
    left = 6

    def client(salt):
        with socket.create_connection(server.getsockname()[:2]) as sock:
            for i in range(150):
                message = pattern(1 + (i * 37 + salt) % 3000, salt)
                sock.sendall(message)
                assert receive(sock, len(message)) == message

    with concurrent.futures.ThreadPoolExecutor() as pool:
        clients = [pool.submit(client, i) for i in range(left)]
        while left:
            for key, _ in selector.select(10) or [AssertionError("nothing for 10 s")]:
                if key.fileobj is server:
                    connection, _ = server.accept()
                    selector.register(connection, selectors.EVENT_READ)
                elif data := key.fileobj.recv(4096):
                    key.fileobj.setblocking(True)
                    key.fileobj.sendall(data)
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    left -= 1
        for each in clients:
            each.result()


@test("Python: selectors, select")
def select_selector():
    echo_selected(selectors.SelectSelector)


@test("Python: selectors, poll")
def poll_selector():
    echo_selected(selectors.PollSelector)


@test("Python: selectors, epoll")
def epoll_selector():
    echo_selected(selectors.EpollSelector)


@test("Python: asyncio streams, many clients")
def asyncio_streams():
    async def serve(reader, writer):
        while data := await reader.read(5000):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def client(port, salt):
        reader, writer = await asyncio.open_connection(ADDRESS, port)
        for i in range(100):
            message = pattern(1 + (i * 91 + salt) % 20000, salt)
            writer.write(message)
            assert await reader.readexactly(len(message)) == message
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()

    async def everything():
        server = await asyncio.start_server(serve, ADDRESS, 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.wait_for(asyncio.gather(*(client(port, i) for i in range(10))), 40)

    asyncio.run(everything())


@test("Python: asyncio sendfile and cancelled reads")
def asyncio_low_level():
    a, b = pair()
    a.setblocking(False)
    b.setblocking(False)

    async def everything():
        loop = asyncio.get_running_loop()
        waiting = asyncio.create_task(loop.sock_recv(b, 100))
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        data = pattern(500_000)
        with tempfile.TemporaryFile() as file:
            file.write(data)
            sending = asyncio.create_task(loop.sock_sendfile(a, file))
            got = bytearray()
            while len(got) < len(data):
                got += await asyncio.wait_for(loop.sock_recv(b, 65536), 10)
            await sending
        assert bytes(got) == data

    asyncio.run(everything())


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())


def exchange_lines(server):
    with server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        for _ in range(3):
            with socket.create_connection(server.server_address[:2]) as sock, sock.makefile("rw") as lines:
                for i in range(200):
                    lines.write(f"word {i}\n")
                    lines.flush()
                    assert lines.readline() == f"WORD {i}\n"
                # A forked handler holds a copy of this end as well: closing would not end the stream.
                sock.shutdown(socket.SHUT_WR)
        server.shutdown()


@test("Python: socketserver with threads")
def threading_server():
    server = type("Server", (socketserver.ThreadingTCPServer,), {"address_family": DOMAIN, "daemon_threads": True})
    exchange_lines(server((ADDRESS, 0), Echo))


@test("Python: socketserver with forked processes")
def forking_server():
    server = type("Server", (socketserver.ForkingTCPServer,), {"address_family": DOMAIN})
    exchange_lines(server((ADDRESS, 0), Echo))


@test("Python: http.server and http.client, kept alive")
def http_kept_alive():
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[::-1])

        def log_message(self, *_):
            pass

    server = type("Server", (http.server.ThreadingHTTPServer,), {"address_family": DOMAIN, "daemon_threads": True})
    with server((ADDRESS, 0), Handler) as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        connection = http.client.HTTPConnection(ADDRESS, running.server_address[1])
        for i in range(40):
            body = pattern(1 + i * 331 % 50000, i)
            connection.request("POST", "/", body)
            assert connection.getresponse().read() == body[::-1]
        connection.close()
        running.shutdown()


@test("Python: subprocess with a socket as standard streams")
def subprocess_streams():
    a, b = pair()
    with subprocess.Popen(["cat"], stdin=b, stdout=b) as cat:
        b.close()
        for i in range(20):
            a.sendall(pattern(3000, i))
            assert receive(a, 3000) == pattern(3000, i)
        a.shutdown(socket.SHUT_WR)
        assert a.recv(1) == b""
        assert cat.wait() == 0


@test("Python: subprocess that inherits a socket (pass_fds)")
def subprocess_inherits():
    a, b = pair()
    program = ("import socket, sys; s = socket.socket(fileno=int(sys.argv[1]))\n"
               "while d := s.recv(4096): s.sendall(d)")
    with subprocess.Popen([sys.executable, "-c", program, str(b.fileno())], pass_fds=[b.fileno()]):
        b.close()
        for i in range(20):
            a.sendall(pattern(1000, i))
            assert receive(a, 1000) == pattern(1000, i)
        a.close()


@test("Python: subprocess whose threads meet the sockets that they inherit all at once")
def subprocess_threads_inherit():
    pairs = [pair() for _ in range(6)]
    numbers = [b.fileno() for _, b in pairs]
    program = ("import os, sys, threading\n"
               "numbers = list(map(int, sys.argv[1:]))\n"
               "together = threading.Barrier(len(numbers))\n"
               "def echo(fd):\n"
               "    together.wait()\n"
               "    while d := os.read(fd, 4096): os.write(fd, d)\n"
               "for fd in numbers: threading.Thread(target=echo, args=[fd]).start()")
    with subprocess.Popen([sys.executable, "-c", program, *map(str, numbers)], pass_fds=numbers):
        for a, b in pairs:
            b.close()
            a.settimeout(5)
        for i in range(20):
            for a, _ in pairs:
                a.sendall(pattern(1000, i))
            for a, _ in pairs:
                assert receive(a, 1000) == pattern(1000, i)
        for a, _ in pairs:
            a.close()


@test("Python: subprocess that inherits nothing (close_fds)")
def subprocess_closes():
    a, b = pair()
    for i in range(3):
        assert subprocess.run(["true"]).returncode == 0
        a.sendall(pattern(500, i))
        assert receive(b, 500) == pattern(500, i)


def serve_received(channel):
    sock = socket.socket(fileno=socket.recv_fds(channel, 1, 1)[1][0])
    while data := sock.recv(4096):
        sock.sendall(data)


@test("Python: send_fds to another process")
def pass_descriptor():
    here, there = socket.socketpair()
    helper = multiprocessing.get_context("fork").Process(target=serve_received, args=(there,))
    helper.start()
    a, b = pair()
    socket.send_fds(here, [b"f"], [b.fileno()])
    b.close()
    for i in range(50):
        a.sendall(pattern(900, i))
        assert receive(a, 900) == pattern(900, i)
    a.shutdown(socket.SHUT_WR)
    assert a.recv(1) == b""
    helper.join()
    assert helper.exitcode == 0


@test("Python: fork after warm-up, child answers")
def fork_child():
    a, b = pair()
    child = os.fork()
    if child == 0:
        a.close()
        while data := b.recv(4096):
            b.sendall(data)
        os._exit(0)
    b.close()
    for i in range(50):
        a.sendall(pattern(800, i))
        assert receive(a, 800) == pattern(800, i)
    a.shutdown(socket.SHUT_WR)
    assert a.recv(1) == b""
    assert os.waitpid(child, 0)[1] == 0


@test("Python: dup, detach, fileno")
def duplicates():
    a, b = pair()
    copy = a.dup()
    a.close()
    copy.sendall(b"from the copy")
    assert receive(b, 13) == b"from the copy"
    raw = socket.socket(fileno=copy.detach())
    b.sendall(b"still here")
    assert receive(raw, 10) == b"still here"
    raw.close()
    assert b.recv(1) == b""


@test("Python: signals and PEP 475")
def interrupted_calls():
    a, b = pair()
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    threading.Timer(0.15, b.sendall, [b"late"]).start()
    assert receive(a, 4) == b"late"
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert seen


@test("Python: signal handler that raises out of recv")
def handler_raises():
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    a, b = pair()
    signal.signal(signal.SIGALRM, stop)
    for i in range(5):
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        try:
            a.recv(1)
            raise AssertionError("data from nowhere")
        except Stop:
            pass
        b.sendall(pattern(100, i))
        assert receive(a, 100) == pattern(100, i)


@test("Python: urgent data")
def urgent_data():
    a, b = pair()
    a.sendall(b"before")
    a.send(b"!", socket.MSG_OOB)
    a.sendall(b"after")
    for _ in range(5000):
        try:
            assert b.recv(1, socket.MSG_OOB) == b"!"
            break
        except (BlockingIOError, OSError):
            time.sleep(0.001)
    assert receive(b, 11) == b"beforeafter"


@test("Python: ssl over memory and over the socket")
def tls():
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                               "-subj", "/CN=parity", "-keyout", key, "-out", certificate], capture_output=True)
        if made.returncode != 0:
            skip("no openssl command")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    a, b = pair()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    data = pattern(300_000)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        server = pool.submit(context.wrap_socket, b, server_side=True)
        client = trusting.wrap_socket(a)
        server = server.result()
        for source, sink in ((client, server), (server, client)):
            sending = pool.submit(source.sendall, data)
            assert receive(sink, len(data)) == data
            sending.result()
    client.close()


@test("Python: libc called by ctypes")
def ctypes_calls():
    a, b = pair()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.send(a.fileno(), b"by ctypes", 9, 0) == 9
    buffer = ctypes.create_string_buffer(20)
    assert libc.recv(b.fileno(), buffer, 20, 0) == 9 and buffer.value == b"by ctypes"
    assert libc.write(b.fileno(), b"back", 4) == 4
    assert receive(a, 4) == b"back"


def skip(why):
    print(f"ok # SKIP {why}")
    sys.exit(77)


def main():
    if sys.argv[1:] == ["list"]:
        for name, (_, flags, clause) in TESTS.items():
            print(f"{name}\t{flags}\t{clause}")
    elif len(sys.argv) == 3 and sys.argv[1] == "subject" and sys.argv[2] in TESTS:
        TESTS[sys.argv[2]][0]()
        print(f"ok {sys.argv[2]}")
    else:
        sys.exit("usage: python_cases.py list | subject NAME")


if __name__ == "__main__":
    main()
