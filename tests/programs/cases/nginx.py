"""nginx: static files with and without sendfile, under load, and what it does to itself while it serves."""

import os
import re
import sys

from _bed import CLIENTS

from .case import Case, Client, own_client

sys.path.append(str(CLIENTS))
from fetch import lengths, make_files  # noqa: E402


def configure(folder, listen, http, user="root", workers=2):
    """Writes the configuration; gives nginx's words. Every path is inside the folder."""
    temporary = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    # Two users are not paired unless the policy says so, so workers keep ours.
    own_user = f"user {user};" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(f"""{own_user}
        daemon off; worker_processes {workers}; pid {folder}/nginx.pid; error_log {folder}/error.log;
        worker_shutdown_timeout 20s;
        events {{ worker_connections 512; }}
        http {{ access_log off; keepalive_requests 1000000000; {temporary} {http}
                server {{ listen 127.0.0.1:{listen}; root {folder}; }} }}
        """)
    return ["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]


def static(sendfile):
    def server(folder, port):
        make_files(folder)
        return configure(folder, port, f"sendfile {sendfile};")
    return server


def no_errors(output):
    """wrk names socket errors and bad answers only when there are any."""
    served = re.search(r"(\d+) requests in", output)
    return bool(served) and int(served.group(1)) > 100 and not re.search(r"Socket errors|Non-2xx", output)


def downloads(port):
    """curl fetches every file by one kept-alive connection; the checksums are of its own making."""
    links = " ".join(f"http://127.0.0.1:{port}/file{n} -o -" for n in range(len(lengths())))
    return ["sh", "-c", f"curl -sS --fail --max-time 40 {links} | sha256sum | sed 's/^/digest /; s/ *-$//'"]


CURL = Client("curl", downloads)
WRK = Client("wrk", lambda port: ["wrk", "-t1", "-c20", "-d2s", f"http://127.0.0.1:{port}/file10"], no_errors)
CASES = [Case("nginx-sendfile", ["nginx", "curl", "wrk"], static("on"), [own_client("fetch.py"), CURL, WRK]),
         Case("nginx-buffers", ["nginx"], static("off"), [own_client("fetch.py"), WRK])]
