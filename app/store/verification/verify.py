"""Verification: walk every chain and compare every sum, whatever the triggers let through.

For each account, in order of sequence: the numbers have no gap, every hash is
that of its entry and binds the one before, every balance follows from the one
before by the entry's kind and amount. Then: the account's row is its last
entry; the system account knows of every account, data set and key, each as it
was made and none of them gone or brought back; each release is what its charge
was made for, and each result has its hash; the schema is the one the migrations
make, rules and constraints included; on SQLite, the file is sound and its
indexes say what its tables say; and, where the anchor can be read, the ledger is where
the anchor says.

The walk is cut into ranges that bounded memory and several processes can hold.
Each process reads a snapshot of its own, none of them older than the one that
the ranges were cut from; entries are append-only and a range begins at the entry
before it, so what one process sees continues what another saw. A server may go
on during it.

The note of how far `audit verify` has found a ledger sound, from which the next run goes on.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, event, func, select, text

from app.domain.ledger import SYSTEM_ACCOUNT, ledger_head
from app.store.anchor.standing import AnchorError, Standing, Witness, standing_to
from app.store.database import tables
from app.store.database.engines import reading_engine
from app.store.database.migrate import reference_faults, schema_faults
from app.store.errors import UnsupportedDatabaseError
from app.store.ledger.records import AccountRecord
from app.store.ledger.releases import RESULT
from app.store.merkle_log import CHECKPOINT
from app.store.verification.log import Checkpoints, cut_log, cut_seals
from app.store.verification.marks import Mark, mark_of, records_digest, tasks_since
from app.store.verification.ranges import cut_entries, cut_releases
from app.store.verification.system_account import UNAUTHORISED, Register, act_faults, receipt_keys

MOST_FAULTS = 20  # one is enough to act on, and a broken ledger may have millions
_ALONE = 5_000  # entries that one process walks sooner than others are started
_PIECE = 50_000  # entries of a task: much more than it costs to hand it over
_PROCESSES = 4
_MOST_MAPPED = 1 << 40  # all of any database: the system keeps what it has room for
_CACHE_KIB = 1 << 16
_entry = tables.entry.c
_ACTS = select(func.count()).where(_entry.account == SYSTEM_ACCOUNT, text(tables.ACTS))
_LAST_ACT = (
    select(_entry.hash)
    .where(_entry.account == SYSTEM_ACCOUNT, _entry.kind.not_in([RESULT, CHECKPOINT]))
    .order_by(_entry.seq.desc())
    .limit(1)
)
_WALKED = ("entry", "release")
_UNREADABLE = "the database file cannot be read through"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a walk over every chain, sum and result found.

    ``entries`` counts all but those that seal results or keep checkpoints, and ``head`` is the
    SHA-256 over
    the sorted account heads, the system account's as of its last entry but those: when
    a result was stored must not be seen before the answer is. ``faults`` names up
    to 20 places where the ledger does not hold, by account and sequence number;
    ``mismatches`` are those of them where a table is not as the entries say.
    ``anchored`` is how the ledger stands to its anchor, None where they were not compared.
    ``mark`` is where a later verification may go on from, where it was asked for and all is well.
    ``since`` is how many leaves of the log an earlier one has covered; None: all was walked.
    """

    entries: int
    head: str
    faults: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()
    anchored: Standing | None = None
    mark: Mark | None = None
    since: int | None = None

    @property
    def ok(self) -> bool:
        """Return whether nothing was found."""
        return not self.faults


Progress = Callable[[float], None]
"""Is called with the share of a walk that is done."""


class Task(Protocol):
    """A part of the walk that can be done by itself, on any snapshot that is not too old."""

    def faults(self, connection: Connection) -> Iterator[str]:
        """Yield what is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class _Records:
    """The system account's word against every table but the entries and releases."""

    makers: bool
    """Whether to look at who made the acts, too: a walk over every entry does so itself."""

    def faults(self, connection: Connection) -> Iterator[str]:
        ledger = connection.execute(select(tables.ledger)).one()
        register = Register(connection)
        yield from register.ledger_faults(epoch=ledger.epoch, created_at=ledger.created_at)
        yield from islice(register.faults(), MOST_FAULTS)
        if self.makers:
            yield from islice(act_faults(connection), MOST_FAULTS)


@dataclass(frozen=True, slots=True)
class _Schema:
    """The tables, constraints and rules, against what the migrations make."""

    def faults(self, connection: Connection) -> Iterator[str]:
        yield from schema_faults(connection)


@dataclass(frozen=True, slots=True)
class _Soundness:
    """SQLite's own check of its pages, and of its indexes against its tables; every reference.

    The conditions on entries and releases are left to the walks, which look at each of them anyway:
    SQLite would take as long for these as for everything else.
    """

    def faults(self, connection: Connection) -> Iterator[str]:
        if connection.dialect.name != "sqlite":
            yield from reference_faults(connection)
            return
        others = [each.name for each in tables.metadata.sorted_tables if each.name not in _WALKED]
        # What releases refer to, the walk over releases looks up.
        references = (f"foreign_key_check({name})" for name in ("entry", *others))
        conditions = (f"quick_check({name})" for name in others)
        with _without_conditions(connection):
            yield from _damage(connection, f"integrity_check({MOST_FAULTS})")
        for pragma in chain(references, conditions):
            yield from _damage(connection, pragma)


@contextmanager
def _without_conditions(connection: Connection) -> Iterator[None]:
    """Have SQLite check no CHECK constraint while the block lasts."""
    connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
    try:
        yield
    finally:
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = OFF")


def _damage(connection: Connection, pragma: str) -> Iterator[str]:
    found = connection.exec_driver_sql(f"PRAGMA {pragma}").all()
    if [tuple(row) for row in found] not in ([], [("ok",)]):
        yield "the database file is damaged, or an index does not fit its table"


def verify(
    connection: Connection,
    *,
    signed: bool = False,
    processes: int | None = None,
    may_end: bool = False,
    witness: Witness | None = None,
    marked: bool = False,
    since: Mark | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Walk the whole ledger; a damaged database is a fault, not an error.

    Parameters
    ----------
    connection
        A reading connection. A small ledger is walked on it alone.
    signed
        Whether every result must end in a receipt that a key of the ledger has signed, as
        the service's results do. Checking a signature takes longer than everything else.
    processes
        How many processes walk a large one, or 0 to walk it here too; by default as many
        as there are processors, at most four.
    may_end
        Whether the connection's transaction may end once its own part is read, because
        one that only waits holds up the database's housekeeping.
    witness
        The ledger's anchor, which it is compared with first; this ends the connection's
        transaction and begins another.
    marked
        Whether to return where a later verification may go on from.
    since
        Where an earlier one of this ledger had come to: what was verified then is not read again.
    progress
        Is called as parts of the walk end, with the share of the parts that have.
    """
    mark: Mark | None = None
    heads: list[str] = []
    entries = 0
    faults: list[str] = []
    tasks: list[Task] = []
    anchored: Standing | None = None
    try:
        anchored = None if witness is None else _standing(connection, witness, faults)
        ledger = connection.execute(select(tables.ledger)).one_or_none()
        rows = connection.execute(select(tables.account).order_by(tables.account.c.id))
        accounts = [AccountRecord(**row._mapping) for row in rows]
        heads, entries = _shown(connection, accounts)
        if ledger is None:
            faults.append("the ledger has no identity")
        else:
            if since is not None and (since.ledger, since.epoch) != (ledger.id, ledger.epoch):
                since = None
            keys = receipt_keys(connection) if signed else None
            digest = records_digest(connection)
            if marked:
                mark = mark_of(
                    connection,
                    ledger=ledger.id,
                    epoch=ledger.epoch,
                    signed=signed,
                    records=digest,
                    since=since,
                )
            if since is None:
                tasks = _tasks(connection, accounts, ledger.id, epoch=ledger.epoch, keys=keys)
            else:
                tasks = [_Schema()]
                if since.records != digest:
                    tasks.append(_Records(makers=True))
                tasks += tasks_since(connection, since, epoch=ledger.epoch, keys=keys)
    except Exception:
        # Whatever a damaged file makes fail is the finding.
        faults.append(_UNREADABLE)
    if processes is None:
        processes = min(os.cpu_count() or 1, _PROCESSES)
    here = entries <= _ALONE or processes == 0 or since is not None
    if may_end and not here:
        connection.rollback()
    results = _all_of(
        len(tasks),
        _here(connection, tasks) if here else _elsewhere(connection, tasks, processes),
        progress,
    )
    faults += chain.from_iterable(results)
    records = chain.from_iterable(
        found for task, found in zip(tasks, results, strict=False) if isinstance(task, _Records)
    )
    unauthorised = (fault for fault in faults if fault.endswith(UNAUTHORISED))
    mismatches = dict.fromkeys(chain(records, unauthorised))
    return Verification(
        entries=entries,
        head=ledger_head(heads),
        faults=tuple(dict.fromkeys(faults))[:MOST_FAULTS],
        mismatches=tuple(fault for fault in mismatches if fault != _UNREADABLE)[:MOST_FAULTS],
        anchored=anchored,
        mark=None if faults else mark,
        since=None if since is None else since.size,
    )


def _shown(connection: Connection, accounts: Sequence[AccountRecord]) -> tuple[list[str], int]:
    """Return the heads, and the number of entries, that may be shown at any time."""
    others = [account for account in accounts if account.id != SYSTEM_ACCOUNT]
    acts = connection.execute(_ACTS).scalar_one()
    last = connection.execute(_LAST_ACT).scalars().all()
    return [*last, *(account.head for account in others)], acts + sum(x.seq for x in others)


def _standing(connection: Connection, witness: Witness, faults: list[str]) -> Standing | None:
    """Compare with the anchor; one that cannot be read says nothing about the ledger."""
    try:
        witness.require_apart(connection)
        anchored = standing_to(connection, witness)
    except AnchorError:
        return None
    except UnsupportedDatabaseError as error:
        # In the ledger's own database it would agree with it always.
        faults.append(str(error))
        return None
    if anchored is not None and anchored.frozen:
        faults.append(f"the anchor: {anchored}")
    return anchored


def _tasks(
    connection: Connection,
    accounts: Sequence[AccountRecord],
    ledger: str,
    *,
    epoch: int,
    keys: Mapping[str, str] | None,
) -> list[Task]:
    """Cut the walk; what takes longest in one piece comes first."""
    tasks: list[Task] = [_Soundness(), _Records(makers=False), _Schema()]
    tasks.append(Checkpoints(ledger=ledger, epoch=epoch, keys=keys))
    sizes = [(account.id, account.seq) for account in accounts]
    tasks += cut_entries(sizes, ledger=ledger, epoch=epoch, length=_PIECE)
    tasks += cut_releases(connection, ledger=ledger, keys=keys, length=_PIECE)
    system = next((account.seq for account in accounts if account.id == SYSTEM_ACCOUNT), 0)
    tasks += cut_seals(system, length=_PIECE)
    tasks += cut_log(connection, ledger=ledger, length=_PIECE)
    return tasks


def record_faults(connection: Connection) -> list[str]:
    """Return where tables are not as the ledger's entries say: what a start looks at."""
    return _found(_Records(makers=True), connection)


def _all_of(
    count: int, results: Iterator[list[str]], progress: Progress | None
) -> Sequence[list[str]]:
    """Return what each of the parts of a walk has found, and report that they end."""
    found: list[list[str]] = []
    for result in results:
        found.append(result)
        if progress is not None:
            progress(len(found) / max(count, len(found)))
    return found


def _here(connection: Connection, tasks: Iterable[Task]) -> Iterator[list[str]]:
    for task in tasks:
        yield _found(task, connection)


def _elsewhere(
    connection: Connection, tasks: Sequence[Task], processes: int
) -> Iterator[list[str]]:
    """Do every task in processes of their own, which let a server go first."""
    url = connection.engine.url.render_as_string(hide_password=False)
    # Not forked: a server has threads and connections that must not be copied.
    with ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_set_out
    ) as pool:
        try:
            yield from pool.map(_connected, [url] * len(tasks), tasks)
        except BrokenProcessPool:
            # A page that the disk cannot deliver ends the process that has mapped it.
            yield [_UNREADABLE]


def _found(task: Task, connection: Connection) -> list[str]:
    try:
        return list(islice(task.faults(connection), MOST_FAULTS))
    except Exception:
        # As above: bytes that are no text, a page that is no page, a value of a wrong type.
        return [_UNREADABLE]


def _set_out() -> None:
    """Let a server go first, and do without the search for cycles: rows have none."""
    os.nice(10)
    gc.disable()


def _connected(url: str, task: Task) -> list[str]:
    try:
        with _engine(url).connect() as connection:
            return _found(task, connection)
    except Exception:
        return [_UNREADABLE]


@cache
def _engine(url: str) -> Engine:
    """Return an engine whose connections, on SQLite, have the file mapped into memory.

    That saves a system call per page. What cannot be mapped is kept in a larger cache, because
    the walk over indexes comes back to it.
    """
    engine = reading_engine(url)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def configure(connection: sqlite3.Connection, _record: object) -> None:
            connection.execute(f"PRAGMA mmap_size = {_MOST_MAPPED}")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")

    return engine


# The note of how far `audit verify` has found a ledger sound, from which the next run goes on


VERIFIED = "verified.json"
"""The note's name in the data directory."""

LARGE = 5_000
"""A ledger of no more entries is always walked from its beginning, which takes no time."""


def earlier_mark(note: Path, *, signed: bool) -> Mark | None:
    """Return where a verification may go on from, with signatures or without; None: nowhere."""
    try:
        mark = Mark.of_json(note.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    # A walk without the keys has not looked at receipts: one with them starts again.
    if mark is None or mark.size <= LARGE or (signed and not mark.signed):
        return None
    return mark


def keep_mark(note: Path, found: Verification) -> None:
    """Note how far a ledger was found sound; where a note cannot be written, there is none."""
    if found.mark is not None and found.mark.size > LARGE:
        fresh = note.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            fresh.touch(mode=0o600)
            fresh.write_text(found.mark.to_json(), "utf-8")
            fresh.replace(note)  # at once: no process reads half a note
