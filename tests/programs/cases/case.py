"""What a case is made of."""

import dataclasses
import os
import re
import sys
from collections.abc import Callable

from _bed import CLIENTS

PYTHON = sys.executable


def digest(output):
    """What our own clients print about all that they have received."""
    found = re.search(r"^digest ([0-9a-f]{64})$", output, re.M)
    return found and found.group(1)


def user_words(directive, name="root"):
    """A server's words or line that keep it from changing its user; only root's servers need any."""
    return [directive, name] if os.geteuid() == 0 else []


@dataclasses.dataclass
class Client:
    """A program that talks to the server."""
    name: str
    # From the port to the command's words.
    command: Callable[[int], list]
    # From the output to what must be the same in every mode; something false = the client failed.
    result: Callable[[str], object] = digest
    # Programs without which it is skipped.
    needs: tuple = ()
    # Whether its connections live long enough to be upgraded.
    upgrades: bool = True
    # Whether only one end sends, so that each uses one of its rings.
    one_way: bool = False
    # Whether it runs as another user than the server, so that nothing may be upgraded.
    foreign: bool = False
    # Whether it stops (or goes round) in the middle when `--hold` is among its words.
    holds: bool = False
    # From the running `Pair`: what happens to the server in the middle.
    meanwhile: Callable | None = None
    limit_s: int = 60
    env: dict = dataclasses.field(default_factory=dict)
    # Only in the complete matrix.
    full: bool = False


# Interpreters in homes are for their owners only; cases with users of their own take this one.
SYSTEM_PYTHON = "/usr/bin/python3"


def own_client(file, *words, interpreter=PYTHON, name=None, **options):
    """One of ours, in `clients`."""
    return Client(name or file, lambda port: [interpreter, CLIENTS / file, port, *words], holds=True, **options)


@dataclasses.dataclass
class Case:
    """A server and its clients."""
    name: str
    # Programs (or files, by their paths) without which the case is skipped.
    needs: list
    # (folder, port) to the server's words; the folder is empty and the server's own. With a server
    # behind it, that one's port is the third argument.
    server: Callable
    clients: list
    # To (uid, gid) that server and clients run as; none = our own.
    user: Callable = lambda: None
    # (folder, port, the first server's port) to the words of a server behind the server. It is under
    # Ringway when both ends are, so that one plain end means nothing upgraded anywhere.
    behind: Callable | None = None
    env: dict = dataclasses.field(default_factory=dict)
    # Only in the complete matrix.
    full: bool = False
