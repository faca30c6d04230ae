"""What is shown to one person once, and is kept nowhere else: for some minutes, in this process."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class ShownOnce(Generic[T]):
    """Holds things until their time is over.

    Parameters
    ----------
    seconds
        How long a thing is there.
    """

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._held: dict[tuple[str, str], T] = {}

    def hold(self, person: str, name: str, thing: T) -> None:
        """Hold a thing for a person, under a name; on the event loop."""
        self._held[person, name] = thing
        asyncio.get_running_loop().call_later(self._seconds, self._held.pop, (person, name), None)

    def look(self, person: str, name: str) -> T | None:
        """Return what is held for a person under a name, until its time is over."""
        return self._held.get((person, name))
