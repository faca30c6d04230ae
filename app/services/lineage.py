"""Lineage: whether an upload's rows largely belong to earlier data of another account.

An upload is compared with every earlier data set, archived ones too, but for
those whose account it is attached to: people who are in two accounts could be
spent on twice. What a refusal tells is the earlier data set; see
:mod:`app.domain.overlap` for the rule.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from app.domain.problems import Problem
from app.engine.overlap import tables_overlap
from app.engine.row_digests import MalformedError, RowDigests, key_name
from app.store import LineageRecord, Store
from app.store.lineage import LineageFiles
from app.store.vault import VaultError

_LOG = logging.getLogger(__name__)
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Comparison:
    """What an upload was found to overlap, and the newest data set it was compared with.

    ``lost`` names the data sets whose digests can no longer be used.
    """

    upto: int = 0
    found: LineageRecord | None = None
    lost: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        """Return what was found, for the record of an override."""
        if self.found is not None:
            return self.found.dataset
        return "what cannot be told" if self.lost else "nothing"


class LineageService:
    """Compares uploads with earlier data, and keeps their digests."""

    def __init__(self, store: Store, files: LineageFiles) -> None:
        self._store = store
        self._files = files
        self._key = key_name(files.key())

    def compare(self, digests: RowDigests, *, account: str | None, since: Comparison) -> Comparison:
        """Compare an upload with the data sets registered since an earlier comparison."""
        upto, found, lost = since.upto, since.found, list(since.lost)
        while records := self._registered(after=upto):
            for record in records:
                upto = record.number
                if found is not None or record.sha256 is None or record.account == account:
                    continue
                earlier = self._read(record)
                if earlier is None:
                    lost.append(record.dataset)
                elif tables_overlap(digests, earlier):
                    found = record
        return Comparison(upto, found, tuple(lost))

    def _registered(self, *, after: int) -> tuple[LineageRecord, ...]:
        with self._store.reading() as reader:
            return reader.datasets.lineages(after=after, limit=_PAGE)

    def _read(self, record: LineageRecord) -> RowDigests | None:
        """Return a data set's digests, or None when they are not what they were."""
        try:
            content = self._files.read(record.dataset, record.sha256 or "")
            digests = RowDigests.from_bytes(content)
        except (VaultError, MalformedError):
            _LOG.error("row digests lost", extra={"dataset": record.dataset})
            return None
        return digests if digests.key == self._key else None

    def keep(self, dataset: str, digests: RowDigests) -> str:
        """Store an upload's digests and return their SHA-256."""
        return self._files.keep(dataset, digests.to_bytes())

    def forget(self, dataset: str) -> None:
        """Drop the digests of an upload that was refused."""
        self._files.forget(dataset)


def require_unrelated(comparison: Comparison) -> None:
    """Pass for an upload that overlaps nothing.

    Raises
    ------
    Problem
        ``overlapping-dataset``; ``lineage-lost`` when nobody can tell.
    """
    if comparison.found is not None:
        raise Problem(
            "overlapping-dataset",
            dataset=comparison.found.dataset,
            account=comparison.found.account,
        )
    if comparison.lost:
        raise Problem("lineage-lost", dataset=comparison.lost[0])
