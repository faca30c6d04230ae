"""Another site: a page of its own, whose form is sent to whatever address its query names."""

from __future__ import annotations

import html
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_PAGE = """<!doctype html><html lang="en"><title>Win</title><link rel="icon" href="data:,">
<form method="post" action="{address}"><input type="hidden" name="form_key" value="{key}">
<button>Win</button></form></html>"""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        address = html.escape(urlsplit(self.path).query, quote=True)
        body = _PAGE.format(address=address, key="a" * 24).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def elsewhere() -> Iterator[str]:
    """Serve the page for a block; the value is its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield str(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
