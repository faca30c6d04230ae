"""Files in folders of this machine, below a root that no name leads out of.

A path is walked folder by folder, each opened inside the one before, and no symbolic link is
followed: neither at the end nor on the way. So it does not matter what is renamed or linked
during the reading: what is opened was below the root, by names alone. The root's own path is the
operator's, and links on the way to it are followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import polars as pl

from app.domain import sources
from app.domain.sources import Partitions, Path, Source, meets
from app.uploads.moments import Points
from app.uploads.sources.places import (
    ABSENT,
    DENIED,
    EMPTY,
    NO_TEXT,
    Look,
    too_many,
    unreadable,
)
from app.uploads.trouble import OTHER_COLUMNS, UnreadableError
from mechanisms.words import header_text

# Which columns the files of one upload have: the same in all of them


class Layout:
    """The columns of the file that is being read: its own, and those that its folders give.

    ``points`` notices numbers of all files that may be thousands. The reader of the file sets
    ``place``, which says how many of its bytes have been read.
    """

    def __init__(self) -> None:
        self.partitions: Partitions = {}
        self.points: Points | None = None
        self.place: Callable[[], int] = lambda: 0
        self._earlier_bytes = 0
        self._first: tuple[object, ...] | None = None
        self._kinds: Mapping[str, str] = {}

    def begin(self, partitions: Partitions) -> None:
        """Begin another file."""
        self.partitions = partitions
        self._earlier_bytes = self.read_bytes
        self.place = lambda: 0

    @property
    def read_bytes(self) -> int:
        """Return about how many bytes of all files have been read."""
        return self._earlier_bytes + self.place()

    def require_same(self, kind: str, names: Sequence[str]) -> None:
        """Check that this file is of the first one's kind, and has its columns in its order.

        Raises
        ------
        UnreadableError
            It has others.
        """
        self.partitions = {key: value for key, value in self.partitions.items() if key not in names}
        own = kind, tuple(names), tuple(self.partitions)
        self._first = self._first or own
        if own != self._first:
            raise UnreadableError(OTHER_COLUMNS)

    def of_other_kinds(self, kinds: Mapping[str, str]) -> Sequence[str]:
        """Return the columns whose cells are of another kind than in the first file."""
        self._kinds = self._kinds or kinds
        return [name for name, kind in kinds.items() if self._kinds[name] != kind]

    def all_of(self, names: Sequence[str]) -> list[str]:
        """Return a file's own columns, and those that its folders give."""
        return [*names, *self.partitions]

    def named(self, names: Sequence[str], headers: Mapping[str, str]) -> list[str]:
        """Return what a file's own columns are called: as declared, where they are.

        ``headers`` are the texts of declared columns. An undeclared column is called
        otherwise where it has the name of one that is declared of another header. From here on
        the file's folders give columns by those names too.
        """
        declared = {header: name for name, header in headers.items()}

        def name(header: str) -> str:
            found = declared.get(header_text(header))
            if found is not None:
                return found
            return f"\0{header}" if header in headers else header

        self.partitions = {name(key): value for key, value in self.partitions.items()}
        return [name(header) for header in names]

    def completed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return some rows with the columns that the folders give, as texts."""
        if not self.partitions:
            return frame
        return frame.with_columns(
            pl.lit(value, dtype=pl.String).alias(name) for name, value in self.partitions.items()
        )


# Files in folders of this machine, below a root that no name leads out of

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# not blocking: to open a pipe waits for who writes to it
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_LOOKED_AT = 100
"""Names that are looked at, for each file that there may be."""
_DEEPEST = 64  # each folder on the way is held open
_PIECE_BYTES = 1 << 22
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM)


class Folders:
    """The files of a source in folders."""

    def __init__(self, source: Source) -> None:
        self._source = source
        root = "/" + "/".join(source.root.path)
        with _told():
            self._root = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
        self._left = _MOST_LOOKED_AT * source.max_files

    def found(self) -> Mapping[Path, int]:
        """Return the source's files in order, and their sizes; see :class:`Place`."""
        if self._source.is_one_file:
            return {self._source.pattern: 0}
        self._left = _MOST_LOOKED_AT * self._source.max_files
        found: dict[Path, int] = {}
        with _told():
            for path, size in self._below(self._root, ()):
                found[path] = size
                if len(found) > self._source.max_files:
                    raise too_many(self._source.max_files)
        if not found:
            raise unreadable(EMPTY)
        return dict(sorted(found.items()))

    def opened(self, path: Path) -> FolderFile:
        """Open one of them; see :class:`Place`."""
        with _told():
            return FolderFile(self._root, path, _opened(self._root, path))

    def close(self) -> None:
        """Be done with it."""
        os.close(self._root)

    def _below(self, folder: int, path: Path) -> Iterator[tuple[Path, int]]:
        """Yield the files below a folder that the pattern stands for, and their sizes."""
        pattern = self._source.pattern
        for entry in self._entries(folder):
            inner = (*path, entry.name)
            fits, may_hold = meets(pattern, inner), sources.may_hold(pattern, inner)
            if entry.is_symlink() and (fits or may_hold):
                raise unreadable(ABSENT)
            if not entry.is_dir(follow_symlinks=False):
                if fits:
                    yield inner, entry.stat(follow_symlinks=False).st_size
            elif may_hold and len(inner) <= _DEEPEST:
                yield from self._inside(folder, inner)

    def _inside(self, folder: int, path: Path) -> Iterator[tuple[Path, int]]:
        inner = os.open(path[-1], _FOLDER, dir_fd=folder)
        try:
            yield from self._below(inner, path)
        finally:
            os.close(inner)

    def _entries(self, folder: int) -> Iterator[os.DirEntry[str]]:
        with os.scandir(folder) as entries:
            for entry in entries:
                self._left -= 1
                if self._left < 0:
                    raise too_many(self._source.max_files)
                yield entry


class FolderFile:
    """A file that has been opened; its name may mean another one by now."""

    etag = None

    def __init__(self, root: int, path: Path, descriptor: int) -> None:
        self._root = root
        self.path = path
        self.descriptor = descriptor
        self.look = _look_of(descriptor)

    def pieces(self) -> Iterator[bytes]:
        """Yield all of its bytes."""
        place = 0
        with _told():
            while piece := os.pread(self.descriptor, _PIECE_BYTES, place):
                place += len(piece)
                yield piece

    def look_again(self) -> Look:
        """Return what the file of this name looks like now; see :class:`Opened`."""
        with _told():
            again = _opened(self._root, self.path)
            try:
                return _look_of(again)
            finally:
                os.close(again)

    def close(self) -> None:
        """Be done with it."""
        os.close(self.descriptor)


def _opened(root: int, path: Path) -> int:
    """Open a regular file below a folder, by names alone."""
    _check_text(path)
    folder = os.dup(root)
    try:
        for name in path[:-1]:
            inner = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        found = os.open(path[-1], _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise unreadable(ABSENT)
    return found


def _check_text(path: Path) -> None:
    try:
        "/".join(path).encode()
    except UnicodeEncodeError:
        raise unreadable(NO_TEXT) from None


def _look_of(descriptor: int) -> Look:
    seen = os.fstat(descriptor)
    mark = f"{seen.st_dev} {seen.st_ino} {seen.st_mtime_ns} {seen.st_ctime_ns}"
    return Look(seen.st_size, mark)


@contextmanager
def _told() -> Iterator[None]:
    """Report failures of files in fixed words; a failure of the disk stays an error."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise unreadable(ABSENT) from None
        if error.errno in _NOT_ALLOWED:
            raise unreadable(DENIED) from None
        raise
