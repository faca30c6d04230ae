"""Charging releases and settling them, many at a time: what one group commit holds of that.

A release is charged for in no other way, but for one that a reviewer approves. A
command says what is wanted and leaves the how to the writer, which takes all that wait at
once: one look-up, one update per account, and a few multi-row inserts for the lot.

Allowances: how many bytes one person may have stored in a day, judged as releases are charged.

What is stored of a release is never removed, whatever becomes of it, and a question that is
reserved and withdrawn costs nothing. A row holds a person's last day and what was stored on it,
so a restart, and another server on the same database, counts on.

*Rates: how many requests of a key the server processes of one database may take together.* A
process takes a portion at a time, so that few requests wait for the database. Time is the
database's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from app.domain.ledger import Balance, EntryKind
from app.domain.policies import SERVICE, Acting
from app.domain.problems import Problem
from app.domain.releases import plan_digest, request_fingerprint
from app.store.database import tables
from app.store.ledger.caps import PersonCaps
from app.store.ledger.entries import (
    Chain,
    EntriesWriter,
    Occasion,
    change_rows,
    insert_of,
    select_rows,
)
from app.store.ledger.jobs import ENTER, NowMs, Places
from app.store.ledger.pauses import all_paused, require_running
from app.store.ledger.records import AccountRecord, DatasetStatus, ReleaseRecord, now, release_ids
from app.store.ledger.releases import INSERT, KNOWN, ReleasesWriter, row_of

# Rates: how many requests of a key the server processes of one database may take together

WINDOW_MS = 60_000

_rate = tables.rate.c
_NOW = select(NowMs())
_ENDED = delete(tables.rate).where(_rate.ends_at_ms <= bindparam("now"))
_GET = select(_rate.ends_at_ms, _rate.taken).where(_rate.key_id == bindparam("of"))
_BEGIN_RATE = insert(tables.rate)
_TAKE = (
    update(tables.rate)
    .where(_rate.key_id == bindparam("of"))
    .values(taken=_rate.taken + bindparam("more"))
)


class Portion(NamedTuple):
    """A number of requests of a key, in a window that ends in ``left_ms`` milliseconds."""

    requests: int
    left_ms: int


class RatesWriter:
    """Portions of what keys may send in a minute; a key's minute begins with its first."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def take(self, key: str, *, wanted: int, most: int) -> Portion:
        """Give out ``wanted`` of a key's requests, or what is left of ``most`` in its minute."""
        now = int(self._connection.execute(_NOW).scalar_one())
        # Minutes that are over go with any key's request: so the table stays small.
        self._connection.execute(_ENDED, {"now": now})
        found = self._connection.execute(_GET, {"of": key}).one_or_none()
        if found is None:
            given = min(wanted, most)
            row = {"key_id": key, "ends_at_ms": now + WINDOW_MS, "taken": given}
            self._connection.execute(_BEGIN_RATE, row)
            return Portion(given, WINDOW_MS)
        # A smaller limit since the minute began leaves less than nothing.
        given = max(0, min(wanted, most - found.taken))
        self._connection.execute(_TAKE, {"of": key, "more": given})
        return Portion(given, found.ends_at_ms - now)


# Allowances: how many bytes one person may have stored in a day, judged as releases are charged

LIMIT = "max_stored_bytes_per_day"
"""The setting that says how many bytes a person may have stored in a day."""

ENTRY_BYTES = 4_096
"""The most that is stored of a release besides its texts: its rows, and entries of the ledger."""

_FOUND = (
    "SELECT person, day, bytes FROM (VALUES {values}) AS asked"
    " JOIN allowance ON allowance.person = asked.column1"
)
_SET = (
    "UPDATE allowance SET day = column2, bytes = column3"
    " FROM (VALUES {values}) AS step WHERE person = column1"
)
_BEGIN = insert_of("allowance", ("person", "day", "bytes"))


class Allowances:
    """What some people have had stored today, while a transaction charges them.

    ``at`` is the transaction's time, as text in UTC.
    """

    __slots__ = ("_at", "_changed", "_known", "_stored")

    def __init__(self, connection: Connection, people: Collection[str], *, at: str) -> None:
        rows = select_rows(connection, _FOUND, [(person,) for person in people])
        self._at = at
        self._known = {row.person for row in rows}
        # A row of another day counts nothing, and is written over.
        self._stored = Counter({row.person: row.bytes for row in rows if row.day == self._day})
        self._changed: set[str] = set()

    @property
    def _day(self) -> str:
        return self._at[:10]

    def take(self, person: str, size: int, most: int) -> None:
        """Count bytes that are stored for a person who may have so many more today.

        Raises
        ------
        Problem
            ``too-much-stored``, with the seconds until the day ends.
        """
        if self._stored[person] + size > most:
            now = datetime.fromisoformat(self._at)
            tomorrow = datetime.combine(
                now.date() + timedelta(days=1), datetime.min.time(), tzinfo=now.tzinfo
            )
            raise Problem(
                "too-much-stored",
                limit=LIMIT,
                maximum=most,
                # Up to the next whole second, so that the day has surely ended by then.
                retry_after=int((tomorrow - now).total_seconds()) + 1,
            )
        self._stored[person] += size
        self._changed.add(person)

    def rows(self) -> Mapping[str, Sequence[Sequence[object]]]:
        """Return the rows that write down what has been counted, by their statements."""
        rows = [(person, self._day, self._stored[person]) for person in self._changed]
        return {
            _SET: [row for row in rows if row[0] in self._known],
            _BEGIN: [row for row in rows if row[0] not in self._known],
        }


def allow(connection: Connection, person: str, size: int, most: int | None, *, at: str) -> None:
    """Count bytes that are stored for one person, where there is a bound on them.

    Raises
    ------
    Problem
        ``too-much-stored``.
    """
    if most is not None:
        allowances = Allowances(connection, [person], at=at)
        allowances.take(person, size, most)
        for statement, rows in allowances.rows().items():
            change_rows(connection, statement, rows)


# Charging releases and settling them, many at a time: what one group commit holds of that


T = TypeVar("T")


class Command(Generic[T]):
    """Something the writer does in bulk, and that comes to a ``T``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Charged:
    """The release under an Idempotency-Key, its result not read, and whether this made it."""

    record: ReleaseRecord
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Debit(Command[Charged]):
    """Charge a data set's account for a release, unless the person has used the key before.

    Comes to :class:`Charged`: a new release that is ``debited``, or the one the
    key already has, which the caller compares by its fingerprint.

    Attributes
    ----------
    amount
        A positive integer of the account's unit.
    request, plan
        JSON text; the release keeps both.
    worker
        Who will draw it; without one it waits in the queue.
    deadline_s
        The public deadline of a job, in seconds; None for what is no job.
    answer_bytes
        About how many bytes its answer will take.
    most_bytes
        How many bytes the person may have stored in a day; None for any number.
    most_jobs
        How many jobs the person may have in the queue, this one included.
    acting
        The key and role that it is asked for by.
    study_plan
        The plan that this is a question of, which must be approved at the time of the charge.

    Raises
    ------
    Problem
        ``not-found``, ``dataset-archived``, ``plan-not-approved``, ``paused``, ``too-many-jobs``,
        ``too-much-stored``; ``budget-exceeded`` with nothing written.
    """

    dataset: str
    principal: str
    idem: str
    amount: int
    request: str
    plan: str
    worker: str | None = None
    deadline_s: int | None = None
    most_jobs: int | None = None
    answer_bytes: int = 0
    most_bytes: int | None = None
    acting: Acting = SERVICE
    study_plan: str | None = None

    @property
    def size(self) -> int:
        """Return about how many bytes are stored for it, in the end."""
        return len(self.request) + len(self.plan) + self.answer_bytes + ENTRY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Command[ReleaseRecord]):
    """Store a debited release's answer. Comes to its :class:`ReleaseRecord`, ``released``.

    ``known`` is the release's record before, which the writer then need not read.

    Raises
    ------
    Problem
        ``release-void`` when it is no longer waiting for a result.
    """

    release: str
    result: bytes
    known: ReleaseRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Void(Command[ReleaseRecord]):
    """Give a debited release up; its charge stays. Comes to its :class:`ReleaseRecord`.

    Raises
    ------
    Problem
        ``release-void`` when it is no longer waiting for a result.
    """

    release: str


Outcome = Charged | ReleaseRecord | Problem
"""What a command comes to, or why it is refused."""

# All there is to know of the data sets that a batch charges: a row of the list is one of
# them and the time, and whether grants are over by then or caps apply is looked into further
# only where it is so. On SQLite the writer has the whole database to itself.
_FACTS = (
    "SELECT dataset.id AS dataset, dataset.status,"
    " account.id, account.seq, account.total, account.spent, account.reserved, account.head,"
    " EXISTS (SELECT 1 FROM expiring WHERE expiring.account = account.id"
    " AND expired_seq IS NULL AND expires_at <= asked.column2) AS due,"
    " EXISTS (SELECT 1 FROM cap WHERE cap.account = account.id AND amount IS NOT NULL) AS capped,"
    " EXISTS (SELECT 1 FROM pause) AS pauses,"
    " (SELECT coalesce(max(number), 0) FROM release) AS last_release"
    " FROM (VALUES {values}) AS asked JOIN dataset ON dataset.id = asked.column1"
    " JOIN account ON account.id = dataset.account"
)
_LOCKED = {"sqlite": _FACTS, "postgresql": f"{_FACTS} FOR UPDATE OF account"}


_APPROVED = (
    "SELECT id FROM (VALUES {values}) AS asked JOIN study_plan ON study_plan.id = asked.column1"
    " WHERE state = 'approved' AND expires_at > asked.column2"
)


def approved_plans(connection: Connection, plans: Collection[str], *, at: str) -> frozenset[str]:
    """Return those of some study plans whose questions may be drawn at a time."""
    rows = select_rows(connection, _APPROVED, [(plan, at) for plan in plans])
    return frozenset(row.id for row in rows)


class Commands:
    """Executes commands on the writer's connection, inside its transaction."""

    __slots__ = ("_connection", "_entries", "_releases")

    def __init__(
        self, connection: Connection, entries: EntriesWriter, releases: ReleasesWriter
    ) -> None:
        self._connection = connection
        self._entries = entries
        self._releases = releases

    def run(self, commands: Sequence[Command[Any]]) -> Sequence[Outcome]:
        """Return what each command comes to, in their order.

        What is raised, other than a refusal of one command, has undone none of
        them: the caller rolls back.
        """
        debits = [command for command in commands if isinstance(command, Debit)]
        charged = iter(self._charge(debits)) if debits else iter(())
        # Of several steps for one release the first counts; it is final.
        steps: dict[str, Finish | Void] = {}
        for command in commands:
            if isinstance(command, (Finish, Void)):
                steps.setdefault(command.release, command)
        stepped = self._step(steps)
        outcomes: list[Outcome] = []
        for command in commands:
            found: Outcome | None = None
            if isinstance(command, Debit):
                found = next(charged)
            elif isinstance(command, (Finish, Void)) and steps[command.release] is command:
                found = stepped.get(command.release)
            outcomes.append(found or Problem("release-void"))
        return outcomes

    def _step(self, steps: Mapping[str, Finish | Void]) -> Mapping[str, ReleaseRecord]:
        """Take each release its step, and return those that could."""
        finish = {name: step.result for name, step in steps.items() if isinstance(step, Finish)}
        void = [name for name, step in steps.items() if isinstance(step, Void)]
        known = {
            name: step.known
            for name, step in steps.items()
            if isinstance(step, Finish) and step.known is not None
        }
        finished = self._releases.finish_all(finish, known) if finish else {}
        return {**finished, **self._releases.void_all(void)} if void else finished

    def _charge(self, debits: Sequence[Debit]) -> Sequence[Outcome]:
        """Charge in order, each account in one update, and insert what was charged for."""
        # Looked up before anything is judged: a replay must cost nothing, even on a frozen budget.
        keys = {(debit.principal, debit.idem) for debit in debits}
        known = self._releases.of_keys(found) if (found := self._selected(KNOWN, keys)) else {}
        at = now()
        asked = {(debit.dataset, at) for debit in debits}
        facts = self._selected(_LOCKED[self._connection.dialect.name], asked)
        batch = _Batch(self._connection, self._entries, debits, facts, at)
        outcomes: list[Outcome] = []
        for debit in debits:
            key = debit.principal, debit.idem
            # Two requests with one Idempotency-Key may meet in one batch: the second is
            # a replay of the first.
            before = known.get(key) or batch.made.get(key)
            outcomes.append(batch.charge(debit) if before is None else Charged(before, fresh=False))
        batch.write()
        return outcomes

    def _selected(self, query: str, rows: Collection[tuple[str, str]]) -> list[Row[Any]]:
        return select_rows(self._connection, query, [*rows])


class _Batch:
    """The debits of one group commit, judged one after the other before anything is written."""

    def __init__(
        self,
        connection: Connection,
        entries: EntriesWriter,
        debits: Sequence[Debit],
        facts: Sequence[Row[Any]],
        at: str,
    ) -> None:
        self._entries = entries
        self._facts = {row.dataset: row for row in facts}
        self._at = at
        self._last_release = facts[0].last_release if facts else 0
        self._ids = iter(release_ids(self._last_release + 1, len(debits)))
        # Read only where there are any: most batches have neither caps nor jobs nor pauses.
        capped = {row.id for row in facts if row.capped}
        queued = {debit.principal for debit in debits if debit.most_jobs is not None}
        counted = {debit.principal for debit in debits if debit.most_bytes is not None}
        self._caps = PersonCaps(connection, capped) if capped else None
        self._places = Places(connection, queued) if queued else None
        self._allowances = Allowances(connection, counted, at=at) if counted else None
        self._paused = all_paused(connection) if facts and facts[0].pauses else ()
        plans = {debit.study_plan for debit in debits if debit.study_plan is not None}
        self._approved = approved_plans(connection, plans, at=at) if plans else frozenset()
        self._chains: dict[str, Chain] = {}
        self._jobs: list[tuple[int, int]] = []
        self.made: dict[tuple[str, str], ReleaseRecord] = {}

    def charge(self, debit: Debit) -> Charged | Problem:
        """Return the release charged for, or the refusal."""
        try:
            # In the order in which one request alone would be refused: batches must not
            # change the answer.
            chain = self._chain(self._facts.get(debit.dataset))
            after = self._judged(debit, chain)
        except Problem as refused:
            return refused
        # Only once nothing can refuse any more: a refused command leaves no trace in the batch.
        if self._caps is not None:
            self._caps.take(chain.before.id, debit.principal, debit.amount)
        self._last_release += 1
        if self._places is not None and debit.deadline_s is not None:
            self._places.take(debit.principal)
        if debit.deadline_s is not None:
            self._jobs.append((self._last_release, debit.deadline_s))
        return Charged(self._made(debit, chain, after), fresh=True)

    def _judged(self, debit: Debit, chain: Chain) -> Balance:
        """Return an account's balance after a charge, or refuse that.

        Raises
        ------
        Problem
            As of :class:`Debit`.
        """
        person, amount, balance = debit.principal, debit.amount, chain.balance
        if debit.study_plan is not None and debit.study_plan not in self._approved:
            raise Problem("plan-not-approved")
        if self._paused:
            require_running(self._paused, person=person, dataset=debit.dataset)
        if self._places is not None and debit.most_jobs is not None:
            self._places.check(person, debit.most_jobs)
        if self._caps is not None:
            self._caps.check(chain.before.id, person, amount, remaining=balance.remaining)
        after = balance.after(EntryKind.DEBIT, amount)
        # Last, since it counts what it lets pass.
        if self._allowances is not None and debit.most_bytes is not None:
            self._allowances.take(person, debit.size, debit.most_bytes)
        return after

    def _made(self, debit: Debit, chain: Chain, after: Balance) -> ReleaseRecord:
        """Add a charge's entry to its account's chain, and return the release it is for."""
        release = next(self._ids)
        fingerprint = request_fingerprint(dataset=debit.dataset, request=debit.request)
        occasion = Occasion(
            principal=debit.principal,
            release=release,
            idem=debit.idem,
            fingerprint=fingerprint,
            # The plan is bound too: its row may then not be edited unnoticed.
            note=plan_digest(debit.plan),
        )
        entry_hash = chain.add(EntryKind.DEBIT, debit.amount, after, occasion, debit.acting)
        made = self.made[debit.principal, debit.idem] = ReleaseRecord.begun(
            number=self._last_release,
            id=release,
            account=chain.before.id,
            seq=chain.seq,
            dataset=debit.dataset,
            principal=debit.principal,
            request=debit.request,
            plan=debit.plan,
            fingerprint=fingerprint,
            created_at=self._at,
            worker=debit.worker,
            entry_hash=entry_hash,
            amount=debit.amount,
        )
        return made

    def write(self) -> None:
        """Have what was charged wait to be written: accounts and entries before what needs them."""
        chains = [chain for chain in self._chains.values() if chain.rows]
        if not chains:
            return
        self._entries.write_later(chains)
        rows = {
            **(self._caps.rows() if self._caps is not None else {}),
            **(self._allowances.rows() if self._allowances is not None else {}),
            INSERT: [row_of(made) for made in self.made.values()],
            ENTER: self._jobs,
        }
        self._entries.changes.rows.add(rows)

    def _chain(self, dataset: Row[Any] | None) -> Chain:
        if dataset is None:
            raise Problem("not-found", "There is no such data set.")
        if dataset.status != DatasetStatus.ACTIVE:
            raise Problem("dataset-archived")
        # Several data sets may share an account, and then its chain.
        chain = self._chains.get(dataset.id)
        if chain is None:
            before = AccountRecord(
                id=dataset.id,
                seq=dataset.seq,
                total=dataset.total,
                spent=dataset.spent,
                reserved=dataset.reserved,
                head=dataset.head,
            )
            chain = self._entries.chain_from(before, self._at, due=dataset.due)
            self._chains[before.id] = chain
        return chain
