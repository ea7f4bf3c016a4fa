"""A Redis client: `resp.py PORT`. Sets and gets values of 1 B to 1 MiB and checks every byte; single calls,
pipelines, MGET, and a blocking pop on a second connection."""

import socket
import sys

from content import Ledger, content, sizes

COUNT = 120
PIPELINE = 200


class Redis:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = self.socket.makefile("rb", buffering=1 << 16)

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def answer(self):
        line = self.answers.readline()
        assert line.endswith(b"\r\n"), f"broken line {line!r}"
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            if rest == b"-1":
                return None
            data = self.answers.read(int(rest) + 2)
            assert data.endswith(b"\r\n") and len(data) == int(rest) + 2, "broken value"
            return data[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        assert kind in b"+:", line
        return rest

    def call(self, *words):
        self.send(*words)
        return self.answer()


def main():
    port, ledger = int(sys.argv[1]), Ledger()
    first, second = Redis(port), Redis(port)
    for _ in range(20):
        assert first.call("PING") == second.call("PING") == b"PONG"
    lengths = sizes(1, COUNT, 1 << 20)
    for number, length in enumerate(lengths):
        assert first.call("SET", f"key{number}", content(number, length)) == b"OK"
    for number, length in enumerate(lengths):
        value = second.call("GET", f"key{number}")
        assert value == content(number, length), f"key{number} of {length} bytes differs"
        ledger.add(value)
    ledger.middle()
    for number in range(PIPELINE):
        first.send("SET", f"small{number}", content(number, number))
    for number in range(PIPELINE):
        assert first.answer() == b"OK"
    for number, value in enumerate(second.call("MGET", *(f"small{n}" for n in range(PIPELINE)))):
        assert value == content(number, number)
        ledger.add(value)
    for number, length in enumerate(lengths):
        second.send("BLPOP", "list", 20)
        assert first.call("RPUSH", "list", content(-number, length)) == b"1"
        name, value = second.answer()
        assert name == b"list" and value == content(-number, length)
        ledger.add(value)
    ledger.close()


if __name__ == "__main__":
    main()
