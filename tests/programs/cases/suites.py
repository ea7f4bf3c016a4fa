"""The test suites of CPython's standard library and of tornado, module by module."""

import dataclasses


@dataclasses.dataclass
class Suite:
    """A module of unittest tests."""
    module: str
    # Whether its TCP connections live long enough to be upgraded if they are offered as soon as they are made.
    connects: bool = True
    # Patterns of test names that the short run is limited to; () = only in the full run, None = everything.
    short: tuple | None = ()


SUITES = [
    Suite("test.test_epoll", short=None),
    Suite("test.test_poll", connects=False),
    Suite("test.test_select", connects=False, short=None),
    Suite("test.test_selectors", connects=False),
    Suite("test.test_socket", short=("*TCP*", "*.SendfileUsing*", "*FileObject*", "*.NetworkConnection*", "*.Interrupted*",
                                     "*.InheritanceTest.*", "*.BufferIOTest.*")),
    Suite("test.test_socketserver", short=None),
    Suite("test.test_httplib", short=None),
    Suite("test.test_httpservers"),
    Suite("test.test_ssl", short=("*.ThreadedTests.*",)),
    Suite("test.test_ftplib"),
    Suite("test.test_smtplib"),
    Suite("test.test_xmlrpc"),
    Suite("test.test_imaplib"),
    Suite("test.test_logging"),
    Suite("test.test_subprocess", connects=False),
    Suite("test.test_asyncio", short=("*.test_sendfile.*", "*.test_sock_lowlevel.*", "*.test_streams.*", "*.test_server.*",
                                      "*.test_buffered_proto.*")),
    *(Suite(f"tornado.test.{name}_test") for name in ("httpclient", "httpserver", "iostream", "simple_httpclient", "tcpserver",
                                                      "web", "websocket")),
    # Without connections, or with ones that never say a word or only one.
    *(Suite(f"tornado.test.{name}_test", connects=False) for name in (
        "asyncio", "auth", "autoreload", "concurrent", "curl_httpclient", "escape", "gen", "http1connection", "httputil",
        "import", "ioloop", "locale", "locks", "log", "netutil", "options", "process", "queues", "routing", "tcpclient",
        "template", "testing", "util", "wsgi")),
]

# Tests that no mode runs, and why: their result is chance on the plain kernel already.
LEFT_OUT = {
    "*VSOCK*": "VSOCK ports belong to the machine, not to the network namespace; without a loopback they hang natively",
    "tornado.test.simple_httpclient_test.SimpleHTTPSClientTestCase.test_request_timeout":
        "allows 100 ms for a TLS handshake and a request: on a busy machine it fails on the plain kernel as often",
    "*.test_disposition_param_linear_performance": "measures time; has nothing to do with sockets",
}
