"""The walks of a verification, each over one range of raw rows.

Nothing here trusts what triggers, constraints or the writer's own arithmetic
have let through: an entry's hash and its balance are computed a second time, and
a release is compared with the entry that charged it column by column. Rows are
tuples as the driver gives them, a block at a time, because a million of them are
walked (:mod:`app.store.verification.blocks`).

A walk yields what is wrong, as places and fixed words, never as values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from app.domain.ledger import (
    ASKED_FOR,
    GENESIS,
    OF_RELEASES,
    SYSTEM_ACCOUNT,
    Balance,
    hash_of_columns,
    may_hold,
    result_leaves,
)
from app.domain.releases import MAX_ATTEMPTS, UNDECIDED, ReleaseState, plan_digest, result_digest
from app.store.ledger.records import shown
from app.store.ledger.releases import ENDED_AS
from app.store.ledger.signing import answer_digest, read_token, split
from app.store.verification.blocks import (
    EntryRow,
    Place,
    ReleaseRow,
    Row,
    all_answered,
    all_follow,
    entry_hashes,
    fingerprint_of,
)
from app.store.verification.system_account import UNAUTHORISED, is_authorised

_CHARGED_BY = {
    ReleaseState.RESERVED: "reserve",
    ReleaseState.REJECTED: "reserve",
    ReleaseState.WITHDRAWN: "reserve",
    ReleaseState.EXPIRED: "reserve",
    ReleaseState.DEBITED: "debit",
    ReleaseState.RELEASED: "debit",
    ReleaseState.VOID: "debit",
}
_UNANSWERED = frozenset(ENDED_AS)
_FINAL = frozenset(ReleaseState) - {*UNDECIDED, ReleaseState.DEBITED}
_NOTHING_BEFORE = EntryRow(
    account="", seq=0, epoch=1, kind="", principal="", release=None, idem=None, fingerprint=None,
    note=None, amount=0, total_after=0, spent_after=0, reserved_after=0, at="", prev="",
    hash=GENESIS, key=None, role=None,
)  # fmt: skip


class EntryWalk:
    """A walk over entries in order of account and sequence.

    Parameters
    ----------
    ledger, epoch
        The ledger's id, and the epoch that no entry can be beyond.
    accounts
        The account rows whose last entry lies in the range: (seq, total,
        spent, reserved, head) by id.
    keys
        Each key's role and person, by id.
    before
        The entry before the range, where the range begins inside an account.
    ends_inside
        Whether the range ends inside an account.
    """

    def __init__(
        self,
        *,
        ledger: str,
        epoch: int,
        accounts: Mapping[str, Row],
        keys: Mapping[str, tuple[str, str]],
        before: EntryRow | None,
        ends_inside: bool,
    ) -> None:
        self._ledger = ledger
        self._epoch = epoch
        self._accounts = dict(accounts)
        self._keys = keys
        self._ends_inside = ends_inside
        self._last = before
        self.debits = 0
        """How many entries have charged a release."""
        self.reserved: dict[str, Place] = {}
        """Where releases were reserved, by id."""

    def walk(self, blocks: Iterable[Sequence[Row]]) -> Iterator[str]:
        """Walk blocks of rows, each with the columns of :class:`EntryRow`."""
        for block in blocks:
            columns = EntryRow(*zip(*block, strict=True))
            self._count(columns)
            # A block is tested as a whole. Its rows are looked at one by one where that fails.
            hashed = entry_hashes(columns, self._ledger) == columns.hash
            last = self._last
            if not (hashed and columns.epoch[-1] <= self._epoch and all_follow(columns, last)):
                yield from self._one_by_one(block, hashed=hashed)
            yield from self._unauthorised(columns, block)
            self._last = EntryRow._make(block[-1])
        last = self._last
        if last is not None and not (self._ends_inside and last.account not in self._accounts):
            yield from self._close(last)
        for account in sorted(self._accounts):
            yield f"account {shown(account)}: it has no entries"

    def _count(self, columns: EntryRow) -> None:
        self.debits += columns.kind.count("debit")
        if "reserve" in columns.kind:
            places = zip(columns.kind, columns.release, columns.account, columns.seq, strict=True)
            self.reserved |= {
                of: (name, seq) for kind, of, name, seq in places if kind == "reserve"
            }

    def _unauthorised(self, columns: EntryRow, block: Iterable[Row]) -> Iterator[str]:
        """Fault entries by a key that is another person's, or in a role that it does not have."""
        makers = zip(columns.kind, columns.key, columns.role, columns.principal, strict=True)
        if not all(is_authorised(self._keys, *maker) for maker in set(makers)):
            for row in map(EntryRow._make, block):
                if not is_authorised(self._keys, row.kind, row.key, row.role, row.principal):
                    yield f"{place_of(row.account, row.seq)}: {UNAUTHORISED}"

    def _one_by_one(self, block: Iterable[Row], *, hashed: bool) -> Iterator[str]:
        last = self._last
        for row in map(EntryRow._make, block):
            # What nearly every entry is, in one condition; `_fault_of` looks at the others.
            if not (
                last is not None
                and hashed
                and row.kind == "debit"
                and row.account == last.account != SYSTEM_ACCOUNT
                and row.seq == last.seq + 1
                and row.epoch == last.epoch <= self._epoch
                and row.prev == last.hash
                and row.release is not None
                and row.fingerprint is not None
                and row.amount > 0
                and row.spent_after == last.spent_after + row.amount
                and row.reserved_after == last.reserved_after >= 0
                and row.spent_after + row.reserved_after <= row.total_after == last.total_after
            ):
                if last is not None and last.account != row.account:
                    yield from self._close(last)
                    last = None
                problem = self._fault_of(row, last, hashed=hashed)
                if problem is not None:
                    yield f"{place_of(row.account, row.seq)}: {problem}"
            last = row

    def _fault_of(self, row: EntryRow, last: EntryRow | None, *, hashed: bool) -> str | None:
        """Return what is wrong with an entry, given the one before it; in the order of a row."""
        before = last or _NOTHING_BEFORE
        fault = None
        if row.seq != before.seq + 1:
            fault = "an entry before it is missing"
        elif row.prev != before.hash:
            fault = "it does not continue the entry before it"
        elif not hashed and row.hash != hash_of_columns(row.chained, self._ledger):
            fault = "it has been edited"
        elif (row.kind == "open") != (last is None):
            fault = "only an account's first entry opens it"
        elif not _balance_of(before).may_become(_balance_of(row), row.kind, row.amount):
            fault = "its balance does not follow"
        elif not before.epoch <= row.epoch <= self._epoch:
            fault = "its epoch does not follow"
        elif not _is_of_its_kind(row):
            fault = "its account or its columns do not fit its kind"
        return fault

    def _close(self, last: EntryRow) -> Iterator[str]:
        """Compare an account's row with its last entry."""
        account = self._accounts.pop(last.account, None)
        if account is None:
            yield f"account {shown(last.account)}: it has entries and no balance"
        elif account != (
            last.seq, last.total_after, last.spent_after, last.reserved_after, last.hash,
        ):  # fmt: skip
            yield f"account {shown(last.account)}: its balance is not its last entry's"


def _balance_of(row: EntryRow) -> Balance:
    return Balance(row.total_after, row.spent_after, row.reserved_after)


def _is_of_its_kind(row: EntryRow) -> bool:
    """Return whether an account may hold such an entry, and it has what its kind has."""
    return (
        may_hold(row.account, row.kind)
        and (row.account != SYSTEM_ACCOUNT or row.total_after == 0)
        and (row.idem is None or row.kind in ASKED_FOR)
        and (row.kind not in OF_RELEASES or None not in (row.release, row.fingerprint))
    )


def place_of(account: str, seq: int) -> str:
    """Return how an entry is called."""
    return f"account {shown(account)}, entry {seq}"


class ReleaseWalk:
    """A walk over releases, each with the entry that charged it.

    Parameters
    ----------
    ledger
        The ledger's id, which receipts name.
    keys
        The public keys of receipts, by name; None where results need no receipt.
    before
        The number before the first one: the writer leaves no gaps, and nothing is removed.
    """

    def __init__(self, *, ledger: str, keys: Mapping[str, str] | None, before: int) -> None:
        self._ledger = ledger
        self.leaves = 0
        """How many releases have a leaf."""
        self.number = before
        self._keys = keys
        self._charged: dict[str, int] = {}
        self.reviewed: dict[str, str] = {}
        """When releases were made that were charged later, by id: as their reserve says."""
        self.ended: dict[str, tuple[str, str]] = {}
        """How and when releases ended without a result, by id."""
        self.repeated: dict[str, int] = {}
        """The attempts of releases that were begun again, by id."""

    def walk(self, blocks: Iterable[Sequence[Row]]) -> Iterator[str]:
        """Walk blocks of rows, each with the columns of :class:`ReleaseRow`, by number."""
        for block in blocks:
            columns = ReleaseRow(*zip(*block, strict=True))
            yield from self._out_of_order(columns)
            self.leaves += len(columns.leaf) - columns.leaf.count(None)
            if all_answered(columns, self.number):
                self.number = columns.number[-1]
            else:
                yield from self._one_by_one(block, self._fault_of)
            if self._keys is not None:
                yield from self._one_by_one(block, self._receipt_fault_of)

    def _one_by_one(
        self, block: Iterable[Row], fault_of: Callable[[ReleaseRow], str | None]
    ) -> Iterator[str]:
        for row in map(ReleaseRow._make, block):
            problem = fault_of(row)
            if problem is not None:
                yield f"release {shown(row.id)}: {problem}"

    def _out_of_order(self, columns: ReleaseRow) -> Iterator[str]:
        """Fault releases that are not numbered in the order of their charges, reviews aside."""
        charged = self._charged
        for release, account, seq, made, kind, at in zip(
            columns.id, columns.account, columns.seq, columns.created_at, columns.charge_kind,
            columns.charge_at, strict=True,
        ):  # fmt: skip
            if kind == "debit" and made == at:
                if seq <= charged.get(account, 0):
                    yield f"release {shown(release)}: it is out of order"
                charged[account] = seq

    def _fault_of(self, row: ReleaseRow) -> str | None:
        if row.charge_at != row.created_at:
            self.reviewed[row.id] = row.created_at
        if row.state in _UNANSWERED:
            self.ended[row.id] = (row.state, row.finished_at)
        if row.attempts > 1:
            self.repeated[row.id] = row.attempts
        before, self.number = self.number, row.number
        fault = next((fault for holds, fault in _checks(row, before) if not holds), None)
        if fault is None and row.leaf != _leaf_of(row):
            fault = "its result is not the one in the chain"
        return fault

    def _receipt_fault_of(self, row: ReleaseRow) -> str | None:
        if self._keys is None or row.result is None:
            return None
        answer, token = split(row.result)
        said = None if token is None else read_token(token, self._keys)
        if said is None:
            return "its result has no receipt of this ledger"
        fits = (
            self._ledger, row.account, row.seq, row.id, row.charge_hash, answer_digest(answer),
        )  # fmt: skip
        if fits != (said.ledger, said.account, said.seq, said.release, said.entry, said.answer):
            return "its receipt is for something else"
        return None


def _leaf_of(row: ReleaseRow) -> str | None:
    """Return what the chain must hold of a release's result."""
    if row.result is None:
        return None
    (leaf,) = result_leaves([row.id], [row.charge_hash], [row.result])
    return leaf


def _checks(row: ReleaseRow, before: int) -> Iterator[tuple[bool, str]]:
    """Yield what must hold of a release that comes after number ``before``."""
    fits = (row.charge_release, row.charge_fingerprint) == (row.id, row.fingerprint)
    yield fits, "it is not what was charged for"
    yield row.charge_principal == row.principal, "it belongs to another person than was charged"
    fingerprint = fingerprint_of(row.dataset, row.request)
    yield fingerprint == row.fingerprint, "its request has been edited"
    yield plan_digest(row.plan) == row.charge_note, "its plan has been edited"
    yield _CHARGED_BY.get(row.state) == row.charge_kind, "its state does not fit its charge"
    released, ended = row.state == ReleaseState.RELEASED, row.finished_at is not None
    yield released == (row.result is not None), "its state does not fit"
    yield (row.state in _FINAL) == ended, "its state does not fit its end"
    most = MAX_ATTEMPTS if row.charge_kind == "debit" else 0
    yield min(most, 1) <= row.attempts <= most, "its attempts do not fit"
    kept = None
    if row.result is not None and ended:
        kept = result_digest(row.result, row.finished_at)
    yield kept == row.result_hash, "its result or the time of its end has been edited"
    yield row.number == before + 1, "its number does not follow"
