"""Cursor paging: ``limit`` and ``cursor`` in, ``items`` and ``next`` out.

A cursor is opaque text that holds the position after the last item shown. It
grants nothing: a page is cut from what its reader may see anyway.

The bodies of answers about the service itself: probes, metrics and keys.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import Depends, Query
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from app.api.middleware import Counts
from app.domain.access import Span
from app.domain.problems import invalid_request
from app.services.health import Readiness
from app.services.people.keys import KnownKey, NewKey

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

    def span(self, *, ascending: bool = False) -> Span:
        """Return what is read of the list: one extra row shows whether there are more."""
        before, after = (None, self.position) if ascending else (self.position, None)
        return Span(limit=self.limit + 1, before=before, after=after, ascending=ascending)


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


# The bodies of answers about the service itself: probes, metrics and keys


class StatusAnswer(Answer):
    """The answer of a probe."""

    status: str
    """One word: what the probe found."""


class ReadinessAnswer(StatusAnswer):
    """The answer of a service that can make releases."""

    anchor: str
    """What would notice an older database put in place of this one: a `directory`, one
    `inside the data directory`, a `database`, or none (`off`)."""
    anchor_shares_device: bool
    """Whether it is on the ledger's own disk: who puts both back together is not noticed."""
    replica: str
    """Whether public pages are `read` of a replica, or of the ledger's own database because the
    replica is `away`, or because there is none (`off`)."""


def liveness_answer() -> StatusAnswer:
    """Return what a process says that answers."""
    return StatusAnswer(status="alive")


def readiness_answer(found: Readiness) -> ReadinessAnswer:
    """Return what a service says that can make releases."""
    return ReadinessAnswer(
        status="ready",
        anchor=found.anchor,
        anchor_shares_device=found.anchor_shares_device,
        replica=found.replica,
    )


# What was counted, in Prometheus' text format

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Families(Collector):
    """Hands the families to prometheus-client's text format."""

    def __init__(self, counts: Counts, data_dir: Path) -> None:
        self._counts = counts
        self._data_dir = data_dir

    def collect(self) -> Iterator[Metric]:
        return self._counts.families(self._data_dir)


def metrics_answer(counts: Counts, data_dir: Path) -> Response:
    """Return the present counts."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(counts, data_dir))
    return Response(generate_latest(registry), media_type=MEDIA_TYPE)


class KeyAnswer(Answer):
    """A key, without its secret."""

    id: str
    """Names the key in addresses."""
    name: str
    """What its maker called it."""
    role: Literal["admin", "curator", "reviewer", "analyst", "auditor", "metrics"]
    """What it may do; each role may also do what a later one here may."""
    expires: str | None
    """When it expires (UTC); null for never."""
    created_at: str
    """When it was made (UTC)."""
    created_by: str
    """The person who made it."""
    revoked_at: str | None
    """When it was revoked (UTC); null while it is good."""
    person: str
    """Who releases made with this key belong to."""
    last_used_at: str | None
    """To the minute; null before the first use."""
    twins: list[str]
    """Other persons with a good key whose names look like this person's; earlier versions let
    them in."""


class NewKeyAnswer(KeyAnswer):
    """A key just made; the secret is shown this once."""

    secret: str
    """The text to send as `Authorization: Bearer`."""


def key_answer(known: KnownKey) -> KeyAnswer:
    """Return a key without its secret."""
    return KeyAnswer(**_key_fields(known))


def new_key_answer(made: NewKey) -> NewKeyAnswer:
    """Return a key with its secret."""
    return NewKeyAnswer(**_key_fields(made), secret=made.secret)


def _key_fields(known: KnownKey) -> dict[str, Any]:
    record = known.record
    return {
        "id": record.id,
        "name": record.name,
        "role": record.role.value,
        "expires": record.expires_at,
        "created_at": record.created_at,
        "created_by": record.created_by,
        "revoked_at": record.revoked_at,
        "person": record.person,
        "last_used_at": record.used_at,
        "twins": [*known.duplicates],
    }
