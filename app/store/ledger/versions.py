"""Versions: a data set that holds the rows of an earlier one and more of the same columns.

Each is a data set of its own, and never changes. The system account has an entry for each whose
fingerprint names what it extends and its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, bindparam, insert, select

from app.domain.ledger import SYSTEM_ACCOUNT, digest_of
from app.domain.problems import Problem
from app.store.database import tables
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.ids import shown
from app.store.ledger.records import DatasetRecord

EXTENDED = "dataset_extended"
"""The kind of the system entry whose fingerprint is that of a version, its note the data set."""

_version = tables.version.c
_NEXT = select(_version.dataset).where(_version.earlier == bindparam("wanted"))


def add_version(
    connection: Connection,
    accounts: AccountsWriter,
    dataset: str,
    earlier: DatasetRecord,
    *,
    principal: str,
) -> None:
    """Register a data set as the version after another one.

    Raises
    ------
    Problem
        ``newer-version``: that has been extended.
    """
    newer = connection.execute(_NEXT, {"wanted": earlier.id}).scalar_one_or_none()
    if newer is not None:
        raise Problem("newer-version", newer=newer)
    first, number = earlier.first, earlier.version + 1
    row = {"dataset": dataset, "earlier": earlier.id, "first": first, "number": number}
    connection.execute(insert(tables.version), row)
    digest = _digest(dataset, earlier.id, first, number)
    accounts.system_entry(EXTENDED, principal=principal, fingerprint=digest, note=dataset)


def version_faults(
    connection: Connection, recorded: Mapping[str, tuple[str, str, str | None]]
) -> Iterator[str]:
    """Fault versions that are not as the ledger notes: ``recorded`` are its entries, by note."""
    left = {name: digest for name, (_, _, digest) in recorded.items()}
    for row in connection.execute(select(tables.version).order_by(_version.dataset)):
        if left.pop(row.dataset, None) != _digest(*row):
            yield f"data set {shown(row.dataset)}: what it extends has been edited"
    for name in sorted(left):
        yield f"account {SYSTEM_ACCOUNT}: the version that is data set {shown(name)} is missing"


def _digest(dataset: str, earlier: str, first: str, number: int) -> str:
    return digest_of("release-desk version 1", dataset, earlier, first, number)
