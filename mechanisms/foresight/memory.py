"""A cache of the results of long calculations, for repeated questions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Memory(Generic[T]):
    """Results by the text of their question; the oldest are dropped. Any thread may use it.

    Parameters
    ----------
    most
        How many results it stores.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # By a digest: the text of a question holds its schema, which may be long.
        self._known: OrderedDict[bytes, T] = OrderedDict()
        self._lock = Lock()

    def get(self, text: str) -> T | None:
        """Return a stored result, or None."""
        return self._known.get(_digest(text))

    def keep(self, results: Mapping[str, T]) -> None:
        """Store results."""
        with self._lock:
            self._known.update({_digest(text): found for text, found in results.items()})
            while len(self._known) > self._most:
                self._known.popitem(last=False)


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
