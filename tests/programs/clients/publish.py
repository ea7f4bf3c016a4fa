"""Redis's messages and transactions: `publish.py PORT`. Subscribers get every message in order; MULTI blocks
of two clients do not mix; a value of 24 MiB comes back whole."""

import sys
import threading

from content import Ledger, content, sizes
from resp import Redis

SUBSCRIBERS = 3
MESSAGES = 400
BLOCKS = 200
LARGE_BYTES = 24 << 20


def publish(port, ledger):
    publisher, subscribers = Redis(port), [Redis(port) for _ in range(SUBSCRIBERS)]
    for subscriber in subscribers:
        assert subscriber.call("SUBSCRIBE", "news") == [b"subscribe", b"news", b"1"]
    lengths = sizes(7, MESSAGES, 1 << 18)

    def send():
        for number, length in enumerate(lengths):
            assert publisher.call("PUBLISH", "news", content(number, length)) == str(SUBSCRIBERS).encode()
    sender = threading.Thread(target=send)
    sender.start()
    for number, length in enumerate(lengths):
        for subscriber in subscribers:
            word, channel, data = subscriber.answer()
            assert (word, channel) == (b"message", b"news") and data == content(number, length), f"message {number}"
        ledger.add(data)
    sender.join()


def transact(port, number):
    connection = Redis(port)
    for block in range(BLOCKS):
        for words in (["MULTI"], ["SET", "owner", number], *[["INCR", f"count{number}"]] * 5, ["GET", "owner"], ["EXEC"]):
            connection.send(*words)
        answers = [connection.answer() for _ in range(9)]
        counts = [str(block * 5 + n + 1).encode() for n in range(5)]
        assert answers == [b"OK", *[b"QUEUED"] * 7, [b"OK", *counts, str(number).encode()]], answers


def main():
    port, ledger = int(sys.argv[1]), Ledger()
    first = Redis(port)
    for number in range(2):
        first.call("DEL", f"count{number}")
    publish(port, ledger)
    ledger.middle()
    threads = [threading.Thread(target=transact, args=(port, number)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.add(b"".join(first.call("GET", f"count{number}") for number in range(2)))
    assert first.call("SET", "large", content(9, LARGE_BYTES)) == b"OK"
    assert first.call("GET", "large") == content(9, LARGE_BYTES), "the large value differs"
    ledger.close()


main()
