"""Lineage: the digests of every upload's rows, kept when the rows are erased.

::

    lineage/key             32 random bytes, for the service's user alone
    lineage/<id>.digests    what :mod:`app.uploads.row_digests` made of a data set
    lineage/<id>.account    whose they are, as JSON: see :class:`Origin`
    lineage/index/*.run     the digests of many data sets in order, made again when they are lost:
                            see :mod:`app.uploads.digest_index`

A digest file's SHA-256 is in the database and in an entry of the system account, and
names its key, so a file that is gone, altered or made under another key is noticed.
The account is in the database too, and next to the digests for the case that an older
database is restored: forgotten people are then still identified.
Nothing here is ever erased by the service but the file of an upload that was
refused or was cut off. Back the directory up with the database: without the key, uploads can
no longer be compared with earlier data.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from app.vault.stored import StoredFile, VaultError, flush, trouble_of

KEY_BYTES = 32
_DIGESTS, _ACCOUNT = ".digests", ".account"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The account of a data set, and what is fixed with it: its adjacency, and delta or None."""

    account: str
    adjacency: str
    delta: str | None

    def to_text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Origin | None:
        """Return what was written, None where it cannot be read."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError):
            return None


class LineageFiles:
    """The digests below one data directory.

    Parameters
    ----------
    data_dir
        The service's data directory; ``lineage`` is made in it.
    """

    def __init__(self, data_dir: Path) -> None:
        self.directory = data_dir / "lineage"
        self.index = self.directory / "index"

    def key(self) -> bytes:
        """Return the secret that digests are made under; the first call makes it.

        Raises
        ------
        VaultError
            There is a key file that is no key.
        """
        file = self.directory / "key"
        if not file.exists():
            # linked into place whole: two processes that start at once agree on one
            with suppress(FileExistsError):
                self._put("key", secrets.token_bytes(KEY_BYTES))
        key = file.read_bytes()
        if len(key) != KEY_BYTES:
            raise VaultError("lineage/key is not a key of 32 bytes")
        return key

    def keep(self, dataset: str, content: bytes, origin: Origin) -> str:
        """Store a data set's digests and origin durably, and return the digests' SHA-256."""
        # First whose they are: digests of unknown people would stop all uploads.
        self._put(f"{dataset}{_ACCOUNT}", origin.to_text().encode())
        self._put(self._file(dataset).name, content)
        return hashlib.sha256(content).hexdigest()

    def kept(self) -> Sequence[str]:
        """Return the data sets whose digests are there, registered or not."""
        return sorted(file.stem for file in self.directory.glob(f"*{_DIGESTS}"))

    def sha256_of(self, dataset: str) -> str:
        """Return the SHA-256 of a data set's digests as they are now."""
        return hashlib.sha256(self._file(dataset).read_bytes()).hexdigest()

    def origin(self, dataset: str) -> Origin | None:
        """Return whose digests these are, None where it is unknown.

        Raises
        ------
        UnreadableError
            The system does not give the file now.
        """
        try:
            text = (self.directory / f"{dataset}{_ACCOUNT}").read_text("utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        except OSError as error:
            raise trouble_of(f"{dataset}{_ACCOUNT}", error) from None
        return Origin.of_text(text)

    def read(self, dataset: str, sha256: str) -> bytes:
        """Return a data set's digests.

        Raises
        ------
        TamperedError
            They are gone or differ from what was kept.
        UnreadableError
            The system does not give them now.
        """
        file = self._file(dataset)
        try:
            size = file.stat().st_size
        except OSError as error:
            raise trouble_of(file.name, error) from None
        return StoredFile(file, size, sha256).read()

    def forget(self, dataset: str) -> None:
        """Remove the digests of an upload that was refused or cut off, half-written ones too."""
        for file in self.directory.glob(f"{dataset}.*"):
            file.unlink(missing_ok=True)
        # Made again without it. One that is being made at this moment goes with the next
        # comparison.
        for file in self.index.glob("*.run"):
            if dataset.encode() in _first_line(file):
                file.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove files that were cut off while they were written.

        For the start of the service only, under its lock on the data directory.
        """
        whole = (_DIGESTS, _ACCOUNT)
        for file in self.directory.glob("*"):
            if file.name not in ("key", "index") and file.suffix not in whole:
                file.unlink(missing_ok=True)
        for file in self.index.glob("*.part"):
            file.unlink(missing_ok=True)

    def _file(self, dataset: str) -> Path:
        return self.directory / f"{dataset}{_DIGESTS}"

    def _put(self, name: str, content: bytes) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # of mode 0600, and with a name that shows whose it is if it is left
        with tempfile.NamedTemporaryFile(dir=self.directory, prefix=f"{name}-") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            # A link, as a rename would silently replace what is there.
            os.link(file.name, self.directory / name)
        for directory in (self.directory, self.directory.parent):
            flush(directory)


def _first_line(file: Path) -> bytes:
    """Return the first line of a file; nothing if it is gone."""
    try:
        with file.open("rb") as opened:
            return opened.readline()
    except FileNotFoundError:
        return b""
