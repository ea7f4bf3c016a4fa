#!/usr/bin/env python3
# needs: python3 libpython3.11-testsuite gcc
# wants: python3-tornado iproute2 openssl
# limit: 900
# full: 7200
"""CPython's network suites and tornado's own, test by test: the result under Ringway must be that of the plain kernel.

Both ends of a connection are in one process or its children, so what is under Ringway is chosen so:

  native      the plain kernel, twice: tests whose result varies there are named and not compared
  eager       under Ringway, every connection offered as soon as it is made; that some were upgraded is asserted
  threshold   under Ringway as users have it: connections have to earn it
  connecting  only the ends that connect; accepted sockets are made past the library (shims/left_out.c), which meets
              them as sockets that came from elsewhere. Nothing may be upgraded, and connections must have been offered
  accepting   only the accepted ends; those that connect are asked for time stamps first, which keeps them on TCP
  dead        under Ringway, eager, the monitor killed before

Each suite in each mode is a process group in a network namespace of its own. A difference is looked at again: the test
runs alone, natively and in its mode; it is excused, and named, only if the kernel alone comes to that result, too.

  cpython.py [-v] [--full] [--filter WORD] [--mode MODE]
"""

import argparse
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

from _bed import HERE, Bed, Report, expect, find_program
from cases.suites import LEFT_OUT, SUITES

PYTHON = "/usr/bin/python3.11"
RUNNER = HERE / "runners/unittests.py"
SHIM = HERE / "shims/left_out.c"
MODES = ("eager", "threshold", "connecting", "accepting", "dead")
# Modes of `cargo xtask test`.
SHORT_MODES = ("eager", "dead")
TEST_LIMIT_S = 60
SUITE_LIMIT_S = 900
# How often a run is taken up again after a test that ended it.
RESUMES_MAX = 8
# How often a test that differs is run again alone.
TRIES = 5


def namespace():
    """The words that run a command in a network namespace of its own, its loopback up."""
    for flags in (["--net"], ["--map-root-user", "--net"]):
        words = ["unshare", *flags, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if find_program("ip") and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    print("cpython.py: no network namespace of our own; the suites share the host's ports", file=sys.stderr)
    return []


class Runs:
    """Runs suites in a mode; knows the beds, which differ in when connections are offered."""

    def __init__(self, cleanup, options):
        self.enter = namespace()
        self.full = options.full
        self.beds = {None: cleanup.enter_context(Bed()), 0: cleanup.enter_context(Bed(call_threshold=0))}
        self.dead = cleanup.enter_context(Bed(call_threshold=0))
        self.dead.kill_monitor()
        self.shims = {}

    def shim(self, end):
        """The library that leaves out the sockets of one end."""
        if end not in self.shims:
            path = self.beds[0].folder / f"{end}.so"
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"-D{end}", "-o", path, SHIM], check=True)
            self.shims[end] = path
        return str(self.shims[end])

    def bed(self, mode):
        return self.dead if mode == "dead" else self.beds[None if mode == "threshold" else 0]

    def environment(self, mode):
        left_out = {"connecting": "ACCEPTING", "accepting": "CONNECTING"}.get(mode)
        return {"LD_PRELOAD": self.shim(left_out)} if left_out else {}

    def run(self, suite, mode, only=None):
        """({test: (outcome, detail)}, the counters of the library summed up)."""
        bed = self.bed(mode)
        name = f"{suite.module}-{mode}-{time.monotonic_ns()}"
        output = bed.folder / f"{name}.json"
        output.touch()
        words = [*self.enter, PYTHON, RUNNER]
        for pattern in LEFT_OUT:
            words += ["--without", pattern]
        for pattern in only or (() if self.full else suite.short or ()):
            words += ["--only", pattern]
        words += [output, TEST_LIMIT_S, suite.module]
        counters = {}
        for _ in range(RESUMES_MAX):
            with bed.running(words, mode != "native", env=self.environment(mode), name=name) as program:
                program.wait(SUITE_LIMIT_S)
                if mode not in ("native", "dead"):
                    for key, value in bed.counters(program).items():
                        counters[key] = counters.get(key, 0) + value
                said = program.output()
                results, unfinished = read(output, said)
            if unfinished is None:
                break
        expect("\nran " in f"\n{said}", f"the suite did not come to its end: {said[-2000:]}")
        return results, counters


def read(output, said):
    """The results so far, and the test that ended the process, if one did."""
    results, unfinished = {}, None
    for record in map(json.loads, output.read_text().splitlines()):
        if "begin" in record:
            unfinished = record["begin"]
            results[unfinished] = ("did not end", said[-3000:])
        else:
            unfinished = None
            results[record["id"]] = (record["outcome"], record["detail"])
    return results, unfinished


def outcome(results, test):
    return results.get(test, ("absent", ""))[0]


def natively(runs, suite):
    """Native results: each test with the set of outcomes that it came to."""
    tables = [runs.run(suite, "native")[0] for _ in range(2)]
    names = sorted(set().union(*tables))
    for test in names:
        seen = {outcome(table, test) for table in tables}
        if len(seen) > 1:
            print(f"varies   {test}: {', '.join(sorted(seen))} on the plain kernel", flush=True)
    return {test: {outcome(table, test) for table in tables} for test in names}


def settle(runs, suite, mode, test, expected, found):
    """Looks again at a test whose result differs. None if the kernel alone comes to that result, too; else a report."""
    alone = {each: [outcome(runs.run(suite, each, only=[test])[0], test) for _ in range(TRIES)] for each in ("native", mode)}
    expected.update(alone["native"])
    if found[0] in expected:
        print(f"varies   {test}: {', '.join(sorted(expected))} on the plain kernel", flush=True)
        return None
    return f"{test}: {'/'.join(sorted(expected))} natively, here {found[0]}; alone {alone[mode]}: {found[1]}"


def compare(runs, suite, mode, native):
    """Runs a suite in a mode; returns the counters. Fails on any difference."""
    results, counters = runs.run(suite, mode)
    differences = []
    for test in sorted(native.keys() | results.keys()):
        found = results.get(test, ("absent", ""))
        if found[0] not in native.get(test, {"absent"}):
            difference = settle(runs, suite, mode, test, native.setdefault(test, {"absent"}), found)
            differences += [difference] if difference else []
    expect(not differences, f"{len(differences)} of {len(results)} differ\n" + "\n".join(differences))
    judge_counters(suite, mode, counters)
    return len(results), counters.get("connections_upgraded", 0)


def judge_counters(suite, mode, counters):
    """Were connections upgraded where they should have been, and only there?"""
    upgraded, offered = (counters.get(f"connections_{what}", 0) for what in ("upgraded", "offered"))
    if mode == "eager" and suite.connects:
        expect(upgraded > 0 and counters.get("ring_tx_bytes", 0) > 0, f"no connection was upgraded, {offered} were offered")
    if mode in ("connecting", "accepting"):
        expect(upgraded == 0, f"{upgraded} connections were upgraded although one end was left out")
        expect(offered > 0 or not suite.connects, "no connection was offered")


def chosen(options):
    """The suites of this run; what cannot run is told to the caller by a reason."""
    for suite in SUITES:
        if options.filter not in suite.module or not (options.full or suite.short != ()):
            continue
        tornado = suite.module.startswith("tornado.") and not Path("/usr/lib/python3/dist-packages/tornado/test").exists()
        yield suite, "needs python3-tornado" if tornado else None


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all suites, whole, in all modes")
    parser.add_argument("--filter", default="", help="only suites whose module contains this")
    parser.add_argument("--mode", choices=MODES, help="only this one, beside native")
    parser.add_argument("-v", "--verbose", action="store_true", help="name what passed, too")
    return parser.parse_args()


def main():
    options = parse()
    report = Report(options.verbose)
    for pattern, reason in LEFT_OUT.items():
        report.skip(pattern, reason)
    table = []
    with contextlib.ExitStack() as cleanup:
        runs = Runs(cleanup, options)
        for suite, obstacle in chosen(options):
            if obstacle:
                report.skip(suite.module, obstacle)
                continue
            native = {}
            with report.test(f"{suite.module} native"):
                native = natively(runs, suite)
            for mode in [options.mode] if options.mode else MODES if options.full else SHORT_MODES:
                with report.test(f"{suite.module} {mode}"):
                    expect(native, "there is nothing to compare with")
                    table.append((suite.module, mode, *compare(runs, suite, mode, native)))
    print(f"\n{'suite':36}{'mode':12}{'tests alike':>12}{'upgraded':>10}")
    for module, mode, tests, upgraded in table:
        print(f"{module:36}{mode:12}{tests:12}{upgraded:10}")
    report.close()


main()
