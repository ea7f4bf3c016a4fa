"""A memcached client: `memcache.py PORT PROTOCOL`, one of text, meta, binary. Values of 1 B to 1 MiB over
several connections, pipelined reads, every byte checked."""

import socket
import struct
import sys

from content import Ledger, content, sizes

COUNT = 100
CONNECTIONS = 3


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = self.socket.makefile("rb", buffering=1 << 16)

    def line(self):
        line = self.answers.readline()
        assert line.endswith(b"\r\n"), f"broken line {line!r}"
        return line[:-2].split()

    def exactly(self, length):
        data = self.answers.read(length)
        assert len(data) == length, f"{len(data)} of {length} bytes"
        return data


class Text(Connection):
    def set(self, key, value):
        self.socket.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value))
        assert self.line() == [b"STORED"]

    def ask(self, key):
        self.socket.sendall(b"get %s\r\n" % key)

    def value(self, key):
        word, name, _, length = self.line()
        assert (word, name) == (b"VALUE", key)
        value = self.exactly(int(length) + 2)[:-2]
        assert self.line() == [b"END"]
        return value


class Meta(Connection):
    def set(self, key, value):
        self.socket.sendall(b"ms %s %d\r\n%s\r\n" % (key, len(value), value))
        assert self.line() == [b"HD"]

    def ask(self, key):
        self.socket.sendall(b"mg %s v k\r\n" % key)

    def value(self, key):
        word, length, name = self.line()
        assert (word, name) == (b"VA", b"k" + key)
        return self.exactly(int(length) + 2)[:-2]


class Binary(Connection):
    """Header: magic, operation, key bytes, extra bytes, type, status, body bytes, opaque, cas."""
    HEADER = struct.Struct(">BBHBBHIIQ")
    GET, SET = 0, 1

    def send(self, operation, key, extra=b"", value=b""):
        body = extra + key + value
        self.socket.sendall(self.HEADER.pack(0x80, operation, len(key), len(extra), 0, 0, len(body), 7, 0) + body)

    def answer(self, operation):
        magic, op, key_bytes, extra_bytes, _, status, body_bytes, opaque, _ = self.HEADER.unpack(self.exactly(24))
        assert (magic, op, status, opaque) == (0x81, operation, 0, 7)
        return self.exactly(body_bytes)[extra_bytes + key_bytes:]

    def set(self, key, value):
        self.send(self.SET, key, bytes(8), value)
        self.answer(self.SET)

    def ask(self, key):
        self.send(self.GET, key)

    def value(self, key):
        return self.answer(self.GET)


def main():
    port, protocol, ledger = int(sys.argv[1]), sys.argv[2], Ledger()
    kind = {"text": Text, "meta": Meta, "binary": Binary}[protocol]
    connections = [kind(port) for _ in range(CONNECTIONS)]
    keys = [(b"%s%d" % (protocol.encode(), n), content(n, length)) for n, length in enumerate(sizes(5, COUNT, 1 << 20))]
    for turn in range(2):
        for number, (key, value) in enumerate(keys):
            connections[number % CONNECTIONS].set(key, value)
        for number, (key, value) in enumerate(keys):
            reader = connections[(number + 1) % CONNECTIONS]
            reader.ask(key)
            assert reader.value(key) == value, f"{key} of {len(value)} bytes differs"
        if turn == 0:
            ledger.middle()
    small = [(key, value) for key, value in keys if len(value) < 2000]
    for reader in connections:
        for key, _ in small:
            reader.ask(key)
        for key, value in small:
            got = reader.value(key)
            assert got == value, f"pipelined {key} differs"
            ledger.add(got)
    ledger.close()


main()
