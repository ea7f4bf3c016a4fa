#!/usr/bin/env python3
# needs: python3 gcc g++ pkgconf iproute2
# limit: 120
"""Programs in C that are written to mTCP's API, on our TCP; found by pkg-config, shared and static. Content is checked by both ends.

  * Server and client as two processes that meet by name at a pipe or a switch, by IPv4 and IPv6, many connections at once.
  * Server and client on a TAP device, each with the kernel's TCP at the other end.
  * Single calls, and the errno that misuse answers.
  * A signal ends a server that waits; a wrong configuration is named by file, line and key.

  mtcp.py [-v]
"""

import argparse
import contextlib
import signal
import socket
import threading

from _bed import ROOT, Bed, Report, expect, wait_until
from _installed import Installed
from _namespace import enter, give_addresses, ip, is_inside, why_no_tap

SOURCES = ROOT / "tests/mtcp"
PORT, CONNECTIONS, BYTES = 8080, 100, 100_000
# Far beyond what anything here takes.
LIMIT_S = 30
SERVER = {"4": "10.80.0.1", "6": "fd80::1"}
SERVER_ADDRESSES, CLIENT_ADDRESSES = "10.80.0.1/24 fd80::1/64", "10.80.0.2/24 fd80::2/64"
# Ports of the server and the client.
PLACES = {"pipe": ("shm:mtcp", "shm:mtcp"), "switch": ("vale0:server", "vale0:client")}
WRONG = [
    ("port = tap:a\nnum_cores = many\n", ":2: num_cores = many: expected a number from 1 to 64"),
    ("speed = 9\n", ":1: speed = 9: there is no such key"),
    ("port = nothing:x\n", ":1: port = nothing:x: "),
    ("port = null:\n", ": each core needs an address of its own"),
]


def content(number, length):
    """As `content` of tests/mtcp/common.h."""
    return bytes((number * 131 + at * 7 + at // 251) % 256 for at in range(length))


class KernelEcho:
    """Sends back what comes, on the kernel's TCP."""

    def __init__(self, family, address):
        self.listener = socket.create_server((address, PORT), family=family, backlog=CONNECTIONS)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                stream, _ = self.listener.accept()
                threading.Thread(target=self.echo, args=[stream], daemon=True).start()

    def echo(self, stream):
        with stream, contextlib.suppress(ConnectionError):
            while part := stream.recv(65536):
                stream.sendall(part)

    def close(self):
        # An accept in another thread goes on holding the socket otherwise.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def kernel_client(address):
    """A few connections at once from the kernel's TCP, each with its own content."""
    wanted = [content(number, BYTES) for number in range(8)]
    found = [b""] * len(wanted)

    def talk(number):
        with socket.create_connection((address, PORT), LIMIT_S) as stream:
            sender = threading.Thread(target=lambda: (stream.sendall(wanted[number]), stream.shutdown(socket.SHUT_WR)))
            sender.start()
            while part := stream.recv(65536):
                found[number] += part
            sender.join()
    threads = [threading.Thread(target=talk, args=[number]) for number in range(len(wanted))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    expect(found == wanted, f"{[len(part) for part in found]} bytes came back, or others than were sent")
    return len(wanted)


class Trials:
    def __init__(self, bed, report):
        self.bed, self.report = bed, report
        self.installed = Installed(bed.folder, "ringway-mtcp")
        self.meeting = {"RINGWAY_SOCKET": str(bed.sockets / "monitor.sock")}

    def compile(self, source, kind):
        return self.installed.compile(f"{source}-{kind}", [SOURCES / f"{source}.c"], self.installed.libraries[kind])

    def configuration(self, name, *lines):
        path = self.bed.folder / f"{name}.conf"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def run(self, *words):
        return self.bed.running(list(words), False, env=self.meeting)

    @contextlib.contextmanager
    def serving(self, *words):
        with self.run(*words) as server:
            def listens():
                expect(server.running(), f"ended: {server.output()[-600:]}")
                return "listening" in server.output()
            wait_until("the server", listens)
            yield server

    def ends(self, program):
        code = program.wait(LIMIT_S)
        expect(code == 0, f"{program.words}: exit code {code}: {program.output()[-600:]}")

    def two_processes(self, kind, server, client):
        for place, (ours, theirs) in PLACES.items():
            for version, address in SERVER.items():
                with self.report.test(f"{kind}, {place}, IPv{version}"):
                    configurations = (self.configuration("server", f"port = {ours}", f"address = {SERVER_ADDRESSES}"),
                                      self.configuration("client", f"port = {theirs}", f"address = {CLIENT_ADDRESSES}"))
                    with self.serving(server, configurations[0], address, PORT, CONNECTIONS) as serving:
                        with self.run(client, configurations[1], address, PORT, CONNECTIONS, BYTES) as running:
                            self.ends(running)
                        self.ends(serving)

    def on_tap(self, server, client):
        tap = self.configuration("tap", "port = tap:mtcp0", f"address = {SERVER_ADDRESSES}")
        for version, address in SERVER.items():
            with self.report.test(f"TAP, IPv{version}: our server, the kernel's client"):
                with self.serving(server, tap, address, PORT, 8) as serving:
                    give_addresses("mtcp0", CLIENT_ADDRESSES.split())
                    expect(kernel_client(address) == 8, "8 connections")
                    self.ends(serving)
        # The other way round the kernel has the server's addresses. The interface is there before our client is.
        ip("tuntap", "add", "mtcp1", "mode", "tap")
        ip("link", "set", "mtcp1", "up")
        give_addresses("mtcp1", SERVER_ADDRESSES.split())
        tap = self.configuration("tap", "port = tap:mtcp1", f"address = {CLIENT_ADDRESSES}")
        for version, address in SERVER.items():
            with self.report.test(f"TAP, IPv{version}: our client, the kernel's server"):
                family = socket.AF_INET if version == "4" else socket.AF_INET6
                with contextlib.closing(KernelEcho(family, address)):
                    with self.run(client, tap, address, PORT, 20, BYTES) as running:
                        self.ends(running)

    def interrupted(self, server):
        configuration = self.configuration("server", "port = shm:interrupted", "address = 10.80.0.1/24")
        with self.serving(server, configuration, "0.0.0.0", PORT, 1) as serving:
            serving.signal(signal.SIGINT)
            self.ends(serving)
            expect("interrupted, 1 left" in serving.output(), serving.output())

    def wrong_configurations(self, server):
        for text, words in WRONG:
            path = self.configuration("wrong", *text.splitlines())
            with self.run(server, path, "10.80.0.1", PORT, 1) as running:
                expect(running.wait(LIMIT_S) == 1, "it runs")
                expect(f"mtcp_init: {path}{words}" in running.output(), running.output())

    def all(self):
        self.installed.headers_alone(self.report, ["mtcp_api.h", "mtcp_epoll.h"])
        for kind in self.installed.libraries:
            with self.report.test(f"{kind}: single calls and their errors"):
                two = self.configuration("two", "port = shm:calls shm:calls", "address = 10.0.0.1/24 10.0.0.2/24",
                                         "rcvbuf = 65536", "tcp_timeout = 30")
                # Within the process alone.
                with self.bed.running([self.compile("calls", kind), two], False) as calls:
                    self.ends(calls)
            server, client = self.compile("server", kind), self.compile("client", kind)
            self.two_processes(kind, server, client)
        with self.report.test("a signal ends a wait"):
            self.interrupted(server)
        with self.report.test("wrong configurations"):
            self.wrong_configurations(server)
        if why_not := why_no_tap():
            self.report.skip("TAP", why_not)
        else:
            self.on_tap(server, client)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    report = Report(parser.parse_args().verbose)
    enter()
    with Bed() as bed:
        if is_inside():
            ip("link", "set", "lo", "up")
        Trials(bed, report).all()
    report.close()


main()
