"""How a file was read: shown once, to the browser that has sent it.

Such a report counts private cells, so the service keeps it nowhere. It goes along with the answer
to the upload, as cookies for the page of the data set alone, and comes back with the request of
that page, to whichever server process that goes. It is sealed with the session's token, so that
a user who signs in later cannot read it, and the page that shows it has the browser forget it.
"""

from __future__ import annotations

import base64
import json
import secrets
import zlib
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.requests import Request
from starlette.responses import Response

from app.desk import cookies
from app.desk.rendering import path_of
from app.domain.upload_problems import UploadReport

_NAME = "release-desk-report"
_KEPT_S = 600
_NONCE_BYTES = 12  # what AES-GCM takes
_LONGEST, _MOST = 3_500, 8
"""Letters of a cookie, which browsers take up to 4096 of, and how many cookies there may be."""
_MOST_BYTES = 2**20  # few packed bytes may be many: no more of them are unpacked


def send_along(request: Request, response: Response, dataset: str, report: UploadReport) -> None:
    """Have the browser keep a report for the data set's page; its columns go where it is long."""
    sealed = _sealed(request, dataset, report)
    if len(sealed) > _LONGEST * _MOST:
        sealed = _sealed(request, dataset, UploadReport(report.rows, report.rows_dropped))
    for number, start in enumerate(range(0, len(sealed), _LONGEST)):
        cookies.remember_briefly(
            request,
            response,
            f"{_NAME}-{number}",
            sealed[start : start + _LONGEST],
            path=path_of("datasets", dataset),
            seconds=_KEPT_S,
        )


def sent_back(request: Request, dataset: str) -> UploadReport | None:
    """Return the report that a browser brings to a data set's page, if it is this session's."""
    parts = [request.cookies.get(f"{_NAME}-{number}", "") for number in range(_MOST)]
    try:
        content = base64.urlsafe_b64decode("".join(parts))
        key = AESGCM(_key(request))
        packed = key.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], dataset.encode())
        report = json.loads(zlib.decompressobj().decompress(packed, _MOST_BYTES))
        return UploadReport.of(report, report["columns"])
    except (InvalidTag, ValueError):
        return None


def forget(request: Request, response: Response, dataset: str) -> None:
    """Have the browser forget what it has brought."""
    for number in range(_MOST):
        if f"{_NAME}-{number}" in request.cookies:
            cookies.forget_brief(
                request, response, f"{_NAME}-{number}", path=path_of("datasets", dataset)
            )


def _sealed(request: Request, dataset: str, report: UploadReport) -> str:
    packed = zlib.compress(json.dumps(report.to_json()).encode(), 9)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    content = nonce + AESGCM(_key(request)).encrypt(nonce, packed, dataset.encode())
    return base64.urlsafe_b64encode(content).decode()


def _key(request: Request) -> bytes:
    return sha256(b"release-desk report " + cookies.session_of(request).encode()).digest()
