#!/usr/bin/env python3
# needs: python3
# limit: 180
"""Packet ports of separately started processes: `ringway gen` and `ringway sink` meet at a switch or a pipe by its name alone.

Order and content of all packets are checked. Senders, receivers and the monitor are killed, and the others go on. As root
the tools run as an unprivileged user.

  ports.py [-v]
"""

import argparse
import contextlib
import os
from pathlib import Path

from _bed import Bed, Report, expect, wait_until
from _packets import IS_ROOT, USER, Trial

STRANGER = (65533, 65533)
# What a ring holds: so many packets a switch loses none of, however late the receiver looks.
RING_SLOTS = 1000
# Packets a second where two senders or receivers follow each other: the test is who meets, not how fast.
RATE = 20_000


def expect_only_lost(findings):
    """After a kill numbers are missing, and that is all."""
    wrong = {name: count for name, count in findings.items() if count and name != "lost"}
    expect(not wrong, f"a receiver found {wrong}")


def every_packet(trial, to, at, packets):
    """With --check the receiver's exit code is 0 if nothing is lost, repeated, reordered or changed."""
    sink = trial.sink(at, "-n", str(packets))
    gen = trial.gen(to, "-n", str(packets))
    gen.ends()
    sink.ends()
    expect(not any(sink.findings().values()), f"found {sink.findings()}")
    expect(sink.packets() == packets, f"{sink.packets()} packets of {packets}")


def killed_receiver(trial, to, at):
    gen = trial.gen(to, "--rate", str(RATE))
    for _ in range(3):
        sink = trial.sink(at)
        sink.passes()
        sink.kill()
    sink = trial.sink(at)
    sink.passes()
    expect_only_lost(sink.stop())
    expect(gen.program.running(), f"the sender ended: {gen.program.output()[-600:]}")


def killed_sender(trial, to, at):
    """Each sender counts from 0, so the receiver sees numbers again; no packet is changed or foreign."""
    sink = trial.sink(at)
    for _ in range(3):
        gen = trial.gen(to, "--rate", str(RATE))
        sink.passes()
        gen.kill()
    trial.gen(to, "--rate", str(RATE))
    sink.passes()
    findings = sink.stop()
    expect(not findings["corrupt"] and not findings["foreign"], f"a receiver found {findings}")


def killed_monitor(trial, to, at, other):
    """Ports open do not need it; who comes after the next monitor's start meets them."""
    gen, sink = trial.gen(to, "--rate", str(RATE)), trial.sink(at)
    sink.passes()
    trial.bed.kill_monitor()
    sink.passes()
    trial.bed.start_monitor()
    late = trial.sink(other)
    late.passes()
    sink.passes()
    expect_only_lost(late.stop())
    expect_only_lost(sink.stop())
    expect(gen.program.running(), f"the sender ended: {gen.program.output()[-600:]}")


def stranger(trial, to, at):
    """Another user is refused, and told whose the name is."""
    sink = trial.sink(at)
    gen = trial.gen(to, "-n", "10", user=STRANGER)
    gen.ends(2)
    expect(f"uid {USER[0]}" in gen.program.output(), f"it said: {gen.program.output()}")
    expect(sink.program.running() and not sink.packets(), "packets of another user")


def memory_kept(bed):
    """Memory with a name that the monitor still holds."""
    targets = []
    for fd in Path(f"/proc/{bed.monitor.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            targets.append(os.readlink(fd))
    return [target for target in targets if target.startswith(("/memfd:ringway-port:", "/memfd:ringway-switch:"))]


TESTS = [
    ("a switch", every_packet, "vale0:a", "vale0:b", RING_SLOTS),
    ("a pipe", every_packet, "shm:trial", "shm:trial", 200_000),
    ("a pipe by its id", every_packet, "netmap:trial{1", "netmap:trial}1", 200_000),
    ("a switch, receivers killed", killed_receiver, "vale1:a", "vale1:b"),
    ("a pipe, receivers killed", killed_receiver, "netmap:killed{1", "netmap:killed}1"),
    ("a switch, senders killed", killed_sender, "vale2:a", "vale2:b"),
    ("a pipe, senders killed", killed_sender, "netmap:killed{2", "netmap:killed}2"),
    ("a switch, the monitor killed", killed_monitor, "vale3:a", "vale3:b", "vale3:c"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    report = Report(parser.parse_args().verbose)
    with Bed() as bed:
        for name, test, *words in TESTS:
            with report.test(name), Trial(bed) as trial:
                test(trial, *words)
        if IS_ROOT:
            with report.test("another user's switch"), Trial(bed) as trial:
                stranger(trial, "vale4:a", "vale4:b")
        else:
            report.skip("another user's switch", "needs root, to be two users")
        with report.test("names without ports are forgotten"):
            wait_until("names kept by the monitor", lambda: not memory_kept(bed))
    report.close()


main()
