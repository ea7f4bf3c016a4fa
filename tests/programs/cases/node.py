"""Node.js: streams with back-pressure and HTTP, with libuv's io_uring as it comes, off and on."""

from _bed import SERVERS

from .case import Case, own_client

NODE = {"interpreter": "node", "limit_s": 90}


def server(kind):
    return lambda folder, port: ["node", SERVERS / "serve.js", kind, port]


def case(name, kind, clients, setting=None, **options):
    env = {"UV_USE_IO_URING": setting} if setting else {}
    return Case(f"node-{name}", ["node"], server(kind), clients(env), env=env, **options)


def streams(env):
    return [own_client("echo.py"), own_client("talk.js", "echo", name="talk.js-echo", env=env, **NODE)]


def web(env):
    return [own_client("talk.js", "http", name="talk.js-http", env=env, **NODE)]


CASES = [
    case("echo", "echo", streams),
    case("http", "http", web),
    case("echo-no-uring", "echo", streams, "0", full=True),
    case("http-no-uring", "http", web, "0", full=True),
    case("echo-uring", "echo", streams, "1"),
]
