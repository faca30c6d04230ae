"""Drafts of specs, for the curator alone whose file it is.

A draft says what types columns have and how a file is written, from its first megabyte, and what a
dictionary states. It holds no bound, value or share that is taken from rows.

*An upload that is stored and waits until its sender has seen how it was read.* It is no data set
yet: it has no account, no name, and is in no list. Only its sender sees it, for an hour. Then it
is cleared away, as it is when the sender has more of them waiting than may be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO

import anyio.to_thread

from app.domain.ledger import sha256_hex
from app.domain.sources import Source
from app.domain.upload_reports import UploadReport
from app.services.datasets.storing import SourceService
from app.uploads.drafting.drafts import Draft
from app.vault.lineage import Origin
from mechanisms.privacy import NANOS_PER_EPSILON, Epsilon
from mechanisms.words import worded

# An upload that is stored and waits until its sender has seen how it was read

WAITS_S = 3_600
MOST_OF_A_PERSON = 3
MOST = 50
LARGE_BUDGET = Epsilon(10 * NANOS_PER_EPSILON)
"""A budget above it is worth a second look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A stored upload that waits.

    ``declared`` is the JSON text that it was sent with, and ``extends`` the data set that it adds
    rows to. ``sha256`` is that of its digests, if it has any, ``manifest`` that of its manifest.
    """

    dataset: str
    name: str
    declared: str
    extends: str | None
    rows: int
    report: UploadReport
    sha256: str | None
    manifest: str
    origin: Origin

    def to_bytes(self) -> bytes:
        """Return it as JSON."""
        fields = {**asdict(self), "report": self.report.to_json(), "origin": self.origin.to_text()}
        return json.dumps(fields).encode()

    @classmethod
    def of_bytes(cls, content: bytes) -> Staged:
        """Return the inverse of :meth:`to_bytes`."""
        fields: dict[str, Any] = json.loads(content)
        report = UploadReport.of(fields["report"], fields["report"]["columns"])
        origin = Origin.of_text(fields["origin"])
        assert origin is not None
        return cls(**{**fields, "report": report, "origin": origin})


def owner_of(person: str) -> str:
    """Return the digest by which the notes of a person's uploads are found."""
    return sha256_hex(person.encode())


def doubts(report: UploadReport, budget: Epsilon | None) -> list[str]:
    """Return what is to be confirmed before a data set is created, in words.

    >>> doubts(UploadReport(), Epsilon.parse("100"))
    ['The budget is epsilon 100. Above 10 it protects little: 1 = strong privacy, 10 = weak.']
    """
    found = []
    for name, counts in report.columns.items():
        clamped = counts.clamped_low + counts.clamped_high
        if 2 * clamped > counts.values:
            found.append(worded(
                "%(count)s of %(all)s values of %(name)s lie outside the bounds and were moved "
                "to the nearest bound.",
                name=name, count=clamped, all=counts.values,
            ))  # fmt: skip
        if counts.future:
            found.append(worded(
                "%(count)s dates of %(name)s are in the future, since years of two digits are "
                "read as 1970 to 2069.",
                name=name, count=counts.future,
            ))  # fmt: skip
    if budget is not None and budget.nanos > LARGE_BUDGET.nanos:
        found.append(worded(
            "The budget is epsilon %(budget)s. Above 10 it protects little: 1 = strong privacy, "
            "10 = weak.",
            budget=budget,
        ))  # fmt: skip
    return found


# Drafts of specs, for the curator alone whose file it is


Drafting = Callable[[BinaryIO, str, bytes], Draft]
"""Drafts a spec of a file, its name and a dictionary, in a process of its own."""


class DraftService:
    """Has specs drafted, some at once.

    Parameters
    ----------
    drafting
        Where files are read.
    sources
        Where sources may be.
    most
        How many are made at once; others wait.
    """

    def __init__(self, drafting: Drafting, sources: SourceService, *, most: int) -> None:
        self._drafting = drafting
        self._sources = sources
        self._threads = anyio.CapacityLimiter(most)

    async def of_file(self, file: BinaryIO, name: str, dictionary: bytes = b"") -> Draft:
        """Return the draft of an uploaded file.

        Raises
        ------
        Problem
            ``invalid-request``, about ``file`` or ``dictionary``; ``too-large``.
        """
        return await anyio.to_thread.run_sync(
            self._drafting, file, _stem(name), dictionary, limiter=self._threads
        )

    async def of_source(self, source: Source, dictionary: bytes = b"") -> tuple[Draft, str]:
        """Return the draft of a source's first file, with columns that its folders give; its name.

        Raises
        ------
        Problem
            As :meth:`of_file`; ``source-unreadable``, or ``invalid-request`` about ``source``.
        """
        return await anyio.to_thread.run_sync(
            self._first, source, dictionary, limiter=self._threads
        )

    def _first(self, source: Source, dictionary: bytes) -> tuple[Draft, str]:
        with self._sources.first_file(source) as (file, name, partitions):
            draft = self._drafting(file, _stem(name), dictionary)
        columns: dict[str, Any] = dict(draft.spec["columns"])
        for each in partitions:
            columns.setdefault(each, {"type": "category", "values": []})
        spec: Mapping[str, Any] = {**draft.spec, "columns": columns}
        return replace(draft, spec=spec), name


def _stem(name: str) -> str:
    return name.partition(".")[0]
