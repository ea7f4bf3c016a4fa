"""Java: selectors, threads and the JDK's web server and client, while the JIT and the collector use signals."""

import subprocess

from _bed import CLIENTS, SERVERS, find_program

from .case import Case, Client

JAVA = ["java", "-Xmx96m", "-XX:+UseG1GC", "-cp"]


def compiled(source, folder):
    """The folder that holds the classes."""
    classes = folder / "classes"
    subprocess.run([find_program("javac"), "-d", classes, source], check=True, capture_output=True, timeout=120)
    return classes


class Compiled:
    """The client's classes, made at their first use for all modes."""
    folder = None

    def __call__(self, kind):
        return lambda port: [*JAVA, self.folder, "Talk", port, kind]


TALK = Compiled()


def server(kind):
    def start(folder, port):
        # Beside the servers' folders, which go with their modes.
        TALK.folder = folder.parent / "classes"
        if not TALK.folder.exists():
            compiled(CLIENTS / "Talk.java", folder.parent)
            compiled(SERVERS / "Serve.java", folder.parent)
        return [*JAVA, TALK.folder, "Serve", kind, port]
    return start


def client(kind):
    return Client(f"Talk.java-{kind}", TALK(kind), holds=True, limit_s=90)


NEEDS = ["java", "javac"]
CASES = [
    Case("java-selector", NEEDS, server("selector"), [client("sockets"), client("channels")]),
    Case("java-threads", NEEDS, server("threads"), [client("sockets"), client("channels")], full=True),
    Case("java-http", NEEDS, server("http"), [client("http")]),
]
