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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.arrays import Floats, Integers
from mechanisms.objectives.rows import distinct_rows
from mechanisms.samplers.boxes import Space

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
