r"""Cells of a design: where its columns are 0, 1 or another column, by public facts alone.

A column of a design is ``[v_1 = a_1] ... [v_k = a_k] rest``: see
:mod:`mechanisms.expressions.factors`. Choose some categories and booleans V and let a record's
*cell* be its values of those, values that no column names being one. In a cell a column is 0 in
every record, or the product of what is left of it: 1 if nothing is, else an *effect*. Columns with
the same left product are one effect there.

So all products of two columns are sums over cells of products of (1, effects, target), and the
effects of a cell are few: of ``y ~ x*C(race)`` a cell of race has one, x, whereas the design has
11 columns with a category of 6 values. An effect that is 0 or 1 is its own square, so that its
square is the count of the cell and no moment of its own.

*The choice of V*, one of all sets of few columns. With b entries in the longest block of a cell and
K cells, a sum over all cells has a standard deviation of about ``(b + 1) sqrt(K)`` up to a common
factor. The least is taken, and no cells unless they save a tenth.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block
from mechanisms.domain import CODE_MAX, CategoryColumn, Factors, NumberColumn, Schema, exact
from mechanisms.exact.floats import Floats
from mechanisms.expressions.factors import factors_in
from mechanisms.samplers.bodies import Joined
from mechanisms.statistics.designs.scaling import RegressionScaling

MOST_CELLS = 64
_MOST_SPLIT = 6  # columns of which all sets are tried
_WORTH = 0.9

Levels = tuple[tuple[str, int], ...]
_ONE = Factors((), "")


@dataclass(frozen=True, slots=True)
class Split:
    """A category or boolean that makes cells: the codes that have one each, and if there are more.

    ``codes`` is how many codes the column has; a record without a value has another.
    """

    name: str
    values: tuple[int, ...]
    codes: int

    @property
    def size(self) -> int:
        """Return how many cells it makes: one for all other values, if there are any."""
        return min(len(self.values) + 1, self.codes)

    def places(self) -> NDArray[np.int64]:
        """Return each code's cell, and -1 behind them."""
        found = np.full(self.codes + 1, len(self.values))
        found[list(self.values)] = range(len(self.values))
        found[self.codes] = -1
        return found


@dataclass(frozen=True, slots=True)
class Placing:
    """The cells of some columns: a public map from a record to the cell it is in."""

    splits: tuple[Split, ...]

    @property
    def key(self) -> Hashable:
        """Return what no other map shares."""
        return "cells", self.splits

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the arrays of a block that it reads."""
        return tuple(exact(split.name) for split in self.splits)

    @property
    def cells(self) -> int:
        """Return how many cells there are."""
        return prod(split.size for split in self.splits)

    def place(self, block: Block) -> NDArray[np.uint16]:
        """Return the cell of each row; ``cells`` for a row that lacks a value."""
        found = np.zeros(len(block[self.columns[0]]), dtype=np.int64)
        outside = np.zeros(len(found), dtype=np.bool_)
        for split, name in zip(self.splits, self.columns, strict=True):
            own = split.places()[np.clip(block[name].astype(np.int64), 0, split.codes)]
            outside |= own < 0
            found = found * split.size + own
        return np.where(outside, self.cells, found).astype(np.uint16)

    def values(self) -> Iterator[dict[str, int | None]]:
        """Yield each cell's values, in the order of places; None for all that have no cell."""
        choices = [[*split.values, None][: split.size] for split in self.splits]
        for picked in product(*choices):
            yield {split.name: value for split, value in zip(self.splits, picked, strict=True)}


@dataclass(frozen=True, slots=True)
class Cell:
    """The effects of a cell, numbers first, and what each column of the design is there.

    ``columns`` holds for each column an effect's place, counted from 1, 0 where the column is 1,
    None where it is 0.
    """

    effects: tuple[Factors, ...]
    numbers: int
    columns: tuple[int | None, ...]

    @property
    def dimension(self) -> int:
        """Return the length of the block: the count, sums, squares of numbers, and products."""
        size = len(self.effects) + 1
        return 1 + size + self.numbers + size * (size - 1) // 2


@dataclass(frozen=True, slots=True)
class Cells:
    """A design by cells: those of ``placing``, which is None where all records are in one."""

    placing: Placing | None
    each: tuple[Cell, ...]

    @classmethod
    def of(cls, names: Sequence[str], schema: Schema, splits: Sequence[Split] = ()) -> Cells:
        """Return a design of these columns by the cells of some splits."""
        placing = Placing(tuple(splits)) if splits else None
        factors = [factors_in(schema, name) for name in names]
        values = placing.values() if placing else iter([{}])
        return cls(placing, tuple(_cell(factors, each) for each in values))

    @classmethod
    def chosen(cls, names: Sequence[str], schema: Schema) -> Cells:
        """Return a design of these columns by the cells of least noise."""
        found = cls.of(names, schema)
        candidates = _splits(names, schema)[:_MOST_SPLIT]
        least = found.spread * _WORTH
        for size in range(1, len(candidates) + 1):
            for splits in combinations(candidates, size):
                if prod(split.size for split in splits) > MOST_CELLS:
                    continue
                other = cls.of(names, schema, splits)
                if other.spread < least:
                    found, least = other, other.spread
        return found

    @property
    def shared(self) -> frozenset[Factors]:
        """Return the effects that are in all cells, in the same columns of the design."""
        uses = [
            {
                effect: frozenset(at for at, own in enumerate(cell.columns) if own == place)
                for place, effect in enumerate(cell.effects, start=1)
            }
            for cell in self.each
        ]
        return frozenset(
            effect
            for effect, columns in uses[0].items()
            if all(each.get(effect) == columns for each in uses)
        )

    @property
    def spread(self) -> float:
        """Return the standard deviation of a sum over all cells, up to a common factor."""
        return (1 + max(cell.dimension for cell in self.each)) * sqrt(len(self.each))


def _splits(names: Sequence[str], schema: Schema) -> list[Split]:
    """Return the columns whose values are indicators in a design, those of most columns first."""
    named: dict[str, list[int]] = {}
    for name in names:
        for column, value in factors_in(schema, name).levels:
            named.setdefault(column, []).append(value)
    often = sorted(named, key=lambda column: -len(named[column]))
    return [
        Split(column, tuple(sorted(set(named[column]))), _codes(schema, column)) for column in often
    ]


def _codes(schema: Schema, name: str) -> int:
    column = schema.columns[name]
    return len(column.values) if isinstance(column, CategoryColumn) else 2


def _cell(factors: Sequence[Factors], values: dict[str, int | None]) -> Cell:
    """Return what columns are in the cell of these values."""
    left: list[Factors | None] = []
    for each in factors:
        inside = all(values[name] == value for name, value in each.levels if name in values)
        rest = tuple(level for level in each.levels if level[0] not in values)
        left.append(Factors(rest, each.rest) if inside else None)
    distinct = dict.fromkeys(each for each in left if each not in (None, _ONE))
    numbers = [each for each in distinct if each is not None and each.rest]
    flags = [each for each in distinct if each is not None and not each.rest]
    places = {each: place for place, each in enumerate([_ONE, *numbers, *flags])}
    return Cell(
        effects=(*numbers, *flags),
        numbers=len(numbers),
        columns=tuple(None if each is None else places[each] for each in left),
    )


# The columns of a design as sums of the effects of a cell

Form = tuple[tuple[int, Fraction], ...]
"""A sum of weights times 1, effects and the target, by their places: 0, 1 and so on."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A cell as it is summed: equal columns of its effects, then the target; and forms of all.

    ``numbers`` is how many effects are no indicators. ``shared`` holds the places of effects that
    are in all cells alike, in one order for all, and ``own`` those of the others. ``design`` holds
    what the columns of the design are in scaled units, the constant first where there is one.
    """

    columns: tuple[str, ...]
    numbers: int
    shared: tuple[int, ...]
    design: tuple[Form, ...]
    target: Form

    @property
    def effects(self) -> int:
        """Return how many effects there are."""
        return len(self.columns) - 1

    @property
    def own(self) -> tuple[int, ...]:
        """Return the places of the effects that are not shared."""
        return tuple(at for at in range(1, len(self.columns)) if at not in self.shared)

    def matrix(self) -> Floats:
        """Return F, (d, 1 + effects): the design's row is F (1, effects)."""
        found = np.zeros((len(self.design), 1 + self.effects))
        for row, form in enumerate(self.design):
            for place, weight in form:
                found[row, place] = float(weight)
        return found


def shapes_of(cells: Cells, scaling: RegressionScaling, schema: Schema) -> list[Shape]:
    """Return the cells of a design in scaled units, of sum codes or of codes as its scaling is.

    An effect is read from a column that is equal to it everywhere, if there is one, which has
    narrower bounds; else from one of the design that is equal to it in the cell.

    Raises
    ------
    ValueError
        The target is no number that is scaled.
    """
    target = scaling.target
    if target is None:
        raise ValueError("a regression from moments has a number as its target")
    names = [column.name for column in scaling.features]
    numbers = [name for name, each in schema.columns.items() if isinstance(each, NumberColumn)]
    # those of the design before others
    known = {factors_in(schema, name): name for name in (*numbers, *reversed(names))}
    middle = target.scale(0)
    slope = target.scale(target.largest) - middle
    found = []
    shared = sorted(cells.shared, key=str)
    for cell in cells.each:
        effects = [
            known.get(effect) or names[cell.columns.index(place)]
            for place, effect in enumerate(cell.effects, start=1)
        ]
        found.append(
            Shape(
                columns=(*effects, target.name),
                numbers=cell.numbers,
                shared=tuple(1 + cell.effects.index(effect) for effect in shared),
                design=_design(cell, effects, scaling, schema),
                target=_form(len(effects) + 1, middle, slope),
            )
        )
    return found


def joined_of(shapes: Sequence[Shape]) -> Joined:
    """Return the matrices of all cells next to one another, exactly; then what they share."""
    rows: list[list[Fraction]] = [[] for _ in shapes[0].design]
    wanted = [(shape, (0, *shape.own)) for shape in shapes]
    for shape, places in (*wanted, (shapes[0], shapes[0].shared)):
        for row, form in zip(rows, shape.design, strict=True):
            weights = dict(form)
            row += [weights.get(place, Fraction(0)) for place in places]
    return Joined(
        matrix=tuple(map(tuple, rows)),
        blocks=tuple(len(places) for _, places in wanted),
        shared=len(shapes[0].shared),
    )


def _design(
    cell: Cell, effects: Sequence[str], scaling: RegressionScaling, schema: Schema
) -> tuple[Form, ...]:
    found: list[Form] = [((0, Fraction(1)),)] if scaling.intercept else []
    for column, place in zip(scaling.features, cell.columns, strict=True):
        centre, slope = Fraction(place == 0), Fraction(0)
        if place:
            facts = schema.columns[effects[place - 1]]
            assert isinstance(facts, NumberColumn)
            centre = facts.midpoint
            slope = facts.half_width if column.largest == CODE_MAX else facts.sum_half_width
        # what a scaled value of 0 and of 1 are is public, and so is where the cell's values are
        found.append(
            _form(place or 0, (centre - column.centre) / column.width, slope / column.width)
        )
    return tuple(found)


def _form(place: int, middle: Fraction, slope: Fraction) -> Form:
    return tuple((at, weight) for at, weight in ((0, middle), (place, slope)) if weight)
