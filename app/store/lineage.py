"""Lineage: the digests of every upload's rows, kept when the rows are erased.

::

    lineage/key             32 random bytes, for the service's user alone
    lineage/<id>.digests    what :mod:`app.engine.row_digests` made of a data set

A file's SHA-256 is in the database and in an entry of the system account, and
names its key, so a file that is gone, altered or made under another key is noticed.
Nothing here is ever erased by the service but the file of an upload that was
refused. Back the directory up with the database: without the key, uploads can
no longer be compared with earlier data.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from app.store.vault import StoredFile, TamperedError, VaultError

KEY_BYTES = 32


class LineageFiles:
    """The digests below one data directory.

    Parameters
    ----------
    data_dir
        The service's data directory; ``lineage`` is made in it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir / "lineage"

    def key(self) -> bytes:
        """Return the secret that digests are made under; the first call makes it.

        Raises
        ------
        VaultError
            There is a key file that is no key.
        """
        file = self._directory / "key"
        if not file.exists():
            # linked into place whole: two processes that start at once agree on one
            with suppress(FileExistsError):
                self._put("key", secrets.token_bytes(KEY_BYTES))
        key = file.read_bytes()
        if len(key) != KEY_BYTES:
            raise VaultError("lineage/key is not a key of 32 bytes")
        return key

    def keep(self, dataset: str, content: bytes) -> str:
        """Store a data set's digests durably, and return their SHA-256."""
        self._put(self._file(dataset).name, content)
        return hashlib.sha256(content).hexdigest()

    def read(self, dataset: str, sha256: str) -> bytes:
        """Return a data set's digests.

        Raises
        ------
        TamperedError
            They are gone or differ from what was kept.
        """
        file = self._file(dataset)
        try:
            size = file.stat().st_size
        except OSError:
            raise TamperedError(f"{file.name} cannot be read") from None
        return StoredFile(file, size, sha256).read()

    def forget(self, dataset: str) -> None:
        """Remove the digests of an upload that was refused."""
        self._file(dataset).unlink(missing_ok=True)

    def _file(self, dataset: str) -> Path:
        return self._directory / f"{dataset}.digests"

    def _put(self, name: str, content: bytes) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._directory) as file:  # mode 0600
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.link(file.name, self._directory / name)
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
