#!/usr/bin/env python3
# needs: python3
# wants: tcpdump
# limit: 120
"""The packet tools that read and write captures: `ringway pcap PORT [EXPR]` and `ringway replay`.

What is recorded at a port is what was sent; what is replayed is what was recorded, over a good line and a bad one; and
words that are wrong are refused by name.

  tools.py [-v]
"""

import argparse
import shutil
import signal
import struct
import time

from _bed import RINGWAY, Bed, Report, expect, wait_until
from _packets import Trial

PACKETS = 500
LIMIT_S = 30


def records(file):
    """(time in ns, bytes) of each packet of a pcapng file as we write it: enhanced packet blocks with nanoseconds."""
    found, at, data = [], 0, file.read_bytes()
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            high, low, captured = struct.unpack_from("<III", data, at + 12)
            found.append((high << 32 | low, data[at + 28:at + 28 + captured]))
        at += length
    return found


def write_capture(file, gap_us, packets=PACKETS):
    """A pcap file of numbered packets of different lengths, `gap_us` apart."""
    with open(file, "wb") as out:
        out.write(struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for number in range(packets):
            packet = bytes([255] * 6 + [2, 0, 0, 0, 0, 1, 0x88, 0xb5]) + number.to_bytes(4, "big") * (3 + number % 300)
            stamp = number * gap_us
            out.write(struct.pack("<IIII", 1000 + stamp // 1_000_000, stamp % 1_000_000, len(packet), len(packet)))
            out.write(packet)


def pcap(trial, port, file, *words):
    return trial.start(["pcap", port, "-w", str(file), *words])


def replay(trial, port, file, *words):
    return trial.start(["replay", "-i", port, str(file), *words])


def recorded_is_sent(trial, folder):
    recorder = pcap(trial, "vale10:b", folder / "sent.pcapng", "-c", str(PACKETS))
    trial.gen("vale10:a", "-n", str(PACKETS), "-l", "200").ends()
    recorder.ends()
    found = records(folder / "sent.pcapng")
    numbers = [int.from_bytes(packet[44:52], "big") for _, packet in found]
    expect(numbers == list(range(PACKETS)), f"numbers {numbers[:10]}... of {len(found)} packets")
    expect(all(len(packet) == 200 for _, packet in found), "a packet is cut")
    expect(recorder.packets() == PACKETS, f"the last line says {recorder.packets()} packets")


def only_what_matches(trial, folder):
    recorder = pcap(trial, "vale11:b", folder / "some.pcapng", "udp and src portrange 1025-1026")
    trial.gen("vale11:a", "-n", str(PACKETS), "--flows", "4").ends()
    wait_until("the recorder's lines", lambda: recorder.packets() == PACKETS // 2)
    recorder.program.signal(signal.SIGINT)
    recorder.ends()
    ports = {int.from_bytes(packet[34:36], "big") for _, packet in records(folder / "some.pcapng")}
    expect(ports == {1025, 1026}, f"source ports {ports}")
    refused = pcap(trial, "vale11:c", folder / "none.pcapng", "prot 80")
    refused.ends(2)
    expect("prot 80" in refused.program.output(), refused.program.output())


def replayed_is_captured(trial, folder):
    """Every byte, in the order and (no faster than) in the time of the capture."""
    write_capture(folder / "paced.pcap", 1000)
    recorder = pcap(trial, "shm:replay", folder / "paced.pcapng", "-c", str(2 * PACKETS))
    begun = time.monotonic()
    player = replay(trial, "shm:replay", folder / "paced.pcap", "--loop", "2")
    player.ends()
    took = time.monotonic() - begun
    recorder.ends()
    found = [packet for _, packet in records(folder / "paced.pcapng")]
    numbers = [int.from_bytes(packet[14:18], "big") for packet in found]
    expect(numbers == list(range(PACKETS)) * 2, f"numbers {numbers[:10]}...")
    expect(all(len(packet) == 14 + 4 * (3 + n % 300) for n, packet in zip(numbers, found)), "a packet is cut")
    expect(took >= 2 * (PACKETS - 1) / 1000, f"{took} s for a capture of {2 * (PACKETS - 1) / 1000} s")
    expect(player.packets() == 2 * PACKETS, f"it says {player.packets()} packets")


def replayed_over_a_bad_line(trial, folder):
    """What is lost is counted; what is late comes; the same seed loses the same."""
    write_capture(folder / "fast.pcap", 1)
    outcomes = []
    for n in range(2):
        file = folder / f"bad{n}.pcapng"
        recorder = pcap(trial, f"shm:bad{n}", file)
        player = replay(trial, f"shm:bad{n}", folder / "fast.pcap", "--top", "--loss", "0.2", "--delay", "50ms",
                        "--jitter", "10ms", "--seed", "5")
        player.ends()
        sent, dropped = player.packets(), player.lines()[-1]["dropped"]
        expect(sent + dropped == PACKETS and 50 < dropped < 150, f"{sent} sent, {dropped} dropped")
        wait_until("the recorder", lambda: recorder.packets() == sent)
        recorder.program.signal(signal.SIGINT)
        recorder.ends()
        outcomes.append(sorted(packet for _, packet in records(file)))
    expect(outcomes[0] == outcomes[1], "one seed, two outcomes")


def wrong_words(trial, folder):
    (folder / "no.pcap").write_bytes(b"no capture at all")
    for words, said in [
        (["replay", "-i", "shm:x", str(folder / "no.pcap")], "neither pcap nor pcapng"),
        (["replay", "-i", "shm:x", str(folder / "none.pcap")], "none.pcap"),
        (["replay", "-i", "vale0!:x", str(folder / "no.pcap")], "neither pcap"),
        (["pcap", "vale0:x/q", "-w", str(folder / "x.pcapng")], "FLAGS"),
        (["pcap", "shm:", "-w", str(folder / "x.pcapng")], "shm:NAME"),
    ]:
        tool = trial.start(words)
        tool.ends(2)
        expect(said in tool.program.output(), f"{words}: {tool.program.output()}")


TESTS = [
    ("what is recorded is what was sent", recorded_is_sent),
    ("only what matches an expression is recorded", only_what_matches),
    ("what is replayed is what was captured", replayed_is_captured),
    ("a replay over a bad line", replayed_over_a_bad_line),
    ("wrong words are named", wrong_words),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    report = Report(parser.parse_args().verbose)
    with Bed() as bed:
        for name, test in TESTS:
            if test is only_what_matches and not shutil.which("tcpdump"):
                report.skip(name, "tcpdump is not installed")
                continue
            with report.test(name), Trial(bed) as trial:
                test(trial, trial.folder)
    report.close()


main()
