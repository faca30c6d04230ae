"""Answers as trees: numbers at the leaves, and everything else as it is.

A tree of an answer of tables may be *thin*: of a table it then has one number in place of the
cells, which is that of each cell. So are deviations, expected errors and ranges: those of a million
cells are one number for each table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mechanisms.contract import Json
from mechanisms.exact.floats import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorsOver:
    """Errors in the assumed population, and the least and largest over several ones.

    ``reach`` is what 95% of the errors are within where columns spread as assumed: the largest over
    numbers and such populations.
    ``bias`` is the largest share of an error that is bias.
    """

    mean: Json
    low: Json
    high: Json
    reach: float
    bias: float = 0.0


def mapped(number: Callable[..., object], *trees: Json) -> Json:
    """Return a tree with a function applied to each number.

    Of several trees of one shape it is given the numbers in the same place.
    """
    return cast(Json, _mapped(lambda _path, *each: number(*each), (), *trees))


def mapped_arrays(number: Callable[[Floats], float], tree: Json) -> Json:
    """Return a tree with a function applied to each array."""
    # Both halves of a matrix hold the same arrays.
    known: dict[int, float] = {}

    def walk(node: Any) -> object:
        if isinstance(node, np.ndarray):
            if id(node) not in known:
                known[id(node)] = number(node)
            return known[id(node)]
        if isinstance(node, Mapping):
            return {key: walk(value) for key, value in node.items()}
        return node if isinstance(node, str) else [walk(value) for value in node]

    return cast(Json, walk(tree))


def placed(number: Callable[[Sequence[object], float], object], tree: Json) -> Json:
    """Return a tree with a function applied to each number and its path."""
    return cast(Json, _mapped(number, (), tree))


def _mapped(
    number: Callable[..., object], path: tuple[object, ...], first: Any, *others: Any
) -> object:
    if is_number(first):
        return number(path, first, *others)
    if isinstance(first, str):
        return first
    if isinstance(first, dict | Mapping):
        return {
            key: _mapped(number, (*path, key), value, *(other[key] for other in others))
            for key, value in first.items()
        }
    if isinstance(first, list | Sequence):
        return [
            _mapped(number, (*path, place), value, *(other[place] for other in others))
            for place, value in enumerate(first)
        ]
    return first


def numbers(
    tree: object, path: tuple[object, ...] = ()
) -> Iterator[tuple[tuple[object, ...], float]]:
    """Yield every number of a tree with the keys that lead to it."""
    # An answer may have a million numbers, each with labels, and abstract classes are slow.
    if is_number(tree):
        yield path, float(cast(float, tree))
    elif isinstance(tree, str):
        return
    elif isinstance(tree, dict | Mapping):
        for key, value in tree.items():
            if not isinstance(value, str):  # most of a label's members are texts
                yield from numbers(value, (*path, key))
    elif isinstance(tree, list | Sequence):
        for place, value in enumerate(tree):
            yield from numbers(value, (*path, place))


def is_number(value: object) -> bool:
    """Return whether this is a number, and not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def at(tree: object, path: Sequence[object]) -> Any:
    """Return the node at this path; None where there is none.

    In a thin tree the number of a cell is that of its table.
    """
    found: Any = tree
    for key in path:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):
            return found.get(path[-1]) if key == "cells" and isinstance(found, Mapping) else None
    return found


def reaching(ranges: Any, value: Any) -> Any:
    """Return ranges that reach to the numbers in the same places of a value."""
    if isinstance(ranges, Mapping):
        inside = value if isinstance(value, Mapping) else {}
        return {key: reaching(each, inside.get(key)) for key, each in ranges.items()}
    if not isinstance(ranges, list | tuple):
        return ranges
    if len(ranges) == 2 and all(isinstance(end, int | float) for end in ranges):
        if isinstance(value, int | float) and not ranges[0] <= value <= ranges[1]:
            return [min(ranges[0], value), max(ranges[1], value)]
        return ranges
    of = value if isinstance(value, list) and len(value) == len(ranges) else [None] * len(ranges)
    return [reaching(each, number) for each, number in zip(ranges, of, strict=True)]
