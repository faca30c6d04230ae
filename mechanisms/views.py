"""A view of a data set's rows: more columns, each a public row-wise map of the stored ones.

    D_g = {(row, g_1(row), ..., g_k(row)) : row in D}

**Privacy.** D_g and D'_g are neighbours exactly as D and D' are, and the schema of the view is
public (:mod:`mechanisms.expressions.derived`). So a plan made for the view's schema and drawn on
the view of the data has the plan's guarantee, under either adjacency, at no cost.

*What is computed.* The stored sketches know nothing of the added columns, so sums and counts of
them are made in a pass over the rows, exactly. Codes and sums are remembered beside the data,
by a digest of the expression. Which are remembered depends on the public row bound alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial, reduce
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data, InvalidStatisticError, Outcome, Plan, T
from mechanisms.domain import Column, NumberColumn, Schema
from mechanisms.expressions.definitions import Definition, NamedError, derived_columns
from mechanisms.expressions.derived import LOWER, UPPER, DefinitionError, DerivedColumn
from mechanisms.randomness import Randomness
from mechanisms.sketches import Ordered, Sketch, exact_gram

_MOST_REMEMBERED_ROWS = 1 << 24  # 64 MiB of codes
_MS_PER_PRODUCT = 3e-7  # to add up a product of two codes


@dataclass(frozen=True, slots=True)
class RowView:
    """A schema with more columns than a data set has, and how they are computed.

    ``added`` comes in an order in which each is made of stored columns or of those before it.
    """

    schema: Schema
    added: Mapping[str, DerivedColumn] = field(default_factory=dict)
    _keys: dict[str, Hashable] = field(default_factory=dict, init=False, repr=False, compare=False)

    def adding(self, definitions: Mapping[str, Definition], places: Mapping[str, str]) -> RowView:
        """Return this view with more columns; ``places`` say where each is asked for.

        Raises
        ------
        InvalidStatisticError
            A definition that does not fit.
        """
        if not definitions:
            return self
        try:
            made, columns = _made(tuple(definitions.items()), _Columns(self.schema.columns))
        except NamedError as error:
            place = part_of(places[error.name], error)
            raise InvalidStatisticError(error.detail, field_name=place) from None
        return RowView(replace(self.schema, columns=columns), {**self.added, **made})

    def key(self, name: str) -> Hashable:
        """Return what tells what a column of the view holds, from any other column.

        Of an added one a digest of its map and of the keys of what it reads: the texts of columns
        that are made of one another would double with each.
        """
        if name not in self.added:
            return name
        if name not in self._keys:
            # All at once and each once, in their order: to look below each name is quadratic.
            for each, made in self.added.items():
                told = repr((made.key, [(read, self._keys.get(read, read)) for read in made.reads]))
                self._keys[each] = hashlib.sha256(told.encode()).digest()
        return self._keys[name]

    def needed(self, columns: Sequence[str]) -> list[str]:
        """Return which added columns these are, and which they are made of, in order."""
        wanted: set[str] = set()
        waiting = list(columns)
        while waiting:
            name = waiting.pop()
            if name in self.added and name not in wanted:
                wanted.add(name)
                waiting += self.added[name].reads
        return [name for name in self.added if name in wanted]

    def widened(self, block: Block, columns: Sequence[str], needed: Sequence[str]) -> Block:
        """Return a block's columns; those ``needed`` that it lacks are computed, in order."""
        wide = dict(block)
        for name in needed:
            if name not in wide:
                wide[name] = self.added[name].codes(wide)
        return {name: wide[name] for name in columns}

    def over(self, data: Data) -> Data:
        """Return the data as the view shows them."""
        return ViewedData(self, data) if self.added else data

    def plan(self, plan: Plan) -> Plan:
        """Return a plan for the view's schema as one for the data set's own rows."""
        if not self.added:
            return plan

        def draw(data: Data, randomness: Randomness) -> Outcome:
            return plan.draw(self.over(data), randomness)

        return replace(plan, draw=draw, expected_ms=plan.expected_ms + self.expected_ms)

    @property
    def expected_ms(self) -> float:
        """Return about how long computing the added columns and their sums takes."""
        made = sum(each.ms_per_row for each in self.added.values())
        summed = _MS_PER_PRODUCT * (len(self.added) + 2) ** 2
        return (made + summed) * self.schema.row_bound


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """A schema's columns, known by which mapping it is: to compare all of them takes long."""

    facts: Mapping[str, Column]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Columns) and other.facts is self.facts

    def __hash__(self) -> int:
        return id(self.facts)


@lru_cache(maxsize=16)  # a simulation makes a hundred plans of one question
def _made(
    definitions: tuple[tuple[str, Definition], ...], columns: _Columns
) -> tuple[Mapping[str, DerivedColumn], Mapping[str, Column]]:
    """Return derived columns, and all columns that there then are."""
    made = derived_columns(dict(definitions), columns.facts)
    return made, {**columns.facts, **{name: each.column for name, each in made.items()}}


def part_of(place: str, error: DefinitionError | NamedError) -> str:
    """Return the place of what is wrong with a definition: the bound, or all of it."""
    return f"{place}.{error.part}" if error.part in (LOWER, UPPER) else place


@dataclass(frozen=True, slots=True)
class ViewedData:
    """Private data as a view shows them; it reads like any other :class:`Data`."""

    view: RowView
    data: Data

    @property
    def rows(self) -> int:
        """Return the true row count: private under add-remove."""
        return self.data.rows

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return the exact Gram matrix of (1, codes of the named number columns)."""
        if not self.view.needed(columns):
            return self.data.gram(columns)
        keys = tuple(self.view.key(name) for name in columns)
        return self.data.remembered(
            ("gram", keys), lambda: self._gram(columns), lambda found: 32 * len(found) ** 2
        )

    def _gram(self, columns: Sequence[str]) -> list[list[int]]:
        total = exact_gram([np.zeros(0, dtype=np.int32) for _ in columns], 0)
        for some in self.map(partial(_gram_of, tuple(columns)), columns):
            total = total + some
        return [[int(entry) for entry in row] for row in total]

    def ordered(self, column: str) -> Ordered:
        """Return a number column's distinct codes, ascending, and how often each occurs."""
        if column not in self.view.added:
            return self.data.ordered(column)
        return self.data.remembered(
            ("ordered", self.view.key(column)),
            lambda: self._ordered(column),
            lambda found: found[0].nbytes + found[1].nbytes,
        )

    def _ordered(self, column: str) -> Ordered:
        facts = {column: self.view.schema.columns[column]}
        sketches = self.map(partial(Sketch.from_block, columns=facts), [column])
        return reduce(Sketch.merge, sketches, Sketch.empty(facts)).ordered[column]

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""
        return self.data.category_counts(column)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield blocks of rows in stored order."""
        kept = [name for name in dict.fromkeys(columns) if self._is_kept(name)]
        made = cache(partial(self._codes, tuple(kept)))  # all in one pass, if one is missing
        known = {name: self._remembered(name, made) for name in kept}
        needed = self.view.needed([name for name in columns if name not in known])
        stored = self._stored([*columns, *needed], known)
        # Data come in the same blocks each time, so a block's number finds its codes.
        for place, block in enumerate(self.data.blocks(stored)):
            held = {name: codes[place] for name, codes in known.items()}
            yield self.view.widened({**block, **held}, columns, needed)

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each of the blocks."""
        if any(self._is_kept(name) for name in columns):
            # Remembered codes are in this process: a function that travels would compute them
            # again.
            return map(function, self.blocks(columns))
        needed = self.view.needed(columns)
        shown = _Shown(self.view, tuple(columns), tuple(needed), function)
        return self.data.map(shown, self._stored([*columns, *needed], {}))

    def _stored(self, columns: Sequence[str], known: Mapping[str, object]) -> list[str]:
        """Return the stored columns that these are made of; one at least, for the rows' sake."""
        reads = [
            each
            for name in columns
            if name not in known
            for each in (self.view.added[name].reads if name in self.view.added else [name])
        ]
        found = [name for name in dict.fromkeys(reads) if name not in self.view.added]
        return found or [self._any_stored()]

    def _any_stored(self) -> str:
        return next(name for name in self.view.schema.columns if name not in self.view.added)

    def remembered(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int], /) -> T:
        """Return what was made of the view under this key, or make it."""
        # With the names, by which the key knows its columns: another question may swap them.
        added = tuple((name, self.view.key(name)) for name in self.view.added)
        return self.data.remembered(("view", added, key), make, size)

    def _is_kept(self, name: str) -> bool:
        """Return whether a column is remembered: not one that is as quickly made as read."""
        made = self.view.added.get(name)
        if made is None or made.column.boolean:
            return False
        return self.view.schema.row_bound <= _MOST_REMEMBERED_ROWS

    def _remembered(
        self, name: str, made: Callable[[], Sequence[Block]]
    ) -> list[NDArray[np.int32]]:
        """Return a column's codes, block by block; those that are ``made`` if it is missing."""
        return self.data.remembered(
            ("codes", self.view.key(name)),
            lambda: [block[name] for block in made()],
            lambda found: sum(codes.nbytes for codes in found),
        )

    def _codes(self, names: Sequence[str]) -> list[Block]:
        needed = self.view.needed(names)
        stored = self._stored(needed, {})
        return [self.view.widened(block, names, needed) for block in self.data.blocks(stored)]


def _gram_of(columns: Sequence[str], block: Block) -> NDArray[np.object_]:
    codes = [block[name] for name in columns]
    return exact_gram(codes, len(codes[0]))


@dataclass(frozen=True, slots=True)
class _Shown(Generic[T]):
    """A function of a block of the view, as one of a stored block."""

    view: RowView
    columns: tuple[str, ...]
    needed: tuple[str, ...]
    function: Callable[[Block], T]

    def __call__(self, block: Block) -> T:
        return self.function(self.view.widened(block, self.columns, self.needed))


def added_json(view: RowView, names: Sequence[str]) -> dict[str, dict[str, object]]:
    """Return what is public about added columns, ready for JSON."""
    return {name: _told(view.added[name]) for name in names if name in view.added}


def _told(made: DerivedColumn) -> dict[str, object]:
    facts: Column = made.column
    assert isinstance(facts, NumberColumn)
    bounds = [float(facts.lower), float(facts.upper)]
    return {"expr": str(made.tree), "bounds": bounds}
