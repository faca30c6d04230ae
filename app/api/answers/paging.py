"""Cursor paging: ``limit`` and ``cursor`` in, ``items`` and ``next`` out.

A cursor is opaque text that holds the position after the last item shown. It
grants nothing: a page is cut from what its reader may see anyway.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from app.domain.problems import invalid_request

# What all bodies of answers have in common


class Answer(BaseModel):
    """A body of an answer."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


def nothing() -> Response:
    """Return the answer that has no body."""
    return Response(status_code=204)


# Cursor paging: ``limit`` and ``cursor`` in, ``items`` and ``next`` out

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MOST_BYTES = 2**23
"""Where the items of a list may be large, a page ends before this many bytes, or after one item."""

_MAX_POSITION = 2**62  # a position is a row's number, which databases keep in 64 bits with a sign

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """One page of a list; ``next`` is null on the last."""

    # No docstrings of attributes: their source would be looked for again for each kind of item,
    # which takes longer than all other models together.
    items: list[Item] = Field(description="The items of this page.")
    next: str | None = Field(description="The `cursor` of the next page; null on the last.")


@dataclass(frozen=True, slots=True)
class Cut:
    """Which page is asked for: at most ``limit`` items beyond ``position`` (None: the first)."""

    position: int | None
    limit: int


def encode_cursor(position: int) -> str:
    """Return the cursor of a position."""
    return base64.urlsafe_b64encode(f"v1:{position}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> int:
    """Return the position of a cursor.

    Raises
    ------
    Problem
        ``invalid-request`` when the text is not a cursor of this service.
    """
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        version, _, position = base64.b64decode(padded, b"-_", validate=True).partition(b":")
        number = int(position) if position.isdigit() and len(position) < 20 else -1
    except (UnicodeEncodeError, binascii.Error):
        version, number = b"", -1
    if version != b"v1" or not 0 <= number <= _MAX_POSITION:
        raise invalid_request("cursor", "is not a cursor of this list")
    return number


async def cut_of(
    limit: Annotated[
        int, Query(ge=1, le=MAX_LIMIT, description="Most items on the page.", examples=[20])
    ] = DEFAULT_LIMIT,
    cursor: Annotated[
        str | None,
        Query(max_length=64, description="`next` of the page before.", examples=["djE6NDI"]),
    ] = None,
) -> Cut:
    """Read the paging parameters of a request."""
    return Cut(position=None if cursor is None else decode_cursor(cursor), limit=limit)


Paging = Annotated[Cut, Depends(cut_of)]


def page_of(items: Sequence[tuple[int, Item]], cut: Cut) -> Page[Item]:
    """Cut a page from (position, item) pairs, of which one more than ``limit`` was read."""
    shown = items[: cut.limit]
    more = len(items) > cut.limit
    return Page(
        items=[item for _, item in shown], next=encode_cursor(shown[-1][0]) if more else None
    )


def whole_page(items: Iterable[Item]) -> Page[Item]:
    """Return a list that is short enough for one page."""
    return Page(items=list(items), next=None)


def json_page_of(items: Sequence[tuple[int, bytes]], *, more: bool) -> Response:
    """Return a page of (position, item) pairs that are JSON already: joined, not read."""
    joined = b",".join(item for _, item in items)
    end = b'"%s"' % encode_cursor(items[-1][0]).encode() if more else b"null"
    return Response(b'{"items":[%s],"next":%s}' % (joined, end), media_type="application/json")
