"""PostgreSQL as a user of its own: pgbench in several protocols, COPY of checksummed data."""

import os
import pwd
import re
import subprocess

from _bed import find_program

from .case import SYSTEM_PYTHON, Case, Client, own_client


def user():
    """The server refuses to run as root."""
    if os.geteuid():
        return None
    entry = pwd.getpwnam("postgres")
    return entry.pw_uid, entry.pw_gid


def as_user(words):
    who = user()
    identity = ["setpriv", f"--reuid={who[0]}", f"--regid={who[1]}", "--clear-groups"] if who else []
    subprocess.run([*identity, *words], check=True, capture_output=True, cwd="/", timeout=60)


def server(folder, port):
    data = folder / "data"
    if user():
        os.chown(folder, *user())
    as_user([find_program("initdb"), "-D", data, "-U", "bench", "-A", "trust", "-N", "--locale=C"])
    # Tables for pgbench; nobody else is to meet an empty server.
    options = f"-c listen_addresses= -k {folder} -c fsync=off"
    as_user([find_program("pg_ctl"), "-D", data, "-w", "-l", folder / "setup.log", "-o", options, "start"])
    as_user(["pgbench", "-i", "-q", "-h", folder, "-U", "bench", "postgres"])
    as_user([find_program("pg_ctl"), "-D", data, "-w", "stop"])
    return ["postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", folder, "-c", "fsync=off"]


def transactions(output):
    """All of them, none failed."""
    done = re.search(r"transactions actually processed: (\d+)/\1\s", output)
    failed = re.search(r"failed transactions: (\d+)", output)
    return done and failed and failed.group(1) == "0" and int(done.group(1))


def pgbench(name, *words, **options):
    where = ["-h", "127.0.0.1", "-U", "bench", "postgres"]
    return Client(f"pgbench-{name}", lambda port: ["pgbench", "-n", "-p", port, *words, *where], **options)


def filled(output):
    return "done in" in output


CLIENTS = [
    own_client("copy.py", interpreter=SYSTEM_PYTHON),
    pgbench("fill", "-i", "-s", "1", "-I", "dtGvp", result=filled, upgrades=False),
    pgbench("simple", "-c", "8", "-j", "2", "-t", "100", result=transactions),
    pgbench("prepared", "-c", "8", "-j", "2", "-t", "1000", "-S", "-M", "prepared", result=transactions),
    pgbench("extended", "-c", "20", "-j", "4", "-t", "100", "-N", "-M", "extended", result=transactions, full=True),
    pgbench("reconnecting", "-c", "2", "-t", "50", "-S", "-C", result=transactions, upgrades=False, full=True),
    pgbench("foreign", "-c", "4", "-t", "200", "-S", result=transactions, foreign=True),
]
CASES = [Case("postgres", ["postgres", "initdb", "psql", "pg_ctl", "pgbench"], server, CLIENTS, user=user)]
