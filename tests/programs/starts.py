#!/usr/bin/env python3
# needs: python3 gcc
# wants: musl-tools
# limit: 60
"""Programs that no library gets into start nevertheless, and do what they do without Ringway.

  starts.py [-v]
"""

import argparse
import subprocess
import sys

from _bed import Bed, Report, expect, find_program

PROGRAM = """#include <stdio.h>
int main(void) { puts("started"); return 7; }
"""
# Linked statically, and for a C library that finds nothing of what a library for glibc needs.
COMPILERS = {"static": ["gcc", "-static"], "musl": ["musl-gcc"]}
STARTERS = {
    "run": lambda program: [program],
    "shell": lambda program: ["sh", "-c", f"{program}; exit $?"],
    "exec": lambda program: ["sh", "-c", f"exec {program}"],
    "system": lambda program: python(f"sys.exit(os.waitstatus_to_exitcode(os.system({program!r})))"),
    "subprocess": lambda program: python(f"sys.exit(subprocess.run([{program!r}]).returncode)"),
    "posix_spawn": lambda program: python(f"pid = os.posix_spawn({program!r}, ['x'], os.environ); "
                                          "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"),
    "other environment": lambda program: python(f"os.execve({program!r}, ['x'], {{'LD_PRELOAD': os.environ['LD_PRELOAD']}})"),
}


def python(text):
    return [sys.executable, "-c", f"import os, subprocess, sys; {text}"]


def compile_program(bed, name):
    source, program = bed.folder / "started.c", bed.folder / f"started-{name.replace(' ', '-')}"
    source.write_text(PROGRAM)
    subprocess.run([*COMPILERS[name], source, "-o", program], check=True)
    return str(program)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true", help="name what passed, too")
    report = Report(parser.parse_args().verbose)
    with Bed() as bed:
        for kind, compiler in COMPILERS.items():
            if not find_program(compiler[0]):
                report.skip(kind, f"needs {compiler[0]}")
                continue
            program = compile_program(bed, kind)
            for name, words in STARTERS.items():
                with report.test(f"{kind} by {name}"), bed.running(words(program), True) as started:
                    code = started.wait(20)
                    expect(code == 7 and "started\n" in started.output(), f"exit code {code}: {started.output()[-300:]}")
    report.close()


main()
