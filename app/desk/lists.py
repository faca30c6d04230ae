"""Lists that go on: which part of one a page shows, and the addresses of the others."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.requests import Request

from app.domain.problems import Problem

_LARGEST = 2**62  # what databases keep in 64 bits with a sign


def number_in(request: Request, name: str) -> int | None:
    """Return a whole number that an address carries, or None.

    Raises
    ------
    Problem
        ``not-found``: what it carries is none.
    """
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _LARGEST):
        raise Problem("not-found")
    return int(text)


def address(path: str, **parameters: str | int | None) -> str:
    """Return an address with its parameters; those that are None or empty are left out.

    >>> address("/desk/audit", account="acc_1", kind=None, page=2)
    '/desk/audit?account=acc_1&page=2'
    """
    query: Mapping[str, object] = {
        name: value for name, value in parameters.items() if value not in (None, "")
    }
    return f"{path}?{urlencode(query)}" if query else path
