"""What the writer does in bulk: charging releases, and settling them.

A release is charged for in no other way, but for one that a reviewer approves. A
command says what is wanted and leaves the how to the writer, which takes all that wait at
once: one look-up, one update per account, and a few multi-row inserts for the lot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from app.domain.policies import SERVICE, Acting
from app.store.ledger.allowances import ENTRY_BYTES
from app.store.ledger.records import ReleaseRecord

T = TypeVar("T")


class Command(Generic[T]):
    """Something the writer does in bulk, and that comes to a ``T``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Charged:
    """The release under an Idempotency-Key, its result not read, and whether this made it."""

    record: ReleaseRecord
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Debit(Command[Charged]):
    """Charge a data set's account for a release, unless the person has used the key before.

    Comes to :class:`Charged`: a new release that is ``debited``, or the one the
    key already has, which the caller compares by its fingerprint.

    Attributes
    ----------
    amount
        A positive integer of the account's unit.
    request, plan
        JSON text; the release keeps both.
    worker
        Who will draw it; without one it waits in the queue.
    deadline_s
        The public deadline of a job, in seconds; None for what is no job.
    answer_bytes
        About how many bytes its answer will take.
    most_bytes
        How many bytes the person may have stored in a day; None for any number.
    most_jobs
        How many jobs the person may have in the queue, this one included.
    acting
        The key and role that it is asked for by.

    Raises
    ------
    Problem
        ``not-found``, ``dataset-archived``, ``paused``, ``too-many-jobs``, ``too-much-stored``;
        ``budget-exceeded`` with nothing written.
    """

    dataset: str
    principal: str
    idem: str
    amount: int
    request: str
    plan: str
    worker: str | None = None
    deadline_s: int | None = None
    most_jobs: int | None = None
    answer_bytes: int = 0
    most_bytes: int | None = None
    acting: Acting = SERVICE

    @property
    def size(self) -> int:
        """Return about how many bytes are stored for it, in the end."""
        return len(self.request) + len(self.plan) + self.answer_bytes + ENTRY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Command[ReleaseRecord]):
    """Store a debited release's answer. Comes to its :class:`ReleaseRecord`, ``released``.

    ``known`` is the release's record before, which the writer then need not read.

    Raises
    ------
    Problem
        ``release-void`` when it is no longer waiting for a result.
    """

    release: str
    result: bytes
    known: ReleaseRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Void(Command[ReleaseRecord]):
    """Give a debited release up; its charge stays. Comes to its :class:`ReleaseRecord`.

    Raises
    ------
    Problem
        ``release-void`` when it is no longer waiting for a result.
    """

    release: str
