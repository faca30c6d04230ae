"""Quantiles by permute-and-flip, the exponential mechanism's better on finite candidates.

The candidates are the points of the column's public grid, finitely
many (or those of :mod:`mechanisms.grids`, each as often as its base measure
says), and the loss of t is ``s(t)``, the distance of ``level * n`` to [#{y < t}, #{y <= t}]
(:mod:`mechanisms.samplers.intervals`). Its sensitivity is the gradient's, 1, or
max(level, 1 - level) under add-remove. On finite candidate sets *permute-and-flip*
(McKenna & Sheldon 2020) is epsilon-DP at the same rate and never worse; it is
what is drawn, exactly: :mod:`mechanisms.samplers.intervals`. Several levels
are drawn one by one, each with an equal part of epsilon, then sorted.

**Privacy of permute-and-flip.** With lambda = epsilon / (2 Delta) and
``p_t = exp(-lambda (s(t) - min s))`` its law is

    P(t) = p_t * integral over u in [0, 1] of prod over r != t of (1 - p_r u) du,

since, given the place u of t in a random order, every other candidate r comes
earlier with a head with probability p_r u. This is also the law of the smallest
``s(t) - Z_t`` with independent Z_t ~ Exp(lambda): the largest ``v = Z_t - s(t)`` is
at least ``-min s``, candidate t has density ``lambda exp(-lambda (v + s(t)))`` there and every
other r is below v with probability ``1 - exp(-lambda (v + s(r)))``; substitute
``u = exp(-lambda (v + min s))``. Now fix the other candidates' Z. Candidate t wins iff
``Z_t > M``, a number that is a difference of two losses up to those Z and so moves
by at most 2 Delta between neighbours, and for every M

    P(Z > M + 2 Delta) >= exp(-2 Delta lambda) P(Z > M) = exp(-epsilon) P(Z > M).

Integrate over the other Z: the law is epsilon-DP, for either adjacency.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mechanisms.contract import Alternative, Drawing, Plan
from mechanisms.domain import Schema
from mechanisms.exact.fractions import decimal_text
from mechanisms.privacy import EXPONENTIAL_THEOREM as THEOREM
from mechanisms.privacy import Guarantee, PrivacyLoss
from mechanisms.samplers.intervals import permute_and_flip_point
from mechanisms.statistics.quantile import Quantile, gradient_sensitivity
from mechanisms.statistics.ranks.draw import (
    Candidates,
    EachLevelAlone,
    QuantileDraw,
    level_rates,
    rank_unit,
    weight_facts,
)


def calibrate_quantile(
    statistic: Quantile, schema: Schema, epsilon: PrivacyLoss, _norm: str
) -> Plan:
    """Return the plan of quantiles by permute-and-flip, epsilon-DP in total over all levels."""
    candidates, levels = Candidates.of(statistic, schema), statistic.exact_levels()
    deltas = [gradient_sensitivity(level, schema.adjacency) for level in levels]
    share = epsilon.fraction / len(levels)
    return Plan(
        mechanism="exponential",
        norm=None,
        statistic=statistic,
        schema=schema,
        parameters=FlipRates(level_rates(statistic, schema, epsilon)),
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=decimal_text(max(deltas)),
            sensitivity_unit=rank_unit(statistic),
            # No rho of its own: permute-and-flip is not of bounded range.
            theorem=THEOREM,
        ),
        grid={statistic.column: float(candidates.step)},
        reason=(
            "Permute-and-flip on the public grid: the expected score is never worse than the "
            "exponential mechanism's at the same epsilon. Drawn exactly."
        ),
        expected_ms=candidates.expected_ms(
            len(levels), schema.row_bound, weighted=statistic.weights is not None
        ),
        time_depends_on_data=True,
        alternatives=(
            Alternative(
                mechanism="kng",
                norm="linf",
                comparison="nearly the same law for one level; several levels jointly",
            ),
        ),
        details={
            "noise": "Not stated: an exact draw of the permute-and-flip law, whose spread depends "
            "on how the records lie around each level.",
            "base_measure": candidates.measure,
            "epsilon_per_level": str(share),
            "sampler": "permute-and-flip",
            **weight_facts(statistic, schema),
        },
    )


@dataclass(frozen=True, slots=True)
class FlipRates:
    """The rate of each level by permute-and-flip."""

    rates: tuple[Fraction, ...]

    def drawing(self, statistic: Quantile, schema: Schema) -> Drawing:
        """Return how the quantiles are drawn."""
        sampler = EachLevelAlone(
            levels=statistic.exact_levels(), rates=self.rates, point=permute_and_flip_point
        )
        return Drawing(draw=QuantileDraw.of(statistic, schema, sampler))
