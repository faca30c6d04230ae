"""The value of an expression in each of some rows, from the values of their cells.

Values are exact: an age of 65 is 65, and whole numbers are compared as integers, with constants and
with one another (:mod:`mechanisms.expressions.conjunctions`). What is computed is binary64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mechanisms.domain import CategoryColumn, Column, NumberColumn, Values
from mechanisms.exact.many import Floats
from mechanisms.expressions import elementary
from mechanisms.expressions.conjunctions import COMPARE, Mask, compared
from mechanisms.expressions.tree import COMPARISONS, Node, compared_with, constant

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


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some rows: their values by column, and which of their cells were missing in the file."""

    columns: Mapping[str, Column]
    values: Mapping[str, Values]
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
        return self.values[node.name].astype(np.float64, copy=False)

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
            column, values = self.columns[one.name], self.values[one.name]
            if isinstance(column, CategoryColumn):
                return COMPARE[op](values, *column.places_of([two.name]))
            number = compared_with(column, two)
            if number is not None:
                return compared(values, op, number)
            if two.op == "column" and values.dtype.kind == "i":
                other = self.values[two.name]
                if other.dtype.kind == "i":
                    return COMPARE[op](values, other)
        return np.asarray(COMPARE[op](self.numbers(one), self.numbers(two)))


def evaluated(node: Node, column: NumberColumn, rows: Rows, count: int) -> Values:
    """Return the clamped values of an expression in each of ``count`` rows."""
    found: Values
    if column.boolean:
        found = rows.truths(node)
    else:
        with np.errstate(all="ignore"):  # what overflows or has no value is clamped
            values = rows.numbers(node)
            found = column.clamped(np.where(np.isnan(values), float(column.lower), values))
    # A constant is broadcast to a read-only view, hence the copy.
    return np.broadcast_to(found, (count,)).astype(column.dtype, copy=True)
