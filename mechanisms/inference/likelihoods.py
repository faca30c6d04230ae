r"""The information in likelihoods at a released theta, as an additive statistic.

For Poisson, multinomial and Cox regressions T(D) holds the sums over records of the Hessian at
theta, which is public by now. :mod:`mechanisms.inference.curvature` has that of the logistic loss,
and says how coefficients that solve a disturbed equation follow the population's.

*Integers.* As there each factor is one of a record alone, and an integer: columns are multiples of
2**-10, tilts of 2**-28, cut to multiples of 1/64; exponentials are read there from public tables of
multiples of W = 2**-20; all divisions round down. So weights are multiples of W in [0, 1], and no
float decides. Products are summed as floats that hold integers below 2**53.

**Sensitivity.** All numbers of a record below lie in [0, 1], or in [-1, 1] where they are products
of two different columns. Those that do not change their sign are taken twice where a record may be
replaced: then every number moves by at most 2, and by at most 1 where it is added or removed.

*Poisson's loss*, s the log of the mean over the ceiling Y, F' = min(exp(s), 1) and a = F' - y/Y:

    sum exp(s) x x' (s < 0),   sum min(r, c) / c,   sum F' / (F' + 1/Y),   r = Y a^2 / (F' + 1/Y).

The first is the Hessian H. Where the variance of a count is phi times its mean mu, the score has
the covariance phi H / Y, and r, which is (y - mu)^2 / (mu + 1), the mean phi mu / (mu + 1). So phi
is c times the ratio of the other two: that of a quasi-Poisson model (McCullagh & Nelder 1989,
section 6.2). The 1 bounds r where means are small, and c = 16 cuts off what is rare.

*A category.* With shares p_1, ..., p_m of the levels but the reference, the Hessian has the blocks
``sum (1{l = k} p_l - p_l p_k) x x'``, l <= k. Weights are 4 p_l (1 - p_l) and -4 p_l p_k, in [0, 1]
and [-1, 0]. The score has the Hessian as its covariance where the model holds.

*A time to an event.* With c_k the clipped hazards of a record (see
:mod:`mechanisms.objectives.exponential`), C their ceiling, and z_k = (1_k, x),

    sum_k c_k / C  by k,   sum_k c_k / C x  by k,   sum (sum_k c_k / C) x x'.

That is the Hessian over C, below the ceiling, and the score's covariance where the model holds, as
events are those of a counting process. The first is at least 0, and the second at most as large, as
x lies in [-1, 1]: numbers without noise that are not so are not possible, and are clipped. So an
interval with hardly an event leaves its own baseline open, and not the slopes. As sum_k c_k <= C, a
record has an l1 norm of at most ``1 + p + p (p + 1) / 2`` and a squared l2 norm of at most that;
where it is replaced the difference of two has twice the first, and four times the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import combinations_with_replacement
from math import exp
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data
from mechanisms.domain import CODE_BITS, CODE_MAX, NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.geometry.spaces import AdjacentOutputSpace, cube_space
from mechanisms.inference.curvature import COLUMN_BITS, FINE_BITS, THETA_BITS, on_grid, scaled_rows
from mechanisms.inference.evidence import Simulation
from mechanisms.inference.regression import Spectra
from mechanisms.knorm import IntegerNoise
from mechanisms.privacy import Adjacency
from mechanisms.randomness import Randomness
from mechanisms.statistics.designs.cox_regression import CoxRegression, HazardScaling
from mechanisms.statistics.designs.multinomial_regression import LevelScaling, MultinomialRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.designs.scaling import RegressionScaling

Integers = NDArray[np.int64]
Noised = Callable[[AdjacentOutputSpace], IntegerNoise]
"""Noise on the space of a second release."""

WEIGHT_BITS = 20
_UNIT_BITS = 2 * COLUMN_BITS + WEIGHT_BITS
_CHUNK = 1 << (53 - _UNIT_BITS)  # rows: their sums of products stay integers below 2**53
_TILT_BITS, _CELL_BITS = FINE_BITS + THETA_BITS, 6
_LEAST, _LARGEST = -16, 8  # tilts are cut there
_CUT = 16
"""c: the largest r that counts."""
_NO_HAZARD = 1e-6
"""In place of a hazard that noise has carried below 0, in records: its interval says nothing."""

_SIMULATED = (
    "simulated from the law of the released coefficients and the noisy information of the "
    "likelihood at them, for rows that are drawn independently and {model}; sampling and privacy "
    "noise together; to first order; values outside their bounds count as the bound"
)


class Counted(Protocol):
    """What a record of a likelihood adds to T, as integers."""

    @property
    def read(self) -> tuple[str, ...]:
        """Return the columns a draw reads."""

    @property
    def scaling(self) -> Any:
        """Return the coordinates of theta."""

    @property
    def signs(self) -> tuple[bool, ...]:
        """Return of each number of the vector whether it may have either sign."""

    @property
    def usual_weight(self) -> float:
        """Return how much a record usually adds, of at most 1."""

    @property
    def model(self) -> str:
        """Return what is assumed of the population, in words."""

    def space(self, changed: int) -> AdjacentOutputSpace | None:
        """Return the space where that is smaller than a cube; ``changed`` records differ."""

    def sums(self, theta: tuple[int, ...], block: Block, /) -> list[int]:
        """Return the sums of a block in units of W**2, W = 2**-20, at theta in its grid's steps."""

    def possible(self, entries: Floats, /) -> tuple[Floats, Floats]:
        """Return possible Hessians (k, d, d), and factors (k) of covariances that are multiples.

        ``entries`` are possible vectors (k, m), in units of one record.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Information:
    """T of one regression and its noise; a :class:`~mechanisms.inference.curvature.Curved`."""

    counted: Counted
    replaced: bool
    space: AdjacentOutputSpace
    noise: IntegerNoise

    @classmethod
    def of(cls, counted: Counted, schema: Schema, noise: Noised) -> Information:
        """Return T with this noise on its space."""
        replaced = schema.adjacency is Adjacency.REPLACE_ONE
        space = counted.space(2 if replaced else 1) or cube_space(
            len(counted.signs),
            half_width=Fraction(2 if replaced else 1),
            unit=1 << _UNIT_BITS,
            unit_name=UNIT_NAME,
            description="a cube: every entry of the information moves by as much as one record can",
        )
        return cls(counted=counted, replaced=replaced, space=space, noise=noise(space))

    @property
    def usual_weight(self) -> float:
        """Return how much a record usually adds, of at most 1."""
        return self.counted.usual_weight

    @property
    def scaling(self) -> Any:
        """Return the coordinates of theta."""
        return self.counted.scaling

    @property
    def method(self) -> str:
        """Return its assumptions on the population, in words."""
        return _SIMULATED.format(model=self.counted.model)

    def draw(self, theta: Sequence[Fraction], data: Data, randomness: Randomness) -> list[Fraction]:
        """Return T(D; theta) + V: the private step, all of it."""
        added, steps = self.noise.draw(randomness), self.noise.refinement
        return [
            Fraction(exact * steps + error, steps)
            for exact, error in zip(self.total(theta, data), added, strict=True)
        ]

    def total(self, theta: Sequence[Fraction], data: Data) -> list[int]:
        """Return T(D) at theta, exactly; private."""
        steps = tuple(on_grid(entry) for entry in theta)
        totals = [0] * len(self.counted.signs)
        for some in data.map(partial(self.counted.sums, steps), self.counted.read):
            totals = [total + one for total, one in zip(totals, some, strict=True)]
        return [total * times for total, times in zip(totals, self._times(), strict=True)]

    def _times(self) -> list[int]:
        """Return how often each number is taken."""
        twice = self.replaced and self.space.hull == "cube"
        return [2 if twice and not signed else 1 for signed in self.counted.signs]

    def possible(self, vector: Sequence[Fraction], simulated: Simulation) -> tuple[Spectra, Floats]:
        """Return possible Hessians, and a score of possible covariance for each."""
        noise = simulated.noises() / (1 << _UNIT_BITS)
        entries = np.array([float(entry / (1 << _UNIT_BITS)) for entry in vector]) - noise
        hessians, factors = self.counted.possible(entries / np.array(self._times()))
        spectra = Spectra.of(hessians)
        normals = simulated.normals("scores", hessians.shape[1])
        return spectra, np.sqrt(factors)[:, None] * spectra.times(normals, 0.5)


UNIT_NAME = "largest contributions of one record"


def _pairs(size: int) -> tuple[tuple[int, int], ...]:
    return tuple(combinations_with_replacement(range(size), 2))


def _weighed(rows: Integers, weights: Integers) -> list[int]:
    """Return the entries j <= k of the sum of w x x', exactly, in units of 2**-40."""
    size = rows.shape[1]
    total = np.zeros((size, size), dtype=object)
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        floats = rows[part].astype(np.float64)
        # whole numbers that floats hold: in which order they are added does not matter
        found = (floats * weights[part, None].astype(np.float64)).T @ floats
        total = total + np.rint(found).astype(np.int64).astype(object)
    return [int(total[j, k]) for j, k in _pairs(size)]


def _whole(weights: Integers) -> int:
    """Return the sum of weights, in units of 2**-40."""
    return int(weights.sum(dtype=np.int64)) << (2 * COLUMN_BITS)


def _filled(entries: Floats, size: int) -> Floats:
    """Return symmetric matrices (k, size, size) of their entries j <= k."""
    found = np.empty((len(entries), size, size))
    for place, (j, k) in enumerate(_pairs(size)):
        found[:, j, k] = found[:, k, j] = entries[:, place]
    return found


def _cells(tilts: Integers) -> Integers:
    """Return in which cell of a table tilts are, of tilts in units of 2**-28."""
    cut = tilts >> (_TILT_BITS - _CELL_BITS)
    least, most = _LEAST << _CELL_BITS, (_LARGEST << _CELL_BITS) - 1
    return np.asarray(np.clip(cut, least, most) - least, dtype=np.int64)


@lru_cache(maxsize=1)
def exponentials() -> tuple[int, ...]:
    """Return exp at the middles of the cells, as multiples of 2**-20, at least one.

    A library's exp may differ by a digit: one process makes the table, and others get it with what
    they do.
    """
    cells = range(_LEAST << _CELL_BITS, _LARGEST << _CELL_BITS)
    middles = ((cell + 0.5) / (1 << _CELL_BITS) for cell in cells)
    return tuple(max(round(exp(t) * (1 << WEIGHT_BITS)), 1) for t in middles)


def _offsets(offset: tuple[str, Fraction] | None, block: Block) -> Integers | int:
    """Return what an offset adds to tilts, in units of 2**-28: its code times its half-width."""
    if offset is None:
        return 0
    name, width = offset
    return np.asarray((block[name].astype(np.int64) * _fixed(width, _TILT_BITS)) >> CODE_BITS)


def _fixed(number: Fraction, bits: int) -> int:
    return round(number * (1 << bits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The information in counts: Poisson's loss.

    ``start`` is s at theta 0, where the offset's code is 0; ``offset`` its column and half-width.
    ``target`` is its column, and (m, h) with y / Y = m + h b / F.
    """

    scaling: RegressionScaling
    ceiling: Fraction
    start: Fraction
    offset: tuple[str, Fraction] | None
    target: tuple[str, Fraction, Fraction]
    table: tuple[int, ...]
    usual_weight: float
    model: ClassVar[str] = (
        "counts whose mean the model has, with a variance that is a multiple of it (quasi-Poisson)"
    )

    @classmethod
    def of(cls, statistic: PoissonRegression, schema: Schema) -> Counts:
        """Return those of a regression."""
        width, counted = statistic.offset_width(schema), statistic.counted(schema)
        return cls(
            scaling=statistic.scaling(schema),
            ceiling=counted.upper,
            start=statistic.start(schema),
            offset=None if width is None else (str(statistic.offset), width),
            target=(str(statistic.target), *statistic.target_shares(schema)),
            table=exponentials(),
            usual_weight=_usual_count(counted),
        )

    @property
    def read(self) -> tuple[str, ...]:
        """Return the columns a draw reads."""
        own = () if self.offset is None else (self.offset[0],)
        names = (*(column.name for column in self.scaling.features), *own, self.target[0])
        return tuple(dict.fromkeys(names))

    @property
    def signs(self) -> tuple[bool, ...]:
        """Return of each number whether it may have either sign."""
        return (*(j != k for j, k in _pairs(self.scaling.dimension)), False, False)

    def space(self, _changed: int) -> None:
        """Return None: it is a cube."""

    def sums(self, theta: tuple[int, ...], block: Block) -> list[int]:
        """Return the sums of a block."""
        tilts = scaled_rows(self.scaling, block, FINE_BITS) @ np.array(theta, dtype=np.int64)
        tilts = tilts + _fixed(self.start, _TILT_BITS) + _offsets(self.offset, block)
        whole = 1 << WEIGHT_BITS
        slopes = np.array(self.table, dtype=np.int64)[_cells(tilts)]
        below = tilts < 0
        slopes = np.where(below, np.minimum(slopes, whole), whole)
        name, middle, half = self.target
        shares = block[name].astype(np.int64) * _fixed(half, WEIGHT_BITS) >> CODE_BITS
        shares = np.clip(shares + _fixed(middle, WEIGHT_BITS), 0, whole)
        bounded = slopes + max(_fixed(1 / self.ceiling, WEIGHT_BITS), 1)
        rows = scaled_rows(self.scaling, block, COLUMN_BITS)
        return [
            *_weighed(rows, np.where(below, slopes, 0)),
            _whole(self._ratios(shares, slopes, bounded)),
            _whole(slopes * whole // bounded),
        ]

    def _ratios(self, shares: Integers, slopes: Integers, bounded: Integers) -> Integers:
        """Return min(r, c) / c."""
        times = self.ceiling / _CUT
        # Y / c as a multiple of a power of two, of at most 22 bits: products have at most 62
        shift = max(21 - max(int(times), 1).bit_length(), 0)
        factor = min(int(times * (1 << shift)), (1 << 22) - 1)
        found = ((slopes - shares) ** 2 * factor // bounded) >> shift
        return np.asarray(np.minimum(found, 1 << WEIGHT_BITS))

    def possible(self, entries: Floats) -> tuple[Floats, Floats]:
        """Return possible Hessians, and phi / Y."""
        hessians = _filled(entries[:, :-2], self.scaling.dimension)
        squares, expected = np.maximum(entries[:, -2], 0.0), entries[:, -1]
        phi = np.where(expected > 0, _CUT * squares / np.where(expected > 0, expected, 1.0), np.nan)
        return hessians, phi / float(self.ceiling)


def _usual_count(column: NumberColumn) -> float:
    """Return about which part of its bound a count is on average: as stated, else a twentieth."""
    if column.typical is None:
        return 0.05
    return max(float(column.typical.mean / column.upper), 1e-3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The information in categories."""

    scaling: LevelScaling
    target: str
    table: tuple[int, ...]
    usual_weight: ClassVar[float] = 0.5
    model: ClassVar[str] = "a multinomial logistic model that holds"

    @classmethod
    def of(cls, statistic: MultinomialRegression, schema: Schema) -> Levels:
        """Return those of a regression."""
        return cls(
            scaling=statistic.scaling(schema), target=str(statistic.target), table=exponentials()
        )

    @property
    def read(self) -> tuple[str, ...]:
        """Return the columns a draw reads, without a feature the target's."""
        return (*(column.name for column in self.scaling.features), self.target)

    @property
    def signs(self) -> tuple[bool, ...]:
        """Return of each number whether it may have either sign."""
        own = tuple(j != k for j, k in _pairs(self.scaling.plain.dimension))
        return own * len(_pairs(len(self.scaling.levels)))

    def space(self, _changed: int) -> None:
        """Return None: it is a cube."""

    def sums(self, theta: tuple[int, ...], block: Block) -> list[int]:
        """Return the sums of a block."""
        plain, levels = self.scaling.plain, len(self.scaling.levels)
        steps = np.array(theta, dtype=np.int64).reshape(levels, -1)
        tilts = scaled_rows(plain, block, FINE_BITS) @ steps.T
        least = np.maximum(tilts.max(axis=1, keepdims=True), 0)
        table = np.array(self.table, dtype=np.int64)
        powers = table[_cells(np.concatenate([0 * least, tilts], axis=1) - least)]
        shares = (powers << WEIGHT_BITS) // powers.sum(axis=1, keepdims=True)
        rows = scaled_rows(plain, block, COLUMN_BITS)
        found: list[int] = []
        for one, other in _pairs(levels):
            p, q = shares[:, 1 + one], shares[:, 1 + other]
            times = (1 << WEIGHT_BITS) - p if one == other else -q
            # four times: at most 1
            found += _weighed(rows, p * times >> (WEIGHT_BITS - 2))
        return found

    def possible(self, entries: Floats) -> tuple[Floats, Floats]:
        """Return possible Hessians, which are the covariances."""
        size, levels = self.scaling.plain.dimension, len(self.scaling.levels)
        found = np.empty((len(entries), levels, size, levels, size))
        each = len(_pairs(size))
        for place, (one, other) in enumerate(_pairs(levels)):
            part = _filled(entries[:, each * place : each * (place + 1)], size) / 4
            found[:, one, :, other] = found[:, other, :, one] = part
        whole = levels * size
        return found.reshape(-1, whole, whole), np.ones(len(entries))


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The information in times to events. ``marks`` reads what records were exposed to."""

    scaling: HazardScaling
    marks: Any
    offset: tuple[str, Fraction] | None
    table: tuple[int, ...]
    model: ClassVar[str] = (
        "hazards that are proportional, constant within the intervals and below the ceiling"
    )

    @classmethod
    def of(cls, statistic: CoxRegression, schema: Schema) -> Times:
        """Return those of a regression."""
        width = statistic.offset_width(schema)
        return cls(
            scaling=statistic.scaling(schema),
            marks=statistic.marks(schema),
            offset=None if width is None else (str(statistic.offset), width),
            table=exponentials(),
        )

    @property
    def usual_weight(self) -> float:
        """Return how much a record usually adds: half of them have the event.

        The noise of slopes is that of the intervals' sums, and not that of as many columns.
        """
        columns = self.scaling.dimension / max(len(self.scaling.features), 1)
        return columns * 0.5 / 4 / float(self.scaling.ceiling)

    @property
    def read(self) -> tuple[str, ...]:
        """Return the columns a draw reads."""
        own = () if self.offset is None else (self.offset[0],)
        names = (*(column.name for column in self.scaling.features), *own, *self.marks.columns)
        return tuple(dict.fromkeys(names))

    @property
    def signs(self) -> tuple[bool, ...]:
        """Return of each number whether it may have either sign."""
        intervals, features = len(self.scaling.intervals), len(self.scaling.features)
        crossed = (j != k for j, k in _pairs(features))
        return (*(False,) * intervals, *(True,) * (intervals * features), *crossed)

    def space(self, changed: int) -> AdjacentOutputSpace:
        """Return the space: hazards of a record add up to the ceiling at most."""
        features = len(self.scaling.features)
        most = 1 + features + features * (features + 1) // 2
        return AdjacentOutputSpace(
            dimension=len(self.signs),
            l1=Fraction(changed * most),
            linf=Fraction(changed),
            l2_squared=Fraction(changed**2 * most),
            bounds_only=frozenset({"l1", "l2", "linf"}),
            hull="other",
            description="hazards of one record, which add up to the ceiling at most, and products",
            negligible_structure=False,
            unit=1 << _UNIT_BITS,
            unit_name=UNIT_NAME,
        )

    def sums(self, theta: tuple[int, ...], block: Block) -> list[int]:
        """Return the sums of a block."""
        marks = self.marks(block)[:-1]
        count = len(self.scaling.intervals)
        exposed = np.rint(marks.T * CODE_MAX).astype(np.int64)  # multiples of 2**-20: exact
        plain = self.scaling.plain
        every = scaled_rows(plain, block, FINE_BITS)[:, 1:]
        slopes = every @ np.array(theta[count:], dtype=np.int64) + _offsets(self.offset, block)
        starts = [
            (step << FINE_BITS) + _fixed(start, _TILT_BITS)
            for step, start in zip(theta, self.scaling.starts, strict=False)
        ]
        tilts = slopes[:, None] + np.array(starts, dtype=np.int64)
        hazards = np.array(self.table, dtype=np.int64)[_cells(tilts)] * exposed >> CODE_BITS
        # in units of the ceiling, clipped: at most 1 together
        whole = np.maximum(
            hazards.sum(axis=1, keepdims=True), _fixed(self.scaling.ceiling, WEIGHT_BITS)
        )
        shares = (hazards << WEIGHT_BITS) // whole
        rows = scaled_rows(plain, block, COLUMN_BITS)[:, 1:]
        crossed = (shares.T @ rows) << COLUMN_BITS
        return [
            *(_whole(shares[:, k]) for k in range(count)),
            *(int(each) for each in crossed.ravel()),
            *_weighed(rows, shares.sum(axis=1)),
        ]

    def possible(self, entries: Floats) -> tuple[Floats, Floats]:
        """Return possible Hessians, which are the covariances."""
        count, features = len(self.scaling.intervals), len(self.scaling.features)
        found = np.zeros((len(entries), count + features, count + features))
        place = np.arange(count)
        hazards = np.maximum(entries[:, :count], _NO_HAZARD)
        found[:, place, place] = hazards
        crossed = entries[:, count : count * (1 + features)].reshape(-1, count, features)
        crossed = np.clip(crossed, -hazards[:, :, None], hazards[:, :, None])
        found[:, :count, count:] = crossed
        found[:, count:, :count] = np.swapaxes(crossed, 1, 2)
        found[:, count:, count:] = _filled(entries[:, count * (1 + features) :], features)
        return float(self.scaling.ceiling) * found, np.ones(len(entries))
