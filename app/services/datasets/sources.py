"""What curators may register by URL: what lies below the roots that the operator allows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import BinaryIO

from app.domain.problems import invalid_request
from app.domain.sources import InvalidSourceError, Root, Source, located, partitions_of
from app.uploads.sources.folders import Folders


class SourceService:
    """Knows where sources may lie.

    Parameters
    ----------
    roots
        Below which they may; none: there are no sources.
    max_files, max_bytes
        How many files one may have, and how large it may be.
    """

    def __init__(self, roots: Sequence[Root], *, max_files: int, max_bytes: int) -> None:
        self._roots = roots
        self._max_files = max_files
        self._max_bytes = max_bytes

    def located(self, url: str) -> Source:
        """Return the source that a URL names; nothing is looked up.

        Raises
        ------
        Problem
            ``invalid-request``: it names none, or one that is not allowed.
        """
        most = {"max_files": self._max_files, "max_bytes": self._max_bytes}
        try:
            return located(url, self._roots, **most)
        except InvalidSourceError as error:
            raise invalid_request("source", str(error)) from None

    @contextmanager
    def first_file(self, source: Source) -> Iterator[tuple[BinaryIO, str, Sequence[str]]]:
        """Give a source's first file, its name, and the columns that its folders give.

        Raises
        ------
        Problem
            ``invalid-request``: it is in a bucket; ``source-unreadable`` or ``too-large``.
        """
        if source.root.scheme != "file":
            raise invalid_request(
                "source", "objects are not read for a draft: choose a file with the same columns"
            )
        with closing(Folders(source)) as place:
            path = next(iter(place.found()))
            try:
                partitions = tuple(partitions_of(path))
            except InvalidSourceError as error:
                raise invalid_request("source", str(error)) from None
            with (
                closing(place.opened(path)) as opened,
                os.fdopen(os.dup(opened.descriptor), "rb") as file,
            ):
                yield file, path[-1], partitions
