"""Answers that anybody may keep: with an entity tag, and no cookie, key or secret in them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from app.domain.hashing import sha256_hex

_KEPT = "public, max-age=0, s-maxage=60"
"""A browser asks each time whether it has the newest; a cache before many does after a minute."""
_ADDRESS = re.compile(r"https?://[\w.:\[\]-]+(/[\w./~%-]*)?", re.ASCII)


def names(condition: str | None, tag: str) -> bool:
    """Return whether an If-None-Match names the tag (weak comparison, RFC 9110 13.1.2)."""
    if condition is None:
        return False
    named = [part.strip().removeprefix("W/") for part in condition.split(",")]
    return "*" in named or tag in named


def public_answer(
    request: Request,
    content: bytes,
    media_type: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return what anybody may read and keep, or 304 to who has it already."""
    tag = f'"{sha256_hex(content)[:32]}"'
    sent = {"Cache-Control": _KEPT, "ETag": tag, **(headers or {})}
    if status == 200 and names(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=sent)
    return Response(content, status_code=status, media_type=media_type, headers=sent)


def base_of(request: Request, public_url: str) -> str:
    """Return where the service is reached, without a slash at its end.

    By default where the request says that it came to, which is only words: what is no plain
    address is left out, and addresses begin at this one then.
    """
    said = str(request.base_url).rstrip("/")
    return public_url or (said if _ADDRESS.fullmatch(said) else "")
