#!/usr/bin/env python3
# needs: python3 gcc
# limit: 180
"""netmap's programs in C, compiled against the interface's numbers alone or against our header, run by `ringway run` where the kernel has no
/dev/netmap. Each checks content and order of what it passes on, or one clause of the interface, and exits with 0.

  netmap.py [-v]
"""

import argparse
from pathlib import Path
import subprocess

from _bed import Bed, Report, expect

INCLUDE = Path(__file__).parent.parent.parent / "include"
SOURCES = Path(__file__).parent.parent / "netmap"
# A program, and the words that it is run with: each line is a test.
RUNS = [
    ("pipe", "poll"),
    ("pipe", "select"),
    ("pipe", "epoll"),
    ("passed",),
]
LIMIT_S = 60


def compile_all(folder):
    for source in sorted({program for program, *_ in RUNS}):
        words = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", INCLUDE, "-o", folder / source]
        subprocess.run([*words, SOURCES / f"{source}.c"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    report = Report(parser.parse_args().verbose)
    with Bed() as bed:
        compile_all(bed.folder)
        for program, *words in RUNS:
            with report.test(" ".join([program, *words])):
                with bed.running([bed.folder / program, *words], True) as run:
                    code = run.wait(LIMIT_S)
                    expect(code == 0, f"exit code {code}: {run.output()[-600:]}")
    report.close()


main()
