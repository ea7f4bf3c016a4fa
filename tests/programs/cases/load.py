"""iperf3 and sockperf: generators that come with servers of their own."""

import json
import re

from .case import Case, Client

TRANSFER = "64M"


def transferred(output):
    """Every stream came to its end and carried its part. The sender stops counting once it has sent enough, the
    receiver a little earlier."""
    end = json.loads(output)["end"]
    streams = [stream[side]["bytes"] for stream in end.get("streams", []) for side in ("sender", "receiver")]
    return bool(streams) and min(streams) > 1 << 20


def iperf(name, *words, one_way=True, **options):
    return Client(f"iperf3-{name}", lambda port: ["iperf3", "-c", "127.0.0.1", "-p", port, "-J", "-n", TRANSFER, *words],
                  transferred, one_way=one_way, **options)


def in_order(output):
    """Nothing lost, doubled or out of order, and every payload as it was sent."""
    return "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0" in output


def all_answered(output):
    return in_order(output) and bool(re.search(r"\[Valid Duration\].*SentMessages=(\d+); ReceivedMessages=\1", output))


def sent(output):
    return bool(re.search(r"Summary: Message Rate is [1-9]", output))


def sockperf(name, *words, result=all_answered, **options):
    return Client(f"sockperf-{name}", lambda port: ["sockperf", *words, "--tcp", "-i", "127.0.0.1", "-p", port, "-t", 1],
                  result, **options)


IPERF = [iperf("forth"), iperf("back", "-R"), iperf("parallel", "-P", 4), iperf("both-ways", "--bidir", one_way=False),
         iperf("small", "-l", 1000, "-n", "60M", full=True), iperf("sendfile", "-Z", full=True)]
# At a bounded rate: sockperf reserves room for as many messages as it believes TCP to be capable of.
SOCKPERF = [sockperf("ping-pong", "ping-pong", "--mps", 100000, "--data-integrity"),
            sockperf("ping-pong-large", "ping-pong", "--mps", 20000, "-m", 60000, "--data-integrity", full=True),
            sockperf("load", "under-load", "--mps", 20000, "--reply-every", 10, result=in_order, full=True),
            sockperf("throughput", "throughput", "-m", 1400, result=sent, one_way=True, full=True)]
CASES = [
    Case("iperf3", ["iperf3"], lambda folder, port: ["iperf3", "-s", "-B", "127.0.0.1", "-p", port], IPERF),
    Case("sockperf", ["sockperf"], lambda folder, port: ["sockperf", "server", "--tcp", "-i", "127.0.0.1", "-p", port], SOCKPERF),
]
