#!/usr/bin/env python3
# needs: python3 iproute2 iputils-ping
# wants: iperf3
# limit: 180
"""Devices at the switch, kept by `ringway switch attach`: the kernel's stacks in three namespaces talk through it, over XDP
sockets on veth and a TAP device.

  * ping, a stream whose bytes are compared, and iperf3 by TCP and UDP get through; the kernel counts no wrong checksum.
  * Ports come and go while a stream flows, and nothing of it is lost.
  * An isolated switch carries the same.
  * The interface's other traffic is untouched once it is detached, and after kill -9 of the keeper: no program, no device
    is left.

  attached.py [-v]
"""

import argparse
import contextlib
import json
import os
from pathlib import Path
import shutil
import signal
import subprocess

from _bed import RINGWAY, Bed, Report, expect, wait_until

STREAM_BYTES = 16 << 20
LIMIT_S = 40
SENDER = """
import hashlib, socket, sys
n, total, digest = 0, int(sys.argv[2]), hashlib.sha256()
line = socket.create_connection((sys.argv[1], 7000), 20)
while n < total:
    block = hashlib.sha256(str(n).encode()).digest() * 2048
    line.sendall(block)
    digest.update(block)
    n += len(block)
line.shutdown(socket.SHUT_WR)
line.recv(1)
print(digest.hexdigest())
"""
RECEIVER = """
import hashlib, socket
listener = socket.create_server(("0.0.0.0", 7000))
print("listening", flush=True)
line, digest = listener.accept()[0], hashlib.sha256()
while block := line.recv(1 << 16):
    digest.update(block)
line.sendall(b"x")
print(digest.hexdigest())
"""


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, **options)
    expect(done.returncode == 0, f"{' '.join(words)}: {done.stdout[-300:]} {done.stderr[-600:]}")
    return done.stdout


class Town:
    """Namespaces with a stack each, around the one with the switch."""

    def __init__(self, stack):
        self.tag = f"rwt{os.getpid()}"
        self.middle = self.make("m", stack)
        self.stacks = {side: self.make(side, stack) for side in "abc"}
        for side in "ab":
            run("ip", "link", "add", f"k{side}", "netns", self.stacks[side], "type", "veth", "peer", "name", f"p{side}",
                "netns", self.middle)
            run("ip", "-n", self.middle, "link", "set", f"p{side}", "promisc", "on", "up")
            self.raise_(side)

    def make(self, part, stack):
        name = self.tag + part
        run("ip", "netns", "add", name)
        stack.callback(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
        run("ip", "-n", name, "link", "set", "lo", "up")
        return name

    def raise_(self, side):
        run("ip", "-n", self.stacks[side], "addr", "add", f"{address(side)}/24", "dev", f"k{side}")
        run("ip", "-n", self.stacks[side], "link", "set", f"k{side}", "up")

    def links(self):
        return run("ip", "-n", self.middle, "-d", "link", "show")

    def inside(self, side, *words):
        return ["ip", "netns", "exec", self.stacks[side], *words]

    def checksum_errors(self):
        """Of all stacks: what the kernel took for damaged."""
        total = 0
        for name in self.stacks.values():
            for line in run("ip", "netns", "exec", name, "nstat", "-asz").splitlines():
                if "CsumErrors" in line:
                    total += int(line.split()[1])
        return total


def address(side):
    return f"10.78.0.{'abc'.index(side) + 1}"


class Command:
    """`ringway` in the middle, at the test's monitor."""

    def __init__(self, bed, town):
        self.words = ["ip", "netns", "exec", town.middle, RINGWAY]
        self.env = dict(os.environ, RINGWAY_SOCKET=str(bed.sockets / "monitor.sock"))

    def __call__(self, *words):
        return run(*self.words, *words, env=self.env)

    def held(self):
        return {held["name"]: held for held in json.loads(self("switch", "show", "-j"))["held"]}


@contextlib.contextmanager
def attached(command, *pairs):
    """Ports of a switch with what is attached to each."""
    with contextlib.ExitStack() as stack:
        for port, device in pairs:
            command("switch", "attach", port, device)
            stack.callback(command, "switch", "del", port)
        yield


def ping(town, side, to):
    run(*town.inside(side, "ping", "-q", "-c", "5", "-i", "0.05", "-W", "5", address(to)))


def reaches(town, side, to):
    words = town.inside(side, "ping", "-q", "-c", "1", "-W", "1", address(to))
    return subprocess.run(words, capture_output=True).returncode == 0


def stream(town, side, to, beside=lambda: None):
    """Every byte of a stream, while `beside` happens."""
    receiver = subprocess.Popen(town.inside(to, "python3", "-c", RECEIVER), stdout=subprocess.PIPE, text=True)
    try:
        expect(receiver.stdout.readline() == "listening\n", "the receiver does not listen")
        words = town.inside(side, "python3", "-c", SENDER, address(to), str(STREAM_BYTES))
        sender = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        beside()
        sent, got = sender.communicate(timeout=LIMIT_S)[0], receiver.communicate(timeout=LIMIT_S)[0]
        expect(sent and sent == got, f"sent {sent!r}, received {got!r}")
    finally:
        receiver.kill()
        receiver.wait()


def iperf3(town, side, to, *words):
    server = subprocess.Popen(town.inside(to, "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL)
    try:
        wait_until("iperf3", lambda: ":5201" in run(*town.inside(to, "ss", "-ltn")))
        done = json.loads(run(*town.inside(side, "iperf3", "-J", "-t", "1", "-c", address(to), *words)))
        server.wait(LIMIT_S)
    finally:
        server.kill()
    return done["end"]


def devices_at_a_switch(town, command, switch):
    with attached(command, (f"{switch}:pa", "xdp:pa"), (f"{switch}:pb", "xdp:pb"), (f"{switch}:pc", "tap:kc")):
        run("ip", "-n", town.middle, "link", "set", "kc", "netns", town.stacks["c"])
        town.raise_("c")
        for side, to in ["ab", "ba", "ac", "cb"]:
            ping(town, side, to)
        stream(town, "a", "b")
        stream(town, "b", "c")
        stream(town, "c", "a")
        patch = command.held()[f"{switch}:pa"]
        expect(patch["forth"]["packets"] and patch["back"]["packets"] and not patch["failed"], f"{patch}")
    expect(town.checksum_errors() == 0, f"{town.checksum_errors()} wrong checksums")


def iperf3_through_a_switch(town, command):
    with attached(command, ("vale20:pa", "xdp:pa"), ("vale20:pb", "xdp:pb")):
        ping(town, "a", "b")
        tcp = iperf3(town, "a", "b")
        expect(tcp["sum_received"]["bytes"] > 1 << 20, f"{tcp['sum_received']}")
        udp = iperf3(town, "a", "b", "-u", "-b", "20M", "-l", "1400")["sum"]
        expect(udp["packets"] > 1000 and udp["lost_packets"] <= udp["packets"] / 100, f"{udp}")
    expect(town.checksum_errors() == 0, f"{town.checksum_errors()} wrong checksums")


def coming_and_going(town, command):
    def beside():
        for _ in range(5):
            command("switch", "attach", "vale21:guest", "tap:guest0")
            command("switch", "del", "vale21:guest")
    with attached(command, ("vale21:pa", "xdp:pa"), ("vale21:pb", "xdp:pb")):
        stream(town, "a", "b", beside)
    expect("guest0" not in town.links(), town.links())


def other_traffic(town, command):
    """What the kernel's own bridge carries is carried again once the ports are let go."""
    run("ip", "-n", town.middle, "link", "add", "br0", "type", "bridge")
    for side in "ab":
        run("ip", "-n", town.middle, "link", "set", f"p{side}", "master", "br0")
    run("ip", "-n", town.middle, "link", "set", "br0", "up")
    wait_until("the kernel's bridge", lambda: reaches(town, "a", "b"))
    with attached(command, ("vale22:pa", "xdp:pa")):
        expect(not reaches(town, "a", "b"), "the interface's frames go to its port and to the kernel")
        expect("prog/xdp" in town.links(), town.links())
    wait_until("the kernel's bridge again", lambda: reaches(town, "a", "b"))
    run("ip", "-n", town.middle, "link", "del", "br0")


def killed_keeper(town, command):
    command("switch", "attach", "vale23:pa", "xdp:pa")
    command("switch", "attach", "vale23:tap", "tap:left0")
    expect("prog/xdp" in town.links() and "left0" in town.links(), town.links())
    os.kill(keeper_of(town), signal.SIGKILL)
    wait_until("no trace of the keeper", lambda: "prog/xdp" not in town.links() and "left0" not in town.links())
    expect(not command.held(), "something is held")
    # And another one may do the same.
    with attached(command, ("vale23:pa", "xdp:pa"), ("vale23:pb", "xdp:pb")):
        ping(town, "a", "b")


def keeper_of(town):
    for pid in run("ip", "netns", "pids", town.middle).split():
        if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1] == b"keeper":
            return int(pid)
    return expect(False, "no keeper runs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    report = Report(parser.parse_args().verbose)
    if os.geteuid() != 0:
        report.skip("devices at the switch", "needs root, for network namespaces")
        return report.close()
    with Bed() as bed:
        for name, test, *words in [
            ("two interfaces and a TAP device at a switch", devices_at_a_switch, "vale24"),
            ("the same at an isolated switch", devices_at_a_switch, "vale25"),
            ("iperf3 through a switch", iperf3_through_a_switch),
            ("ports come and go while a stream flows", coming_and_going),
            ("an interface's other traffic", other_traffic),
            ("a killed keeper leaves nothing behind", killed_keeper),
        ]:
            if test is iperf3_through_a_switch and not shutil.which("iperf3"):
                report.skip(name, "iperf3 is not installed")
                continue
            with report.test(name), contextlib.ExitStack() as stack:
                town = Town(stack)
                command = Command(bed, town)
                if "vale25" in words:
                    command("switch", "add", "vale25", "--isolated")
                    stack.callback(command, "switch", "del", "vale25")
                test(town, command, *words)
    return report.close()


main()
