"""A small ledger to test on: one store, one account, one data set, one analyst."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.domain.releases import may_be_redrawn
from app.store import ReleaseRecord, Store, UnitOfWork

ANALYST = "person_ann"
CURATOR = "person_cleo"


def url_of(directory: Path) -> str:
    return f"sqlite:///{file_of(directory)}"


def file_of(directory: Path) -> Path:
    return directory / "ledger.sqlite"


@dataclass(frozen=True)
class Ledger:
    """An open store with an account of a given total."""

    store: Store
    account: str
    dataset: str
    file: Path

    def debit(
        self, idem: str, amount: int = 1, *, principal: str = ANALYST, request: str = "{}"
    ) -> ReleaseRecord:
        return self.store.write(
            lambda u: u.releases.debit(
                account=self.account,
                amount=amount,
                dataset=self.dataset,
                principal=principal,
                request=request,
                plan="{}",
                idem=idem,
            )
        )

    def release(self, idem: str, amount: int = 1, result: bytes = b"{}") -> ReleaseRecord:
        debited = self.debit(idem, amount)
        return self.store.write(lambda u: u.releases.finish(debited.id, result))

    def grant(self, amount: int) -> None:
        self.store.write(
            lambda u: u.accounts.grant(self.account, amount, principal=CURATOR, reason="more")
        )

    def balance(self) -> tuple[int, int, int]:
        with self.store.reading() as r:
            found = r.accounts.get(self.account)
        assert found is not None
        return found.total, found.spent, found.reserved


@contextmanager
def opened(directory: Path, *, total: int = 1000, queue_length: int = 4096) -> Iterator[Ledger]:
    store = Store.open(url_of(directory), data_dir=directory, queue_length=queue_length)
    try:
        account = store.write(
            lambda u: u.accounts.open(total=total, principal=CURATOR, reason="first budget")
        )
        dataset = store.write(
            lambda u: u.datasets.insert(
                name="people", account=account.id, spec="{}", rows=3, principal=CURATOR
            )
        )
        yield Ledger(store, account.id, dataset.id, file_of(directory))
    finally:
        store.close()


def left_behind(store: Store) -> tuple[ReleaseRecord, ...]:
    """Count a new attempt for what a dead process left charged, or void it; return the former."""

    def settle(u: UnitOfWork) -> tuple[ReleaseRecord, ...]:
        again = []
        for left in u.releases.debited():
            if may_be_redrawn(left.attempts):
                again.append(u.releases.begin_attempt(left.id))
            else:
                u.releases.void(left.id)
        return tuple(again)

    return store.write(settle)


@contextmanager
def raw(file: Path, *, guarded: bool = True) -> Iterator[sqlite3.Connection]:
    """A connection that is not ours: with foreign keys on, or with every guard off."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        if guarded:
            connection.execute("PRAGMA foreign_keys = ON")
        else:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA ignore_check_constraints = ON")
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f'DROP TRIGGER "{name}"')
        yield connection
    finally:
        connection.close()
