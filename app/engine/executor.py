"""Work on the parts of a data set, by two verbs.

``keep`` names the parts and columns that passes will be made over, so that
their blocks stay in memory as far as they fit; ``map`` makes one pass and
yields a result per part, in the order of the parts. ``each`` is a pass over
other things than parts. Sums of such results are the same bits wherever they
were computed, as long as the results are integers.

Passes are made here (:class:`SerialExecutor`), in other processes of this machine
(:mod:`app.engine.processes`), or on other machines (:mod:`app.engine.dask`).
:mod:`app.engine.choice` says where.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, TypeVar

from mechanisms.contract import Block

Item = TypeVar("Item")
Result = TypeVar("Result")

DEFAULT_KEEP_BYTES = 1 << 28


class Part(Protocol):
    """A hashable run of rows that can be read; it travels between processes."""

    def read(self, columns: Sequence[str], /) -> Block:
        """Return the named columns."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Parts and columns that passes are made over."""

    parts: tuple[Part, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, parts: Sequence[Part], columns: Sequence[str]) -> Kept:
        """Return them as they travel."""
        return cls(tuple(parts), tuple(columns))


class Executor(Protocol):
    """Where passes are made; several threads may each make one."""

    def keep(self, parts: Sequence[Part], columns: Sequence[str], /) -> Kept:
        """Name what passes will be made over."""

    def map(self, function: Callable[[Block], Result], kept: Kept, /) -> Iterator[Result]:
        """Yield the function's result for each part's block, in the order of the parts.

        Raises
        ------
        DataUnreadableError
            A part could not be read, or who read it was lost too often. The results before
            that are not used.
        """

    def each(
        self, function: Callable[[Item], Result], items: Iterable[Item], /
    ) -> Iterator[Result]:
        """Yield the function's result for each item, in their order; raises what ``map`` does."""

    def close(self) -> None:
        """Free memory and end processes; a later pass begins new ones."""


class Blocks:
    """The most recently read blocks, up to a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = Lock()
        self._blocks: OrderedDict[tuple[Part, tuple[str, ...]], Block] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held."""
        return self._bytes

    def get(self, part: Part, columns: tuple[str, ...]) -> Block:
        """Return a part's block, read now unless it is held."""
        key = (part, columns)
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key]
        # Without the lock: other threads' passes go on while a file is read.
        block = part.read(columns)
        with self._lock:
            if key not in self._blocks:
                self._blocks[key] = block
                self._bytes += _size(block)
            while self._bytes > self._max_bytes:
                self._bytes -= _size(self._blocks.popitem(last=False)[1])
        return block


def _size(block: Block) -> int:
    return sum(codes.nbytes for codes in block.values())


class SerialExecutor:
    """Makes passes in the calling thread.

    Parameters
    ----------
    keep_bytes
        Memory for kept blocks.
    """

    def __init__(self, *, keep_bytes: int = DEFAULT_KEEP_BYTES) -> None:
        self._keep_bytes = keep_bytes
        self.blocks = Blocks(keep_bytes)

    def keep(self, parts: Sequence[Part], columns: Sequence[str], /) -> Kept:
        """Name what passes will be made over."""
        return Kept.of(parts, columns)

    def map(self, function: Callable[[Block], Result], kept: Kept, /) -> Iterator[Result]:
        """Yield the function's result for each part's block, in the order of the parts."""
        for part in kept.parts:
            yield function(self.blocks.get(part, kept.columns))

    def each(
        self, function: Callable[[Item], Result], items: Iterable[Item], /
    ) -> Iterator[Result]:
        """Yield the function's result for each item, in their order."""
        return map(function, items)

    def close(self) -> None:
        """Forget the kept blocks."""
        self.blocks = Blocks(self._keep_bytes)
