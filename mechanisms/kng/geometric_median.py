"""The geometric median by the K-norm gradient mechanism (Reimherr & Awan 2019, 4.4), d <= 4.

    P(theta) ∝ exp(-eps / (2 Delta_2) || sum of unit vectors from the records to theta ||_2)

on the grid points of the public box of bounds, each column mapped onto [-1, 1], with the
counting measure on the grid of steps 2**-38. (The paper names no bounded Theta; without one the
density is not integrable, since the gradient is bounded.)

**Privacy.** A record contributes a unit vector, or 0 where theta is the record: a function of
the record and theta. So the norm moves by at most Delta_2 = 2 between neighbours that replace a
record, by 1 when one is added or removed (triangle inequality); the unnormalised weights are
within exp(eps / 2), their sums as well, and the law is eps-DP (Theorem 3.1; the base measure does
not depend on the data). The draw is exact (:mod:`mechanisms.samplers.boxes`,
:mod:`mechanisms.objectives.geometric_median`) and only theta is released.

**Run time.** Up to :data:`FEW_ROWS` rows, by the public count or bound, every bound reads every
record. With more, a few passes over the rows say all that a draw needs near the minimiser
(:mod:`mechanisms.objectives.points`), so that it takes as long as those passes. One column needs
none: counts of its values are enough. How many boxes are tried depends on the data, as in
:mod:`mechanisms.kng.quantile_regression`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import gammainc

from mechanisms.contract import (
    Data,
    Drawing,
    Json,
    Outcome,
    Plan,
    require_numbers,
)
from mechanisms.domain import CODE_BITS, CODE_MAX, NumberColumn, Schema
from mechanisms.exact.floats import Floats, Integers
from mechanisms.geometry.laws import simulate
from mechanisms.objectives.geometric_median import MedianLaw
from mechanisms.objectives.points import MOST_CELLS, LineLaw, Points, PointsLaw, held, survey
from mechanisms.privacy import KNG_THEOREM as THEOREM
from mechanisms.privacy import Guarantee, PrivacyLoss, bounded_range_rho
from mechanisms.randomness import Randomness
from mechanisms.samplers.boxes import LEAST_MS, Cover, Space, draw
from mechanisms.samplers.envelopes import first_kept
from mechanisms.sketches import Ordered
from mechanisms.statistics.geometric_median import GeometricMedian, gradient_sensitivity

FEW_ROWS = 2_000
"""Up to this number of rows, bounds read all of them, which is quicker than passes."""

_MS_PER_CODE = 6e-4  # measured: of four passes, with reading
_MS_PER_POINT = {2: 0.01, 3: 0.03, 4: 0.145}  # near the noise, over all boxes; by dimension
_SLOWNESS = {1: 1.0, 2: 2.5, 3: 4.0, 4: 8.0}  # measured, by dimension: studies.draw_times
_POINTS_OF_BOXES = 2500  # boxes without any point cost as much
_SHARP = 850  # rows times rate: then about half of the points are near the noise
_GRID_BITS = 38  # finer than any noise, and differences of points stay exact in floats
_SHIFT = _GRID_BITS - CODE_BITS
_RADIUS = 1 << _GRID_BITS
_PROPOSED, _LOWER = 256, 0.7
"""Simulated points that are weighed, and the rate of the law that proposes them."""
_STEPS, _NEAR, _TINY = 30, 1e-3, 1e-300


def calibrate_geometric_median(
    statistic: GeometricMedian, schema: Schema, epsilon: PrivacyLoss, _norm: str
) -> Plan:
    """Return the plan of a geometric median, epsilon-DP."""
    named = _columns(statistic, schema)
    delta = gradient_sensitivity(schema.adjacency)
    drawn = MedianParameters(
        rate=epsilon.fraction / (2 * delta),
        few=schema.row_bound <= FEW_ROWS,
    )
    return Plan(
        mechanism="kng",
        norm="l2",
        statistic=statistic,
        schema=schema,
        parameters=drawn,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=str(delta),
            sensitivity_unit="l2 norm of a change in the sum of unit vectors",
            theorem=THEOREM,
            rho=bounded_range_rho(epsilon),
        ),
        grid={name: float(column.step / (1 << _SHIFT)) for name, column in named.items()},
        reason="Unit vectors fill the l2 ball, so l2 is their hull; drawn exactly on boxes.",
        expected_ms=_expected_ms(len(named), schema.row_bound, drawn.rate),
        time_depends_on_data=True,
        drawn_on_boxes=True,
        slowness=_SLOWNESS[len(named)],
        details={
            "base_measure": "counting measure on the grid",
            "noise": "Not stated: an exact draw from the K-norm gradient law, whose spread depends "
            "on the data; it shrinks as 1 / (rows * epsilon).",
        },
    )


def _columns(statistic: GeometricMedian, schema: Schema) -> dict[str, NumberColumn]:
    columns = require_numbers(schema, statistic.columns, "columns")
    return dict(zip(statistic.columns, columns, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianParameters:
    """The rate of a draw, and whether its rows are few by their public bound."""

    rate: Fraction
    few: bool

    def drawing(self, statistic: GeometricMedian, schema: Schema) -> Drawing:
        """Return how the median is drawn."""
        drawn = MedianDraw(columns=_columns(statistic, schema), rate=self.rate, few=self.few)
        # In one dimension a sum of unit vectors has no slope.
        errors = drawn.errors if len(drawn.columns) > 1 else None
        return Drawing(draw=drawn, errors_on=errors)


def _within_bounds(dimension: int, seed: bytes) -> Floats:
    """Return points that are uniform in the cube: the norm of noise has the law Gamma(m)."""
    noise = simulate("linf", dimension, _PROPOSED, seed=seed)
    norm = np.abs(noise).max(axis=1, keepdims=True)
    found: Floats = noise / norm * gammainc(dimension, norm) ** (1 / dimension)
    return found


def _expected_ms(dimension: int, rows: int, rate: Fraction) -> float:
    """Return about how long a draw takes: boxes, and the passes over many rows.

    Boxes read the points near the noise. The more of them, the narrower it is: then they are few.
    """
    if dimension == 1:
        return LEAST_MS
    near = float(min(rows, MOST_CELLS))
    if rows > FEW_ROWS:
        near /= 1 + (float(rows * rate) / _SHARP) ** 2.2
    boxes_ms = _MS_PER_POINT[dimension] * (_POINTS_OF_BOXES + near)
    return max(LEAST_MS, boxes_ms) + _MS_PER_CODE * dimension * max(0, rows - FEW_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianDraw:
    """Draws a point exactly and returns it in column units; ``few`` rows are read for each box."""

    columns: dict[str, NumberColumn]
    rate: Fraction
    few: bool

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        space = Space.cubic(len(self.columns), _RADIUS)
        theta = self._drawn(data, space, randomness)
        value = {
            name: float(column.decode(Fraction(index, 1 << _SHIFT)))
            for (name, column), index in zip(self.columns.items(), theta, strict=True)
        }
        return Outcome(value=value, noise=None)

    def errors(self, data: Data, count: int, seed: bytes, times: float) -> Json:
        """Return the errors of simulated answers, in floats.

        Near the minimiser the sum of unit vectors is about H (theta - minimum), H the Hessian of
        the distances there: so theta is proposed as H^-1 g, g of the mechanism's own norm at a
        lower rate, and weighed by the ratio of both densities.

        Raises
        ------
        LinAlgError
            There are no rows, and so no minimum.
        """
        names = tuple(self.columns)
        points = self._read(data, names).astype(np.float64) / CODE_MAX
        if not len(points):
            raise np.linalg.LinAlgError
        rate = float(self.rate) * times
        centre, hessian = _minimum(points)
        proposed = simulate("l2", len(names), _PROPOSED, seed=seed) / (_LOWER * rate)
        theta = centre + np.linalg.solve(hessian, proposed.T).T
        logs = _LOWER * rate * np.linalg.norm(proposed, axis=1)
        logs -= rate * np.linalg.norm(_unit_sums(points, theta), axis=1)
        logs[np.abs(theta).max(axis=1) > 1] = -np.inf
        if not np.isfinite(logs).any():  # noise far wider than the bounds: all points are proposed
            theta = _within_bounds(len(names), seed)
            logs = -rate * np.linalg.norm(_unit_sums(points, theta), axis=1)
        odds = np.cumsum(np.exp(logs - logs.max()))
        kept = np.searchsorted(odds, odds[-1] * (np.arange(count) + 0.5) / count)
        sizes = np.abs(theta[kept] - centre)
        return {
            name: size * float(column.half_width)
            for (name, column), size in zip(self.columns.items(), sizes.T, strict=True)
        }

    def _drawn(self, data: Data, space: Space, randomness: Randomness) -> tuple[int, ...]:
        names = tuple(self.columns)
        if self.few:
            return self._of_few(self._read(data, names), space, randomness)
        if len(names) == 1:
            codes, counts = _codes_of(self.columns[names[0]], data.ordered(names[0]))
            line = LineLaw(codes.astype(np.int64) << _SHIFT, counts, rate=self.rate)
            return draw(line, space, randomness)
        points = survey(data, Points(names, _SHIFT), _RADIUS)
        return draw(*PointsLaw.fitting(points, self.rate, space), randomness)

    def _of_few(self, codes: Integers, space: Space, randomness: Randomness) -> tuple[int, ...]:
        """Draw by reading each row for every box, or in turns by boxes along a needle."""
        upright = Cover(MedianLaw(codes << _SHIFT, rate=self.rate), space)
        if len(self.columns) > 1 and len(codes):
            points = held(codes, Points(tuple(self.columns), _SHIFT), _RADIUS)
            law, fitting = PointsLaw.fitting(points, self.rate, space)
            if law.needle:
                return first_kept([Cover(law, fitting), upright], randomness)
        return first_kept([upright], randomness)

    def _read(self, data: Data, names: tuple[str, ...]) -> Integers:
        blocks = [
            np.column_stack([block[name] for name in names]).astype(np.int64)
            for block in data.blocks(names)
        ]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(names)), dtype=np.int64)


def _minimum(points: Floats) -> tuple[Floats, Floats]:
    """Return about where the sum of distances is least, and its Hessian there."""
    centre: Floats = np.median(points, axis=0)
    for _ in range(_STEPS):
        weights = 1 / np.maximum(np.linalg.norm(points - centre, axis=1), _NEAR)
        centre = weights @ points / weights.sum()
    away = points - centre
    distances = np.maximum(np.linalg.norm(away, axis=1), _NEAR)
    units = away / distances[:, None]
    hessian = np.diag(np.full(points.shape[1], (1 / distances).sum()))
    return centre, hessian - (units / distances[:, None]).T @ units


def _unit_sums(points: Floats, thetas: Floats) -> Floats:
    """Return the sums of unit vectors from all points to each theta, shape (thetas, d)."""
    away = thetas[:, None, :] - points
    distances = np.maximum(np.sqrt((away**2).sum(axis=2)), _TINY)
    return np.asarray((away / distances[:, :, None]).sum(axis=1))


def _codes_of(column: NumberColumn, cells: Ordered) -> Ordered:
    """Return distinct codes and their counts: each record's is that of the start of its cell."""
    codes = column.encode(column.clamped(column.grid.starts(cells[0])))
    points, starts = np.unique(codes, return_index=True)
    return points, np.add.reduceat(cells[1], starts) if len(starts) else cells[1]
