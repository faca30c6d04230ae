"""What reconciliations have left: data sets that a database has forgotten, and their accounts.

A database that is put in place of a newer one knows nothing of the data sets
uploaded since; their people have been spent on all the same. A reconciliation
opens their accounts again, as the anchor knows of them, and writes down whose
row digests are there without a data set. So the same people are found when they
come back, and belong into the account that was opened again. An account of
which no digests say whose it was, and that no data set has been attached to
since, may belong to any people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from app.store.ledger.entries import SYSTEM
from app.store.unit_of_work import Reader, UnitOfWork
from app.vault.lineage import LineageFiles, Origin

KIND = "lineage_forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A data set that the database does not know: the SHA-256 of its digests, and whose it was."""

    dataset: str
    sha256: str
    origin: Origin | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestHistory:
    """What reconciliations have left.

    Attributes
    ----------
    datasets
        Forgotten data sets whose digests were there; without an origin where that account
        is gone too.
    reopened
        Accounts that were opened again.
    unidentified
        Those of them whose people are unknown.
    """

    datasets: tuple[Forgotten, ...]
    reopened: tuple[str, ...]
    unidentified: tuple[str, ...]

    def accounts_of(self, dataset: Forgotten) -> tuple[str, ...]:
        """Return the accounts that a forgotten data set may be in: its own, or all of them."""
        return self.reopened if dataset.origin is None else (dataset.origin.account,)

    def origin_of(self, account: str) -> Origin | None:
        """Return what is fixed with an account that was opened again, as far as it is known."""
        origins = [each.origin for each in self.datasets if each.origin is not None]
        return next((each for each in origins if each.account == account), None)


def read_digest_history(reader: Reader | UnitOfWork) -> DigestHistory:
    """Return what reconciliations have left."""
    datasets = []
    for entry in reader.entries.of_system(KIND):
        each = _read(entry.note or "", entry.fingerprint or "")
        gone = each.origin is not None and reader.accounts.get(each.origin.account) is None
        # Its account is gone as well, so which of the reopened ones it was in is not known.
        datasets.append(replace(each, origin=None) if gone else each)
    accounts = {each.origin.account for each in datasets if each.origin is not None}
    reopened = reader.accounts.reopened()
    return DigestHistory(
        datasets=tuple(datasets),
        reopened=tuple(reopened),
        unidentified=tuple(
            name for name, empty in reopened.items() if empty and name not in accounts
        ),
    )


def find_forgotten(
    reader: Reader, files: LineageFiles, *, spent: Mapping[str, int]
) -> tuple[Forgotten, ...]:
    """Return the data sets whose digests are there, and that are not recorded yet.

    But for those of accounts that are gone and of which it is known that nothing
    was ever ``spent``: their people may come in as if for the first time.
    """
    known = {each.dataset for each in read_digest_history(reader).datasets}
    found = []
    for name in files.kept():
        if name in known or reader.datasets.get(name) is not None:
            continue
        origin = files.origin(name)
        gone = origin is not None and reader.accounts.get(origin.account) is None
        # Nothing was ever spent on them, so nothing about them has been released.
        if not (gone and origin is not None and spent.get(origin.account) == 0):
            found.append(Forgotten(dataset=name, sha256=files.sha256_of(name), origin=origin))
    return tuple(found)


def record_forgotten(work: UnitOfWork, forgotten: tuple[Forgotten, ...]) -> None:
    """Write down which data sets have been forgotten; the system account keeps it."""
    for each in forgotten:
        origin = None if each.origin is None else asdict(each.origin)
        note = json.dumps({"dataset": each.dataset, "origin": origin})
        work.accounts.system_entry(KIND, principal=SYSTEM, fingerprint=each.sha256, note=note)


def _read(note: str, sha256: str) -> Forgotten:
    said = json.loads(note)
    origin = None if said["origin"] is None else Origin(**said["origin"])
    return Forgotten(dataset=said["dataset"], sha256=sha256, origin=origin)
