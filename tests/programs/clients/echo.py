"""Talks to an echo server: `echo.py PORT`. Round trips of all sizes, then a long stream in both directions at
once on several connections, then a half-close after which the rest must still come back."""

import socket
import sys
import threading

from content import Ledger, content, sizes

STREAMS = 3
STREAM_BYTES = 8 << 20


def receive(connection, length):
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(min(length - len(data), 1 << 18))
        assert piece, f"end of stream after {len(data)} of {length} bytes"
        data += piece
    return bytes(data)


def dial(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def round_trips(connection, ledger):
    for number, length in enumerate([1] * 30 + sizes(3, 100, 1 << 20)):
        data = content(number, length)
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        back = receive(connection, length)
        sender.join()
        assert back == data, f"round trip {number} of {length} bytes differs"
        ledger.add(back)


def stream(port, number, results):
    data = content(1000 + number, STREAM_BYTES)
    with dial(port) as connection:
        for position in range(0, 1000, 50):
            connection.sendall(data[position:position + 50])
            assert receive(connection, 50) == data[position:position + 50]

        def send():
            connection.sendall(data[1000:])
            connection.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        back = receive(connection, STREAM_BYTES - 1000)
        sender.join()
        assert back == data[1000:], f"stream {number} differs"
        assert connection.recv(1) == b"", "no end after the half-close"
    results[number] = back


def main():
    port, ledger = int(sys.argv[1]), Ledger()
    with dial(port) as connection:
        round_trips(connection, ledger)
        ledger.middle()
        round_trips(connection, ledger)
    results = {}
    threads = [threading.Thread(target=stream, args=(port, n, results)) for n in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(STREAMS):
        ledger.add(results[number])
    ledger.close()


main()
