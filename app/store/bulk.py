"""Commands done many at a time: what one group commit holds of them, in one savepoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from app.domain.ledger import EntryKind
from app.domain.problems import Problem
from app.domain.releases import plan_digest, request_fingerprint
from app.store import tables
from app.store.caps import Slices
from app.store.commands import Charged, Command, Debit, Finish, Void
from app.store.entries import Chain, EntriesWriter, Occasion
from app.store.ids import new_ids, now
from app.store.records import DatasetStatus, ReleaseRecord
from app.store.releases import NewRelease, ReleasesWriter

Outcome = Charged | ReleaseRecord | Problem
"""What a command comes to, or why it is refused."""

_dataset = tables.dataset.c
_DATASETS = select(_dataset.id, _dataset.account, _dataset.status).where(
    _dataset.id.in_(bindparam("wanted", expanding=True))
)


class Bulk:
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
        known = self._releases.known({(debit.principal, debit.idem) for debit in debits})
        rows: Iterable[Row[Any]] = self._connection.execute(
            _DATASETS, {"wanted": [*{debit.dataset for debit in debits}]}
        )
        datasets = {row.id: row for row in rows}
        slices = Slices(self._connection, {row.account for row in datasets.values()})
        batch = _Batch(self._entries, slices, now())
        places: list[ReleaseRecord | tuple[NewRelease, bool] | Problem] = []
        for debit, release in zip(debits, new_ids("rel", len(debits)), strict=True):
            found = known.get((debit.principal, debit.idem))
            places.append(found or batch.charge(debit, release, datasets.get(debit.dataset)))
        for chain in batch.chains.values():
            if chain.rows:
                self._entries.write(chain)
        slices.write()
        made = self._releases.insert([*batch.made.values()])
        return [_charged(place, made) for place in places]


class _Batch:
    """The debits of one group commit, judged one after the other before anything is written."""

    def __init__(self, entries: EntriesWriter, slices: Slices, at: str) -> None:
        self._entries = entries
        self._slices = slices
        self._at = at
        # The same question is asked again and again, so its digests are kept meanwhile.
        self._fingerprint = cache(request_fingerprint)
        self._plan_digest = cache(plan_digest)
        self.chains: dict[str, Chain] = {}
        self.made: dict[tuple[str, str], NewRelease] = {}

    def charge(
        self, debit: Debit, release: str, dataset: Row[Any] | None
    ) -> tuple[NewRelease, bool] | Problem:
        """Return the release charged for and whether that is new, or the refusal."""
        key = debit.principal, debit.idem
        if key in self.made:
            return self.made[key], False
        try:
            chain = self._chain(dataset)
            remaining = chain.balance.remaining
            account = chain.before.id
            self._slices.check(account, debit.principal, debit.amount, remaining=remaining)
            after = chain.balance.after(EntryKind.DEBIT, debit.amount)
        except Problem as refused:
            return refused
        self._slices.take(account, debit.principal, debit.amount)
        fingerprint = self._fingerprint(dataset=debit.dataset, request=debit.request)
        occasion = Occasion(
            principal=debit.principal,
            release=release,
            idem=debit.idem,
            fingerprint=fingerprint,
            note=self._plan_digest(debit.plan),
        )
        entry_hash = chain.add(EntryKind.DEBIT, debit.amount, after, occasion)
        self.made[key] = NewRelease(
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
        )
        return self.made[key], True

    def _chain(self, dataset: Row[Any] | None) -> Chain:
        if dataset is None:
            raise Problem("not-found", "There is no such data set.")
        if dataset.status != DatasetStatus.ACTIVE:
            raise Problem("dataset-archived")
        chain = self.chains.get(dataset.account)
        if chain is None:
            chain = self.chains[dataset.account] = self._entries.chain(dataset.account, self._at)
        return chain


def _charged(
    place: ReleaseRecord | tuple[NewRelease, bool] | Problem, made: Mapping[str, ReleaseRecord]
) -> Outcome:
    if isinstance(place, Problem):
        return place
    if isinstance(place, ReleaseRecord):
        return Charged(place, fresh=False)
    release, fresh = place
    return Charged(made[release.id], fresh)
