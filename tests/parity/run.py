#!/usr/bin/env python3
"""Runs the parity tests: the same programs natively and under Ringway, with the same expectations.

  run.py --mode native                     plain kernel, no library
  run.py --mode both                       both ends under Ringway; upgrades are asserted
  run.py --mode server | client            only the accepting | connecting end under it
  run.py --mode dead                       both ends under it, the monitor dead
  run.py --compare native.json both.json   tests whose outcome differs between result files

Everything happens in a network namespace of its own where the kernel allows one. Each test is a
process group that is killed when its time is over. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import build
import netns

KNOWN = Path(__file__).resolve().parent / "known.txt"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODES = ("native", "both", "server", "client", "dead")

# The flags of harness/parity.h.
BARE, SOLO, PROCESS, ANY_PATH, ONCE, COLD, REMOTE = 1, 2, 4, 8, 16, 32, 64

Variant = collections.namedtuple("Variant", "label side family warmth thread", defaults=(False,))
Result = collections.namedtuple("Result", "test variant clause outcome detail seconds uncounted")


def variants(test, mode, host):
    """How often, and under which circumstances, one test is run."""
    flags = test["flags"]
    if flags & REMOTE:
        return [Variant("remote", "connect", netns.NEAR_ADDRESS, "warm")] if host and mode != "dead" else []
    if flags & SOLO:
        if mode in ("server", "client"):
            return []
        all_of_them = [Variant("warm-v4", "connect", "v4", "warm"), Variant("mid-v6", "connect", "v6", "mid"),
                       Variant("cold-host", "connect", host or "v4", "cold")]
    elif flags & COLD:
        all_of_them = [Variant("connect-cold-v4", "connect", "v4", "cold"), Variant("accept-cold-v6", "accept", "v6", "cold")]
    else:
        all_of_them = [Variant("connect-warm-v4", "connect", "v4", "warm"), Variant("accept-warm-v6", "accept", "v6", "warm"),
                       Variant("connect-cold-v4", "connect", "v4", "cold"), Variant("accept-mid-v4", "accept", "v4", "mid")]
        if not flags & PROCESS and mode not in ("server", "client"):
            all_of_them.append(Variant("thread-warm-host", "accept", host or "v4", "warm", True))
    return all_of_them[:1] if flags & ONCE else all_of_them


def rounds(test, variant, seed):
    """Round trips before the body; the mid variant lands anywhere around the upgrade."""
    if variant.warmth == "mid":
        return 1 + zlib.crc32(f"{seed} {test['name']} {variant.label}".encode()) % 63
    return 64 if variant.warmth == "warm" else 0


class Setting:
    """What all tests of this run have in common."""

    def __init__(self, options, binary, directory):
        self.mode, self.seed, self.binary = options.mode, options.seed, binary
        self.library, self.profile, self.directory = options.library, options.profile, directory
        self.timeout_s = options.timeout
        self.namespaces = netns.Namespaces()

    def environment(self, role, side, variant, test):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LD_PRELOAD", "RINGWAY_", "PARITY_"))}
        env.update(PARITY_SIDE=side, PARITY_FAMILY=variant.family, PARITY_ROUNDS=str(rounds(test, variant, self.seed)))
        under = {"native": (), "both": ("accept", "connect"), "dead": ("accept", "connect"),
                 "server": ("accept",), "client": ("connect",)}[self.mode]
        if role in under:
            env.update(LD_PRELOAD=str(self.library), RINGWAY_SOCKET=f"{self.directory}/monitor.sock", RINGWAY_PROFILE=self.profile)
        if self.mode == "both" and variant.label != "remote":
            env["PARITY_EXPECT_UPGRADE"] = "1"
        return env


def run_test(setting, test, variant):
    started = time.monotonic()
    outcome, detail = run_roles(setting, test, variant)
    seconds = round(time.monotonic() - started, 3)
    # Tests that open connections as they please promise no pair.
    uncounted = bool(test["flags"] & (BARE | SOLO | ANY_PATH))
    return Result(test["name"], variant.label, test["clause"], outcome, detail, seconds, uncounted)


def run_roles(setting, test, variant):
    """Starts the subject, and the peer where it is a process of its own; the verdict of both."""
    side, other = variant.side, {"accept": "connect", "connect": "accept"}[variant.side]
    processes = []
    try:
        with contextlib.ExitStack() as cleanup:
            env = setting.environment(side, side, variant, test)
            sync = ()
            if not test["flags"] & SOLO and not variant.thread:
                subject_end, peer_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                cleanup.enter_context(subject_end)
                cleanup.enter_context(peer_end)
                peer_env = setting.environment(other, side, variant, test) | {"PARITY_SYNC": str(peer_end.fileno())}
                processes.append(start([setting.binary, "peer", test["name"]], peer_env, [peer_end.fileno()]))
                sync = [subject_end.fileno()]
                env |= {"PARITY_SYNC": str(sync[0]), "PARITY_PEER_PID": str(processes[0].pid)}
            enter = setting.namespaces.enter_far() if variant.label == "remote" else []
            subject = start([*enter, *test["command"]], env, sync)
            processes.append(subject)
        return verdict(subject, processes, setting.timeout_s)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()


def start(command, env, descriptors):
    return subprocess.Popen(command, env=env, pass_fds=descriptors, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, start_new_session=True)


def verdict(subject, processes, timeout_s):
    try:
        output, _ = subject.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        stacks = [state_of(process.pid) for process in processes]
        return "failed", f"no end after {timeout_s} s; {'; '.join(stacks)}"
    text = output.decode(errors="replace").strip()
    if subject.returncode == 77:
        return "skipped", text.partition("# SKIP ")[2]
    if subject.returncode == 0:
        return "passed", ""
    for process in processes[:-1]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            text += " | peer: " + process.communicate(timeout=1)[0].decode(errors="replace").strip()
    return "failed", f"exit {subject.returncode}: {' / '.join(text.splitlines())}"[-1500:]


def state_of(pid):
    """Where a process that never ended was: its state and the kernel function it sleeps in."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"pid {pid} {state} in {Path(f'/proc/{pid}/wchan').read_text() or 'user space'}"
    except OSError:
        return f"pid {pid} gone"


@contextlib.contextmanager
def monitor(options, directory):
    """The private monitor of this run; in mode `dead`, what one that was killed leaves behind."""
    if options.mode == "native":
        yield
        return
    if options.mode == "dead":
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stale:
            stale.bind(f"{directory}/monitor.sock")
        yield
        return
    with open(f"{directory}/daemon.log", "w") as log:
        daemon = subprocess.Popen([options.ringway, "daemon", "--socket-dir", directory], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 10
            while not os.path.exists(f"{directory}/monitor.sock"):
                if daemon.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"run.py: the monitor did not start: {Path(directory, 'daemon.log').read_text()[-800:]}")
                time.sleep(0.01)
            yield
            if daemon.poll() is not None:
                sys.exit(f"run.py: the monitor died: {Path(directory, 'daemon.log').read_text()[-800:]}")
        finally:
            daemon.terminate()
            daemon.wait()


def pairs_made(directory):
    """How many connections the monitor has paired, by its own count."""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(10)
        control.connect(f"{directory}/control.sock")
        control.sendall(b'{"cmd":"status"}\n')
        with control.makefile() as answer:
            return json.loads(answer.readline())["pairs_total"]


def check_pairs(options, directory, results):
    """Mode `both`: the monitor must have paired at least one connection for each warmed-up test.

    Each warm-up asserts its own connection's upgrade by the kernel's counts; this is the second witness."""
    if options.mode != "both":
        return []
    needed = sum(r.outcome == "passed" and "warm" in r.variant and not r.uncounted for r in results)
    pairs = pairs_made(directory)
    outcome = "passed" if pairs >= needed else "failed"
    detail = f"the monitor paired {pairs} connections, at least {needed} were needed"
    print(detail)
    return [Result("monitor.pairs", "all", "connections are upgraded", outcome, detail, 0.0, True)]


def collect(options, setting):
    tests = build.list_tests(setting.binary, HERE)
    jobs = [(test, variant) for test in tests if options.filter in test["name"]
            for variant in variants(test, options.mode, setting.namespaces.host_address)
            if options.variant in variant.label]
    for test, variant in list(jobs):
        reason = None if options.known else known_reason(options, test, variant)
        if reason:
            print(f"known    {test['name']} {variant.label}  {reason}", flush=True)
            jobs.remove((test, variant))
            yield Result(test["name"], variant.label, test["clause"], "skipped", f"known: {reason}", 0.0, True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(run_test, setting, *job) for job in jobs for _ in range(options.repeat)]
        for future in concurrent.futures.as_completed(futures):
            result = future.result()
            if result.outcome == "failed" or options.verbose:
                print(f"{result.outcome:8}{result.test} {result.variant}  {result.detail}  [{result.clause}]", flush=True)
            yield result


def try_again(options, setting, results):
    """Runs what failed once more, alone: a machine that is busy with something else is no difference between kernel and
    Ringway. What passes then is named and counted, so that it cannot hide."""
    tests = {test["name"]: test for test in build.list_tests(setting.binary, HERE)}
    settled, retries = [], 0
    for result in results:
        if result.outcome == "failed":
            test = tests[result.test]
            variant = next(v for v in variants(test, options.mode, setting.namespaces.host_address) if v.label == result.variant)
            result = run_test(setting, test, variant)
            print(f"again    {result.test} {result.variant}: {result.outcome} at the second try  {result.detail}", flush=True)
            retries += 1
        settled.append(result)
    print(f"{retries} second tries")
    return settled


def known_reason(options, test, variant):
    """Why a run is left out, if known.txt says so: each one is named and counted as skipped."""
    for line in KNOWN.read_text().splitlines():
        if line and not line.startswith("#"):
            mode, name, label, reason = line.split(None, 3)
            if mode in (options.mode, "*") and fnmatch.fnmatch(test["name"], name) and fnmatch.fnmatch(variant.label, label):
                return reason
    return None


def report(options, results):
    groups = collections.defaultdict(collections.Counter)
    for result in results:
        groups[result.test.partition(".")[0]][result.outcome] += 1
    print(f"\n{'mode ' + options.mode:20}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for name, counts in sorted(groups.items()):
        print(f"{name:20}{counts['passed']:8}{counts['failed']:8}{counts['skipped']:8}")
    if options.json:
        document = {"schema": 1, "mode": options.mode, "results": [r._asdict() for r in sorted(results)]}
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n")
    total = collections.Counter(result.outcome for result in results)
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 0 if total["failed"] == 0 and total["passed"] else 1


def compare(paths):
    """Prints the tests (with their variants, as far as both files have them) that came out differently."""
    documents = [json.loads(Path(path).read_text()) for path in paths]
    tables = [{(r["test"], r["variant"]): r for r in d["results"]} for d in documents]
    differing = 0
    for key in sorted(set.intersection(*map(set, tables))):
        outcomes = [table[key]["outcome"] for table in tables]
        if len(set(outcomes)) > 1:
            differing += 1
            print(" ".join(key), " ".join(f"{d['mode']}={o}" for d, o in zip(documents, outcomes)))
    print(f"{differing} differ")
    return 1 if differing else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES, default="native")
    parser.add_argument("--filter", default="", help="only tests whose name contains this")
    parser.add_argument("--variant", default="", help="only variants whose label contains this")
    parser.add_argument("--ringway", type=Path, default=ROOT / "target/release/ringway")
    parser.add_argument("--library", type=Path, default=ROOT / "target/release/libringway.so")
    parser.add_argument("--profile", default="balanced")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=20, help="seconds for each test")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="moves the point at which the mid variants switch")
    parser.add_argument("--known", action="store_true", help="also run what known.txt lists")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--compare", nargs="+", metavar="FILE")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args()


def main():
    options = parse()
    if options.compare:
        return compare(options.compare)
    if options.mode != "native" and not options.library.exists():
        sys.exit(f"run.py: no library at {options.library}; build it with `cargo build --release`")
    netns.enter_private()
    binary = build.build(HERE, ROOT / "target/parity")
    with tempfile.TemporaryDirectory(prefix="parity-") as directory, monitor(options, directory):
        setting = Setting(options, binary, directory)
        with setting.namespaces:
            results = try_again(options, setting, list(collect(options, setting)))
            return report(options, results + check_pairs(options, directory, results))


if __name__ == "__main__":
    sys.exit(main())
