#!/usr/bin/env python3
# needs: python3 gcc
# limit: 300
"""Peers and monitors that do not keep to the rules, against real programs under Ringway.

  * A peer with an upgraded connection writes garbage over every word of the shared region while the program sends,
    receives, peeks, polls and waits in epoll: it sees data, an end or a reset, every call comes back, and it goes on
    to the next connection.
  * A monitor that hands out regions that are none: the connection stays on TCP, and the reason is counted.

  hostile.py [-v] [--connections N] [--seed N]
"""

import argparse
import contextlib
import mmap
import os
import random
import selectors
import socket
import struct
import threading
import time

import _rendezvous as wire
from _bed import Bed, Report, expect, wait_until
from _faulty import Pair, compile_checked

CONNECTIONS = 60
SCRIBBLES = 300


class HostilePeer:
    """One connection to the victim, upgraded by hand."""

    def __init__(self, bed, port, rng):
        self.rng = rng
        self.tcp = socket.create_connection(("127.0.0.1", port))
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.line.connect(str(bed.sockets / "monitor.sock"))
        wire.send(self.line, wire.HELLO)
        wire.send(self.line, wire.OFFER, [self.tcp.fileno()], token=1)
        self.region = None

    def pair(self):
        """Traffic until the victim has offered its end, too, and looks at the ring."""
        self.tcp.setblocking(False)
        with selectors.DefaultSelector() as ready:
            ready.register(self.line, selectors.EVENT_READ)
            deadline = time.monotonic() + 20
            while not self.victim_is_ready():
                expect(time.monotonic() < deadline, "the victim was never upgraded")
                with contextlib.suppress(BlockingIOError):
                    self.tcp.send(b"x" * 100)
                with contextlib.suppress(BlockingIOError):
                    self.tcp.recv(1 << 16)
                if ready.select(0.001):
                    self.take()

    def victim_is_ready(self):
        return self.region is not None and struct.unpack_from("<I", self.region, self.out + wire.RECEIVER_READY_AT)[0] == 1

    def take(self):
        message, fds = wire.receive(self.line)
        expect(message, "the monitor has hung up")
        if message.kind == wire.PAIRED:
            self.region = mmap.mmap(fds[0], wire.RING_BYTES)
            self.out = wire.DIRECTIONS[message.role]
        for fd in fds:
            os.close(fd)

    def scribble(self):
        """One word becomes something else: near the truth, near a limit, or anything."""
        rng = self.rng
        read = lambda at: struct.unpack_from("<Q", self.region, at)[0]
        value = rng.choice([rng.getrandbits(64), rng.randrange(4), (1 << 64) - 1 - rng.randrange(4), 1 << rng.randrange(64),
                            read(rng.choice(wire.LONG_WORDS)) + rng.randrange(-20000, 20000)])
        if rng.random() < 0.5:
            struct.pack_into("<Q", self.region, rng.choice(wire.LONG_WORDS), value % (1 << 64))
        else:
            struct.pack_into("<I", self.region, rng.choice(wire.SHORT_WORDS), value % (1 << 32))

    def misbehave(self):
        """Sends by the ring now and then, so that the victim gets somewhere, scribbles, and goes."""
        # The ring begins where TCP has come to.
        written = self.tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        struct.pack_into("<Q", self.region, self.out + wire.RING_BEGINS_AT, wire.bytes_written(written))
        struct.pack_into("<I", self.region, self.out + wire.PATH_AT, 1)
        for number in range(SCRIBBLES):
            if number % 3 == 0:
                with contextlib.suppress(OSError):
                    self.tcp.send(b"t" * self.rng.randrange(1, 200))
                with contextlib.suppress(OSError):
                    self.tcp.recv(1 << 16)
            if number < SCRIBBLES * self.rng.random():
                tail = struct.unpack_from("<Q", self.region, self.out)[0]
                struct.pack_into("<Q", self.region, self.out, (tail + self.rng.randrange(300)) % (1 << 64))
            else:
                self.scribble()
        if self.rng.random() < 0.3:
            with contextlib.suppress(OSError):
                self.tcp.shutdown(socket.SHUT_WR)
                time.sleep(0.001)

    def close(self):
        self.tcp.close()
        self.line.close()
        if self.region:
            self.region.close()


def endure(bed, binary, options):
    """One victim, one hostile connection after the other."""
    rng = random.Random(options.seed)
    with Pair(bed, binary, "endure", True, options.seed, roles=("listen",)) as pair:
        (victim,) = pair.ends
        port = wait_until("the victim's port", lambda: pair.get("port"))
        for number in range(options.connections):
            peer = HostilePeer(bed, port, rng)
            try:
                peer.pair()
                peer.misbehave()
            finally:
                peer.close()
            def over():
                expect(victim.running(), f"connection {number}: the victim is gone: {victim.output()[-400:]}")
                return pair.get("received")[1] > number
            wait_until(f"connection {number}: the victim's end of it ({victim.where()})", over)
        counters = bed.counters(victim)
        expect(counters["connections_upgraded"] >= options.connections, f"hardly upgraded: {counters}")
        expect(counters["violations"] > 0, f"no violation: {counters}")
        print(f"{options.connections} hostile connections, {pair.get('rounds')} calls, {counters['violations']} violations")


class FalseMonitor:
    """Accepts everybody and answers every offer with `regions`."""

    def __init__(self, folder, regions):
        self.regions, self.pages, self.sent = regions, [], 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.path = folder / "monitor.sock"
        self.path.unlink(missing_ok=True)
        self.socket.bind(str(self.path))
        self.socket.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                line, _ = self.socket.accept()
                threading.Thread(target=self.serve, args=[line], daemon=True).start()

    def serve(self, line):
        with line, contextlib.suppress(OSError):
            while True:
                message, fds = wire.receive(line)
                for fd in fds:
                    os.close(fd)
                if message is None:
                    return
                if message.kind == wire.HELLO:
                    page = wire.memfd(wire.PAGE_BYTES)
                    self.pages.append(mmap.mmap(page, wire.PAGE_BYTES))
                    wire.send(line, wire.WELCOME, [page], connection=1)
                    os.close(page)
                elif message.kind == wire.OFFER:
                    fds = self.regions()
                    wire.send(line, wire.PAIRED, fds, token=message.token, connection=1, role=self.sent % 2)
                    self.sent += 1
                    for fd in fds:
                        os.close(fd)

    def sum(self, at):
        return sum(struct.unpack_from("<Q", page, at)[0] for page in self.pages)

    def close(self):
        self.socket.close()
        self.path.unlink()


GOOD_END = lambda: wire.memfd(wire.END_BYTES)
FALSE_REGIONS = {
    "none": lambda: [],
    "one only": lambda: [wire.ring()],
    "unsealed": lambda: [wire.ring(seal=False), GOOD_END()],
    "truncated": lambda: [wire.ring(size=wire.RING_BYTES - 4096), GOOD_END()],
    "empty": lambda: [wire.ring(size=0), GOOD_END()],
    "too large": lambda: [wire.ring(size=wire.RING_BYTES + 4096), GOOD_END()],
    "no memory at all": lambda: [os.open("/dev/null", os.O_RDWR), GOOD_END()],
    "another magic": lambda: [wire.ring(magic=b"RINGWAY0"), GOOD_END()],
    "another version": lambda: [wire.ring(version=99), GOOD_END()],
    "another connection": lambda: [wire.ring(connection=2), GOOD_END()],
    "end unsealed": lambda: [wire.ring(), wire.memfd(wire.END_BYTES, seal=False)],
    "end truncated": lambda: [wire.ring(), wire.memfd(wire.END_BYTES // 2)],
}


def stay_on_tcp(bed, binary, regions, seed):
    """An exchange under a monitor that hands out such regions."""
    rounds = 5000
    monitor = FalseMonitor(bed.sockets, regions)
    try:
        with Pair(bed, binary, "echo", True, seed, rounds) as pair:
            pair.last_words(0)
            pair.last_words(1)
            expect(pair.get("rounds") == rounds, f"{pair.get('rounds')} of {rounds} rounds")
        expect(monitor.sent > 0, "nobody asked the monitor")
        expect(monitor.sum(wire.UPGRADED_AT) == 0, "upgraded all the same")
        expect(monitor.sum(wire.REFUSALS_AT + 8 * wire.REGION_INVALID) > 0, "the reason was not counted")
    finally:
        monitor.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    report = Report(options.verbose)
    with Bed() as bed:
        binary = compile_checked(bed.folder)
        with report.test("a peer that scribbles on every shared word"):
            endure(bed, binary, options)
        bed.kill_monitor()
        for name, regions in FALSE_REGIONS.items():
            with report.test(f"regions: {name}"):
                stay_on_tcp(bed, binary, regions, options.seed)
    report.close()


main()
