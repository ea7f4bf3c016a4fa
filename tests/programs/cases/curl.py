"""curl: one connection for many files, parallel downloads, ranges, a limited rate, uploads."""

from .case import Case, Client
from .nginx import lengths, static

LARGEST = len(lengths()) - 1
HASHED = "| sha256sum | sed 's/^/digest /; s/ *-$//'"


def shell(name, script, **options):
    """`$U` is the server's address."""
    return Client(f"curl-{name}", lambda port: ["sh", "-ec", f"U=http://127.0.0.1:{port}; C='curl -sS --fail --max-time 40'; {script}"],
                  needs=("curl",), **options)


EVERY = " ".join(f"$U/file{n}" for n in range(len(lengths())))
TO_OUTPUT = " ".join(f"$U/file{n} -o -" for n in range(len(lengths())))
# All of `$T` is hashed in the order of the names.
TEMPORARY = "T=$(mktemp -d); trap 'rm -r $T' EXIT;"
UPLOADS = " ".join(f"-T $T/file{n} $U/up/file{n}" for n in range(0, LARGEST + 1, 4))

CLIENTS = [
    shell("many", f"$C {TO_OUTPUT} {HASHED}"),
    shell("parallel", f"{TEMPORARY} $C -Z --parallel-max 8 --remote-name-all --output-dir $T {EVERY}; cat $T/* {HASHED}"),
    # The server begins with sendfile, so that a single answer is over before the ring has begun.
    shell("ranges", f"for r in 0-99999 100000-4999999 5000000-; do $C -r $r $U/file{LARGEST}; done {HASHED}", upgrades=False),
    shell("limited", f"$C --limit-rate 6M $U/file{LARGEST} {HASHED}", full=True),
    shell("upload", f"{TEMPORARY} $C --remote-name-all --output-dir $T {EVERY}; $C -o /dev/null {UPLOADS} > $T/said;"
                    f" for f in {' '.join(f'file{n}' for n in range(0, LARGEST + 1, 4))}; do $C $U/up/$f; done {HASHED}"),
]
CASES = [Case("curl", ["nginx", "curl"], static("sendfile on;"), CLIENTS)]
