"""The audit: reading the ledger and walking it."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.ledger import Entry
from app.services.datasets import DatasetService
from app.store import Store, Verification


class AuditService:
    """Shows entries and verifies chains and sums."""

    def __init__(self, store: Store, datasets: DatasetService) -> None:
        self._store = store
        self._datasets = datasets

    def entries(self, dataset: str, *, after: int, limit: int) -> Sequence[Entry]:
        """Return the entries of a data set's account, oldest first.

        Raises
        ------
        Problem
            ``not-found``.
        """
        account = self._datasets.facts(dataset).record.account
        with self._store.reading() as reader:
            return reader.entries.list(account, after=after, limit=limit)

    def verify(self) -> Verification:
        """Walk every chain, sum and result."""
        return self._store.verify()

    def check_alive(self) -> None:
        """Read from the database, or raise what keeps it from being read."""
        with self._store.reading() as reader:
            reader.keys.count()
