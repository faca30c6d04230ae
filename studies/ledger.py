"""The ledger at its own interface: durable debits per second, beside what SQLite itself can do.

A whole release is a debit and, once that is durable, the result's bytes. What
of it is the processor time of the writer's thread does not depend on how busy
the machine is.

The ceiling inserts rows of the same kind, hashed beforehand, with the bare
driver: the same tables, triggers and durability, 64 rows to a transaction, and
nothing else.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import astuple, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from uvicorn.loops.auto import auto_loop_factory

from app.domain.ledger import Entry, EntryKind
from app.main import keep_in_memory
from app.store import AccountRecord, Debit, FileAnchor, Finish, Store, UnitOfWork, new_id
from app.store.commands import Command

T = TypeVar("T")

CALLERS = 64
_PERSON = "analyst"
_AMOUNT = 1_000_000
_REQUEST = '{"epsilon":"0.001","statistic":{"columns":["x"],"kind":"mean"}}'
_RESULT = b'{"value":"' + b"0" * 2000 + b'"}'
_PLAN = '{"mechanism":"k_norm","norm":"linf","epsilon":"0.001"}'


@dataclass(frozen=True, slots=True)
class Debits:
    """Debits and whole releases per second through the ledger, and debits by the bare driver.

    ``debit_us`` and ``release_us`` are the writer thread's processor time for one.
    """

    per_second: float
    releases_per_second: float
    ceiling_per_second: float
    longest_wait_s: float
    debit_us: float
    release_us: float


def measure(*, debits: int = 20_000) -> Debits:
    """Charge one account from 64 tasks of one event loop, each waiting for its own debit.

    It happens in a process of its own, which is set up as a server's is, and on
    the event loop of one.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=keep_in_memory) as process:
        return process.submit(_measure, debits).result()


def _measure(debits: int) -> Debits:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.sqlite"
        anchor = FileAnchor(Path(folder) / "anchor")
        opened = Store.open(f"sqlite:///{file}", data_dir=Path(folder), anchor=anchor)
        with closing(opened) as store:
            dataset = _open_dataset(store)
            alone = _load(store, dataset, range(debits), result=None)
            whole = _load(store, dataset, range(debits, debits + debits // 2), result=_RESULT)
            account = _account_of(store, dataset)
            if account.spent != (debits + debits // 2) * _AMOUNT:
                raise RuntimeError("not every debit was charged once")
            ledger = store.identity.id
        rows = [_row(ledger, account)]
        while len(rows) < debits // 2:
            rows.append(_next_row(ledger, rows[-1]))
        ceiling_s = _write_bare(file, dataset, rows)
    return Debits(
        per_second=alone.per_second,
        releases_per_second=whole.per_second,
        ceiling_per_second=len(rows) / ceiling_s,
        longest_wait_s=max(alone.longest_wait_s, whole.longest_wait_s),
        debit_us=alone.writer_us,
        release_us=whole.writer_us,
    )


@dataclass(frozen=True, slots=True)
class _Load:
    """What a load came to; ``writer_us`` is processor time for one release."""

    per_second: float
    longest_wait_s: float
    writer_us: float


def _load(store: Store, dataset: str, numbers: range, *, result: bytes | None) -> _Load:
    """Charge once for each number and, where there is a result, store it."""
    waits: list[float] = []
    start, before_s = time.perf_counter(), store.write(_thread_time)
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_charge(store, dataset, numbers, waits, result))
    elapsed_s = time.perf_counter() - start
    used_s = store.write(_thread_time) - before_s
    return _Load(len(numbers) / elapsed_s, max(waits), 1e6 * used_s / len(numbers))


def _thread_time(_work: UnitOfWork) -> float:
    """Return the processor time of the thread that this runs in, in seconds."""
    return time.thread_time()


def _open_dataset(store: Store) -> str:
    account = store.write(
        lambda work: work.accounts.open(total=10**15, principal=_PERSON, reason="bench")
    )
    return store.write(
        lambda work: work.datasets.insert(
            name="bench", account=account.id, spec="{}", rows=1, principal=_PERSON
        )
    ).id


def _account_of(store: Store, dataset: str) -> AccountRecord:
    with store.reading() as reader:
        found = reader.datasets.get(dataset)
        account = None if found is None else reader.accounts.get(found.account)
    if account is None:
        raise RuntimeError("the account is not there")
    return account


async def _charge(
    store: Store, dataset: str, numbers: range, waits: list[float], result: bytes | None
) -> None:
    left = iter(numbers)

    async def waited(command: Command[T]) -> T:
        start = time.perf_counter()
        outcome = await store.awrite(command)
        waits.append(time.perf_counter() - start)
        return outcome

    async def caller() -> None:
        for number in left:
            charged = await waited(
                Debit(
                    dataset=dataset,
                    principal=_PERSON,
                    idem=f"key-{number}",
                    amount=_AMOUNT,
                    request=_REQUEST,
                    plan=_PLAN,
                )
            )
            if result is not None:
                record = charged.record
                await waited(Finish(release=record.id, result=result, known=record))

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


def _row(ledger: str, account: AccountRecord) -> Entry:
    """Return the debit that continues an account."""
    return Entry(
        account=account.id,
        seq=account.seq + 1,
        epoch=1,
        kind=EntryKind.DEBIT.value,
        principal=_PERSON,
        release=new_id("rel"),
        idem=f"bare-{account.seq + 1}",
        fingerprint="f" * 64,
        note="n" * 64,
        amount=_AMOUNT,
        total_after=account.total,
        spent_after=account.spent + _AMOUNT,
        reserved_after=0,
        at="2026-01-01T00:00:00.000000Z",
        prev=account.head,
    ).sealed(ledger)


def _next_row(ledger: str, entry: Entry) -> Entry:
    before = AccountRecord(
        id=entry.account,
        seq=entry.seq,
        total=entry.total_after,
        spent=entry.spent_after,
        reserved=0,
        head=entry.hash,
    )
    return _row(ledger, before)


def _write_bare(file: Path, dataset: str, rows: Sequence[Entry]) -> float:
    """Return the seconds that the bare driver takes for these entries and their releases."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "recursive_triggers = ON"):
            connection.execute(f"PRAGMA {pragma}")
        entries = [astuple(row) for row in rows]
        releases = [
            (row.release, row.account, row.seq, dataset, _PERSON, _REQUEST, _PLAN, row.fingerprint,
             row.at) for row in rows
        ]  # fmt: skip
        start = time.perf_counter()
        for first in range(0, len(rows), CALLERS):
            part = slice(first, first + CALLERS)
            last = rows[part][-1]
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "UPDATE account SET seq = ?, spent = ?, head = ? WHERE id = ?",
                (last.seq, last.spent_after, last.hash, last.account),
            )
            connection.executemany(
                f"INSERT INTO entry VALUES ({', '.join('?' * 16)})",  # noqa: S608 - constants
                entries[part],
            )
            connection.executemany(
                "INSERT INTO release (id, account, seq, dataset, principal, state, attempts,"
                " request, plan, fingerprint, created_at)"
                " VALUES (?, ?, ?, ?, ?, 'debited', 1, ?, ?, ?, ?)",
                releases[part],
            )
            connection.execute("COMMIT")
        return time.perf_counter() - start
