"""The test bed: a private folder and monitor, programs under Ringway or plain, and questions to the monitor.

Everything that it starts is a process group of its own and ends with it. Nothing waits without a limit.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
CLIENTS, SERVERS = HERE / "clients", HERE / "servers"
RINGWAY = os.environ.get("RINGWAY_BIN", str(ROOT / "target/release/ringway"))
LIBRARY = os.environ.get("RINGWAY_LIBRARY", str(ROOT / "target/release/libringway.so"))
START_LIMIT_S = 20

# Numbers for RINGWAY_RUN_ID, by which the monitor sums what a program's processes count.
_run_ids = itertools.count(1 + (os.getpid() << 20))


class Failure(Exception):
    """A test's expectation that did not hold."""


def expect(condition, what):
    if not condition:
        raise Failure(what)


def wait_until(what, condition, limit_s=START_LIMIT_S):
    """Polls until `condition` holds and returns its value."""
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        expect(time.monotonic() < deadline, f"{what}: not within {limit_s} s")
        time.sleep(0.002)
    return value


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    """Seen from outside: a connection to try it would be a client, which some servers take only one of."""
    sockets = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    return re.search(rf":{port:04X} \S+ 0A ", sockets) is not None


def find_program(name):
    """Searched where shells do and where Debian keeps servers."""
    servers = ["/usr/sbin", "/sbin", *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *servers]))


class Program:
    """A process group with a log; knows its run id if it is under Ringway."""

    def __init__(self, words, env, log, run_id, stdin):
        self.words, self.log, self.run_id = words, log, run_id
        with open(log, "wb") as output:
            self.process = subprocess.Popen(words, env=env, stdin=stdin, stdout=output, stderr=subprocess.STDOUT,
                                            start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def output(self):
        return self.log.read_text(errors="replace")

    def running(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, limit_s):
        """The exit code."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.words[0]} did not end within {limit_s} s; {self.where()}; "
                          f"it said: {self.output()[-400:]}") from None

    def where(self):
        """What the processes of the group sleep in, for the report of a hang."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, IndexError):
                pid, fields = status.parent.name, status.read_text().rpartition(")")[2].split()
                if fields[2] == str(self.pid):
                    found.append(f"{pid} {fields[0]} in {Path(f'/proc/{pid}/wchan').read_text() or 'user space'}")
        return ", ".join(found)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()


class Bed:
    """One private monitor and whatever is started on it."""

    def __init__(self, profile="balanced", call_threshold=None):
        self.profile, self.call_threshold = profile, call_threshold
        self.cleanup = contextlib.ExitStack()
        self.monitor = None

    def __enter__(self):
        self.folder = Path(self.cleanup.enter_context(tempfile.TemporaryDirectory(prefix="programs-")))
        # Servers that run as users of their own have to reach their folders and the sockets.
        self.folder.chmod(0o755)
        self.sockets = self.folder / "sockets"
        self.sockets.mkdir(mode=0o755)
        self.cleanup.callback(self.kill_monitor)
        self.start_monitor()
        return self

    def __exit__(self, *_):
        self.cleanup.close()

    def start_monitor(self):
        if self.monitor and self.monitor.running():
            return
        self.monitor = Program([RINGWAY, "daemon", "--socket-dir", str(self.sockets)], os.environ.copy(),
                               self.folder / "monitor.log", 0, subprocess.DEVNULL)
        wait_until(f"the monitor ({self.monitor.log})", self.monitor_answers)

    def monitor_answers(self):
        expect(self.monitor.running(), f"the monitor ended: {self.monitor.output()[-400:]}")
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.sockets / "control.sock")) == 0

    def kill_monitor(self):
        self.monitor.end()

    @contextlib.contextmanager
    def restarting_monitor(self, pause_s=0.3):
        """The monitor is killed and started anew, again and again, for the length of a block."""
        over, problems = threading.Event(), []

        def restart():
            try:
                while not over.wait(pause_s):
                    self.kill_monitor()
                    over.wait(pause_s / 3)
                    self.start_monitor()
            except Failure as problem:
                problems.append(problem)

        thread = threading.Thread(target=restart)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.start_monitor()
        if problems:
            raise problems[0]

    def start(self, words, under, *, env=(), stdin=subprocess.DEVNULL, uid_gid=None, name=None):
        """Starts a program, under Ringway or plain, as another user if so asked."""
        run_id = next(_run_ids) if under else 0
        program = find_program(words[0])
        expect(program, f"no program {words[0]}")
        words = [program, *map(str, words[1:])]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_PRELOAD", "RINGWAY_"))} | dict(env)
        if under:
            words = [RINGWAY, "run", "--no-daemon", "-p", self.profile, "--", *words]
            environment.update(RINGWAY_SOCKET=str(self.sockets / "monitor.sock"), RINGWAY_LIBRARY=LIBRARY,
                               RINGWAY_RUN_ID=str(run_id))
            if self.call_threshold is not None:
                environment["RINGWAY_UPGRADE_CALLS"] = str(self.call_threshold)
        if uid_gid:
            uid, gid = uid_gid
            words = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", *words]
        log = self.folder / f"{name or Path(program).name}-{time.monotonic_ns()}.log"
        return Program(words, environment, log, run_id, stdin)

    @contextlib.contextmanager
    def running(self, *arguments, **options):
        """As `start`, for the length of a block."""
        program = self.start(*arguments, **options)
        try:
            yield program
        finally:
            program.end()

    @contextlib.contextmanager
    def serving(self, words, under, port, **options):
        """A server, once it accepts connections at `port`."""
        with self.running(words, under, **options) as server:
            def ready():
                expect(server.running(), f"{words[0]} ended: {server.output()[-600:]}")
                return listens(port)
            wait_until(f"{words[0]} at port {port}", ready)
            yield server

    def ask(self, **request):
        """One line to the monitor, one document back."""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(10)
            stream.connect(str(self.sockets / "control.sock"))
            stream.sendall(json.dumps(request).encode() + b"\n")
            with stream.makefile("rb") as lines:
                return json.loads(lines.readline())

    def counters(self, program):
        """What the program's processes have counted together, ended ones included."""
        answer = self.ask(cmd="run", run_id=program.run_id) if program.run_id else {}
        return answer.get("counters", {})

    def upgraded(self, program):
        return self.counters(program).get("connections_upgraded", 0)


class Report:
    """Counts tests, prints what failed, and ends with the counts line."""

    def __init__(self, verbose=False):
        self.passed = self.failed = self.skipped = 0
        self.verbose = verbose

    def skip(self, name, reason):
        self.skipped += 1
        print(f"SKIP {name}: {reason}", flush=True)

    @contextlib.contextmanager
    def test(self, name):
        started = time.monotonic()
        try:
            yield
        except (Failure, OSError, ValueError, subprocess.SubprocessError) as problem:
            self.failed += 1
            text = str(problem) if isinstance(problem, Failure) else f"{type(problem).__name__}: {problem}"
            print(f"FAILED {name} ({time.monotonic() - started:.1f} s): {text}", flush=True)
        else:
            self.passed += 1
            if self.verbose:
                print(f"passed {name} ({time.monotonic() - started:.1f} s)", flush=True)

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(0 if self.passed and not self.failed else 1)
