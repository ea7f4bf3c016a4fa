"""Python's standard library: event loops, selectors, threads, forks, and its web server and client."""

from _bed import SERVERS

from .case import PYTHON, Case, own_client
from .nginx import make_files


def echo(kind):
    return Case(f"python-{kind}", [PYTHON], lambda folder, port: [PYTHON, SERVERS / "echo.py", kind, port], [own_client("echo.py")])


def web(folder, port):
    make_files(folder)
    return [PYTHON, SERVERS / "web.py", port, folder]


CASES = list(map(echo, ("asyncio", "streams", "selectors", "threads", "forks")))
