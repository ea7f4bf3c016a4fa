#!/usr/bin/env python3
# needs: python3 curl iproute2
# wants: tcpdump
# limit: 120
"""`ringway http` and `ringway load` on our TCP over a TAP device, in a network namespace of its own, and on the kernel's; the
other side is the kernel's TCP.

  * curl fetches a file of 3 MB by IPv4 and by IPv6, and it is the file.
  * Many connections that are open at once each get their answers.
  * A port where nobody listens refuses.
  * A port that listens by IPv4 only is refused by IPv6.
  * The server has counted just these connections and requests.
  * Over a line that loses, reorders and repeats, an echo of random data comes back unchanged while more is sent.
  * On a clean link tcpdump sees no wrong checksum, and nothing that our TCP sent twice.
  * The load generator gets an answer to each of its requests, in a closed loop, at a rate, and with a connection for each.

  stack.py [-v]
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from _bed import RINGWAY, Program, Report, expect, wait_until
from _namespace import enter, give_addresses, ip, is_inside, why_no_tap

PORT, PORT_CLOSED = 8080, 8081
BIG_BYTES, SMALL = 3_000_000, b"a small file\n"
CONNECTIONS, ROUNDS = 200, 3
# Far beyond what anything here takes.
LIMIT_S = 20
# How to run the server, and the addresses where clients find it.
ON_TAP = ["-i", "tap:stack0", "--address", "10.79.0.2/24", "--address", "fd79::2/64"], ["10.79.0.2", "fd79::2"]
ON_KERNEL = ["--kernel"], ["127.0.0.1", "::1"]
# Each way; what our own port's wrapper does to the packets.
BAD_LINES = [
    ["--loss", "0.02"],
    ["--loss", "0.05", "--duplicate", "0.05", "--delay", "2ms"],
    ["--delay", "5ms", "--jitter", "3ms", "--reorder", "0.1", "--duplicate", "0.02"],
    ["--corrupt", "0.02", "--loss", "0.01", "--delay", "1ms"],
]
BULK_BYTES = 1_000_000
CLIENT_ADDRESSES = ["10.79.0.1/24", "fd79::1/64"]


@contextlib.contextmanager
def serving(folder, on, *words, content=None):
    """The server with the files of `folder` or other content, once it listens."""
    how, _ = on
    content = content or ["--folder", str(folder / "files")]
    command = [RINGWAY, "http", *how, "--json", *content, *words]
    server = Program(command, os.environ.copy(), folder / "server.log", 0, subprocess.DEVNULL)
    try:
        def listens():
            expect(server.running(), f"the server ended: {server.output()[-600:]}")
            return "listening at" in server.output()
        wait_until("the server", listens)
        if on[1] is ON_TAP[1]:
            give_addresses("stack0", CLIENT_ADDRESSES)
        yield server
    finally:
        server.end()


def summary(server):
    """What the server says that it has done, once it is told to end."""
    server.signal(signal.SIGTERM)
    code = server.wait(LIMIT_S)
    expect(code == 0, f"exit code {code}: {server.output()[-600:]}")
    return json.loads(server.output()[server.output().index("\n{"):])


def fetch(folder, address):
    name = f"[{address}]" if ":" in address else address
    got = folder / "got"
    done = subprocess.run(["curl", "-sS", "-g", "--fail", "--noproxy", "*", "--max-time", str(LIMIT_S), "-o", got,
                           f"http://{name}:{PORT}/big"], capture_output=True, text=True)
    expect(done.returncode == 0, f"curl: {done.stderr}")
    expect(got.read_bytes() == (folder / "files/big").read_bytes(), f"{got.stat().st_size} bytes that are not the file")


def ask(stream):
    stream.sendall(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")


def read_answer(stream):
    """Up to the length that the head gives: the connection stays open."""
    answer = b""
    while b"\r\n\r\n" not in answer or not answer.endswith(SMALL):
        part = stream.recv(4096)
        expect(part, f"an end after {answer!r}")
        answer += part
    expect(answer.startswith(b"HTTP/1.1 200 ") and answer.count(b"HTTP/1.1") == 1, f"{answer!r}")


def at_once(address):
    """All connections are open and have asked before the first answer is read."""
    with contextlib.ExitStack() as open_streams:
        connect = lambda: socket.create_connection((address, PORT), LIMIT_S)
        streams = [open_streams.enter_context(connect()) for _ in range(CONNECTIONS)]
        for _ in range(ROUNDS):
            for stream in streams:
                ask(stream)
            for stream in streams:
                read_answer(stream)


def expect_refused(address, port):
    try:
        socket.create_connection((address, port), LIMIT_S).close()
    except ConnectionRefusedError:
        return
    expect(False, f"{address} port {port} accepts a connection")


def test_server(report, folder, name, on):
    _, addresses = on
    with serving(folder, on, "--listen", f":{PORT}") as server:
        for address in addresses:
            with report.test(f"{name}: a big file from {address}"):
                fetch(folder, address)
            with report.test(f"{name}: {CONNECTIONS} connections to {address}"):
                at_once(address)
            with report.test(f"{name}: a closed port of {address}"):
                expect_refused(address, PORT_CLOSED)
        with report.test(f"{name}: what the server has counted"):
            done = summary(server)
            connections, requests = (CONNECTIONS + 1) * 2, (CONNECTIONS * ROUNDS + 1) * 2
            counts = done["accepted"], done["requests"], done["refused"], done["turned_away"]
            expect(counts == (connections, requests, 0, 0), f"{done}")
    with report.test(f"{name}: a server for IPv4 alone"):
        with serving(folder, on, "--listen", f"0.0.0.0:{PORT}"):
            socket.create_connection((addresses[0], PORT), LIMIT_S).close()
            expect_refused(addresses[1], PORT)


def echoed(address, data):
    """What comes back of `data`, which is sent at the same time."""
    back = bytearray()
    with socket.create_connection((address, PORT), LIMIT_S) as stream:
        stream.settimeout(LIMIT_S)
        sender = threading.Thread(target=stream.sendall, args=(data,))
        sender.start()
        while len(back) < len(data) and (part := stream.recv(1 << 16)):
            back += part
        sender.join()
    return bytes(back)


def test_bad_line(report, folder):
    how, addresses = ON_TAP
    data = os.urandom(BULK_BYTES)
    for number, line in enumerate(BAD_LINES):
        on = how + [*line, "--seed", str(number)], addresses
        with serving(folder, on, "--listen", f":{PORT}", content=["--echo"]):
            for address in addresses:
                with report.test(f"bad line {' '.join(line)}: bulk both ways, {address}"):
                    expect(echoed(address, data) == data, "what came back is not what was sent")


def test_clean_trace(report, folder):
    """`tcpdump -vv` verifies checksums; the kernel leaves its own to the device, so only ours are looked at."""
    ours = ON_TAP[1][0]
    with serving(folder, ON_TAP, "--listen", f":{PORT}", content=["--echo"]) as server:
        trace = folder / "trace.pcap"
        dump = subprocess.Popen(["tcpdump", "-i", "stack0", "-U", "-B", "65536", "-w", trace, "tcp", "and", "src", ours],
                                stderr=subprocess.PIPE, text=True)
        said = dump.stderr.readline()
        expect("listening" in said, said)
        data = os.urandom(BULK_BYTES)
        expect(echoed(ours, data) == data, "what came back is not what was sent")
        time.sleep(0.3)
        dump.terminate()
        dump.communicate(timeout=LIMIT_S)
        read = subprocess.run(["tcpdump", "-nvvS", "-r", trace], capture_output=True, text=True, errors="replace")
        seen = read.stdout
        counters = summary(server)["counters"]
    segments = re.findall(r"cksum 0x[0-9a-f]+ \((\w+)[^)]*\).* length (\d+)", seen)
    ranges = re.findall(r"seq (\d+):(\d+)", seen)
    with report.test("a clean link: checksums"):
        # A busy machine's capture may miss some.
        expect(len(segments) > BULK_BYTES // 3000, f"only {len(segments)} segments seen")
        expect({verdict for verdict, _ in segments} == {"correct"}, f"{ {verdict for verdict, _ in segments} }")
    with report.test("a clean link: nothing is taken for lost"):
        # Where a busy machine lets the other side pause, a probe is right.
        counted = {name.removeprefix("tcp: "): n for name, n in counters.items()}
        expect("recoveries begun by duplicate acknowledgements or SACK" not in counted, f"{counted}")
        probes = counted.get("tail loss probes sent", 0) + counted.get("retransmission time-outs", 0)
        repeats = len(ranges) - len(set(ranges))
        expect(repeats <= probes, f"{repeats} segments were seen twice: {counted}")


def load(*words):
    """What the load generator says, which must have ended well."""
    command = [RINGWAY, "load", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    expect(done.returncode == 0, f"{' '.join(words)}: exit code {done.returncode}: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def test_load(report, name, address, how):
    target = f"http://{address}:{PORT}/small"
    with report.test(f"{name}: load in a closed loop"):
        done = load(*how, target, "-c", "50", "-n", "2000")
        expect((done["answers"], done["statuses"]) == (2000, {"200": 2000}), f"{done}")
        expect(done["latency_us"]["p50"] <= done["latency_us"]["p99"] <= done["latency_us"]["max"], f"{done}")
    with report.test(f"{name}: load at a rate"):
        done = load(*how, target, "-c", "20", "-n", "100", "--rate", "500")
        expect(done["answers"] == 100 and done["answers_per_s"] < 510, f"{done}")
    with report.test(f"{name}: load with a connection for each request"):
        done = load(*how, target, "-c", "20", "-n", "500", "--close")
        expect((done["answers"], done["connections_opened"]) == (500, 500), f"{done}")


@contextlib.contextmanager
def addressed(device, address):
    """Gives the device an address as soon as it is there, again and again: each client makes a new one."""
    done = threading.Event()
    def give():
        while not done.wait(0.01):
            subprocess.run(["ip", "address", "replace", address, "dev", device], capture_output=True)
    giver = threading.Thread(target=give)
    giver.start()
    try:
        yield
    finally:
        done.set()
        giver.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    report = Report(parser.parse_args().verbose)
    enter()
    with tempfile.TemporaryDirectory(prefix="stack-") as folder:
        folder = Path(folder)
        (folder / "files").mkdir()
        (folder / "files/big").write_bytes(os.urandom(BIG_BYTES))
        (folder / "files/small").write_bytes(SMALL)
        if is_inside():
            ip("link", "set", "lo", "up")
        test_server(report, folder, "kernel", ON_KERNEL)
        with serving(folder, ON_KERNEL, "--listen", f":{PORT}"):
            test_load(report, "kernel", "127.0.0.1", ["--kernel"])
        if why_not := why_no_tap():
            report.skip("tap", why_not)
        else:
            test_server(report, folder, "tap", ON_TAP)
            test_bad_line(report, folder)
            if shutil.which("tcpdump"):
                test_clean_trace(report, folder)
            else:
                report.skip("a clean link", "tcpdump is missing")
            with serving(folder, ON_TAP, "--listen", f":{PORT}"):
                test_load(report, "kernel to tap", "10.79.0.2", ["--kernel"])
            with serving(folder, ON_KERNEL, "--listen", f":{PORT}"), addressed("load0", "10.80.0.1/24"):
                test_load(report, "tap to kernel", "10.80.0.1", ["-i", "tap:load0", "--address", "10.80.0.2/24"])
    report.close()


main()
