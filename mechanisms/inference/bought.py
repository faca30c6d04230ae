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

*The functional mechanism* sanitizes moments already. If they include the target's square,
its coefficients have standard errors at no further cost: the whole epsilon is spent on the moments
of all columns, and the coefficients are derived from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from mechanisms.contract import (
    Calibrate,
    Data,
    InvalidStatisticError,
    Outcome,
    Plan,
    Statistic,
)
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.many import Floats
from mechanisms.functional.linear import coordinate_noise
from mechanisms.functional.sanitized import equations
from mechanisms.inference.curvature import Curvature, Curved, Disturbed
from mechanisms.inference.evidence import Simulation
from mechanisms.inference.moments import answer
from mechanisms.inference.neighbours import (
    COUNT_SHARE,
    COUNTED,
    MOST_LEVELS,
    BracketedDraw,
    CountedRows,
    Neighbours,
    brackets,
    ends_of,
)
from mechanisms.inference.neighbours import METHOD as NEIGHBOURS
from mechanisms.inference.regression import METHOD as LINEAR
from mechanisms.inference.regression import Fits, Spectra, Sums
from mechanisms.kng.quantile import calibrate_quantile
from mechanisms.knorm import THEOREM, IntegerNoise, draw_coordinates, integer_noise, plan_form
from mechanisms.privacy import (
    Adjacency,
    EpsilonShare,
    Guarantee,
    PrivacyLoss,
    Protected,
    pure_rho,
    split,
)
from mechanisms.randomness import Randomness
from mechanisms.statistics.additive import AdditiveForm
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import moment_layout
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.second_order import Layout

COMPOSITION = "Dwork & Roth 2014, Corollary 3.15 (composition), with exact shares of epsilon"
MOST_COEFFICIENTS = 30
_MS_PER_CELL = 2e-5
_CHOOSING_MS = 3.0  # levels by a noisy count, and what they are drawn by


@dataclass(frozen=True, slots=True)
class WithInference:
    """A mechanism's ``calibrate``, whose regressions have standard errors.

    ``share`` is what of epsilon the second release may lose, between 0 and 1; ``protects`` whose
    rows are protected.
    """

    calibrate: Calibrate
    share: Fraction
    protects: Protected

    def __call__(
        self, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /
    ) -> Plan:
        """Return the plan, epsilon-DP as a whole.

        Raises
        ------
        InvalidStatisticError
            What the mechanism raises; standard errors are not offered for this.
        """
        offered = _OFFERED.get(type(statistic))
        if offered is None:
            kinds = ", ".join(cls.__dataclass_fields__["kind"].default for cls in _OFFERED)  # type: ignore[attr-defined]
            raise _refused(f"standard errors are offered for {kinds}")
        if self.protects.rows > 1:
            raise _refused(
                "standard errors take rows to be drawn independently, and here a person may have "
                "several"
            )
        if getattr(statistic, "weights", None) is not None:
            raise _refused("standard errors are not offered with weights")
        # Exact parts: as decimals they might add up to more than was charged.
        rest, own = split(epsilon, [1 - self.share, self.share])
        plan = self.calibrate(statistic, schema, rest, norm)
        if plan.mechanism == "functional":
            # Planned again at all of epsilon: here standard errors cost nothing.
            whole = self.calibrate(statistic, schema, epsilon, norm)
            return _sanitized(cast(LinearRegression, statistic), schema, epsilon, whole)
        return offered.buy(statistic, schema, epsilon, own, plan)


def planning_ms(statistic: Statistic, schema: Schema) -> float:
    """Return about how many milliseconds of one core the plan takes beyond the mechanism's own."""
    offered = _OFFERED.get(type(statistic))
    return 1.0 if offered is None else offered.planning_ms(statistic, schema)


Buy = Callable[[Any, Schema, PrivacyLoss, EpsilonShare, Plan], Plan]
"""Returns the plan of a statistic with its standard errors, at a share of epsilon."""


def _curved(second: Callable[[Statistic, Schema, PrivacyLoss], Curved]) -> Buy:
    """Return how standard errors of a regression follow from the curvature of its loss."""

    def buy(
        statistic: LinearRegression | LogisticRegression,
        schema: Schema,
        epsilon: PrivacyLoss,
        own: EpsilonShare,
        plan: Plan,
    ) -> Plan:
        if plan.disturbance is None:
            raise _refused(f"standard errors are not offered by {plan.mechanism} with this norm")
        scaling = statistic.scaling(schema)
        if scaling.dimension > MOST_COEFFICIENTS:
            raise _refused(
                f"standard errors are offered for at most {MOST_COEFFICIENTS} coefficients"
            )
        curved = second(statistic, schema, own)
        law = Disturbed(scaling=scaling, disturbance=plan.disturbance, curved=curved, cost=str(own))
        return _together(plan, law, schema, epsilon, own)

    return buy


def _together(
    plan: Plan, law: Disturbed, schema: Schema, epsilon: PrivacyLoss, own: EpsilonShare
) -> Plan:
    """Return the plan of both releases."""
    curved = law.curved
    read = _MS_PER_CELL * schema.row_bound * law.scaling.dimension**2
    return replace(
        plan,
        guarantee=_composed(
            plan.guarantee,
            epsilon,
            sensitivity=(curved.sensitivity, curved.sensitivity_unit),
            theorem=THEOREM,
            rho=pure_rho(own),
        ),
        draw=InferredDraw(plan.draw, law),
        expected_ms=plan.expected_ms + read,
        details={**plan.details, "inference": _facts(curved.method, own)},
    )


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
    column = cast(NumberColumn, schema.columns[statistic.column])
    method = COUNTED if schema.known_rows is None else NEIGHBOURS
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
        draw=BracketedDraw(
            draw=plan.draw, neighbours=neighbours, column=column, method=method, cost=str(own)
        ),
        expected_ms=plan.expected_ms + sum(each.expected_ms for each in drawn_plans),
        details={**plan.details, "inference": _facts(method, own)},
    )


_Neighbours = Callable[[Data, Randomness], Neighbours]


def _neighbours(
    statistic: Quantile, schema: Schema, own: EpsilonShare
) -> tuple[_Neighbours, list[Plan]]:
    """Return the neighbours of levels for a public number of rows, and their plans."""
    rows = cast(int, schema.known_rows)
    found = brackets(statistic.exact_levels(), rows=rows, epsilon=own.fraction)
    ends = ends_of(found)
    # what is promised is the same where no level lies within the bounds and none is drawn
    near = calibrate_quantile(_at(statistic, ends) if ends else statistic, schema, own, "l1")
    return lambda _data, _randomness: (found, near.draw if ends else None), [near]


def _counted(
    statistic: Quantile, schema: Schema, own: EpsilonShare
) -> tuple[_Neighbours, list[Plan]]:
    """Return the neighbours of levels for a private number of rows, and their plans.

    They are planned as under replace-one, which has the largest Delta. So the plan for the public
    bound on rows has the guarantee of the plan for any noisy count.
    """
    counting, rest = split(own, [COUNT_SHARE, 1 - COUNT_SHARE])
    count = plan_form(Count().additive(schema), schema, counting, "auto")
    most, levels = schema.row_bound, statistic.exact_levels()
    widest = replace(schema, adjacency=Adjacency.REPLACE_ONE, rows=most)

    def planned(ends: Sequence[Fraction]) -> Plan:
        return calibrate_quantile(_at(statistic, ends), widest, rest, "l1")

    likely = ends_of(brackets(levels, rows=most, epsilon=rest.fraction))
    near = planned(likely or levels)
    count = replace(count, expected_ms=count.expected_ms + _CHOOSING_MS)
    neighbours = CountedRows(
        count=count.draw,
        count_epsilon=counting.fraction,
        levels=levels,
        epsilon=rest.fraction,
        most=most,
        planned=lambda ends: planned(ends).draw,
    )
    return neighbours, [near, count]


def _at(statistic: Quantile, levels: Sequence[Fraction]) -> Quantile:
    return replace(statistic, levels=tuple(float(level) for level in levels))


def _refused(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="inference")


def _facts(method: str, own: EpsilonShare | None) -> dict[str, object]:
    """Return the plan's facts about its standard errors."""
    return {"cost": "0" if own is None else str(own), "method": method}


@dataclass(frozen=True, slots=True)
class InferredDraw:
    """Draws the coefficients, then at them what their standard errors need."""

    draw: Callable[[Data, Randomness], Outcome]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _MomentsBeside:
    """The moments of a linear regression's columns."""

    scaling: RegressionScaling
    layout: Layout
    form: AdditiveForm
    noise: IntegerNoise
    sensitivity: str
    sensitivity_unit: str
    method: str = LINEAR

    @classmethod
    def build(cls, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss) -> _MomentsBeside:
        asked = cast(LinearRegression, statistic)
        columns = (*asked.names, str(asked.target))
        form = Moments(columns=columns).additive(schema)
        plan = plan_form(form, schema, epsilon, "auto")
        return cls(
            scaling=asked.scaling(schema),
            layout=moment_layout(columns, schema),
            form=form,
            noise=integer_noise(form.space, str(plan.norm), epsilon.fraction),
            sensitivity=plan.guarantee.sensitivity,
            sensitivity_unit=plan.guarantee.sensitivity_unit,
        )

    def draw(
        self, _theta: Sequence[Fraction], data: Data, randomness: Randomness
    ) -> list[Fraction]:
        """Return the noisy moments."""
        return draw_coordinates(self.form, self.noise, data, randomness)

    def possible(self, vector: Sequence[Fraction], simulated: Simulation) -> tuple[Spectra, Floats]:
        """Return the spectra of 2 X'X, and scores 2 X'e."""
        sums = self.layout.sums(vector)
        sanitized = equations(self.scaling, sums)
        if sanitized.yy is None:
            raise ValueError("all squares are released")
        # All from one noisy vector: the sums' noises belong together.
        jets = [*sanitized.jets(), sanitized.yy, sums[0, 0]]
        fits = Fits.of(Sums.of(sanitized, simulated.possible(jets)), simulated)
        errors = simulated.normals("errors", self.scaling.dimension)
        scores = fits.spectra.times(2 * np.sqrt(fits.variance[:, None]) * errors, 0.5)
        return Spectra(values=2 * fits.spectra.values, vectors=fits.spectra.vectors), scores


def _curvature(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss) -> Curvature:
    asked = cast(LogisticRegression, statistic)
    return Curvature.calibrated(
        asked.scaling(schema), schema, epsilon, read=(*asked.names, asked.rule(schema).column)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """How the standard errors of a statistic are bought, and how long the plan takes for that."""

    buy: Buy
    planning_ms: Callable[[Any, Schema], float]


_OFFERED: Mapping[type[Statistic], _Offer] = {
    LinearRegression: _Offer(
        buy=_curved(_MomentsBeside.build),
        planning_ms=lambda statistic, schema: float(
            statistic.planning_ms(schema, "functional")  # the same moments
        ),
    ),
    LogisticRegression: _Offer(
        buy=_curved(_curvature), planning_ms=lambda _statistic, _schema: 1.0
    ),
    Quantile: _Offer(
        buy=_bracketed,
        planning_ms=lambda statistic, _schema: _CHOOSING_MS * len(statistic.levels),
    ),
}


# The functional mechanism


def _sanitized(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, plan: Plan
) -> Plan:
    """Return the plan of coefficients derived from the moments of all columns."""
    columns = statistic.moment_columns(schema) or ()
    form, layout = Moments(columns=columns).additive(schema), moment_layout(columns, schema)
    drawn = plan_form(form, schema, epsilon, str(plan.norm))
    noise = integer_noise(form.space, str(plan.norm), epsilon.fraction)

    def draw(data: Data, randomness: Randomness) -> Outcome:
        coordinates = draw_coordinates(form, noise, data, randomness)
        outcome = answer(
            statistic, columns, layout=layout, coordinates=coordinates, noise=noise, schema=schema
        )
        if outcome is None:
            raise ValueError("moments determine a linear regression")
        return outcome

    return replace(
        plan,
        guarantee=replace(drawn.guarantee, theorem=plan.guarantee.theorem),
        grid=drawn.grid,
        draw=draw,
        expected_ms=plan.expected_ms + drawn.expected_ms,
        alternatives=(),
        details={
            **plan.details,
            "sanitized_moments": form.space.dimension,
            "adjacent_output_space": form.space.description,
            "inference": _facts(LINEAR, None),
        },
    )
