"""The ledger at its own interface: durable debits per second, compared with SQLite's own.

A whole release is a debit and, once that is durable, the result's bytes. The
CPU time of the writer's thread for it does not depend on the load of
the machine.

The ceiling inserts rows of the same kind, hashed beforehand, with the bare
driver: the same tables, triggers and durability, 64 rows to a transaction, and
nothing else. They take short turns, since what else the machine does changes
from second to second: a speed is the median turn's, and so is the ratio, of two
neighbouring turns. The longest wait is that of all turns.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from uvicorn.loops.auto import auto_loop_factory

from app.domain.ledger import Entry, EntryKind
from app.main import keep_in_memory
from app.store import AccountRecord, Debit, FileAnchor, Finish, Store, UnitOfWork
from app.store.ledger.commands import Command
from app.store.ledger.records import release_ids

T = TypeVar("T")

CALLERS = 64
_FILE = "ledger.sqlite"
_PERSON = "analyst"
_AMOUNT = 1_000_000
_REQUEST = '{"epsilon":"0.001","statistic":{"columns":["x"],"kind":"mean"}}'
_RESULT = b'{"value":"' + b"0" * 2000 + b'"}'
_PLAN = '{"mechanism":"k_norm","norm":"linf","epsilon":"0.001"}'


@dataclass(frozen=True, slots=True)
class Load:
    """The result of a load; ``writer_us`` is the writer thread's CPU time for one release."""

    per_second: float
    longest_wait_s: float
    writer_us: float


@dataclass(frozen=True, slots=True)
class Bare:
    """The result of the bare driver; callers would wait up to its longest transaction."""

    per_second: float
    longest_wait_s: float


@dataclass(frozen=True, slots=True)
class Turn:
    """Debits through the ledger, whole releases, and debits by the bare driver."""

    debits: Load
    releases: Load
    bare: Bare

    @property
    def ratio(self) -> float:
        """Return debits per second as a share of the bare driver's."""
        return self.debits.per_second / self.bare.per_second


def measure(*, debits: int = 20_000, turns: int = 10) -> tuple[Turn, ...]:
    """Charge one account from 64 tasks of one event loop, each waiting for its own debit.

    It happens in a process of its own, which is set up as a server's is, and on
    the event loop of one. A turn before the others warms up.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=keep_in_memory) as process:
        return process.submit(_measure, debits // turns, turns).result()


def median(turns: Sequence[Turn], of: Callable[[Turn], float]) -> float:
    """Return the median turn's figure."""
    return statistics.median(map(of, turns))


def _measure(debits: int, turns: int) -> tuple[Turn, ...]:
    whole = debits // 2
    with (
        tempfile.TemporaryDirectory() as ours,
        tempfile.TemporaryDirectory() as bares,
        _ledger(Path(ours)) as (store, dataset),
        closing(_BareLedger(Path(bares), debits * (turns + 1))) as bare,
    ):
        done: list[Turn] = []
        for first in range(0, (debits + whole) * (turns + 1), debits + whole):
            middle, last = first + debits, first + debits + whole
            done.append(
                Turn(
                    debits=_load(store, dataset, range(first, middle), result=None),
                    releases=_load(store, dataset, range(middle, last), result=_RESULT),
                    bare=bare.write(debits),
                )
            )
        if _account_of(store, dataset).spent != last * _AMOUNT:
            raise RuntimeError("not every debit was charged once")
    return tuple(done[1:])


@contextmanager
def _ledger(folder: Path) -> Iterator[tuple[Store, str]]:
    """Open a new ledger with one data set."""
    url, anchor = f"sqlite:///{folder / _FILE}", FileAnchor(folder / "anchor")
    with closing(Store.open(url, data_dir=folder, anchor=anchor)) as store:
        yield store, _open_dataset(store)


def _load(store: Store, dataset: str, numbers: range, *, result: bytes | None) -> Load:
    """Charge once for each number and, where there is a result, store it."""
    waits: list[float] = []
    start, before_s = time.perf_counter(), store.write(_thread_time)
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_charge(store, dataset, numbers, waits, result))
    elapsed_s = time.perf_counter() - start
    used_s = store.write(_thread_time) - before_s
    return Load(len(numbers) / elapsed_s, max(waits), 1e6 * used_s / len(numbers))


def _thread_time(_work: UnitOfWork) -> float:
    """Return the CPU time of the thread that this runs in, in seconds."""
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


class _BareLedger:
    """Another ledger's file, and the debits that it is to be given by the bare driver."""

    def __init__(self, folder: Path, debits: int) -> None:
        with _ledger(folder) as (store, dataset):
            rows = _rows(store.identity.id, _account_of(store, dataset), debits)
        self._rows = rows
        self._entries = [astuple(row) for row in rows]
        self._releases = [
            (row.release, row.account, row.seq, dataset, _PERSON, _REQUEST, _PLAN, row.fingerprint,
             row.at) for row in rows
        ]  # fmt: skip
        self._written = 0
        self._connection = sqlite3.connect(folder / _FILE, isolation_level=None)
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "recursive_triggers = ON"):
            self._connection.execute(f"PRAGMA {pragma}")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def write(self, debits: int) -> Bare:
        """Write the next debits and their releases."""
        first, self._written = self._written, self._written + debits
        ends = [time.perf_counter()]
        for start in range(first, self._written, CALLERS):
            self._commit(slice(start, min(start + CALLERS, self._written)))
            ends.append(time.perf_counter())
        longest_s = max(end - start for start, end in pairwise(ends))
        return Bare(debits / (ends[-1] - ends[0]), longest_s)

    def _commit(self, part: slice) -> None:
        last, connection = self._rows[part][-1], self._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "UPDATE account SET seq = ?, spent = ?, head = ? WHERE id = ?",
            (last.seq, last.spent_after, last.hash, last.account),
        )
        connection.executemany(
            f"INSERT INTO entry VALUES ({', '.join('?' * 18)})",  # noqa: S608 - constants
            self._entries[part],
        )
        connection.executemany(
            "INSERT INTO release (id, account, seq, dataset, principal, state, attempts,"
            " request, plan, fingerprint, created_at)"
            " VALUES (?, ?, ?, ?, ?, 'debited', 1, ?, ?, ?, ?)",
            self._releases[part],
        )
        connection.execute("COMMIT")


def _rows(ledger: str, account: AccountRecord, count: int) -> list[Entry]:
    """Return the debits that continue an account."""
    rows: list[Entry] = []
    head = account.head
    for number, release in enumerate(release_ids(1, count), start=1):
        row = Entry(
            account=account.id,
            seq=account.seq + number,
            epoch=1,
            kind=EntryKind.DEBIT.value,
            principal=_PERSON,
            release=release,
            idem=f"key-{number}",
            fingerprint="f" * 64,
            note="n" * 64,
            amount=_AMOUNT,
            total_after=account.total,
            spent_after=account.spent + number * _AMOUNT,
            reserved_after=0,
            at="2026-01-01T00:00:00.000000Z",
            prev=head,
            role="system",
        ).sealed(ledger)
        rows.append(row)
        head = row.hash
    return rows
