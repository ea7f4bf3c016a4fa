#!/usr/bin/env python3
# needs: python3
# wants: redis-server redis-tools memcached nginx-light haproxy postgresql curl wrk iperf3 sockperf nodejs default-jdk-headless python3-uvloop
# limit: 600
# full: 3600
"""Real programs in pairs under Ringway and against plain peers, with content that is checked.

Each client of each case (folder `cases`) runs in these modes, and must come to the same result in all:

  native   both plain: what the others are compared with
  both     both under Ringway; that both ends were upgraded and used their rings is asserted
  server   only the server under Ringway; nothing may be upgraded
  client   only the client under it
  killed   both under it; the monitor is killed in the middle of the traffic
  restarts both under it; the monitor is killed and started anew all the time

  pairs.py [-v] [--filter WORD] [--mode MODE] [--profile PROFILE] [--full]

`--full` adds the cases and clients that take longer, and goes through all of them in each profile.
"""

import argparse
import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from _bed import Bed, Failure, Report, expect, find_program, free_port, listens, wait_until
from cases import curl, haproxy, java, load, memcached, nginx, node, postgres, python, redis

CASES = [*redis.CASES, *memcached.CASES, *nginx.CASES, *curl.CASES, *haproxy.CASES, *postgres.CASES, *load.CASES,
         *node.CASES, *java.CASES, *python.CASES]
# How often a client may work until all ends are upgraded: some have done all their sending before.
TRIES = 3
MODES = ("native", "both", "server", "client", "killed", "restarts")
PROFILES = ("balanced", "latency", "efficient")
UNDER = {"native": (False, False), "both": (True, True), "server": (True, False), "client": (False, True),
         "killed": (True, True), "restarts": (True, True)}
USED = ("connections_upgraded", "ring_tx_bytes", "ring_rx_bytes")


class NotUpgraded(Failure):
    """An end that was to use a ring did not."""


class Pair:
    """A case in one mode, its servers running."""

    def __init__(self, bed, stack, case, mode, folder):
        self.bed, self.stack, self.case, self.mode, self.folder = bed, stack, case, mode, folder
        self.server_under, self.client_under = UNDER[mode]
        self.port = free_port()
        # All that served at the port, one after the other; and what is behind them.
        self.servers, self.behind = [], []

    def start(self):
        """The server, and before it the one behind it if there is one; they end with the stack."""
        ports = [self.port]
        if self.case.behind:
            ports.append(free_port())
            (folder := self.folder / "behind").mkdir()
            words = self.case.behind(folder, ports[1], self.port)
            self.behind.append(self.serve(words, self.server_under and self.client_under, ports[1]))
        self.servers.append(self.serve(self.case.server(self.folder, *ports), self.server_under, self.port))

    def serve(self, words, under, port):
        return self.stack.enter_context(self.bed.serving(words, under, port, env=self.case.env, uid_gid=self.case.user()))

    def replace_server(self, words):
        """Another server takes over; the one before it ends by itself."""
        self.servers.append(self.serve(words, self.server_under, self.port))

    @property
    def server(self):
        return self.servers[-1]

    def counters(self, programs):
        """What these programs have counted together."""
        each = [self.bed.counters(program) for program in programs]
        return {name: sum(counters.get(name, 0) for counters in each) for name in USED}

    def run(self, client):
        """The client's result. One whose work was over before all ends were upgraded works again, a few times."""
        for _ in range(TRIES - 1):
            try:
                return self.work(client)
            except NotUpgraded:
                pass
        return self.work(client)

    def work(self, client):
        before = {name: self.counters(programs) for name, programs in self.ends()}
        hold = client.holds and bool(self.mode == "killed" or client.meanwhile)
        words = client.command(self.port) + (["--hold"] if hold else [])
        options = {"stdin": subprocess.PIPE if hold else subprocess.DEVNULL, "env": client.env, "name": f"client-{client.name}",
                   "uid_gid": None if client.foreign else self.case.user()}
        restarts = self.bed.restarting_monitor() if self.mode == "restarts" else contextlib.nullcontext()
        with restarts, self.bed.running(words, self.client_under, **options) as program:
            self.disturb(client, program, before, hold)
            code = program.wait(client.limit_s)
            output = program.output()
            expect(code == 0, f"exit code {code}: {output[-800:]}")
            result = client.result(output)
            expect(result, f"no result: {output[-800:]}")
            if self.mode not in ("killed", "restarts"):
                self.judge_upgrades(client, program, before)
        expect(listens(self.port), f"the server is gone: {self.server.output()[-600:]}")
        return result

    def ends(self, *clients):
        return [(name, programs) for name, programs in
                (("server", self.servers), ("server behind", self.behind), ("client", clients)) if programs]

    def disturb(self, client, program, before, hold):
        """What happens while the client works: to the monitor, to the server."""
        def passed(condition):
            return lambda: not program.running() or condition()
        if hold:
            wait_until("half of the work", passed(lambda: "half" in program.output()), client.limit_s)
        if self.mode == "killed":
            if client.upgrades and not client.foreign:
                wait_until("an upgrade on both ends", passed(lambda: self.upgraded(program, before)))
            self.bed.kill_monitor()
        if client.meanwhile and program.running():
            client.meanwhile(self)
            if self.mode == "both":
                after = {"server": self.counters(self.servers)}
                wait_until("an upgrade by the new server", passed(lambda: self.upgraded(program, after)))
        if hold and program.running():
            program.process.stdin.write(b"go on\n")
            program.process.stdin.flush()

    def upgraded(self, program, before):
        """Whether both ends have upgraded connections since then."""
        seen = self.counters(self.servers)["connections_upgraded"]
        return seen > before["server"]["connections_upgraded"] and self.bed.upgraded(program)

    def judge_upgrades(self, client, program, before):
        """Every end upgraded and used, or not a single connection."""
        wanted = self.mode == "both" and not client.foreign
        if wanted and not client.upgrades:
            return
        for end, programs in self.ends(program):
            if end == "server behind" and client.foreign:
                continue
            after, start = self.counters(programs), before.get(end, {})
            grown = {name: after[name] - start.get(name, 0) for name in USED}
            if end == "server behind":
                # The one in front keeps connections for its next client, so these may be upgraded already.
                grown["connections_upgraded"] = after["connections_upgraded"]
            if client.one_way and wanted:
                grown["ring_tx_bytes"] = grown["ring_rx_bytes"] = grown["ring_tx_bytes"] + grown["ring_rx_bytes"]
            for name, growth in grown.items():
                if wanted and growth == 0:
                    raise NotUpgraded(f"{end}: {name} did not grow")
                expect(wanted or growth == 0, f"{end}: {name} grew by {growth}")


def run_mode(bed, report, case, mode, clients, results):
    """Some clients against one server; results of the native mode are what the others must equal."""
    folder = Path(tempfile.mkdtemp(prefix=f"{case.name}-{mode}-", dir=bed.folder))
    folder.chmod(0o755)
    bed.start_monitor()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        pair = Pair(bed, stack, case, mode, folder)
        pair.start()
        for client in clients:
            with report.test(f"{case.name} {client.name} {mode} {bed.profile}"):
                result = pair.run(client)
                expected = results.setdefault(client.name, result)
                expect(result == expected, f"native gave {expected}, here {result}")


def run_case(bed, report, case, modes, full):
    missing = missing_of(case.needs)
    if missing:
        return report.skip(case.name, f"needs {missing}")
    clients, results = [], {}
    for client in (client for client in case.clients if full or not client.full):
        missing = missing_of(client.needs)
        if missing:
            report.skip(f"{case.name} {client.name}", f"needs {missing}")
        else:
            clients.append(client)
    for mode in modes:
        # A monitor dies once in a server's life.
        for group in [[client] for client in clients] if mode == "killed" else [clients]:
            with report.test(f"{case.name} server {mode} {bed.profile}"):
                run_mode(bed, report, case, mode, group, results)


def missing_of(needs):
    return " ".join(name for name in needs if not (Path(name).exists() if "/" in name else find_program(name)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument("--mode", choices=MODES, help="only this one, beside native")
    parser.add_argument("--profile", choices=PROFILES, help="only this one")
    parser.add_argument("--full", action="store_true", help="everything, in every profile")
    parser.add_argument("-v", "--verbose", action="store_true", help="name what passed, too")
    options = parser.parse_args()
    report = Report(options.verbose)
    modes = [mode for mode in MODES if options.mode in (None, mode) or mode == "native"]
    profiles = [options.profile] if options.profile else PROFILES if options.full else PROFILES[:1]
    for profile in profiles:
        with Bed(profile) as bed:
            for case in CASES:
                if options.filter in case.name and (options.full or not case.full):
                    run_case(bed, report, case, modes, options.full)
    report.close()


main()
