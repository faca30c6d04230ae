"""The system account's word against the tables: what was opened, made, kept, ended, and when.

The system account has an entry for each account, data set, lineage, key and
signing key. Their rows must be those entries' subjects, each as it was made, none
of them gone and none brought back.

*By whom entries were made: a key, its person, and a role that allows it.* An entry says by which
key and in which role it was made; the table of keys says whose each key is, and the system account
holds it to that. So a person who edits a key's role or person, acts, and puts the row back, has
left an entry that fits the key no more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, Select, bindparam, exists, select, text

from app.domain.ledger import SYSTEM_ACCOUNT
from app.domain.policies import SERVICE, Acting
from app.store import publishing
from app.store.database import tables
from app.store.ledger import caps, datasets, expiries, keys, pauses
from app.store.ledger.accounts import CLOSED
from app.store.ledger.datasets import DATASET_DELETED, EXTENDED, version_faults
from app.store.ledger.entries import entry_of
from app.store.ledger.records import DatasetStatus, shown
from app.store.ledger.releases import ENDED_AS, REPEATED
from app.store.ledger.reviewing.notices import review_faults
from app.store.ledger.reviewing.study_plans import plan_faults
from app.store.ledger.signing import RECEIPT_KEY

# By whom entries were made: a key, its person, and a role that allows it

UNAUTHORISED = "it was not made by a key in a role that allows it"

_key, _entry = tables.api_key.c, tables.entry.c
_KEYS = select(_key.id, _key.role, _key.person)
_MAKERS = text(f"SELECT DISTINCT kind, key, role, principal FROM entry WHERE {tables.ACTS}")  # noqa: S608


def keys_of(connection: Connection) -> Mapping[str, tuple[str, str]]:
    """Return each key's role and person, by id."""
    return {row.id: (row.role, row.person) for row in connection.execute(_KEYS)}


def is_authorised(
    keys: Mapping[str, tuple[str, str]],
    kind: str,
    key: str | None,
    role: str,
    principal: str | None,
) -> bool:
    """Return whether an entry may have been made so; None for ``principal`` is any person."""
    if not Acting(key, role).may_make(kind):
        return False
    if role == SERVICE.role:
        return True
    known = keys.get(key or "")
    return known is not None and known[0] == role and principal in (None, known[1])


def act_faults(connection: Connection) -> Iterator[str]:
    """Yield acts (all entries but charges and results) that no key allowed."""
    keys = keys_of(connection)
    for maker in connection.execute(_MAKERS).all():
        if not is_authorised(keys, *maker):
            first = connection.execute(_first_of(**maker._asdict())).one()
            yield f"account {shown(first.account)}, entry {first.seq}: {UNAUTHORISED}"


def _first_of(**maker: str | None) -> Select[tuple[str, int]]:
    """Return the question for the first act that was made so."""
    same = (_entry[name].is_not_distinct_from(value) for name, value in maker.items())
    acts = select(_entry.account, _entry.seq).where(text(tables.ACTS), *same)
    return acts.order_by(_entry.account, _entry.seq).limit(1)


# The system account's word against the tables: what was opened, made, kept, ended, and when

_SYSTEM = (
    select(tables.entry)
    .where(_entry.account == SYSTEM_ACCOUNT, text(tables.ACTS))
    .order_by(_entry.seq)
    .execution_options(yield_per=1000)
)
_release = tables.release.c
_FAR = select(_release.id, _release.state, _release.finished_at, _release.attempts).where(
    _release.id.in_(bindparam("wanted", expanding=True))
)
_RECEIPT_KEYS = select(_entry.note, _entry.fingerprint).where(
    _entry.account == SYSTEM_ACCOUNT, _entry.kind == RECEIPT_KEY
)
_DELETED_WITH_RELEASES = (
    select(tables.dataset.c.id)
    .where(
        tables.dataset.c.status == DatasetStatus.DELETED.value,
        exists().where(_release.dataset == tables.dataset.c.id),
    )
    .order_by(tables.dataset.c.id)
)
_CHUNK = 500  # databases limit how many values a statement may have


def receipt_keys(connection: Connection) -> Mapping[str, str]:
    """Return the public keys of receipts, by name."""
    return {row.fingerprint or "": row.note or "" for row in connection.execute(_RECEIPT_KEYS)}


class Register:
    """What the system account has recorded, and what the tables hold."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # kind -> subject -> what is recorded of it: who, when, and its digest
        self._recorded: defaultdict[str, dict[str, tuple[str, str, str | None]]]
        self._recorded = defaultdict(dict)
        self._attempts: Counter[str] = Counter()
        self._epoch = 0
        self._opened_at = ""
        for row in connection.execute(_SYSTEM):
            entry = entry_of(row)
            self._opened_at = self._opened_at or entry.at
            self._epoch = entry.epoch
            known = (entry.principal, entry.at, entry.fingerprint)
            self._recorded[entry.kind][entry.note or ""] = known
            self._attempts[entry.note or ""] += entry.kind == REPEATED

    def faults(self) -> Iterator[str]:
        """Yield every row that only one of the two knows of, or that differs."""
        accounts = self._connection.execute(select(tables.account.c.id)).scalars()
        yield from self._same("account", {*accounts} - {SYSTEM_ACCOUNT}, "account_opened")
        yield from self._datasets()
        yield from self._keys()
        yield from self._releases()
        closed = {name: said[2] for name, said in self._recorded[CLOSED].items()}
        yield from expiries.faults(self._connection, closed)
        yield from caps.faults(self._connection, self._recorded[caps.CAP_SET])
        yield from pauses.faults(self._connection, self._recorded[pauses.PAUSE_SET])
        yield from publishing.faults(
            self._connection,
            self._recorded[publishing.PUBLISHED],
            self._recorded[publishing.WITHDRAWN],
        )
        yield from review_faults(self._connection)
        yield from plan_faults(self._connection)

    def _datasets(self) -> Iterator[str]:
        records = [
            datasets.dataset_of(row) for row in self._connection.execute(select(*datasets.FACTS))
        ]
        made = {x.id: (x.created_by, x.created_at, x.digest) for x in records}
        yield from self._match("data set", made, "dataset_created")
        ended = {x.id: x.archived_at for x in records if x.archived_at is not None}
        deleted = {x.id for x in records if x.status is DatasetStatus.DELETED}
        # One that was archived before it was deleted keeps the time of that.
        archived = {*ended} - deleted | deleted & self._recorded["dataset_archived"].keys()
        yield from self._ended("data set", _some(ended, archived), "dataset_archived")
        yield from self._same("data set", deleted, DATASET_DELETED)
        yield from self._times("data set", _some(ended, deleted - archived), DATASET_DELETED)
        for name in self._connection.execute(_DELETED_WITH_RELEASES).scalars():
            yield f"data set {shown(name)}: it is deleted and has releases"
        yield from version_faults(self._connection, self._recorded[EXTENDED])
        lineages = self._connection.execute(select(tables.lineage)).all()
        yield from self._same("data set", {row.dataset for row in lineages}, "lineage_kept")
        for row in lineages:
            if self._recorded["lineage_kept"].get(row.dataset, ("", "", ""))[2] != row.sha256:
                yield f"data set {shown(row.dataset)}: its lineage has been edited"

    def _keys(self) -> Iterator[str]:
        records = [keys.key_of(row) for row in self._connection.execute(select(*keys.FACTS))]
        made = {x.id: (x.created_by, x.created_at, x.digest) for x in records}
        yield from self._match("key", made, "key_created")
        ended = {x.id: x.revoked_at for x in records if x.revoked_at is not None}
        yield from self._ended("key", ended, "key_revoked")

    def _releases(self) -> Iterator[str]:
        """Fault releases that are not as far as the system account says."""
        said = {
            release: (state.value, at)
            for state, kind in ENDED_AS.items()
            for release, (_, at, _) in self._recorded[kind].items()
        }
        repeated = {release: count for release, count in self._attempts.items() if count}
        names = sorted(said.keys() | repeated.keys())
        for start in range(0, len(names), _CHUNK):
            wanted = names[start : start + _CHUNK]
            rows = {row.id: row for row in self._connection.execute(_FAR, {"wanted": wanted})}
            for name in wanted:
                row = rows.get(name)
                far = None if row is None else (row.state, row.finished_at)
                if name in said and far != said[name]:
                    yield f"release {shown(name)}: the system account disagrees about its end"
                if row is None or row.attempts != repeated.get(name, row.attempts - 1) + 1:
                    yield f"release {shown(name)}: its attempts have been edited"

    def _match(
        self, what: str, found: Mapping[str, tuple[str, str, str]], kind: str
    ) -> Iterator[str]:
        """Fault what was made and is not, was not and is, or is not as it was made."""
        yield from self._same(what, found, kind)
        for name, made in found.items():
            if self._recorded[kind].get(name, made) != made:
                yield f"{what} {shown(name)}: it has been edited"

    def _ended(self, what: str, found: Mapping[str, str], kind: str) -> Iterator[str]:
        """Fault what has ended and lives, lives and has ended, or ended at another time."""
        yield from self._same(what, found, kind)
        yield from self._times(what, found, kind)

    def _times(self, what: str, found: Mapping[str, str], kind: str) -> Iterator[str]:
        """Fault what has ended at another time."""
        for name, at in found.items():
            if self._recorded[kind].get(name, ("", at, None))[1] != at:
                yield f"{what} {shown(name)}: the time of its end has been edited"

    def _same(self, what: str, found: Mapping[str, object] | set[str], kind: str) -> Iterator[str]:
        """Fault everything that only one of the table and the system account knows of."""
        for name in sorted(self._recorded[kind].keys() ^ set(found)):
            yield f"{what} {shown(name)}: the system account disagrees about {kind}"

    def ledger_faults(self, *, epoch: int, created_at: str) -> Iterator[str]:
        """Compare the ledger's row with its system account."""
        if epoch != self._epoch:
            yield "the ledger: its epoch is not the one the system account last knew"
        if created_at != self._opened_at:
            yield "the ledger: its time has been edited"


def _some(found: Mapping[str, str], names: set[str]) -> Mapping[str, str]:
    return {name: at for name, at in found.items() if name in names}
