"""Compiles the C programs of the parity tests and lists what there is to run."""

import subprocess
import sys
from pathlib import Path

FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-result", "-pthread"]
# These go through glibc's checking entry points (`__recv_chk` and the like).
FORTIFIED = {"fortify.c": ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]}


def build(here, output):
    """The test binary; only what is older than its source is compiled."""
    output.mkdir(parents=True, exist_ok=True)
    headers = list((here / "harness").glob("*.h"))
    objects, running = [], []
    for source in sorted([*(here / "harness").glob("*.c"), *(here / "cases").glob("*.c")]):
        target = output / f"{source.parent.name}-{source.stem}.o"
        objects.append(target)
        if newer(target, [source, *headers]):
            continue
        command = ["gcc", *FLAGS, *FORTIFIED.get(source.name, []), "-I", here / "harness", "-c", source, "-o", target]
        running.append((source, subprocess.Popen(command)))
        if len(running) >= 2:
            finish(*running.pop(0))
    for job in running:
        finish(*job)
    binary = output / "parity"
    if not newer(binary, objects):
        subprocess.run(["gcc", "-pthread", *objects, "-o", binary], check=True)
        # The same without a dynamic loader: what no library can be loaded into.
        subprocess.run(["gcc", "-static", "-pthread", *objects, "-o", f"{binary}-static"], check=True)
    return binary


def newer(target, sources):
    return target.exists() and all(target.stat().st_mtime >= s.stat().st_mtime for s in sources)


def finish(source, process):
    if process.wait() != 0:
        sys.exit(f"build.py: gcc failed on {source}")


def list_tests(binary, here):
    """Every test of the C binary and of the Python cases."""
    tests = []
    for command in ([str(binary)], [sys.executable, str(here / "python_cases.py")]):
        if not Path(command[-1]).exists():
            continue
        listing = subprocess.run([*command, "list"], check=True, capture_output=True, text=True).stdout
        for line in listing.splitlines():
            name, flags, clause = line.split("\t")
            tests.append({"name": name, "flags": int(flags), "clause": clause, "command": [*command, "subject", name]})
    return tests
