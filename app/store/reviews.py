"""Releases under review: budget is set aside, then spent or given back.

Nothing has been drawn or read while a release is reserved, so giving the budget
back tells nothing: the reviewer has seen the request and nothing else.
"""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select, update

from app.domain.ledger import EntryKind
from app.domain.problems import Problem
from app.domain.releases import ReleaseState, plan_digest, request_fingerprint
from app.store import tables
from app.store.accounts import AccountsWriter
from app.store.entries import EntriesWriter, Occasion
from app.store.ids import new_id
from app.store.records import ReleaseRecord
from app.store.releases import ENDED_AS, NewRelease, ReleasesWriter

APPROVED = "release_approved"
"""The kind of the system entry that says who approved a release, which is its note."""

_release = tables.release.c
_RESERVED = select(tables.entry.c.amount).where(
    tables.entry.c.account == bindparam("of"), tables.entry.c.seq == bindparam("at_seq")
)
_STEP = update(tables.release).where(
    _release.id == bindparam("wanted"), _release.state == ReleaseState.RESERVED.value
)
_APPROVE = _STEP.values(
    state=ReleaseState.DEBITED.value,
    seq=bindparam("charge"),
    attempts=1,
    worker=bindparam("by"),
)
_CLOSE = _STEP.values(state=bindparam("final"), finished_at=bindparam("at"))


class ReviewsWriter:
    """Setting budget aside for a release, and what may become of it."""

    __slots__ = ("_accounts", "_connection", "_entries", "_releases")

    def __init__(
        self,
        connection: Connection,
        entries: EntriesWriter,
        accounts: AccountsWriter,
        releases: ReleasesWriter,
    ) -> None:
        self._connection = connection
        self._entries = entries
        self._accounts = accounts
        self._releases = releases

    def reserve(
        self,
        *,
        account: str,
        amount: int,
        dataset: str,
        principal: str,
        request: str,
        plan: str,
        idem: str,
    ) -> ReleaseRecord:
        """Set budget aside for a release; its state is ``reserved``, and nothing is drawn.

        The arguments are those of :meth:`ReleasesWriter.debit`, and so is the rule on
        the Idempotency-Key: look it up first.

        Raises
        ------
        Problem
            ``not-found``; ``budget-exceeded`` with nothing written.
        """
        release = new_id("rel")
        fingerprint = request_fingerprint(dataset=dataset, request=request)
        occasion = Occasion(
            principal=principal,
            release=release,
            idem=idem,
            fingerprint=fingerprint,
            note=plan_digest(plan),
        )
        entry = self._accounts.take(account, EntryKind.RESERVE, amount, occasion)
        made = NewRelease(
            id=release,
            account=account,
            seq=entry.seq,
            dataset=dataset,
            principal=principal,
            request=request,
            plan=plan,
            fingerprint=fingerprint,
            created_at=entry.at,
            worker=None,
            entry_hash=entry.hash,
            state=ReleaseState.RESERVED,
        )
        return self._releases.insert([made])[release]

    def approve(self, release: str, *, principal: str, worker: str | None = None) -> ReleaseRecord:
        """Spend what is reserved: the release is ``debited``, in its first attempt.

        The charge is the requester's; a system entry says that ``principal`` approved it.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it is no longer reserved.
        """
        found = self._reserved(release)
        occasion = Occasion(
            principal=found.principal,
            release=found.id,
            fingerprint=found.fingerprint,
            note=plan_digest(found.plan),
        )
        entry = self._entries.append(
            found.account, EntryKind.DEBIT, self._amount(found), occasion, reserved=True
        )
        self._connection.execute(_APPROVE, {"wanted": found.id, "charge": entry.seq, "by": worker})
        self._accounts.system_entry(APPROVED, principal=principal, note=found.id)
        return self._releases.get_all([found.id])[found.id]

    def unreserve(
        self, release: str, final: ReleaseState, *, principal: str, reason: str
    ) -> ReleaseRecord:
        """Give back what is reserved: the release is rejected, withdrawn or expired for good.

        ``principal`` is whose decision it is; the reason is public and stays in the ledger.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it is no longer reserved.
        ValueError
            ``final`` is not where a reserved release may end undrawn.
        """
        if final is ReleaseState.DEBITED or not ReleaseState.RESERVED.may_become(final):
            raise ValueError("a reserved release cannot end so")
        found = self._reserved(release)
        occasion = Occasion(
            principal=principal, release=found.id, fingerprint=found.fingerprint, note=reason
        )
        amount, person = self._amount(found), found.principal
        entry = self._accounts.give_back(found.account, amount, occasion, person=person)
        self._connection.execute(_CLOSE, {"wanted": found.id, "final": final.value, "at": entry.at})
        self._accounts.system_entry(
            ENDED_AS[final], principal=principal, note=found.id, at=entry.at
        )
        return self._releases.get_all([found.id])[found.id]

    def _reserved(self, release: str) -> ReleaseRecord:
        found = self._releases.get(release)
        if found is None:
            raise Problem("not-found", "There is no such release.")
        if found.state is not ReleaseState.RESERVED:
            raise Problem("precondition")
        return found

    def _amount(self, found: ReleaseRecord) -> int:
        """Return what the entry that the release stands on has set aside."""
        where = {"of": found.account, "at_seq": found.seq}
        return int(self._connection.execute(_RESERVED, where).scalar_one())
