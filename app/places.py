"""Where the ledger and its anchor are, as the settings say, and opening them.

A command that only looks at the ledger needs no more of the service than this.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from app.domain.sources import InvalidSourceError, Root, roots_of
from app.engine.choice import NoClusterError, Passes
from app.settings import PREFIX, Settings, SettingsError
from app.store import (
    Anchor,
    FileAnchor,
    FileWitness,
    OutdatedDataError,
    ProgramKey,
    ReceiptKey,
    SigningKey,
    Store,
    StoreError,
    Witness,
    keep_private,
    sqlite_file,
    was_served,
)

if TYPE_CHECKING:
    from app.store.anchor.database import DatabaseAnchor
    from app.vault.vault import Vault

_LOG = logging.getLogger(__name__)


def open_store(settings: Settings) -> Store:
    """Open the store in the settings' data directory, which is made if need be."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    keep_private(settings.data_dir)  # before anything is in it, an anchor inside too
    anchor = open_anchor(settings)
    return Store.open(
        settings.resolved_database_url,
        data_dir=settings.data_dir,
        anchor=anchor,
        key=signing_key(settings),
        replica=_replica(settings),
    )


def require_current(vault: Vault) -> None:
    """Pass for rows that this version reads.

    Raises
    ------
    OutdatedDataError
        An earlier version stored some of them.
    """
    if outdated := vault.outdated():
        raise OutdatedDataError(
            f"an earlier version stored the rows of {len(outdated)} data sets in this data "
            "directory, and this version does not read them. Start with an empty data directory, "
            "and upload the files again"
        )


def _replica(settings: Settings) -> str | None:
    """Return where public pages are read; there is another server than the ledger's own then."""
    if settings.replica_url is None:
        return None
    if sqlite_file(settings.resolved_database_url) is not None:
        raise SettingsError(f"{PREFIX}REPLICA_URL needs a ledger on PostgreSQL")
    return settings.replica_url.get_secret_value()


def signing_key(settings: Settings) -> ReceiptKey | None:
    """Return the key that the operator keeps elsewhere; None where the data directory has it."""
    given, command = settings.signing_key, settings.signer_command
    if command is None:
        return None if given is None else SigningKey.of_pem(given.get_secret_value())
    if given is not None:
        raise StoreError(
            f"{PREFIX}SIGNING_KEY and {PREFIX}SIGNER_COMMAND name a key each: keep one of them"
        )
    return ProgramKey(command)


def open_anchor(settings: Settings) -> Anchor | None:
    """Open the anchor where the settings say, or else next to the data directory.

    Inside it is better than nowhere, but goes back in time with it.
    """
    if sqlite_file(settings.resolved_database_url) is None:
        return _database_anchor(settings)
    directory, place = anchor_place(settings)
    if place != "directory":
        _LOG.warning(
            "the anchor is inside the data directory and goes back in time with it",
            extra={"setting": f"{PREFIX}ANCHOR_DIR"},
        )
    return FileAnchor(directory, place=place)


def shares_device(settings: Settings) -> bool:
    """Return whether the anchor is on the ledger's own disk, as one snapshot of it would be.

    Of an anchor in another database nothing is known.
    """
    database = sqlite_file(settings.resolved_database_url)
    if database is None:
        return False
    return _device_of(anchor_place(settings)[0]) == _device_of(database.parent)


def anchor_witness(settings: Settings) -> Witness | None:
    """Return a reader of the anchor of a running service; None where there can be none.

    Where the settings name one, or a service has had the database, that there is none is a
    finding. A copy, such as a backup, gets one when it is served: until then it is judged alone.
    """
    database = sqlite_file(settings.resolved_database_url)
    if database is None:
        anchor = _database_anchor(settings)
        return None if anchor is None else anchor.witness
    directory, _ = anchor_place(settings)
    expected = settings.anchor_dir is not None or directory.is_dir() or was_served(database)
    return FileWitness(directory) if expected else None


def anchor_place(settings: Settings) -> tuple[Path, str]:
    """Return the anchor's directory, and what kind of place that is, links followed."""
    directory = settings.anchor_dir or _beside_or_inside(settings.data_dir.absolute())
    inside = directory.resolve().is_relative_to(settings.data_dir.resolve())
    return directory, "inside the data directory" if inside else "directory"


def written_directories(settings: Settings) -> Mapping[str, Path]:
    """Return the directories that releases are written to, by what is there."""
    found = {"data directory": settings.data_dir}
    database = sqlite_file(settings.resolved_database_url)
    if database is not None:
        if database.parent.absolute() != settings.data_dir.absolute():
            found["ledger"] = database.parent
        found["anchor"] = anchor_place(settings)[0]
    return found


def source_roots(settings: Settings) -> tuple[Root, ...]:
    """Return the roots of what may be registered by URL.

    Raises
    ------
    SettingsError
        They are none, or the service's own files lie below one.
    """
    try:
        roots = roots_of(settings.source_roots)
    except InvalidSourceError as error:
        raise SettingsError(f"{PREFIX}SOURCE_ROOTS: a root {error}") from None
    if any(root.scheme == "s3" for root in roots) and find_spec("botocore") is None:
        raise SettingsError(f"{PREFIX}SOURCE_ROOTS: a root in a bucket needs the extra `s3`")
    own = [each.resolve() for each in written_directories(settings).values()]
    for root in roots:
        if root.scheme == "file":
            folder = Path("/", *root.path).resolve()
            if any(each.is_relative_to(folder) or folder.is_relative_to(each) for each in own):
                raise SettingsError(f"{PREFIX}SOURCE_ROOTS: the service's own files lie there")
    return roots


def passes_of(settings: Settings) -> Passes:
    """Return where passes over rows are made."""
    key = settings.dask_tls_key
    return Passes(
        processes=settings.executor_processes,
        scheduler=settings.dask_scheduler,
        authority=settings.dask_tls_ca,
        certificate=settings.dask_tls_cert,
        key="" if key is None else key.get_secret_value(),
    )


def require_passes(settings: Settings) -> None:
    """Pass where passes over rows can be made, as far as can be checked beforehand.

    Raises
    ------
    SettingsError
        They cannot.
    """
    try:
        passes_of(settings).require()
    except NoClusterError as error:
        raise SettingsError(f"{PREFIX}DASK_SCHEDULER: {error}") from None


def warn_of_shared_device(settings: Settings) -> None:
    """Say in the log that nothing notices who puts back ledger and anchor together."""
    if shares_device(settings):
        _LOG.warning(
            "the anchor and the ledger share a disk: rolling both back would go undetected",
            extra={"setting": f"{PREFIX}ANCHOR_DIR"},
        )


def _device_of(place: Path) -> int:
    """Return the device of a directory, or of the one that it is going to be made in."""
    there = next(each for each in (place, *place.absolute().parents) if each.exists())
    return there.stat().st_dev


def _beside_or_inside(data: Path) -> Path:
    adjacent, inside = data.with_name(f"{data.name}-anchor"), data / "anchor"
    if adjacent.exists() or (not inside.exists() and os.access(data.parent, os.W_OK)):
        return adjacent
    return inside


def _database_anchor(settings: Settings) -> DatabaseAnchor | None:
    # Imported late: its driver takes longer to load than a command on SQLite does.
    from app.store.anchor.database import DatabaseAnchor  # noqa: PLC0415

    url = settings.anchor_url
    if url is None:
        return None
    return DatabaseAnchor(url.get_secret_value())
