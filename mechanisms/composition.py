"""Several mechanisms on the same records, for one epsilon (basic composition), exact.

    release (Y_1, ..., Y_k),   Y_i drawn by an epsilon_i-DP mechanism, independently,
    epsilon_i = epsilon w_i,   w_i = share_i / sum of the shares.

**Privacy.** Let D, D' be neighbours under the schema's adjacency and S_1, ..., S_k
events. The parts use disjoint random bits, so given the data they are independent:

    P(Y_1 in S_1, ..., Y_k in S_k | D) = prod_i P(Y_i in S_i | D)
        <= prod_i exp(epsilon_i) P(Y_i in S_i | D') = exp(epsilon) P(... | D'),

as the epsilon_i are exact fractions and their sum is epsilon, not epsilon up to a
rounding. Boxes S_1 x ... x S_k generate the product sigma-algebra, and a bound on
the density of one law by the other's carries over from them, so it holds for every
event (Dwork & Roth 2014, Corollary 3.15, for pure epsilon). How epsilon is split, and
every part's mechanism, norm and constants, depend on the request and public facts
alone; no part looks at another's draw.

For additive parts this is one draw of the K-norm mechanism on the stacked vector, with
the norm ``sum_i w_i ||u_i||_{K_i} / Delta_i``, whose sensitivity is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from mechanisms.contract import (
    Alternative,
    Data,
    InvalidStatisticError,
    Noise,
    Outcome,
    Plan,
    Statistic,
    require_valid,
)
from mechanisms.domain import Schema
from mechanisms.foresight.choice import choose
from mechanisms.privacy import Guarantee, PrivacyLoss, split
from mechanisms.randomness import Randomness
from mechanisms.single import SINGLE_MECHANISMS, calibrate_by
from mechanisms.statistics.stack import Part, Stack, within

THEOREM = "Dwork & Roth 2014, Corollary 3.15 (composition), with exact shares of epsilon"

# Less is of no use, and its noise would leave the floats.
SMALLEST_EPSILON = Fraction(1, 10**12)


def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str) -> Plan:
    """Return the plan of a stack: every part's own, at its exact share of epsilon.

    Raises
    ------
    InvalidStatisticError
        Not a stack, a part that does not fit the schema or is not offered, or a
        part whose share of epsilon is below 1e-12.
    """
    if not isinstance(statistic, Stack):
        raise InvalidStatisticError("composition releases stack", field_name="mechanism")
    require_valid(statistic, schema, "composition", norm)
    # Exact fractions that sum to epsilon: no part is charged by a rounded share.
    shares = split(epsilon, statistic.exact_shares())
    plans = _calibrate_parts(statistic.parts, shares, schema)
    return Plan(
        mechanism="composition",
        norm=None,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity="; ".join(plan.guarantee.sensitivity for plan in plans),
            sensitivity_unit="one for each part, in the units that details.parts names",
            theorem=THEOREM,
            exact=all(plan.guarantee.exact for plan in plans),
            # zCDP adds up by itself: less than what the square of the summed epsilon would cost.
            rho=sum((plan.guarantee.zcdp for plan in plans), Fraction(0)),
        ),
        grid={"parts": [plan.grid for plan in plans]},
        reason=(
            "Each part is drawn independently, by the mechanism and norm that details.parts "
            "names, at its share of epsilon."
        ),
        draw=_StackDraw(tuple(plan.draw for plan in plans)),
        preview=lambda rows: _joined([plan.preview(rows) for plan in plans]),
        expected_ms=sum(plan.expected_ms for plan in plans),
        time_depends_on_data=any(plan.time_depends_on_data for plan in plans),
        drawn_on_boxes=any(plan.drawn_on_boxes for plan in plans),
        slowness=max(plan.slowness for plan in plans),
        alternatives=tuple(
            Alternative(
                mechanism=other.mechanism,
                norm=other.norm,
                comparison=f"parts[{index}]: {other.comparison}",
                std=other.std,
            )
            for index, plan in enumerate(plans)
            for other in plan.alternatives
        ),
        details={
            "noise": "One law for each part; null for a part whose details say why.",
            "parts": [
                _part_facts(part, plan) for part, plan in zip(statistic.parts, plans, strict=True)
            ],
        },
    )


@dataclass(frozen=True, slots=True)
class _StackDraw:
    """Draws the parts one after the other, from disjoint bits."""

    parts: tuple[Callable[[Data, Randomness], Outcome], ...]

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        outcomes = [draw(data, randomness) for draw in self.parts]
        return Outcome(
            value={"parts": [outcome.value for outcome in outcomes]},
            noise=_joined([outcome.noise for outcome in outcomes]),
        )


def _calibrate_parts(
    parts: Sequence[Part], shares: Sequence[PrivacyLoss], schema: Schema
) -> tuple[Plan, ...]:
    """Return each part's plan; of equal parts with equal shares it is made once.

    A plan stores nothing from a draw, so drawing with one plan again takes fresh bits.
    """
    plans: list[Plan] = []
    for index, (part, share) in enumerate(zip(parts, shares, strict=True)):
        # parts may hold what cannot be hashed, and there are few
        same = (at for at in range(index) if (parts[at], shares[at]) == (part, share))
        known = next(same, None)
        plans.append(_calibrate_part(index, part, schema, share) if known is None else plans[known])
    return tuple(plans)


def _calibrate_part(index: int, part: Part, schema: Schema, epsilon: PrivacyLoss) -> Plan:
    if epsilon.fraction < SMALLEST_EPSILON:
        raise InvalidStatisticError(
            "this part's share of epsilon must be at least 1e-12",
            field_name=f"parts[{index}].share",
        )
    try:
        chosen = None
        if part.mechanism == "auto":
            chosen = choose(part.statistic, schema, epsilon, norm=part.norm)
        plan = calibrate_by(
            SINGLE_MECHANISMS,
            part.statistic,
            schema,
            epsilon,
            mechanism=part.mechanism if chosen is None else chosen.mechanism,
            norm=part.norm,
        )
        return plan if chosen is None else chosen.explained(plan)
    except InvalidStatisticError as error:
        raise within(index, error) from None


def _joined(parts: Sequence[Noise | None]) -> Noise | None:
    """Return the parts' laws side by side; None where none is known."""
    if all(part is None for part in parts):
        return None
    return Noise(
        std={"parts": [None if part is None else part.std for part in parts]},
        interval_95={"parts": [None if part is None else part.interval_95 for part in parts]},
        expected_error={"parts": [None if part is None else part.expected_error for part in parts]},
    )


def _part_facts(part: Part, plan: Plan) -> dict[str, object]:
    """Return the public facts about a part, except its grid."""
    return {
        "kind": part.statistic.kind,
        "mechanism": plan.mechanism,
        "norm": plan.norm,
        "epsilon": str(plan.guarantee.epsilon),
        "sensitivity": plan.guarantee.sensitivity,
        "sensitivity_unit": plan.guarantee.sensitivity_unit,
        "theorem": plan.guarantee.theorem,
        "reason": plan.reason,
        "details": plan.details,
    }
