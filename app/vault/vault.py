"""Where the rows of data sets lie: numbered Parquet parts, a manifest, sketch files.

::

    datasets/<id>/manifest.json        facts, and everything below with its size and SHA-256
    datasets/<id>/part-00000.parquet   at most 2**18 rows of integer codes
    datasets/<id>/attached.bin         whatever the engine attached, one after the other
    staging/<id>-<random>/             uploads in progress, and scratch files
    stale/<id>-<random>/               data sets that the database does not know

A data set is written in staging, by whatever process takes the upload in, and
flushed to disk; then it becomes visible by one rename, so a crash at any
instant leaves either all of it or nothing. It never changes afterwards
(:mod:`app.vault.stored`).

One that extends another starts with links to that one's parts: nothing is written
again, and each of the two can be read, or erased, without the other.

What is attached is in one file, since a thousand files would be flushed one by one.

The vault knows bytes and arrays, not what they mean.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.vault.stored import (
    AbsentError,
    Attached,
    OutdatedError,
    StoredDataset,
    StoredFile,
    StoredPart,
    StoredPiece,
    TamperedError,
    VaultError,
    discard,
    flush,
    private,
    staged,
    trouble_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_PART_ROWS = 1 << 18
MANIFEST = "manifest.json"
ATTACHED = "attached.bin"
STALE = "stale"
MANIFEST_VERSION = 3
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
"""How file systems say that they have no links, or no more of them."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")


@dataclass(slots=True)
class VaultWriter:
    """An upload in progress; ``directory`` is its own, for scratch files too.

    Those that have been ``left`` go when it ends.
    """

    id: str
    directory: Path
    parts: list[StoredPart] = field(default_factory=list)
    attached: dict[str, StoredPiece] = field(default_factory=dict)
    left: list[Path] = field(default_factory=list)
    _attached_bytes: int = 0

    def build_on(self, earlier: Sequence[StoredPart]) -> None:
        """Start with the parts of an earlier data set, which are linked, or else copied.

        Raises
        ------
        UnreadableError, TamperedError
            The system does not give one, or it is gone.
        """
        for part in earlier:
            path = self.directory / f"part-{len(self.parts):05d}.parquet"
            try:
                _linked(part.file.path, path)
            except OSError as error:
                raise trouble_of(part.file.path.name, error) from None
            self.parts.append(StoredPart(replace(part.file, path=path), part.rows))

    def write(self, block: Mapping[str, NDArray[Any]]) -> StoredPart:
        """Write the next part and flush it to disk.

        Raises
        ------
        ValueError
            The block is empty or has more than 2**18 rows.
        """
        import polars as pl  # noqa: PLC0415 - as above

        rows = len(next(iter(block.values())))
        if not 1 <= rows <= MAX_PART_ROWS:
            raise ValueError("a part has 1 to 2**18 rows")
        buffer, frame = io.BytesIO(), pl.DataFrame(dict(block))
        # a higher level takes longer and makes codes hardly shorter
        frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False)
        name = f"part-{len(self.parts):05d}.parquet"
        # A view that an error keeps alive would make the buffer complain when it goes.
        with buffer.getbuffer() as content:
            path = self.directory / name
            _write_durably(path, content)
            file = StoredFile(path, len(content), hashlib.sha256(content).hexdigest())
        self.parts.append(StoredPart(file, rows))
        return self.parts[-1]

    def start_over(self) -> None:
        """Go on in a directory of its own; a process may still write to the one before."""
        self.left.append(self.directory)
        self.directory = staged(self.directory.parent, self.id)

    def attach(self, name: str, content: bytes) -> None:
        """Store one more run of bytes next to the parts; :meth:`finish` flushes them all."""
        path = self.directory / ATTACHED
        with open(path, "ab", opener=private) as file:
            file.write(content)
        run = StoredFile(path, len(content), hashlib.sha256(content).hexdigest())
        self.attached[_checked_name(name)] = StoredPiece(run, self._attached_bytes)
        self._attached_bytes += run.size

    def finish(self, facts: Mapping[str, object]) -> None:
        """Write the manifest, and have everything on disk before this returns."""
        if self.attached:
            flush(self.directory / ATTACHED)
        manifest = json.dumps(self._manifest(facts), allow_nan=False).encode()
        _write_durably(self.directory / MANIFEST, memoryview(manifest))
        flush(self.directory)

    def _manifest(self, facts: Mapping[str, object]) -> dict[str, object]:
        return {
            "version": MANIFEST_VERSION,
            "id": self.id,
            "rows": sum(part.rows for part in self.parts),
            "facts": dict(facts),
            "parts": [
                {**_entry(part.file.path.name, part.file), "rows": part.rows} for part in self.parts
            ],
            "attached": [_entry(name, piece.run) for name, piece in self.attached.items()],
        }


class Vault:
    """The data sets below one data directory.

    Parameters
    ----------
    data_dir
        The service's data directory; the vault makes ``datasets`` and
        ``staging`` in it, readable by the service's user alone.
    """

    def __init__(self, data_dir: Path) -> None:
        self._datasets = data_dir / "datasets"
        self._staging = data_dir / "staging"
        for directory in (self._datasets, self._staging):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def writer(self, dataset_id: str) -> Iterator[VaultWriter]:
        """Give a writer for a new data set; what it leaves unpublished is removed."""
        writer = VaultWriter(dataset_id, staged(self._staging, _checked_name(dataset_id)))
        try:
            yield writer
        finally:
            for before in writer.left:
                discard(before)
            shutil.rmtree(writer.directory, ignore_errors=True)

    def publish(self, writer: VaultWriter) -> None:
        """Make a finished data set visible, durably and all at once.

        Raises
        ------
        VaultError
            It is not finished, or a data set of this id exists.
        """
        if not (writer.directory / MANIFEST).exists():
            raise VaultError("a data set is finished before it is published")
        target = self._datasets / writer.id
        try:
            writer.directory.rename(target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise  # a full disk, say
            raise VaultError("the data set cannot be published under this id") from None
        flush(self._datasets)
        flush(self._staging)
        flush(self._datasets.parent)  # which may have been given the two only just now

    def open(self, dataset_id: str, *, manifest: str | None = None) -> StoredDataset:
        """Return a published data set; its files are checked as they are read.

        Parameters
        ----------
        dataset_id
            Which one.
        manifest
            The SHA-256 that its manifest has; None: it is not known.

        Raises
        ------
        AbsentError
            There is none, or it has been erased.
        TamperedError
            The manifest is not one, or not this one.
        UnreadableError
            The system does not give it now.
        """
        directory = self._datasets / _checked_name(dataset_id)
        try:
            content = (directory / MANIFEST).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise AbsentError("there is no such data set") from None
        except (OSError, MemoryError) as error:
            raise trouble_of(MANIFEST, error) from None
        if manifest not in (None, hashlib.sha256(content).hexdigest()):
            raise TamperedError("the manifest is not the one that was registered")
        try:
            return _stored_dataset(directory, json.loads(content))
        except (KeyError, TypeError, ValueError):
            raise TamperedError("the manifest cannot be read") from None

    def manifest_digest(self, dataset_id: str) -> str:
        """Return the SHA-256 of a published data set's manifest, which names every other file's.

        Raises
        ------
        VaultError
            It cannot be read.
        """
        try:
            content = (self._datasets / _checked_name(dataset_id) / MANIFEST).read_bytes()
        except OSError as error:
            raise trouble_of(MANIFEST, error) from None
        return hashlib.sha256(content).hexdigest()

    def published(self) -> Sequence[str]:
        """Return the ids of all published data sets, in order."""
        return sorted(directory.name for directory in self._datasets.iterdir())

    def outdated(self) -> Sequence[str]:
        """Return the ids of published data sets that an earlier version stored, in order."""
        found = []
        for name in self.published():
            try:
                self.open(name)
            except OutdatedError:
                found.append(name)
            except VaultError:  # what else is wrong with it is found out when it is used
                continue
        return found

    def erase(self, dataset_id: str) -> None:
        """Remove a data set's files; nothing happens when there is none.

        It disappears by one rename first, so that a crash half-way leaves no
        data set with some of its parts.
        """
        doomed = self._staging / f"{_checked_name(dataset_id)}-{secrets.token_hex(8)}"
        try:
            (self._datasets / dataset_id).rename(doomed)
        except FileNotFoundError:
            return
        flush(self._datasets)
        shutil.rmtree(doomed, ignore_errors=True)
        flush(self._staging)

    def staged(self) -> frozenset[str]:
        """Return the ids of what is in staging: uploads in progress, and what was left."""
        return frozenset(each.name.partition("-")[0] for each in self._staging.iterdir())

    def staged_files(self, name: str) -> Sequence[bytes]:
        """Return what the files of this name hold that uploads in progress have."""
        found = []
        for path in self._staging.glob(f"*/{_checked_name(name)}"):
            with suppress(FileNotFoundError):  # it may be removed at any time
                found.append(path.read_bytes())
        return found

    def unstage(self, dataset_id: str) -> None:
        """Remove a data set's staging; a process that still writes there no longer finds it."""
        for directory in self._staging.glob(f"{_checked_name(dataset_id)}-*"):
            discard(directory)

    def recover(self, *, keep: Collection[str], known: Collection[str]) -> Sequence[str]:
        """Remove what a crash left: staging, and data sets not to ``keep``.

        A data set that is not even ``known`` is moved aside instead, to ``stale``:
        its upload was cut off, or the database is older than it. Returns the
        ids of those.

        For the start of the service only, under its lock on the data directory
        and before it answers anything.
        """
        for directory in list(self._staging.iterdir()):
            shutil.rmtree(directory, ignore_errors=True)
        unknown = [name for name in self.published() if name not in known]
        for name in unknown:
            self._set_aside(name)
        for name in self.published():
            if name not in keep:
                self.erase(name)
        return unknown

    def _set_aside(self, dataset_id: str) -> None:
        stale = self._datasets.with_name(STALE)
        stale.mkdir(mode=0o700, exist_ok=True)
        (self._datasets / dataset_id).rename(stale / f"{dataset_id}-{secrets.token_hex(8)}")
        flush(stale)
        flush(self._datasets)
        flush(stale.parent)


def _stored_dataset(directory: Path, manifest: Mapping[str, Any]) -> StoredDataset:
    if manifest["version"] != MANIFEST_VERSION:
        raise OutdatedError(
            f"the data set {directory.name} was stored in a form of an earlier version; upload it "
            "again into a new data directory"
        )
    if manifest["id"] != directory.name:
        raise ValueError("another manifest")
    parts = tuple(
        StoredPart(_stored_file(directory, entry), int(entry["rows"]))
        for entry in manifest["parts"]
    )
    if sum(part.rows for part in parts) != manifest["rows"]:
        raise ValueError("the rows do not add up")
    attached = _pieces_of(directory, manifest["attached"])
    return StoredDataset(
        id=manifest["id"],
        rows=manifest["rows"],
        facts=manifest["facts"],
        parts=parts,
        attached=attached,
    )


def _pieces_of(directory: Path, entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Attached]:
    path, start = directory / ATTACHED, 0
    found: dict[str, Attached] = {}
    for entry in entries:
        run = StoredFile(path, entry["size"], entry["sha256"])
        found[entry["file"]] = StoredPiece(run, start)
        start += run.size
    return found


def _stored_file(directory: Path, entry: Mapping[str, Any]) -> StoredFile:
    return StoredFile(directory / _checked_name(entry["file"]), entry["size"], entry["sha256"])


def _entry(name: str, file: StoredFile) -> dict[str, object]:
    return {"file": name, "size": file.size, "sha256": file.sha256}


def _checked_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise AbsentError("not a name the vault could hold")
    return name


def _linked(source: Path, path: Path) -> None:
    """Have a file under another name too; where there are no hard links, as a copy on disk."""
    try:
        path.hardlink_to(source)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy(source, path)  # with its mode
        flush(path)


def _write_durably(path: Path, content: memoryview) -> None:
    with open(path, "xb", opener=private) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
