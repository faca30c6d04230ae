"""Where rows may lie that a curator names by URL, and which files a URL means.

A URL is ``file:///folder/file`` or ``s3://bucket/folder/file``. An operator allows *roots*;
a *source* is what a curator names below one of them. Both are compared by whole segments
of a path, so ``/database`` is not below ``/data``.

*Patterns.* In a source's segment ``*`` stands for any run of characters, and ``**`` as a
whole segment for any number of folders. Names that begin with a dot or an underscore are
met by no star, since programs keep what is no data under such names.

*No second reading.* Nothing is decoded: what could be read in two ways is refused, such as
``%``, a query, a backslash, ``.`` and ``..``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import unquote

Scheme = Literal["file", "s3"]
Path = tuple[str, ...]
Partitions = Mapping[str, str | None]
"""Columns that a file's folders give: each has one value in all of it, or none."""

_SCHEMES: Mapping[str, Scheme] = {"file:///": "file", "s3://": "s3"}
_DOUBTFUL = frozenset("%?#\\")
_MOST_CHARACTERS = 2_000
_ANY_FOLDERS = "**"
_HIDDEN = (".", "_")  # what programs write next to the data, such as _SUCCESS
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class InvalidSourceError(ValueError):
    """A URL names no source; the sender may see the message."""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder, or all below a prefix in a bucket; ``bucket`` is empty for folders."""

    scheme: Scheme
    bucket: str
    path: Path

    @property
    def url(self) -> str:
        """Return the root as a URL."""
        start = "file:///" if self.scheme == "file" else f"s3://{self.bucket}/"
        return start + "/".join(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The files that a URL means: those below a root whose path the pattern meets.

    ``max_files`` and ``max_bytes`` are how many there may be, and how large together.
    """

    root: Root
    pattern: Path
    max_files: int
    max_bytes: int

    @property
    def is_one_file(self) -> bool:
        """Return whether the pattern is a file's own path."""
        return not any("*" in segment for segment in self.pattern)

    @property
    def url(self) -> str:
        """Return the URL."""
        return "/".join((self.root.url.rstrip("/"), *self.pattern))

    def to_json(self) -> dict[str, Any]:
        """Return the source as it is sent to a process of ours."""
        return asdict(self)

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Source:
        """Return the inverse of :meth:`to_json`."""
        root = declared["root"]
        return cls(
            root=Root(root["scheme"], root["bucket"], tuple(root["path"])),
            pattern=tuple(declared["pattern"]),
            max_files=declared["max_files"],
            max_bytes=declared["max_bytes"],
        )


def roots_of(text: str) -> tuple[Root, ...]:
    """Return the roots that an operator has written, with commas between them.

    >>> [root.url for root in roots_of("file:///srv/people/, s3://figures/2024")]
    ['file:///srv/people', 's3://figures/2024']

    Raises
    ------
    InvalidSourceError
        One of them is none.
    """
    return tuple(_root(each.strip().rstrip("/")) for each in text.split(",") if each.strip())


def _root(url: str) -> Root:
    scheme, bucket, path = _taken_apart(url)
    if any("*" in segment for segment in path):
        raise InvalidSourceError("a root has no star")
    return Root(scheme, bucket, path)


def located(url: str, roots: Sequence[Root], *, max_files: int, max_bytes: int) -> Source:
    """Return the source that a URL names, which must be below one of the roots.

    >>> roots = roots_of("file:///srv/people")
    >>> located("file:///srv/people/*.csv", roots, max_files=9, max_bytes=10**9).pattern
    ('*.csv',)

    Raises
    ------
    InvalidSourceError
        It names none, or one that is not allowed.
    """
    if not roots:
        raise InvalidSourceError(
            "is off on this service: its operator allows no roots; upload the file instead"
        )
    scheme, bucket, path = _taken_apart(url)
    for root in roots:
        within = len(root.path)
        if (root.scheme, root.bucket, root.path) == (scheme, bucket, path[:within]):
            if len(path) == within:
                break
            return Source(
                root=root, pattern=path[within:], max_files=max_files, max_bytes=max_bytes
            )
    raise InvalidSourceError("is below none of the roots that the operator of this service allows")


def _taken_apart(url: str) -> tuple[Scheme, str, Path]:
    start = next((each for each in _SCHEMES if url.startswith(each)), None)
    if start is None:
        raise InvalidSourceError("must begin with file:/// or s3://")
    if len(url) > _MOST_CHARACTERS:
        raise InvalidSourceError(f"must have at most {_MOST_CHARACTERS} characters")
    if not url.isprintable() or not _DOUBTFUL.isdisjoint(url):
        raise InvalidSourceError("must be printable, and have no %, ?, # or backslash")
    rest = url.removeprefix(start)
    bucket, path = "", tuple(rest.split("/"))
    if _SCHEMES[start] == "s3":
        bucket, *below = path
        path = tuple(below)
        if "*" in bucket or not bucket:
            raise InvalidSourceError("must name a bucket after s3://")
    for segment in path:
        _check_segment(segment)
    if path.count(_ANY_FOLDERS) > 1 or path[-1:] == (_ANY_FOLDERS,):
        raise InvalidSourceError("may have one **, before the name of files")
    return _SCHEMES[start], bucket, path


def _check_segment(segment: str) -> None:
    if segment in ("", ".", ".."):
        raise InvalidSourceError("must name files, by folders without . or .. and without //")
    if _ANY_FOLDERS in segment and segment != _ANY_FOLDERS:
        raise InvalidSourceError("may have ** only as a whole segment")


def meets(pattern: Path, path: Path) -> bool:
    """Say whether a file's path is one that a pattern stands for.

    >>> meets(("**", "*.csv"), ("2024", "may", "north.csv"))
    True
    """
    if not pattern:
        return not path
    first, rest = pattern[0], pattern[1:]
    if first == _ANY_FOLDERS:
        for start in range(len(path) + 1):
            if meets(rest, path[start:]):
                return True
            # No star goes into a hidden folder, however deep it lies.
            if start < len(path) and path[start].startswith(_HIDDEN):
                return False
        return False
    return bool(path) and name_meets(first, path[0]) and meets(rest, path[1:])


def may_hold(pattern: Path, folder: Path) -> bool:
    """Say whether files below a folder may have paths that a pattern stands for.

    >>> may_hold(("*", "x.csv"), ("may",)), may_hold(("*", "x.csv"), ("may", "north"))
    (True, False)
    """
    for place, name in enumerate(folder):
        if place >= len(pattern) - 1:
            return False
        if pattern[place] == _ANY_FOLDERS:
            return not any(each.startswith(_HIDDEN) for each in folder[place:])
        if not name_meets(pattern[place], name):
            return False
    return True


def name_meets(segment: str, name: str) -> bool:
    """Say whether a name is one that a pattern's segment stands for; no time grows with stars.

    >>> name_meets("*a*b*.csv", "xxaxxbxx.csv"), name_meets("*", ".hidden")
    (True, False)
    """
    first, *pieces = segment.split("*")
    if not pieces:
        return name == segment
    *middle, last = pieces
    if not name.startswith(first) or (not first and name.startswith(_HIDDEN)):
        return False
    place = len(first)
    for piece in middle:
        found = name.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    # The end may not use again what the pieces before it have met.
    return len(name) - len(last) >= place and name.endswith(last)


def partitions_of(path: Path) -> Partitions:
    """Return the columns that a file's folders are, as Hive names them: ``key=value``.

    A value may be escaped by percent signs; one of missing values is None.

    >>> dict(partitions_of(("year=2024", "region=north%2C east", "part.parquet")))
    {'year': '2024', 'region': 'north, east'}

    Raises
    ------
    InvalidSourceError
        A key is there twice, or what is escaped is no text.
    """
    found: dict[str, str | None] = {}
    for key, value in _pairs(path):
        if key in found:
            raise InvalidSourceError("has two folders of one key")
        found[key] = None if value == _NO_VALUE else value
    return found


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    for folder in path[:-1]:
        key, sign, value = folder.partition("=")
        if sign and key:
            try:
                yield unquote(key, errors="strict"), unquote(value, errors="strict")
            except UnicodeDecodeError:
                raise InvalidSourceError("has a folder that is no text") from None
