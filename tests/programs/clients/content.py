"""Content that says where it belongs, shared by clients and runners."""

import hashlib
import random
import sys


def content(seed, length):
    """The same bytes for the same seed, different ones for another."""
    return random.Random(seed).randbytes(length)


def sizes(seed, count, largest):
    """Lengths from 1 to `largest`, as many small ones as large ones, both extremes among them."""
    chance = random.Random(seed)
    between = [int(largest ** chance.random()) or 1 for _ in range(count - 2)]
    return [1, *between, largest]


class Ledger:
    """Digest of everything that was received; pauses in the middle if asked to."""

    def __init__(self):
        self.digest = hashlib.sha256()
        self.hold = "--hold" in sys.argv

    def add(self, data):
        self.digest.update(data)

    def middle(self):
        """Half of the work is done. With `--hold`, says so and goes on when a line comes."""
        if self.hold:
            print("half", flush=True)
            sys.stdin.readline()

    def close(self):
        print("digest", self.digest.hexdigest(), flush=True)
