"""A memory of what long calculations came to, for the questions that come again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Memory(Generic[T]):
    """Results by the text of what each is of; the oldest are forgotten. Any thread may use it.

    Parameters
    ----------
    most
        How many results are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # By a digest: the text of a question holds its schema, which may be long.
        self._known: OrderedDict[bytes, T] = OrderedDict()
        self._lock = Lock()

    def get(self, text: str) -> T | None:
        """Return a result, or None where there is none any more."""
        return self._known.get(_digest(text))

    def keep(self, results: Mapping[str, T]) -> None:
        """Keep results."""
        with self._lock:
            self._known.update({_digest(text): found for text, found in results.items()})
            while len(self._known) > self._most:
                self._known.popitem(last=False)


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
