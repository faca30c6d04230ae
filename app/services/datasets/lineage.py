"""Lineage: whether an upload's rows largely belong to earlier data of another account.

An upload is compared with every earlier data set, archived ones too, but for
those whose account it is attached to: people who are in two accounts could be
spent on twice. The data sets of an account, versions among them, are judged one by one
and together: so it does not matter into how many files people are divided. Data sets
that the database has forgotten and whose digests are there count as earlier
ones; as long as it is unknown whose an account is that a reconciliation has opened
again, an upload may be of those very people. What a refusal reveals is the earlier data
set; see :mod:`app.domain.overlap` for the rule.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from app.domain.overlap import OTHERS
from app.domain.problems import Problem
from app.logs import describe
from app.services.datasets.comparing import (
    ENOUGH_NEW,
    Digested,
    Verdict,
    bring_up_to_date,
    compare,
)
from app.services.people.keys import Caller
from app.store import DigestHistory, LineageRecord, Reader, Store, UnitOfWork, read_digest_history
from app.vault.lineage import LineageFiles, Origin

_LOG = logging.getLogger(__name__)
_PAGE = 1_000
_LOOK_S = 60.0
_UNIDENTIFIED = (
    "A reconciliation has opened accounts again, and their people are unknown: the row "
    "digests are gone with their data sets. Nothing was stored."
)


Comparing = Callable[[Digested, Sequence[Digested], Sequence[Digested]], Verdict]
"""Compares an upload with earlier data sets, given those of its account, here or elsewhere."""
Indexing = Callable[[Sequence[Digested]], None]
"""Brings data sets into the index of their digests, here or elsewhere."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What an upload was found to overlap, and the newest data set it was compared with.

    ``accounts`` are the ones that what was found may be in. ``lost`` names the data
    sets whose digests can no longer be used, ``unidentified`` the accounts opened again of
    which the people are unknown. ``withheld`` says that the upload is too small
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
        return "unknown" if self.lost or self.unidentified or self.withheld else "nothing"


class LineageService:
    """Compares uploads with earlier data, and keeps their digests.

    Parameters
    ----------
    store
        Which data sets there are.
    files
        Their digests.
    comparing, indexing
        What compares them and brings them into their index: this process by default.
    """

    def __init__(
        self,
        store: Store,
        files: LineageFiles,
        comparing: Comparing | None = None,
        indexing: Indexing | None = None,
    ) -> None:
        self._store = store
        self._files = files
        self._compare = comparing or partial(compare, files)
        self._index = indexing or partial(bring_up_to_date, files)
        self._indexing = threading.Lock()
        self._indexed, self._indexed_s = 0, 0.0
        self._known: list[LineageRecord] = []

    def compare(
        self,
        upload: Digested,
        *,
        account: str | None,
        person: str,
        since: Comparison,
        family: Collection[str] = (),
        replaces: str | None = None,
    ) -> Comparison:
        """Compare a person's upload with what came since a comparison, and what is forgotten.

        What it is compared with is not of the ``account`` that it is attached to, but for the
        ``family`` of data sets whose people are not to come again. Nor is it the data set that
        the upload ``replaces``.
        """
        found = since
        # As soon as one more is there all are looked at again: an account's are judged together.
        if self._registered(after=since.upto):
            records = self._all_registered()
            accounts = {each.dataset: (each.account,) for each in records}
            own, others = [], []
            for each in records:
                if each.sha256 is None or each.dataset == replaces:
                    continue
                mine = each.person == person
                digested = Digested(each.dataset, each.sha256, mine, each.account)
                if each.account == account:
                    own.append(digested)
                if each.account != account or each.dataset in family:
                    others.append(digested)
            found = self._against(upload, others, accounts, found, together=own)
            found = replace(found, upto=records[-1].number)
            self._index_later(records)
        past = self._past()
        forgotten = {each.dataset: past.accounts_of(each) for each in past.datasets}
        unidentified = () if account in past.reopened else past.unidentified
        unclaimed = [
            Digested(each.dataset, each.sha256)
            for each in past.datasets
            if account not in forgotten[each.dataset]
        ]
        return replace(
            self._against(upload, unclaimed, forgotten, found), unidentified=unidentified
        )

    def _against(
        self,
        upload: Digested,
        others: Sequence[Digested],
        accounts: Mapping[str, tuple[str, ...]],
        since: Comparison,
        together: Sequence[Digested] = (),
    ) -> Comparison:
        """Compare with data sets, given which accounts they may be in.

        ``together`` are the data sets of the upload's account.
        """
        if since.found is not None or not others:
            return since
        verdict = self._compare(upload, others, together)
        compared = replace(
            since,
            lost=(*since.lost, *verdict.lost),
            withheld=since.withheld or verdict.withheld,
        )
        for each in others:
            if each.dataset == verdict.found:
                account = accounts[each.dataset]
                return replace(compared, found=each.dataset, accounts=account, own=each.own)
        return compared

    def _index_later(self, records: Sequence[LineageRecord]) -> None:
        """Bring the index up to date in another thread.

        Once a few data sets are new, or it has not been looked at for a while: whether files of
        digests have been lost or altered is noticed then.
        """
        now_s = time.monotonic()
        due = len(records) - self._indexed >= ENOUGH_NEW or now_s - self._indexed_s > _LOOK_S
        if len(records) < ENOUGH_NEW or not due or not self._indexing.acquire(blocking=False):
            return
        self._indexed, self._indexed_s = len(records), now_s
        every = [Digested(each.dataset, each.sha256) for each in records if each.sha256 is not None]

        def index() -> None:
            try:
                self._index(every)
            except Exception as error:  # the next one begins where this one ended
                _LOG.info("row digests not indexed yet", extra=describe(error))
            finally:
                self._indexing.release()

        threading.Thread(target=index, name="lineage-index", daemon=True).start()

    def _past(self) -> DigestHistory:
        with self._store.reading() as reader:
            return read_digest_history(reader)

    def _registered(self, *, after: int) -> tuple[LineageRecord, ...]:
        with self._store.reading() as reader:
            return reader.datasets.lineages(after=after, limit=_PAGE)

    def _all_registered(self) -> Sequence[LineageRecord]:
        """Return all data sets; of those that were read before, only which are deleted is."""
        with self._store.reading() as reader:
            # where others write too, a smaller number may come later
            found = [] if self._store.shared else list(self._known)
            while more := reader.datasets.lineages(
                after=found[-1].number if found else 0, limit=_PAGE
            ):
                found += more
            deleted = reader.datasets.deleted()
        self._known = [each for each in found if each.dataset not in deleted]
        return self._known

    def keep(self, dataset: str, digests: bytes, origin: Origin) -> Digested:
        """Store an upload's digests, and whose they are."""
        return Digested(dataset, self._files.keep(dataset, digests, origin))


def require_unrelated(comparison: Comparison) -> None:
    """Pass for an upload that overlaps nothing.

    Raises
    ------
    Problem
        ``overlapping-dataset``; ``too-few-rows`` when it was not to be compared;
        ``lineage-lost`` when that is unknown.
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


KIND = "overlap_refused"
_DAY = timedelta(days=1)


class OverlapRefusals:
    """Records uploads that were refused for an overlap, and allows a person few of them a day.

    Such a refusal reveals that some rows are in data that another person may have uploaded. So the
    system account has an entry of each: which person learned of which data set. A person may learn
    of others' data only a few times in 24 hours. After that every upload of theirs is refused,
    whatever is in it, so that the limit reveals nothing either. Refusals by what one has uploaded
    oneself are recorded and not counted.

    Parameters
    ----------
    most_per_day
        How often in 24 hours a person may learn of what others have uploaded.
    """

    def __init__(self, *, most_per_day: int) -> None:
        self._most = most_per_day

    def require_left(self, reader: Reader | UnitOfWork, person: str) -> None:
        """Pass for a person who may learn of another overlap.

        Raises
        ------
        Problem
            ``too-many-overlaps``.
        """
        now = datetime.now(UTC)
        times = sorted(_learned(reader, person, since=now - _DAY))
        if len(times) >= self._most:
            # Once that one is a day old, one fewer than the limit is left.
            wait_s = (times[-self._most] + _DAY - now).total_seconds()
            raise Problem(
                "too-many-overlaps",
                maximum=self._most,
                retry_after=max(1, int(wait_s) + 1),
            )

    def record(self, work: UnitOfWork, *, caller: Caller, comparison: Comparison) -> None:
        """Record that a person is about to learn of an overlap.

        Raises
        ------
        Problem
            ``too-many-overlaps``, and then it is not shown.
        """
        if not comparison.own:
            self.require_left(work, caller.person)
        accounts = work.by(caller.acting).accounts
        accounts.system_entry(KIND, principal=caller.person, note=comparison.found)


def _learned(reader: Reader | UnitOfWork, person: str, *, since: datetime) -> Iterator[datetime]:
    """Yield the times when a person learned of what others have uploaded."""
    for entry in reader.entries.of_system(KIND):
        at = datetime.fromisoformat(entry.at)
        if entry.principal == person and at > since:
            dataset = reader.datasets.get(entry.note or "")
            if dataset is None or dataset.created_by != person:
                yield at
