"""Writes to a Redis primary and reads from its replica: `replicate.py PORT`. Half of the data is there before
the replica has to synchronise in full, the rest follows as a stream."""

import sys
import time

from content import Ledger, content, sizes
from resp import Redis

COUNT = 150


def replica_of(primary):
    """A connection to the replica, once it is there."""
    deadline = time.monotonic() + 20
    while not (replicas := primary.call("ROLE")[2]):
        assert time.monotonic() < deadline, "no replica came"
        time.sleep(0.01)
    return Redis(int(replicas[0][1]))


def read(replica, key):
    """Asks again while the replica takes in what the primary has sent it as a whole."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return replica.call("GET", key)
        except AssertionError as error:
            if "LOADING" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def check(primary, replica, keys, ledger):
    assert primary.call("WAIT", 1, 20000) == b"1", "the replica does not follow"
    for number, length in keys:
        value = read(replica, f"key{number}")
        assert value == content(number, length), f"key{number} of {length} bytes differs"
        ledger.add(value)


def main():
    port, ledger = int(sys.argv[1]), Ledger()
    primary = Redis(port)
    keys = list(enumerate(sizes(11, COUNT, 1 << 20)))
    for number, length in keys[:COUNT // 2]:
        assert primary.call("SET", f"key{number}", content(number, length)) == b"OK"
    replica = replica_of(primary)
    check(primary, replica, keys[:COUNT // 2], ledger)
    ledger.middle()
    for number, length in keys[COUNT // 2:]:
        assert primary.call("SET", f"key{number}", content(number, length)) == b"OK"
    # The replica links up anew and fetches what it missed, or everything.
    replica.call("CLIENT", "KILL", "TYPE", "master")
    replica_of(primary)
    check(primary, replica, keys, ledger)
    ledger.close()


main()
