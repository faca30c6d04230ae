"""Cookies: the token of a session, and now and then something for the next page.

A session's token is sent to this service alone, is hidden from scripts, and never goes along with
what another site asks for. Where the service is reached by TLS, or its public address says so, its
name has the prefix ``__Host-``, so that no neighbour in the domain can set it.

*How a file was read* is shown once, to the browser that has sent it. Such a report counts private
cells, so the service stores it nowhere. It goes along with the answer to the upload, as cookies for
the page of the data set alone, and comes back with the request of that page, to whichever server
process that goes. It is sealed with the session's token, so that a user who signs in later cannot
read it, and the page that shows it has the browser forget it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
import zlib
from hashlib import sha256
from typing import Any, Generic, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.requests import Request
from starlette.responses import Response

from app.desk.rendering import path_of
from app.domain.upload_reports import UploadReport
from app.services.people.sessions import LONGEST_S
from app.web.providers import FLOW_S
from app.web.state import AppState

# What is shown to one person once, and is kept nowhere else: for some minutes, in this process

T = TypeVar("T")


class ShownOnce(Generic[T]):
    """Holds things until their time is over.

    Parameters
    ----------
    seconds
        How long a thing is there.
    """

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._held: dict[tuple[str, str], T] = {}

    def hold(self, person: str, name: str, thing: T) -> None:
        """Hold a thing for a person, under a name; on the event loop."""
        self._held[person, name] = thing
        asyncio.get_running_loop().call_later(self._seconds, self._held.pop, (person, name), None)

    def look(self, person: str, name: str) -> T | None:
        """Return what is held for a person under a name, until its time is over."""
        return self._held.get((person, name))


# Cookies: the token of a session, and now and then something for the next page

_NAME = "release-desk-session"


def session_of(request: Request) -> str:
    """Return the token that a browser sent, or an empty text."""
    return request.cookies.get(_name(request), "")


def remember(request: Request, response: Response, token: str) -> None:
    """Have the browser keep a session's token, and delete what the previous session left."""
    response.set_cookie(_name(request), token, max_age=LONGEST_S, path="/", **_guarded(request))
    response.delete_cookie(_RECENT, path=path_of(), **_guarded(request))


def forget(request: Request, response: Response) -> None:
    """Have the browser forget its session, and what was opened in it."""
    response.delete_cookie(_name(request), path="/", **_guarded(request))
    response.delete_cookie(_RECENT, path=path_of(), **_guarded(request))


_RECENT = "release-desk-recent"
_MOST_RECENT = 6
_DATASET = re.compile(r"ds_[0-9a-f]{32}", re.ASCII)


def opened(request: Request) -> list[str]:
    """Return the ids of the data sets that a browser opened last, the latest first."""
    found = _DATASET.findall(request.cookies.get(_RECENT, "")[:_LONGEST])
    return list(dict.fromkeys(found))[:_MOST_RECENT]


def note_opened(request: Request, response: Response, dataset: str) -> None:
    """Have the browser keep that a data set was opened, as long as its session."""
    kept = list(dict.fromkeys((dataset, *opened(request))))[:_MOST_RECENT]
    response.set_cookie(
        _RECENT, ".".join(kept), max_age=LONGEST_S, path=path_of(), **_guarded(request)
    )


_FLOW = "release-desk-sign-in"


def take_along(request: Request, response: Response, sealed: str) -> None:
    """Have the browser keep what it takes along to a provider of identities; empty: forget it.

    Unlike the session it is sent when the provider leads the browser back, from its own site.
    """
    path = path_of("sign-in")
    guarded = {**_guarded(request), "samesite": "lax"}
    if sealed:
        response.set_cookie(_FLOW, sealed, max_age=FLOW_S, path=path, **guarded)
    else:
        response.delete_cookie(_FLOW, path=path, **guarded)


def taken_along(request: Request) -> str:
    """Return what a browser brings back from a provider, or an empty text."""
    return request.cookies.get(_FLOW, "")


def _guarded(request: Request) -> dict[str, Any]:
    """Return what keeps a cookie from scripts, other sites and plain connections."""
    return {"secure": _by_tls(request), "httponly": True, "samesite": "strict"}


def _by_tls(request: Request) -> bool:
    """Return whether browsers come by TLS, to us or to a proxy before us."""
    state: AppState = request.state.app
    known: str = state.settings.public_url
    return request.url.scheme == "https" or known.startswith("https://")


def _name(request: Request) -> str:
    return f"__Host-{_NAME}" if _by_tls(request) else _NAME


_REPORT = "release-desk-report"
_KEPT_S = 600
_NONCE_BYTES = 12  # what AES-GCM takes
_LONGEST, _MOST = 3_500, 8
"""Letters of a cookie, which browsers take up to 4096 of, and how many cookies there may be."""
_MOST_BYTES = 2**20  # few packed bytes may be many: no more of them are unpacked


def send_report(request: Request, response: Response, dataset: str, report: UploadReport) -> None:
    """Have the browser keep a report for the data set's page; its columns go where it is long."""
    sealed = _sealed(request, dataset, report)
    if len(sealed) > _LONGEST * _MOST:
        sealed = _sealed(request, dataset, UploadReport(report.rows, report.rows_dropped))
    for number, start in enumerate(range(0, len(sealed), _LONGEST)):
        response.set_cookie(
            f"{_REPORT}-{number}",
            sealed[start : start + _LONGEST],
            max_age=_KEPT_S,
            path=path_of("datasets", dataset),
            **_guarded(request),
        )


def sent_report(request: Request, dataset: str) -> UploadReport | None:
    """Return the report that a browser brings to a data set's page, if it is this session's."""
    parts = [request.cookies.get(f"{_REPORT}-{number}", "") for number in range(_MOST)]
    try:
        content = base64.urlsafe_b64decode("".join(parts))
        key = AESGCM(_key(request))
        packed = key.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], dataset.encode())
        report = json.loads(zlib.decompressobj().decompress(packed, _MOST_BYTES))
        return UploadReport.of(report, report["columns"])
    except (InvalidTag, ValueError):
        return None


def forget_report(request: Request, response: Response, dataset: str) -> None:
    """Have the browser forget what it has brought."""
    for number in range(_MOST):
        if f"{_REPORT}-{number}" in request.cookies:
            response.delete_cookie(
                f"{_REPORT}-{number}", path=path_of("datasets", dataset), **_guarded(request)
            )


def _sealed(request: Request, dataset: str, report: UploadReport) -> str:
    packed = zlib.compress(json.dumps(report.to_json()).encode(), 9)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    content = nonce + AESGCM(_key(request)).encrypt(nonce, packed, dataset.encode())
    return base64.urlsafe_b64encode(content).decode()


def _key(request: Request) -> bytes:
    return sha256(b"release-desk report " + session_of(request).encode()).digest()
