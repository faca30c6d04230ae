"""Common parts of regressions drawn on boxes: the public limit, and records as integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mechanisms.contract import Block, Data, InvalidStatisticError
from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import Floats
from mechanisms.objectives.check_loss import (
    Grid,
    Limits,
    MakeLaw,
    Records,
    Run,
    StoredLaw,
    StoredRows,
    survey,
    trials,
)
from mechanisms.samplers.base_measure import BaseMeasure, MeasuredBoxes
from mechanisms.samplers.boxes import LEAST_MS, Cover, Space
from mechanisms.samplers.envelopes import Trial
from mechanisms.statistics.designs.rows import HELD_ROWS, held_rows, scaled_codes
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.weights import HELD_PARTS, Weights

# Public limits that every regression shares

SMALLEST_BOUND, LARGEST_BOUND = 1e-6, 1e6
MAX_COEFFICIENTS = 100


def require_coefficients(dimension: int) -> None:
    """Refuse more coefficients than any mechanism draws."""
    if dimension > MAX_COEFFICIENTS:
        raise InvalidStatisticError(
            f"at most {MAX_COEFFICIENTS} coefficients", field_name="features"
        )


def require_bound(bound: float | None, *, may_be_null: bool = False) -> None:
    """Refuse a limit of the coefficients' l1 norm that is out of range (NaN is)."""
    if bound is None and may_be_null:
        return
    if bound is None or not SMALLEST_BOUND <= bound <= LARGEST_BOUND:
        raise InvalidStatisticError(
            "bound must lie between 0.000001 and 1000000, or be null"
            if may_be_null
            else "bound must lie between 0.000001 and 1000000",
            field_name="bound",
        )


# Public grids on which scaled coefficients are released, finer than any noise on them

_EXPONENT = 44  # a hundredth of the noise at 10**8 rows, epsilon 1
_BITS = 38  # x'theta, of codes up to 2**20, then stays below 2**60
_USUAL = 30  # bits of epsilon times rows that this grid is fine enough for
_FINER = 3  # x'theta and the target then stay below 2**61, and their difference below 2**62


def grid_exponent(epsilon: Fraction, bound: Fraction) -> int:
    """Return e, the grid's step being 2**e in scaled units: a function of eps and B alone.

    2**-44, finer by the size of eps above 1 and of B below 1: at most a
    hundredth of the noise at 10**8 rows.
    """
    whole = -(-epsilon.numerator // epsilon.denominator)
    inverse = -(-bound.denominator // bound.numerator)
    return -(_EXPONENT + (whole - 1).bit_length() + (inverse - 1).bit_length())


def grid_bits(bound: Fraction, information: Fraction) -> int:
    """Return g, the grid's step being 2**-g in scaled units: 38 less the bits of B above 1.

    ``information`` is epsilon times the rows: a law is about that much narrower than Theta. Above
    2**30 the grid is finer, by 3 bits at most.
    """
    whole = -(-bound.numerator // bound.denominator)
    much = -(-information.numerator // (information.denominator << _USUAL))
    finer = min(_FINER, max(0, (much - 1).bit_length()))
    return _BITS + finer - (whole - 1).bit_length()


# Common parts of regressions drawn on boxes: the public limit, and records as integers

MAX_DIMENSION = 4  # the number of boxes grows too fast beyond
# Measured, by dimension. The boxes of a narrow law: at epsilon 1, and at most, of 1,000 rows.
_NARROW_MS, _NARROW_ROWS = {1: 0.0, 2: 5.0, 3: 95.0, 4: 2400.0}, 1000
# Those of a wide law: the cost per row, and the rows it grows to: most are open near the minimiser.
_WIDE_MS_PER_ROW, _MOST_WIDE = {1: 0.0, 2: 0.0017, 3: 0.0084, 4: 0.042}, 1_000_000
_FEWEST_WIDE = 10_000  # fewer may lie so unevenly that their boxes cost as much
_FEW_ROWS = 10_000  # the time to hold this many is negligible
_MS_PER_HELD = 7e-4  # measured: to read and scale a code, and to sort it among distinct rows
_MS_PER_CODE = 7e-5  # measured: three passes, with what it takes to read a code and scale it
_HELD_BYTES = 1 << 29  # by the boxes that a draw meets besides its first one
SAMPLE_ROWS = 1 << 17  # or up to twice as many: a start from this many is close


def require_dimension(dimension: int) -> None:
    """Raise :class:`InvalidStatisticError` for more coefficients than boxes can follow."""
    if dimension > MAX_DIMENSION:
        raise InvalidStatisticError(
            f"exact draws on boxes reach at most {MAX_DIMENSION} coefficients, the intercept "
            "included; use objective_perturbation",
            field_name="features",
        )


@dataclass(frozen=True, slots=True)
class ScaledRows:
    """Reads the columns of (x, y) of a block of rows as scaled integers."""

    scaling: RegressionScaling

    @property
    def columns(self) -> int:
        """Return how many columns there are."""
        return self.scaling.dimension + (self.scaling.target is not None)

    def __call__(self, block: Block) -> Floats:
        """Return them, (d + 1) x n, exact in float64."""
        scaling = self.scaling
        read = (*scaling.features, *((scaling.target,) if scaling.target else ()))
        columns = [scaled_codes(column, block[column.name]) for column in read]
        found = np.empty((self.columns, len(columns[0])))
        if scaling.intercept:
            found[0] = CODE_MAX
        for place, column in enumerate(columns, start=int(scaling.intercept)):
            found[place] = column
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionRows:
    """The rows of a regression with a number target: at most ``most``, by public facts.

    Few rows are held in memory. Of more, sums are made in passes, and only those are held whose
    residuals are near 0 about the minimiser. Which way is taken depends on ``most`` alone.
    ``epsilon`` is None for a wide law, whose width falls as one over the root of the rows; the
    width of a narrow one falls as one over the rows, and over epsilon.
    """

    scaling: RegressionScaling
    bound: Fraction
    bits: int
    most: int
    epsilon: float | None = None
    spread: bool = False
    power: int = 0
    held: int = HELD_ROWS
    sample: int = SAMPLE_ROWS
    weights: Weights | None = None

    @property
    def parts(self) -> int:
        """Return how often a whole record counts."""
        return 1 if self.weights is None else HELD_PARTS

    @property
    def step(self) -> Fraction:
        """Return the grid's step in scaled units."""
        return Fraction(1, 1 << self.bits)

    @property
    def expected_ms(self) -> float:
        """Return about how long a draw takes: its boxes, and to hold the rows or make passes."""
        each_ms = _MS_PER_HELD if self.most <= self.held else _MS_PER_CODE
        read = max(0, self.most - _FEW_ROWS) * (self.scaling.dimension + 1)
        return max(LEAST_MS, self._boxes_ms) + each_ms * read

    @property
    def _boxes_ms(self) -> float:
        dimension = self.scaling.dimension
        if self.epsilon is None:
            rows = max(_FEWEST_WIDE, min(self.most, _MOST_WIDE))
            return _WIDE_MS_PER_ROW[dimension] * rows
        # The smaller epsilon, the more rows are open where the noise is: at most all of them.
        most = float((self.most / _NARROW_ROWS) ** 0.47)
        # Where one row has much influence, few cells matter, and the search must find them.
        wide, found = float(self.epsilon**-1.2), float(self.epsilon**-0.25)
        return _NARROW_MS[dimension] * min(max(wide, found), most)

    @property
    def radius(self) -> int:
        """Return Theta's radius, in grid steps."""
        return int(self.bound * (1 << self.bits))

    def trials(self, data: Data, make: MakeLaw, rate: Fraction) -> Sequence[Trial]:
        """Return the envelopes to draw by in turns, of ``exp(-rate value(theta))``; private.

        The base measure is that of ``power``. With weights the values are ``parts`` times as large.
        """
        if self.most <= self.held:
            return trials(make(self.records(data)), power=self.power)
        limits = Limits(rows=self.most, held=self.held, sample=self.sample)
        read, run = ScaledRows(self.scaling), self._run(data)
        surveyed = survey(run, read, columns=read.columns, stride=limits.stride)
        space = Space.uncorrelated(surveyed.gram[:-1, :-1].astype(np.float64), self.radius)
        grid = Grid(space=space, bits=self.bits, spread=self.spread)
        if surveyed.few is not None:
            records = Records.on(grid, surveyed.few.rows, surveyed.few.counts)
            return trials(make(records), power=self.power)
        rows = StoredRows(
            run=run, read=read, make=make, grid=grid, limits=limits, surveyed=surveyed
        )
        law = MeasuredBoxes(StoredLaw(rows, rate), BaseMeasure(self.power, self.bits), space)
        return [Cover(law, space, most_bytes=_HELD_BYTES)]

    def _run(self, data: Data) -> Run:
        names = self.scaling.columns
        return lambda function: data.map(function, names)

    def records(self, data: Data) -> Records:
        """Return the scaled integer records of all rows; private."""
        read = ScaledRows(self.scaling)
        rows, counts = held_rows(
            data, read, self.scaling.columns, self.weights, entries=read.columns
        )
        return Records.counted(
            rows, counts, grid_bits=self.bits, radius=self.radius, spread=self.spread
        )
