"""One POST to an address that the operator has set, without redirects and with little patience."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

_TIMEOUT_S = 10.0


class NotPostedError(Exception):
    """The message was not delivered; says why in a few fixed words, or by a status."""


def post(url: str, body: bytes, headers: Mapping[str, str], *, most_bytes: int = 0) -> bytes:
    """Post a body, and return the beginning of the answer: at most ``most_bytes``.

    Raises
    ------
    NotPostedError
        No answer, or a status other than 2xx.
    """
    parts = urlsplit(url)
    # A user and a password in the URL are no part of the host's name.
    host = parts.netloc.rpartition("@")[2]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = (
        http.client.HTTPSConnection(host, timeout=_TIMEOUT_S, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, timeout=_TIMEOUT_S)
    )
    try:
        connection.request("POST", path, body=body, headers=dict(headers))
        with connection.getresponse() as answer:
            # Bounded: the other side may answer without end.
            content = answer.read(most_bytes) if most_bytes else b""
    except (OSError, http.client.HTTPException) as error:
        raise NotPostedError(type(error).__name__) from None
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise NotPostedError(f"status {answer.status}")
    return content
