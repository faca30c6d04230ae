"""A small store that speaks as much of S3 as reading needs: list, HEAD, and GET of ranges."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

KEY_ID = "key-of-the-tests"
SECRET = "secret-of-the-tests"
_PAGE = 2


@dataclass
class ObjectStore:
    """A running store: its objects by ``bucket/key``, and who has asked for what.

    ``meanwhile`` is called before each answer with the method and the object; what it returns is
    sent in place of the answer: a status with a header, or nothing.
    """

    url: str
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    meanwhile: Callable[[str, str], tuple[int, str, str] | None] = lambda _method, _name: None
    cut: int | None = None
    """After so many bytes the next body breaks off."""


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Serve a store on 127.0.0.1 for the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        store = ObjectStore(f"http://127.0.0.1:{server.server_address[1]}")
        server.store = store  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield store
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        store: ObjectStore = self.server.store  # type: ignore[attr-defined]
        url = urlsplit(self.path)
        name = unquote(url.path).lstrip("/")
        store.asked.append((self.command, name))
        instead = store.meanwhile(self.command, name)
        if f"Credential={KEY_ID}/" not in self.headers.get("Authorization", ""):
            self._send(403)
        elif instead is not None:
            status, header, value = instead
            self._send(status, **{header: value})
        elif url.query and "list-type=2" in url.query:
            self._list(store, name, {k: v[0] for k, v in parse_qs(url.query).items()})
        else:
            self._object(store, name)

    do_HEAD = do_GET  # noqa: N815 - the name that the standard library calls

    def _list(self, store: ObjectStore, bucket: str, asked: dict[str, str]) -> None:
        start = f"{bucket}/{asked.get('prefix', '')}"
        keys = sorted(each for each in store.objects if each.startswith(start))
        begin = int(asked.get("continuation-token", 0))
        page, more = keys[begin : begin + _PAGE], begin + _PAGE < len(keys)
        rows = "".join(
            f"<Contents><Key>{escape(quote(each.removeprefix(f'{bucket}/')))}</Key>"
            f"<LastModified>2024-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{escape(etag(store.objects[each]))}</ETag>"
            f"<Size>{len(store.objects[each])}</Size></Contents>"
            for each in page
        )
        token = f"<NextContinuationToken>{begin + _PAGE}</NextContinuationToken>" if more else ""
        self._send(
            200,
            f"<ListBucketResult><Name>{bucket}</Name><EncodingType>url</EncodingType>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}"
            "</ListBucketResult>".encode(),
        )

    def _object(self, store: ObjectStore, name: str) -> None:
        content = store.objects.get(name)
        if content is None:
            self._send(404)
            return
        about = {"ETag": etag(content), "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        if self.headers.get("If-Match", about["ETag"]) != about["ETag"]:
            self._send(412)
        elif wanted := self.headers.get("Range"):
            first, last = map(int, wanted.removeprefix("bytes=").split("-"))
            some = content[first : last + 1]
            about["Content-Range"] = f"bytes {first}-{first + len(some) - 1}/{len(content)}"
            self._send(206, some, **about)
        else:
            self._send(200, content, **about)

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        store: ObjectStore = self.server.store  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command == "GET":
            whole, store.cut = (body if store.cut is None else body[: store.cut]), None
            self.wfile.write(whole)
            self.close_connection = len(whole) < len(body)
