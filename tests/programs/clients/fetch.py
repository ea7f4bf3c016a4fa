"""Fetches static files over one kept-alive connection: `fetch.py PORT`. The server's folder holds what
`make_files` made; every byte is checked. Each file is fetched whole, and once in two ranges."""

import http.client
import sys
from pathlib import Path

from content import Ledger, content, sizes

COUNT = 40
LARGEST = 8 << 20


def lengths():
    return sizes(2, COUNT, LARGEST)


def make_files(folder):
    for number, length in enumerate(lengths()):
        Path(folder, f"file{number}").write_bytes(content(number, length))


def get(connection, path, headers=None):
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read()


def main():
    ledger = Ledger()
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
    connection.connect()
    for _ in range(20):
        assert get(connection, "/file0") == (200, content(0, 1))
    for number, length in enumerate(lengths()):
        if number == COUNT // 2:
            ledger.middle()
        status, body = get(connection, f"/file{number}")
        assert status == 200 and body == content(number, length), f"file{number} of {length} bytes differs"
        ledger.add(body)
        if length > 1:
            halves = [get(connection, f"/file{number}", {"Range": f"bytes={r}"})
                      for r in (f"0-{length // 2 - 1}", f"{length // 2}-")]
            assert [status for status, _ in halves] == [206, 206]
            assert b"".join(part for _, part in halves) == body, f"ranges of file{number} differ"
    ledger.close()


if __name__ == "__main__":
    main()
