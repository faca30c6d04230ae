r"""Extending a data set: new rows for new people, as a data set of its own with the old rows first.

    v_j = B_1 + ... + B_j,   B_i the rows of the i-th file,   all v_j charged to one account.

**Theorem.** Let every release of cost epsilon_i be epsilon_i-DP for the version that it is drawn
from. Then all releases from all versions together are (sum of epsilon_i)-DP for the files
``(B_1, ..., B_m)``, where neighbours differ in one row of one file (``replace_one``: how many rows
each file has is public) or one file has one row more (``add_remove``). *Proof.* Such neighbours
give, for each j, equal versions (the row's file comes after v_j) or neighbouring ones in the same
sense. So each release is epsilon_i-DP for the files, even if chosen in view of earlier
answers, and costs add up: the account is one, and compares their sum with its total.

*With a unit* neighbours differ in one person, with any number of rows in any of the files. Of them
at most k are in any version (:mod:`app.uploads.people.counting`), so each version changes by at
most k rows, each planned for at epsilon_i / k.

**What is refused.** Without a unit a person's rows are one row, so files whose rows largely come
again are refused as any other overlap is, also within the account. A unit that ``reduce``\ s makes
one row of all rows of a person: with a new file that row would have to change, and the old rows
are gone. The answer to an extension follows from its file and public facts: it does not reveal
to a person who extends another's data set what that holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO

import anyio.to_thread

from app.domain.datasets import ColumnsSpec, TextFile
from app.domain.problems import Problem, invalid_request
from app.domain.sources import Source
from app.domain.upload_reports import UploadReport
from app.services.datasets.admitting import Extension, NewDataset
from app.services.datasets.datasets import (
    DatasetFacts,
    DatasetService,
    DatasetView,
    require_active,
)
from app.services.datasets.storing import Waiting
from app.services.people.keys import Caller
from app.store import Store, VersionRecord

__all__ = ["ExtendingService", "NewRows", "VersionRecord"]

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """What a curator declares about rows that are added.

    ``max_rows`` bounds them, where the data set has a bound; ``name`` is that of the version.
    """

    name: str | None = None
    max_rows: int | None = None
    text: TextFile = field(default_factory=TextFile)
    overlap_reason: str | None = None


class ExtendingService:
    """Extends data sets."""

    def __init__(self, store: Store, datasets: DatasetService) -> None:
        self._store = store
        self._datasets = datasets

    async def extend(
        self,
        dataset: str,
        new: NewRows,
        content: BinaryIO | Source,
        *,
        caller: Caller,
        waiting: Waiting,
    ) -> tuple[DatasetView, UploadReport]:
        """Store rows as the next version of a data set, and say how they were read: here only.

        Raises
        ------
        Problem
            ``not-found``, ``dataset-archived``, ``newer-version``, ``not-extendable``,
            ``invalid-request``, and what :meth:`DatasetService.create` raises.
        """
        declared = await self.declared(dataset, new)
        return await self._datasets.create(declared, content, caller=caller, waiting=waiting)

    async def check(
        self,
        dataset: str,
        new: NewRows,
        content: BinaryIO | Source,
        *,
        caller: Caller,
        waiting: Waiting,
    ) -> UploadReport:
        """Say how rows would be read that are added to a data set, and keep nothing of them.

        Raises
        ------
        Problem
            As :meth:`extend`, but for overlaps.
        """
        declared = await self.declared(dataset, new)
        return await self._datasets.check(declared, content, caller=caller, waiting=waiting)

    async def declared(self, dataset: str, new: NewRows) -> NewDataset:
        """Return what is declared of a data set's next version.

        Raises
        ------
        Problem
            ``not-found``, ``dataset-archived``, ``newer-version``, ``not-extendable``,
            ``invalid-request``.
        """
        facts = await self._datasets.present(dataset)
        return await anyio.to_thread.run_sync(partial(self._declared, facts, new))

    def versions(self, dataset: str) -> Sequence[VersionRecord]:
        """Return all versions of which a data set is one, newest first.

        Raises
        ------
        Problem
            ``not-found``.
        """
        facts = self._datasets.facts(dataset)
        with self._store.reading() as reader:
            return reader.datasets.versions(facts.record.first)

    def _declared(self, facts: DatasetFacts, new: NewRows) -> NewDataset:
        """Return what is declared of the next version.

        Raises
        ------
        Problem
            As :meth:`extend`.
        """
        record = require_active(facts.record)
        if facts.columns.unit is not None and facts.columns.unit.reduce is not None:
            raise Problem("not-extendable")
        with self._store.reading() as reader:
            reader.datasets.require_newest(record.id)
            versions = reader.datasets.versions(record.first)
            number = reader.datasets.next_version(record.first)
            manifest = reader.datasets.manifest(record.id)
        added = _bound(facts.columns, new.max_rows)
        columns = replace(facts.columns, max_rows=added, text=new.text)
        # who a unit names may come again: it bounds their rows over all versions
        family = () if facts.columns.unit is not None else tuple(each.id for each in versions)
        return NewDataset(
            name=new.name or _name(versions[-1].name, number),
            description=facts.description,
            columns=columns,
            budget=None,
            account=record.account,
            overlap_reason=new.overlap_reason,
            extends=Extension(record=record, manifest=manifest, family=frozenset(family)),
        )


def _bound(columns: ColumnsSpec, added: int | None) -> int | None:
    """Return the bound on the rows that are added.

    Raises
    ------
    Problem
        ``invalid-request``: there is none and there should be one, or the other way round.
    """
    if (added is None) != (columns.max_rows is None):
        raise invalid_request(
            "spec.max_rows",
            "is required where the data set has one"
            if added is None
            else "is given only where the data set has one",
        )
    return added


def _name(first: str, number: int) -> str:
    name = f"{first}, version {number}"
    if len(name) > _LONGEST_NAME:
        raise invalid_request("spec.name", "is required: the one that would follow is too long")
    return name
