"""memcached: its text, meta and binary protocols, values of all sizes, one thread and several."""

from .case import Case, own_client, user_words


def server(threads):
    return lambda folder, port: ["memcached", "-l", "127.0.0.1", "-p", port, "-U", 0, "-m", 128, "-I", "4m",
                                 "-t", threads, *user_words("-u")]


def client(protocol):
    return own_client("memcache.py", protocol, name=f"memcache.py-{protocol}")


CLIENTS = [client("text"), client("meta"), client("binary")]
CASES = [Case("memcached", ["memcached"], server(1), CLIENTS, full=True),
         Case("memcached-threads", ["memcached"], server(4), CLIENTS)]
