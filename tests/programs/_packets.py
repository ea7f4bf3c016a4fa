"""Packet tools as processes of their own, at one monitor."""

import contextlib
import json
import os
import signal
import tempfile
from pathlib import Path

from _bed import RINGWAY, expect, wait_until

IS_ROOT = os.geteuid() == 0
# Who runs the tools where root may choose.
USER = (65534, 65534)
LIMIT_S = 30


class Tool:
    """A packet tool of its own process, which reports in JSON lines."""

    def __init__(self, bed, stack, words, user):
        words = [RINGWAY, *words, "--json", "--interval", "0.1"]
        self.program = bed.start(words, False, env={"RINGWAY_SOCKET": str(bed.sockets / "monitor.sock")},
                                 uid_gid=user if IS_ROOT else None, name=words[1])
        stack.callback(self.program.end)
        # It says what the port is once it is open.
        wait_until(" ".join(words[1:4]), lambda: self.program.output() or not self.program.running())

    def lines(self):
        whole = self.program.output().rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in whole if line.startswith("{")]

    def packets(self):
        """Counted until now: lines give rates, the summary gives the sum."""
        return max((line.get("packets", 0) for line in self.lines()), default=0)

    def passes(self):
        """Waits for packets that were not there yet."""
        seen = len(self.lines())

        def is_news():
            expect(self.program.running(), f"ended: {self.program.output()[-600:]}")
            # The next line's time may have begun before.
            return any(line.get("packets") for line in self.lines()[seen + 1:])
        wait_until("packets at a receiver", is_news, LIMIT_S)

    def ends(self, code=0):
        got = self.program.wait(LIMIT_S)
        expect(got == code, f"exit code {got}: {self.program.output()[-600:]}")

    def kill(self):
        expect(self.program.running(), f"ended before it was killed: {self.program.output()[-600:]}")
        self.program.signal(signal.SIGKILL)
        self.program.wait(LIMIT_S)

    def stop(self):
        """Ends it as Ctrl-C does; what a receiver found in its packets."""
        self.program.signal(signal.SIGINT)
        self.program.wait(LIMIT_S)
        return self.findings()

    def findings(self):
        found = [line["findings"] for line in self.lines() if "findings" in line]
        expect(found, f"no findings: {self.program.output()[-600:]}")
        return {name: sum(one[name] for one in found) for name in found[0]}


class Trial:
    """Tools at one monitor; all end with the test."""

    def __init__(self, bed):
        self.bed, self.stack = bed, contextlib.ExitStack()
        # Of its own, where tools that run as another user may write.
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="packets-")))
        self.folder.chmod(0o777)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def start(self, words, user=USER):
        return Tool(self.bed, self.stack, words, user)

    def gen(self, port, *words, **options):
        return self.start(["gen", "-i", port, "--fill", *words], **options)

    def sink(self, port, *words, **options):
        return self.start(["sink", "-i", port, "--check", *words], **options)
