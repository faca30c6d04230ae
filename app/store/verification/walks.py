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
from operator import itemgetter

from app.domain.ledger import GENESIS, Balance, hash_of_columns
from app.domain.releases import ReleaseState, result_digest
from app.store.ledger.ids import shown
from app.store.ledger.receipt_tokens import answer_digest, read_token, split
from app.store.ledger.releases import ENDED_AS
from app.store.verification.blocks import (
    CHARGE_COLUMNS,
    ENTRY_COLUMNS,
    RELEASE_COLUMNS,
    Place,
    Row,
    all_answered,
    all_follow,
    entry_hashes,
    fingerprint_of,
    plan_digest_of,
)

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
_FINAL = frozenset(ReleaseState) - {ReleaseState.RESERVED, ReleaseState.DEBITED}
_ACCOUNT, _SEQ, _EPOCH, _KIND, _RELEASE, _HASHED = map(
    ENTRY_COLUMNS.index, ("account", "seq", "epoch", "kind", "release", "hash")
)
_NOTHING_BEFORE = ("", 0, 1, "", "", None, None, None, None, 0, 0, 0, 0, "", "", GENESIS)
_ANSWER = RELEASE_COLUMNS.index("result")
_ID = RELEASE_COLUMNS.index("id")
_CHARGED = (*RELEASE_COLUMNS, *("charge_" + name for name in CHARGE_COLUMNS))
_order_of = itemgetter(
    *map(_CHARGED.index, ("id", "account", "seq", "created_at", "charge_kind", "charge_at"))
)


class EntryWalk:
    """A walk over entries in order of account and sequence.

    Parameters
    ----------
    ledger, epoch
        The ledger's id, and the epoch that no entry can be beyond.
    accounts
        The account rows whose last entry lies in the range: (seq, total,
        spent, reserved, head) by id.
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
        before: Row | None,
        ends_inside: bool,
    ) -> None:
        self._ledger = ledger
        self._epoch = epoch
        self._accounts = dict(accounts)
        self._ends_inside = ends_inside
        self._last = before
        self.debits = 0
        """How many entries have charged a release."""
        self.reserved: dict[str, Place] = {}
        """Where releases were reserved, by id."""

    def walk(self, blocks: Iterable[Sequence[Row]]) -> Iterator[str]:
        """Walk blocks of :data:`ENTRY_COLUMNS`."""
        for block in blocks:
            columns = list(zip(*block, strict=True))
            self._count(columns)
            hashed = entry_hashes(columns, self._ledger) == columns[_HASHED]
            last = self._last
            if not (hashed and columns[_EPOCH][-1] <= self._epoch and all_follow(columns, last)):
                yield from self._one_by_one(block, hashed=hashed)
            self._last = block[-1]
        last = self._last
        if last is not None and not (self._ends_inside and last[_ACCOUNT] not in self._accounts):
            yield from self._close(last)
        for account in sorted(self._accounts):
            yield f"account {shown(account)}: it has no entries"

    def _count(self, columns: Sequence[Row]) -> None:
        kinds = columns[_KIND]
        self.debits += kinds.count("debit")
        if "reserve" in kinds:
            places = zip(kinds, columns[_RELEASE], columns[_ACCOUNT], columns[_SEQ], strict=True)
            self.reserved |= {
                of: (name, seq) for kind, of, name, seq in places if kind == "reserve"
            }

    def _one_by_one(self, block: Iterable[Row], *, hashed: bool) -> Iterator[str]:
        last = self._last
        for row in block:
            # What nearly every entry is, in one condition; `_fault_of` looks at the others.
            if not (
                last is not None
                and hashed
                and row[3] == "debit"
                and row[0] == last[0]
                and row[1] == last[1] + 1
                and row[2] == last[2] <= self._epoch
                and row[14] == last[15]
                and row[9] > 0
                and row[11] == last[11] + row[9]
                and row[12] == last[12] >= 0
                and row[11] + row[12] <= row[10] == last[10]
            ):
                if last is not None and last[_ACCOUNT] != row[_ACCOUNT]:
                    yield from self._close(last)
                    last = None
                problem = self._fault_of(row, last, hashed=hashed)
                if problem is not None:
                    yield f"{place_of(row[_ACCOUNT], row[_SEQ])}: {problem}"
            last = row

    def _fault_of(self, row: Row, last: Row | None, *, hashed: bool) -> str | None:
        """Return what is wrong with an entry, given the one before it; in the order of a row."""
        (_, seq, epoch, kind, _, _, _, _, _, amount, total, spent, reserved, _, prev, stated) = row
        (_, seq_before, since, _, _, _, _, _, _, _, total_before, spent_before, reserved_before,
         _, _, head) = last or _NOTHING_BEFORE  # fmt: skip
        fault = None
        if seq != seq_before + 1:
            fault = "an entry before it is missing"
        elif prev != head:
            fault = "it does not continue the entry before it"
        elif not hashed and stated != hash_of_columns(row[:_HASHED], self._ledger):
            fault = "it has been edited"
        elif (kind == "open") != (last is None):
            fault = "only an account's first entry opens it"
        elif not Balance(total_before, spent_before, reserved_before).may_become(
            Balance(total, spent, reserved), kind, amount
        ):
            fault = "its balance does not follow"
        elif not since <= epoch <= self._epoch:
            fault = "its epoch does not follow"
        return fault

    def _close(self, last: Row) -> Iterator[str]:
        """Compare an account's row with its last entry."""
        account = self._accounts.pop(last[0], None)
        if account is None:
            yield f"account {shown(last[0])}: it has entries and no balance"
        elif account != (last[1], *last[10:13], last[15]):
            yield f"account {shown(last[0])}: its balance is not its last entry's"


def place_of(account: str, seq: int) -> str:
    """Return how an entry is called."""
    return f"account {shown(account)}, entry {seq}"


class ReleaseWalk:
    """A walk over releases, each beside the entry that charged it.

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
        """Walk blocks of :data:`RELEASE_COLUMNS` and :data:`CHARGE_COLUMNS`, by number."""
        for block in blocks:
            columns = list(zip(*block, strict=True))
            yield from self._out_of_order(columns)
            if all_answered(columns, self.number):
                self.number = block[-1][0]
            else:
                yield from self._one_by_one(block, self._fault_of)
            if self._keys is not None:
                yield from self._one_by_one(block, self._receipt_fault_of)

    def _one_by_one(
        self, block: Iterable[Row], fault_of: Callable[[Row], str | None]
    ) -> Iterator[str]:
        for row in block:
            problem = fault_of(row)
            if problem is not None:
                yield f"release {shown(row[_ID])}: {problem}"

    def _out_of_order(self, columns: Sequence[Row]) -> Iterator[str]:
        """Fault releases that are not numbered in the order of their charges, reviews aside."""
        charged = self._charged
        for release, account, seq, made, kind, at in zip(*_order_of(columns), strict=True):
            if kind == "debit" and made == at:
                if seq <= charged.get(account, 0):
                    yield f"release {shown(release)}: it is out of order"
                charged[account] = seq

    def _fault_of(self, row: Row) -> str | None:
        (number, release, _, _, dataset, person, state, attempts, request, plan, fingerprint,
         result, result_hash, created_at, finished_at, *charge) = row  # fmt: skip
        kind, charged, charged_to, charged_for, noted, charged_at, _ = charge
        if charged_at != created_at:
            self.reviewed[release] = created_at
        if state in _UNANSWERED:
            self.ended[release] = (state, finished_at)
        if attempts > 1:
            self.repeated[release] = attempts
        before, self.number = self.number, number
        kept = None if result is None or finished_at is None else result_digest(result, finished_at)
        checks = (
            (charged == release and charged_for == fingerprint, "it is not what was charged for"),
            (charged_to == person, "it belongs to another person than was charged"),
            (fingerprint_of(dataset, request) == fingerprint, "its request has been edited"),
            (plan_digest_of(plan) == noted, "its plan has been edited"),
            (_CHARGED_BY.get(state) == kind, "its state does not fit its charge"),
            ((state == ReleaseState.RELEASED) == (result is not None), "its state does not fit"),
            ((state in _FINAL) == (finished_at is not None), "its state does not fit its end"),
            (attempts >= 1 if kind == "debit" else attempts == 0, "its attempts do not fit"),
            (kept == result_hash, "its result or the time of its end has been edited"),
            (number == before + 1, "its number does not follow"),
        )
        return next((fault for holds, fault in checks if not holds), None)

    def _receipt_fault_of(self, row: Row) -> str | None:
        result = row[_ANSWER]
        if self._keys is None or result is None:
            return None
        answer, token = split(result)
        said = None if token is None else read_token(token, self._keys)
        if said is None:
            return "its result has no receipt of this ledger"
        fits = (self._ledger, *row[2:4], row[1], row[-1], answer_digest(answer))
        if fits != (said.ledger, said.account, said.seq, said.release, said.entry, said.answer):
            return "its receipt is for something else"
        return None
