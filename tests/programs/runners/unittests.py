"""Runs unittest modules and writes one JSON line for each test: the runner that programs under test share.

  unittests.py [--without PATTERN]... [--only PATTERN]... OUTPUT LIMIT_S MODULE

OUTPUT grows by `{"begin": ID}` and `{"id": ID, "outcome": WORD, "detail": TEXT}`. Patterns are the shell's, for IDs.
Tests that OUTPUT names already are left out, so that a run can be taken up again after a test that killed it. A
test that lasts longer than LIMIT_S ends the process with a traceback of every thread.
"""

import argparse
import faulthandler
import fnmatch
import gc
import json
import os
import tempfile
import unittest


class Recorder(unittest.TestResult):
    """Writes down what becomes of each test; the worst of its parts counts."""

    def __init__(self, output, limit_s):
        super().__init__()
        self.output, self.limit_s = output, limit_s
        self.outcome, self.detail = "passed", ""

    def write(self, **record):
        self.output.write(json.dumps(record) + "\n")
        self.output.flush()

    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.detail = "passed", ""
        self.write(begin=test.id())
        faulthandler.dump_traceback_later(self.limit_s, exit=True)

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        self.write(id=test.id(), outcome=self.outcome, detail=self.detail)

    def judge(self, test, outcome, detail):
        self.outcome, self.detail = outcome, detail
        # What fails while a class or module is set up belongs to no test.
        if not isinstance(test, unittest.TestCase):
            self.write(id=test.id(), outcome=outcome, detail=detail)

    def addError(self, test, problem):
        super().addError(test, problem)
        self.judge(test, "failed", self.errors[-1][1][-3000:])

    def addFailure(self, test, problem):
        super().addFailure(test, problem)
        self.judge(test, "failed", self.failures[-1][1][-3000:])

    def addSubTest(self, test, part, problem):
        super().addSubTest(test, part, problem)
        if problem:
            self.judge(test, "failed", self._exc_info_to_string(problem, test)[-3000:])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.outcome == "passed":
            self.judge(test, "skipped", reason)

    def addExpectedFailure(self, test, problem):
        super().addExpectedFailure(test, problem)
        self.judge(test, "failed as expected", "")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.judge(test, "failed", "unexpected success")


def flat(suite):
    """The tests of a suite of suites."""
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from flat(entry)
        else:
            yield entry


def prepare(module):
    """What the projects' own runners set up before their tests."""
    if module.startswith("tornado."):
        from tornado.options import define
        for name in ("httpclient", "locale"):
            define(name, type=str)
        return
    import test.support
    # Only what needs nothing but this host ("network" is asked for by tests of the loopback, too).
    test.support.use_resources = ["cpu", "largefile", "network", "subprocess", "tzdata", "walltime"]
    test.support.verbose = 0


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("output")
    parser.add_argument("limit_s", type=float)
    parser.add_argument("module")
    return parser.parse_args()


def main():
    options = parse()
    with open(options.output) as earlier:
        done = {record.get("begin") or record["id"] for record in map(json.loads, earlier)}

    def wanted(name):
        among = lambda patterns: any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        return name not in done and not among(options.without) and (not options.only or among(options.only))

    os.chdir(tempfile.mkdtemp(dir=os.path.dirname(options.output)))
    prepare(options.module)
    loaded = flat(unittest.defaultTestLoader.loadTestsFromName(options.module))
    suite = unittest.TestSuite(test for test in loaded if wanted(test.id()))
    # Tests that collect garbage over and over need not look at what stays.
    gc.freeze()
    with open(options.output, "a") as file:
        recorder = Recorder(file, options.limit_s)
        suite.run(recorder)
    print(f"ran {recorder.testsRun}")


if __name__ == "__main__":
    main()
