"""Stored data sets as the service uses them: opened for a draw, checked, erased.

The composition root makes the vault and gives it to the engine.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from threading import Lock
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from app.domain.datasets import parse_columns
from app.domain.problems import DataUnreadableError
from app.engine.executor import Executor, Part, SerialExecutor
from app.engine.schema import (
    GRAM,
    SUMMARY,
    column_file,
    number_columns,
    read_column,
    read_gram,
    schema_of,
)
from app.vault.stored import StoredDataset
from app.vault.vault import Vault
from mechanisms.contract import Block, T
from mechanisms.domain import Column, Values, array_of, column_named, exact, facts_of
from mechanisms.privacy import Adjacency
from mechanisms.sketches import Ordered, Sketch

DEFAULT_CACHE_BYTES = 1 << 28

# What is asked most is picked out of the matrix once: a few hundred bytes for each question.
_SMALL_GRAM = 4
_REMEMBERED_GRAMS = 64

Value = TypeVar("Value")


class MismatchError(Exception):
    """A data set's stored sketches are not those of its rows."""


class VaultData:
    """The mechanisms' view of a stored data set.

    The summary sketch is loaded when the data set is opened; a column's counts
    and the rows when they are asked for.
    """

    def __init__(self, key: str, stored: StoredDataset, cache: _Cache, executor: Executor) -> None:
        self._key = key
        self._stored = stored
        self._cache = cache
        # what has one part is not worth a journey
        self._executor = executor if len(stored.parts) > 1 else SerialExecutor(keep_bytes=0)
        self.columns = stored_columns(stored)
        self._parts = encoded_parts(stored.parts, self.columns)
        summary = json.loads(stored.attached[SUMMARY].read())
        self._gram = read_gram(stored.attached[GRAM].read())
        self._categories: dict[str, list[int]] = summary["categories"]
        self._places = {name: 1 + i for i, name in enumerate(number_columns(self.columns))}
        self._asked: dict[tuple[str, ...], list[list[int]]] = {}

    @property
    def rows(self) -> int:
        """Return the true row count: private under add-remove."""
        return self._stored.rows

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return the exact Gram matrix of (1, sum codes of the named number columns)."""
        asked = tuple(columns)
        found = self._asked.get(asked)
        if found is None:
            found = self._gram.some([0, *(self._places[name] for name in columns)])
            if len(asked) <= _SMALL_GRAM and len(self._asked) < _REMEMBERED_GRAMS:
                self._asked[asked] = found
        # A copy: what is remembered must stay as it is.
        return [row.copy() for row in found]

    def ordered(self, column: str) -> Ordered:
        """Return a number column's occupied cells, ascending, and their counts."""

        def load() -> Ordered:
            with _told_as_unreadable():
                name = column_file(self._places[column] - 1)
                return read_column(self._stored.attached[name].read())

        # Kept apart from the summary: few columns are asked for, and each may take
        # as much as all the rest.
        return self._cache.get((self._key, column), load, _ordered_size)

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""
        return np.array(self._categories[column], dtype=np.int64)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield blocks of the named columns in stored order."""
        for part in self._parts:
            yield part.read(columns)

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each of the blocks, wherever passes are made."""
        return self._executor.map(function, self._executor.keep(self._parts, columns))

    def remembered(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int], /) -> T:
        """Return what was made of these rows under this key, or make it and hold it."""
        return self._cache.get((self._key, ("made", key)), make, size)

    def size(self) -> int:
        """Return about how many bytes the summary takes."""
        return self._gram.nbytes + 4096


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """A stored part, which holds values, as blocks have it: what is made of values by name."""

    part: Part
    columns: Mapping[str, Column] = field(compare=False)

    def read(self, names: Sequence[str], /) -> Block:
        """Return the arrays of these names."""
        wanted = list(dict.fromkeys(map(column_named, names)))
        stored = self.part.read(wanted)
        values = {
            name: stored[name].astype(facts_of(self.columns, name).dtype, copy=False)
            for name in wanted
        }
        return {name: self._array(name, values) for name in names}

    def _array(self, name: str, values: Mapping[str, Values]) -> Values:
        column = column_named(name)
        return array_of(name, facts_of(self.columns, column), values[column])


def encoded_parts(parts: Sequence[Part], columns: Mapping[str, Column]) -> Sequence[EncodedPart]:
    """Return stored parts as mechanisms read them."""
    return [EncodedPart(part, columns) for part in parts]


class DataEngine:
    """Opens, checks and erases data sets.

    Parameters
    ----------
    vault
        Where they are kept.
    cache_bytes
        Memory for opened sketches.
    executor
        Where passes over rows are made, for draws and checks; in the calling thread by default.
    erased
        Called with a data set's id after it is erased: who else may remember something of it.
    """

    def __init__(
        self,
        vault: Vault,
        *,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        executor: Executor | None = None,
        erased: Sequence[Callable[[str], None]] = (),
    ) -> None:
        self._erased = erased
        self._vault = vault
        self._cache = _Cache(cache_bytes)
        self._executor = executor or SerialExecutor(keep_bytes=0)

    def open(self, dataset_id: str, *, manifest: str | None = None) -> VaultData:
        """Return a stored data set for draws.

        ``manifest`` is the SHA-256 of its manifest, where it is known. Whatever is read later
        has the digests that this manifest names.

        Raises
        ------
        DataUnreadableError
            Its files cannot be opened, or are not what was stored.
        """

        def load() -> VaultData:
            with _told_as_unreadable():
                stored = self._vault.open(dataset_id, manifest=manifest)
                return VaultData(dataset_id, stored, self._cache, self._executor)

        return self._cache.get((dataset_id, ("opened", manifest)), load, VaultData.size)

    def require_readable(self, dataset_id: str, manifest: str | None) -> None:
        """Pass for a data set whose files are all there, can be opened, and are what was stored.

        What has been hashed before and looks the same since is not hashed again. ``manifest``
        is the SHA-256 of the manifest, where it is known.

        Raises
        ------
        DataUnreadableError
            It is not one.
        """
        with _told_as_unreadable():
            self._vault.open(dataset_id, manifest=manifest).check()
        self.open(dataset_id, manifest=manifest)

    def erase(self, dataset_id: str) -> None:
        """Remove a data set from disk and memory; nothing happens when there is none."""
        with ExitStack() as afterwards:  # all of it, whatever one may raise
            for forget in (*self._erased, self._cache.forget):
                afterwards.callback(forget, dataset_id)
            self._vault.erase(dataset_id)

    def check(self, dataset_id: str) -> None:
        """Hash every file, and compute the sketches again from the rows.

        Raises
        ------
        Exception
            The vault's own, when a file differs from what was published.
        MismatchError
            The sketches are not those of the rows.
        """
        stored = self._vault.open(dataset_id)
        stored.verify()
        data = VaultData(dataset_id, stored, _Cache(0), self._executor)
        parts = encoded_parts(stored.parts, data.columns)
        kept = self._executor.keep(parts, [exact(name) for name in data.columns])
        results = self._executor.map(partial(Sketch.from_block, columns=data.columns), kept)
        sketch = reduce(Sketch.merge, results, Sketch.empty(data.columns))
        if not _same(sketch, data):
            raise MismatchError("the stored sketches are not those of the rows")


def stored_columns(stored: StoredDataset) -> Mapping[str, Column]:
    """Return the columns a stored data set was declared with, as they are stored."""
    facts = stored.facts
    spec = parse_columns(
        facts["columns"],
        adjacency=Adjacency(facts["adjacency"]),
        max_rows=facts["max_rows"],
        derived=facts.get("derive"),
        unit=facts.get("unit"),
    )
    return schema_of(spec, rows=None).as_stored


@contextmanager
def _told_as_unreadable() -> Iterator[None]:
    """Raise every failure to open stored files as one error: nothing has been drawn yet."""
    try:
        yield
    except DataUnreadableError:
        raise
    except Exception as error:
        failure = type(error).__name__
        raise DataUnreadableError(f"a data set cannot be opened: {failure}") from None


def _same(sketch: Sketch, data: VaultData) -> bool:
    numbers = list(sketch.ordered)
    return (
        sketch.rows == data.rows
        and sketch.sub_gram(numbers) == data.gram(numbers)
        and all(_same_counts(sketch.ordered[name], data.ordered(name)) for name in numbers)
        and all(
            np.array_equal(counts, data.category_counts(name))
            for name, counts in sketch.categories.items()
        )
    )


def _same_counts(one: Ordered, other: Ordered) -> bool:
    return np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


def _ordered_size(ordered: Ordered) -> int:
    return ordered[0].nbytes + ordered[1].nbytes


class _Cache:
    """The most recently used things, up to a number of bytes; keys are (data set, what)."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._held: OrderedDict[tuple[str, Hashable], tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def get(
        self, key: tuple[str, Hashable], load: Callable[[], Value], size: Callable[[Value], int]
    ) -> Value:
        """Return what is held under the key, or load and hold it."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return cast(Value, self._held[key][0])
        # Outside the lock: reading may take long, and two who read the same only waste some time.
        value = load()
        with self._lock:
            if key not in self._held:
                self._held[key] = (value, size(value))
                self._bytes += size(value)
            # What has just been loaded may go at once: the caller has it.
            while self._bytes > self._max_bytes:
                self._bytes -= self._held.popitem(last=False)[1][1]
        return value

    def forget(self, dataset_id: str) -> None:
        """Forget everything of one data set."""
        with self._lock:
            # Everything of it, opened under whatever manifest.
            for key in [key for key in self._held if key[0] == dataset_id]:
                self._bytes -= self._held.pop(key)[1]
