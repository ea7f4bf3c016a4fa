"""With the monitor down, programs make the system calls that they make without Ringway: nothing waits, nothing is
asked for each message."""

import os
import re
import subprocess
from collections import Counter

from _bed import LIBRARY, expect

ROUNDS = 2000
WAITS = {"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "futex", "nanosleep", "clock_nanosleep",
         "sched_yield", "restart_syscall", "pause"}
# What loading the library and looking for the monitor may cost in all.
EXTRA_CALLS_MAX, EXTRA_PER_ATTEMPT_MAX = 200, 20


def expect_no_waiting(bed, binary):
    plain, under = count_calls(bed, binary, {}), count_calls(bed, binary, {
        "LD_PRELOAD": LIBRARY, "RINGWAY_SOCKET": str(bed.folder / "nobody" / "monitor.sock")})
    attempts = under["connect AF_UNIX"]
    expect(attempts > 0, "the library never looked for the monitor")
    for name in WAITS:
        expect(under[name] <= plain[name], f"{under[name]} calls of {name}, {plain[name]} without Ringway")
    extra = sum(under.values()) - sum(plain.values())
    allowed = EXTRA_CALLS_MAX + EXTRA_PER_ATTEMPT_MAX * attempts
    expect(extra <= allowed, f"{extra} more calls for {ROUNDS} rounds: {under - plain}")


def count_calls(bed, binary, environment):
    """The system calls of an echo client; its server is plain. Waiting for the server's port is not counted."""
    progress, trace = bed.folder / "progress", bed.folder / "trace"
    progress.write_bytes(bytes(4096))
    server = bed.start([binary, progress, "listen", "echo", 1], False)
    try:
        words = ["strace", "-f", "-o", trace, *[f"--env={k}={v}" for k, v in environment.items()],
                 binary, progress, "connect", "echo", "2", str(ROUNDS)]
        subprocess.run(words, check=True, timeout=120, env=os.environ | {"LD_PRELOAD": ""}, stdout=subprocess.DEVNULL)
        expect(server.wait(30) == 0, server.output())
    finally:
        server.end()
    calls = Counter()
    for line in trace.read_text().splitlines():
        name = re.match(r"\d+ +(\w+)\(", line)
        if name and "<unfinished" not in line:
            calls[name[1]] += 1
        if name and name[1] == "connect" and "AF_UNIX" in line:
            calls["connect AF_UNIX"] += 1
    # The loop that waits for the port.
    connected = next(i for i, line in enumerate(trace.read_text().splitlines()) if "AF_INET" in line and "connect(" in line)
    for line in trace.read_text().splitlines()[:connected]:
        if "nanosleep(" in line:
            calls["clock_nanosleep" if "clock_" in line else "nanosleep"] -= 1
    return calls
