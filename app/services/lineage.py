"""Lineage: whether an upload's rows largely belong to earlier data of another account.

An upload is compared with every earlier data set, archived ones too, but for
those whose account it is attached to: people who are in two accounts could be
spent on twice. What a refusal tells is the earlier data set; see
:mod:`app.domain.overlap` for the rule.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from app.domain.problems import Problem
from app.engine.overlap import Newcomer
from app.engine.row_digests import MalformedError, RowDigests
from app.store import LineageRecord, Store
from app.store.lineage import LineageFiles
from app.store.vault import VaultError

_LOG = logging.getLogger(__name__)
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Digested:
    """A data set whose rows' digests are kept, and the SHA-256 of their file."""

    dataset: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which of some data sets an upload overlaps, the first of them, and whose digests are lost."""

    found: str | None = None
    lost: tuple[str, ...] = ()


Comparing = Callable[[Digested, Sequence[Digested]], Verdict]
"""Compares an upload with earlier data sets, here or elsewhere."""


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
    """Compares uploads with earlier data, and keeps their digests.

    Parameters
    ----------
    store
        Which data sets there are.
    files
        Their digests.
    comparing
        What compares them: this process, unless told otherwise.
    """

    def __init__(
        self, store: Store, files: LineageFiles, comparing: Comparing | None = None
    ) -> None:
        self._store = store
        self._files = files
        self._compare = comparing or partial(compare, files)

    def compare(self, upload: Digested, *, account: str | None, since: Comparison) -> Comparison:
        """Compare an upload with the data sets registered since an earlier comparison."""
        upto, found, lost = since.upto, since.found, since.lost
        while records := self._registered(after=upto):
            upto = records[-1].number
            others = {
                record.dataset: record
                for record in records
                if record.sha256 is not None and record.account != account
            }
            if found is None and others:
                earlier = [Digested(each.dataset, each.sha256 or "") for each in others.values()]
                verdict = self._compare(upload, earlier)
                found = None if verdict.found is None else others[verdict.found]
                lost = (*lost, *verdict.lost)
        return Comparison(upto, found, lost)

    def _registered(self, *, after: int) -> tuple[LineageRecord, ...]:
        with self._store.reading() as reader:
            return reader.datasets.lineages(after=after, limit=_PAGE)

    def keep(self, dataset: str, digests: bytes) -> Digested:
        """Store an upload's digests."""
        return Digested(dataset, self._files.keep(dataset, digests))

    def forget(self, dataset: str) -> None:
        """Drop the digests of an upload that was refused."""
        self._files.forget(dataset)


def compare(files: LineageFiles, upload: Digested, earlier: Sequence[Digested]) -> Verdict:
    """Compare an upload with data sets one by one, until it overlaps one.

    Raises
    ------
    VaultError, MalformedError
        The upload's own digests are not what they were a moment ago.
    """
    digests = RowDigests.from_bytes(files.read(upload.dataset, upload.sha256))
    newcomer = Newcomer(digests)
    lost: list[str] = []
    for each in earlier:
        old = _read(files, each, digests.key)
        if old is None:
            lost.append(each.dataset)
        elif newcomer.overlaps(old):
            return Verdict(each.dataset, tuple(lost))
    return Verdict(None, tuple(lost))


def _read(files: LineageFiles, kept: Digested, key: str) -> RowDigests | None:
    """Return a data set's digests, or None when they are not what they were."""
    try:
        digests = RowDigests.from_bytes(files.read(kept.dataset, kept.sha256))
    except (VaultError, MalformedError):
        _LOG.error("row digests lost", extra={"dataset": kept.dataset})
        return None
    return digests if digests.key == key else None


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
