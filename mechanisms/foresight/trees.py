"""Answers as trees: numbers at the leaves, and everything else as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from mechanisms.contract import Json


def mapped(number: Callable[..., object], *trees: Json) -> Json:
    """Return a tree with each number replaced by what a function makes of it.

    Of several trees of one shape it is given the numbers in the same place.
    """
    return cast(Json, _mapped(lambda _path, *each: number(*each), (), *trees))


def placed(number: Callable[[Sequence[object], float], object], tree: Json) -> Json:
    """Return a tree with each number replaced by what a function makes of its path and itself."""
    return cast(Json, _mapped(number, (), tree))


def _mapped(
    number: Callable[..., object], path: tuple[object, ...], first: Any, *others: Any
) -> object:
    if isinstance(first, Mapping):
        return {
            key: _mapped(number, (*path, key), value, *(other[key] for other in others))
            for key, value in first.items()
        }
    if isinstance(first, Sequence) and not isinstance(first, str):
        return [
            _mapped(number, (*path, place), value, *(other[place] for other in others))
            for place, value in enumerate(first)
        ]
    return number(path, first, *others) if is_number(first) else first


def numbers(
    tree: object, path: tuple[object, ...] = ()
) -> Iterator[tuple[tuple[object, ...], float]]:
    """Yield every number of a tree with the keys that lead to it."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from numbers(value, (*path, key))
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for place, value in enumerate(tree):
            yield from numbers(value, (*path, place))
    elif is_number(tree):
        yield path, float(cast(float, tree))


def is_number(value: object) -> bool:
    """Return whether this is a number, and not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def at(tree: object, path: Sequence[object]) -> Any:
    """Return what these keys lead to; None where nothing is."""
    found: Any = tree
    for key in path:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):
            return None
    return found
