r"""Standard errors for a share of epsilon, of regressions that release coefficients alone.

    release theta by its mechanism, (1 - s) epsilon-DP, then
    Y = T(D; theta) + V by the K-norm mechanism, s epsilon-DP given theta,

s a public share. T determines how uncertain theta is: the curvature of the logistic loss at theta
(:mod:`mechanisms.inference.curvature`), or the moments of all columns of a linear regression, which
do not depend on theta. For quantiles it is neighbouring quantiles
(:mod:`mechanisms.inference.neighbours`), which do not depend on the released ones either.

**Privacy.** Let D, D' be neighbours, under whatever change the mechanisms are planned for. Given
theta = t, which is public, T(.; t) is a function of the records whose sensitivity does not depend
on t, so the law of Y given t changes by at most exp(s epsilon); that of theta by at most
exp((1 - s) epsilon). For an event E with sections E_t,

    P((theta, Y) in E | D) = int P(Y in E_t | D, t) P(dt | D)
        <= int exp(s epsilon) P(Y in E_t | D', t) exp((1 - s) epsilon) P(dt | D')
         = exp(epsilon) P((theta, Y) in E | D').

This is composition (Dwork & Roth 2014, Corollary 3.15) where the second part may look at what the
first released. It is exactly epsilon, as the parts are exact fractions of it. In zCDP the costs add
up likewise (Bun & Steinke 2016, Lemma 1.7). Standard errors are functions of (theta, Y) and of
public facts: post-processing.

Where moments are drawn anyway, standard errors cost nothing (:mod:`mechanisms.inference.moments`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_UP, Context
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, cast

from mechanisms.contract import (
    Calibrate,
    Data,
    Draw,
    Drawing,
    InvalidStatisticError,
    Outcome,
    Parameters,
    Plan,
    ReadOff,
    Statistic,
)
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.fractions import decimal_text
from mechanisms.functional.linear import coordinate_noise
from mechanisms.geometry.advisor import advise
from mechanisms.inference.curvature import (
    CLEARLY,
    LEAST_THRESHOLD,
    Curvature,
    Curved,
    Disturbed,
    enough_times,
)
from mechanisms.inference.design import (
    MOST_SUMS,
    WithDesign,
    is_designed,
    lacking_of,
    noise_for,
    sums_of,
)
from mechanisms.inference.evidence import Simulation
from mechanisms.inference.likelihoods import Counts, Information, Levels, Noised, Times
from mechanisms.inference.moments import (
    facts_of,
    method_of,
    planning_ms_of_moments,
    read_off_moments,
    sanitized,
)
from mechanisms.inference.neighbours import (
    ALIKE_METHOD,
    COUNT_SHARE,
    COUNTED_METHOD,
    MOST_LEVELS,
    Bracket,
    BracketedDraw,
    CountedRows,
    DrawsNeighbours,
    ends_of,
    planned_brackets,
)
from mechanisms.inference.neighbours import METHOD as NEIGHBOURS
from mechanisms.inference.neighbours import enough_times as enough_times_of_levels
from mechanisms.inference.regression import MomentsBeside
from mechanisms.kng.quantile import JointRate, calibrate_quantile
from mechanisms.knorm import (
    THEOREM,
    AddedNoise,
    guarantee_of,
    integer_noise,
    plan_form,
)
from mechanisms.perturbation.linear import PerturbedLinear
from mechanisms.privacy import (
    MAX_EPSILON_NANOS,
    Adjacency,
    EpsilonShare,
    Guarantee,
    PrivacyLoss,
    pure_rho,
    split,
)
from mechanisms.randomness import Randomness
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import moment_layout
from mechanisms.statistics.designs.cox_regression import CoxRegression
from mechanisms.statistics.designs.multinomial_regression import MultinomialRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile, joint_sensitivity
from mechanisms.statistics.stack import Stack
from mechanisms.words import worded

COMPOSITION = "Dwork & Roth 2014, Corollary 3.15 (composition), with exact shares of epsilon"
HOW_TO_ASK = (
    'ask for standard errors and confidence intervals with "inference", as in '
    '"inference": {"share": "1/4"}; a preview says what they cost'
)
NOT_FOR_SEVERAL = (
    "standard errors take rows to be drawn independently, and here a person may have several: "
    "leave standard errors out, or ask the curator to choose “One row per person”"
)
MOST_COEFFICIENTS = 30
_MS_PER_CELL = 2e-5
_TWO_DIGITS = Context(prec=2, rounding=ROUND_UP)
_CHOOSING_MS = 3.0  # levels by a noisy count, and what they are drawn by


@dataclass(frozen=True, slots=True)
class WithInference:
    """A mechanism's ``calibrate``, whose answers have standard errors.

    ``share`` is what of epsilon a second release may lose, between 0 and 1.
    """

    calibrate: Calibrate
    share: Fraction

    def __call__(
        self, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /
    ) -> Plan:
        """Return the plan, epsilon-DP as a whole.

        Raises
        ------
        InvalidStatisticError
            What the mechanism raises; standard errors are not offered for this question.
        """
        if is_read_off_moments(statistic):
            return read_off_moments(self.calibrate, statistic, schema, epsilon, norm)
        drawn = statistic.drawn_by()
        if drawn is not None:
            self.calibrate(statistic, schema, epsilon, norm)  # which checks the question
            plan = self(drawn, schema, epsilon, norm)
            return replace(plan, statistic=statistic, parameters=ReadOff(plan.parameters))
        return self._bought(statistic, schema, epsilon, norm)

    def _bought(
        self, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str
    ) -> Plan:
        # Exact parts: as decimals they might add up to more than was charged.
        rest, own = split(epsilon, [1 - self.share, self.share])
        plan = self.calibrate(statistic, schema, rest, norm)
        if _is_of_moments(statistic, plan.mechanism):
            # Planned again at all of epsilon: here standard errors cost nothing.
            whole = self.calibrate(statistic, schema, epsilon, norm)
            return sanitized(cast(LinearRegression, statistic), schema, epsilon, whole)
        if is_designed(statistic, schema):
            return _designed(statistic, schema, epsilon, own, plan)
        return _OFFERED[type(statistic)].buy(statistic, schema, epsilon, own, plan)


def require_offered(statistic: Statistic, schema: Schema) -> None:
    """Refuse standard errors where answers of this kind have none.

    Raises
    ------
    InvalidStatisticError
        As said, and why.
    """
    if schema.protects.rows > 1 and type(statistic) not in _ALIKE:
        raise _refused(NOT_FOR_SEVERAL)
    if not is_offered(statistic, schema):
        raise _refused(why_none(statistic, schema))


def is_offered(statistic: Statistic, schema: Schema) -> bool:
    """Return whether answers of this kind have standard errors, or have them where asked for."""
    if isinstance(statistic, Stack):
        return any(is_offered(part.statistic, schema) for part in statistic.parts)
    if is_designed(statistic, schema):
        return True
    if statistic.no_inference or _is_weighted(statistic):
        return False
    known = statistic.has_inference or is_read_off_moments(statistic)
    return known or _offer_of(statistic) is not None


def _is_weighted(statistic: Statistic) -> bool:
    return bool(getattr(statistic, "weights", None))


def why_none(statistic: Statistic, schema: Schema) -> str:
    """Return why an answer has no standard errors, or how to ask for them; empty if it has them."""
    offered = is_offered(statistic, schema)
    if isinstance(statistic, Stack) and not offered:
        whys = dict.fromkeys(why_none(part.statistic, schema) for part in statistic.parts)
        return worded("no part has standard errors: %(sentence)s", sentence="; ".join(whys))
    if not offered and statistic.no_inference:
        return statistic.no_inference
    if not offered and _is_weighted(statistic):
        return worded("standard errors are not offered with weights")
    if not offered:
        return worded("standard errors are not offered for %(kinds)s", kinds=statistic.kind)
    if schema.protects.rows > 1 and type(statistic) not in _ALIKE:
        return NOT_FOR_SEVERAL
    return "" if statistic.has_inference else HOW_TO_ASK


def is_read_off_moments(statistic: Statistic) -> bool:
    """Return whether a statistic with standard errors is read off the moments of its columns."""
    return method_of(statistic) is not None and not _is_weighted(statistic)


def spent_on_numbers(
    statistic: Statistic, mechanism: str, epsilon: PrivacyLoss, inference: Fraction | None
) -> PrivacyLoss:
    """Return what of epsilon the numbers are drawn with: all but what standard errors cost.

    From sanitized moments those cost nothing, and neither do they where they are not bought.
    """
    bought = _offer_of(statistic) is not None or _is_weighted(statistic)
    if inference is None or _is_of_moments(statistic, mechanism) or not bought:
        return epsilon
    return split(epsilon, [1 - inference, inference])[0]


def _is_of_moments(statistic: Statistic, mechanism: str) -> bool:
    """Return whether a regression is computed from sanitized moments, which have its errors."""
    return mechanism == "functional" or (mechanism == "gaussian" and statistic.chosen_by_error)


def _offer_of(statistic: Statistic) -> _Offer | None:
    """Return how the standard errors of a statistic are bought; None where they are not."""
    return _OFFERED.get(type(statistic.drawn_by() or statistic))


def planning_ms(statistic: Statistic, schema: Schema) -> float:
    """Return about how many milliseconds of one core the plan takes beyond the mechanism's own."""
    if isinstance(statistic, Stack):
        return sum(planning_ms(part.statistic, schema) for part in statistic.parts)
    offered = _offer_of(statistic)
    if offered is not None:
        return offered.planning_ms(statistic.drawn_by() or statistic, schema)
    if is_read_off_moments(statistic):
        return planning_ms_of_moments(statistic, schema)
    return 1.0


Buy = Callable[[Any, Schema, PrivacyLoss, EpsilonShare, Plan], Plan]
"""Returns the plan of a statistic with its standard errors, at a share of epsilon."""


Regression = (
    LinearRegression
    | LogisticRegression
    | PoissonRegression
    | MultinomialRegression
    | CoxRegression
)


def _curved(
    statistic: Regression, schema: Schema, epsilon: PrivacyLoss, own: EpsilonShare, plan: Plan
) -> Plan:
    """Return the plan of coefficients, and of the curvature that their standard errors need."""
    if plan.disturbance is None:
        raise _refused(f"standard errors are not offered by {plan.mechanism} with this norm")
    dimension = statistic.scaling(schema).dimension
    if dimension > MOST_COEFFICIENTS:
        raise _refused(f"standard errors are offered for at most {MOST_COEFFICIENTS} coefficients")
    threshold = _threshold_of(plan.parameters)
    if threshold is not None and threshold < LEAST_THRESHOLD:
        raise _refused(
            f"with Huber's loss standard errors are offered for thresholds of at least "
            f"1/{LEAST_THRESHOLD.denominator} of half the width of the target's bounds"
        )
    curved = _SECOND[type(statistic)](
        statistic,
        schema,
        threshold,
        lambda space: integer_noise(space, advise(space).norm, own.fraction),
    )
    noise = AddedNoise.of(advise(curved.space).norm, curved.noise)
    promised = guarantee_of(curved.space, curved.noise.ball, schema, own, THEOREM)
    read = _MS_PER_CELL * schema.row_bound * dimension**2
    return replace(
        plan,
        parameters=WithCurvature(plan.parameters, noise, str(own)),
        guarantee=_composed(
            plan.guarantee,
            epsilon,
            sensitivity=(promised.sensitivity, promised.sensitivity_unit),
            theorem=THEOREM,
            rho=pure_rho(own),
        ),
        expected_ms=plan.expected_ms + read,
        details={
            **plan.details,
            "inference": {
                **facts_of(curved.method, own),
                **_needed(
                    enough_times(curved, schema, own, deviation=_deviation(curved)),
                    epsilon,
                    refused=CLEARLY,
                ),
            },
        },
    )


def _deviation(curved: Curved) -> float | None:
    """Return that of the noise of an information, in contributions of a record; None of others."""
    if not isinstance(curved, Information):
        return None
    return float(max(coordinate_noise(curved.noise).stds)) / curved.space.unit


def _needed(
    times: tuple[float, float], epsilon: PrivacyLoss, *, refused: float = 1.0
) -> dict[str, object]:
    """Return about which epsilon intervals need where too many would say nothing at this one.

    ``times`` this one is enough in the population that is assumed, and in all that are considered.
    The first is stated from ``refused`` on: there most intervals say nothing.
    """
    largest = MAX_EPSILON_NANOS / 10**9
    found: dict[str, object] = {}
    limits = {"enough_epsilon": refused, "safe_epsilon": 1.0}
    for (name, limit), factor in zip(limits.items(), times, strict=True):
        needed = float(epsilon.fraction) * factor
        if factor > limit and needed > largest:
            found[name] = None
        elif factor > limit:
            found[name] = decimal_text(Fraction(_TWO_DIGITS.create_decimal_from_float(needed)))
    return found


def _designed(
    statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, own: EpsilonShare, plan: Plan
) -> Plan:
    """Return the plan of weighted numbers, and of what their errors by the design need."""
    for name in lacking_of(schema):
        raise _refused(f"records may lack {name}, by which the design says how they vary")
    sums = sums_of(statistic, schema)
    space = sums.space
    if space.dimension > MOST_SUMS:
        raise _refused(f"standard errors by the design are of at most {MOST_SUMS} sums")
    noise, sensitivity, theorem = noise_for(space, own, gaussian=not plan.guarantee.is_pure)
    return replace(
        plan,
        parameters=WithDesign(plan.parameters, noise, str(own)),
        guarantee=_composed(
            plan.guarantee,
            epsilon,
            sensitivity=sensitivity,
            theorem=theorem,
            rho=pure_rho(own),
        ),
        expected_ms=plan.expected_ms + _MS_PER_CELL * schema.row_bound * space.dimension,
        details={**plan.details, "inference": {**facts_of(sums.method, own), **sums.facts()}},
    )


@dataclass(frozen=True, slots=True)
class WithCurvature:
    """The parameters of the coefficients, and the noise of the curvature at them."""

    coefficients: Parameters
    noise: AddedNoise
    cost: str

    def drawing(self, statistic: Regression, schema: Schema) -> Drawing:
        """Return a drawing of the coefficients, and at them of their standard errors."""
        drawn = self.coefficients.drawing(statistic, schema)
        if drawn.disturbance is None:
            raise ValueError("coefficients with standard errors solve a disturbed equation")
        threshold = _threshold_of(self.coefficients)
        law = Disturbed(
            scaling=_scaling(statistic, schema, threshold),
            disturbance=drawn.disturbance,
            curved=_SECOND[type(statistic)](statistic, schema, threshold, self.noise.on),
            cost=self.cost,
        )
        return replace(drawn, draw=InferredDraw(drawn.draw, law))


def _composed(
    main: Guarantee,
    epsilon: PrivacyLoss,
    *,
    sensitivity: tuple[str, str],
    theorem: str,
    rho: Fraction,
) -> Guarantee:
    """Return the guarantee of a release that is followed by one for its standard errors."""
    size, unit = sensitivity
    return replace(
        main,
        epsilon=epsilon,
        sensitivity=f"{main.sensitivity}; {size}",
        sensitivity_unit=f"{main.sensitivity_unit}; for standard errors {unit}",
        theorem="; ".join(dict.fromkeys([main.theorem, theorem, COMPOSITION])),
        rho=main.zcdp + rho,
    )


def _bracketed(
    statistic: Quantile, schema: Schema, epsilon: PrivacyLoss, own: EpsilonShare, plan: Plan
) -> Plan:
    """Return the plan of quantiles, and of the neighbouring levels that are their intervals."""
    if len(statistic.levels) > MOST_LEVELS:
        raise _refused(f"intervals are offered for at most {MOST_LEVELS} levels")
    make = _counted if schema.known_rows is None else _neighbours
    neighbours, drawn_plans = make(statistic, schema, own)
    times_of = partial(
        enough_times_of_levels,
        statistic.exact_levels(),
        counted=schema.known_rows is None,
        epsilon=own.fraction,
        most=Fraction(MAX_EPSILON_NANOS, 10**9),
        alike=schema.protects.alike,
    )
    fewest, assumed = (times_of(rows=rows) for rows in schema.considered_rows)
    guarantees = [each.guarantee for each in drawn_plans]
    return replace(
        plan,
        guarantee=_composed(
            plan.guarantee,
            epsilon,
            sensitivity=(
                "; ".join(each.sensitivity for each in guarantees),
                "; ".join(each.sensitivity_unit for each in guarantees),
            ),
            theorem="; ".join(each.theorem for each in guarantees),
            rho=sum((each.zcdp for each in guarantees), Fraction(0)),
        ),
        parameters=WithNeighbours(plan.parameters, neighbours, str(own)),
        expected_ms=plan.expected_ms + sum(each.expected_ms for each in drawn_plans),
        details={
            **plan.details,
            "inference": {
                **facts_of(neighbours.method, own),
                **_needed((assumed, fewest), epsilon),
            },
        },
    )


@dataclass(frozen=True, slots=True)
class KnownNeighbours:
    """The neighbours of levels for a public number of rows, and what they are drawn by."""

    brackets: tuple[Bracket, ...]
    near: Parameters
    method: ClassVar[str] = NEIGHBOURS

    def drawn_from(self, statistic: Quantile, schema: Schema) -> DrawsNeighbours:
        """Return what draws them."""
        ends = ends_of(self.brackets)
        if not ends:
            return lambda _data, _randomness: (self.brackets, None)
        near = self.near.drawing(_at(statistic, ends), schema).draw
        return lambda _data, _randomness: (self.brackets, near)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedNeighbours:
    """The noise of a count by which neighbours are chosen, and what both parts may lose."""

    noise: AddedNoise
    count_epsilon: Fraction
    epsilon: Fraction
    alike: int = 1

    @property
    def method(self) -> str:
        """Return how intervals are made, in words."""
        return COUNTED_METHOD if self.alike == 1 else ALIKE_METHOD

    def drawn_from(self, statistic: Quantile, schema: Schema) -> DrawsNeighbours:
        """Return what draws them."""
        widest, asked = _widest(schema), partial(_at, statistic)

        def planned(ends: Sequence[Fraction]) -> Draw:
            rate = self.epsilon / (2 * joint_sensitivity(ends, widest.adjacency))
            return JointRate(rate).drawing(asked(ends), widest).draw

        return CountedRows(
            count=self.noise.drawing(Count(), schema).draw,
            count_epsilon=self.count_epsilon,
            levels=statistic.exact_levels(),
            epsilon=self.epsilon,
            most=schema.row_bound,
            alike=self.alike,
            planned=planned,
        )


@dataclass(frozen=True, slots=True)
class WithNeighbours:
    """The parameters of quantiles, and of the neighbouring levels that are their intervals."""

    quantiles: Parameters
    neighbours: KnownNeighbours | CountedNeighbours
    cost: str

    def drawing(self, statistic: Quantile, schema: Schema) -> Drawing:
        """Return a drawing of the quantiles, and then of their neighbours."""
        drawn = self.quantiles.drawing(statistic, schema)
        return replace(
            drawn,
            draw=BracketedDraw(
                draw=drawn.draw,
                neighbours=self.neighbours.drawn_from(statistic, schema),
                column=cast(NumberColumn, schema.columns[statistic.column]),
                method=self.neighbours.method,
                cost=self.cost,
            ),
        )


def _neighbours(
    statistic: Quantile, schema: Schema, own: EpsilonShare
) -> tuple[KnownNeighbours, list[Plan]]:
    """Return the neighbours of levels for a public number of rows, and their plans."""
    rows = cast(int, schema.known_rows)
    levels = tuple(statistic.exact_levels())
    found = planned_brackets(levels, rows=rows, epsilon=own.fraction)
    ends = ends_of(found)
    # what is promised is the same where no level lies within the bounds and none is drawn
    near = calibrate_quantile(_at(statistic, ends) if ends else statistic, schema, own, "l1")
    return KnownNeighbours(found, near.parameters), [near]


def _counted(
    statistic: Quantile, schema: Schema, own: EpsilonShare
) -> tuple[CountedNeighbours, list[Plan]]:
    """Return the neighbours of levels for a private number of rows, and their plans.

    They are planned as under replace-one, which has the largest Delta. So the plan for the public
    bound on rows has the guarantee of the plan for any noisy count.
    """
    counting, rest = split(own, [COUNT_SHARE, 1 - COUNT_SHARE])
    count = plan_form(Count(), Count().additive(schema), schema, counting, "auto")
    levels = statistic.exact_levels()
    alike = schema.protects.alike
    likely = ends_of(
        planned_brackets(tuple(levels), rows=schema.row_bound, epsilon=rest.fraction, alike=alike)
    )
    near = calibrate_quantile(_at(statistic, likely or levels), _widest(schema), rest, "l1")
    neighbours = CountedNeighbours(
        noise=cast(AddedNoise, count.parameters),
        count_epsilon=counting.fraction,
        epsilon=rest.fraction,
        alike=alike,
    )
    return neighbours, [near, replace(count, expected_ms=count.expected_ms + _CHOOSING_MS)]


def _widest(schema: Schema) -> Schema:
    return replace(schema, adjacency=Adjacency.REPLACE_ONE, rows=schema.row_bound)


def _at(statistic: Quantile, levels: Sequence[Fraction]) -> Quantile:
    return replace(statistic, levels=tuple(float(level) for level in levels))


def _refused(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="inference")


@dataclass(frozen=True, slots=True)
class InferredDraw:
    """Draws the coefficients, then at them what their standard errors need."""

    draw: Draw
    law: Disturbed

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        outcome = self.draw(data, randomness)
        coefficients = cast(dict[str, float], outcome.value["coefficients"])
        theta = self.law.scaling.scaled({name: Fraction(v) for name, v in coefficients.items()})
        vector = self.law.curved.draw(theta, data, randomness)
        simulated = Simulation(
            noise=coordinate_noise(self.law.curved.noise),
            # Of what is released alone: the same answer then has the same standard errors.
            seed=repr((coefficients, vector)).encode(),
        )
        return replace(outcome, inference=self.law.infer(coefficients, vector, simulated))


# Second releases


def _curvature(
    statistic: LogisticRegression, schema: Schema, _threshold: Fraction | None, noise: Noised
) -> Curvature:
    read = (*statistic.names, statistic.rule(schema).column)
    return Curvature.of(statistic.scaling(schema), schema, noise, read=read)


def _moments_beside(statistic: LinearRegression, schema: Schema, noise: Noised) -> MomentsBeside:
    columns = (*statistic.names, str(statistic.target))
    form = Moments(columns=columns).additive(schema)
    return MomentsBeside(
        scaling=statistic.scaling(schema),
        layout=moment_layout(columns, schema),
        form=form,
        noise=noise(form.space),
    )


def _huber(
    statistic: LinearRegression, schema: Schema, threshold: Fraction, noise: Noised
) -> Curvature:
    scaling = statistic.row_scaling(schema)
    return Curvature.of(scaling, schema, noise, read=scaling.columns, threshold=threshold)


def _threshold_of(parameters: Parameters) -> Fraction | None:
    """Return the threshold of Huber's loss that coefficients are drawn with; None of others."""
    return parameters.threshold if isinstance(parameters, PerturbedLinear) else None


def _scaling(statistic: Any, schema: Schema, threshold: Fraction | None) -> Any:
    return statistic.scaling(schema) if threshold is None else statistic.row_scaling(schema)


def _of_residuals(
    statistic: LinearRegression, schema: Schema, threshold: Fraction | None, noise: Noised
) -> Curved:
    if threshold is not None:
        return _huber(statistic, schema, threshold, noise)
    return _moments_beside(statistic, schema, noise)


def _informed(kind: Any) -> Callable[[Any, Schema, Fraction | None, Noised], Curved]:
    """Return the second release of a likelihood: its information."""
    return lambda statistic, schema, _threshold, noise: Information.of(
        kind.of(statistic, schema), schema, noise
    )


_SECOND: Mapping[type[Statistic], Callable[[Any, Schema, Fraction | None, Noised], Curved]] = {
    LinearRegression: _of_residuals,
    LogisticRegression: _curvature,
    PoissonRegression: _informed(Counts),
    MultinomialRegression: _informed(Levels),
    CoxRegression: _informed(Times),
}
"""The second release, given the threshold of Huber's loss and the noise on its space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """How the standard errors of a statistic are bought, and how long the plan takes for that."""

    buy: Buy
    planning_ms: Callable[[Any, Schema], float]


_OFFERED: Mapping[type[Statistic], _Offer] = {
    LinearRegression: _Offer(
        buy=_curved,
        planning_ms=lambda asked, schema: float(asked.planning_ms(schema, "functional")),
    ),
    **{
        kind: _Offer(buy=_curved, planning_ms=lambda _statistic, _schema: 1.0)
        for kind in _SECOND
        if kind is not LinearRegression
    },
    Quantile: _Offer(
        buy=_bracketed,
        planning_ms=lambda statistic, _schema: _CHOOSING_MS * len(statistic.levels),
    ),
}
_ALIKE = {Quantile}  # their intervals hold where all rows of a person are alike
