"""Work on the parts of a data set, by two verbs.

``keep`` names the parts and columns that passes will be made over, so that
their blocks stay in memory as far as they fit; ``map`` makes one pass and
yields a result per part, in the order of the parts. ``each`` is a pass over
other things than parts. Sums of such results are the same bits wherever they
were computed, as long as the results are integers.

Passes are made here (:class:`SerialExecutor`), in other processes of this machine
(:mod:`app.engine.executor`), or on other machines (:mod:`app.engine.dask`).
:mod:`app.engine.choice` says where.

Passes in other processes of this machine; functions and results must be picklable.

A process that is lost in a pass, to the system say, is begun again and asked again for
what it owed. Where that happens again and again the data may be to blame: the pass then fails
as one over data that cannot be read, and nothing of it counts.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from threading import Lock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from app.domain.problems import DataUnreadableError

if TYPE_CHECKING:  # commands that draw nothing load no mechanism
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


# Passes in other processes of this machine; functions and results must be picklable


MOST_LOSSES = 3
"""Processes that a pass may lose; with one more it fails."""
_AHEAD = 2
"""Tasks that wait or are under way, for each process."""


@dataclass(frozen=True, slots=True)
class _Asked(Generic[Result]):
    """A task, and the process that is asked for it: one to a pool, so that a loss takes one."""

    slot: int
    task: Callable[[], Result]
    pool: ProcessPoolExecutor
    future: Future[Result]


class ProcessExecutor:
    """Makes passes in worker processes, which end with this one.

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
        self._lock = threading.Lock()

    def keep(self, parts: Sequence[Part], columns: Sequence[str], /) -> Kept:
        """Name what passes will be made over."""
        return Kept.of(parts, columns)

    def map(self, function: Callable[[Block], Result], kept: Kept, /) -> Iterator[Result]:
        """Yield the function's result for each part's block, in the order of the parts."""
        return self._run(partial(_apply, function, part, kept.columns) for part in kept.parts)

    def each(
        self, function: Callable[[Item], Result], items: Iterable[Item], /
    ) -> Iterator[Result]:
        """Yield the function's result for each item, in their order."""
        return self._run(partial(function, item) for item in items)

    def close(self) -> None:
        """Stop the workers."""
        with self._lock:
            pools, self._pools = self._pools, [None] * len(self._pools)
        for pool in pools:
            if pool is not None:
                pool.shutdown(cancel_futures=True)

    def _run(self, tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        waiting: deque[_Asked[Result]] = deque()
        losses = _Losses()
        try:
            for index, task in enumerate(tasks):
                # Not all at once: results that are not consumed yet would fill the memory.
                if len(waiting) >= _AHEAD * len(self._pools):
                    yield self._answer(waiting.popleft(), losses)
                # By its index: a part always meets the process that has kept its block.
                waiting.append(self._ask(index % len(self._pools), task, losses))
            while waiting:
                yield self._answer(waiting.popleft(), losses)
        finally:
            for asked in waiting:
                # Of a pass that was given up nothing more is begun; what runs is not waited for.
                asked.future.cancel()

    def _answer(self, asked: _Asked[Result], losses: _Losses) -> Result:
        """Return an answer, asked for again as long as its process is lost."""
        while True:
            try:
                return asked.future.result()
            except (BrokenExecutor, CancelledError):
                self._drop(asked.slot, asked.pool, losses)
                asked = self._ask(asked.slot, asked.task, losses)

    def _ask(self, slot: int, task: Callable[[], Result], losses: _Losses) -> _Asked[Result]:
        while True:
            pool = self._pool(slot)
            try:
                return _Asked(slot, task, pool, pool.submit(task))
            except RuntimeError:  # lost since its last task, or closed by another thread
                self._drop(slot, pool, losses)

    def _pool(self, slot: int) -> ProcessPoolExecutor:
        with self._lock:
            pool = self._pools[slot]
            if pool is None:
                # a forked child of a threaded process could inherit a held lock
                context = multiprocessing.get_context("spawn")
                pool = ProcessPoolExecutor(
                    1, mp_context=context, initializer=_start, initargs=(self._keep_bytes,)
                )
                self._pools[slot] = pool
            return pool

    def _drop(self, slot: int, pool: ProcessPoolExecutor, losses: _Losses) -> None:
        """Have another process begun in place of a lost one, which is counted once."""
        with self._lock:
            # Another task of the same process has noticed first, and one loss is one.
            if self._pools[slot] is not pool:
                return
            self._pools[slot] = None
        pool.shutdown(wait=False, cancel_futures=True)
        losses.add()


class _Losses:
    """How many processes a pass has lost."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Count one.

        Raises
        ------
        DataUnreadableError
            It is one too many.
        """
        self._count += 1
        if self._count > MOST_LOSSES:
            raise DataUnreadableError("processes that read the data were lost again and again")


_worker_blocks: list[Blocks] = []


def _start(keep_bytes: int) -> None:
    """Begin a worker: it leaves when who began it does, however that ends, and not before."""
    for number in (signal.SIGINT, signal.SIGTERM):  # for all at once: it is the service's to act
        signal.signal(number, signal.SIG_IGN)
    _worker_blocks.append(Blocks(keep_bytes))
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        # At once, whatever the others do: no process is left to take an answer.
        os._exit(0)


def _apply(function: Callable[[Block], Result], part: Part, columns: tuple[str, ...]) -> Result:
    return function(_worker_blocks[0].get(part, columns))
