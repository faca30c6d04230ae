"""The interface of a store that holds a source's files, and the messages when one fails.

Files in folders of this machine, below a root that no name leads out of.

A path is walked folder by folder, each opened inside the one before, and no symbolic link is
followed: neither at the end nor on the way. So it does not matter what is renamed or linked
during the reading: what is opened was below the root, by names alone. The root's own path is the
operator's, and links on the way to it are followed.

Objects in a store that speaks S3, below a root that is a bucket or a prefix in it.

The store is asked at the address of the operator's settings and nowhere else: no redirect is
followed, and neither the machine's environment nor its cloud is asked for credentials. Each
object is copied to a file without a name, by ranges of bytes, all of the one content that its
ETag names; so the reader needs no network, and what it reads is what was digested.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path as Directory
from typing import Any, Protocol

import polars as pl

from app.domain import sources
from app.domain.problems import Problem
from app.domain.sources import Partitions, Path, Source, meets
from app.uploads.spellings import Points
from app.uploads.trouble import OTHER_COLUMNS, UnreadableError
from mechanisms.words import header_text

ABSENT = "there is no such file; links are not followed, and a folder is no file"
EMPTY = "no file has such a name"
DENIED = "the service may not read a file or a folder of it"
NO_TEXT = "a file or a folder has a name that is no text"


@dataclass(frozen=True, slots=True)
class Look:
    """What a file looks like from outside; another look means another content.

    ``mark`` is the store's own word for a content: an ETag, or a file's number and times.
    """

    size: int
    mark: str


class Opened(Protocol):
    """A file that stays the same one, whatever becomes of its name."""

    @property
    def path(self) -> Path: ...
    @property
    def look(self) -> Look: ...
    @property
    def etag(self) -> str | None:
        """The object store's own word for the content; None of files in folders."""

    @property
    def descriptor(self) -> int:
        """What reads it from any place."""

    def pieces(self) -> Iterator[bytes]:
        """Yield all of its bytes, from the first on."""

    def look_again(self) -> Look:
        """Return what the file of this name looks like now.

        Raises
        ------
        Problem
            ``source-unreadable``: there is none.
        """

    def close(self) -> None:
        """Be done with it."""


class Place(Protocol):
    """Holds files below one root."""

    def found(self) -> Mapping[Path, int]:
        """Return the paths of the source's files below the root, in order, and their sizes.

        The size is 0 of a file that is not looked up.

        Raises
        ------
        Problem
            ``source-unreadable``; ``too-large``: there are too many.
        """

    def opened(self, path: Path) -> Opened:
        """Open one of them.

        Raises
        ------
        Problem
            ``source-unreadable``; ``too-large``.
        """

    def close(self) -> None:
        """Be done with it."""


def unreadable(reason: str) -> Problem:
    """Return the refusal of a source whose files cannot be had."""
    return Problem("source-unreadable", f"The source cannot be read: {reason}.")


def changed() -> Problem:
    """Return the refusal of a source that was written to while it was read."""
    return Problem("source-changed")


def too_many(most: int) -> Problem:
    """Return the refusal of a source of too many files."""
    return Problem(
        "too-large",
        f"The source has more files than max_source_files ({most}).",
        limit="max_source_files",
        maximum=most,
    )


# Files in folders of this machine, below a root that no name leads out of


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


# Objects in a store that speaks S3, below a root that is a bucket or a prefix in it


_RANGE_BYTES = 1 << 24
_TRIES = 3
_ANONYMOUS = "anonymous"
"""In place of a key where nothing is signed; without one the cloud would be asked for some."""
SILENT = "the object store does not answer as it should"
_REFUSALS: Mapping[int, Callable[[], Problem]] = {
    403: lambda: unreadable(DENIED),
    404: lambda: unreadable(ABSENT),
    412: changed,
    416: changed,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectAccess:
    """Where the store is, and the credentials to use; without a key, requests are anonymous."""

    endpoint: str | None = None
    region: str = "us-east-1"
    key_id: str | None = None
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the access as it is sent to a process of ours."""
        return asdict(self)


class Objects:
    """The files of a source in a store.

    Parameters
    ----------
    source
        Which files.
    access
        How the store is asked.
    scratch
        Where copies are made, of two objects at most at a time.
    """

    def __init__(self, source: Source, access: ObjectAccess, scratch: Directory) -> None:
        self._source = source
        self._scratch = scratch
        self._client = _client(access)
        self._prefix = "".join(f"{each}/" for each in source.root.path)

    def found(self) -> Mapping[Path, int]:
        """Return the source's files in order, and their sizes; see :class:`Place`."""
        if self._source.is_one_file:
            return {self._source.pattern: 0}
        literal = []
        for segment in self._source.pattern:
            if "*" in segment:
                break
            literal.append(f"{segment}/")
        found: dict[Path, int] = {}
        for looked_at, (key, size) in enumerate(self._keys(self._prefix + "".join(literal)), 1):
            path = tuple(key.removeprefix(self._prefix).split("/"))
            if {"", ".", ".."}.isdisjoint(path) and meets(self._source.pattern, path):
                found[path] = size
            most = self._source.max_files
            if len(found) > most or looked_at > _MOST_LOOKED_AT * most:
                raise too_many(most)
        if not found:
            raise unreadable(EMPTY)
        return dict(sorted(found.items()))

    def opened(self, path: Path) -> ObjectFile:
        """Open one of them; see :class:`Place`."""
        key = self._prefix + "/".join(path)
        if not key.isprintable():
            raise unreadable(NO_TEXT)
        about = {"Bucket": self._source.root.bucket, "Key": key}
        return ObjectFile(self._client, about, path, self._scratch)

    def close(self) -> None:
        """Be done with it."""
        self._client.close()

    def _keys(self, prefix: str) -> Iterator[tuple[str, int]]:
        pages = self._client.get_paginator("list_objects_v2")
        with _store_failures_reported():
            for page in pages.paginate(Bucket=self._source.root.bucket, Prefix=prefix):
                for each in page.get("Contents", ()):
                    yield str(each["Key"]), int(each["Size"])


class ObjectFile:
    """An object as it was when it was opened; it is copied when it is first asked for."""

    def __init__(
        self, client: Any, about: Mapping[str, str], path: Path, scratch: Directory
    ) -> None:
        self.path = path
        self._client = client
        self._about = about
        self.look = self.look_again()
        self.etag: str | None = self.look.mark
        self._copy = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115
        self._copied = 0

    @property
    def descriptor(self) -> int:
        """Return what reads the copy."""
        return self._copy.fileno()

    def pieces(self) -> Iterator[bytes]:
        """Yield all of its bytes."""
        place = 0
        while place < self.look.size:
            stop = min(place + _RANGE_BYTES, self.look.size)
            piece = os.pread(self.descriptor, stop - place, place)
            if self._copied <= place:
                piece = self._fetched(place, stop)
                self._copy.write(piece)
                self._copied += len(piece)
            place += len(piece)
            yield piece

    def look_again(self) -> Look:
        """Return what the object of this name looks like now; see :class:`Opened`."""
        with _store_failures_reported():
            found = self._client.head_object(**self._about)
        if not found.get("ETag"):
            raise unreadable(SILENT)
        return Look(found["ContentLength"], found["ETag"])

    def close(self) -> None:
        """Be done with it."""
        self._copy.close()

    def _fetched(self, start: int, stop: int) -> bytes:
        """Return a range of the bytes; what breaks off on the way is asked for again."""
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - of the extra

        wanted = {**self._about, "Range": f"bytes={start}-{stop - 1}", "IfMatch": self.look.mark}
        with _store_failures_reported():
            # the client tries requests again, but no body that breaks off
            for attempt in range(_TRIES):
                try:
                    content: bytes = self._client.get_object(**wanted)["Body"].read()
                except BotoCoreError:
                    if attempt == _TRIES - 1:
                        raise
                else:
                    if len(content) == stop - start:
                        return content
        raise unreadable(SILENT)


def _client(access: ObjectAccess) -> Any:
    from botocore import UNSIGNED  # noqa: PLC0415 - of the extra
    from botocore.config import Config  # noqa: PLC0415
    from botocore.session import Session  # noqa: PLC0415

    options = Config(
        signature_version=UNSIGNED if access.key_id is None else "s3v4",
        s3={"addressing_style": "auto" if access.endpoint is None else "path"},
        proxies={},
        retries={"total_max_attempts": _TRIES, "mode": "standard"},
        connect_timeout=10,
        read_timeout=60,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    session = Session()
    # what the machine has of its own is not the operator's word
    for variable in ("config_file", "credentials_file"):
        session.set_config_variable(variable, os.devnull)
    client = session.create_client(
        "s3",
        region_name=access.region,
        endpoint_url=access.endpoint or f"https://s3.{access.region}.amazonaws.com",
        aws_access_key_id=access.key_id or _ANONYMOUS,
        aws_secret_access_key=access.secret or _ANONYMOUS,
        aws_session_token=access.token,
        config=options,
    )
    client.meta.events.register("before-call.s3", _stay)
    return client


def _stay(context: dict[str, Any], **_: object) -> None:
    """Have the client take a request for one that has been sent to another region already.

    Otherwise an answer that names a region would lead to further requests, of which a store
    could have any number.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True


@contextmanager
def _store_failures_reported() -> Iterator[None]:
    """Report failures of the store in fixed words; its own messages are dropped."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - of the extra

    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise _REFUSALS.get(status, lambda: unreadable(SILENT))() from None
    except BotoCoreError:
        raise unreadable(SILENT) from None


def place_of(source: Source, access: ObjectAccess, scratch: Directory) -> Place:
    """Return where the files of a source are.

    Raises
    ------
    Problem
        ``source-unreadable``: there is no such place.
    """
    if source.root.scheme == "file":
        return Folders(source)
    return Objects(source, access, scratch)
