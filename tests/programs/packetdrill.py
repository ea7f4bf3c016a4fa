#!/usr/bin/env python3
# needs: python3 gcc
# limit: 120
"""The library that packetdrill loads, used as packetdrill uses it: a program in C opens it with dlopen and plays one clause of the interface
at a time, over IPv4 and IPv6. The same library is in LD_PRELOAD where packetdrill's assertions need it.

  packetdrill.py [-v]
"""

import argparse
import os
from pathlib import Path
import subprocess
import tempfile

from _bed import LIBRARY, Report, expect

SOURCES = Path(__file__).parent.parent / "packetdrill"
DRILL = Path(LIBRARY).with_name("libringway_packetdrill.so")
# A clause, and the exit code and words that show it.
CLAUSES = {
    "server": (0, ""),
    "pieces": (0, ""),
    "pipe": (0, ""),
    "readiness": (0, ""),
    "clock": (0, ""),
    "waits": (0, ""),
    "info": (0, ""),
    "settings": (0, "no setting `net.ipv4.tcp_fack`"),
    "silence": (1, "no packet is on its way and no timer is left"),
}
SETTINGS = "net.ipv4.tcp_sack=0\n/proc/sys/net/ipv4/tcp_timestamps=0\nnet.ipv4.tcp_fack=0\n"
LIMIT_S = 20


def environment(folder, clause):
    env = {name: value for name, value in os.environ.items() if name != "RINGWAY_SYSCTL_FILE"}
    if clause == "info":
        env["LD_PRELOAD"] = str(DRILL)
    if clause == "settings":
        (folder / "sysctls").write_text(SETTINGS)
        env["RINGWAY_SYSCTL_FILE"] = str(folder / "sysctls")
    return env


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    report = Report(parser.parse_args().verbose)
    with tempfile.TemporaryDirectory(prefix="packetdrill-") as name:
        folder = Path(name)
        words = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", folder / "play", SOURCES / "play.c"]
        subprocess.run(words, check=True)
        for clause, (code, words) in CLAUSES.items():
            for version in "46":
                with report.test(f"{clause} over IPv{version}"):
                    play = [folder / "play", DRILL, version, clause]
                    done = subprocess.run(play, env=environment(folder, clause), capture_output=True, text=True, timeout=LIMIT_S)
                    expect(done.returncode == code, f"exit code {done.returncode}: {done.stderr[-600:]}")
                    expect(words in done.stderr, f"`{words}` is not in: {done.stderr[-600:]}")
    report.close()


main()
