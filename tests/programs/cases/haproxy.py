"""HAProxy before nginx: streams and HTTP, with threads, with splice, and reloads under traffic."""

import os
import signal

from _bed import wait_until

from .case import Case, own_client
from .nginx import FETCH, backend, wrk


def server(mode, *words, options=""):
    def configure(folder, port, behind):
        (folder / "haproxy.cfg").write_text(f"""
            global
                nbthread 4
                maxconn 1000
                hard-stop-after 30s
                stats socket {folder}/stats level admin expose-fd listeners
            defaults
                mode {mode}
                timeout connect 20s
                timeout client 40s
                timeout server 40s
                {options}
            listen front
                bind 127.0.0.1:{port}
                server behind 127.0.0.1:{behind}\n""")
        return ["haproxy", *words, "-f", folder / "haproxy.cfg"]
    return configure


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as found:
        return set(found.read().split())


def reload(pair):
    """The master executes itself anew and starts a worker; the old worker ends after its last connection."""
    old = children(pair.server.pid)
    os.kill(pair.server.pid, signal.SIGUSR2)
    wait_until("a new worker", lambda: children(pair.server.pid) - old)


def replace(pair):
    """A second instance takes the listening sockets from the first and asks it to finish (`-sf`)."""
    words = ["haproxy", "-f", pair.folder / "haproxy.cfg", "-x", pair.folder / "stats", "-sf", pair.server.pid]
    pair.replace_server(words)


def steady(action):
    return [own_client("steady.py", meanwhile=action)]


SPLICE = "option splice-auto"
REUSE = "option http-keep-alive\n http-reuse always"
NEEDS = ["haproxy", "nginx"]
CASES = [
    Case("haproxy-tcp", NEEDS, server("tcp"), [FETCH], behind=backend),
    Case("haproxy-http", NEEDS, server("http", options=REUSE), [FETCH, wrk(1, 50)], behind=backend),
    Case("haproxy-splice", NEEDS, server("tcp", options=SPLICE), [FETCH], behind=backend),
    Case("haproxy-http-splice", NEEDS, server("http", options=SPLICE), [FETCH], behind=backend, full=True),
    Case("haproxy-reload", NEEDS, server("http", "-W"), steady(reload), behind=backend),
    Case("haproxy-replace", NEEDS, server("tcp"), steady(replace), behind=backend),
]
