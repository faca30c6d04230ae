"""The value of an expression in each of some rows, from their codes.

*Decoding.* A code stands for all values that are encoded to it, an interval one step wide. It is
read as the shortest decimal in there: an age of 65 stored between 0 and 120 is 65 again, not
64.99998, so that ``age == 65`` and ``age >= 65`` say what they seem to. A column compared with a
number within its bounds is compared by codes, as in every condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import CODE_MAX, CategoryColumn, Column, NumberColumn
from mechanisms.exact.arrays import Floats
from mechanisms.expressions import elementary
from mechanisms.expressions.ranges import compared_with, constant
from mechanisms.expressions.tree import COMPARISONS, Node

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]

_EXACT_POWERS = 22  # 10**22 is the largest power of ten that is a float
_HALF_A_STEP = 0.5000001  # and what floats lose: the decimal is encoded to this very code

_COMPARE: Mapping[str, Callable[[Any, Any], Mask]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_ARITHMETIC: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}
_OF_ONE: Mapping[str, Callable[[Floats], Floats]] = {
    "abs": np.abs,
    "exp": elementary.exp,
    "log": elementary.log,
    "log1p": elementary.log1p,
    "negative": np.negative,
    "sqrt": np.sqrt,
}


def decoded(column: NumberColumn, codes: Codes) -> Floats:
    """Return the values that codes stand for, in the column's units, as short decimals."""
    if column.boolean:
        return (codes > 0).astype(np.float64)
    midpoint, step, digits = _scale(column)
    values = np.asarray(midpoint + codes * step)
    if abs(digits) > _EXACT_POWERS:
        return values
    power = 10.0 ** abs(digits)
    short = np.rint(values * power) / power if digits >= 0 else np.rint(values / power) * power
    return np.where(np.abs(short - values) <= _HALF_A_STEP * step, short, values)


@lru_cache(maxsize=1024)  # of few rows it would take nearly all of the time
def _scale(column: NumberColumn) -> tuple[float, float, int]:
    """Return a column's midpoint and step, and the digits that one step still tells."""
    return float(column.midpoint), float(column.step), _digits(column.step)


def _digits(step: Fraction) -> int:
    """Return the digits after the point (before it, if negative) that one step still tells."""
    digits = 0
    while digits < _EXACT_POWERS + 1 and Fraction(1, 10**digits) > 10 * step:
        digits += 1
    while digits > -_EXACT_POWERS - 1 and 10**-digits <= step:
        digits -= 1
    return digits


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some rows: their codes by column, and which of their cells were missing in the file."""

    columns: Mapping[str, Column]
    codes: Mapping[str, Codes]
    missing: Mapping[str, Mask]

    def numbers(self, node: Node) -> Floats:
        """Return the value of a number in each row; a constant as one for all."""
        if node.op in ("number", "column"):
            return self._leaf(node)
        if node.op in _OF_ONE:
            return _OF_ONE[node.op](self.numbers(node.args[0]))
        if node.op == "^":
            return self._power(node)
        if node.op not in _ARITHMETIC and node.op != "clip":
            return self.truths(node).astype(np.float64)
        first, *others = [self.numbers(arg) for arg in node.args]
        if node.op == "clip":
            return np.minimum(np.maximum(first, others[0]), others[1])
        for other in others:
            first = _ARITHMETIC[node.op](first, other)
        return first

    def _leaf(self, node: Node) -> Floats:
        if node.op == "number":
            return np.asarray(float(node.number))
        column = self.columns[node.name]
        assert isinstance(column, NumberColumn)
        return decoded(column, self.codes[node.name])

    def _power(self, node: Node) -> Floats:
        exponent = constant(node.args[1])
        assert exponent is not None
        base = self.numbers(node.args[0])
        if exponent.denominator == 1:
            return elementary.whole_power(base, int(exponent))
        found = elementary.power(base, float(abs(exponent)))
        return np.asarray(1 / found if exponent < 0 else found)

    def truths(self, node: Node) -> Mask:
        """Return whether something is true in each row; a constant as one for all."""
        if node.op in COMPARISONS:
            return self._compared(node.args[0], node.op, node.args[1])
        if node.op == "in":
            first, *others = node.args
            found = [self._compared(first, "==", each) for each in others]
            return np.asarray(np.logical_or.reduce(np.broadcast_arrays(*found)))
        if node.op == "not":
            return np.logical_not(self.truths(node.args[0]))
        if node.op in ("and", "or"):
            join = np.logical_and if node.op == "and" else np.logical_or
            return np.asarray(join.reduce(np.broadcast_arrays(*map(self.truths, node.args))))
        if node.op == "missing":
            mask = self.missing.get(node.args[0].name)
            return np.asarray(False) if mask is None else mask
        return np.asarray(self.numbers(node) != 0)

    def _compared(self, one: Node, op: str, two: Node) -> Mask:
        if one.op == "column":
            column = self.columns[one.name]
            if isinstance(column, CategoryColumn):
                place = column.values.index(two.name)
                return _COMPARE[op](self.codes[one.name], place)
            number = None if column.boolean else compared_with(column, two)
            if number is not None and column.lower <= number <= column.upper:
                return _COMPARE[op](self.codes[one.name], column.encode_one(float(number)))
            # A date beyond the bounds has no code, but rows still lie on one side of it.
            if two.op == "text" and number is not None:
                return np.asarray(_COMPARE[op](self.numbers(one), float(number)))
        return np.asarray(_COMPARE[op](self.numbers(one), self.numbers(two)))


def encoded(node: Node, column: NumberColumn, rows: Rows, count: int) -> Codes:
    """Return the codes of an expression in each of so many rows, clamped; no value is none."""
    if column.boolean:
        found = np.where(rows.truths(node), np.int32(CODE_MAX), np.int32(-CODE_MAX))
    else:
        with np.errstate(all="ignore"):  # what overflows or has no value is clamped
            values = rows.numbers(node)
            found = column.encode(np.where(np.isnan(values), float(column.lower), values))
    # A constant is broadcast to a view that nobody may write to, hence the copy.
    return np.broadcast_to(found, (count,)).astype(np.int32, copy=True)
