"""Redis: data of all sizes with our client, load with its own, publishing, replication, an append-only file."""

import re

from .case import Case, Client, PYTHON, own_client


def server(folder, port, *_, options=()):
    return ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder, *options]


def durable(folder, port, *_):
    return server(folder, port, options=["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", 0])


def replica(folder, port, primary):
    return server(folder, port, options=["--replicaof", "127.0.0.1", primary])


def rates(output):
    """The benchmark's commands that came to an end."""
    return re.findall(r'^"(\w+).*?","[\d.]+"', output, re.M)


def benchmark(name, *words, **options):
    return Client(f"redis-benchmark-{name}", lambda port: ["redis-benchmark", "-h", "127.0.0.1", "-p", port, "--csv", *words],
                  rates, ("redis-benchmark",), **options)


def piped(output):
    return re.search(r"errors: 0, replies: (\d+)", output) and output


def pipe(port):
    lines = "print(''.join(f'SET pipe{n} {n:0100d}\\r\\n' for n in range(50000)), end='')"
    return ["sh", "-c", f'{PYTHON} -c "{lines}" | redis-cli -p {port} --pipe']


CLIENTS = [
    own_client("resp.py"),
    own_client("publish.py"),
    benchmark("calls", "-t", "set,get,lrange_100", "-c", 20, "-n", 20000, "-d", 100),
    benchmark("pipelined", "-t", "set,get", "-c", 5, "-n", 100000, "-P", 16),
    benchmark("threads", "-t", "set,get", "-c", 50, "-n", 50000, "--threads", 4, full=True),
    benchmark("large", "-t", "set,get", "-c", 8, "-n", 400, "-d", 500000, full=True),
    Client("redis-cli-pipe", pipe, piped, ("redis-cli",)),
]
THREADS = ["--io-threads", 4, "--io-threads-do-reads", "yes"]
CASES = [
    Case("redis", ["redis-server"], server, CLIENTS),
    Case("redis-io-threads", ["redis-server"], lambda folder, port: server(folder, port, options=THREADS), CLIENTS, full=True),
    Case("redis-replicated", ["redis-server"], durable, [own_client("replicate.py")], behind=replica),
]
