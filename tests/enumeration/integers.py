"""Uniform integers that are known only as far as they were asked about.

A comparison with a number splits what is left of the range in two, with odds that are the numbers
of values on either side. Where a sampler needs the number itself, each value is an option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

Choose = Callable[[Sequence[Fraction]], int]


@dataclass(slots=True, eq=False)
class _Range:
    low: int
    high: int  # exclusive


class Lazy:
    """An integer uniform on a range that shrinks as it is asked about, plus an offset."""

    __slots__ = ("_choose", "_offset", "_range")

    def __init__(self, choose: Choose, values: _Range, offset: int) -> None:
        self._choose = choose
        self._range = values
        self._offset = offset

    @classmethod
    def uniform(cls, choose: Choose, bound: int) -> Lazy:
        """Return an integer uniform on [0, bound)."""
        return cls(choose, _Range(0, bound), 0)

    def state(self) -> object:
        """Return all that is known of it."""
        return ("lazy", self._range.low, self._range.high, self._offset)

    def values(self) -> tuple[object, range]:
        """Return what is uniform, and which values this number then may have."""
        return self._range, range(self._range.low + self._offset, self._range.high + self._offset)

    def _below(self, bound: Any, more: int = 0) -> bool:
        if isinstance(bound, Lazy) and bound._range is self._range:
            return self._offset < bound._offset + more  # numpy compares a key with itself
        left, limit = self._range, int(bound) + more - self._offset
        if limit <= left.low:
            return False
        if limit >= left.high:
            return True
        size = left.high - left.low
        under = self._choose([Fraction(limit - left.low, size), Fraction(left.high - limit, size)])
        if under == 0:
            left.high = limit
        else:
            left.low = limit
        return under == 0

    def __lt__(self, other: Any) -> bool:
        return self._below(other)

    def __ge__(self, other: Any) -> bool:
        return not self._below(other)

    def __le__(self, other: Any) -> bool:
        return self._below(other, 1)

    def __gt__(self, other: Any) -> bool:
        return not self._below(other, 1)

    def __eq__(self, other: object) -> bool:
        return self is other or (self <= other and self >= other)

    def __bool__(self) -> bool:
        return self != 0

    def __int__(self) -> int:
        left = self._range
        size = left.high - left.low
        if size > 1:
            left.low += self._choose([Fraction(1, size)] * size)
            left.high = left.low + 1
        return left.low + self._offset

    def __index__(self) -> int:
        return int(self)

    def __hash__(self) -> int:
        return hash(int(self))

    def __float__(self) -> float:
        return float(int(self))

    def __abs__(self) -> int:
        return abs(int(self))

    def __neg__(self) -> int:
        return -int(self)

    def __add__(self, other: Any) -> Lazy:
        return Lazy(self._choose, self._range, self._offset + int(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Lazy:
        return Lazy(self._choose, self._range, self._offset - int(other))

    def __rsub__(self, other: Any) -> int:
        return int(other) - int(self)

    def __mul__(self, other: Any) -> Any:
        return int(self) * other

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return int(self) // other

    def __mod__(self, other: Any) -> Any:
        return int(self) % other

    def __lshift__(self, count: int) -> int:
        return int(self) << count

    def __rshift__(self, count: int) -> int:
        return int(self) >> count

    def __ror__(self, high_bits: int) -> Lazy:
        """Return the number with known bits above it."""
        assert high_bits & ((1 << (self._range.high - 1).bit_length()) - 1) == 0
        return self + high_bits

    def __and__(self, mask: Any) -> Lazy:
        """Return the low bits; the others are not asked for again."""
        kept = int(mask) + 1
        assert self._range.low == 0
        assert self._range.high % kept == 0
        assert kept & (kept - 1) == 0
        return Lazy.uniform(self._choose, kept)

    def to_bytes(self, length: int, order: str) -> LazyBytes:
        """Return the bytes of a number of which nothing is known yet."""
        assert (self._range.low, self._range.high) == (0, 1 << (8 * length))
        return LazyBytes(self._choose, length)


@dataclass(frozen=True, slots=True)
class LazyBytes:
    """So many bytes, each uniform."""

    choose: Choose
    length: int


class WordArrays:
    """numpy, except that words read from bytes not yet known are integers not yet known."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def frombuffer(self, data: Any, dtype: str) -> Any:
        """Return an array of words."""
        if not isinstance(data, LazyBytes):
            return np.frombuffer(data, dtype=dtype)
        size = np.dtype(dtype).itemsize
        words = np.empty(data.length // size, dtype=object)
        for place in range(len(words)):
            words[place] = Lazy.uniform(data.choose, 1 << (8 * size))
        return words


def assignments(outcome: Any) -> Iterator[Any]:
    """Yield an outcome for each value of the integers in it that are not known yet."""
    unknown: dict[int, tuple[_Range, range]] = {}

    def collect(node: Any) -> None:
        if isinstance(node, Lazy):
            cell, _ = node.values()
            assert isinstance(cell, _Range)
            unknown[id(cell)] = (cell, range(cell.low, cell.high))
        elif isinstance(node, tuple | list):
            for child in node:
                collect(child)

    def fill(node: Any, known: dict[int, int]) -> Any:
        if isinstance(node, Lazy):
            cell, values = node.values()
            assert isinstance(cell, _Range)
            return values[known[id(cell)] - cell.low]
        return (
            tuple(fill(child, known) for child in node) if isinstance(node, tuple | list) else node
        )

    collect(outcome)
    places = list(unknown)
    for chosen in product(*(values for _, values in unknown.values())):
        yield fill(outcome, dict(zip(places, chosen, strict=True)))
