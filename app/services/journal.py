"""The ledger for people to read: its entries with filters, and how a budget went over time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.ledger import Balance, Entry, EntryKind
from app.services.datasets.accounting import Epsilons, Meter, delta_of, in_epsilons, meter_of
from app.services.datasets.datasets import DatasetService
from app.store import Reader, Store, Wanted

__all__ = ["JournalService", "Line", "Moment", "Wanted"]

_MOST_MOMENTS = 160


@dataclass(frozen=True, slots=True)
class Line:
    """An entry, and what its account counts in; None for the system's own, which counts nothing.

    ``dataset`` and ``name`` are of the data set that its account was opened for.
    ``approved_by`` are the people who let its release be charged, where there was a review.
    """

    entry: Entry
    meter: Meter | None = None
    dataset: str | None = None
    name: str | None = None
    approved_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """What a budget was after one of its entries."""

    at: str
    epsilons: Epsilons


class JournalService:
    """Shows the ledger to those who may see all of it."""

    def __init__(self, store: Store, datasets: DatasetService) -> None:
        self._store = store
        self._datasets = datasets

    def page(self, wanted: Wanted, *, skip: int, limit: int) -> tuple[Sequence[Line], bool]:
        """Return entries, newest first, and whether there are more after them."""
        with self._store.reading() as reader:
            # One more than is shown reveals whether there are more.
            entries = reader.journal.page(wanted, skip=skip, limit=limit + 1)
            approvals = reader.journal.approvals(entries[:limit])
            known = {
                account: _first(reader, account) for account in {each.account for each in entries}
            }
        lines = [
            Line(entry, *known[entry.account], approvals.get(entry.release or "", ()))
            if entry.kind == EntryKind.DEBIT
            else Line(entry, *known[entry.account])
            for entry in entries[:limit]
        ]
        return lines, len(entries) > limit

    def course(self, dataset: str) -> Sequence[Moment]:
        """Return how the budget of a data set's account went, oldest first: at ``most`` moments.

        Raises
        ------
        Problem
            ``not-found``.
        """
        facts = self._datasets.facts(dataset)
        account, meter = facts.record.account, facts.meter
        with self._store.reading() as reader:
            record = reader.accounts.get(account)
            places = _spread(0 if record is None else record.seq)
            entries = reader.journal.at(account, places)
        return [Moment(entry.at, in_epsilons(_after(entry), meter)) for entry in entries]


def _spread(last: int) -> Sequence[int]:
    """Return the places of an account's entries, or ``most`` of them with the first and the last.

    >>> _spread(3), len(_spread(10**6))
    ([1, 2, 3], 160)
    """
    if last <= _MOST_MOMENTS:
        return list(range(1, last + 1))
    return [1 + index * (last - 1) // (_MOST_MOMENTS - 1) for index in range(_MOST_MOMENTS)]


def _after(entry: Entry) -> Balance:
    return Balance(entry.total_after, entry.spent_after, entry.reserved_after)


def _first(reader: Reader, account: str) -> tuple[Meter | None, str | None, str | None]:
    """Return what is known of an account by the data set that it was opened for."""
    first = reader.datasets.first_of(account)
    if first is None:
        return None, None, None
    delta = delta_of(json.loads(first.spec).get("delta"))
    return meter_of(delta), first.id, first.name
