"""Data sets: their public facts. The rows themselves are in the vault.

*Uploads under way: each belongs to the server that takes it in, until it is registered or gone.*
What an upload writes outside the database (staging, rows, digests) would be orphaned after a
crash. So it is written down here before, and struck out in the transaction that registers it; what
is left here of a dead server is to be removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from app.domain.access import Span, sorts_as
from app.domain.ledger import SYSTEM_ACCOUNT, digest_of
from app.domain.problems import Problem
from app.store.database import tables
from app.store.ledger.access import is_seen
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.jobs import LIVE_WORKERS
from app.store.ledger.records import (
    DatasetRecord,
    DatasetStatus,
    LineageRecord,
    VersionRecord,
    are_newest,
    fitting,
    has_word,
    new_id,
    now,
    shown,
    spanned,
)

FACTS = [each for each in tables.dataset.c if each.name != "sorts_as"]
"""What a record has of its row: all but what lists are sorted by."""

# Uploads under way: each belongs to the server that takes it in, until it is registered or gone

_upload = tables.upload.c

_LIST = select(_upload.dataset, _upload.worker).order_by(_upload.dataset)
_DEAD = _upload.worker.not_in(LIVE_WORKERS)
# In one statement: of two servers that find a dead one's upload, one gets it.
_TAKE_OVER = (
    update(tables.upload)
    .where(_upload.dataset == bindparam("of"), or_(_upload.worker == bindparam("by"), _DEAD))
    .values(worker=bindparam("by"))
)
_CLAIM = (
    update(tables.upload).where(_upload.dataset == bindparam("of")).values(worker=bindparam("by"))
)
_END = delete(tables.upload).where(
    _upload.dataset == bindparam("of"), _upload.worker == bindparam("by")
)


@dataclass(frozen=True, slots=True)
class UploadRecord:
    """An upload under way, by its data set's id, and the worker whose it is."""

    dataset: str
    worker: str


class Uploads:
    """Uploads under way."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def under_way(self) -> tuple[UploadRecord, ...]:
        """Return all of them, those of the dead too."""
        return tuple(UploadRecord(*row) for row in self._connection.execute(_LIST))

    def left(self, worker: str) -> tuple[UploadRecord, ...]:
        """Return those that are a worker's own, or a dead one's."""
        found = self._connection.execute(_LIST.where(or_(_upload.worker == worker, _DEAD)))
        return tuple(UploadRecord(*row) for row in found)


class UploadsWriter(Uploads):
    """Uploads begun, taken over and ended."""

    __slots__ = ()

    def begin(self, dataset: str, *, worker: str) -> None:
        """Write down that a worker takes an upload in."""
        values = {"dataset": dataset, "worker": worker, "begun_at": now()}
        self._connection.execute(insert(tables.upload), values)

    def take_over(self, dataset: str, *, worker: str) -> bool:
        """Make an upload this worker's if it was so, or a dead one's; False where it is neither."""
        return self._connection.execute(_TAKE_OVER, {"of": dataset, "by": worker}).rowcount == 1

    def claim(self, dataset: str, *, worker: str) -> bool:
        """Make an upload this worker's, whichever has it; False where it is struck out."""
        return self._connection.execute(_CLAIM, {"of": dataset, "by": worker}).rowcount == 1

    def end(self, dataset: str, *, worker: str) -> bool:
        """Strike an upload out; False where it is no longer this worker's."""
        return self._connection.execute(_END, {"of": dataset, "by": worker}).rowcount == 1


# Data sets: their public facts. The rows themselves are in the vault

MANIFEST_KEPT = "manifest_kept"
"""The kind of the system entry whose fingerprint is that of a data set's manifest, its note."""

EXTENDED = "dataset_extended"
"""The kind of the system entry whose fingerprint is that of a version, its note the data set."""

DATASET_DELETED = "dataset_deleted"
"""The kind of the system entry about a deletion; its note is the data set."""

DATASET_EDITED = "dataset_edited"
"""The kind of the system entry about an edit; its fingerprint is the edit's digest."""

_dataset, _edit = tables.dataset.c, tables.dataset_edit.c
_LAST_EDIT = (
    select(_edit.fields)
    .where(_edit.dataset == _dataset.id)
    .order_by(_edit.seq.desc())
    .limit(1)
    .correlate(tables.dataset)
    .scalar_subquery()
)
_version = tables.version.c
_DATASETS: Select[Any] = select(
    *FACTS,
    _LAST_EDIT.label("edits"),
    func.coalesce(_version.number, 1).label("version"),
    _version.earlier.label("extends"),
    _version.first.label("origin"),
).outerjoin(tables.version, _version.dataset == _dataset.id)

_GET = _DATASETS.where(_dataset.id == bindparam("wanted"))
_GET_MANY = _DATASETS.where(_dataset.id.in_(bindparam("wanted", expanding=True)))
_BY_NAME = _DATASETS.where(_dataset.name == bindparam("wanted"), text("dataset.status = 'active'"))
_NUMBER = func.coalesce(_version.number, 1)
_THERE = _dataset.status != DatasetStatus.DELETED.value
_VERSIONS = (
    select(
        _dataset.id,
        _dataset.name,
        _NUMBER.label("version"),
        _dataset.rows,
        _dataset.created_by,
        _dataset.created_at,
    )
    .outerjoin(tables.version, _version.dataset == _dataset.id)
    .where((_dataset.id == bindparam("of")) | (_version.first == bindparam("of")), _THERE)
    .order_by(_NUMBER.desc())
)
_NEXT = (
    select(_version.dataset)
    .join(tables.dataset, _dataset.id == _version.dataset)
    .where(_version.earlier == bindparam("wanted"), _THERE)
)
_LAST_VERSION = select(func.coalesce(func.max(_version.number), 1)).where(
    _version.first == bindparam("of")
)
_ALL_OF = _DATASETS.where(_dataset.account == bindparam("of")).order_by(_dataset.number)
_FIRST_OF = _ALL_OF.limit(1)
_FIRSTS_OF = _DATASETS.where(
    _dataset.number.in_(
        select(func.min(_dataset.number))
        .where(_dataset.account.in_(bindparam("of", expanding=True)))
        .group_by(_dataset.account)
    )
)
_WITHOUT_ROWS = select(_dataset.id).where(_dataset.status != DatasetStatus.ACTIVE.value)
_DELETED = select(_dataset.id).where(_dataset.status == DatasetStatus.DELETED.value)
_RELEASED = select(tables.release.c.id).where(tables.release.c.dataset == bindparam("of")).limit(1)
_LINEAGES = (
    select(
        _dataset.number,
        _dataset.id.label("dataset"),
        _dataset.account,
        _dataset.created_by.label("person"),
        tables.lineage.c.sha256,
    )
    .outerjoin(tables.lineage, tables.lineage.c.dataset == _dataset.id)
    .where(_dataset.number > bindparam("after"), _THERE)
    .order_by(_dataset.number)
    .limit(bindparam("most"))
)
_entry = tables.entry.c
_MANIFEST = select(_entry.fingerprint).where(
    _entry.account == SYSTEM_ACCOUNT,
    _entry.kind == MANIFEST_KEPT,
    _entry.note == bindparam("of"),
    text(tables.ACTS),
)
_ARCHIVE = (
    update(tables.dataset)
    .where(_dataset.id == bindparam("wanted"), _dataset.status == DatasetStatus.ACTIVE.value)
    .values(status=DatasetStatus.ARCHIVED.value, archived_at=bindparam("at"))
)
_DELETE = (
    update(tables.dataset)
    .where(_dataset.id == bindparam("wanted"), _THERE)
    .values(
        status=DatasetStatus.DELETED.value,
        archived_at=func.coalesce(_dataset.archived_at, bindparam("at")),
    )
)


_ROW_BYTES = 1_024
_SIZE = func.length(_dataset.spec) + func.coalesce(func.length(_LAST_EDIT), 0) + _ROW_BYTES
"""What is shown of a data set, in bytes: it is not longer than its spec and a little more."""


class DatasetPage(NamedTuple):
    """Some data sets of a list, newest first, and whether there are more after them."""

    records: tuple[DatasetRecord, ...]
    more: bool


class DatasetName(NamedTuple):
    """What a data set is called, and what has become of it."""

    id: str
    account: str
    name: str
    status: str


_SORTED: Mapping[str, ColumnElement[Any]] = {"name": _dataset.sorts_as}
"""What lists may be sorted by but their numbers: each has an index."""


def _below(
    query: Select[Any],
    before: int | None,
    hidden: Collection[str] = (),
    words: Sequence[str] = (),
    status: DatasetStatus | None = None,
) -> Select[Any]:
    """Return a query of data sets, newest first, whose number is below ``before``.

    With ``words``, those whose name has each of them; with ``status``, those in that one.
    """
    found = query.order_by(_dataset.number.desc())
    if hidden:
        found = found.where(is_seen(_dataset.account, hidden))
    if status is not None:
        found = found.where(_dataset.status == status.value)
    for word in words:
        found = found.where(has_word(word, _dataset.name))
    return found if before is None else found.where(_dataset.number < before)


class Datasets:
    """Data sets by id, by name, or newest first."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, dataset: str) -> DatasetRecord | None:
        """Return the data set, or None."""
        return _record(self._connection.execute(_GET, {"wanted": dataset}).one_or_none())

    def get_all(self, datasets: Collection[str]) -> Mapping[str, DatasetRecord]:
        """Return those of some data sets that there are, by their ids."""
        rows = self._connection.execute(_GET_MANY, {"wanted": [*datasets]})
        return {row.id: dataset_of(row) for row in rows}

    def by_name(self, name: str) -> DatasetRecord | None:
        """Return the data set of this name that is not archived, or None."""
        return _record(self._connection.execute(_BY_NAME, {"wanted": name}).one_or_none())

    def list(
        self, *, before: int | None = None, limit: int = 100, hidden: Collection[str] = ()
    ) -> tuple[DatasetRecord, ...]:
        """Return data sets, newest first, whose number is below ``before``.

        Those of ``hidden`` accounts are left out.
        """
        query = _below(_DATASETS, before, hidden).limit(limit)
        return tuple(dataset_of(row) for row in self._connection.execute(query))

    def page(
        self,
        *,
        span: Span,
        most_bytes: int,
        hidden: Collection[str] = (),
        words: Sequence[str] = (),
        status: DatasetStatus | None = None,
    ) -> DatasetPage:
        """Return data sets of a span, limited to a number of bytes, but at least one.

        With ``words``, those whose name has each of them; with ``status``, those in that one. They
        are sorted by ``name`` where the span says so. Lengths are asked for first, so no more than
        that is read.
        """

        def query(columns: Select[Any], limit: int) -> Select[Any]:
            listed = _below(columns, None, hidden, words, status)
            own = replace(span, limit=limit)
            return spanned(self._connection, listed, own, _dataset.number, _SORTED.get(span.by))

        sizes = self._connection.execute(query(select(_SIZE), span.limit + 1))
        found = sizes.scalars().all()
        shown = min(fitting(found, most_bytes), span.limit)
        rows = self._connection.execute(query(_DATASETS, shown))
        return DatasetPage(tuple(map(dataset_of, rows)), more=shown < len(found))

    def named(
        self, words: Sequence[str], *, newest: int, limit: int, hidden: Collection[str] = ()
    ) -> Iterator[DatasetRecord]:
        """Yield the newest data sets whose id, name, spec or edits have every word in them.

        Only the ``newest`` data sets of all are searched, and none after the last one that is
        wanted; those of ``hidden`` accounts are left out.
        """
        query = _below(_DATASETS, None, hidden).where(are_newest(_dataset.number, newest))
        for word in words:
            edits = func.coalesce(_LAST_EDIT, "")
            query = query.where(has_word(word, _dataset.id, _dataset.name, _dataset.spec, edits))
        with self._connection.execute(query.limit(limit)) as rows:
            yield from map(dataset_of, rows)

    def names(self, datasets: Collection[str]) -> Mapping[str, str]:
        """Return the names of data sets by their ids."""
        query = select(_dataset.id, _dataset.name).where(_dataset.id.in_(sorted(datasets)))
        return {row.id: row.name for row in self._connection.execute(query)}

    def newest(self, limit: int, hidden: Collection[str] = ()) -> Sequence[DatasetName]:
        """Return what the newest data sets are called."""
        columns = (_dataset.id, _dataset.account, _dataset.name, _dataset.status)
        rows = self._connection.execute(_below(select(*columns), None, hidden).limit(limit))
        return [DatasetName(*row) for row in rows]

    def without_rows(self) -> frozenset[str]:
        """Return the ids of all data sets that have been archived or deleted."""
        return frozenset(self._connection.execute(_WITHOUT_ROWS).scalars())

    def deleted(self) -> frozenset[str]:
        """Return the ids of all data sets that have been deleted."""
        return frozenset(self._connection.execute(_DELETED).scalars())

    def require_unreleased(self, dataset: str) -> None:
        """Pass for a data set that never had a release, nor a reservation for one.

        Raises
        ------
        Problem
            ``dataset-has-releases``.
        """
        if self._connection.execute(_RELEASED, {"of": dataset}).first() is not None:
            raise Problem("dataset-has-releases")

    def first_of(self, account: str) -> DatasetRecord | None:
        """Return the data set that an account was opened for, or None."""
        return _record(self._connection.execute(_FIRST_OF, {"of": account}).one_or_none())

    def firsts_of(self, accounts: Collection[str]) -> Mapping[str, DatasetRecord]:
        """Return what :meth:`first_of` does of some accounts, by their ids: those that have one."""
        rows = self._connection.execute(_FIRSTS_OF, {"of": [*accounts]})
        return {row.account: dataset_of(row) for row in rows}

    def of_account(self, account: str) -> tuple[DatasetRecord, ...]:
        """Return the data sets that share an account, in the order they were made."""
        rows = self._connection.execute(_ALL_OF, {"of": account})
        return tuple(dataset_of(row) for row in rows)

    def is_closed(self, account: str) -> bool:
        """Return whether all data sets of an account are deleted; not where it never had any."""
        records = self.of_account(account)
        return bool(records) and all(each.status is DatasetStatus.DELETED for each in records)

    def next_version(self, first: str) -> int:
        """Return the number that the next version of a data set gets."""
        return int(self._connection.execute(_LAST_VERSION, {"of": first}).scalar_one()) + 1

    def versions(self, first: str) -> tuple[VersionRecord, ...]:
        """Return a data set that extends none, and all its versions, newest first."""
        rows = self._connection.execute(_VERSIONS, {"of": first})
        return tuple(VersionRecord(**row._mapping) for row in rows)

    def require_newest(self, dataset: str) -> None:
        """Pass for a data set that has not been extended.

        Raises
        ------
        Problem
            ``newer-version``.
        """
        newer = self._connection.execute(_NEXT, {"wanted": dataset}).scalar_one_or_none()
        if newer is not None:
            raise Problem("newer-version", newer=newer)

    def manifest(self, dataset: str) -> str | None:
        """Return the SHA-256 of a data set's manifest; None for those of earlier versions."""
        return self._connection.execute(_MANIFEST, {"of": dataset}).scalar_one_or_none()

    def lineages(self, *, after: int = 0, limit: int = 100) -> tuple[LineageRecord, ...]:
        """Return where the rows' digests are, of data sets numbered above ``after``, in order."""
        rows = self._connection.execute(_LINEAGES, {"after": after, "most": limit})
        return tuple(LineageRecord(**row._mapping) for row in rows)


class DatasetsWriter(Datasets):
    """Registering data sets, archiving and deleting them; the system account records all three."""

    __slots__ = ("_accounts",)

    def __init__(self, connection: Connection, accounts: AccountsWriter) -> None:
        super().__init__(connection)
        self._accounts = accounts

    def insert(
        self,
        *,
        name: str,
        account: str,
        spec: str,
        rows: int | None,
        principal: str,
        id: str | None = None,
        lineage: str | None = None,
        manifest: str | None = None,
        extends: DatasetRecord | None = None,
    ) -> DatasetRecord:
        """Register a data set; ``id`` is given when the vault has stored its rows under it.

        ``lineage`` is the SHA-256 of its rows' digests, ``manifest`` that of the manifest
        of its files: the system account has an entry of each. ``extends`` is the data set of
        which it is the next version.

        Raises
        ------
        Problem
            ``name-taken``, by a data set that is neither archived nor deleted;
            ``newer-version``.
        """
        # Inside the writer's transaction: two uploads that extend the same data set meet here.
        if extends is not None:
            self.require_newest(extends.id)
        if self.by_name(name) is not None:
            raise Problem("name-taken")
        dataset, at = id or new_id("ds"), now()
        self._connection.execute(
            insert(tables.dataset),
            {
                "id": dataset,
                "name": name,
                "account": account,
                "spec": spec,
                "status": DatasetStatus.ACTIVE.value,
                "rows": rows,
                "created_by": principal,
                "created_at": at,
                "archived_at": None,
                "sorts_as": sorts_as(name),
            },
        )
        # Read back, so that the entry binds what the database holds.
        inserted = self._found(dataset)
        self._accounts.system_entry(
            "dataset_created",
            principal=principal,
            fingerprint=inserted.digest,
            note=dataset,
            at=at,
        )
        if manifest is not None:
            self._accounts.system_entry(
                MANIFEST_KEPT, principal=principal, fingerprint=manifest, note=dataset
            )
        if extends is not None:
            self._add_version(dataset, extends, principal)
        if lineage is not None:
            self._connection.execute(
                insert(tables.lineage), {"dataset": dataset, "sha256": lineage}
            )
            self._accounts.system_entry(
                "lineage_kept", principal=principal, fingerprint=lineage, note=dataset
            )
        return self._found(dataset)

    def _add_version(self, dataset: str, earlier: DatasetRecord, principal: str) -> None:
        version = (dataset, earlier.id, earlier.first, self.next_version(earlier.first))
        row = dict(zip(("dataset", "earlier", "first", "number"), version, strict=True))
        self._connection.execute(insert(tables.version), row)
        self._accounts.system_entry(
            EXTENDED, principal=principal, fingerprint=_version_digest(*version), note=dataset
        )

    def edit(self, dataset: str, fields: str, *, principal: str, reason: str) -> DatasetRecord:
        """Put ``fields``, JSON text, in the place of members of a data set's public spec.

        Raises
        ------
        Problem
            ``not-found``.
        """
        self._found(dataset)
        at = now()
        entry = self._accounts.system_entry(
            DATASET_EDITED,
            principal=principal,
            fingerprint=_edit_digest(dataset, fields, principal, reason, at),
            note=f"{dataset}: {reason}",
            at=at,
        )
        row = {
            "seq": entry.seq,
            "dataset": dataset,
            "fields": fields,
            "person": principal,
            "reason": reason,
            "at": entry.at,
        }
        self._connection.execute(insert(tables.dataset_edit), row)
        return self._found(dataset)

    def archive(self, dataset: str, *, principal: str) -> DatasetRecord:
        """Mark a data set archived, once; its account, entries and releases stay.

        Raises
        ------
        Problem
            ``not-found``.
        """
        at = now()
        # Only the call that changes the row writes an entry: archiving again is no event.
        changed = self._connection.execute(_ARCHIVE, {"wanted": dataset, "at": at})
        if changed.rowcount == 1:
            self._accounts.system_entry(
                "dataset_archived", principal=principal, note=dataset, at=at
            )
        return self._found(dataset)

    def delete(self, dataset: str, *, principal: str) -> DatasetRecord:
        """Mark a data set deleted, once; its account and entries stay.

        Raises
        ------
        Problem
            ``not-found``; ``dataset-has-releases``; ``newer-version``.
        """
        # No release comes between looking and marking: charges wait for the account.
        self._accounts.lock(self._found(dataset).account)
        self.require_unreleased(dataset)
        self.require_newest(dataset)
        at = now()
        if self._connection.execute(_DELETE, {"wanted": dataset, "at": at}).rowcount == 1:
            self._accounts.system_entry(DATASET_DELETED, principal=principal, note=dataset, at=at)
        return self._found(dataset)

    def _found(self, dataset: str) -> DatasetRecord:
        found = self.get(dataset)
        if found is None:
            raise Problem("not-found")
        return found


def _edit_digest(*parts: str) -> str:
    return digest_of("release-desk edit 1", *parts)


def edit_faults(connection: Connection, recorded: Mapping[int, str | None]) -> Iterator[str]:
    """Fault edits that are not as the ledger notes: ``recorded`` are digests, by entry."""
    left = dict(recorded)
    for row in connection.execute(select(tables.dataset_edit).order_by(_edit.seq)):
        digest = _edit_digest(row.dataset, row.fields, row.person, row.reason, row.at)
        if left.pop(row.seq, None) != digest:
            yield f"data set {shown(row.dataset)}: an edit has been edited"
    for seq in sorted(left):
        yield f"account {SYSTEM_ACCOUNT}, entry {seq}: its edit is missing"


def version_faults(
    connection: Connection, recorded: Mapping[str, tuple[str, str, str | None]]
) -> Iterator[str]:
    """Fault versions that are not as the ledger notes: ``recorded`` are its entries, by note."""
    left = {name: digest for name, (_, _, digest) in recorded.items()}
    for row in connection.execute(select(tables.version).order_by(_version.dataset)):
        if left.pop(row.dataset, None) != _version_digest(*row):
            yield f"data set {shown(row.dataset)}: what it extends has been edited"
    for name in sorted(left):
        yield f"account {SYSTEM_ACCOUNT}: the version that is data set {shown(name)} is missing"


def _version_digest(dataset: str, earlier: str, first: str, number: int) -> str:
    return digest_of("release-desk version 1", dataset, earlier, first, number)


def _record(row: Row[Any] | None) -> DatasetRecord | None:
    return None if row is None else dataset_of(row)


def dataset_of(row: Row[Any]) -> DatasetRecord:
    """Return the data set a row of the table holds."""
    return DatasetRecord(**{**row._mapping, "status": DatasetStatus(row.status)})
