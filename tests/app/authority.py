"""A time-stamping authority on this machine (RFC 3161), with a key and a certificate of its own.

What it answers is put together here from bytes, as the standard says (DER, X.690), and checks with
`openssl ts -verify` too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

STAMPED_AT = "2026-11-21T09:30:00Z"
"""What its clock says unless it is set."""

_SERIAL = 7
_INTEGER, _OCTETS, _NULL, _OID, _SEQUENCE, _SET, _TIME = 2, 4, 5, 6, 0x30, 0x31, 0x18
_SHA256 = "2.16.840.1.101.3.4.2.1"
_ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2"
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_STAMP = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE, _DIGEST = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.47"


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _seq(*parts: bytes) -> bytes:
    return _der(_SEQUENCE, *parts)


def _set(parts: Sequence[bytes]) -> bytes:
    return _der(_SET, *sorted(parts))


def _integer(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _oid(name: str) -> bytes:
    first, second, *others = map(int, name.split("."))
    content = bytes([40 * first + second])
    for each in others:
        groups = [
            each >> 7 * place & 127 for place in range(max(each.bit_length() - 1, 0) // 7 + 1)
        ]
        content += bytes([*(group | 128 for group in reversed(groups[1:])), groups[0]])
    return _der(_OID, content)


def _read(content: bytes) -> list[tuple[int, bytes]]:
    """Return the tags and contents of DER values, one after another."""
    found = []
    while content:
        tag, size, start = content[0], content[1], 2
        if size >= 128:
            start += size - 128
            size = int.from_bytes(content[2:start], "big")
        found.append((tag, content[start : start + size]))
        content = content[start + size :]
    return found


@dataclass
class Stamping:
    """An authority, and what it has been asked for."""

    name: str = "an authority of tests"
    down: bool = False
    """It answers 503."""
    answers: bytes | None = None
    """What it answers whatever it is asked for."""
    asked: list[bytes] = field(default_factory=list)
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    url: str = ""
    at: str = STAMPED_AT
    """What its clock says."""
    issued: bool = False
    """Its certificate is issued by another, which it sends along, out of the order of DER."""

    def __post_init__(self) -> None:
        purpose = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.TIME_STAMPING])
        key = ec.generate_private_key(ec.SECP256R1()) if self.issued else self.key
        name = f"above {self.name}" if self.issued else self.name
        self._certificate = self._made(self.name, self.key, purpose, issuer=name, by=key)
        self._trusted = self._certificate
        if self.issued:
            above = x509.BasicConstraints(ca=True, path_length=None)
            self._trusted = self._made(name, key, above, issuer=name, by=key)

    def _made(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        extension: x509.ExtensionType,
        *,
        issuer: str,
        by: ec.EllipticCurvePrivateKey,
    ) -> x509.Certificate:
        at, names = datetime.fromisoformat(self.at), [_named(issuer), _named(name)]
        serial = _SERIAL + (name == issuer and self.issued)
        builder = x509.CertificateBuilder(*names, key.public_key(), serial)
        builder = builder.not_valid_before(at - timedelta(days=1))
        builder = builder.not_valid_after(at + timedelta(days=1))
        return builder.add_extension(extension, critical=True).sign(by, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """Return the certificate of whoever issued its own, for whoever trusts them."""
        return self._trusted.public_bytes(Encoding.PEM)

    def stamp(self, query: bytes) -> bytes:
        """Return the answer to a request."""
        ((_, request),) = _read(query)
        _, (_, imprint), *others = _read(request)
        nonce = next(content for tag, content in others if tag == _INTEGER)
        self.asked.append(_read(imprint)[1][1])
        at = datetime.fromisoformat(self.at).astimezone(UTC).strftime("%Y%m%d%H%M%SZ")
        said = _seq(
            _integer(1),
            _oid("1.2.3.4"),
            _seq(imprint),
            _integer(len(self.asked)),
            _der(_TIME, at.encode()),
            _der(_INTEGER, nonce),
        )
        return _seq(_seq(_integer(0)), _seq(_oid(_SIGNED_DATA), _der(0xA0, self._signed(said))))

    def _sent(self) -> Sequence[bytes]:
        every = {each.public_bytes(Encoding.DER) for each in (self._certificate, self._trusted)}
        return sorted(every, reverse=True)

    def _signed(self, said: bytes) -> bytes:
        certificate = self._certificate.public_bytes(Encoding.DER)
        own = _seq(_seq(_seq(_der(_OCTETS, sha256(certificate).digest()))))
        attributes = sorted(
            [
                _seq(_oid(_CONTENT_TYPE), _set([_oid(_STAMP)])),
                _seq(_oid(_DIGEST), _set([_der(_OCTETS, sha256(said).digest())])),
                _seq(_oid(_SIGNING_CERTIFICATE), _set([own])),
            ]
        )
        signature = self.key.sign(_set(attributes), ec.ECDSA(hashes.SHA256()))
        by = _seq(self._certificate.issuer.public_bytes(), _integer(_SERIAL))
        digest = _seq(_oid(_SHA256), _der(_NULL))
        signer = _seq(
            _integer(1),
            by,
            digest,
            _der(0xA0, *attributes),
            _seq(_oid(_ECDSA_WITH_SHA256)),
            _der(_OCTETS, signature),
        )
        return _seq(
            _integer(3),
            _set([digest]),
            _seq(_oid(_STAMP), _der(0xA0, _der(_OCTETS, said))),
            _der(0xA0, *self._sent()),
            _set([signer]),
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


@contextmanager
def listening(authority: Stamping) -> Iterator[Stamping]:
    """Have an authority answer on 127.0.0.1, at its ``url``, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            answer = authority.answers or authority.stamp(query)
            self.send_response(503 if authority.down else 200)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    authority.url = f"http://127.0.0.1:{server.server_port}/stamps?of=tests"
    try:
        yield authority
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
