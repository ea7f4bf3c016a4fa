"""Redis: data of all sizes with our client, load with its own."""

import re

from .case import Case, Client, own_client


def server(folder, port):
    return ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]


def rates(output):
    """The benchmark's commands that came to an end."""
    return re.findall(r'^"(\w+).*?","[\d.]+"', output, re.M)


BENCHMARK = Client("redis-benchmark", lambda port: ["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", "set,get,lrange_100",
                                                    "-c", 20, "-n", 20000, "-d", 100, "--csv"], rates)
PIPELINED = Client("redis-benchmark-pipelined", lambda port: ["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", "set,get",
                                                              "-c", 5, "-n", 100000, "-P", 16, "--csv"], rates)
CASE = Case("redis", ["redis-server", "redis-benchmark"], server, [own_client("resp.py"), BENCHMARK, PIPELINED])
