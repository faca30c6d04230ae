"""Comments and versions: what people say while a release waits, and who may read it when.

Where two reviewers decide, neither reads what the other says in a turn before both votes are in.
Who asked reads all that is shared, and so does everybody what they have said.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread

from app.domain.policies import Right
from app.domain.problems import invalid_request
from app.domain.releases import UNDECIDED, ReleaseState
from app.domain.reviews import Count, Difference, Event, differences
from app.services.datasets.datasets import DatasetService
from app.services.people.keys import Caller
from app.services.releases.releases import ReleaseService
from app.services.releases.reviews import gone_on
from app.store import Reader, ReleaseRecord, Store, UnitOfWork
from app.store.ledger.reviewing.votes import CommentRecord, VersionRecord

__all__ = ["CommentRecord", "CommentService", "Version", "comments_for", "versions_in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a request, and where it differs from the one before."""

    record: VersionRecord
    differences: tuple[Difference, ...]


class CommentService:
    """Saying and reading, for who asked and for reviewers."""

    def __init__(
        self,
        store: Store,
        datasets: DatasetService,
        releases: ReleaseService,
        *,
        most_bytes: int | None,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._releases = releases
        self._most_bytes = most_bytes

    async def add(self, release: str, text: str, *, private: bool, caller: Caller) -> CommentRecord:
        """Say something about a release that waits.

        What who asked says while reviewers want changes is their answer: the turn goes back to
        the reviewers, with the request as it is.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike; ``forbidden`` to who neither asked
            nor decides; ``not-awaiting-review``;
            ``invalid-request`` (a private comment of who asked); ``too-many-comments``;
            ``too-much-stored``.
        """
        found = await self._releases.get(release, caller=caller)
        own = found.principal == caller.person
        if not own:
            caller.require(Right.DECIDE)
        if own and private:
            raise invalid_request("private", "must be false for who asked: it is among reviewers")

        def write(work: UnitOfWork) -> CommentRecord:
            # Read again inside the transaction: the release may have gone on since it was shown.
            present = work.releases.get(release) or found
            if present.state not in UNDECIDED:
                raise gone_on(work, present, lambda _: True)
            work.by(caller.acting)
            made = work.comments.add(
                release,
                turn=present.turn,
                person=caller.person,
                private=private,
                text=text,
                most_bytes=self._most_bytes,
            )
            if own and present.state is ReleaseState.CHANGES_REQUESTED:
                work.reviews.give_turn_back(release, answer=text)
            elif not private:
                work.notices.notify(
                    Event.COMMENTED, present, actor=caller.person, reason=text, at=made.at
                )
            return made

        return await self._store.awrite(write)

    async def list(self, release: str, *, caller: Caller) -> Sequence[CommentRecord]:
        """Return what the caller may read of what has been said, oldest first.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike.
        """
        found = await self._releases.get(release, caller=caller)
        facts = await self._datasets.present(found.dataset)
        needed = facts.policy.reviewers

        def read() -> Sequence[CommentRecord]:
            with self._store.reading() as reader:
                return comments_for(reader, found, caller, needed=needed)

        return await anyio.to_thread.run_sync(read)

    async def versions(self, release: str, *, caller: Caller) -> Sequence[Version]:
        """Return every version of a request, oldest first, each compared with the one before.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike.
        """
        found = await self._releases.get(release, caller=caller)

        def read() -> Sequence[Version]:
            with self._store.reading() as reader:
                return versions_in(reader, found)

        return await anyio.to_thread.run_sync(read)


def versions_in(reader: Reader, record: ReleaseRecord) -> Sequence[Version]:
    """Return every version of a release's request, each compared with the one before."""
    records = reader.reviews.versions(record)
    before = [None, *(json.loads(each.request) for each in records[:-1])]
    return [
        Version(
            record=each,
            differences=()
            if earlier is None
            else tuple(differences(earlier, json.loads(each.request))),
        )
        for each, earlier in zip(records, before, strict=True)
    ]


def comments_for(
    reader: Reader, record: ReleaseRecord, caller: Caller, *, needed: int
) -> Sequence[CommentRecord]:
    """Return what a caller, who may see the release, may read of what has been said of it."""
    comments = reader.comments.of(record.id)
    own = record.principal == caller.person
    if own or not caller.role.may(Right.OVERSEE):
        return [each for each in comments if not each.private or each.person == caller.person]
    votes = Count.of(reader.votes.of(record.id), turn=record.turn, needed=needed)
    if needed == 1 or votes.complete or record.state is not ReleaseState.RESERVED:
        return comments
    return [
        each
        for each in comments
        if each.turn < record.turn or each.person in (caller.person, record.principal)
    ]
