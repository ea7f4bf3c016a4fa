"""Fetches files without a pause on several connections: `steady.py PORT [--hold]`. What `--hold` holds is the
end: after some requests it says so and goes on until a line comes. Connections are kept alive for some requests
and then made anew; one download is slow. No request may fail. A server that reloads closes idle connections, so
that a request on a used one may find it closed before a byte of answer; it is repeated on a new one, as
browsers do."""

import http.client
import sys
import threading
import time

from content import Ledger, content
from fetch import get, lengths

THREADS = 4
REQUESTS = 60
KEPT_FOR = 40
SLOW_PIECE = 1 << 17

stop = threading.Event()
warm = threading.Semaphore(0)
failures = []


def dial(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.connect()
    return connection


def requests(port, thread):
    files = [(number, length) for number, length in enumerate(lengths()) if length < 1 << 19]
    connection, used, done = dial(port), 0, 0
    while not (stop.is_set() and done >= REQUESTS):
        number, length = files[(done * 7 + thread) % len(files)]
        try:
            status, body = get(connection, f"/file{number}")
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if used == 0:
                raise
            connection, used = dial(port), 0
            continue
        assert status == 200 and body == content(number, length), f"file{number} of {length} bytes differs"
        used, done = used + 1, done + 1
        if done == REQUESTS:
            warm.release()
        if used == KEPT_FOR:
            connection.close()
            connection, used = dial(port), 0


def slow_downloads(port):
    number = len(lengths()) - 1
    expected = content(number, lengths()[number])
    while True:
        connection = dial(port)
        connection.request("GET", f"/file{number}")
        answer, body = connection.getresponse(), b""
        while piece := answer.read(SLOW_PIECE):
            body += piece
            time.sleep(0.005)
        assert body == expected, f"the slow download gave {len(body)} of {len(expected)} bytes"
        connection.close()
        if stop.is_set():
            return


def guarded(work, *arguments):
    try:
        work(*arguments)
    except Exception as problem:
        failures.append(f"{work.__name__}: {problem!r}")
        warm.release()


def main():
    port, ledger = int(sys.argv[1]), Ledger()
    threads = [threading.Thread(target=guarded, args=(requests, port, n)) for n in range(THREADS)]
    threads.append(threading.Thread(target=guarded, args=(slow_downloads, port)))
    for thread in threads:
        thread.start()
    for _ in range(THREADS):
        warm.acquire()
    ledger.middle()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    ledger.close()


main()
