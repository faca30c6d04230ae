"""Rows as the rest of the service sees them: frozen, typed, without SQL."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    case,
    false,
    func,
    literal_column,
    or_,
    select,
)

from app.domain.access import Span
from app.domain.ledger import SYSTEM_ACCOUNT, Balance, digest_of
from app.domain.policies import Role
from app.domain.releases import GIVEN_BACK, ReleaseState
from app.store.database import tables

# Opaque identifiers and timestamps

_ID = re.compile(r"[a-z]{2,10}_[0-9a-f]{32}")
_NEIGHBOURS = 256  # ids made one after the other begin alike, and so share pages of the index
# Of this process: no one outside it learns which neighbourhood a number is in.
_KEY = os.urandom(16)


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 128 random bits in hex; it says nothing and cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(16)}"


RELEASE_ID_LENGTH = 36


def release_ids(first: int, count: int = 1) -> list[str]:
    """Return ids of releases, numbered from ``first`` on: 32 bits of a neighbourhood, 96 random.

    What is made together lies together in the indexes, so that a million releases
    later as few of their pages are written for each as at the beginning. Neither a time nor
    how many came before can be read from an id: when a charge could be written may depend on
    how long another draw took. Many ids together reveal which were made close to each other.
    """
    bits = os.urandom(12 * count).hex()
    return [
        f"rel_{_neighbourhood((first + place) // _NEIGHBOURS)}{bits[24 * place : 24 * place + 24]}"
        for place in range(count)
    ]


@lru_cache(maxsize=4)
def _neighbourhood(number: int) -> str:
    """Return what the ids of one neighbourhood begin with, in this process."""
    return blake2b(number.to_bytes(8), key=_KEY, digest_size=4).hexdigest()


def shown(name: object) -> str:
    """Return an id as a message may show it: another text in an id's place is not shown."""
    known = isinstance(name, str) and (name == SYSTEM_ACCOUNT or _ID.fullmatch(name))
    return str(name) if known else "(not an id)"


def now() -> str:
    """Return the time in UTC as ISO 8601 text with microseconds, which sorts by time."""
    return text_of(datetime.now(UTC))


def text_of(moment: datetime) -> str:
    """Return a moment as :func:`now` returns the present one."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# Rows as the rest of the service sees them: frozen, typed, without SQL


class DatasetStatus(StrEnum):
    """Whether a data set's rows are there; its ledger and releases stay in any case.

    A deleted one never had a release, and its account is closed unless others share it.
    """

    ACTIVE = "active"
    ARCHIVED = "archived"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRecord:
    """A budget account; amounts in its own unit. Its row equals its last entry."""

    id: str
    seq: int
    total: int
    spent: int
    reserved: int
    head: str

    @property
    def balance(self) -> Balance:
        """Return the amounts alone."""
        return Balance(self.total, self.spent, self.reserved)

    @property
    def remaining(self) -> int:
        """Return what a release may still cost."""
        return self.balance.remaining


class ReleaseRecord(NamedTuple):
    """A release: its request, its public plan, and the answer's bytes once there are any.

    ``number`` orders releases by creation and serves as a paging cursor.
    ``(account, seq)`` is the entry that charged ``amount`` for it, made at
    ``charged_at``, and ``entry_hash`` that entry's hash; while it waits for a
    review, the entry that reserved. ``request`` and ``plan`` are JSON text; ``result`` is answered
    byte for byte, and None where it has not been read. ``worker`` is the process that draws it, or
    drew it; None while it waits in the queue. ``reason`` is why it ended unapproved, if it did, or
    why its reviewers want changes. ``turn`` counts how often it has come before its reviewers,
    ``version`` its requests, and ``shown`` the turn's votes once all are in and unlike.

    A named tuple, since the writer makes two for each release, and these take a third
    of the time.
    """

    number: int
    id: str
    account: str
    seq: int
    dataset: str
    principal: str
    state: ReleaseState
    attempts: int
    request: str
    plan: str
    fingerprint: str
    result: bytes | None
    result_hash: str | None
    created_at: str
    finished_at: str | None
    worker: str | None
    entry_hash: str
    charged_at: str
    amount: int
    reason: str | None = None
    turn: int = 1
    version: int = 1
    shown: int = 0

    @property
    def waits_for_answer(self) -> bool:
        """Return whether who asked may answer its reviewers."""
        return self.state is ReleaseState.CHANGES_REQUESTED

    @classmethod
    def begun(
        cls,
        *,
        number: int,
        id: str,
        account: str,
        seq: int,
        dataset: str,
        principal: str,
        request: str,
        plan: str,
        fingerprint: str,
        created_at: str,
        worker: str | None,
        entry_hash: str,
        amount: int,
        reserved: bool = False,
    ) -> ReleaseRecord:
        """Return a release that begins: debited and in its first attempt, or reserved."""
        return cls(
            number=number,
            id=id,
            account=account,
            seq=seq,
            dataset=dataset,
            principal=principal,
            state=ReleaseState.RESERVED if reserved else ReleaseState.DEBITED,
            attempts=0 if reserved else 1,
            request=request,
            plan=plan,
            fingerprint=fingerprint,
            result=None,
            result_hash=None,
            created_at=created_at,
            finished_at=None,
            worker=worker,
            entry_hash=entry_hash,
            charged_at=created_at,
            amount=amount,
        )

    def released(self, result: bytes, result_hash: str, finished_at: str) -> ReleaseRecord:
        """Return it with its answer."""
        return self._replace(
            state=ReleaseState.RELEASED,
            result=result,
            result_hash=result_hash,
            finished_at=finished_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRecord:
    """A data set's public facts. ``spec`` is JSON text; ``rows`` None where it is private.

    ``edits`` is JSON text too: what takes the place of members of the spec, as edited last.
    ``extends`` is the data set before it, if it is a version of one, and ``version`` its number.
    """

    number: int
    id: str
    name: str
    account: str
    spec: str
    status: DatasetStatus
    rows: int | None
    created_by: str
    created_at: str
    archived_at: str | None
    edits: str | None = None
    version: int = 1
    extends: str | None = None
    origin: str | None = None

    @property
    def first(self) -> str:
        """Return the data set of which it is a version: itself, unless it extends one."""
        return self.origin or self.id

    @property
    def digest(self) -> str:
        """Return the digest of what never changes; the system account keeps it."""
        return digest_of(self.number, self.id, self.name, self.account, self.spec, self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """A version of a data set, in short; ``rows`` None where it is private."""

    id: str
    name: str
    version: int
    rows: int | None
    created_by: str
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapRecord:
    """A person's slice of an account: at most ``amount`` (None: no cap), ``used`` of it so far."""

    number: int
    account: str
    person: str
    amount: int | None
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRecord:
    """A person (by name) or a data set (by id) that an operator has paused, and why."""

    number: int
    what: str
    name: str
    reason: str
    paused_by: str
    paused_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRecord:
    """Which digests a data set's rows have: the SHA-256 of their file, None without one.

    ``person`` has uploaded them.
    """

    number: int
    dataset: str
    account: str
    person: str
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key, without its secret: only the secret's SHA-256 is kept.

    ``used_at`` is known in lists alone, and to the minute.
    """

    number: int
    id: str
    name: str
    role: Role
    person: str
    secret_hash: str
    created_by: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    used_at: str | None = None

    @property
    def digest(self) -> str:
        """Return the digest of what never changes; the system account keeps it."""
        return digest_of(
            self.number, self.id, self.name, self.role.value, self.person, self.secret_hash,
            self.expires_at,
        )  # fmt: skip


def has_word(word: str, *columns: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a word is in one of some columns, in small or capital letters.

    In JSON it may be written with escapes instead of its letters. SQLite knows the small letters
    of ASCII alone, so of other letters a word is found in small ones, in capitals, or with the
    first one a capital.
    """
    cased = (word.lower(), word.upper(), word.capitalize())
    spelled = {
        re.sub("[A-Z]", lambda letter: letter[0].lower(), each)
        for text in cased
        for each in (text, json.dumps(text)[1:-1])
    }
    return or_(
        *(
            func.lower(column).contains(each, autoescape=True)
            for column in columns
            for each in sorted(spelled)
        )
    )


def spanned(
    connection: Connection,
    query: Select[Any],
    span: Span,
    number: ColumnElement[int],
    key: ColumnElement[Any] | None = None,
) -> Select[Any]:
    """Return a query's rows in a span, in the order in which they are read.

    They are sorted by ``key`` and then by ``number``; by the number alone without a key. A row that
    is not among those of the query is no place to begin at: its key would be revealed.
    """
    columns = [number] if key is None else [key, number]
    order = [each.asc() if span.upwards else each.desc() for each in columns]
    rows = query.order_by(None).order_by(*order).limit(span.limit)
    if span.start is None:
        return rows
    beyond = number > span.start if span.upwards else number < span.start
    if key is None:
        return rows.where(beyond)
    of_start = query.with_only_columns(key, maintain_column_froms=True).order_by(None)
    at = connection.execute(of_start.where(number == span.start)).scalar_one_or_none()
    if at is None:
        return rows.where(false())
    reaches, further = (key >= at, key > at) if span.upwards else (key <= at, key < at)
    return rows.where(reaches, or_(further, beyond))


def are_newest(number: ColumnElement[int], newest: int) -> ColumnElement[bool]:
    """Return the condition that a row is one of the newest of its table."""
    return number > select(func.max(number)).scalar_subquery() - newest


def fitting(sizes: Sequence[int], most: int) -> int:
    """Return how many of the first items are no larger than so much together, one at least.

    >>> [fitting([3, 4, 5], most) for most in (2, 6, 7, 100)]
    [1, 1, 2, 3]
    """
    return max(1, sum(total <= most for total in accumulate(sizes)))


# What is read of a release first: its row without the result, and what entries say of it

_release, _review = tables.release.c, tables.review.c
_CHARGE, _END = tables.entry.alias("charge"), tables.entry.alias("given_back")


def _of_charge(column: str) -> Any:
    """Return a column of the entry that a release stands on."""
    return (
        select(_CHARGE.c[column])
        .where(_CHARGE.c.account == _release.account, _CHARGE.c.seq == _release.seq)
        .correlate(tables.release)
        .scalar_subquery()
    )


IS_RETURNED = (
    select(_review.release)
    .where(_review.release == _release.id, _review.returned == literal_column("1"))
    .correlate(tables.release)
    .exists()
)
"""The condition on a release that waits for who asked for it: its reviewers want changes."""

_STATE = case(
    (
        and_(_release.state == ReleaseState.RESERVED.value, _review.returned == 1),
        ReleaseState.CHANGES_REQUESTED.value,
    ),
    else_=_release.state,
)
# The kind is written into the statement, or the index of these few entries would not be used;
# of a release that has an answer, or waits for one, no entry is looked for. The last one counts:
# those before it moved the reserve to another version.
_REASON = case(
    (
        _release.state.in_(sorted(GIVEN_BACK)),
        select(_END.c.note)
        .where(_END.c.release == _release.id, _END.c.kind == literal_column("'unreserve'"))
        .order_by(_END.c.seq.desc())
        .limit(1)
        .correlate(tables.release)
        .scalar_subquery(),
    ),
    (_review.returned == 1, _review.reason),
)

_RELEASE = (
    *(
        column
        for column in tables.release.columns
        if column.name not in {"state", "result", "result_hash"}
    ),
    _STATE.label("state"),
    _of_charge("hash").label("entry_hash"),
    _of_charge("at").label("charged_at"),
    _of_charge("amount").label("amount"),
    _REASON.label("reason"),
    func.coalesce(_review.turn, 1).label("turn"),
    func.coalesce(_review.version, 1).label("version"),
    func.coalesce(_review.shown, 0).label("shown"),
)


def select_releases() -> Select[Any]:
    """Return the query for the columns of a :class:`ReleaseRecord`, but for its result."""
    table = tables.release.outerjoin(tables.review, _review.release == _release.id)
    return select(*_RELEASE).select_from(table)


def release_of(row: Row[Any]) -> ReleaseRecord:
    """Return the release that a row of these columns holds, its result not read yet."""
    state = ReleaseState(row.state)
    return ReleaseRecord(**{**row._mapping, "state": state, "result": None, "result_hash": None})
