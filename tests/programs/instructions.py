#!/usr/bin/env python3
# needs: python3 valgrind
# limit: 600
"""Instructions that a request of 64 bytes and its reply take on our TCP, both ends and the application together: a guard
against code that grows. Wall-clock speed is `ringway bench tcp`'s business; this does not depend on the machine's load.

  * The example `requests` of crates/stack runs under callgrind with few and with many requests; the difference counts.
  * The bound is generous: compilers differ, and timers go off by the clock.

  instructions.py [-v]
"""

import argparse
import os
import re
import subprocess
import tempfile
from pathlib import Path

from _bed import Report, expect

ROOT = Path(__file__).resolve().parents[2]
CONNECTIONS = 64
FEW, MANY = 20, 120
# Of both ends together, for one request and its reply.
BOUND = 11_000


def build():
    """The example, with system calls by libc: valgrind hides the vDSO from whoever looks for it himself."""
    folder = ROOT / "target/instructions"
    command = ["cargo", "build", "--release", "-p", "ringway-stack", "--example", "requests", "--target-dir", folder]
    environment = os.environ | {"RUSTFLAGS": "--cfg rustix_use_libc"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    expect(done.returncode == 0, done.stderr[-2000:])
    return folder / "release/examples/requests"


def instructions(program, requests):
    with tempfile.TemporaryDirectory(prefix="instructions-") as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, str(CONNECTIONS), str(requests)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    expect(done.returncode == 0, done.stderr[-2000:])
    counted = re.search(r"Collected : (\d+)", done.stderr)
    expect(counted, done.stderr[-2000:])
    return int(counted[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    report = Report(parser.parse_args().verbose)
    with report.test("instructions of a request and its reply"):
        program = build()
        each = (instructions(program, MANY) - instructions(program, FEW)) / (CONNECTIONS * (MANY - FEW))
        print(f"{each:.0f} instructions for a request and its reply, at most {BOUND}")
        expect(each <= BOUND, f"{each:.0f} instructions; {BOUND} are the bound")
    report.close()


main()
