"""A derived column: an expression, its public bounds, and its values row by row.

    value = clamp(f(row)),    f an expression of the row's other values.

**Privacy.** A derived column needs no sensitivity of its own. Let g be the map from a row's values
to the derived one. It is a function of that row alone: an expression has no operation on
several rows, and each floating-point operation is rounded element by element
(:mod:`mechanisms.expressions.tree`). It is total: what has no value becomes the lower bound.
And it is public, made of the request and of declared bounds. So a data set D becomes
``{(row, g(row)) : row in D}``, and D and D' which differ by one row replaced, added or removed
become two that differ by one row in the same way: neighbours stay neighbours, whatever g is and
however its floats were rounded. Every value lies within the column's bounds, because it is
clamped. Hence a mechanism that is private on the wider rows is private on D.

*Missing cells.* Whether the column has a value in a row is such a map too: the derived column's
:meth:`DerivedColumn.presence`, by the rule of :mod:`mechanisms.expressions.presence`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from mechanisms.domain import Column, NumberColumn, Values, presence_of
from mechanisms.exact.fractions import as_written, decimal_text
from mechanisms.expressions.conjunctions import Mask
from mechanisms.expressions.parsing import DEEPEST, ExpressionError, parse
from mechanisms.expressions.presence import (
    asked_about,
    has_value,
    is_strict,
    misses,
    values_read,
)
from mechanisms.expressions.ranges import range_of
from mechanisms.expressions.tree import Node, Range, Rows, evaluated

# Several derived columns by name, which may depend on each other

NAME = ""
"""The part of a definition that an error about its name is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A column to derive: an expression, and narrower bounds if any."""

    tree: Node
    lower: Fraction | None = None
    upper: Fraction | None = None

    @classmethod
    def read(
        cls, expr: str, *, lower: Fraction | None = None, upper: Fraction | None = None
    ) -> Definition:
        """Return the definition that a text is.

        Raises
        ------
        DefinitionError
            It cannot be read.
        """
        try:
            return cls(tree=parse(expr), lower=lower, upper=upper)
        except ExpressionError as error:
            raise DefinitionError(error.detail, EXPRESSION) from None


class NamedError(Exception):
    """An error in one of several definitions."""

    def __init__(self, name: str, error: DefinitionError) -> None:
        super().__init__(error.detail)
        self.name = name
        self.detail = error.detail
        self.part = error.part


def derived_columns(
    definitions: Mapping[str, Definition],
    columns: Mapping[str, Column],
    *,
    may_miss: bool = False,
    optional: Collection[str] = (),
) -> dict[str, DerivedColumn]:
    """Return the columns that definitions make of others and of one another.

    They come in an order in which each is made of columns before it. ``optional`` are the columns
    that keep their missing cells.

    Raises
    ------
    NamedError
        A name that a column has, a circle, or a definition that does not fit.
    """
    found: dict[str, DerivedColumn] = {}
    lacking = set(optional)
    begun: set[str] = set()

    def make(name: str, depth: int) -> None:
        if depth > DEEPEST:
            raise NamedError(name, DefinitionError("too many columns in a row", EXPRESSION))
        wanted = definitions[name]
        for each in wanted.tree.columns:
            if each in columns or each in found or each not in definitions:
                continue
            if each in begun:
                raise NamedError(name, DefinitionError("the column is made of itself", EXPRESSION))
            begun.add(each)
            make(each, depth + 1)
        there = {**columns, **{each: made.column for each, made in found.items()}}
        try:
            found[name] = derived_column(
                wanted.tree,
                there,
                lower=wanted.lower,
                upper=wanted.upper,
                may_miss=may_miss,
                optional=lacking,
            )
        except DefinitionError as error:
            raise NamedError(name, error) from None
        if found[name].misses:
            lacking.add(name)

    for name in definitions:
        if name in columns:
            raise NamedError(name, DefinitionError("a column has this name already", NAME))
        if name not in found:
            begun.add(name)
            make(name, 1)
    return found


# A derived column: an expression, its public bounds, and its values row by row

_ROWS = 1 << 14  # a column of floats then stays in the CPU cache

_MS_PER_PART = 4e-6  # measured; of one operation on one row
_SLOW = {"log": 4, "log1p": 5, "exp": 4, "^": 3}

EXPRESSION, LOWER, UPPER = "expr", "lower", "upper"
"""Which part of a definition an error is about."""


class DefinitionError(ExpressionError):
    """An invalid definition: the error, and the ``part`` with it."""

    def __init__(self, detail: str, part: str) -> None:
        super().__init__(detail)
        self.part = part


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column computed from others, row by row.

    ``sources`` holds the public facts of the columns that ``tree`` reads, and ``optional`` names
    those of them in which a row may have no value. ``of_presence`` marks the column that says
    whether the row has a value of this one.
    """

    tree: Node
    column: NumberColumn
    sources: Mapping[str, Column]
    optional: frozenset[str] = frozenset()
    of_presence: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns it is made of, and those that say whether they have values."""
        return (*self.sources, *(presence_of(name) for name in self._asked))

    @property
    def _asked(self) -> list[str]:
        """Return the columns whose missing cells matter here."""
        wanted = self.sources if self.of_presence else asked_about(self.tree)
        return [name for name in wanted if name in self.optional]

    @property
    def strict(self) -> bool:
        """Return whether it has a value exactly where all that it is made of have one."""
        return is_strict(self.tree)

    @property
    def values_read(self) -> tuple[str, ...]:
        """Return the columns of whose values it is made, and not of whether they have one."""
        return tuple(values_read(self.tree))

    @property
    def misses(self) -> tuple[str, ...]:
        """Return the columns whose missing cells may leave it without a value; often none."""
        return misses(self.tree, self.optional)

    def presence(self) -> DerivedColumn:
        """Return the boolean that says whether a row has a value of this column."""
        boolean = NumberColumn(Fraction(0), Fraction(1), boolean=True)
        return replace(self, column=boolean, of_presence=True)

    @property
    def ms_per_row(self) -> float:
        """Return about how many milliseconds of one core computing it takes for each row."""
        parts = sum(_SLOW.get(node.op, 1) for node in self.tree.walk())
        return _MS_PER_PART * parts

    @property
    def key(self) -> str:
        """Return a text that no other map of the same columns shares."""
        ends = (decimal_text(self.column.lower), decimal_text(self.column.upper))
        if self.of_presence:
            return f"presence of {self.tree}"
        return f"{self.tree} in [{ends[0]}, {ends[1]}]"

    def values(
        self, block: Mapping[str, Values], missing: Mapping[str, Mask] | None = None
    ) -> Values:
        """Return the values of some rows, from the values of the columns it reads.

        ``missing`` says which of their cells the file did not have; without it the block does.
        """
        masks = missing
        if masks is None:
            masks = {name: block[presence_of(name)] == 0 for name in self._asked}
        count = len(next(iter(block.values())))
        found = np.empty(count, dtype=self.column.dtype)
        for start in range(0, count, _ROWS):
            part = slice(start, min(start + _ROWS, count))
            rows = Rows(
                self.sources,
                {name: block[name][part] for name in self.sources},
                {name: masks[name][part] for name in self.sources if name in masks},
            )
            if self.of_presence:
                found[part] = has_value(self.tree, rows, self.optional)
            else:
                found[part] = evaluated(self.tree, self.column, rows, part.stop - start)
        return found


def derived_column(
    tree: Node,
    columns: Mapping[str, Column],
    *,
    lower: Fraction | None = None,
    upper: Fraction | None = None,
    may_miss: bool = False,
    optional: Collection[str] = (),
) -> DerivedColumn:
    """Return the column that an expression of others is.

    Parameters
    ----------
    lower, upper
        Narrower bounds than follow from the columns'; values outside are clamped to them.
    may_miss
        Whether ``is missing`` may be asked of every column: while a file is read.
    optional
        The columns that keep their missing cells; of those it may be asked at any time.

    Raises
    ------
    DefinitionError
        The expression does not fit the columns, is the same in every row, or the
        bounds leave nothing.

    >>> from mechanisms.expressions.parsing import parse
    >>> age = NumberColumn(Fraction(0), Fraction(100))
    >>> squares = derived_column(parse("(age - 40)^2"), {"age": age})
    >>> squares.column.lower, squares.column.upper
    (Fraction(0, 1), Fraction(3600, 1))
    """
    reads = tree.columns
    if not reads:
        raise DefinitionError("the expression names no column, so it is no column", EXPRESSION)
    try:
        found = range_of(tree, columns, may_miss=may_miss, optional=optional)
        if found.kind == "truth" and found.low == found.high:
            raise DefinitionError(
                f"{tree} is true in every row, by the columns' bounds and declared values"
                if found.low
                else f"{tree} is false in every row, by the columns' bounds and declared values",
                EXPRESSION,
            )
        column = _column(found, lower, upper)
    except DefinitionError:
        raise
    except ExpressionError as error:
        raise DefinitionError(error.detail, EXPRESSION) from None
    sources = {name: columns[name] for name in reads}
    return DerivedColumn(tree, column, sources, frozenset(optional) & sources.keys())


def with_derived(
    derived: Mapping[str, DerivedColumn], block: Mapping[str, Values], masks: Mapping[str, Mask]
) -> dict[str, Values]:
    """Return a block with derived columns, and which rows have values of those that may have none.

    ``masks`` say which cells the file lacked, those among them that are filled in.
    """
    whole, known = dict(block), dict(masks)
    for name, column in derived.items():
        whole[name] = column.values(whole, known)
        if column.misses:
            there = column.presence().values(whole, known)
            whole[presence_of(name)] = there
            known[name] = there == 0
    return whole


def _column(found: Range, lower: Fraction | None, upper: Fraction | None) -> NumberColumn:
    if found.kind in ("category", "text"):
        raise DefinitionError(
            "the expression is a category; name the column itself, or compare it with a value",
            EXPRESSION,
        )
    if found.kind == "truth":
        if lower is not None or upper is not None:
            raise DefinitionError(
                "what is true or false has no bounds to narrow",
                LOWER if lower is not None else UPPER,
            )
        return NumberColumn(Fraction(0), Fraction(1), boolean=True)
    if found.low == found.high:
        raise DefinitionError("the expression is the same number in every row", EXPRESSION)
    # Outwards, so that rounding the bounds clamps no value that a row may have.
    low, high = _at_most(found.low), -_at_most(-found.high)
    least = low if lower is None else max(low, lower)
    most = high if upper is None else min(high, upper)
    if not least < most:
        first, last = f"{float(low):.9g}", f"{float(high):.9g}"
        raise DefinitionError(
            f"the bounds leave nothing: by the columns' bounds the values lie in {first} to {last}",
            UPPER if lower is None else LOWER,
        )
    return NumberColumn(least, most)


def _at_most(value: Fraction) -> Fraction:
    """Return the largest float that is at most a rational, as the decimal it is written as."""
    near = float(value)
    while as_written(near) > value:
        near = math.nextafter(near, -math.inf)
    return as_written(near)
