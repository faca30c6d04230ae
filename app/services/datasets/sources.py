"""What curators may register by URL: what lies below the roots that the operator allows."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.problems import invalid_request
from app.domain.sources import InvalidSourceError, Root, Source, located


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
