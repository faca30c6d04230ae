"""Quantiles by the K-norm gradient mechanism (Reimherr & Awan 2019, section 4.5), exact.

*Quantile.* The base measure is the counting measure on the column's public grid (a boolean column's
grid is {0, 1}), or uniform in asinh(x / s) on candidates that are fine in relative terms
(:mod:`mechanisms.grids`), for all levels alike. The gradient at t is
``#{y <= t} - tau n``, an exact multiple of 1e-9, and Delta is exact
(:func:`mechanisms.statistics.quantile.gradient_sensitivity`); where t equals a
record the check loss has a kink, and the smallest subgradient counts. The draw
is exact: :mod:`mechanisms.samplers.intervals`. In one dimension all norms agree.

*Several levels* are drawn jointly (Gillenwater, Joseph & Kulesza 2021) or one by one.

Jointly, norm "l1": on sorted points, the gradient of the sum of check losses has
the entries ``G_j = #{y <= t_j} - q_j n``. In the coordinates ``G_j - G_{j-1}``, the counts between
neighbouring points less what they should be, the norm is l1; it is that paper's
score, and Theorem 3.1 with K = {sum |G_j - G_{j-1}| <= 1}. Delta is 2, or
2 (1 - smallest gap between levels, 0 and 1 included) under add-remove; derivation, the
spreading of ties and the exact sampler: :mod:`mechanisms.samplers.joint_quantiles`.

One by one, norm "linf": each level with an equal part of epsilon, then sorted, which
is post-processing. With weights all levels are drawn so: the joint sampler holds records of one
rank each.

*Which is better* is a public number: the mean error in rank of either way, from levels,
epsilon and adjacency (:mod:`mechanisms.statistics.ranks.draw`). Jointly it is for every
set of levels under replace-one, by a factor between the root of their number and that
number; one by one for a few levels close together under add-remove. One by one is also
what remains where the joint sums would be long: a large public bound on the rows at
a small epsilon. Norm "auto" decides by these, and the plan states both errors.

**Privacy.** Theorem 3.1 with a public base measure, for either adjacency: pure epsilon-DP, over all
levels together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mechanisms.contract import (
    Alternative,
    Drawing,
    InvalidStatisticError,
    Json,
    Parameters,
    Plan,
)
from mechanisms.domain import Schema
from mechanisms.exact.fractions import decimal_text
from mechanisms.privacy import KNG_THEOREM as THEOREM
from mechanisms.privacy import Guarantee, PrivacyLoss, bounded_range_rho
from mechanisms.randomness import Randomness
from mechanisms.samplers.intervals import GridCodes, draw_point
from mechanisms.samplers.joint_quantiles import JointLaw, joint_points
from mechanisms.statistics.quantile import Quantile, gradient_sensitivity, joint_sensitivity
from mechanisms.statistics.ranks.draw import (
    Candidates,
    EachLevelAlone,
    QuantileDraw,
    joint_rank_errors,
    level_rates,
    rank_unit,
    split_rank_errors,
    weight_facts,
)

_MOST_ADDITIONS = 5 * 10**7  # about a second of one core


def calibrate_quantile(
    statistic: Quantile, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a quantile release, epsilon-DP in total over all levels.

    Raises
    ------
    InvalidStatisticError
        The levels were asked for jointly where the public rule does not allow it.
    """
    if statistic.weights is not None:
        if norm == "l1":
            raise InvalidStatisticError(
                "with weights levels are drawn one by one; use the norm linf, or ask for each "
                "level by itself",
                field_name="norm",
            )
        return _split_plan(statistic, schema, epsilon, affordable=False)
    joint = JointRate.of(statistic, schema, epsilon).sampler(statistic, schema)
    # From the public bound on the rows: the choice of norm must not reveal their number.
    affordable = joint.additions(schema.row_bound) <= _MOST_ADDITIONS
    if norm == "l1" and not affordable:
        raise InvalidStatisticError(
            "this many levels and rows at this epsilon cannot be drawn jointly; "
            "use the norm linf, which draws them one by one",
            field_name="norm",
        )
    errors = _RankErrors.of(statistic, schema, epsilon)
    if norm == "l1" or (norm == "auto" and affordable and errors.joint_is_better):
        return _joint_plan(statistic, schema, epsilon)
    return _split_plan(statistic, schema, epsilon, affordable=affordable)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointLevels:
    """Draws all levels at once; all fields are public, ``levels`` ascending.

    ``candidates`` says how far ties are spread.
    """

    levels: tuple[Fraction, ...]
    rate: Fraction
    candidates: Candidates

    def __call__(self, grid: GridCodes, randomness: Randomness) -> Sequence[int]:
        """Return one point per level, ascending."""
        return joint_points(
            grid,
            levels=self.levels,
            rate=self.rate,
            bits=self.candidates.fine_bits,
            randomness=randomness,
        )

    def additions(self, rows: int) -> int:
        """Return about how long the sums of a draw are, from a public bound on the rows."""
        law = JointLaw(levels=self.levels, rate=self.rate)
        return law.additions(self.candidates.places << self.candidates.fine_bits, rows)


@dataclass(frozen=True, slots=True)
class _RankErrors:
    """Mean errors in rank, in records, level by level."""

    joint: list[float]
    split: list[float]

    @classmethod
    def of(cls, statistic: Quantile, schema: Schema, epsilon: PrivacyLoss) -> _RankErrors:
        given = statistic.exact_levels(), epsilon.fraction, schema.adjacency
        return cls(joint=joint_rank_errors(*given), split=split_rank_errors(*given))

    @property
    def joint_is_better(self) -> bool:
        return len(self.joint) > 1 and sum(self.joint) < sum(self.split)

    def compare(self, joint: bool) -> str:
        """Return how this way's mean error in rank compares with the other's."""
        here, there = (self.joint, self.split) if joint else (self.split, self.joint)
        way = "jointly" if joint else "one by one"
        return (
            f"levels {way}: ranks miss by {_mean(here):.4g} records on average, "
            f"instead of {_mean(there):.4g}"
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _joint_sensitivity(statistic: Quantile, schema: Schema) -> Fraction:
    return joint_sensitivity(statistic.exact_levels(), schema.adjacency)


@dataclass(frozen=True, slots=True)
class JointRate:
    """The rate of all levels, drawn jointly."""

    rate: Fraction

    @classmethod
    def of(cls, statistic: Quantile, schema: Schema, epsilon: PrivacyLoss) -> JointRate:
        """Return the rate at which they are epsilon-DP together."""
        return cls(epsilon.fraction / (2 * _joint_sensitivity(statistic, schema)))

    def drawing(self, statistic: Quantile, schema: Schema) -> Drawing:
        """Return how the quantiles are drawn."""
        sampler = self.sampler(statistic, schema)
        return Drawing(draw=QuantileDraw.of(statistic, schema, sampler))

    def sampler(self, statistic: Quantile, schema: Schema) -> JointLevels:
        """Return what draws all levels at once."""
        return JointLevels(
            levels=tuple(sorted(statistic.exact_levels())),
            rate=self.rate,
            candidates=Candidates.of(statistic, schema),
        )


@dataclass(frozen=True, slots=True)
class LevelRates:
    """The rate of each level, drawn one by one."""

    rates: tuple[Fraction, ...]

    def drawing(self, statistic: Quantile, schema: Schema) -> Drawing:
        """Return how the quantiles are drawn."""
        levels = statistic.exact_levels()
        sampler = EachLevelAlone(levels=levels, rates=self.rates, point=draw_point)
        return Drawing(draw=QuantileDraw.of(statistic, schema, sampler))


def _joint_plan(statistic: Quantile, schema: Schema, epsilon: PrivacyLoss) -> Plan:
    errors = _RankErrors.of(statistic, schema, epsilon)
    return _plan(
        statistic,
        schema,
        epsilon,
        norm="l1",
        parameters=JointRate.of(statistic, schema, epsilon),
        sensitivity=_joint_sensitivity(statistic, schema),
        unit="records, l1 norm of the change in the counts between levels",
        reason=(
            "Several levels are drawn jointly, exactly on the public grid: "
            f"ranks miss by {_mean(errors.joint):.4g} records on average where records are many."
        ),
        alternatives=(
            Alternative(mechanism="kng", norm="linf", comparison=errors.compare(joint=False)),
        ),
        details={"levels_drawn": "jointly", "mean_rank_errors": errors.joint},
        rho=bounded_range_rho(epsilon),
    )


def _split_plan(
    statistic: Quantile, schema: Schema, epsilon: PrivacyLoss, *, affordable: bool
) -> Plan:
    levels = statistic.exact_levels()
    share = epsilon.fraction / len(levels)
    deltas = [gradient_sensitivity(level, schema.adjacency) for level in levels]
    errors = _RankErrors.of(statistic, schema, epsilon)
    joint = Alternative(mechanism="kng", norm="l1", comparison=errors.compare(joint=True))
    return _plan(
        statistic,
        schema,
        epsilon,
        norm="linf",
        parameters=LevelRates(level_rates(statistic, schema, epsilon)),
        sensitivity=max(deltas),
        unit=rank_unit(statistic),
        reason=(
            "One dimension: every norm gives the same law, drawn exactly on the public grid."
            if len(levels) == 1
            else "Drawn one by one, an equal part of epsilon each, exactly on the public grid."
        ),
        alternatives=(joint,) if affordable and len(levels) > 1 else (),
        details={
            "levels_drawn": "one by one",
            "mean_rank_errors": errors.split,
            "epsilon_per_level": str(share),
            "sensitivities": [
                {"level": decimal_text(level), "sensitivity": decimal_text(delta)}
                for level, delta in zip(levels, deltas, strict=True)
            ],
        },
        # k draws at epsilon / k: k (epsilon / k)**2 / 8.
        rho=bounded_range_rho(epsilon) / len(levels),
    )


def _plan(
    statistic: Quantile,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    norm: str,
    parameters: Parameters,
    sensitivity: Fraction,
    unit: str,
    reason: str,
    alternatives: tuple[Alternative, ...],
    details: Json,
    rho: Fraction,
) -> Plan:
    candidates = Candidates.of(statistic, schema)
    return Plan(
        mechanism="kng",
        norm=norm,
        statistic=statistic,
        schema=schema,
        parameters=parameters,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=decimal_text(sensitivity),
            sensitivity_unit=unit,
            theorem=THEOREM,
            rho=rho,
        ),
        grid={statistic.column: float(candidates.step)},
        reason=reason,
        expected_ms=candidates.expected_ms(
            len(statistic.levels), schema.row_bound, weighted=statistic.weights is not None
        ),
        time_depends_on_data=True,
        alternatives=alternatives,
        details={
            "noise": "Not stated: how far a value moves with its rank depends on the data. "
            "mean_rank_errors state the mean error in rank where records are many and distinct.",
            "base_measure": candidates.measure,
            **details,
            **weight_facts(statistic, schema),
        },
    )
