"""Budget accounts: one row each, equal to the account's last entry at every commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, bindparam, exists, select

from app.domain.access import OLDEST, Span
from app.domain.ledger import SYSTEM_ACCOUNT, Balance, Entry, EntryKind
from app.domain.problems import Problem
from app.store.database import tables
from app.store.ledger import caps, expiries
from app.store.ledger.entries import SYSTEM, EntriesWriter, Occasion
from app.store.ledger.records import AccountRecord, CapRecord, DatasetStatus, new_id, now

CLOSED = "account_closed"
"""The kind of the system entry that closes an account, its note; its fingerprint is the hash of
the entry that ended what was left, None where nothing was."""
_EMPTY = "closed: its data sets are deleted"

_account, _entry = tables.account.c, tables.entry.c
_GET = select(tables.account).where(_account.id == bindparam("wanted"))
_GET_MANY = select(tables.account).where(_account.id.in_(bindparam("wanted", expanding=True)))
_IN_USE = select(tables.dataset.c.id).where(
    tables.dataset.c.account == bindparam("of"),
    tables.dataset.c.status != DatasetStatus.DELETED.value,
)
_REOPENED = (
    select(_account.id, ~exists().where(tables.dataset.c.account == _account.id))
    .join(tables.entry, (_entry.account == _account.id) & (_entry.seq == 1))
    .where(_entry.principal == SYSTEM, _account.id != SYSTEM_ACCOUNT)
    .order_by(_account.id)
)


class Accounts:
    """Balances, in each account's own unit."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, account: str) -> AccountRecord | None:
        """Return the account, or None."""
        row = self._connection.execute(_GET, {"wanted": account}).one_or_none()
        return None if row is None else AccountRecord(**row._mapping)

    def spent_by(self, account: str, principal: str) -> int:
        """Return what one person's releases have cost the account."""
        return caps.spent_by(self._connection, account, principal)

    def balance(self, account: str) -> Balance:
        """Return the balance that the next charge would find: without grants that are over.

        Raises
        ------
        Problem
            ``not-found``.
        """
        found = self._existing(account)
        return expiries.without_due(self._connection, account, found.balance, now())

    def balances(self, accounts: Collection[str]) -> Mapping[str, Balance]:
        """Return what :meth:`balance` does of some accounts, by their ids: those that there are."""
        at = now()
        found = {
            row.id: AccountRecord(**row._mapping).balance
            for row in self._connection.execute(_GET_MANY, {"wanted": [*accounts]})
        }
        # Few accounts have grants that are over and not entered yet.
        for account in found.keys() & {*expiries.accounts_due(self._connection, at)}:
            found[account] = expiries.without_due(self._connection, account, found[account], at)
        return found

    def _existing(self, account: str) -> AccountRecord:
        found = self.get(account)
        if found is None:
            raise Problem("not-found")
        return found

    def reopened(self) -> Mapping[str, bool]:
        """Return the accounts that reconciliations have opened again, and which have no data set.

        Whatever else is opened, a person opens.
        """
        rows = self._connection.execute(_REOPENED)
        return {account: bool(empty) for account, empty in rows}

    def due(self) -> tuple[str, ...]:
        """Return the accounts with grants that are over and have no entry of it yet."""
        return expiries.accounts_due(self._connection, now())

    def cap(self, account: str, person: str) -> CapRecord | None:
        """Return a person's slice of an account, or None."""
        return caps.cap_of(self._connection, account, person)

    def caps_of(self, person: str, accounts: Collection[str]) -> Mapping[str, CapRecord]:
        """Return a person's slices of some accounts, by account: those that there are."""
        return caps.caps_of_person(self._connection, person, accounts)

    def caps(self, account: str, span: Span = OLDEST) -> tuple[CapRecord, ...]:
        """Return an account's caps of a span."""
        return caps.caps_of(self._connection, account, span)


class AccountsWriter(Accounts):
    """Opening accounts and moving their balances, one ledger entry at a time."""

    __slots__ = ("_entries",)

    def __init__(self, connection: Connection, entries: EntriesWriter) -> None:
        super().__init__(connection)
        self._entries = entries

    def open(
        self, *, total: int, principal: str, reason: str, id: str | None = None
    ) -> AccountRecord:
        """Open an account with a budget; the system account records that it exists.

        ``id`` is given when digests have been kept under it.
        """
        account = id or new_id("acc")
        occasion = Occasion(principal=principal, note=reason)
        self._entries.open_account(account, total, occasion)
        self.system_entry("account_opened", principal=principal, note=account)
        opened = self.get(account)
        assert opened is not None
        return opened

    def grant(
        self,
        account: str,
        amount: int,
        *,
        principal: str,
        reason: str,
        expires_at: str | None = None,
    ) -> Entry:
        """Raise an account's total, for good or until a time.

        Raises
        ------
        Problem
            ``not-found``; ``invalid-request`` above the largest total.
        """
        end = None if expires_at is None else expiries.end_digest(expires_at)
        occasion = Occasion(principal=principal, note=reason, fingerprint=end)
        entry = self._move(account, EntryKind.GRANT, amount, occasion)
        if expires_at is not None:
            expiries.register(
                self._connection,
                account=account,
                seq=entry.seq,
                amount=amount,
                expires_at=expires_at,
            )
        return entry

    def close_if_empty(self, account: str, *, principal: str) -> None:
        """Close an account, once, if all its data sets are deleted: end all that is left of it.

        The system account has that entry's hash.
        """
        there = self._connection.execute(_IN_USE, {"of": account}).first()
        closed = any(entry.note == account for entry in self._entries.of_system(CLOSED))
        if there is not None or closed:
            return
        left, end = self._existing(account).remaining, None
        if left:
            occasion = Occasion(principal=principal, note=_EMPTY)
            end = self._move(account, EntryKind.EXPIRE, left, occasion).hash
        self.system_entry(CLOSED, principal=principal, fingerprint=end, note=account)

    def lock(self, account: str) -> None:
        """Have others wait who would move an account, until the transaction ends."""
        self._connection.execute(_GET.with_for_update(), {"wanted": account})

    def expire_due(self) -> int:
        """Make the entries of all grants that are over, and return how many accounts moved."""
        at = now()
        accounts = expiries.accounts_due(self._connection, at)
        for account in accounts:
            # A chain begins with the ends of what is due.
            self._entries.write(self._entries.chain(account, at))
        return len(accounts)

    def set_cap(
        self, account: str, person: str, amount: int | None, *, principal: str, reason: str
    ) -> CapRecord:
        """Cap what a person may use of an account, or lift the cap (None)."""
        note = caps.note_of(account, person, amount, reason, now())
        self.system_entry(caps.CAP_SET, principal=principal, note=note)
        return caps.set_cap(self._connection, account, person, amount)

    def take(self, account: str, kind: EntryKind, amount: int, occasion: Occasion) -> Entry:
        """Spend or reserve for a person, within the person's cap.

        Raises
        ------
        Problem
            ``not-found``; ``budget-exceeded`` with nothing written.
        """
        slices, person = caps.PersonCaps(self._connection, [account]), occasion.principal
        # The cap before the account: its refusal says what is left for this person, not for all.
        slices.check(account, person, amount, remaining=self.balance(account).remaining)
        entry = self._move(account, kind, amount, occasion)
        slices.take(account, person, amount)
        slices.write()
        return entry

    def give_back(self, account: str, amount: int, occasion: Occasion, *, person: str) -> Entry:
        """Give back what was reserved for a person, on the account and of the person's cap."""
        entry = self._move(account, EntryKind.UNRESERVE, amount, occasion)
        slices = caps.PersonCaps(self._connection, [account])
        slices.take(account, person, -amount)
        slices.write()
        return entry

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
        # As if it were not there: it holds no budget, and no one may spend on it.
        if account == SYSTEM_ACCOUNT:
            raise Problem("not-found")
        return self._entries.append(account, kind, amount, occasion)
