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
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from math import sqrt
from statistics import fmean
from typing import Any, Protocol, cast

import numpy as np

from mechanisms.contract import (
    Alternative,
    Calibrate,
    Data,
    Drawing,
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
from mechanisms.domain import SUM_MAX, Schema
from mechanisms.exact.floats import Floats, Many
from mechanisms.geometry.advisor import MOST_TRIES, Advice, adjacent_output_space_svg, advise
from mechanisms.geometry.laws import noise_law, simulate
from mechanisms.geometry.smooth import BALLS, Ball, NoiseLaw, NormBall
from mechanisms.geometry.spaces import AdjacentOutputSpace, upper_root
from mechanisms.margins import ranges
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
from mechanisms.statistics.curves.counts import (
    NoisyCounts,
    ReadFromCounts,
    ReadGroups,
    changed_arrays,
    shares_off,
)
from mechanisms.statistics.histogram import RangeCounts
from mechanisms.statistics.weights import weights_of
from mechanisms.words import rounded

_SMOOTH_RATE = Fraction(1, 2**60)  # finer lattices would leave the floats that describe the noise
_MS_PER_COORDINATE = 0.15  # measured; of the noise of one
_MS_PER_CELL = 1e-5  # measured; of one that is read
_READING_MS, _MS_PER_COUNT = 20.0, 0.4  # measured; of intervals that are simulated for counts

NOISE = (
    "the law of the added noise, known exactly; sampling error is not in it; an interval holds 95% "
    "(on whole numbers at least that; 94% to 97% where a number combines several coordinates)"
)
NOISE_OF_WEIGHTS = "the law of the sums of weights that the answer is read off is known exactly"
NOISE_OF_COUNTS = (
    "the law of the counts that the answer is read off is known exactly; the intervals of the "
    "answer hold for it and for sampling together"
)
THEOREM = ranges.THEOREM


class AdditiveNoise(Protocol):
    """Calibrated noise for an integer vector: what draws and descriptions of it need.

    See :class:`IntegerNoise` and :class:`mechanisms.gaussian.noise.GaussianNoise`.
    """

    @property
    def dimension(self) -> int: ...

    @property
    def refinement(self) -> int:
        """Return how many lattice steps a lattice unit of the statistic has."""

    @property
    def uncorrelated(self) -> bool:
        """Return whether all coordinates are uncorrelated."""

    def describe(self) -> tuple[Sequence[NoiseLaw], Fraction]:
        """Return each coordinate's law, and their unit in lattice units of the statistic."""

    def correlation(self, one: int, other: int) -> float:
        """Return the correlation of two coordinates."""

    @property
    def unit_rate(self) -> Fraction:
        """Return what simulated vectors are divided by: then they are in lattice units."""

    def simulate(self, count: int, *, seed: bytes) -> Floats:
        """Return simulated vectors at rate 1, shape (count, m); they are never released."""

    def draw(self, randomness: Randomness) -> list[int]:
        """Return one draw, in lattice steps."""


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

    @property
    def unit_rate(self) -> Fraction:
        """Return ``epsilon / Delta`` per lattice unit of the statistic."""
        return self.rate * self.refinement

    def simulate(self, count: int, *, seed: bytes) -> Floats:
        """Return simulated vectors at rate 1, shape (count, m)."""
        return simulate(self.ball, self.dimension, count, seed=seed)

    @property
    def uncorrelated(self) -> bool:
        """Return whether all coordinates are uncorrelated."""
        return isinstance(self.ball, str)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedNoise:
    """The parameters of an additive release: a norm, and the numbers of :class:`IntegerNoise`."""

    norm: str
    refinement: int
    rate_squared: Fraction
    steps: int

    @classmethod
    def of(cls, norm: str, noise: IntegerNoise) -> AddedNoise:
        """Return the parameters of a noise that was calibrated in this norm."""
        return cls(
            norm=norm,
            refinement=noise.refinement,
            rate_squared=noise.rate_squared,
            steps=noise.steps,
        )

    def on(self, space: AdjacentOutputSpace) -> IntegerNoise:
        """Return the noise, on the space it was calibrated for."""
        named = (ball for ball in BALLS if ball == self.norm)
        ball = space.optimal_ball if self.norm == "optimal" else next(named, None)
        if ball is None:
            raise ValueError("there is no such ball in this space")
        return IntegerNoise(
            ball, space.dimension, self.refinement, self.rate_squared, steps=self.steps
        )

    def drawing(self, statistic: AdditiveStatistic, schema: Schema) -> Drawing:
        """Return how the statistic is drawn."""
        return self.drawing_of(statistic.additive(schema))

    def drawing_of(self, form: AdditiveForm) -> Drawing:
        """Return how an additive form is drawn."""
        return drawing_with(form, self.on(form.space))


def drawing_with(form: AdditiveForm, noise: AdditiveNoise) -> Drawing:
    """Return how an additive form is drawn with this noise."""
    return Drawing(
        draw=_drawing(form, noise),
        preview=partial(_preview, form, noise),
        figure=partial(adjacent_output_space_svg, form.space),
        errors_on=_errors_on(form, noise),
    )


class PlanForm(Protocol):
    """Plans a statistic with this additive form."""

    def __call__(
        self,
        statistic: Statistic,
        form: AdditiveForm,
        schema: Schema,
        epsilon: PrivacyLoss,
        norm: str,
    ) -> Plan: ...


@dataclass(frozen=True, slots=True)
class Additive:
    """The ``calibrate`` of a mechanism that adds noise to additive statistics.

    ``plan_form`` plans what has been checked, be it the form of one statistic or of all groups'.
    ``otherwise`` plans statistics without such a form, if the mechanism releases any.
    """

    mechanism: str
    plan_form: PlanForm
    otherwise: Calibrate | None = None

    def __call__(
        self, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /
    ) -> Plan:
        """Return the plan of an additive release.

        Raises
        ------
        InvalidStatisticError
            The statistic does not fit the schema, is not additive, or the norm is not offered.
        """
        if not isinstance(statistic, AdditiveStatistic):
            if self.otherwise is not None:
                return self.otherwise(statistic, schema, epsilon, norm)
            raise InvalidStatisticError(
                f"{self.mechanism} releases additive statistics", field_name="mechanism"
            )
        require_valid(statistic, schema, self.mechanism, norm)
        return self.plan_form(statistic, statistic.additive(schema), schema, epsilon, norm)


def plan_form(
    statistic: Statistic, form: AdditiveForm, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a statistic with this form.

    Parameters
    ----------
    norm : {"auto", "l1", "l2", "linf", "optimal"}
        "optimal" is the hull of the adjacent output space, where it can be
        drawn from; "auto" is the advisor's choice.

    Raises
    ------
    InvalidStatisticError
        The norm is not offered.

    Notes
    -----
    **Privacy.** Pure epsilon-DP under the schema's adjacency (Proposition 2.10).
    Under add-remove nothing but the drawn coordinates depends on the row count.
    """
    advice = advise(form.space)
    chosen = advice.norm if norm == "auto" else norm
    ball = ball_of(form.space, chosen)
    noise = IntegerNoise.calibrated(form.space, ball, epsilon.fraction)
    step = Fraction(1, noise.refinement)
    return Plan(
        mechanism="k_norm",
        norm=chosen,
        statistic=statistic,
        schema=schema,
        parameters=AddedNoise.of(chosen, noise),
        guarantee=guarantee_of(form.space, ball, schema, epsilon, THEOREM),
        grid=form.grid(step),
        reason=advice.reason if norm == "auto" else f"Asked for. Advised: {advice.norm}.",
        expected_ms=expected_ms(form, schema),
        time_depends_on_data=False,
        alternatives=_alternatives(form, advice, chosen, epsilon.fraction),
        details={
            "noise": NOISE,
            **form.details,
            "adjacent_output_space": form.space.description,
        },
    )


# Statistics that are read off noisy counts


def _calibrate_counts(
    statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /
) -> Plan:
    if isinstance(statistic, RangeCounts):
        return ranges.calibrate(statistic, schema, epsilon, norm)
    if not isinstance(statistic, ReadFromCounts):
        raise InvalidStatisticError("k_norm releases additive statistics", field_name="mechanism")
    require_valid(statistic, schema, "k_norm", norm)
    return plan_counts(statistic, statistic.histogram(schema), schema, epsilon, norm)


def plan_counts(
    statistic: ReadFromCounts,
    counted: AdditiveStatistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
) -> Plan:
    """Return the plan of a statistic that is read off the counts of this histogram."""
    form = counted.additive(schema)
    plan = plan_form(statistic, form, schema, epsilon, norm)
    return replace(
        plan,
        parameters=ReadCounts(cast(AddedNoise, plan.parameters)),
        grid={"read_off": plan.grid},
        expected_ms=plan.expected_ms + _READING_MS + _MS_PER_COUNT * form.space.dimension,
        alternatives=(),
        details={
            **plan.details,
            "noise": NOISE_OF_COUNTS if statistic.weights is None else NOISE_OF_WEIGHTS,
        },
    )


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """The parameters of a statistic that is read off noisy counts: those of the counts.

    **Privacy.** The answer and its intervals are functions of the released counts and of public
    facts, so they have the guarantee of the counts (Awan & Slavkovic, Proposition 2.11).
    """

    counts: AddedNoise

    def drawing(self, statistic: ReadFromCounts, schema: Schema) -> Drawing:
        """Return how it is drawn of all records."""
        counted = CountedCells(
            self.counts, statistic, statistic.histogram(schema), schema, groups=1
        )
        return Drawing(draw=counted.draw, errors_on=counted.errors)


@dataclass(frozen=True, slots=True)
class CountedCells:
    """Draws the counts of a histogram over groups and cells, and reads answers off them."""

    noise: AddedNoise
    statistic: ReadFromCounts
    histogram: AdditiveStatistic
    schema: Schema
    groups: int

    def read(self, data: Data, randomness: Randomness) -> ReadGroups:
        """Return the answers of all groups."""
        form = self.histogram.additive(self.schema)
        noise = self.noise.on(form.space)
        drawn = draw_coordinates(form, noise, data, randomness)
        noisy = NoisyCounts(
            counts=self._shaped(np.array([float(each) for each in drawn]))[0],
            noise=lambda count, seed: self._shaped(_whole_noise(noise, count, seed)),
        )
        read = self.statistic.read(noisy, self.schema)
        off = zip(read.outcomes, shares_off(self.statistic, noisy, self.schema), strict=True)
        read = read._replace(outcomes=[replace(each, shares_off=own) for each, own in off])
        alike = self.schema.protects.rows == 1 and self.statistic.weights is None
        return read if alike else read.of_rows_alone()

    def draw(self, data: Data, randomness: Randomness) -> Outcome:
        """Return the answer about all records, which are one group."""
        (outcome,) = self.read(data, randomness).outcomes
        return outcome

    def errors(self, data: Data, count: int, seed: bytes, times: float) -> Json:
        """Return the errors of simulated answers about all records."""
        form = self.histogram.additive(self.schema)
        exact = self._shaped(times * np.array([float(each) for each in form.total(data)]))
        added = self._shaped(_whole_noise(self.noise.on(form.space), count, seed))
        counts = np.concatenate([exact, exact + added])[:, 0]

        def sizes(numbers: Floats) -> Floats:
            return np.asarray(np.abs(numbers[1:] - numbers[0]))

        return changed_arrays(sizes, self.statistic.curves(counts, self.schema))

    def _shaped(self, counts: Floats) -> Floats:
        """Return vectors of counts, or of weights, in the shape (vectors, groups, cells, 2)."""
        weights = weights_of(self.statistic, self.schema)
        unit = 1.0 if weights is None else float(weights.largest_share / SUM_MAX)
        return unit * counts.reshape(-1, self.groups, counts.shape[-1] // (2 * self.groups), 2)


def _whole_noise(noise: IntegerNoise, count: int, seed: bytes) -> Floats:
    """Return simulated noise of counts: whole, as the lattice of counts is."""
    per_unit = float(noise.rate * noise.refinement)
    return np.rint(simulate(noise.ball, noise.dimension, count, seed=seed) / per_unit)


calibrate = Additive("k_norm", plan_form, otherwise=_calibrate_counts)


def expected_ms(form: AdditiveForm, schema: Schema) -> float:
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
            tries, other = f"{best.expected_tries:.1g}", advise(space).norm
            raise InvalidStatisticError(
                f"drawing from this hull would take about {tries} tries; the next best norm is "
                f"{other}",
                field_name="norm",
            )
        return best
    if norm not in BALLS:
        names = ", ".join(offered_norms(space))
        raise InvalidStatisticError(f"the norms offered here are {names}", field_name="norm")
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
        sensitivity, unit = space.text(ball), f"{space.unit_name}, in the {ball} norm"
    else:
        ball_name = ball.name
        sensitivity, unit = "1", f"{space.unit_name}, in the norm of the {ball_name}"
    return Guarantee(
        epsilon=epsilon,
        adjacency=schema.adjacency,
        sensitivity=sensitivity,
        sensitivity_unit=unit,
        theorem=theorem,
    )


def draw_coordinates(
    form: AdditiveForm, noise: AdditiveNoise, data: Data, randomness: Randomness
) -> list[Fraction]:
    """Return T(X) + V, in lattice units of the statistic: the private step, all of it."""
    added = noise.draw(randomness)
    return [
        Fraction(exact * noise.refinement + error, noise.refinement)
        for exact, error in zip(form.total(data), added, strict=True)
    ]


def _drawing(form: AdditiveForm, noise: AdditiveNoise) -> Callable[[Data, Randomness], Outcome]:
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


def _errors_on(form: AdditiveForm, noise: AdditiveNoise) -> ErrorsOn:
    """Return how answers are simulated: many at once, after the one without noise."""

    def errors(data: Data, count: int, seed: bytes, times: float) -> Json:
        added = noise.simulate(count, seed=seed) / float(noise.unit_rate)
        added = np.vstack([np.zeros(noise.dimension), added]).T.copy()
        totals = zip(form.total(data), added, strict=True)
        sums: Any = [Many(times * float(total) + each) for total, each in totals]
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


def _preview(form: AdditiveForm, noise: AdditiveNoise, rows: int | None) -> Noise | None:
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
    ratio_text = rounded(times)
    return "the same" if ratio_text == "1" else f"{ratio_text} times the standard deviation"


def _alternatives(
    form: AdditiveForm, advice: Advice, chosen: str, epsilon: Fraction
) -> tuple[Alternative, ...]:
    """Compare every other norm offered with the chosen one, by the laws actually drawn."""
    space = form.space
    own = spread_of(form, integer_noise(space, chosen, epsilon))
    rows = []
    for norm in offered_norms(space):
        if norm == chosen:
            continue
        other = spread_of(form, integer_noise(space, norm, epsilon))
        index = next((row.volume_index for row in advice.comparisons if row.norm == norm), 0.0)
        volume = f"; (Delta^m vol K)^(1/m) = {index:.4g}" if index else ""
        rows.append(
            Alternative(
                mechanism="k_norm",
                norm=norm,
                comparison=other.compared_with(own) + volume,
                std=other.first,
            )
        )
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class Spread:
    """The root of the mean variance of all coordinates, in lattice units of the statistic.

    ``first`` is the standard deviation of an answer's first number, if that reads one coordinate.
    """

    typical: Fraction
    first: float | None

    def compared_with(self, own: Spread) -> str:
        """Return in words how large it is, in terms of the noise that is drawn."""
        if own.typical == 0:
            return "the noise is negligible here"
        return _compared(float(self.typical / own.typical))


def spread_of(form: AdditiveForm, noise: AdditiveNoise) -> Spread:
    """Return how large this noise is on an additive form."""
    laws, unit = noise.describe()
    typical = Fraction(sqrt(fmean(law.std**2 for law in laws))) * unit
    number = _single_slope(form)
    if number is None:
        return Spread(typical, None)
    place, slope = number
    return Spread(typical, float(Fraction(laws[place].std) * unit * slope))


def _single_slope(form: AdditiveForm) -> tuple[int, Fraction] | None:
    """Return the coordinate and slope of the first number, where it reads just one."""
    coordinates = form.reference(None)
    if coordinates is None or not form.linear:  # a ratio or a product reads several
        return None
    found: list[Leaf] = []
    render(form.answer(coordinates), found.append)
    slopes = list(found[0].slopes.items()) if found and not found[0].root else []
    return (slopes[0][0], abs(slopes[0][1])) if len(slopes) == 1 else None
