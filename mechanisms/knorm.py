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

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from mechanisms.domain import Schema
from mechanisms.geometry.advisor import Advice, advise
from mechanisms.geometry.laws import NoiseLaw, noise_law
from mechanisms.geometry.spaces import BALLS, AdjacentOutputSpace, Ball, upper_root
from mechanisms.privacy import Guarantee, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_hull, draw_l1, draw_l2, draw_linf
from mechanisms.statistics.additive import (
    AdditiveForm,
    AdditiveStatistic,
    Leaf,
    describe_noise,
    render,
)
from mechanisms.statistics.base import (
    Alternative,
    Data,
    InvalidStatisticError,
    Noise,
    Outcome,
    Plan,
    Statistic,
)

_SMOOTH_RATE = Fraction(1, 2**60)

THEOREM = "Awan & Slavkovic 2021, Proposition 2.10 (K-norm mechanism)"


@dataclass(frozen=True, slots=True)
class IntegerNoise:
    """Calibrated noise: a ball (None: the histogram's hull), its lattice, its rate.

    Attributes
    ----------
    refinement
        Lattice steps per lattice unit of the statistic, a power of two.
    rate_squared
        ``(epsilon / Delta)**2`` per lattice step; squared, as Delta_2 may be a root.
    """

    ball: Ball | None
    dimension: int
    refinement: int
    rate_squared: Fraction

    @classmethod
    def calibrated(
        cls, space: AdjacentOutputSpace, ball: Ball | None, epsilon: Fraction
    ) -> IntegerNoise:
        """Return epsilon-DP noise for a statistic with this adjacent output space."""
        m = space.dimension
        # ||v||_hull = ||v||_1 / 2 is at most 1 for neighbours: scaled units are records.
        squared = (space.squared(ball) if ball else Fraction(1)) * space.unit**2
        smooth = ball in ("l2", "linf") and m > 1
        refinement = 1
        while smooth and squared * refinement**2 < (4 * m * max(Fraction(1), epsilon)) ** 2:
            refinement *= 2
        return cls(ball, m, refinement, epsilon**2 / (squared * refinement**2))

    @property
    def rate(self) -> Fraction:
        """Return epsilon / Delta per lattice step, rounded down where Delta is a root."""
        return 1 / upper_root(1 / self.rate_squared)

    def describe(self) -> tuple[NoiseLaw, Fraction]:
        """Return the law of one coordinate, and its unit in lattice units of the statistic.

        The unit is one step, unless the noise spans so many that floats might
        overflow; it is then as smooth as a real variable, and described in coarser units.
        """
        rate, unit = self.rate, 1
        while rate * unit < _SMOOTH_RATE:
            unit <<= 20
        return noise_law(self.ball, self.dimension, float(rate * unit)), Fraction(
            unit, self.refinement
        )

    def draw(self, randomness: Randomness) -> list[int]:
        """Return one draw, in lattice steps."""
        if self.ball is None:
            return draw_hull(randomness, self.dimension, self.rate)
        if self.ball == "l1" or self.dimension == 1:
            return draw_l1(randomness, self.dimension, self.rate)
        if self.ball == "linf":
            return draw_linf(randomness, self.dimension, self.rate)
        return draw_l2(randomness, self.dimension, self.rate_squared)


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
    statistic.check(schema)
    form = statistic.additive(schema)
    advice = advise(form.space)
    chosen = advice.norm if norm == "auto" else norm
    ball = _ball(form.space, chosen)
    noise = IntegerNoise.calibrated(form.space, ball, epsilon.fraction)
    step = Fraction(1, noise.refinement)
    return Plan(
        mechanism="k_norm",
        norm=chosen,
        guarantee=_guarantee(form.space, ball, schema, epsilon),
        grid=form.grid(step),
        reason=advice.reason if norm == "auto" else f"Asked for. Advised: {advice.norm}.",
        draw=_drawing(form, noise),
        preview=lambda rows: _preview(form, noise, rows),
        alternatives=_alternatives(form, advice, chosen, epsilon.fraction),
        details={**form.details, "adjacent_output_space": form.space.description},
    )


def offered_norms(space: AdjacentOutputSpace) -> tuple[str, ...]:
    """Return the norms that can be drawn from for this space."""
    return (*BALLS, "optimal") if space.optimal_offered else BALLS


def integer_noise(space: AdjacentOutputSpace, norm: str, epsilon: Fraction) -> IntegerNoise:
    """Return the noise of a release by this norm: the same public facts give the same noise.

    Raises
    ------
    InvalidStatisticError
        The norm cannot be drawn from for this space.
    """
    return IntegerNoise.calibrated(space, _ball(space, norm), epsilon)


def _ball(space: AdjacentOutputSpace, norm: str) -> Ball | None:
    """Return the ball of a norm's name; None stands for the histogram's hull."""
    offered = offered_norms(space)
    if norm not in offered:
        raise InvalidStatisticError(
            f"the norms offered here are {', '.join(offered)}", field_name="norm"
        )
    if norm == "optimal":
        return space.optimal_ball
    return next(ball for ball in BALLS if ball == norm)


def _guarantee(
    space: AdjacentOutputSpace, ball: Ball | None, schema: Schema, epsilon: PrivacyLoss
) -> Guarantee:
    shape = ball or "hull of the histogram's differences"
    return Guarantee(
        epsilon=epsilon,
        adjacency=schema.adjacency,
        sensitivity="1" if ball is None else space.text(ball),
        sensitivity_unit=f"{space.unit_name}, in the {shape} norm",
        theorem=THEOREM,
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
    law, unit = noise.describe()

    def draw(data: Data, randomness: Randomness) -> Outcome:
        tree = form.answer(draw_coordinates(form, noise, data, randomness))
        return Outcome(
            value=render(tree, lambda leaf: leaf.number()),
            noise=describe_noise(tree, law, unit, centred=True),
        )

    return draw


def _preview(form: AdditiveForm, noise: IntegerNoise, rows: int | None) -> Noise | None:
    coordinates = form.reference(rows)
    if coordinates is None:
        return None
    law, unit = noise.describe()
    return describe_noise(form.answer(coordinates), law, unit, centred=False)


def _alternatives(
    form: AdditiveForm, advice: Advice, chosen: str, epsilon: Fraction
) -> tuple[Alternative, ...]:
    """Compare every other norm offered with the chosen one, by the laws actually drawn."""
    space = form.space

    def std(norm: str) -> Fraction:
        law, unit = IntegerNoise.calibrated(space, _ball(space, norm), epsilon).describe()
        return Fraction(law.std) * unit

    own, coordinate = std(chosen), _single_slope(form)
    rows = []
    for norm in offered_norms(space):
        if norm == chosen:
            continue
        other = std(norm)
        ratio = "" if own == 0 else f"{float(other / own):.3g} times the standard deviation"
        index = next((row.volume_index for row in advice.comparisons if row.ball == norm), None)
        volume = "" if index is None else f"; (Delta^m vol K)^(1/m) = {index:.4g}"
        rows.append(
            Alternative(
                mechanism="k_norm",
                norm=norm,
                comparison=(ratio or "the noise is negligible here") + volume,
                std=None if coordinate is None else float(other * coordinate),
            )
        )
    return tuple(rows)


def _single_slope(form: AdditiveForm) -> Fraction | None:
    """Return the first number's units per coordinate, where it reads just one of them."""
    coordinates = form.reference(None)
    if coordinates is None:
        return None
    found: list[Leaf] = []
    render(form.answer(coordinates), found.append)
    slopes = list(found[0].slopes.values()) if found else []
    return abs(slopes[0]) if len(slopes) == 1 else None
