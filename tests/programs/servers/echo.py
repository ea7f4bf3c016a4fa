"""Echo servers in Python: `echo.py KIND PORT`, KIND one of asyncio, uvloop, streams, selectors, threads, forks."""

import asyncio
import selectors
import socket
import socketserver
import sys

CHUNK_BYTES = 1 << 16


class Echo(asyncio.Protocol):
    """The low level: transport and protocol, with flow control."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

    def pause_writing(self):
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()

    def eof_received(self):
        self.transport.close()


async def serve_protocol(port):
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)
    await server.serve_forever()


async def serve_streams(port):
    async def echo(reader, writer):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()
    server = await asyncio.start_server(echo, "127.0.0.1", port)
    await server.serve_forever()


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(CHUNK_BYTES):
            self.request.sendall(data)


class ThreadingServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class ForkingServer(socketserver.ForkingTCPServer):
    allow_reuse_address = True


class SelectorServer:
    """One thread, level-triggered, at most one chunk in hand for each connection."""

    def __init__(self, port):
        self.selector = selectors.DefaultSelector()
        self.waiting = {}
        listener = socket.create_server(("127.0.0.1", port))
        listener.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ, self.accept)

    def accept(self, listener, _):
        connection, _ = listener.accept()
        connection.setblocking(False)
        self.waiting[connection] = b""
        self.selector.register(connection, selectors.EVENT_READ, self.serve)

    def serve(self, connection, events):
        try:
            if events & selectors.EVENT_READ:
                self.waiting[connection] = connection.recv(CHUNK_BYTES)
                if not self.waiting[connection]:
                    return self.drop(connection)
            data = self.waiting[connection]
            sent = connection.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return self.drop(connection)
        self.waiting[connection] = data[sent:]
        wanted = selectors.EVENT_WRITE if self.waiting[connection] else selectors.EVENT_READ
        self.selector.modify(connection, wanted, self.serve)

    def drop(self, connection):
        self.selector.unregister(connection)
        del self.waiting[connection]
        connection.close()

    def run(self):
        while True:
            for key, events in self.selector.select():
                key.data(key.fileobj, events)


def main():
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "asyncio":
        asyncio.run(serve_protocol(port))
    elif kind == "uvloop":
        import uvloop
        uvloop.install()
        asyncio.run(serve_protocol(port))
    elif kind == "streams":
        asyncio.run(serve_streams(port))
    elif kind == "selectors":
        SelectorServer(port).run()
    elif kind == "threads":
        ThreadingServer(("127.0.0.1", port), Handler).serve_forever()
    elif kind == "forks":
        ForkingServer(("127.0.0.1", port), Handler).serve_forever()


main()
