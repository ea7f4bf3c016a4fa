"""Python: event loops (uvloop among them), selectors, threads, forks, and the library's web server."""

from _bed import SERVERS

from .case import PYTHON, SYSTEM_PYTHON, Case, own_client
from .nginx import make_files

UVLOOP = "/usr/lib/python3/dist-packages/uvloop"


def echo(kind, python=PYTHON, needs=(), full=False):
    return Case(f"python-{kind}", [python, *needs], lambda folder, port: [python, SERVERS / "echo.py", kind, port],
                [own_client("echo.py")], full=full)


def web(folder, port):
    make_files(folder)
    return [PYTHON, SERVERS / "web.py", port, folder]


CASES = [
    *map(echo, ("asyncio", "selectors", "threads", "forks")),
    echo("streams", full=True),
    echo("uvloop", SYSTEM_PYTHON, [UVLOOP]),
    Case("python-web", [PYTHON], web, [own_client("fetch.py")]),
]
