"""The possible values of a part of an expression: a constant, or a range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from mechanisms.domain import NumberColumn
from mechanisms.expressions.tree import Node

Kind = Literal["number", "truth", "category", "text"]
Ends = tuple[Fraction, Fraction]

MOST_POWER = 64


@dataclass(frozen=True, slots=True)
class Range:
    """What a node is, and the least and the largest value of a number or truth."""

    kind: Kind
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)


def constant(node: Node) -> Fraction | None:
    """Return the number that an expression without columns is, if it is a rational one."""
    if node.op == "number":
        return node.number
    parts = [constant(arg) for arg in node.args]
    numbers = [part for part in parts if part is not None]
    if not parts or len(numbers) < len(parts) or node.op not in _EXACT:
        return None
    try:
        return _EXACT[node.op](*numbers)
    except (ArithmeticError, ValueError):
        return None


def compared_with(column: NumberColumn, node: Node) -> Fraction | None:
    """Return the number that a column is compared with: a constant, or a date in quotes."""
    if node.op != "text":
        return constant(node)
    number = column.number_of(node.name)
    return None if number is None else Fraction(number)


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator > 1 or abs(exponent) > MOST_POWER:
        raise ValueError("not exact")
    return Fraction(base ** int(exponent))


_EXACT: Mapping[str, Callable[..., Fraction]] = {
    "+": lambda one, two: one + two,
    "-": lambda one, two: one - two,
    "*": lambda one, two: one * two,
    "/": lambda one, two: one / two,
    "^": _exact_power,
    "negative": lambda one: -one,
}
