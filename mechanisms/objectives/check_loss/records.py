"""Integer records of a regression, as the check loss reads them.

*Conventions.* Records are integers: codes x_ij and y_i in [-F, F] stand for x_ij / F and
y_i / F. theta is an integer vector in steps of 2**-g. A record is *reached* at theta when
``y_i 2**g <= x_i'theta``; its gradient is ``a x_i / F`` with a = 1 - tau when reached and
-tau when not. Equal records are stored once, with their count.

*Spread targets.* Rounded data put many hyperplanes y_i = x_i'theta through the same points,
where no box can be decided before it is a single point. So, where asked for, a record's target
is lowered by less than half a code, 2**-21, by an amount that is a fixed public function of the
record's own codes (a hash). That is one more rounding of each record by itself, made before
anything is computed: it costs no epsilon and moves a fit by less than a code's own rounding.

*Sorted indices in few bytes: thousands of boxes keep those of their open records.*

*Few* are stored as they are, at four bytes each. *Many* use the smallest of three forms: the
same, a bit for each of all records, or the gaps between them. A gap g is ``g // 255`` bytes of 255
and one of ``g % 255``: a byte, for most.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.floats import Floats, Integers
from mechanisms.objectives.design import distinct_rows
from mechanisms.samplers.boxes import Space

# Sorted indices in few bytes: thousands of boxes keep those of their open records

Index = NDArray[np.int32]

_FEW = 1 << 10
_MORE = 255  # the gap continues in the next byte


@dataclass(frozen=True, slots=True, eq=False)
class Kept(ABC):
    """Indices in a form of their own."""

    data: NDArray[Any]

    @property
    @abstractmethod
    def index(self) -> Index:
        """Return the indices."""

    @property
    def nbytes(self) -> int:
        """Return how many bytes they take."""
        return self.data.nbytes


class Few(Kept):
    """Indices as they are."""

    __slots__ = ()

    @property
    def index(self) -> Index:
        """Return the indices."""
        return self.data


class Bits(Kept):
    """A bit for each of all records."""

    __slots__ = ()

    @property
    def index(self) -> Index:
        """Return the indices."""
        return np.flatnonzero(np.unpackbits(self.data)).astype(np.int32)


class Gaps(Kept):
    """The gaps before the indices, from 0 on."""

    __slots__ = ()

    @property
    def index(self) -> Index:
        """Return the indices."""
        return np.asarray(np.cumsum(self.data, dtype=np.int32)[self.data != _MORE])


def kept(index: Index, records: int) -> Kept:
    """Return sorted indices, each once and below the number of records, in few bytes."""
    if len(index) <= _FEW:
        return Few(index)
    gaps = np.diff(index, prepend=0)
    more = gaps // _MORE
    size = len(gaps) + int(more.sum())
    if 8 * min(size, index.nbytes) >= records:
        is_there = np.zeros(records, dtype=np.bool_)
        is_there[index] = True
        return Bits(np.packbits(is_there))
    if size >= index.nbytes:
        return Few(index)
    ends = np.cumsum(more + 1) - 1
    found = np.full(size, _MORE, dtype=np.uint8)
    found[ends] = gaps % _MORE
    return Gaps(found)


# Integer records of a regression, as the check loss reads them

_SPREAD_BITS = 20  # a target is lowered by one of 2**20 amounts: few of them tie


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Grid:
    """Theta's grid, of steps 2**-bits; its boxes' coordinates; whether targets are spread on it."""

    space: Space
    bits: int
    spread: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Distinct integer records on a grid of theta: codes (n x d), targets (n), counts (n).

    ``grid_bits`` is g; ``space`` gives the boxes' coordinates; ``z`` = x V are the codes
    there. ``threshold`` is y 2**g, less the record's spread; ``target`` the same, exact floats.
    """

    x: Integers
    y: Integers
    counts: Integers
    grid_bits: int
    space: Space
    z: Floats
    threshold: Integers
    target: Floats

    @classmethod
    def build(
        cls, x: Integers, y: Integers, *, grid_bits: int, radius: int, spread: bool = False
    ) -> Records:
        """Prepare records; see :meth:`counted`."""
        rows, counts = distinct_rows(np.column_stack([x, y]))
        return cls.counted(rows, counts, grid_bits=grid_bits, radius=radius, spread=spread)

    @classmethod
    def counted(
        cls,
        rows: Integers,
        counts: Integers,
        *,
        grid_bits: int,
        radius: int,
        spread: bool = False,
    ) -> Records:
        """Prepare distinct rows; the coordinates follow their correlations (a matter of cost)."""
        floats = rows[:, :-1].astype(np.float64)
        space = Space.uncorrelated((floats * counts[:, None]).T @ floats, radius)
        return cls.on(Grid(space=space, bits=grid_bits, spread=spread), rows, counts)

    @classmethod
    def on(cls, grid: Grid, rows: Integers, counts: Integers) -> Records:
        """Prepare rows (x, y), each as often as it counts."""
        x, y = np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, -1])
        threshold = y << grid.bits
        if grid.spread:
            threshold -= _spread(rows, grid.bits)
        return cls(
            x=x,
            y=y,
            counts=counts,
            grid_bits=grid.bits,
            space=grid.space,
            z=x.astype(np.float64) @ grid.space.shear,
            threshold=threshold,
            target=threshold.astype(np.float64),
        )

    def position(self, index: NDArray[np.int32], point: Sequence[int]) -> Integers:
        """Return ``x_i'theta`` less the threshold, exactly (int64: both stay below 2**60)."""
        theta = np.array(point, dtype=np.int64)
        return np.asarray(self.x[index] @ theta - self.threshold[index])


def _spread(rows: Integers, grid_bits: int) -> Integers:
    """Return a hash of each row in [0, 2**(g - 1)), a multiple of 2**(g - 1 - 20) if that is whole.

    So thresholds have at most 42 significant bits, exact in floats.
    """
    # Products wrap around in unsigned words: that is the hash, and the same on every machine.
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    wide = max(grid_bits - 1, 0)
    bits = min(_SPREAD_BITS, wide)
    return (mixed >> np.uint64(44)).astype(np.int64) >> (_SPREAD_BITS - bits) << (wide - bits)
