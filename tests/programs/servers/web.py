"""Python's own web server: `web.py PORT FOLDER`. Keeps connections alive, serves ranges, sends files with sendfile."""

import http.server
import os
import re
import sys
from pathlib import Path


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with open(folder / Path(self.path).name, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            first = int(wanted.group(1)) if wanted else 0
            count = (int(wanted.group(2) or length - 1) if wanted else length - 1) - first + 1
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(count))
            self.end_headers()
            self.connection.sendfile(file, first, count)

    def log_message(self, *_):
        pass


folder = Path(sys.argv[2])
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
