"""Answers that every cache may store: with an entity tag, and no cookie, key or secret in them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from app.domain.hashing import sha256_hex

KEPT = "public, max-age=0, s-maxage=60"
"""A browser asks each time whether it has the newest; a cache before many does after a minute."""
_ADDRESS = re.compile(r"https?://[\w.:\[\]-]+(/[\w./~%-]*)?", re.ASCII)


def names(condition: str | None, tag: str) -> bool:
    """Return whether an If-None-Match names the tag (weak comparison, RFC 9110 13.1.2)."""
    if condition is None:
        return False
    named = [part.strip().removeprefix("W/") for part in condition.split(",")]
    return "*" in named or tag in named


def public_answer(
    content: bytes,
    media_type: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an answer that everyone may read and store; a client that has it is sent 304."""
    tag = f'"{sha256_hex(content)[:32]}"'
    sent = {"Cache-Control": KEPT, "ETag": tag, **(headers or {})}
    return Response(content, status_code=status, media_type=media_type, headers=sent)


def base_of(request: Request, public_url: str) -> str:
    """Return where the service is reached, without a slash at its end.

    By default where the request says that it came to, which is only words: what is no plain
    address is left out, and addresses begin at this one then.
    """
    said = str(request.base_url).rstrip("/")
    return public_url or (said if _ADDRESS.fullmatch(said) else "")
