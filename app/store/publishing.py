"""Publications: releases that everyone may read, and the tombstones of those that were withdrawn.

The system account has an entry for each publication and each withdrawal, whose note says all
that the table does, but for what a search finds it by. A release is published once: what has
been withdrawn stays so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, text, update

from app.domain.access import FIRST, Span
from app.domain.ledger import SYSTEM_ACCOUNT
from app.store.database import tables
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.records import now, shown, spanned

PUBLISHED = "release_published"
WITHDRAWN = "publication_withdrawn"
"""The kinds of the system account's entries about publications; their notes are JSON."""

_publication = tables.publication.c
_GET = select(tables.publication).where(_publication.release == bindparam("wanted"))
_WITHDRAW = (
    update(tables.publication)
    .where(_publication.release == bindparam("wanted"), _publication.withdrawn_at.is_(None))
    .values(note=bindparam("said"), withdrawn_by=bindparam("by"), withdrawn_at=bindparam("at"))
)
_PUBLIC = (
    select(tables.publication)
    .where(_publication.withdrawn_at.is_(None))
    .order_by(_publication.number.desc())
)
_DATASETS = (
    select(_publication.dataset)
    .where(_publication.withdrawn_at.is_(None))
    .group_by(_publication.dataset)
    .order_by(func.max(_publication.number).desc())
)
_CALLED = (
    select(_publication.dataset)
    .join(tables.dataset, tables.dataset.c.id == _publication.dataset)
    .where(
        _publication.withdrawn_at.is_(None),
        (tables.dataset.c.id == bindparam("text")) | (tables.dataset.c.name == bindparam("text")),
    )
    .order_by(_publication.number.desc())
    .limit(1)
)
_entry = tables.entry.c
_MARKS = select(
    select(func.count())
    .where(_entry.account == SYSTEM_ACCOUNT, text(tables.ACTS))
    .scalar_subquery(),
    select(func.max(tables.log_checkpoint.c.size)).scalar_subquery(),
    select(func.max(tables.log_stamp.c.size)).scalar_subquery(),
)
_ENTERED = select(tables.publication, _entry.note.label("entered")).outerjoin(
    tables.entry,
    (_entry.account == SYSTEM_ACCOUNT)
    & (_entry.seq == _publication.seq)
    & (_entry.kind == PUBLISHED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRecord:
    """A release that is public, or was: then who withdrew it, when, and the ``note`` why.

    ``seq`` is the number of the system account's entry about it. ``kinds`` and ``words`` are
    what a search finds it by.
    """

    number: int
    release: str
    seq: int
    dataset: str
    kinds: str
    words: str
    reason: str
    published_by: str
    published_at: str
    note: str | None = None
    withdrawn_by: str | None = None
    withdrawn_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a search looks for: every one of some words, a data set, a kind of statistic."""

    words: Sequence[str] = ()
    dataset: str | None = None
    kind: str | None = None


class Publications:
    """What is public, and what was."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, release: str) -> PublicationRecord | None:
        """Return a release's publication, withdrawn or not, or None."""
        row = self._connection.execute(_GET, {"wanted": release}).one_or_none()
        return None if row is None else PublicationRecord(**row._mapping)

    def public(self, releases: Collection[str]) -> frozenset[str]:
        """Return those of some releases that everyone may read."""
        query = select(_publication.release).where(
            _publication.release.in_([*releases]), _publication.withdrawn_at.is_(None)
        )
        return frozenset(self._connection.execute(query).scalars())

    def list(self, wanted: Wanted, span: Span = FIRST) -> tuple[PublicationRecord, ...]:
        """Return what is public and fits, of a span."""
        query = _PUBLIC
        if wanted.dataset is not None:
            query = query.where(_publication.dataset == wanted.dataset)
        if wanted.kind is not None:
            query = query.where(_publication.kinds.contains(f" {wanted.kind} ", autoescape=True))
        for word in wanted.words:
            query = query.where(_publication.words.contains(word, autoescape=True))
        rows = self._connection.execute(spanned(self._connection, query, span, _publication.number))
        return tuple(PublicationRecord(**row._mapping) for row in rows)

    def marks(self) -> tuple[int | None, ...]:
        """Return numbers of which one changes with all that a public page shows."""
        return tuple(self._connection.execute(_MARKS).one())

    def datasets(self, limit: int) -> tuple[str, ...]:
        """Return the data sets of which something is public, what was published last first."""
        return tuple(self._connection.execute(_DATASETS.limit(limit)).scalars())

    def called(self, text: str) -> str | None:
        """Return the data set with an id or a name of which something is public, or None."""
        found = self._connection.execute(_CALLED, {"text": text})
        return found.scalar_one_or_none()


class PublicationsWriter(Publications):
    """Publishing and withdrawing; the system account records both."""

    __slots__ = ("_accounts",)

    def __init__(self, connection: Connection, accounts: AccountsWriter) -> None:
        super().__init__(connection)
        self._accounts = accounts

    def publish(
        self,
        *,
        release: str,
        dataset: str,
        kinds: Sequence[str],
        words: str,
        content: str,
        principal: str,
        reason: str,
    ) -> PublicationRecord:
        """Make a released release public that never was; ``content`` is its answer's digest."""
        at = now()
        said = {
            "release": release, "dataset": dataset, "reason": reason, "by": principal, "at": at,
        }  # fmt: skip
        entry = self._accounts.system_entry(
            PUBLISHED, principal=principal, fingerprint=content, note=json.dumps(said), at=at
        )
        self._connection.execute(
            insert(tables.publication),
            {
                "release": release,
                "seq": entry.seq,
                "dataset": dataset,
                "kinds": f" {' '.join(dict.fromkeys(kinds))} ",
                "words": words,
                "reason": reason,
                "published_by": principal,
                "published_at": at,
            },
        )
        return self._made(release)

    def withdraw(self, release: str, *, principal: str, note: str) -> PublicationRecord:
        """Withdraw what is public; its row stays, and says who did it, when and why."""
        at = now()
        said = {"release": release, "note": note, "by": principal, "at": at}
        self._accounts.system_entry(WITHDRAWN, principal=principal, note=json.dumps(said), at=at)
        self._connection.execute(
            _WITHDRAW, {"wanted": release, "said": note, "by": principal, "at": at}
        )
        return self._made(release)

    def _made(self, release: str) -> PublicationRecord:
        made = self.get(release)
        assert made is not None
        return made


def faults(
    connection: Connection,
    published: Collection[str | None],
    withdrawn: Collection[str | None],
) -> Iterator[str]:
    """Yield where publications are not what the ledger's notes say."""
    said = {str(found.get("release")): found for found in map(_said, published)}
    ended = {str(found.get("release")): found for found in map(_said, withdrawn)}
    for row in connection.execute(_ENTERED).all():
        made, end = said.pop(row.release, {}), ended.pop(row.release, {})
        first = (row.dataset, row.reason, row.published_by, row.published_at)
        last = (row.note, row.withdrawn_by, row.withdrawn_at)
        if (
            _said(row.entered) != made
            or first != tuple(made.get(name) for name in ("dataset", "reason", "by", "at"))
            or last != tuple(end.get(name) for name in ("note", "by", "at"))
        ):
            yield f"release {shown(row.release)}: its publication has been edited"
    for release in sorted(said.keys() | ended.keys()):
        yield f"release {shown(release)}: its publication is missing"


def _said(note: str | None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(note or "{}")
    return found
