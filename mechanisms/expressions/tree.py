"""The tree of an expression, and the canonical text that all spellings of it share.

*Conventions.* A :class:`Node` is an operation on nodes. Leaves: ``number`` with a rational,
``column`` and ``text`` with a string. ``in`` holds a column or number, then what it is compared
with. ``place`` is the character where it begins, counted from 1; it is no part of the meaning.
The text is R's: ``^`` for powers, a space around ``+ - *`` and comparisons, none around ``/``.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from mechanisms.domain import NumberColumn
from mechanisms.exact.fractions import decimal_text

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
