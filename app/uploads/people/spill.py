"""Rows sorted by person into groups that fit in memory: a hash partition on disk.

Rows arrive in the order of the file and stay in that order within a group; all rows of a person
are in one group, chosen by bits of the person's digest. Up to :data:`_HELD_BYTES` are held in
memory as one group. Beyond that each group is a file of its own, which is gone once it has been
read.

*Memory.* A group is about 1/256 of the rows, wherever no person has a large part of all. So 10**7
rows of 100 columns, 4 GB, are read 16 MB at a time. A group of more than
:data:`_MOST_GROUP_BYTES` is refused: it is one person's, or the upload is beyond 10**11 cells.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.uploads.people.wire import WORDS, Words, digests_of
from app.uploads.trouble import too_large
from app.vault.waiting import private

GROUPS = 256
_HELD_BYTES = 1 << 26
_MOST_GROUP_BYTES = 1 << 29


class Spill:
    """Takes rows of words in; then yields them by groups of people.

    Parameters
    ----------
    directory
        Where the groups' files are made, in a directory of their own.
    width
        Words in a row; the last ones are the person's digest.
    held_bytes
        How much is held in memory.
    """

    def __init__(self, directory: Path, width: int, *, held_bytes: int = _HELD_BYTES) -> None:
        self._directory = directory / "people"
        self._width = width
        self._held_bytes = held_bytes
        self._held: list[Words] = []
        self._bytes = 0
        self._spilled = False

    def add(self, rows: Words) -> None:
        """Take in some rows, of shape (n, width)."""
        self._held.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._held_bytes:
            self._write()

    def groups(self) -> Iterator[Words]:
        """Yield the rows of each group, of shape (n, width), once; empty ones are left out.

        Raises
        ------
        Problem
            ``too-large``: a person has too many rows.
        """
        try:
            if self._spilled:
                self._write()
                for place in range(GROUPS):
                    if (path := self._path(place)).exists():
                        yield self._read(path)
            elif self._held:
                yield self._taken()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _taken(self) -> Words:
        rows = np.concatenate([np.zeros((0, self._width), dtype=np.int32), *self._held])
        self._held, self._bytes = [], 0
        return rows

    def _write(self) -> None:
        """Append what is held to the files of its groups."""
        self._spilled = True
        self._directory.mkdir(mode=0o700, exist_ok=True)
        rows = self._taken()
        place = (digests_of(rows[:, -WORDS:])[:, 0] % np.uint64(GROUPS)).astype(np.intp)
        rows = rows[np.argsort(place, kind="stable")]
        for group, own in enumerate(_runs(rows, np.bincount(place, minlength=GROUPS).tolist())):
            if len(own):
                with open(self._path(group), "ab", opener=private) as file:
                    file.write(own.tobytes())

    def _read(self, path: Path) -> Words:
        if path.stat().st_size > _MOST_GROUP_BYTES:
            raise too_large("most bytes of a group of people", _MOST_GROUP_BYTES)
        rows = np.fromfile(path, dtype=np.int32).reshape(-1, self._width)
        path.unlink()
        return rows

    def _path(self, group: int) -> Path:
        return self._directory / f"{group:02x}"


def _runs(rows: Words, sizes: Sequence[int]) -> Iterator[NDArray[np.int32]]:
    start = 0
    for size in sizes:
        yield rows[start : start + size]
        start += size
