"""nginx: static files with and without sendfile, under load, as a proxy, and what it does to itself while
it serves: reload and binary upgrade."""

import os
import re
import signal
import sys

from _bed import CLIENTS, expect, find_program, wait_until

from .case import Case, Client, own_client

sys.path.append(str(CLIENTS))
from fetch import lengths, make_files  # noqa: E402


def configure(folder, listen, http, server=""):
    """Writes the configuration; gives nginx's words. Every path is inside the folder."""
    temporary = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    # Two users are not paired unless the policy says so, so workers keep ours.
    own_user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(f"""{own_user}
        daemon off; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/error.log;
        events {{ worker_connections 1024; }}
        http {{ access_log off; keepalive_requests 1000000000; {temporary} {http}
                server {{ listen 127.0.0.1:{listen} backlog=1024; root {folder}; client_max_body_size 64m; {server} }} }}
        """)
    return ["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]


def static(options):
    def server(folder, port):
        make_files(folder)
        return configure(folder, port, options, "location /up { dav_methods PUT; create_full_put_path on; }")
    return server


def orphaned(folder, port):
    """In the foreground nginx takes a parent that stays for a binary that is being replaced, and refuses."""
    make_files(folder)
    words = " ".join(configure(folder, port, "sendfile on;"))
    start = f"{find_program('nginx')} {words.removeprefix('nginx ')} & until [ -s {folder}/nginx.pid ]; do sleep 0.01; done"
    return ["sh", "-c", f"sh -c '{start}'; exec sleep 1000"]


def backend(folder, port, _):
    make_files(folder)
    return configure(folder, port, "sendfile on;")


def proxy(options):
    def server(folder, port, behind):
        upstream = f"upstream behind {{ server 127.0.0.1:{behind}; keepalive 8; }}"
        passing = f'location / {{ proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; {options} }}'
        return configure(folder, port, upstream, passing)
    return server


def no_errors(output):
    """wrk names socket errors and bad answers only when there are any."""
    served = re.search(r"(\d+) requests in", output)
    return bool(served) and int(served.group(1)) > 100 and not re.search(r"Socket errors|Non-2xx", output)


def wrk(threads, connections, file="file0", **options):
    words = ["wrk", f"-t{threads}", f"-c{connections}", "-d1s", "--timeout", "20s"]
    return Client(f"wrk-c{connections}", lambda port: [*words, f"http://127.0.0.1:{port}/{file}"], no_errors, ("wrk",), **options)


def pid_in(file):
    return int(file.read_text()) if file.exists() and file.read_text().strip() else 0


def workers(master):
    with open(f"/proc/{master}/task/{master}/children") as children:
        return set(children.read().split())


def reload(pair):
    """New workers take over; the old ones end once their last connection has."""
    master = pid_in(pair.folder / "nginx.pid")
    old = workers(master)
    os.kill(master, signal.SIGHUP)
    wait_until("new workers", lambda: len(workers(master) - old) == len(old))


def upgrade_binary(pair):
    """A new master, executed by the old one, inherits the listening sockets; the old one retires."""
    file, old_file = pair.folder / "nginx.pid", pair.folder / "nginx.pid.oldbin"
    old = pid_in(file)
    os.kill(old, signal.SIGUSR2)
    wait_until("a new master", lambda: old_file.exists() and pid_in(file) not in (0, old) and len(workers(pid_in(file))) == 2)
    expect(pid_in(old_file) == old, "the old master's file")
    os.kill(old, signal.SIGQUIT)


FETCH = own_client("fetch.py")
CASES = [
    Case("nginx-sendfile", ["nginx"], static("sendfile on; tcp_nopush on;"), [FETCH, wrk(1, 20, "file10"), wrk(2, 400)]),
    Case("nginx-buffers", ["nginx"], static("sendfile off;"), [FETCH, wrk(1, 20, "file10", full=True)]),
    Case("nginx-proxy", ["nginx"], proxy(""), [FETCH, wrk(1, 20, full=True)], behind=backend),
    Case("nginx-proxy-unbuffered", ["nginx"], proxy("proxy_buffering off;"), [FETCH], behind=backend, full=True),
    Case("nginx-reload", ["nginx"], static("sendfile on;"), [own_client("steady.py", meanwhile=reload)]),
    Case("nginx-upgrade", ["nginx"], orphaned, [own_client("steady.py", meanwhile=upgrade_binary)]),
]
