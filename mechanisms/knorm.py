r"""The K-norm mechanism on additive statistics (Awan & Slavkovic, Proposition 2.10).

    release T(X) + V,   P(V = v) ∝ exp(-(epsilon / Delta_K) ||v||_K),   v in Z^m,

with T an exact integer vector and Delta_K its exact integer sensitivity, so the
release is exactly epsilon-DP; the answer is made of it in exact fractions.

*Lattice fineness.* A radius of the box routes survives with probability about
``exp(-m epsilon / (2 Delta))``, and coarse rounding would add noise of its own.
So T and Delta are first scaled by a power of two, a function of (m, Delta,
epsilon) alone, until ``Delta >= 4 m max(1, epsilon)`` lattice units. Independent
discrete Laplace noise (l1, the histogram hull, one dimension) needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from math import sqrt
from statistics import fmean
from typing import Any, cast

import numpy as np

from mechanisms.contract import (
    Alternative,
    Data,
    ErrorsOn,
    InvalidStatisticError,
    Json,
    LateNoise,
    Noise,
    Outcome,
    Plan,
    Statistic,
    require_valid,
)
from mechanisms.domain import Schema
from mechanisms.exact.many import Floats, Many
from mechanisms.geometry.advisor import MOST_TRIES, Advice, adjacent_output_space_svg, advise
from mechanisms.geometry.balls import BALLS, Ball, NoiseLaw, NormBall
from mechanisms.geometry.laws import noise_law, simulate
from mechanisms.geometry.spaces import AdjacentOutputSpace, upper_root
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_l1, draw_l2, draw_linf
from mechanisms.statistics.additive import (
    AdditiveForm,
    AdditiveStatistic,
    Coordinates,
    Leaf,
    describe_noise,
    noise_describer,
    render,
)

_SMOOTH_RATE = Fraction(1, 2**60)  # finer lattices would leave the floats that describe the noise
_MS_PER_COORDINATE = 0.15  # measured; of the noise of one
_MS_PER_CELL = 1e-5  # measured; of one that is read

NOISE = (
    "the law of the added noise, known exactly; sampling error is not in it; an interval holds 95% "
    "(on whole numbers at least that; 94% to 97% where a number combines several coordinates)"
)
THEOREM = "Awan & Slavkovic 2021, Proposition 2.10 (K-norm mechanism)"


@dataclass(frozen=True, slots=True)
class IntegerNoise:
    """Calibrated noise: a ball, its lattice, its rate.

    Attributes
    ----------
    refinement
        Lattice steps per lattice unit of the statistic, a power of two.
    rate_squared
        ``(epsilon / Delta)**2`` per lattice step; squared, as Delta_2 may be a root.
    steps
        Lattice steps per ring, for a ball that is no l_p ball: a difference between
        neighbours crosses at most a whole number of rings.
    rate
        ``epsilon / Delta`` per lattice step, rounded down where Delta is a root.
    """

    ball: Ball | NormBall
    dimension: int
    refinement: int
    rate_squared: Fraction
    steps: int = 1
    rate: Fraction = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", 1 / upper_root(1 / self.rate_squared))

    @classmethod
    def calibrated(
        cls, space: AdjacentOutputSpace, ball: Ball | NormBall, epsilon: Fraction
    ) -> IntegerNoise:
        """Return epsilon-DP noise for a statistic with this adjacent output space."""
        m = space.dimension
        fineness = 4 * m * max(Fraction(1), epsilon)
        # A hull's sensitivity is one scaled unit, cut into rings of whole lattice steps.
        if not isinstance(ball, str):
            refinement, steps = _rings(ball, space.unit, fineness)
            return cls(ball, m, refinement, (epsilon / (space.unit * refinement)) ** 2, steps)
        squared = space.squared(ball) * space.unit**2
        smooth = ball in ("l2", "linf") and m > 1
        refinement = 1
        # Coarser, and nearly every radius that is drawn would be rejected (samplers.knorm).
        while smooth and squared * refinement**2 < fineness**2:
            refinement *= 2
        return cls(ball, m, refinement, epsilon**2 / (squared * refinement**2))

    def describe(self) -> tuple[Sequence[NoiseLaw], Fraction]:
        """Return each coordinate's law, and their unit in lattice units of the statistic.

        The unit is one step, unless the noise spans more steps than floats can hold.
        It is then as smooth as a real variable, and described in coarser units.
        """
        rate, unit = self.rate, 1
        while rate * unit < _SMOOTH_RATE:
            unit <<= 20
        per_unit = float(rate * unit)
        if isinstance(self.ball, str):
            laws: Sequence[NoiseLaw] = [
                noise_law(self.ball, self.dimension, per_unit)
            ] * self.dimension
        else:
            laws = self.ball.laws(per_unit)
        return laws, Fraction(unit, self.refinement)

    def correlation(self, one: int, other: int) -> float:
        """Return the correlation of two coordinates: zero under the l_p balls."""
        return 0.0 if isinstance(self.ball, str) else self.ball.correlation(one, other)

    def draw(self, randomness: Randomness) -> list[int]:
        """Return one draw, in lattice steps."""
        if not isinstance(self.ball, str):
            return self.ball.draw(randomness, steps=self.steps, rate=self.rate * self.steps)
        if self.ball == "l1" or self.dimension == 1:
            return draw_l1(randomness, self.dimension, self.rate)
        if self.ball == "linf":
            return draw_linf(randomness, self.dimension, self.rate)
        return draw_l2(randomness, self.dimension, self.rate_squared)


def _rings(ball: NormBall, unit: int, fineness: Fraction) -> tuple[int, int]:
    """Return the refinement, and the lattice steps of one ring.

    A smooth ball's scaled unit is cut into a power of two of rings, at least
    ``fineness`` of them, each a whole number of lattice steps. Neighbours then
    differ by at most that whole number of rings.
    """
    if not ball.smooth:
        return 1, 1
    rings = 1
    while rings < fineness:
        rings *= 2
    refinement = 1
    while unit * refinement % rings or unit * refinement < rings * ball.least_steps:
        refinement *= 2
    return refinement, unit * refinement // rings


def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str) -> Plan:
    """Return the plan of an additive release.

    Parameters
    ----------
    norm : {"auto", "l1", "l2", "linf", "optimal"}
        "optimal" is the hull of the adjacent output space, where it can be
        drawn from; "auto" is the advisor's choice.

    Raises
    ------
    InvalidStatisticError
        The statistic does not fit the schema, is not additive, or the norm is not offered.

    Notes
    -----
    **Privacy.** Pure epsilon-DP under the schema's adjacency (Proposition 2.10).
    Under add-remove nothing but the drawn coordinates depends on the row count.
    """
    if not isinstance(statistic, AdditiveStatistic):
        raise InvalidStatisticError("k_norm releases additive statistics", field_name="mechanism")
    require_valid(statistic, schema, "k_norm", norm)
    return plan_form(statistic.additive(schema), schema, epsilon, norm)


def plan_form(form: AdditiveForm, schema: Schema, epsilon: PrivacyLoss, norm: str) -> Plan:
    """Return the plan of a release of an additive form, by a norm that is offered or "auto"."""
    advice = advise(form.space)
    chosen = advice.norm if norm == "auto" else norm
    ball = ball_of(form.space, chosen)
    noise = IntegerNoise.calibrated(form.space, ball, epsilon.fraction)
    step = Fraction(1, noise.refinement)
    return Plan(
        mechanism="k_norm",
        norm=chosen,
        guarantee=guarantee_of(form.space, ball, schema, epsilon, THEOREM),
        grid=form.grid(step),
        reason=advice.reason if norm == "auto" else f"Asked for. Advised: {advice.norm}.",
        draw=_drawing(form, noise),
        errors_on=_errors_on(form, noise),
        preview=lambda rows: _preview(form, noise, rows),
        expected_ms=_expected_ms(form, schema),
        time_depends_on_data=False,
        alternatives=_alternatives(form, advice, chosen, epsilon.fraction),
        figure=lambda: adjacent_output_space_svg(form.space),
        details={
            "noise": NOISE,
            **form.details,
            "adjacent_output_space": form.space.description,
        },
    )


def _expected_ms(form: AdditiveForm, schema: Schema) -> float:
    """Return the time of the noise, and of a pass over the rows where there is one.

    The library draws for a schema without a bound on its rows too; then they count for nothing.
    """
    rows = schema.rows if schema.adjacency is Adjacency.REPLACE_ONE else schema.max_rows
    read = _MS_PER_CELL * form.columns_read * (rows or 0)
    return _MS_PER_COORDINATE * form.noise_size + read


def offered_norms(space: AdjacentOutputSpace) -> tuple[str, ...]:
    """Return the norms that can be drawn from for this space."""
    ball = space.optimal_ball
    drawn = isinstance(ball, str) or (ball is not None and ball.expected_tries <= MOST_TRIES)
    return (*BALLS, "optimal") if drawn else BALLS


def integer_noise(space: AdjacentOutputSpace, norm: str, epsilon: Fraction) -> IntegerNoise:
    """Return the noise of a release by this norm: the same public facts give the same noise.

    Raises
    ------
    InvalidStatisticError
        The norm cannot be drawn from for this space.
    """
    return IntegerNoise.calibrated(space, ball_of(space, norm), epsilon)


def ball_of(space: AdjacentOutputSpace, norm: str) -> Ball | NormBall:
    """Return the ball of a norm's name."""
    best = space.optimal_ball
    if norm == "optimal" and best is not None:
        if not isinstance(best, str) and best.expected_tries > MOST_TRIES:
            raise InvalidStatisticError(
                f"drawing from this hull would take about {best.expected_tries:.1g} tries; "
                f"the next best norm is {advise(space).norm}",
                field_name="norm",
            )
        return best
    if norm not in BALLS:
        raise InvalidStatisticError(
            f"the norms offered here are {', '.join(offered_norms(space))}", field_name="norm"
        )
    return next(ball for ball in BALLS if ball == norm)


def guarantee_of(
    space: AdjacentOutputSpace,
    ball: Ball | NormBall,
    schema: Schema,
    epsilon: PrivacyLoss,
    theorem: str,
) -> Guarantee:
    """Return the guarantee of a release of the statistic with this ball."""
    if isinstance(ball, str):
        sensitivity, shape = space.text(ball), f"the {ball} norm"
    else:
        sensitivity, shape = "1", f"the norm of the {ball.name}"
    return Guarantee(
        epsilon=epsilon,
        adjacency=schema.adjacency,
        sensitivity=sensitivity,
        sensitivity_unit=f"{space.unit_name}, in {shape}",
        theorem=theorem,
    )


def draw_coordinates(
    form: AdditiveForm, noise: IntegerNoise, data: Data, randomness: Randomness
) -> list[Fraction]:
    """Return T(X) + V, in lattice units of the statistic: the private step, all of it."""
    added = noise.draw(randomness)
    return [
        Fraction(exact * noise.refinement + error, noise.refinement)
        for exact, error in zip(form.total(data), added, strict=True)
    ]


def _drawing(form: AdditiveForm, noise: IntegerNoise) -> Callable[[Data, Randomness], Outcome]:
    laws, unit = noise.describe()
    describe = partial(noise_describer, laws=laws, unit=unit, correlation=noise.correlation)

    @cache  # at the first draw: a plan alone has no use for it
    def of_all() -> Callable[..., Noise]:
        return describe(form.answer([Fraction(0)] * noise.dimension))

    def draw(data: Data, randomness: Randomness) -> Outcome:
        tree = form.answer(draw_coordinates(form, noise, data, randomness))

        def described() -> Noise:
            return (of_all() if form.linear else describe(tree))(tree)

        return Outcome(value=render(tree, Leaf.number), noise=LateNoise(described))

    return draw


def _errors_on(form: AdditiveForm, noise: IntegerNoise) -> ErrorsOn:
    """Return how answers are simulated: many at once, after the one without noise."""

    def errors(data: Data, count: int, seed: bytes) -> Json:
        per_unit = float(noise.rate * noise.refinement)
        added = simulate(noise.ball, noise.dimension, count, seed=seed) / per_unit
        added = np.vstack([np.zeros(noise.dimension), added]).T.copy()
        totals = zip(form.total(data), added, strict=True)
        sums: Any = [Many(float(total) + each) for total, each in totals]
        known: dict[int, Floats] = {}

        def sizes(leaf: Leaf) -> Floats:
            # Both halves of a matrix are of the same numbers.
            if id(leaf) not in known:
                known[id(leaf)] = _errors_of(leaf, count)
            return known[id(leaf)]

        return render(form.answer(sums), sizes)

    return errors


def _errors_of(leaf: Leaf, count: int) -> Floats:
    value: Any = leaf.value
    if not isinstance(value, Many):  # a number that is known
        return np.zeros(count)
    found = np.sqrt(np.maximum(value.floats, 0.0)) if leaf.root else value.floats
    errors: Floats = np.abs(found[1:] - found[0])
    return errors


def _preview(form: AdditiveForm, noise: IntegerNoise, rows: int | None) -> Noise | None:
    coordinates = form.reference(rows)
    if coordinates is None:
        return None
    laws, unit = noise.describe()
    if not form.linear:  # slopes of ratios and products are computed in floats, which is faster
        coordinates = cast(Coordinates, [float(each) for each in coordinates])
    return describe_noise(
        form.answer(coordinates), laws, unit, centred=False, correlation=noise.correlation
    )


def _compared(times: float) -> str:
    ratio_text = f"{times:.3g}"
    return "the same" if ratio_text == "1" else f"{ratio_text} times the standard deviation"


def _alternatives(
    form: AdditiveForm, advice: Advice, chosen: str, epsilon: Fraction
) -> tuple[Alternative, ...]:
    """Compare every other norm offered with the chosen one, by the laws actually drawn."""
    space, number = form.space, _single_slope(form)

    def spread(norm: str) -> tuple[Fraction, float | None]:
        """Return the root of the mean variance, and the first number's standard deviation."""
        laws, unit = integer_noise(space, norm, epsilon).describe()
        typical = Fraction(sqrt(fmean(law.std**2 for law in laws))) * unit
        if number is None:
            return typical, None
        place, slope = number
        return typical, float(Fraction(laws[place].std) * unit * slope)

    own, _ = spread(chosen)
    rows = []
    for norm in offered_norms(space):
        if norm == chosen:
            continue
        other, std = spread(norm)
        ratio = "" if own == 0 else _compared(float(other / own))
        index = next((row.volume_index for row in advice.comparisons if row.norm == norm), 0.0)
        volume = f"; (Delta^m vol K)^(1/m) = {index:.4g}" if index else ""
        rows.append(
            Alternative(
                mechanism="k_norm",
                norm=norm,
                comparison=(ratio or "the noise is negligible here") + volume,
                std=std,
            )
        )
    return tuple(rows)


def _single_slope(form: AdditiveForm) -> tuple[int, Fraction] | None:
    """Return the coordinate and slope of the first number, where it reads just one."""
    coordinates = form.reference(None)
    if coordinates is None or not form.linear:  # a ratio or a product reads several
        return None
    found: list[Leaf] = []
    render(form.answer(coordinates), found.append)
    slopes = list(found[0].slopes.items()) if found and not found[0].root else []
    return (slopes[0][0], abs(slopes[0][1])) if len(slopes) == 1 else None
