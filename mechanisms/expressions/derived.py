"""A derived column: an expression, its public bounds, and its codes row by row.

    code = encode(clamp(f(row))),    f an expression of the row's other codes.

**Privacy.** A derived column needs no sensitivity of its own. Let g be the map from a row's codes
to the derived code. It is a function of that row alone: an expression has no operation on
several rows, and each floating-point operation is rounded element by element
(:mod:`mechanisms.expressions.elementary`). It is total: what has no value becomes the lower bound.
And it is public, made of the request and of declared bounds. So a data set D becomes
``{(row, g(row)) : row in D}``, and D and D' which differ by one row replaced, added or removed
become two that differ by one row in the same way: neighbours stay neighbours, whatever g is and
however its floats were rounded. Every code lies in the column's declared range, because it is
clamped. Hence a mechanism that is private on the wider rows is private on D.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mechanisms.domain import Column, NumberColumn
from mechanisms.exact.decimals import as_written, decimal_text
from mechanisms.expressions.evaluation import Codes, Mask, Rows, encoded
from mechanisms.expressions.ranges import Range, range_of
from mechanisms.expressions.refusals import ExpressionError
from mechanisms.expressions.tree import Node

_ROWS = 1 << 14  # a column of floats then stays in a processor's own memory

_MS_PER_PART = 4e-6  # measured; of one operation on one row
_SLOW = {"log": 4, "log1p": 5, "exp": 4, "^": 3}

EXPRESSION, LOWER, UPPER = "expr", "lower", "upper"
"""Which part of a definition an error is about."""


class DefinitionError(ExpressionError):
    """A definition that cannot be: what is wrong, and in which ``part`` of it."""

    def __init__(self, detail: str, part: str) -> None:
        super().__init__(detail)
        self.part = part


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column made of others, row by row.

    ``sources`` holds the public facts of the columns that ``tree`` reads.
    """

    tree: Node
    column: NumberColumn
    sources: Mapping[str, Column]

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns it is made of."""
        return tuple(self.sources)

    @property
    def ms_per_row(self) -> float:
        """Return about how many milliseconds of one core computing it takes for each row."""
        parts = sum(_SLOW.get(node.op, 1) for node in self.tree.walk())
        return _MS_PER_PART * parts

    @property
    def key(self) -> str:
        """Return a text that no other map of the same columns shares."""
        ends = (decimal_text(self.column.lower), decimal_text(self.column.upper))
        return f"{self.tree} in [{ends[0]}, {ends[1]}]"

    def codes(self, block: Mapping[str, Codes], missing: Mapping[str, Mask] | None = None) -> Codes:
        """Return the codes of some rows, from the codes of the columns it reads.

        ``missing`` says which of their cells the file did not have.
        """
        masks = missing or {}
        count = len(next(iter(block.values())))
        found = np.empty(count, dtype=np.int32)
        for start in range(0, count, _ROWS):
            part = slice(start, min(start + _ROWS, count))
            rows = Rows(
                self.sources,
                {name: block[name][part] for name in self.sources},
                {name: masks[name][part] for name in self.sources if name in masks},
            )
            found[part] = encoded(self.tree, self.column, rows, part.stop - start)
        return found


def derived_column(
    tree: Node,
    columns: Mapping[str, Column],
    *,
    lower: Fraction | None = None,
    upper: Fraction | None = None,
    may_miss: bool = False,
) -> DerivedColumn:
    """Return the column that an expression of others is.

    Parameters
    ----------
    lower, upper
        Narrower bounds than follow from the columns'; values outside are clamped to them.
    may_miss
        Whether ``is missing`` may be asked: while a file is read.

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
        found = range_of(tree, columns, may_miss=may_miss)
        column = _column(found, lower, upper)
    except DefinitionError:
        raise
    except ExpressionError as error:
        raise DefinitionError(error.detail, EXPRESSION) from None
    return DerivedColumn(tree, column, {name: columns[name] for name in reads})


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
        ends = f"{float(low):.9g} to {float(high):.9g}"
        raise DefinitionError(
            f"the bounds leave nothing: by the columns' bounds the values lie in {ends}",
            UPPER if lower is None else LOWER,
        )
    return NumberColumn(least, most)


def _at_most(value: Fraction) -> Fraction:
    """Return the largest float that is at most a rational, as the decimal it is written as."""
    near = float(value)
    while as_written(near) > value:
        near = math.nextafter(near, -math.inf)
    return as_written(near)
