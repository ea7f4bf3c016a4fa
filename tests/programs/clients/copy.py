"""COPY with psql: `copy.py PORT`. Rows of random text go into a table and come out again, in text and in binary
form, through one session that stays open, and through several at once."""

import base64
import hashlib
import subprocess
import sys
import threading

from content import Ledger, content

ROWS = 2000
SESSIONS = 4


def psql(port, script):
    words = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", port, "-U", "bench", "postgres"]
    done = subprocess.run(words, input=script, capture_output=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def rows(seed):
    return b"".join(b"%d\t%s\n" % (n, base64.b64encode(content(seed * ROWS + n, 1 + n * 37 % 5000))) for n in range(ROWS))


def copy(port, number, results):
    table, text = b"rows%d" % number, rows(number)
    small = b"SELECT 1;\n" * 30
    script = small + b"CREATE TABLE IF NOT EXISTS %s (n int, t text);\nTRUNCATE %s;\n" % (table, table)
    script += b"COPY %s FROM STDIN;\n%s\\.\nCOPY (SELECT * FROM %s ORDER BY n) TO STDOUT;\n" % (table, text, table)
    out = psql(port, script)
    assert out == b"1\n" * 30 + text, f"table {number} came back differently ({len(out)} bytes)"
    form = b"COPY (SELECT * FROM %s ORDER BY n) TO STDOUT (FORMAT binary);\n" % table
    results[number] = out + hashlib.sha256(psql(port, small + form)).digest()


def main():
    port, ledger, results = sys.argv[1], Ledger(), {}
    copy(port, 0, results)
    ledger.middle()
    threads = [threading.Thread(target=copy, args=(port, n, results)) for n in range(1, SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(SESSIONS):
        ledger.add(results[number])
    ledger.close()


main()
