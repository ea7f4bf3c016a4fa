"""The network namespaces of the parity tests: one of their own, and a second one for a remote peer."""

import os
import shutil
import subprocess
import sys

NEAR_ADDRESS, FAR_ADDRESS = "10.78.0.1", "10.78.0.2"
INSIDE = "PARITY_NETNS"


def enter_private():
    """Runs this program anew in a fresh network namespace; stays where it is if that is refused."""
    if INSIDE in os.environ or not (shutil.which("unshare") and shutil.which("ip")):
        return
    for how in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        if subprocess.run([*how, "true"], capture_output=True).returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp(how[0], [*how, sys.executable, *sys.argv])
    print("netns.py: no namespace of our own; the host address and the remote peer are not tested", file=sys.stderr)


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True).returncode == 0


class Namespaces:
    """`host_address` is a non-loopback address of this namespace, or None without a namespace."""

    def __init__(self):
        self.host_address = None
        self.far = None

    def __enter__(self):
        if INSIDE in os.environ and ip("link", "set", "lo", "up"):
            self.far = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
            while os.readlink(f"/proc/{self.far.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                if self.far.poll() is not None:
                    break
            if self.connect_far():
                self.host_address = NEAR_ADDRESS
        return self

    def connect_far(self):
        inside = ["nsenter", f"--target={self.far.pid}", "--net", "ip"]
        return (ip("link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", str(self.far.pid))
                and ip("address", "add", f"{NEAR_ADDRESS}/24", "dev", "near0")
                and ip("link", "set", "near0", "up")
                and subprocess.run([*inside, "address", "add", f"{FAR_ADDRESS}/24", "dev", "far0"]).returncode == 0
                and subprocess.run([*inside, "link", "set", "far0", "up"]).returncode == 0)

    def enter_far(self):
        """The command prefix that runs a program at the remote end."""
        return ["nsenter", f"--target={self.far.pid}", "--net", "--"]

    def __exit__(self, *_):
        if self.far:
            self.far.kill()
            self.far.wait()
