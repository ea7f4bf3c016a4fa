#!/usr/bin/env python3
# needs: python3
# wants: redis-server redis-tools memcached nginx-light haproxy postgresql curl wrk iperf3 sockperf nodejs default-jdk-headless
# limit: 600
"""Real programs in pairs under Ringway and against plain peers, with content that is checked.

Each client of each case (folder `cases`) runs in these modes, and must come to the same result in all:

  native   both plain: what the others are compared with
  both     both under Ringway; that both ends were upgraded and used their rings is asserted
  server   only the server under Ringway; nothing may be upgraded
  client   only the client under it
  killed   both under it; the monitor is killed in the middle of the traffic

  pairs.py [-v] [--filter WORD] [--mode MODE]
"""

import argparse
import subprocess

from _bed import Bed, Report, answers, expect, find_program, free_port, wait_until
from cases import nginx, python, redis

CASES = [redis.CASE, *nginx.CASES, *python.CASES]
MODES = ("native", "both", "server", "client", "killed")
UNDER = {"native": (False, False), "both": (True, True), "server": (True, False), "client": (False, True),
         "killed": (True, True)}


class Pair:
    """A case in one mode, its server running."""

    def __init__(self, bed, case, mode, server, port):
        self.bed, self.case, self.mode, self.server, self.port = bed, case, mode, server, port
        self.under = UNDER[mode][1]

    def run(self, client):
        """The client's result."""
        before = self.bed.counters(self.server)
        hold = self.mode == "killed" and client.holds
        words = client.command(self.port) + (["--hold"] if hold else [])
        stdin = subprocess.PIPE if hold else subprocess.DEVNULL
        options = {"stdin": stdin, "env": client.env, "uid_gid": self.case.user(), "name": f"client-{client.name}"}
        with self.bed.running(words, self.under, **options) as program:
            if self.mode == "killed":
                self.kill_monitor(program, before, hold)
            code = program.wait(client.limit_s)
            output = program.output()
            expect(code == 0, f"exit code {code}: {output[-800:]}")
            result = client.result(output)
            expect(result, f"no result: {output[-800:]}")
            if self.mode != "killed" and client.upgrades:
                self.judge_upgrades(program, before)
        expect(self.server.running(), f"the server ended: {self.server.output()[-600:]}")
        return result

    def kill_monitor(self, program, before, hold):
        """Once both ends are upgraded and the client is in the middle of its work, or over with it."""
        def upgraded():
            seen = self.bed.upgraded(self.server) > before.get("connections_upgraded", 0) and self.bed.upgraded(program)
            return not program.running() or (seen and (not hold or "half" in program.output()))
        wait_until("an upgrade on both ends", upgraded)
        self.bed.kill_monitor()
        if hold:
            program.process.stdin.write(b"go on\n")
            program.process.stdin.flush()

    def judge_upgrades(self, program, before):
        """Both ends upgraded and used, or not a single one."""
        wanted = self.mode == "both"
        for end, run, start in (("server", self.server, before), ("client", program, {})):
            counters = self.bed.counters(run)
            for name in ("connections_upgraded", "ring_tx_bytes", "ring_rx_bytes"):
                grown = counters.get(name, 0) - start.get(name, 0)
                expect((grown > 0) == wanted, f"{end}: {name} grew by {grown}")


def run_mode(bed, report, case, mode, results):
    """All clients against one server; results of the native mode are what the others must equal."""
    folder = bed.folder / f"{case.name}-{mode}"
    folder.mkdir()
    port = free_port()
    words = case.server(folder, port)
    uid_gid = case.user()
    with bed.serving(words, UNDER[mode][0], port, uid_gid=uid_gid, name=f"{case.name}-{mode}") as server:
        pair = Pair(bed, case, mode, server, port)
        for client in case.clients:
            with report.test(f"{case.name} {client.name} {mode}"):
                bed.start_monitor()
                result = pair.run(client)
                expected = results.setdefault(client.name, result)
                expect(result == expected, f"native gave {expected}, here {result}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument("--mode", choices=MODES, help="only this one, beside native")
    parser.add_argument("-v", "--verbose", action="store_true", help="name what passed, too")
    options = parser.parse_args()
    report = Report(options.verbose)
    with Bed() as bed:
        for case in (case for case in CASES if options.filter in case.name):
            missing = [name for name in case.needs if not find_program(name)]
            if missing:
                report.skip(case.name, f"needs {' '.join(missing)}")
                continue
            results = {}
            for mode in MODES:
                if options.mode in (None, mode) or mode == "native":
                    with report.test(f"{case.name} server {mode}"):
                        run_mode(bed, report, case, mode, results)
    report.close()


main()
