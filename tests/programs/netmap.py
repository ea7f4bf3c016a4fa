#!/usr/bin/env python3
# needs: python3 gcc g++ pkgconf
# limit: 180
"""netmap's programs in C where the kernel has no /dev/netmap. Each checks content and order of what it passes on, or one clause of the interface,
and exits with 0.

  * Compiled against the interface's numbers alone (what a program that was compiled elsewhere knows), and run by `ringway run`.
  * Compiled against our headers and libnetmap, shared and static, found by pkg-config, and run by themselves.
  * Sender, bridge and receiver in one process, and as three that meet by name at the monitor; over pipes and switches.
  * The program in docs/netmap.md, by the page's commands.

  netmap.py [-v]
"""

import argparse
import contextlib

from _bed import ROOT, Bed, Report, expect
from _installed import Installed

SOURCES = ROOT / "tests/netmap"
LIMIT_S = 60
# Programs for the interface's numbers or headers alone, run by `ringway run`, and the words that they are run with.
UNDER = [("pipe", "poll"), ("pipe", "select"), ("pipe", "epoll"), ("pipe", "edge"), ("passed",)]
# Ports of the sender, of the bridge's two sides, and of the receiver.
PLACES = {
    "pipes": ["netmap:x{1", "netmap:x}1", "netmap:x{2", "netmap:x}2"],
    "switches": ["vale0:sender", "vale0:bridge", "vale1:bridge", "vale1:receiver"],
}


class Trials:
    def __init__(self, bed, report):
        self.bed, self.report = bed, report
        self.installed = Installed(bed.folder, "ringway-netmap")
        # A program without `ringway run` meets others where this says.
        self.meeting = {"RINGWAY_SOCKET": str(bed.sockets / "monitor.sock")}

    def compile(self, name, sources, libraries=()):
        return self.installed.compile(name, [SOURCES / f"{source}.c" for source in sources], libraries)

    def ends(self, started):
        """All have ended with 0, whoever ends first."""
        with contextlib.ExitStack() as running:
            programs = [running.enter_context(program) for program in started]
            for program in programs:
                code = program.wait(LIMIT_S)
                expect(code == 0, f"{' '.join(map(str, program.words))}: exit code {code}: {program.output()[-600:]}")

    def traffic(self, name, program, under):
        for place, ports in PLACES.items():
            sender, inner, outer, receiver = ports
            with self.report.test(f"{name}, {place}, one process"):
                # By itself: nobody is told where a monitor is.
                self.ends([self.bed.running([program, "all", *ports], under)])
            with self.report.test(f"{name}, {place}, three processes"):
                roles = [["receive", receiver], ["send", sender], ["bridge", inner, outer]]
                self.ends([self.bed.running([program, *role], under, env=self.meeting) for role in roles])

    def page(self):
        page = (ROOT / "docs/netmap.md").read_text()
        (self.bed.folder / "hello.c").write_text(page.partition("```c\n")[2].partition("```")[0])
        program = self.installed.compile("hello", [self.bed.folder / "hello.c"], self.installed.libraries["shared"])
        for under in [True, False]:
            with self.bed.running([program], under) as hello:
                expect(hello.wait(LIMIT_S) == 0 and hello.output() == "60 bytes: hello\n", hello.output())

    def all(self):
        for source, *words in UNDER:
            with self.report.test(" ".join([source, *words])):
                program = self.compile(source, [source], ["-pthread"])
                self.ends([self.bed.running([program, *words], True)])
        with self.report.test("the page's program"):
            self.page()
        headers = ["net/netmap.h", "net/netmap_user.h", "libnetmap.h"]
        self.installed.headers_alone(self.report, headers, "#define NETMAP_WITH_LIBS\n")
        self.traffic("numbers under ringway run", self.compile("bare", ["traffic", "bare"]), True)
        for kind, libraries in self.installed.libraries.items():
            for way in ["nm", "nmport"]:
                with self.report.test(f"{way}, {kind}: single calls"):
                    self.ends([self.bed.running([self.compile(f"{way}_calls-{kind}", [f"{way}_calls"], libraries)], False)])
                program = self.compile(f"{way}-{kind}", ["traffic", way], libraries)
                self.traffic(f"{way}, {kind}", program, False)
                if kind == "shared":
                    self.traffic(f"{way}, {kind}, under ringway run", program, True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    report = Report(parser.parse_args().verbose)
    with Bed() as bed:
        Trials(bed, report).all()
    report.close()


main()
