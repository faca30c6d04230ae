"""Rows as the rest of the service sees them: frozen, typed, without SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from app.domain.ledger import Balance, digest_of
from app.domain.releases import ReleaseState
from app.domain.roles import Role


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


def fitting(sizes: Sequence[int], most: int) -> int:
    """Return how many of the first items are no larger than so much together, one at least.

    >>> [fitting([3, 4, 5], most) for most in (2, 6, 7, 100)]
    [1, 1, 2, 3]
    """
    return max(1, sum(total <= most for total in accumulate(sizes)))
