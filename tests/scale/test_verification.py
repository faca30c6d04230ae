"""A million entries, with and without the releases they charged, verified by two processes.

The ledger is written by plain inserts, at the pace of the driver, and signed by
no one: what is measured is the walk, its pages and its indexes. Processor time
stands for time, because tests share their machine; halve it for two processors.
It is bounded at about three times what it is, so that a walk which has become
several times slower is found; a small ledger does that in every run.
"""

from __future__ import annotations

import json
import resource
import secrets
import sqlite3
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import text

from app.domain.ledger import hash_of_columns, result_leaves
from app.domain.releases import plan_digest, request_fingerprint, result_digest
from app.store import UnitOfWork, inspecting
from app.store.database.engines import writing_engine
from app.store.ledger.entries import LedgerIdentity
from app.store.verification.blocks import ENTRY_COLUMNS, RELEASE_COLUMNS
from app.store.verification.verify import verify
from tests.app.ledgers import opened
from tests.scale.yardstick import slowness

pytestmark = pytest.mark.slow

REQUEST = json.dumps({"epsilon": "0.001", "statistic": {"columns": ["income"], "kind": "mean"}})
PLAN, RESULT = "p" * 1000, b"r" * 1600
MEMORY = 500 * 2**20
AT = "2026-11-21T12:00:00.000000Z"
MADE_BY = (None, "system")
MOST_US = {"grants": 25, "charges": 90}
"""Of processor time for an entry, its release included."""
STARTING_S = 10
"""Of processor time for two processes to begin, at most."""
Rows = Iterator[tuple[tuple[object, ...], tuple[object, ...]]]


def grants(ledger: str, account: str, head: str) -> Rows:
    """Yield entries that continue an account just opened with nothing."""
    person, seq = f"person_{'a' * 32}", 1
    while True:
        seq += 1
        entry: tuple[str | int | None, ...] = (
            account, seq, 1, "grant", person, None, None, None, "a reason of some length",
            1000, 1000 * (seq - 1), 0, 0, AT, head,
        )  # fmt: skip
        head = hash_of_columns((*entry, *MADE_BY), ledger)
        yield (*entry, head, *MADE_BY), ()


def charges(ledger: str, account: str, dataset: str, head: str, total: int) -> Rows:
    """Yield entries that continue an account just opened, each with its release."""
    person = f"person_{'a' * 32}"
    fingerprint = request_fingerprint(dataset=dataset, request=REQUEST)
    noted, kept = plan_digest(PLAN), result_digest(RESULT, AT)
    number = 0
    while True:
        number += 1
        seq, release = number + 1, f"rel_{secrets.token_hex(16)}"
        entry: tuple[str | int | None, ...] = (
            account, seq, 1, "debit", person, release, f"idem-{number:012}", fingerprint, noted,
            1000, total, 1000 * number, 0, AT, head,
        )  # fmt: skip
        head = hash_of_columns((*entry, *MADE_BY), ledger)
        yield (
            (*entry, head, *MADE_BY),
            (number, release, account, seq, dataset, person, "released", 1, REQUEST, PLAN,
             fingerprint, RESULT, kept, AT, AT),
        )  # fmt: skip


def grow(file: Path, rows: Rows, count: int) -> None:
    """Append so many charges with their releases, the triggers aside."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        connection.execute("BEGIN")
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        last: tuple[object, ...] = ()
        while page := list(islice(rows, min(10_000, count))):
            count -= len(page)
            for table, columns, place in (
                ("entry", ENTRY_COLUMNS, 0),
                ("release", RELEASE_COLUMNS, 1),
            ):
                marks = ", ".join("?" * len(columns))
                connection.executemany(
                    f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})",
                    [row[place] for row in page if row[place]],
                )
            last = page[-1][0]
        connection.execute(
            "UPDATE account SET seq = ?, total = ?, spent = ?, head = ? WHERE id = ?",
            (last[1], *last[10:12], last[15], last[0]),
        )
        for _, statement in triggers:
            connection.execute(statement)
        connection.execute("COMMIT")


def seal_results(file: Path, identity: LedgerIdentity) -> None:
    """Have the system account hold the results, as many in an entry as there may be."""
    engine = writing_engine(f"sqlite:///{file}")
    with closing(engine.connect()) as connection:
        wanted = text(
            "SELECT number, id, (SELECT hash FROM entry WHERE entry.account = release.account"
            " AND entry.seq = release.seq) FROM release ORDER BY number"
        )
        rows = connection.execute(wanted).all()
        connection.rollback()
        for start in range(0, len(rows), 10_000):
            numbers, *named = zip(*rows[start : start + 10_000], strict=True)
            leaves = result_leaves(*named, [RESULT] * len(numbers))
            with UnitOfWork(connection, identity).transaction() as work:
                work.changes.unsealed = [*zip(numbers, leaves, strict=True)]
                work.releases.seal()
                work.changes.rows.write()
    engine.dispose()


def spent_s() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


class Verified(NamedTuple):
    """What a verification found, and its time and processor time in seconds."""

    faults: tuple[str, ...]
    entries: int
    took_s: float
    used_s: float


def verified(file: Path) -> Verified:
    """Verify by two processes, each of so many bytes, mapped files aside; for a fresh process."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    before, began = spent_s(), time.monotonic()
    with inspecting(f"sqlite:///{file}") as reader:
        found = verify(reader.connection, processes=2, may_end=True)
    return Verified(found.faults, found.entries, time.monotonic() - began, spent_s() - before)


def grown(directory: Path, what: str, count: int) -> Path:
    """Return the file of a ledger of so many entries."""
    with opened(directory, total=10**18 if what == "charges" else 0) as ledger:
        with ledger.store.reading() as r:
            (first,) = r.entries.list(ledger.account)
        identity, account = ledger.store.identity, ledger.account
        name = identity.id
        rows = grants(name, account, first.hash)
        if what == "charges":
            rows = charges(name, account, ledger.dataset, first.hash, first.total_after)
        file = ledger.file
    grow(file, rows, count)
    if what == "charges":
        seal_results(file, identity)
    return file


@pytest.mark.parametrize("what", ["grants", "charges"])
def test_a_small_ledger_is_verified_as_fast_as_ever(tmp_path: Path, what: str) -> None:
    count = 20_000
    file = grown(tmp_path, what, count)
    with inspecting(f"sqlite:///{file}") as reader:
        before = time.thread_time()
        found = verify(reader.connection, processes=0)
        each_us = (time.thread_time() - before) / count * 1e6
    assert found.faults == ()
    assert found.entries > count
    assert each_us < MOST_US[what] * slowness()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [10**5, 10**6])
@pytest.mark.parametrize("what", ["grants", "charges"])
def test_a_large_ledger_is_verified(
    tmp_path: Path, what: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = grown(tmp_path, what, count)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        found = fresh.submit(verified, file).result()
    each_us = found.used_s / count * 1e6
    with capsys.disabled():
        sys.stdout.write(
            f"\n{count} {what}, {file.stat().st_size / 2**20:.0f} MiB: {found.took_s:.1f} s,"
            f" {each_us:.1f} us of processor each\n"
        )
    assert found.faults == ()
    assert found.entries > count
    assert found.used_s < (count * MOST_US[what] / 1e6 + STARTING_S) * slowness()
