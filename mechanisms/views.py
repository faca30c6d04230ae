"""A view of a data set's rows: more columns, each a public row-wise map of the stored ones.

    D_g = {(row, g_1(row), ..., g_k(row)) : row in D}

They are derived for a question, or levels above a category (:class:`NestedColumn`).

**Privacy.** D_g and D'_g are neighbours exactly as D and D' are, and the schema of the view is
public (:mod:`mechanisms.expressions.derived`). So a plan made for the view's schema and drawn on
the view of the data has the plan's guarantee, under either adjacency, at no cost.

*Computation.* The stored sketches do not contain the added columns, so a pass over the rows
computes their sums and counts, exactly. Values and sums are cached with the data, by a digest of
the expression. Only the public row bound decides which of them are cached.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache, partial, reduce
from typing import ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data, Drawing, ErrorsOn, InvalidStatisticError, T
from mechanisms.domain import (
    CategoryColumn,
    Column,
    Nested,
    NumberColumn,
    Schema,
    Values,
    array_of,
    column_named,
    exact,
    presence_of,
    summed,
    with_missing_cell,
)
from mechanisms.expressions.derived import (
    LOWER,
    UPPER,
    Definition,
    DefinitionError,
    DerivedColumn,
    NamedError,
    derived_columns,
)
from mechanisms.expressions.factors import factors_of
from mechanisms.sketches import Ordered, Sketch, exact_gram

_MOST_REMEMBERED_ROWS = 1 << 24  # 128 MiB of values
_MS_PER_PRODUCT = 3e-7  # to add up a product of two codes


@dataclass(frozen=True, slots=True)
class NestedColumn:
    """A level above a category, which is a public table of that category's values.

    ``optional`` says whether the category keeps its missing cells. ``of_presence`` marks the column
    that says whether a record has a value.
    """

    column: CategoryColumn | NumberColumn
    nested: Nested
    optional: bool
    of_presence: bool = False

    ms_per_row: ClassVar[float] = 1e-6
    strict: ClassVar[bool] = True

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the category, or what says whether a record has a value of it."""
        return (presence_of(self.nested.source) if self.of_presence else self.nested.source,)

    @property
    def values_read(self) -> tuple[str, ...]:
        """Return the category."""
        return (self.nested.source,)

    @property
    def misses(self) -> tuple[str, ...]:
        """Return the category, if it keeps its missing cells."""
        return self.values_read if self.optional else ()

    def presence(self) -> NestedColumn:
        """Return the boolean that says whether a record has a value of the level."""
        boolean = NumberColumn(Fraction(0), Fraction(1), boolean=True)
        return replace(self, column=boolean, of_presence=True)

    @property
    def key(self) -> str:
        """Return a text that no other table of the same column shares."""
        return f"{'presence of ' if self.of_presence else ''}{self.nested.codes}"

    def values(self, block: Mapping[str, Values]) -> Values:
        """Return the values of some rows, from those of what it reads."""
        (found,) = (block[name] for name in self.reads)
        if self.of_presence:
            return found
        return np.array(self.nested.codes, dtype=np.int32)[found]

    def counts(self, below: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how often each value occurs, from the counts of the category's values."""
        codes = np.array(self.nested.codes[: len(below)], dtype=np.int64)
        size = self.nested.codes[-1] + (len(below) == len(self.nested.codes))
        found = np.zeros(size, dtype=np.int64)
        np.add.at(found, codes, below)
        return found


Added = DerivedColumn | NestedColumn


@dataclass(frozen=True, slots=True)
class RowView:
    """A schema with more columns than a data set has, and how they are computed.

    ``added`` comes in an order in which each is made of stored columns or of those before it.
    """

    schema: Schema
    added: Mapping[str, Added] = field(default_factory=dict)
    _keys: dict[str, Hashable] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, schema: Schema) -> RowView:
        """Return the view with the levels above categories alone."""
        added: dict[str, Added] = {}
        waiting = dict(schema.nested)
        while waiting:  # from below: a level may be that of a level
            for name in [each for each in waiting if waiting[each].source not in waiting]:
                nested, column = waiting.pop(name), schema.columns[name]
                assert isinstance(column, CategoryColumn)
                added[name] = NestedColumn(column, nested, name in schema.optional)
                if name in schema.optional:
                    added[presence_of(name)] = added[name].presence()
        return cls(schema, added)

    def adding(self, definitions: Mapping[str, Definition], places: Mapping[str, str]) -> RowView:
        """Return this view with more columns; ``places`` say where each is asked for.

        Raises
        ------
        InvalidStatisticError
            A definition that does not fit.
        """
        if not definitions:
            return self
        facts = _Columns(self.schema.columns)
        try:
            made, columns = _made(tuple(definitions.items()), facts, self.schema.optional)
        except NamedError as error:
            place = part_of(places[error.name], error)
            raise InvalidStatisticError(error.detail, field_name=place) from None
        optional = {*self.schema.optional}
        added = dict(self.added)
        for name, each in made.items():
            added[name] = each
            if each.misses:  # right behind it: what comes next may ask whether it is missing
                added[presence_of(name)] = each.presence()
                optional.add(name)
        schema = replace(
            self.schema,
            columns=columns,
            optional=frozenset(optional),
            factors=factors_of(
                {name: each.tree for name, each in made.items()}, columns, self.schema.factors
            ),
        )
        return RowView(schema, added)

    def key(self, name: str) -> Hashable:
        """Return a key that is different for every column of the view, by its content.

        Of an added one a digest of its map and of the keys of what it reads: the texts of columns
        that are made of one another would double with each.
        """
        if name not in self.added:
            return name
        if name not in self._keys:
            # All at once and each once, in their order: to look below each name is quadratic.
            for each, made in self.added.items():
                text = repr((made.key, [(read, self._keys.get(read, read)) for read in made.reads]))
                self._keys[each] = hashlib.sha256(text.encode()).digest()
        return self._keys[name]

    def needed(self, names: Sequence[str]) -> list[str]:
        """Return which added columns arrays of these names are made of, in order."""
        wanted: set[str] = set()
        waiting = [column_named(name) for name in names]
        while waiting:
            name = waiting.pop()
            if name in self.added and name not in wanted:
                wanted.add(name)
                waiting += self.added[name].reads
        return [name for name in self.added if name in wanted]

    def presences(self, name: str) -> Iterator[str]:
        """Yield the columns that must have a value for this one to have one; often none."""
        made = self.added.get(name)
        if made is None or not made.strict:
            if name in self.schema.optional:
                yield name
            return
        for each in made.misses:
            yield from self.presences(each)

    def misses(self, name: str) -> Iterator[str]:
        """Yield the stored columns whose missing cells may leave a column without a value."""
        made = self.added.get(name)
        if made is not None:
            for each in made.misses:
                yield from self.misses(each)
        elif name in self.schema.optional:
            yield name

    def with_missing_cells(self, names: Collection[str]) -> RowView:
        """Return the view with one value more of these categories, for records without one.

        Levels above them have one, too.
        """
        if not names:
            return self
        names, before = {*names}, -1
        while len(names) > before:
            before = len(names)
            names |= {level for level, each in self.schema.nested.items() if each.source in names}
        wider = {
            name: with_missing_cell(column)
            if name in names and isinstance(column, CategoryColumn)
            else column
            for name, column in self.schema.columns.items()
        }
        return replace(self, schema=replace(self.schema, columns=wider))

    def widened(self, block: Block, names: Sequence[str], needed: Sequence[str]) -> Block:
        """Return arrays of a block: values of those ``needed`` that it lacks are computed."""
        wide = dict(block)
        for name in needed:
            if exact(name) not in wide:
                made = self.added[name]
                wide[exact(name)] = made.values({each: wide[exact(each)] for each in made.reads})
        for name in names:
            if name not in wide:  # codes, sum codes or cells of an added column
                added = column_named(name)
                wide[name] = array_of(name, self.added[added].column, wide[exact(added)])
        return {name: wide[name] for name in names}

    def over(self, data: Data) -> Data:
        """Return the data as the view shows them."""
        return ViewedData(self, data) if self.added else data

    def drawing(self, drawn: Drawing) -> Drawing:
        """Return a drawing from the view as one from the data set's own rows."""
        if not self.added:
            return drawn
        errors_on = drawn.errors_on
        return replace(
            drawn,
            draw=lambda data, randomness: drawn.draw(self.over(data), randomness),
            errors_on=None if errors_on is None else self._errors(errors_on),
        )

    def _errors(self, errors_on: ErrorsOn) -> ErrorsOn:
        return lambda data, *how: errors_on(self.over(data), *how)

    @property
    def expected_ms(self) -> float:
        """Return about how long computing the added columns and their sums takes."""
        if not self.added:
            return 0.0
        derived = [each for each in self.added.values() if isinstance(each, DerivedColumn)]
        made = sum(each.ms_per_row for each in derived)
        summed = _MS_PER_PRODUCT * (len(derived) + 2) ** 2 if derived else 0.0
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
    definitions: tuple[tuple[str, Definition], ...], columns: _Columns, optional: frozenset[str]
) -> tuple[Mapping[str, DerivedColumn], Mapping[str, Column]]:
    """Return derived columns, and all columns that there then are."""
    made = derived_columns(dict(definitions), columns.facts, optional=optional)
    return made, {**columns.facts, **{name: each.column for name, each in made.items()}}


def part_of(place: str, error: DefinitionError | NamedError) -> str:
    """Return the place of the error in a definition: the bound, or all of it."""
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
        """Return the exact Gram matrix of (1, sum codes of the named number columns)."""
        if not self.view.needed(columns):
            return self.data.gram(columns)
        keys = tuple(self.view.key(name) for name in columns)
        return self.data.remembered(
            ("gram", keys), lambda: self._gram(columns), lambda found: 32 * len(found) ** 2
        )

    def _gram(self, columns: Sequence[str]) -> list[list[int]]:
        total = exact_gram([np.zeros(0, dtype=np.int64) for _ in columns], 0)
        names = tuple(map(summed, columns))
        for some in self.map(partial(_gram_of, names), names):
            total = total + some
        return [[int(entry) for entry in row] for row in total]

    def ordered(self, column: str) -> Ordered:
        """Return a number column's occupied cells, ascending, and their counts."""
        if column not in self.view.added:
            return self.data.ordered(column)
        return self.data.remembered(
            ("ordered", self.view.key(column)),
            lambda: self._ordered(column),
            lambda found: found[0].nbytes + found[1].nbytes,
        )

    def _ordered(self, column: str) -> Ordered:
        facts = {column: self.view.schema.columns[column]}
        sketches = self.map(partial(Sketch.from_block, columns=facts), [exact(column)])
        return reduce(Sketch.merge, sketches, Sketch.empty(facts)).ordered[column]

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""
        made = self.view.added.get(column)
        if not isinstance(made, NestedColumn):
            return self.data.category_counts(column)
        return made.counts(self.category_counts(made.nested.source))

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield blocks of rows in stored order."""
        kept = [name for name in _columns_of(columns) if self._is_kept(name)]
        made = cache(partial(self._made, tuple(kept)))  # all in one pass, if one is missing
        known = {exact(name): self._remembered(name, made) for name in kept}
        unknown = [name for name in columns if exact(column_named(name)) not in known]
        needed = self.view.needed(unknown)
        stored = self._stored([*columns, *map(exact, needed)], known)
        # Data come in the same blocks each time, so a block's number finds its values.
        for place, block in enumerate(self.data.blocks(stored)):
            held = {name: values[place] for name, values in known.items()}
            yield self.view.widened({**block, **held}, columns, needed)

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each of the blocks."""
        if any(self._is_kept(name) for name in _columns_of(columns)):
            # Remembered values are in this process: a function that travels would compute them
            # again.
            return map(function, self.blocks(columns))
        needed = self.view.needed(columns)
        shown = _Shown(self.view, tuple(columns), tuple(needed), function)
        return self.data.map(shown, self._stored([*columns, *map(exact, needed)], {}))

    def _stored(self, names: Sequence[str], known: Mapping[str, object]) -> list[str]:
        """Return the stored arrays that these are made of; one at least, for the rows' sake."""
        reads = [
            each
            for name in names
            if exact(column_named(name)) not in known
            for each in self._made_of(name)
        ]
        found = [name for name in dict.fromkeys(reads) if column_named(name) not in self.view.added]
        return found or [self._any_stored()]

    def _made_of(self, name: str) -> list[str]:
        added = self.view.added.get(column_named(name))
        return [name] if added is None else [exact(each) for each in added.reads]

    def _any_stored(self) -> str:
        return next(name for name in self.view.schema.columns if name not in self.view.added)

    def remembered(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int], /) -> T:
        """Return the cached object of the view and this key, or make it."""
        # With the names, by which the key knows its columns: another question may swap them.
        added = tuple((name, self.view.key(name)) for name in self.view.added)
        return self.data.remembered(("view", added, key), make, size)

    def _is_kept(self, name: str) -> bool:
        """Return whether a column is remembered: not one that is as quickly made as read."""
        made = self.view.added.get(name)
        if not isinstance(made, DerivedColumn) or made.column.boolean:
            return False
        return self.view.schema.row_bound <= _MOST_REMEMBERED_ROWS

    def _remembered(self, name: str, made: Callable[[], Sequence[Block]]) -> list[Values]:
        """Return a column's values, block by block; those that are ``made`` if it is missing."""
        return self.data.remembered(
            ("values", self.view.key(name)),
            lambda: [block[exact(name)] for block in made()],
            lambda found: sum(values.nbytes for values in found),
        )

    def _made(self, names: Sequence[str]) -> list[Block]:
        wanted = [exact(name) for name in names]
        needed = self.view.needed(wanted)
        stored = self._stored([exact(name) for name in needed], {})
        return [self.view.widened(block, wanted, needed) for block in self.data.blocks(stored)]


def _columns_of(names: Sequence[str]) -> list[str]:
    """Return the columns that arrays of these names are made of, each once."""
    return list(dict.fromkeys(map(column_named, names)))


def _gram_of(names: Sequence[str], block: Block) -> NDArray[np.object_]:
    sum_codes = [block[name] for name in names]
    return exact_gram(sum_codes, len(sum_codes[0]))


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
    """Return the public facts about added columns, ready for JSON."""
    found = ((name, view.added.get(name)) for name in names)
    return {name: _public_facts(made) for name, made in found if isinstance(made, DerivedColumn)}


def _public_facts(made: DerivedColumn) -> dict[str, object]:
    facts = made.column
    bounds = [float(facts.lower), float(facts.upper)]
    return {"expr": str(made.tree), "bounds": bounds}
