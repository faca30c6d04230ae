"""Budget accounts: one row each, equal to the account's last entry at every commit."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, select

from app.domain.ledger import SYSTEM_ACCOUNT, Entry, EntryKind
from app.domain.problems import Problem
from app.store import tables
from app.store.entries import EntriesWriter, Occasion
from app.store.ids import new_id
from app.store.records import AccountRecord

_GET = select(tables.account).where(tables.account.c.id == bindparam("wanted"))
_SPENT_BY = select(func.coalesce(func.sum(tables.entry.c.amount), 0)).where(
    tables.entry.c.account == bindparam("of"),
    tables.entry.c.principal == bindparam("by"),
    tables.entry.c.kind == EntryKind.DEBIT.value,
)


class Accounts:
    """Balances, in nano-epsilon."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, account: str) -> AccountRecord | None:
        """Return the account, or None."""
        row = self._connection.execute(_GET, {"wanted": account}).one_or_none()
        return None if row is None else AccountRecord(**row._mapping)

    def spent_by(self, account: str, principal: str) -> int:
        """Return what one person's releases have cost the account."""
        found = self._connection.execute(_SPENT_BY, {"of": account, "by": principal})
        return int(found.scalar_one())


class AccountsWriter(Accounts):
    """Opening accounts and moving their balances, one ledger entry at a time."""

    __slots__ = ("_entries",)

    def __init__(self, connection: Connection, entries: EntriesWriter) -> None:
        super().__init__(connection)
        self._entries = entries

    def open(self, *, total: int, principal: str, reason: str) -> AccountRecord:
        """Open an account with a budget; the system account records that it exists."""
        account = new_id("acc")
        occasion = Occasion(principal=principal, note=reason)
        self._entries.open_account(account, total, occasion)
        self.system_entry("account_opened", principal=principal, note=account)
        opened = self.get(account)
        if opened is None:
            raise AssertionError("an inserted account can be read")
        return opened

    def grant(self, account: str, amount: int, *, principal: str, reason: str) -> Entry:
        """Raise an account's total.

        Raises
        ------
        Problem
            ``not-found``; ``invalid-request`` above the largest total.
        """
        occasion = Occasion(principal=principal, note=reason)
        return self._move(account, EntryKind.GRANT, amount, occasion)

    def debit(
        self,
        account: str,
        amount: int,
        *,
        principal: str,
        release: str,
        idem: str,
        fingerprint: str,
        note: str,
    ) -> Entry:
        """Charge an account for a release.

        Services charge through ``releases.debit``, which also makes the
        release that the charge is for. ``note`` is the digest of its plan.

        Raises
        ------
        Problem
            ``not-found``; ``budget-exceeded`` with nothing written.
        """
        occasion = Occasion(
            principal=principal, release=release, idem=idem, fingerprint=fingerprint, note=note
        )
        return self._move(account, EntryKind.DEBIT, amount, occasion)

    def system_entry(
        self,
        kind: str,
        *,
        principal: str,
        fingerprint: str | None = None,
        note: str | None = None,
        at: str | None = None,
    ) -> Entry:
        """Record something that moves no budget, e.g. ``policy_changed``.

        ``fingerprint`` is the digest of what happened, ``note`` public text. ``at``
        is when, if a row was written for that time.
        """
        occasion = Occasion(principal=principal, fingerprint=fingerprint, note=note)
        return self._entries.append_system(kind, occasion, at=at)

    def _move(self, account: str, kind: EntryKind, amount: int, occasion: Occasion) -> Entry:
        if account == SYSTEM_ACCOUNT:
            raise Problem("not-found")
        return self._entries.append(account, kind, amount, occasion)
