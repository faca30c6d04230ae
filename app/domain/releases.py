"""The life of a release: its states, and which may follow which; and its redraws.

A release that needs a review waits (*reserved*) for its reviewers. They may give the turn
back (*changes requested*): then it waits for who asked, who revises it, answers, or
withdraws it. Its budget stays reserved until then. From the charge on states only move forward.

A release is *debited* from the moment its charge is durable. Its draw becomes
an answer only once the result is durable too; a process that dies in between
leaves a debited release behind, which may be drawn again because no one has
seen the lost draw. After three such deaths it is *void* and the charge stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from app.domain.ledger import canonical_bytes, digest_of, sha256_hex

MAX_ATTEMPTS = 3
"""How many processes may begin to draw one release."""

_RESULT = "release-desk result 1"
_RESULT_HEAD = canonical_bytes(_RESULT)


class ReleaseState(StrEnum):
    """Where a release stands."""

    RESERVED = "reserved"
    CHANGES_REQUESTED = "changes_requested"
    DEBITED = "debited"
    RELEASED = "released"
    VOID = "void"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"

    def may_become(self, later: ReleaseState) -> bool:
        """Return whether this is a step that there is."""
        return later in TRANSITIONS[self]


TRANSITIONS: Mapping[ReleaseState, frozenset[ReleaseState]] = {
    ReleaseState.RESERVED: frozenset(
        {
            ReleaseState.CHANGES_REQUESTED,
            ReleaseState.DEBITED,
            ReleaseState.REJECTED,
            ReleaseState.WITHDRAWN,
            ReleaseState.EXPIRED,
        }
    ),
    ReleaseState.CHANGES_REQUESTED: frozenset(
        {
            ReleaseState.RESERVED,
            ReleaseState.REJECTED,
            ReleaseState.WITHDRAWN,
            ReleaseState.EXPIRED,
        }
    ),
    ReleaseState.DEBITED: frozenset({ReleaseState.RELEASED, ReleaseState.VOID}),
    ReleaseState.RELEASED: frozenset(),
    ReleaseState.VOID: frozenset(),
    ReleaseState.REJECTED: frozenset(),
    ReleaseState.WITHDRAWN: frozenset(),
    ReleaseState.EXPIRED: frozenset(),
}


GIVEN_BACK = frozenset(
    state for state in TRANSITIONS[ReleaseState.RESERVED] if not TRANSITIONS[state]
)
"""How a release may end without ever having been charged."""

UNDECIDED = (ReleaseState.RESERVED, ReleaseState.CHANGES_REQUESTED)
"""The states of a release whose budget is reserved: it still waits for a decision."""


@lru_cache(maxsize=64)  # the same question is asked again and again
def request_fingerprint(*, dataset: str, request: str) -> str:
    """Return the digest that distinguishes requests under the same Idempotency-Key.

    ``request`` is the canonical JSON text of the parsed body, so that two
    spellings of one request replay the same answer.
    """
    return digest_of("release-desk request 1", dataset, request)


@lru_cache(maxsize=64)
def plan_digest(plan: str) -> str:
    """Return what a release's entry notes of its public plan, so that neither can be edited."""
    return digest_of("release-desk plan 1", plan)


def result_digest(result: bytes, finished_at: str) -> str:
    """Return what is stored with a result, so that neither it nor its time can be edited.

    Not for clients: who has the result could try times until one fits.
    """
    return digest_of(_RESULT, result, finished_at)


def result_digests(results: Sequence[bytes], ends: Sequence[str]) -> tuple[str, ...]:
    """Return :func:`result_digest` of many at once, in half the time."""
    tails = map(canonical_bytes, ends)
    return tuple(
        [
            sha256_hex(b"%b%bb%b%b" % (_RESULT_HEAD, len(result).to_bytes(8, "big"), result, tail))
            for result, tail in zip(results, tails, strict=True)
        ]
    )


def may_be_redrawn(attempts: int) -> bool:
    """Return whether a release left debited by a process death gets another draw."""
    return attempts < MAX_ATTEMPTS
