"""The tree of an expression, and the canonical text that all spellings of it share.

*Conventions.* A :class:`Node` is an operation on nodes. Leaves: ``number`` with a rational,
``column`` and ``text`` with a string. ``in`` holds a column or number, then what it is compared
with. ``place`` is the character where it begins, counted from 1; it is no part of the meaning.
The text is R's: ``^`` for powers, a space around ``+ - *`` and comparisons, none around ``/``.

The value of an expression in each of some rows, from the values of their cells.

Values are exact: an age of 65 is 65, and whole numbers are compared as integers, with constants and
with one another (:mod:`mechanisms.expressions.conjunctions`). What is computed is binary64.

Elementary functions of arrays, whose result for a value does not depend on its neighbours.

Vectorised libraries may compute the last elements of an array, or another array length, by
other instructions than the rest, so that ``log(x)`` could depend on where in the array x stands:
then a row's code would depend on other rows. Everything here is made of single IEEE 754
operations that are rounded correctly, each on one element at a time (``+ - * /``, rounding,
comparison, scaling by a power of two), so the result for an element is a function of that element
alone, and the same on every machine. Relative error: below 1e-14.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np

from mechanisms.domain import CategoryColumn, Column, NumberColumn, Values
from mechanisms.exact.floats import Floats
from mechanisms.exact.fractions import decimal_text
from mechanisms.expressions.conjunctions import COMPARE, Mask, compared

_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""log(2) in two parts, the first with so few digits that small multiples of it are exact."""
_ROOT_HALF = 0.7071067811865476  # mantissas are taken around 1, where s is smallest
_LOG_TERMS = 11  # |s| is below 0.172: the next term is below 1e-20
_EXP_TERMS = 14  # |r| is below 0.347: the next term is below 1e-19


def log(values: Floats) -> Floats:
    """Return the natural logarithm of positive numbers; anything for others.

    x = m 2**k with m in [sqrt(1/2), sqrt(2)),   s = (m - 1) / (m + 1),
    log x = k log 2 + 2 (s + s**3 / 3 + s**5 / 5 + ...)
    """
    mantissa, exponent = np.frexp(values)
    small = mantissa < _ROOT_HALF
    mantissa = np.where(small, 2 * mantissa, mantissa)
    power = exponent - small
    s = (mantissa - 1) / (mantissa + 1)
    square = s * s
    total = np.full_like(s, 1 / (2 * _LOG_TERMS + 1))
    for term in range(_LOG_TERMS - 1, -1, -1):
        total = total * square + 1 / (2 * term + 1)
    # The small parts first: added one by one to the large one they would be rounded away.
    return np.asarray((power * _LN2_LOW + 2 * s * total) + power * _LN2_HIGH)


def log1p(values: Floats) -> Floats:
    """Return log(1 + x) for x above -1, accurately near 0 too; anything for others."""
    shifted = 1 + values
    # what the sum lost by rounding is given back to first order
    lost = values - (shifted - 1)
    return np.asarray(log(shifted) + np.where(shifted > 0, lost / shifted, 0.0))


def exp(values: Floats) -> Floats:
    """Return the exponential of numbers of at most 700; anything for others.

    x = k log 2 + r with |r| <= log(2) / 2,   exp x = 2**k (1 + r + r**2 / 2 + ...)
    """
    power = np.rint(values * (1 / (_LN2_HIGH + _LN2_LOW)))
    rest = (values - power * _LN2_HIGH) - power * _LN2_LOW
    total = np.ones_like(rest)
    for term in range(_EXP_TERMS, 0, -1):
        total = total * rest / term + 1
    # Beyond those it is 0 or infinite anyhow, and what is no int32 would be cast to anything.
    return np.asarray(np.ldexp(total, np.clip(power, -1100, 1100).astype(np.int32)))


def whole_power(values: Floats, power: int) -> Floats:
    """Return values to a whole power, by repeated multiplication."""
    result, square, left = np.ones_like(values), values, abs(power)
    while left:
        if left & 1:
            result = result * square
        square, left = square * square, left >> 1
    return np.asarray(1 / result if power < 0 else result)


def power(values: Floats, exponent: float) -> Floats:
    """Return values of 0 or more to a fractional power."""
    if exponent == 0.5:
        return np.asarray(np.sqrt(values))
    # A logarithm of 0 is anything here, so 1 stands in for it until the last line.
    found = exp(exponent * log(np.where(values > 0, values, 1.0)))
    return np.asarray(np.where(values > 0, found, 0.0))


# The tree of an expression, and the canonical text that all spellings of it share


# The possible values of a part of an expression: a constant, or a range

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


# The tree of an expression, and the canonical text that all spellings of it share

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
FUNCTIONS = ("abs", "clip", "exp", "log", "log1p", "max", "min", "sqrt")

_RANK = {"or": 1, "and": 2, "not": 3, "in": 4, "missing": 4, "+": 5, "-": 5, "*": 6, "/": 6}
_RANK |= dict.fromkeys(COMPARISONS, 4) | {"negative": 7, "^": 8}
_ATOM = 9  # above every operator's: it is never put in brackets
_PLAIN_NAME = re.compile(r"[^\W\d](?:\w|\.(?=\w))*")
_RESERVED = frozenset({"and", "or", "not", "in", "is", "True", "False"})


@dataclass(frozen=True, slots=True)
class Node:
    """An operation and its arguments."""

    op: str
    args: tuple[Node, ...] = ()
    value: Fraction | str | None = None
    place: int = field(default=0, compare=False)

    @property
    def number(self) -> Fraction:
        """Return the rational of a ``number``."""
        if not isinstance(self.value, Fraction):
            raise TypeError("not a number")
        return self.value

    @property
    def name(self) -> str:
        """Return the string of a ``column`` or ``text``."""
        if not isinstance(self.value, str):
            raise TypeError("not a name")
        return self.value

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for node in self.args:
            yield from node.walk()

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns it reads, each once, in the order of reading."""
        return tuple(dict.fromkeys(node.name for node in self.walk() if node.op == "column"))

    def __str__(self) -> str:
        """Return the canonical text: reading it again gives an equal tree."""
        return _text(self)[0]


def column(name: str) -> Node:
    """Return the node of a column."""
    return Node("column", value=name)


def is_value(name: str, value: str) -> Node:
    """Return the node that is true where a category has this value."""
    return Node("==", (column(name), Node("text", value=value)))


def product(*factors: Node) -> Node:
    """Return the product of one node or more."""
    result = factors[0]
    for factor in factors[1:]:
        result = Node("*", (result, factor))
    return result


def quoted_name(name: str) -> str:
    """Return a column's name as it is written in an expression.

    >>> quoted_name("age"), quoted_name("house value")
    ('age', '`house value`')
    """
    plain = _PLAIN_NAME.fullmatch(name) and name not in _RESERVED
    return name if plain else f"`{name}`"


def coefficient_name(node: Node) -> str:
    """Return R's name of a coefficient of this: a name, a call, or ``I(...)``."""
    if node.op == "column":
        return node.name
    return str(node) if node.op in FUNCTIONS else f"I({node})"


def is_name_of_python(word: str) -> bool:
    """Return whether a word is reserved in Python, but is a name here."""
    return keyword.iskeyword(word) and word not in _RESERVED


def _text(node: Node) -> tuple[str, int]:
    """Return the text of a node and its precedence."""
    rank = _RANK.get(node.op, _ATOM)
    if rank == _ATOM:
        return _atom(node), rank
    first, *others = node.args
    if node.op in ("not", "negative"):
        sign = "-" if node.op == "negative" else "not "
        return sign + _held(first, rank), rank
    if node.op == "^":  # it holds from the right, and a minus on its right needs no bracket
        return f"{_held(first, rank + 1)}^{_held(others[0], rank - 1)}", rank
    if node.op in _BEHIND:
        return f"{_held(first, rank + 1)} {_BEHIND[node.op](others)}", rank
    joint = node.op if node.op == "/" else f" {node.op} "
    left = rank + 1 if node.op in COMPARISONS else rank
    return joint.join([_held(first, left), *(_held(each, rank + 1) for each in others)]), rank


_BEHIND: Mapping[str, Callable[[list[Node]], str]] = {
    "in": lambda others: f"in ({', '.join(map(str, others))})",
    "missing": lambda _others: "is missing",
}


def _atom(node: Node) -> str:
    if node.op == "number":
        return decimal_text(node.number)
    if node.op == "column":
        return quoted_name(node.name)
    if node.op == "text":
        return f"'{node.name}'" if '"' in node.name else f'"{node.name}"'
    return f"{node.op}({', '.join(map(str, node.args))})"


def _held(node: Node, least: int) -> str:
    """Return a node's text, in brackets unless it holds together this tightly."""
    text, rank = _text(node)
    return text if rank >= least else f"({text})"


# The value of an expression in each of some rows, from the values of their cells


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
    "exp": exp,
    "log": log,
    "log1p": log1p,
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
            return whole_power(base, int(exponent))
        found = power(base, float(abs(exponent)))
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
