"""Lineage: whether an upload's rows largely belong to earlier data of another account.

An upload is compared with every earlier data set, archived ones too, but for
those whose account it is attached to: people who are in two accounts could be
spent on twice. Data sets that the database has forgotten and whose digests are
there count as earlier ones; as long as nobody can tell whose an account is that
a reconciliation has opened again, an upload may be of those very people. What a
refusal tells is the earlier data set; see :mod:`app.domain.overlap` for the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from app.domain.overlap import OTHERS
from app.domain.problems import Problem
from app.services.datasets.comparing import Digested, Verdict, compare
from app.store import DigestHistory, LineageRecord, Store, read_digest_history
from app.vault.lineage import LineageFiles, Origin

_PAGE = 1_000
_UNIDENTIFIED = (
    "A reconciliation has opened accounts again, and nobody can tell whose they are: the row "
    "digests are gone with their data sets. Nothing was stored."
)


Comparing = Callable[[Digested, Sequence[Digested]], Verdict]
"""Compares an upload with earlier data sets, here or elsewhere."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What an upload was found to overlap, and the newest data set it was compared with.

    ``accounts`` are the ones that what was found may be in. ``lost`` names the data
    sets whose digests can no longer be used, ``unidentified`` the accounts opened again of
    which nobody can tell whose they are. ``withheld`` says that the upload is too small
    to be compared with what others have uploaded. ``own`` says that what was found is
    the uploader's own.
    """

    upto: int = 0
    found: str | None = None
    accounts: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    unidentified: tuple[str, ...] = ()
    withheld: bool = False
    own: bool = False

    @property
    def named(self) -> str:
        """Return what was found, for the record of an override."""
        if self.found is not None:
            return self.found
        return (
            "what cannot be told" if self.lost or self.unidentified or self.withheld else "nothing"
        )


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

    def compare(
        self,
        upload: Digested,
        *,
        account: str | None,
        person: str,
        since: Comparison,
        family: Collection[str] = (),
    ) -> Comparison:
        """Compare a person's upload with what came since a comparison, and what is forgotten.

        What it is compared with is not of the ``account`` that it is attached to, but for the
        ``family`` of data sets whose people are not to come again.
        """
        found = since
        while records := self._registered(after=found.upto):
            registered = {
                Digested(each.dataset, each.sha256, each.person == person): (each.account,)
                for each in records
                if each.sha256 is not None
            }
            others: dict[Digested, tuple[str, ...]] = {
                each: accounts
                for each, accounts in registered.items()
                if account not in accounts or each.dataset in family
            }
            found = self._against(upload, others, found)
            found = replace(found, upto=records[-1].number)
        past = self._past()
        forgotten = {Digested(x.dataset, x.sha256): past.accounts_of(x) for x in past.datasets}
        unidentified = () if account in past.reopened else past.unidentified
        unclaimed = {each: known for each, known in forgotten.items() if account not in known}
        return replace(self._against(upload, unclaimed, found), unidentified=unidentified)

    def _against(
        self,
        upload: Digested,
        others: Mapping[Digested, tuple[str, ...]],
        since: Comparison,
    ) -> Comparison:
        """Compare with data sets, given which accounts they may be in."""
        if since.found is not None or not others:
            return since
        verdict = self._compare(upload, list(others))
        compared = replace(
            since,
            lost=(*since.lost, *verdict.lost),
            withheld=since.withheld or verdict.withheld,
        )
        for each, accounts in others.items():
            if each.dataset == verdict.found:
                return replace(compared, found=each.dataset, accounts=accounts, own=each.own)
        return compared

    def _past(self) -> DigestHistory:
        with self._store.reading() as reader:
            return read_digest_history(reader)

    def _registered(self, *, after: int) -> tuple[LineageRecord, ...]:
        with self._store.reading() as reader:
            return reader.datasets.lineages(after=after, limit=_PAGE)

    def keep(self, dataset: str, digests: bytes, origin: Origin) -> Digested:
        """Store an upload's digests, and whose they are."""
        return Digested(dataset, self._files.keep(dataset, digests, origin))


def require_unrelated(comparison: Comparison) -> None:
    """Pass for an upload that overlaps nothing.

    Raises
    ------
    Problem
        ``overlapping-dataset``; ``too-few-rows`` when it was not to be compared;
        ``lineage-lost`` when nobody can tell.
    """
    if comparison.found is not None:
        accounts = comparison.accounts
        place = {"account": accounts[0]} if len(accounts) == 1 else {"accounts": [*accounts]}
        raise Problem("overlapping-dataset", dataset=comparison.found, **place)
    if comparison.withheld:
        raise Problem("too-few-rows", minimum=OTHERS.compared)
    if comparison.lost:
        raise Problem("lineage-lost", dataset=comparison.lost[0])
    if comparison.unidentified:
        raise Problem("lineage-lost", _UNIDENTIFIED, accounts=[*comparison.unidentified])
