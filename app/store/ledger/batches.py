"""Commands done many at a time: what one group commit holds of them, in one savepoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from typing import Any

from sqlalchemy import Connection, Row

from app.domain.ledger import EntryKind
from app.domain.problems import Problem
from app.domain.releases import plan_digest, request_fingerprint
from app.store.ledger.allowances import Allowances
from app.store.ledger.caps import PersonCaps
from app.store.ledger.commands import Charged, Command, Debit, Finish, Void
from app.store.ledger.entries import Chain, EntriesWriter, Occasion
from app.store.ledger.jobs import Places, enter
from app.store.ledger.multi_row import select_rows
from app.store.ledger.pauses import all_paused, require_running
from app.store.ledger.records import AccountRecord, DatasetStatus, ReleaseRecord, now, release_ids
from app.store.ledger.releases import ReleasesWriter

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


class BatchWriter:
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
        them: the caller rolls back, and may run them again one by one.
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

    @staticmethod
    def is_known(commands: Sequence[Command[Any]]) -> bool:
        """Return whether what commands come to is known before any of it is written."""
        return all(
            isinstance(command, Debit)
            or (isinstance(command, Finish) and command.known is not None)
            for command in commands
        )

    def _step(self, steps: Mapping[str, Finish | Void]) -> Mapping[str, ReleaseRecord]:
        """Take each release its step, and return those that could."""
        finish = {name: step.result for name, step in steps.items() if isinstance(step, Finish)}
        void = [name for name, step in steps.items() if isinstance(step, Void)]
        known = {
            name: step.known
            for name, step in steps.items()
            if isinstance(step, Finish) and step.known is not None
        }
        return {**self._releases.finish_all(finish, known), **self._releases.void_all(void)}

    def _charge(self, debits: Sequence[Debit]) -> Sequence[Outcome]:
        """Charge in order, each account in one update, and insert what was charged for."""
        # Looked up before anything is judged: a replay must cost nothing, even on a frozen budget.
        known = self._releases.known({(debit.principal, debit.idem) for debit in debits})
        at = now()
        asked = [(dataset, at) for dataset in {debit.dataset for debit in debits}]
        rows = select_rows(self._connection, _LOCKED[self._connection.dialect.name], asked)
        facts = {row.dataset: row for row in rows}
        # Only accounts with caps are read, and only people with bounds: most batches have neither.
        slices = PersonCaps(self._connection, {row.id for row in rows if row.capped})
        places = Places(
            self._connection, {debit.principal for debit in debits if debit.most_jobs is not None}
        )
        paused = all_paused(self._connection) if rows and rows[0].pauses else ()
        counted = {debit.principal for debit in debits if debit.most_bytes is not None}
        allowances = Allowances(self._connection, counted, at=at)
        last = rows[0].last_release if rows else 0
        batch = _Batch(
            self._entries,
            slices,
            places,
            allowances,
            paused=paused,
            at=at,
            last_release=last,
            most=len(debits),
        )
        outcomes: list[Outcome] = []
        for debit in debits:
            key = debit.principal, debit.idem
            # Two requests with one Idempotency-Key may meet in one batch: the second is
            # a replay of the first.
            found = known.get(key) or batch.made.get(key)
            outcomes.append(
                batch.charge(debit, facts.get(debit.dataset))
                if found is None
                else Charged(found, fresh=False)
            )
        if chains := [chain for chain in batch.chains.values() if chain.rows]:
            self._entries.write_all(chains)
            writes = self._entries.writes
            writes.add(slices.write)
            writes.add(allowances.write)
            self._releases.insert([*batch.made.values()])
            writes.add(partial(enter, self._connection, batch.jobs))
        return outcomes


class _Batch:
    """The debits of one group commit, judged one after the other before anything is written."""

    def __init__(
        self,
        entries: EntriesWriter,
        slices: PersonCaps,
        places: Places,
        allowances: Allowances,
        *,
        paused: Collection[tuple[str, str]],
        at: str,
        last_release: int,
        most: int,
    ) -> None:
        self._entries = entries
        self._slices = slices
        self._places = places
        self._paused = paused
        self._allowances = allowances
        self._at = at
        self._last_release = last_release
        self._ids = release_ids(last_release + 1, most)
        # The same question is asked again and again, so its digests are cached in a batch.
        self._fingerprint = cache(request_fingerprint)
        self._plan_digest = cache(plan_digest)
        self.chains: dict[str, Chain] = {}
        self.made: dict[tuple[str, str], ReleaseRecord] = {}
        self.jobs: list[tuple[int, int]] = []

    def charge(self, debit: Debit, dataset: Row[Any] | None) -> Charged | Problem:
        """Return the release charged for, or the refusal."""
        person, amount = debit.principal, debit.amount
        try:
            # In the order in which one request alone would be refused: batches must not
            # change the answer.
            chain = self._chain(dataset)
            account, balance = chain.before.id, chain.balance
            require_running(self._paused, person=person, dataset=debit.dataset)
            if debit.most_jobs is not None:
                self._places.check(person, debit.most_jobs)
            if debit.most_bytes is not None:
                self._allowances.check(person, debit.size, debit.most_bytes)
            self._slices.check(account, person, amount, remaining=balance.remaining)
            after = balance.after(EntryKind.DEBIT, amount)
        except Problem as refused:
            return refused
        # Only once nothing can refuse any more: a refused command leaves no trace in the batch.
        self._slices.take(account, person, amount)
        if debit.most_bytes is not None:
            self._allowances.take(person, debit.size)
        self._last_release += 1
        if debit.deadline_s is not None:
            self._places.take(person)
            self.jobs.append((self._last_release, debit.deadline_s))
        release = next(self._ids)
        fingerprint = self._fingerprint(dataset=debit.dataset, request=debit.request)
        occasion = Occasion(
            principal=person,
            release=release,
            idem=debit.idem,
            fingerprint=fingerprint,
            # The plan is bound too: its row may then not be edited unnoticed.
            note=self._plan_digest(debit.plan),
        )
        entry_hash = chain.add(EntryKind.DEBIT, amount, after, occasion, debit.acting)
        made = self.made[person, debit.idem] = ReleaseRecord.begun(
            number=self._last_release,
            id=release,
            account=account,
            seq=chain.seq,
            dataset=debit.dataset,
            principal=person,
            request=debit.request,
            plan=debit.plan,
            fingerprint=fingerprint,
            created_at=self._at,
            worker=debit.worker,
            entry_hash=entry_hash,
            amount=amount,
        )
        return Charged(made, fresh=True)

    def _chain(self, dataset: Row[Any] | None) -> Chain:
        if dataset is None:
            raise Problem("not-found", "There is no such data set.")
        if dataset.status != DatasetStatus.ACTIVE:
            raise Problem("dataset-archived")
        # Several data sets may share an account, and then its chain.
        chain = self.chains.get(dataset.id)
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
            self.chains[before.id] = chain
        return chain
