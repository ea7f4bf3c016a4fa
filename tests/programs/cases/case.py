"""What a case is made of."""

import dataclasses
import re
import sys
from collections.abc import Callable

from _bed import CLIENTS

PYTHON = sys.executable


def digest(output):
    """What our own clients print about all that they have received."""
    found = re.search(r"^digest ([0-9a-f]{64})$", output, re.M)
    return found and found.group(1)


@dataclasses.dataclass
class Client:
    """A program that talks to the server."""
    name: str
    # From the port to the command's words.
    command: Callable[[int], list]
    # From the output to what must be the same in every mode; something false = the client failed.
    result: Callable[[str], object] = digest
    # Whether its connections live long enough to be upgraded.
    upgrades: bool = True
    # Whether it stops in the middle when `--hold` is among its words.
    holds: bool = False
    limit_s: int = 60
    env: dict = dataclasses.field(default_factory=dict)


def own_client(file, *words, interpreter=PYTHON, **options):
    """One of ours, in `clients`."""
    return Client(file, lambda port: [interpreter, CLIENTS / file, port, *words], holds=True, **options)


@dataclasses.dataclass
class Case:
    """A server and its clients."""
    name: str
    # Programs without which the case is skipped.
    needs: list
    # (folder, port) to the server's words; the folder is empty and the server's own.
    server: Callable
    clients: list
    # From the bed to (uid, gid) that server and clients run as; none = our own.
    user: Callable = lambda: None
