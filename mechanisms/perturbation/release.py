"""A regression released by objective perturbation: its draw, and what its plan says.

**Privacy.** Theorem 5.1, with Delta and lambda as :mod:`mechanisms.objectives.losses` derives
them; the coefficients are theta in the columns' units, which is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Protocol, cast

from mechanisms.contract import Alternative, Data, Disturbance, Outcome, Plan, no_noise
from mechanisms.domain import Schema
from mechanisms.objectives.losses import Loss, Norm
from mechanisms.perturbation.calibration import Perturbation
from mechanisms.perturbation.theorem import THEOREM
from mechanisms.privacy import Guarantee, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.samplers.minimiser import Objective
from mechanisms.samplers.regions import l1_region
from mechanisms.statistics.designs.rows import are_held, passes_ms
from mechanisms.statistics.designs.scaling import RegressionScaling

_MS_PER_ENTRY = 0.03  # measured; of the d x d matrix
_FITTED_MS = 1.5
_PASSES_OF_ONE = 4  # measured; a single coefficient needs hardly a line search


class Regression(Protocol):
    """A statistic whose coefficients minimise a sum of losses."""

    @property
    def mechanisms(self) -> Mapping[str, tuple[str, ...]]:
        """Return the norms that each mechanism offers."""

    def scaling(self, schema: Schema) -> RegressionScaling:
        """Return the public maps between columns and scaled coordinates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedFit:
    """A calibrated draw; every field is public.

    Attributes
    ----------
    scaling
        The way from theta to coefficients in column units.
    objective
        Makes the sum of losses of private data.
    loss, norm
        The public constants of a record's loss, and the tilt's norm among ``offered``.
    drawn
        The mechanism, calibrated.
    bound
        Theta is ``||theta||_1 <= bound``; None for no limit.
    expected_ms
        About how long a draw takes.
    details
        More public facts for the plan.
    """

    scaling: RegressionScaling
    objective: Callable[[Data], Objective]
    loss: Loss
    norm: Norm
    offered: tuple[str, ...]
    drawn: Perturbation
    bound: Fraction | None
    expected_ms: float
    details: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Draw one answer, in the columns' units."""
        return self.scaling.released(self.drawn.draw(self.objective(data), randomness))


@dataclass(frozen=True, slots=True)
class Newton:
    """What Newton's method takes: rows held cost by coefficient, more of them by passes.

    Both were measured with the rows spread evenly, its line searches and its certificate included,
    as what it takes of few rows was.
    """

    ms_per_cell: float
    passes: int

    def expected_ms(self, rows: int, scaling: RegressionScaling) -> float:
        """Return about how many milliseconds it takes for ``rows`` rows."""
        columns = len(scaling.features) + 1
        if are_held(rows, columns):
            return _FITTED_MS + self.ms_per_cell * rows * scaling.dimension
        passes = self.passes if scaling.dimension > 1 else _PASSES_OF_ONE
        return passes_ms(passes, rows, columns)


def plan_fit(
    statistic: Regression,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
    *,
    objective: Callable[[Data], Objective],
    loss: Loss,
    bound: Fraction | None,
    newton: Newton | None,
    q: Fraction | None = None,
    details: Mapping[str, float] | None = None,
) -> Plan:
    """Return the plan of a regression by objective perturbation, epsilon-DP.

    Parameters
    ----------
    norm : {"auto", "linf", "l2", "l1", "optimal"}
        The norm of the tilt; auto is the hull's where one is offered, else linf,
        whose coordinates vary least of the three.
    objective, loss, bound
        What is minimised, the constants of a record's loss, and the limit of theta.
    newton : Newton
        What Newton's method takes; None where sketches hold the sums.
    q : Fraction
        The share of epsilon spent on the tilt; None for the public rule.
    """
    offered = statistic.mechanisms["objective_perturbation"]
    best = "optimal" if "optimal" in offered else "linf"
    chosen = cast(Norm, best if norm == "auto" else norm)
    scaling = statistic.scaling(schema)
    # From the public bound, not the number of rows: every caller sees the expected time.
    newton_ms = 0.0 if newton is None else newton.expected_ms(schema.row_bound, scaling)
    draw = PerturbedFit(
        scaling=scaling,
        objective=objective,
        loss=loss,
        norm=chosen,
        offered=offered,
        drawn=Perturbation.calibrate(
            loss,
            epsilon=epsilon.fraction,
            row_bound=schema.row_bound,
            region=l1_region(bound),
            norm=chosen,
            q=q,
            rows=schema.known_rows,
        ),
        bound=bound,
        expected_ms=newton_ms + _MS_PER_ENTRY * loss.dimension**2,
        details=details or {},
    )
    return _plan(draw, schema, epsilon)


def _plan(draw: PerturbedFit, schema: Schema, epsilon: PrivacyLoss) -> Plan:
    return Plan(
        mechanism="objective_perturbation",
        norm=draw.norm,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=draw.loss.sensitivity_text(draw.norm),
            sensitivity_unit=f"{draw.norm} norm of a change in the gradient, scaled columns",
            theorem=THEOREM,
        ),
        grid=draw.scaling.grid(draw.drawn.step, intercept=True),
        reason=_reason(draw),
        draw=draw,
        preview=no_noise,
        expected_ms=draw.expected_ms,
        time_depends_on_data=True,
        alternatives=_alternatives(draw),
        details={
            "noise": "Not stated: the tilt's law is known (tilt_std), but how far it moves the "
            "coefficients depends on the private curvature.",
            "q": float(draw.drawn.q),
            "gamma": float(draw.drawn.ridge),
            "lambda": float(draw.loss.eigenvalue),
            "bound": None if draw.bound is None else float(draw.bound),
            "sensitivity_is": "a certified upper bound",
            "tilt_std": draw.loss.tilt_std(draw.norm, float(draw.drawn.epsilon * draw.drawn.q)),
            **draw.details,
        },
        disturbance=_disturbance(draw),
    )


def _disturbance(draw: PerturbedFit) -> Disturbance | None:
    """Return the tilt and the ridge; None for a hull's tilt."""
    # Error estimates support only the named balls.
    if not isinstance(draw.drawn.norm, str):
        return None
    rate = float(draw.drawn.epsilon * draw.drawn.q) / sqrt(draw.drawn.sensitivity_squared)
    return Disturbance(
        ball=draw.drawn.norm,
        ridge=draw.drawn.ridge,
        rate=lambda _length: rate,
        bound=draw.bound,
    )


def _reason(draw: PerturbedFit) -> str:
    if draw.norm == "optimal" and draw.loss.hull is not None:
        return (
            "The hull of all changes of the gradient lies inside the l-infinity ball of radius "
            "Delta_inf, so given its direction the noise is no larger "
            "(Awan & Slavkovic, Theorem 4.5)."
        )
    if draw.norm in ("linf", "optimal"):
        return (
            "A gradient's entries can all change by Delta_inf at once, so the l-infinity ball "
            "fits the adjacent output space best (Awan & Slavkovic, Theorem 4.12, section 5.1)."
        )
    return "The norm was asked for; linf has the smaller noise in every coordinate."


def _alternatives(draw: PerturbedFit) -> tuple[Alternative, ...]:
    budget = float(draw.drawn.epsilon * draw.drawn.q)
    here = draw.loss.tilt_std(draw.norm, budget)
    found: list[Alternative] = []
    for norm in draw.offered:
        if norm != draw.norm:
            there = draw.loss.tilt_std(cast(Norm, norm), budget)
            text = (
                f"standard deviation of the tilt per coordinate {there / here:.2f} times as large"
            )
            found.append(Alternative("objective_perturbation", norm, text, there))
    return tuple(found)
