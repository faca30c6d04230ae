"""The interface of a store that holds a source's files, and the messages when one fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from app.domain.problems import Problem
from app.domain.sources import Path

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
