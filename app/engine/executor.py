"""Work on the parts of a data set, by two verbs.

``keep`` names the parts and columns that passes will be made over, so that
their blocks stay in memory as far as they fit; ``map`` makes one pass and
yields a result per part, in the order of the parts. Sums of such results are
the same bits wherever they were computed, as long as the results are integers.
"""

from __future__ import annotations

import multiprocessing
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mechanisms.contract import Block

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


class Executor(Protocol):
    """Where passes are made."""

    def keep(self, parts: Sequence[Part], columns: Sequence[str]) -> Kept:
        """Name what passes will be made over."""

    def map(self, function: Callable[[Block], Result], kept: Kept) -> Iterator[Result]:
        """Yield the function's result for each part's block, in the order of the parts."""

    def close(self) -> None:
        """Let go of memory and processes."""


class _Blocks:
    """The blocks read last, up to so many bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._blocks: OrderedDict[tuple[Part, tuple[str, ...]], Block] = OrderedDict()

    def get(self, part: Part, columns: tuple[str, ...]) -> Block:
        key = (part, columns)
        if key in self._blocks:
            self._blocks.move_to_end(key)
            return self._blocks[key]
        block = part.read(columns)
        self._blocks[key] = block
        self._bytes += _size(block)
        while self._bytes > self._max_bytes:
            self._bytes -= _size(self._blocks.popitem(last=False)[1])
        return block


def _size(block: Block) -> int:
    return sum(codes.nbytes for codes in block.values())


class SerialExecutor:
    """Makes passes in the calling thread; not to be shared between threads."""

    def __init__(self, *, keep_bytes: int = DEFAULT_KEEP_BYTES) -> None:
        self._keep_bytes = keep_bytes
        self._blocks = _Blocks(keep_bytes)

    def keep(self, parts: Sequence[Part], columns: Sequence[str]) -> Kept:
        """Name what passes will be made over."""
        return Kept(tuple(parts), tuple(columns))

    def map(self, function: Callable[[Block], Result], kept: Kept) -> Iterator[Result]:
        """Yield the function's result for each part's block, in the order of the parts."""
        for part in kept.parts:
            yield function(self._blocks.get(part, kept.columns))

    def close(self) -> None:
        """Let go of the kept blocks."""
        self._blocks = _Blocks(self._keep_bytes)


class ProcessExecutor:
    """Makes passes in worker processes; functions and results must be picklable.

    A part always goes to the same worker, which keeps its block.

    Parameters
    ----------
    workers
        Number of processes.
    keep_bytes
        Memory for kept blocks, all workers together.
    """

    def __init__(self, *, workers: int, keep_bytes: int = DEFAULT_KEEP_BYTES) -> None:
        self._keep_bytes = keep_bytes // workers
        self._pools: list[ProcessPoolExecutor | None] = [None] * workers

    def keep(self, parts: Sequence[Part], columns: Sequence[str]) -> Kept:
        """Name what passes will be made over."""
        return Kept(tuple(parts), tuple(columns))

    def map(self, function: Callable[[Block], Result], kept: Kept) -> Iterator[Result]:
        """Yield the function's result for each part's block, in the order of the parts.

        Raises
        ------
        BrokenExecutor
            A worker died; the next pass starts new ones.
        """
        waiting: deque[Future[Result]] = deque()
        try:
            for index, part in enumerate(kept.parts):
                if len(waiting) >= 2 * len(self._pools):
                    yield waiting.popleft().result()
                pool = self._pool(index % len(self._pools))
                waiting.append(pool.submit(_apply, function, part, kept.columns))
            while waiting:
                yield waiting.popleft().result()
        except BrokenExecutor:
            self.close()
            raise
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Stop the workers."""
        for pool in self._pools:
            if pool is not None:
                pool.shutdown(cancel_futures=True)
        self._pools = [None] * len(self._pools)

    def _pool(self, index: int) -> ProcessPoolExecutor:
        pool = self._pools[index]
        if pool is None:
            # a forked child of a threaded process could inherit a held lock
            context = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(
                1, mp_context=context, initializer=_start, initargs=(self._keep_bytes,)
            )
            self._pools[index] = pool
        return pool


_worker_blocks: list[_Blocks] = []


def _start(keep_bytes: int) -> None:
    _worker_blocks.append(_Blocks(keep_bytes))


def _apply(function: Callable[[Block], Result], part: Part, columns: tuple[str, ...]) -> Result:
    return function(_worker_blocks[0].get(part, columns))
