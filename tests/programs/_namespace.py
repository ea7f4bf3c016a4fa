"""A network namespace of a test program's own, and TAP devices in it."""

import os
import subprocess
import sys

from _bed import expect

INSIDE = "PROGRAM_NAMESPACE"


def is_inside():
    return INSIDE in os.environ


def enter():
    """Runs this program anew in a network namespace; stays where it is if that is refused."""
    if is_inside():
        return
    for how in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        if subprocess.run([*how, "true"], capture_output=True).returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp(how[0], [*how, sys.executable, *sys.argv])


def why_no_tap():
    """Why there can be no TAP device; None if there can."""
    if not is_inside():
        return "no network namespace of our own; needs root or user namespaces"
    return None if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "/dev/net/tun cannot be opened"


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    expect(done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}")


def give_addresses(device, addresses):
    for address in addresses:
        ip("address", "add", address, "dev", device, *(["nodad"] if ":" in address else []))
