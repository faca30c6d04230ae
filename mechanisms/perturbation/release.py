"""A regression released by objective perturbation: its draw, and what its plan says.

**Privacy.** Theorem 5.1, with Delta and lambda as :mod:`mechanisms.objectives.losses` derives
them; the coefficients are theta in the columns' units, which is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any, Protocol, cast

import numpy as np

from mechanisms.contract import (
    Alternative,
    Data,
    Disturbance,
    Drawing,
    Json,
    Outcome,
    Parameters,
    Plan,
)
from mechanisms.domain import Schema
from mechanisms.exact.continuous import BallNorm
from mechanisms.exact.floats import Floats
from mechanisms.geometry.laws import simulate
from mechanisms.objectives.losses import Loss, Norm
from mechanisms.perturbation.calibration import SMALLEST_RIDGE, THEOREM, Perturbation
from mechanisms.privacy import Guarantee, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.samplers.bodies import Body, Joined
from mechanisms.samplers.minimiser import KnownTilt, Objective, Problem, likely_minimiser
from mechanisms.samplers.regions import l1_region
from mechanisms.statistics.designs.rows import are_held, passes_ms
from mechanisms.statistics.designs.scaling import ScaledColumn

_MS_PER_ENTRY = 0.03  # measured; of the d x d matrix
_FITTED_MS = 1.5
_SOLVED = 12
"""Simulated tilts of which it is solved how far they move theta."""
_STEP, _TINY = 1e-6, 1e-300
_PASSES_OF_ONE = 4  # measured; a single coefficient needs hardly a line search


class Coordinates(Protocol):
    """The public maps between theta and an answer: those of a regression, or of several."""

    @property
    def dimension(self) -> int:
        """Return d."""

    @property
    def features(self) -> Sequence[ScaledColumn]:
        """Return the scaled columns that rows have."""

    def released(self, theta: Sequence[Fraction], /) -> Outcome:
        """Return the answer made of theta."""

    def grid(self, step: Fraction, *, intercept: bool = False) -> Json:
        """Return the steps of its numbers where theta lies on a grid of this step."""


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
        The public constants of a record's loss, and the tilt's norm.
    drawn
        The mechanism, calibrated.
    bound
        Theta is ``||theta||_1 <= bound``; None for no limit.
    estimated
        The objectives whose minimisers lead to what is estimated, the last one's, each near the
        one before it; None where errors are not simulated here.
    """

    scaling: Coordinates
    objective: Callable[[Data], Objective]
    loss: Loss
    norm: Norm
    drawn: Perturbation
    bound: Fraction | None
    estimated: Callable[[Data], Sequence[Objective]] | None = None

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Draw one answer, in the columns' units."""
        return self.scaling.released(self.drawn.draw(self.objective(data), randomness))

    def errors(self, data: Data, count: int, seed: bytes, times: float) -> Json:
        """Return the errors of simulated answers, in floats.

        A tilt V moves theta by about -H^-1 V, with H the Hessian at the fit without one, and no
        further than the bound lets it. Of the first few it is solved how far it moves: the mean
        size of an error is theirs, and its law that of all. Where each row stands for ``times``
        records, the sum of losses is as many times as large: ridge and tilt weigh less.
        """
        assert self.estimated is not None
        private = self.objective(data)
        ridge = float(self.drawn.ridge) / times
        fit = self._fitted(private, np.zeros(private.dimension), None, ridge)
        truth = fit
        for objective in self.estimated(data):
            truth = self._fitted(objective, np.zeros(len(fit)), truth, float(SMALLEST_RIDGE))
        hessian = private.model(fit)[1] + ridge * np.eye(len(fit))
        rate = float(self.drawn.epsilon * self.drawn.q) / sqrt(self.drawn.sensitivity_squared)
        tilts = _tilts(self.drawn.norm, len(fit), count, seed) / (rate * times)
        moved = self._within(fit - np.linalg.solve(hessian, tilts.T).T)
        answers = _Linear.of(self.scaling, truth)
        solved = [
            self._fitted(private, tilt, start, ridge)
            for tilt, start in zip(tilts[:_SOLVED], moved, strict=False)
        ]
        sizes = np.abs(answers.changes(moved))
        exact = np.abs(answers.changes(np.array(solved))).mean(axis=0)
        sizes *= exact / np.maximum(sizes[:_SOLVED].mean(axis=0), _TINY)
        return answers.tree(sizes)

    def _fitted(
        self, objective: Objective, tilt: Floats, start: Floats | None, ridge: float
    ) -> Floats:
        problem = Problem(
            objective,
            Fraction(ridge),
            KnownTilt(tilt),
            self.drawn.region,
            self.drawn.step_exponent,
        )
        return likely_minimiser(problem, start)

    def _within(self, thetas: Floats) -> Floats:
        """Return points, those beyond the bound on it."""
        if self.bound is None:
            return thetas
        lengths = np.abs(thetas).sum(axis=1, keepdims=True)
        shares = np.minimum(float(self.bound) / np.maximum(lengths, _TINY), 1.0)
        return np.asarray(thetas * shares)

    @property
    def disturbance(self) -> Disturbance | None:
        """Return the tilt and the ridge; None for a hull's tilt."""
        joined = self.drawn.norm if isinstance(self.drawn.norm, Joined) else None
        norm = self.drawn.norm if joined is None else joined.norm
        # Error estimates support only the named balls.
        if not isinstance(norm, str):
            return None
        rate = float(self.drawn.epsilon * self.drawn.q) / sqrt(self.drawn.sensitivity_squared)
        return Disturbance(
            ball=norm,
            ridge=self.drawn.ridge,
            rate=lambda _length: rate,
            bound=self.bound,
            joined=None if joined is None else joined.matrix,
            blocks=() if joined is None else joined.every,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbed:
    """The parameters of a regression by objective perturbation.

    Those of :class:`~mechanisms.perturbation.calibration.Perturbation`, whose region is the l1
    ball of radius ``bound``, or all of R^d.
    """

    norm: Norm
    sensitivity_squared: Fraction
    epsilon: Fraction
    q: Fraction
    ridge: Fraction
    bound: Fraction | None
    step_exponent: int

    def drawing_of(
        self,
        scaling: Coordinates,
        loss: Loss,
        objective: Callable[[Data], Objective],
        estimated: Callable[[Data], Sequence[Objective]] | None = None,
    ) -> Drawing:
        """Return how a regression with this loss is drawn, and how its errors are simulated."""
        drawn = PerturbedFit(
            scaling=scaling,
            objective=objective,
            loss=loss,
            norm=self.norm,
            drawn=Perturbation(
                dimension=loss.dimension,
                norm=loss.shape(self.norm),
                sensitivity_squared=self.sensitivity_squared,
                epsilon=self.epsilon,
                q=self.q,
                ridge=self.ridge,
                region=l1_region(self.bound),
                step_exponent=self.step_exponent,
            ),
            bound=self.bound,
            estimated=estimated,
        )
        errors = None if estimated is None else drawn.errors
        return Drawing(draw=drawn, errors_on=errors, disturbance=drawn.disturbance)


def _tilts(norm: BallNorm | Body | Joined, size: int, count: int, seed: bytes) -> Floats:
    """Return simulated tilts at rate 1, shape (count, d)."""
    if isinstance(norm, Joined):
        parts = [
            simulate(norm.norm, length, count, seed=seed + b"%d" % place)
            for place, length in enumerate(norm.every)
        ]
        return np.asarray(np.hstack(parts) @ np.array(norm.matrix, dtype=np.float64).T)
    if isinstance(norm, str):
        return simulate(norm, size, count, seed=seed)
    # of the box that holds the body
    widths = np.array([float(width) for width in norm.halfwidths])
    return np.asarray(simulate("linf", size, count, seed=seed) * widths)


@dataclass(frozen=True, slots=True)
class _Linear:
    """How the numbers of an answer change with theta, near one."""

    truth: Floats
    value: Json
    slopes: Floats

    @classmethod
    def of(cls, scaling: Coordinates, truth: Floats) -> _Linear:
        """Return the derivatives of an answer's numbers, shape (numbers, d)."""
        value = _value(scaling, truth)
        here = np.array(_numbers(value))
        steps = _STEP * np.eye(len(truth))
        there = [_numbers(_value(scaling, truth + step)) for step in steps]
        return cls(truth, value, (np.array(there) - here).T / _STEP)

    def changes(self, thetas: Floats) -> Floats:
        """Return by how much the numbers differ from those of the truth, for each theta."""
        return np.asarray((thetas - self.truth) @ self.slopes.T)

    def tree(self, sizes: Floats) -> Json:
        """Return sizes in the shape of the value, an array for each number."""
        left = iter(sizes.T)
        return {
            name: {key: next(left) for key in cast(Mapping[str, float], each)}
            for name, each in self.value.items()
        }


def _value(scaling: Coordinates, theta: Floats) -> Json:
    return scaling.released([Fraction(entry) for entry in theta.tolist()]).value


def _numbers(value: Json) -> list[float]:
    parts = cast(Sequence[Mapping[str, float]], list(value.values()))
    return [number for part in parts for number in part.values()]


@dataclass(frozen=True, slots=True)
class Newton:
    """What Newton's method takes: rows held cost by coefficient, more of them by passes.

    Both were measured with the rows spread evenly, its line searches and its certificate included,
    as what it takes of few rows was. ``width`` is how many entries a row has, where that is not the
    number of coefficients.
    """

    ms_per_cell: float
    passes: int
    width: int | None = None

    def expected_ms(self, rows: int, scaling: Coordinates) -> float:
        """Return about how many milliseconds it takes for ``rows`` rows."""
        width = self.width or scaling.dimension
        columns = len(scaling.features) + 1 if self.width is None else self.width
        if are_held(rows, columns):
            return _FITTED_MS + self.ms_per_cell * rows * width
        passes = self.passes if scaling.dimension > 1 else _PASSES_OF_ONE
        return passes_ms(passes, rows, columns)


def plan_fit(
    kind: Callable[..., Parameters],
    statistic: Any,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
    *,
    scaling: Coordinates,
    loss: Loss,
    newton: Newton | None,
    q: Fraction | None = None,
    details: Mapping[str, object] | None = None,
    **parameters: Fraction | None,
) -> Plan:
    """Return the plan of a regression by objective perturbation, epsilon-DP.

    Parameters
    ----------
    kind
        The parameters of this regression.
    norm : {"auto", "linf", "l2", "l1", "optimal"}
        The norm of the tilt; auto is the hull's where one is offered, else the one whose
        coordinates vary least: linf, unless a gradient has few large entries at once.
    scaling, loss
        The public maps between columns and scaled coordinates, and the constants of a record's
        loss.
    newton : Newton
        What Newton's method takes; None where sketches hold the sums.
    q : Fraction
        The share of epsilon spent on the tilt; None for the public rule.
    details, parameters
        Further public facts, and further parameters of ``kind``.
    """
    offered = statistic.mechanisms["objective_perturbation"]
    best = loss.quietest(offered)
    chosen = best if norm == "auto" else cast(Norm, norm)
    bound = statistic.exact_bound
    drawn = Perturbation.calibrate(
        loss,
        epsilon=epsilon.fraction,
        row_bound=schema.row_bound,
        region=l1_region(bound),
        norm=chosen,
        q=q,
        rows=schema.known_rows,
    )
    # From the public bound, not the number of rows: every caller sees the expected time.
    newton_ms = 0.0 if newton is None else newton.expected_ms(schema.row_bound, scaling)
    return Plan(
        mechanism="objective_perturbation",
        norm=chosen,
        statistic=statistic,
        schema=schema,
        parameters=kind(
            norm=chosen,
            sensitivity_squared=drawn.sensitivity_squared,
            epsilon=drawn.epsilon,
            q=drawn.q,
            ridge=drawn.ridge,
            bound=bound,
            step_exponent=drawn.step_exponent,
            **parameters,
        ),
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=loss.sensitivity_text(chosen),
            sensitivity_unit=f"{_norm(chosen, loss)} of a change in the gradient, scaled columns",
            theorem=THEOREM,
        ),
        grid=scaling.grid(drawn.step, intercept=True),
        reason=_reason(chosen, loss),
        expected_ms=newton_ms + _MS_PER_ENTRY * loss.dimension**2,
        time_depends_on_data=True,
        alternatives=_alternatives(chosen, loss, drawn, offered),
        details={**_facts(chosen, loss, drawn, bound), **(details or {})},
    )


def _facts(
    norm: Norm, loss: Loss, drawn: Perturbation, bound: Fraction | None
) -> dict[str, object]:
    """Return the public facts of a plan, ready for JSON."""
    return {
        "noise": "Not stated: the tilt's law is known (tilt_std), but how far it moves the "
        "coefficients depends on the private curvature.",
        "q": float(drawn.q),
        "gamma": float(drawn.ridge),
        "lambda": float(loss.eigenvalue),
        "bound": None if bound is None else float(bound),
        "sensitivity_is": "a certified upper bound",
        "tilt_std": loss.tilt_std(norm, float(drawn.epsilon * drawn.q)),
    }


def _norm(norm: Norm, loss: Loss) -> str:
    return f"{norm} norm" if loss.joined is None else f"sum over cells of the {norm} norms"


def _reason(norm: Norm, loss: Loss) -> str:
    if norm == "optimal" and loss.hull is not None:
        return (
            "The hull of all changes of the gradient lies inside the l-infinity ball of radius "
            "Delta_inf, so given its direction the noise is no larger "
            "(Awan & Slavkovic, Theorem 4.5)."
        )
    best = loss.quietest(("linf", "l2", "l1"))
    if norm in ("linf", "optimal") and best == "linf":
        return (
            "A gradient's entries can all change by Delta_inf at once, so the l-infinity ball "
            "fits the adjacent output space best (Awan & Slavkovic, Theorem 4.12, section 5.1)."
        )
    if norm == best:
        return (
            "A record's gradient has few large entries at once, so the noise of this norm has the "
            "smallest standard deviation in every coordinate."
        )
    return f"The norm was asked for; {best} has the smaller noise in every coordinate."


def _alternatives(
    chosen: Norm, loss: Loss, drawn: Perturbation, offered: tuple[str, ...]
) -> tuple[Alternative, ...]:
    budget = float(drawn.epsilon * drawn.q)
    here = loss.tilt_std(chosen, budget)
    found: list[Alternative] = []
    for norm in offered:
        if norm != chosen:
            there = loss.tilt_std(cast(Norm, norm), budget)
            comparison = (
                f"standard deviation of the tilt per coordinate {there / here:.2f} times as large"
            )
            found.append(Alternative("objective_perturbation", norm, comparison, there))
    return tuple(found)
