"""Logistic regression by the K-norm gradient mechanism, drawn by the box engine: d <= 4.

    P(theta) ∝ exp(-eps / (2 Delta(theta)) ||g(theta; D)||) (1 + ||theta||_1)^-p

on the points of the public grid of :func:`mechanisms.statistics.designs.grids.grid_bits` with
||theta||_1 <= B, p by the number of coefficients alone (:mod:`mechanisms.samplers.base_measure`),
and ``g = sum_i (sigma(x_i'theta) - y_i) x_i`` the gradient of the logistic loss in the scaled
coordinates of :mod:`mechanisms.statistics.designs.scaling` (Reimherr & Awan 2019, Theorem 3.1).

*Bound.* The box engine needs a bounded Theta. ``bound`` null stands for the public default B = 50:
columns narrower than their bounds have long coefficients, and where data say little the base
measure keeps the draw near 0 (``studies/long_answers.py`` has the figures).

**Sensitivity.** With zeta = (1 - 2 y) x a record's gradient is sigma(zeta'theta) zeta, for either
label. |zeta_j| <= 1, so zeta'theta <= ||theta||_1 =: rho, and every gradient lies in the cube of
half width sigma(rho), whatever the record. So at theta two records differ by at most

    Delta_inf(theta) = 2 sigma(rho),   Delta_2(theta) = 2 sqrt(d) sigma(rho),
    Delta_1(theta) = 2 d sigma(rho)    under replace-one,

and one contributes at most half of that (add-remove), which zeta = sign(theta) attains in every
norm. The first is attained too wherever an entry of theta is 0: zeta = (1, s) and (-1, s), s the
signs of the rest, differ by 2 sigma(rho) there. The others are upper bounds. Between theta = 0
(1 in linf) and a long theta (2, the constant of objective perturbation) Delta follows theta.

With one coefficient no other can be 0, and two records differ by at most 1 up to rho = 5/4 and by
less than 1.052 beyond (:mod:`mechanisms.objectives.logistic_law.sensitivity`): that is Delta, in
all norms, under replace-one.

**Privacy.** For neighbours D, D' and any theta the exponents differ by at most
``eps / (2 Delta(theta)) ||g(theta; D) - g(theta; D')|| <= eps / 2``. So the unnormalised weights
are within exp(eps / 2), their sums over the grid as well, and the law is eps-DP; Delta(theta) and
the measure are public. Records enter as integers: codes, or without an intercept their quotients by
the public extent, rounded record by record to multiples of 2**-20, |x| <= 1. The draw is exact
(:mod:`mechanisms.objectives.logistic_law`: :mod:`mechanisms.samplers.boxes` and
:mod:`mechanisms.samplers.polytopes` take turns); nothing of it but theta is released.

*Norms.* The changes fill the linf ball's directions all at once (the corners sigma(rho) zeta are
gradients), so linf has the smallest ball around them of the three, and is at least as good in every
direction (Awan & Slavkovic, Theorem 4.5).

**Run time** depends on the data, as in :mod:`mechanisms.kng.quantile_regression`. The public
facts it grows with are coefficients, rows (or max_rows) and 1 / epsilon. Up to so many rows, by
that public number alone, a draw holds them all: where rows times epsilon are 10^5 or more it
hardly reads them again. More rows are read in passes, so that a draw takes as long as a few of
those (:mod:`mechanisms.objectives.logistic_law.stored`; ``docs/mechanisms.md`` has figures). No
number of rows is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import exp, sqrt
from typing import TypeVar, cast

import numpy as np

from mechanisms.contract import (
    Alternative,
    Block,
    Data,
    Disturbance,
    InvalidStatisticError,
    Outcome,
    Plan,
    no_noise,
)
from mechanisms.domain import CODE_MAX, Schema
from mechanisms.exact.arrays import Floats, Integers
from mechanisms.kng.theorem import THEOREM
from mechanisms.objectives.check_loss import Limits, survey
from mechanisms.objectives.gradient_norms import NormName
from mechanisms.objectives.logistic_law.boxes import GradientBoxes
from mechanisms.objectives.logistic_law.expansion import SignedRecords
from mechanisms.objectives.logistic_law.held import LogisticLaw
from mechanisms.objectives.logistic_law.polytopes import trials
from mechanisms.objectives.logistic_law.sensitivity import FAR_DIFFERENCE, NEAR, Reach
from mechanisms.objectives.logistic_law.stored import StoredLogisticLaw, StoredSigned
from mechanisms.objectives.losses import records_changed
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss, bounded_range_rho
from mechanisms.randomness import Randomness
from mechanisms.samplers.base_measure import base_measure_text, base_power
from mechanisms.samplers.boxes import LEAST_MS
from mechanisms.samplers.envelopes import first_kept
from mechanisms.statistics.designs.boxes import SAMPLE_ROWS, require_dimension
from mechanisms.statistics.designs.grids import grid_bits
from mechanisms.statistics.designs.rows import HELD_ROWS, held_rows, require_held, scaled_codes
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.weights import HELD_PARTS, Weights, weighing, weights_of

T = TypeVar("T")

# A bound there must be, as the gradient stays bounded: far out the weights hardly fall.
DEFAULT_BOUND = Fraction(50)

# By the number of coefficients: so many rows are held.
_HELD_ROWS = {1: HELD_ROWS, 2: HELD_ROWS, 3: HELD_ROWS, 4: 200_000}
_MS_PER_HELD = 6e-4  # measured: to read a code, and to sort it among distinct rows
_MS_PER_TERM = 1.5e-4  # measured: of about five passes, with what it takes to read a code
_FEW_ROWS = 10_000  # what it takes to read so many hardly counts
# Measured: boxes take so much times the rows, up to so many, to the power 0.73; by dimension.
_BOXES_MS = {1: (0.0, 1), 2: (0.2, 10_000), 3: (1.0, 10_000), 4: (10.4, 1_000_000)}
_FEWEST = 100  # fewer may lie so unevenly that their boxes cost as much
_SHARP = 1750  # rows times rate: beyond, more and more rows are summed up, and cost no box anything


@weighing
def calibrate_logistic(
    statistic: LogisticRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a logistic regression by the K-norm gradient mechanism, epsilon-DP.

    Raises
    ------
    InvalidStatisticError
        The statistic has more than 4 coefficients, names a q, or weighs too many rows.
    """
    if statistic.q != "auto":
        raise InvalidStatisticError("kng has no q; leave it at auto", field_name="q")
    scaling = statistic.scaling(schema)
    require_dimension(scaling.dimension)
    bound = DEFAULT_BOUND if statistic.exact_bound is None else statistic.exact_bound
    weights, held = weights_of(statistic, schema), _HELD_ROWS[scaling.dimension]
    require_held(weights, schema.row_bound, held)
    drawn = LogisticDraw(
        statistic=statistic,
        schema=schema,
        scaling=scaling,
        norm=cast(NormName, "linf" if norm == "auto" else norm),
        rate=epsilon.fraction / (2 * records_changed(schema.adjacency)),
        bound=bound,
        bits=grid_bits(bound, epsilon.fraction * schema.row_bound),
        held=held,
        weights=weights,
    )
    return _plan(drawn, epsilon)


def sensitivity_text(norm: NormName, dimension: int, adjacency: Adjacency) -> str:
    """Return Delta(theta) in words."""
    if _is_single(dimension, adjacency):
        return f"1 where |theta| <= {float(NEAR):g}, {float(FAR_DIFFERENCE):g} beyond"
    count = records_changed(adjacency)
    factors = {
        "linf": str(count),
        "l2": f"{count} sqrt({dimension})",
        "l1": str(count * dimension),
    }
    return f"{factors[norm]} sigmoid(||theta||_1)"


def _is_single(dimension: int, adjacency: Adjacency) -> bool:
    return dimension == 1 and adjacency is Adjacency.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class SignedRows:
    """Reads the rows (1 - 2 y) F x of a block."""

    statistic: LogisticRegression
    schema: Schema
    scaling: RegressionScaling

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""
        return (*self.statistic.names, self.statistic.rule(self.schema).column)

    def __call__(self, block: Block) -> Floats:
        """Return them, d x n, exact in float64."""
        positive = self.statistic.rule(self.schema).mask(block, self.schema)
        found = np.empty((self.scaling.dimension, len(positive)))
        if self.scaling.intercept:
            found[0] = CODE_MAX
        for place, column in enumerate(self.scaling.features, start=int(self.scaling.intercept)):
            found[place] = scaled_codes(column, block[column.name])
        # Flipped once here: what follows then needs no labels.
        return found * np.where(positive, -1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticDraw:
    """Draws scaled coefficients exactly and returns them in column units."""

    statistic: LogisticRegression
    schema: Schema
    scaling: RegressionScaling
    norm: NormName
    rate: Fraction
    bound: Fraction
    bits: int
    held: int
    sample: int = SAMPLE_ROWS
    weights: Weights | None = None

    def law(self, data: Data) -> LogisticLaw:
        """Return the exact law of the scaled coefficients, all rows held; private."""
        read = SignedRows(self.statistic, self.schema, self.scaling)
        return self._held(
            *held_rows(data, read, read.columns, self.weights, entries=self.scaling.dimension)
        )

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        few = self.schema.row_bound <= self.held
        law = self.law(data) if few else self.read_law(data)
        point = first_kept(trials(law, power=self.power), randomness)
        return self.scaling.released([index * self.step for index in point])

    def read_law(self, data: Data) -> GradientBoxes:
        """Return the same law of rows that may be too many to hold, read in passes; private."""
        read = SignedRows(self.statistic, self.schema, self.scaling)

        def run(function: Callable[[Block], T]) -> Iterator[T]:
            return data.map(function, read.columns)

        limits = Limits(rows=self.schema.row_bound, held=self.held, sample=self.sample)
        surveyed = survey(run, read, columns=self.scaling.dimension, stride=limits.stride)
        # Few distinct rows are held with their counts, however many rows they stand for.
        if surveyed.few is not None:
            return self._held(surveyed.few.rows, surveyed.few.counts)
        if surveyed.rows <= self.held:
            return self.law(data)
        rows = StoredSigned.of(run, read, surveyed, grid_bits=self.bits, radius=self._radius)
        return StoredLogisticLaw(rows, rate=self.rate, norm=self.norm, reach=Reach(self._single))

    def _held(self, codes: Integers, counts: Integers) -> LogisticLaw:
        records = SignedRecords.build(codes, counts, grid_bits=self.bits, radius=self._radius)
        rate = self.rate if self.weights is None else self.rate / HELD_PARTS
        return LogisticLaw(records, rate=rate, norm=self.norm, reach=Reach(self._single))

    @property
    def expected_ms(self) -> float:
        """Return about how long a draw takes: its boxes, and to hold the rows or make passes."""
        rows, dimension = self.schema.row_bound, self.scaling.dimension
        many = max(0, rows - _FEW_ROWS)
        each_ms = _MS_PER_HELD if rows <= self.held else _MS_PER_TERM * dimension
        times_ms, most = _BOXES_MS[dimension]
        summed_up = float((float(rows * self.rate) / _SHARP) ** 2.2)
        boxes_ms = times_ms * float(max(_FEWEST, min(rows, most)) ** 0.73) / (1 + summed_up)
        return max(LEAST_MS, boxes_ms) + each_ms * many * dimension

    @property
    def _radius(self) -> int:
        # Rounded down: every point of the grid lies within the bound.
        return int(self.bound * (1 << self.bits))

    @property
    def _single(self) -> bool:
        return _is_single(self.scaling.dimension, self.schema.adjacency)

    @property
    def power(self) -> int:
        """Return p of the base measure."""
        return base_power(self.scaling.dimension, flat=self.statistic.base_measure == "flat")

    @property
    def step(self) -> Fraction:
        """Return the grid's step in scaled units."""
        return Fraction(1, 1 << self.bits)


def _plan(drawn: LogisticDraw, epsilon: PrivacyLoss) -> Plan:
    adjacency, dimension = drawn.schema.adjacency, drawn.scaling.dimension
    scale = {"linf": 1.0, "l2": sqrt(dimension), "l1": float(dimension)}[drawn.norm]
    return Plan(
        mechanism="kng",
        norm=drawn.norm,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=adjacency,
            sensitivity=sensitivity_text(drawn.norm, dimension, adjacency),
            sensitivity_unit=f"{drawn.norm} norm of a change in the gradient at theta, "
            "scaled columns",
            theorem=THEOREM,
            rho=bounded_range_rho(epsilon),
        ),
        grid=drawn.scaling.grid(drawn.step),
        reason=_REASON if drawn.norm == "linf" else _ASKED,
        draw=drawn,
        preview=no_noise,
        expected_ms=drawn.expected_ms,
        time_depends_on_data=True,
        drawn_on_boxes=True,
        alternatives=(
            Alternative(
                mechanism="objective_perturbation",
                norm="linf",
                comparison="about the same error for many rows; any number of coefficients, "
                "and no bound needed",
            ),
        ),
        details={
            "bound": float(drawn.bound),
            "base_measure": base_measure_text(drawn.power),
            "coefficients": dimension,
            "noise": "Not stated: an exact draw from the K-norm gradient law, whose spread depends "
            "on the private curvature; it shrinks as 1 / (rows * epsilon).",
        },
        disturbance=Disturbance(
            ball=drawn.norm,
            ridge=Fraction(0),
            # 2 sigmoid(rho) = 2 / (1 + exp(-rho)): the rate at a length, for what is foretold.
            rate=lambda length: float(drawn.rate) / scale * (1 + exp(-length)),
            bound=drawn.bound,
        ),
    )


_REASON = (
    "linf has the smallest ball around the changes of the gradient, and a sensitivity that "
    "follows theta; drawn exactly on boxes, no Markov chain."
)
_ASKED = "The norm was asked for; linf is at least as good in every direction."
