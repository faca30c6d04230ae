"""Making releases public, withdrawing them, and finding what is public.

A curator's act, on a release that has its result: nothing is drawn, charged or read of the data
set's rows. Everyone may then read the answer that its owner had, and no more. A
withdrawal is for good, and leaves a tombstone that says who, when and why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import anyio.to_thread

from app.domain.access import Span, sorts_as
from app.domain.ledger import sha256_hex
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.people.keys import Caller
from app.services.plans.questions import read_question
from app.services.publishing.published import Published, columns_of
from app.services.releases.releases import ReleaseService
from app.services.transparency.log import LogService
from app.store import Reader, ReleaseRecord, Store, UnitOfWork
from app.store.publishing import PublicationRecord, Wanted
from app.tidy.names import words

__all__ = ["PublicationRecord", "PublicationService", "Published", "Wanted"]

MOST_EXPORTED = 100
"""How many releases the description of a data set holds: the newest."""
_MOST_BYTES = 2**22
"""How large they may be together: everyone may ask, and each is read and hashed."""
_MOST_WORDS = 10


class PublicationService:
    """Publishing and withdrawing for curators, reading for everyone."""

    def __init__(
        self, store: Store, datasets: DatasetService, releases: ReleaseService, log: LogService
    ) -> None:
        self._log = log
        self._store = store
        self._datasets = datasets
        self._releases = releases
        self._software = _version()
        self._made = 0

    async def publish(
        self,
        release: str,
        reason: str,
        *,
        unchanged: Callable[[ReleaseRecord], bool],
        caller: Caller,
    ) -> tuple[PublicationRecord, bool]:
        """Make a release public; return its publication, and whether this has made it.

        The same person with the same reason again gets the publication that there is.
        ``unchanged`` says of the release as it may be shown whether it is still what the
        curator has seen.

        Raises
        ------
        Problem
            ``not-found``; ``precondition``; ``not-released``; ``already-published``;
            ``publication-withdrawn``.
        """
        found = await self._releases.get(release, caller=caller)
        if not unchanged(found):
            raise Problem("precondition")
        if found.state is not ReleaseState.RELEASED:
            raise Problem("not-released")
        facts = await anyio.to_thread.run_sync(self._datasets.facts, found.dataset)

        def write(work: UnitOfWork) -> tuple[PublicationRecord, bool]:
            known = work.publications.get(found.id)
            if known is not None:
                return _same(known, reason, caller), False
            return _publish(work.by(caller.acting), found, facts, reason, caller.person), True

        made = await self._store.awrite(write)
        self._made += 1
        if made[1]:
            await self._log.catch_up()  # so that its page has its proof from the start
            self._made += 1
        return made

    async def withdraw(self, release: str, note: str, *, caller: Caller) -> PublicationRecord:
        """Withdraw what is public, for good; the same person with the same note may say it again.

        Raises
        ------
        Problem
            ``not-found``; ``not-published``; ``publication-withdrawn``.
        """
        found = await self._releases.get(release, caller=caller)

        def write(work: UnitOfWork) -> PublicationRecord:
            known = work.publications.get(found.id)
            if known is None:
                raise Problem("not-published")
            if known.withdrawn_at is not None:
                if (known.withdrawn_by, known.note) != (caller.person, note):
                    raise Problem("publication-withdrawn")
                return known
            return work.by(caller.acting).publications.withdraw(
                found.id, principal=caller.person, note=note
            )

        record = await self._store.awrite(write)
        self._made += 1
        return record

    def changes(self) -> tuple[int, int]:
        """Return what changes with everything public that this process has changed."""
        return self._made, self._datasets.changes

    def marks(self) -> Sequence[object]:
        """Return what changes with everything public that any process has changed.

        Of the replica as well, which pages are read of and which may be behind.
        """
        with self._store.reading() as reader:
            return reader.publications.marks(), self._store.read_public(
                lambda copy: copy.publications.marks()
            )

    async def publication(self, release: str, *, caller: Caller) -> PublicationRecord:
        """Return a release's publication, withdrawn or not, to who may see the release.

        Raises
        ------
        Problem
            ``not-found``, also where it was never published.
        """
        record = await self.known(release, caller=caller)
        if record is None:
            raise Problem("not-found", "The release has never been published.")
        return record

    async def known(self, release: str, *, caller: Caller) -> PublicationRecord | None:
        """Return a release's publication, or None where it was never published.

        Raises
        ------
        Problem
            ``not-found``: the release is not there, or not the caller's to see.
        """
        found = await self._releases.get(release, caller=caller)
        return await anyio.to_thread.run_sync(self._get, found.id)

    def _get(self, release: str) -> PublicationRecord | None:
        with self._store.reading() as reader:
            return reader.publications.get(release)

    def find(self, release: str) -> Published:
        """Return a public release, to everyone.

        Raises
        ------
        Problem
            ``not-found``, for what is not public and what does not exist alike; ``withdrawn``.
        """
        return self._store.read_public(partial(self._find, release))

    def _find(self, release: str, reader: Reader) -> Published:
        record = reader.publications.get(release)
        if record is None:
            raise Problem("not-found")
        if record.withdrawn_at is not None:
            raise withdrawn(record)
        found = reader.releases.get(release)
        assert found is not None
        return self._shown(reader, record, found)

    def search(self, wanted: Wanted, span: Span) -> Sequence[Published]:
        """Return what is public and fits, of a span; the numbers are not read."""

        def read(reader: Reader) -> Sequence[Published]:
            records = reader.publications.list(wanted, span)
            heads = reader.releases.heads([record.release for record in records])
            return [self._shown(reader, record, heads[record.release]) for record in records]

        return self._store.read_public(read)

    def called(self, text: str) -> tuple[str, str]:
        """Return the id and name of a data set of which something is public, by either of them.

        A text that names none is returned as it is.
        """

        def read(reader: Reader) -> tuple[str, str]:
            found = reader.publications.called(text)
            if found is None:
                return text, text
            return found, self._datasets.facts_in(reader, found).record.name

        return self._store.read_public(read)

    def datasets(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return the id and name of data sets of which something is public, by name.

        They are those of which something was published last.
        """

        def read(reader: Reader) -> Sequence[tuple[str, str]]:
            found = reader.publications.datasets(limit)
            return [(each, self._datasets.facts_in(reader, each).record.name) for each in found]

        return sorted(self._store.read_public(read), key=lambda each: sorts_as(each[1]))

    def public_of(self, dataset: str) -> tuple[DatasetFacts, Sequence[Published]]:
        """Return a data set's facts and its newest public releases, to everyone.

        Raises
        ------
        Problem
            ``not-found``, also where none of its releases is public.
        """

        def read(reader: Reader) -> tuple[DatasetFacts, Sequence[Published]]:
            items = self._of_dataset(reader, dataset)
            if not items:
                raise Problem("not-found")
            return self._datasets.facts_in(reader, dataset), items

        return self._store.read_public(read)

    def of_dataset(self, dataset: str) -> tuple[DatasetFacts, Sequence[Published]]:
        """Return a data set's facts and its newest public releases, if there are any.

        Raises
        ------
        Problem
            ``not-found``.
        """
        with self._store.reading() as reader:
            return self._datasets.facts_in(reader, dataset), self._of_dataset(reader, dataset)

    def _of_dataset(self, reader: Reader, dataset: str) -> Sequence[Published]:
        """Return the newest public releases of a data set, numbers and all.

        One at least, if there are any; limited in number and in bytes.
        """
        found: list[Published] = []
        size = 0
        for record in reader.publications.list(Wanted(dataset=dataset), Span(limit=MOST_EXPORTED)):
            release = reader.releases.get(record.release)
            assert release is not None
            size += len(release.result or b"")
            if found and size > _MOST_BYTES:
                break
            found.append(self._shown(reader, record, release))
        return found

    def _shown(
        self, reader: Reader, record: PublicationRecord, release: ReleaseRecord
    ) -> Published:
        facts = self._datasets.facts_in(reader, release.dataset)
        return Published(
            publication=record,
            release=release,
            dataset=facts.record.name,
            columns=columns_of(facts, _statistic(release)),
            delta=facts.meter.delta,
            software=self._software,
        )


def withdrawn(record: PublicationRecord) -> Problem:
    """Return what stands at the address of what was withdrawn."""
    return Problem(
        "withdrawn",
        withdrawn_by=record.withdrawn_by,
        withdrawn_at=record.withdrawn_at,
        note=record.note,
    )


def wanted(words: str = "", dataset: str | None = None, kind: str | None = None) -> Wanted:
    """Return a search for every word of a text, in any order and however they are cased."""
    return Wanted(
        words=tuple(words.casefold().split())[:_MOST_WORDS],
        dataset=dataset or None,
        kind=kind or None,
    )


def _same(known: PublicationRecord, reason: str, caller: Caller) -> PublicationRecord:
    """Return a publication to who has made it, and says so again."""
    if known.withdrawn_at is not None:
        raise Problem("publication-withdrawn")
    if (known.published_by, known.reason) != (caller.person, reason):
        raise Problem("already-published")
    return known


def _publish(
    work: UnitOfWork, found: ReleaseRecord, facts: DatasetFacts, reason: str, person: str
) -> PublicationRecord:
    assert found.result is not None
    question = read_question(found.request)
    columns = columns_of(facts, _statistic(found))
    labels = [str(column["label"]) for column in columns.values() if "label" in column]
    kinds = [
        each for kind in question.kinds for each in (kind, kind.replace("_", " "), words(kind))
    ]
    found_by = (facts.record.name, *kinds, *columns, *labels, found.id)
    return work.publications.publish(
        release=found.id,
        dataset=found.dataset,
        kinds=question.kinds,
        words="\n".join(found_by).casefold(),
        content=sha256_hex(found.result),
        principal=person,
        reason=reason,
    )


def _statistic(release: ReleaseRecord) -> Mapping[str, Any]:
    statistic: Mapping[str, Any] = json.loads(release.request)["statistic"]
    return statistic


def _version() -> str:
    try:
        return f"Release Desk {version('release-desk')}"
    except PackageNotFoundError:
        return "Release Desk"
