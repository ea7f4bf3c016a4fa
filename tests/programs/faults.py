#!/usr/bin/env python3
# needs: python3 gcc
# wants: strace
# limit: 300
# full: 3600
"""Faults at random points under load: SIGKILL of either end, of members of a fork family and of the monitor, SIGSTOP.

Traffic checks itself (`clients/checked.c`). After each point:

  * no hang: whoever survives comes to an end, or carries on, within a limit;
  * no byte lost, doubled or reordered before the failure;
  * the survivor sees what it would see on the kernel's TCP: how the end shows in the call that meets it, in poll, and
    in the recv and sends after it. Reference runs without Ringway say what is possible.

  faults.py [-v] [--full] [--points N] [--seed N] [--only KIND] [--point N]

The seed is printed; a point is its seed and number alone, so `--seed S --point N` repeats it.
"""

import argparse
import os
import random
import signal
import time
from collections import Counter

from _bed import Bed, Report, expect, find_program, wait_until
from _faulty import CONNECTIONS, LONGEST, Pair, compile_checked
from _quiet import expect_no_waiting

POINTS, POINTS_FULL = 30, 1000
# Runs without Ringway for each kind of death: the lists below are the kernel's, not ours.
NATIVE, NATIVE_FULL = 6, 40
# How the kernel's TCP shows a peer that was killed (`examine` in checked.c: the call that meets the end, then poll,
# recv, two sends, poll). IN, OUT, ERR, HUP and RDHUP are 1, 4, 8, 0x10 and 0x2000.
ORDERLY = "recv end poll 0x2005 recv end send data EPIPE poll 0x2015"
# The answer to the byte that was sent to the closed socket may take a while.
ORDERLY_SLOW = {f"recv end poll 0x2005 recv end send {again} poll {bits}"
                for again, bits in (("data data", "0x2005"), ("data data", "0x201d"), ("data EPIPE", "0x2015"))}
# The same, of what was sent before it died; seen by those who send in both directions.
LATE_SLOW = "recv end poll 0x2005 recv end send EPIPE EPIPE poll 0x2015"
# Bytes lay unread when it died.
RESET = "recv ECONNRESET poll 0x2015 recv end send EPIPE EPIPE poll 0x2015"
RESET_SENDING = "send ECONNRESET poll 0x2015 recv end send EPIPE EPIPE poll 0x2015"
# None did, and what was sent then met a closed socket.
LATE = "recv end poll 0x201d recv end send EPIPE EPIPE poll 0x2015"
LATE_SENDING = "send EPIPE poll 0x2015 recv end send EPIPE EPIPE poll 0x2015"
ANY = {ORDERLY, *ORDERLY_SLOW, LATE_SLOW, RESET, RESET_SENDING, LATE, LATE_SENDING}
# Kind, who is killed (0 connects, 1 listens), and what the other one may see.
DEATHS = [("stream", 0, {ORDERLY, *ORDERLY_SLOW}), ("stream", 1, {RESET_SENDING, LATE_SENDING}),
          ("echo", 0, ANY), ("echo", 1, ANY), ("many", 0, ANY), ("many", 1, ANY)]
# Answers that those who carry on must still give.
MORE_ROUNDS = 400


class Faults:
    """One run: its bed, what the kernel was seen to do, and how often the rings were in use."""

    def __init__(self, bed, options):
        self.bed, self.options = bed, options
        self.binary = compile_checked(bed.folder)
        self.hits = Counter()

    def random(self, *names):
        return random.Random(f"{self.options.seed} {names}")

    def pair(self, kind, under, rng, amount=0):
        return Pair(self.bed, self.binary, kind, under, rng.randrange(1 << 30), amount)

    def check_lists(self, runs):
        """The kernel shows what the lists say and, often enough looked at, all of it."""
        seen = set()
        for kind, victim, possible in DEATHS:
            for number in range(runs):
                seen |= self.death(kind, victim, possible, False, self.random("native", kind, victim, number), number % 3)
        if runs >= NATIVE_FULL:
            missing = ANY - ORDERLY_SLOW - {LATE_SLOW} - seen
            expect(not missing, f"the kernel was never seen to show {sorted(missing)}")

    def death(self, kind, victim, possible, under, rng, how):
        """Kills one end and judges the survivor's last words. `how`: 0 in full flight, 1 stopped for a while
        before, so that bytes lie unread, 2 after the other end was stopped, so that none do."""
        with self.pair(kind, under, rng) as pair:
            pair.wait_for_traffic()
            time.sleep(rng.choice([rng.uniform(0, 0.003), rng.uniform(0, 0.05)]))
            survivor = 1 - victim
            if how:
                pair.ends[victim if how == 1 else survivor].signal(signal.SIGSTOP)
                time.sleep(0.05)
            if under:
                self.hits["deaths on rings"] += all(n >= 1 for n in pair.upgraded())
            pair.ends[victim].signal(signal.SIGKILL)
            if how == 2:
                pair.ends[survivor].signal(signal.SIGCONT)
            words = pair.last_words(survivor)
            expect(len(words) == (CONNECTIONS if kind == "many" else 1), f"{len(words)} ends: {words}")
            if kind == "stream" and victim == 0:
                sent, received = pair.get("sent")[0], pair.get("received")[1]
                expect(sent <= received <= sent + LONGEST, f"{sent} bytes sent, {received} received")
            strange = set(words) - possible
            expect(not strange, f"the kernel never shows {sorted(strange)}")
            return set(words)

    def family(self, rng):
        """Members die one after the other; the rest carry on, the last one alone. Then the peer dies."""
        with self.pair("family", True, rng) as pair:
            pair.wait_for_rounds(rng.randrange(100, 3000))
            wait_until("the forks", lambda: len(pair.workers()) == 4)
            workers = pair.workers()
            rng.shuffle(workers)
            for worker in workers[1:]:
                time.sleep(rng.uniform(0, 0.01))
                os.kill(worker, signal.SIGKILL)
                pair.wait_for_rounds(pair.get("rounds") + MORE_ROUNDS)
            self.hits["families on rings"] += all(pair.upgraded())
            pair.ends[0].signal(signal.SIGKILL)
            expect(pair.last_words(1) == ["family over"], "the family's last words")

    def monitor(self, rng):
        """The monitor stops or dies in the middle of upgrades. Connections go on and new ones come; once it is back,
        they are upgraded again."""
        with self.pair("brief", True, rng) as pair:
            pair.wait_for_rounds(rng.randrange(1, 2000))
            time.sleep(rng.uniform(0, 0.003))
            before = pair.upgraded()
            if rng.random() < 0.5:
                self.bed.monitor.signal(signal.SIGSTOP)
                pair.wait_for_rounds(pair.get("rounds") + MORE_ROUNDS)
            self.bed.kill_monitor()
            pair.wait_for_rounds(pair.get("rounds") + MORE_ROUNDS)
            self.bed.start_monitor()

            def again():
                pair.expect_running()
                return all(count > earlier + 20 for count, earlier in zip(pair.upgraded(), before))
            wait_until("upgrades after the restart", again)
            self.hits["restarts"] += 1

    def pauses(self, rng):
        """Either end is stopped now and then; everything arrives all the same."""
        kind, amount = rng.choice([("stream", 300 << 20), ("echo", 20_000)])
        with self.pair(kind, True, rng, amount) as pair:
            pair.wait_for_traffic()
            for _ in range(6):
                end = rng.choice(pair.ends)
                end.signal(signal.SIGSTOP)
                time.sleep(rng.uniform(0, 0.02))
                end.signal(signal.SIGCONT)
                time.sleep(rng.uniform(0, 0.02))
            for who in (0, 1):
                pair.last_words(who)
            if kind == "stream":
                expect(pair.get("received")[1] == amount, f"{pair.get('received')[1]} of {amount} bytes")
            else:
                expect(pair.get("rounds") == amount, f"{pair.get('rounds')} of {amount} rounds")
            self.hits["pauses on rings"] += all(pair.upgraded())


KINDS = {f"{kind}-{'server' if victim else 'client'}":
         (lambda faults, rng, death=(kind, victim, possible): faults.death(*death, True, rng, rng.randrange(3)))
         for kind, victim, possible in DEATHS}
KINDS |= {"family": Faults.family, "monitor": Faults.monitor, "pauses": Faults.pauses}


def run_points(faults, report, options):
    names = [name for name in KINDS if options.only in name]
    numbers = range(options.points) if options.point is None else [options.point]
    for number in numbers:
        name = names[number % len(names)]
        with report.test(f"point {number} {name} (seed {options.seed})"):
            faults.bed.start_monitor()
            KINDS[name](faults, faults.random(number))
    print(f"{len(numbers)} points, seed {options.seed}: {dict(faults.hits)}")
    if options.point is None and not options.only:
        with report.test("faults met connections on rings"):
            # Some points come before the upgrade on purpose.
            deaths = len(numbers) * len(DEATHS) // len(KINDS)
            expect(faults.hits["deaths on rings"] * 2 > deaths, f"{faults.hits} of {deaths} deaths")
            expect(faults.hits["families on rings"] and faults.hits["restarts"], f"{faults.hits}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="many more points")
    parser.add_argument("--points", type=int, help=f"{POINTS} unless said otherwise, with --full {POINTS_FULL}")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("RINGWAY_FAULT_SEED", random.randrange(1 << 32))))
    parser.add_argument("--only", default="", choices=["", *KINDS])
    parser.add_argument("--point", type=int, help="only this one")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    options.points = options.points or (POINTS_FULL if options.full else POINTS)
    print(f"seed {options.seed}", flush=True)
    report = Report(options.verbose)
    with Bed() as bed:
        faults = Faults(bed, options)
        with report.test("the kernel's own answers"):
            faults.check_lists(NATIVE_FULL if options.full else NATIVE)
        run_points(faults, report, options)
        if find_program("strace"):
            with report.test("without a monitor nothing waits"):
                expect_no_waiting(bed, faults.binary)
        else:
            report.skip("without a monitor nothing waits", "needs strace")
    report.close()


main()
