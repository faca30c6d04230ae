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

*Parts that are rho_i-zCDP*, in accounts with a delta: together they are (sum of rho_i)-zCDP, since
Rényi divergences of independent draws add up (Bun & Steinke 2016, Lemma 1.7). Pure parts count with
theirs.

For additive parts this is one draw of the K-norm mechanism on the stacked vector, with
the norm ``sum_i w_i ||u_i||_{K_i} / Delta_i``, whose sensitivity is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TypeVar

from mechanisms.contract import (
    Alternative,
    Calibrate,
    Data,
    Drawing,
    Inference,
    InvalidStatisticError,
    Noise,
    Outcome,
    Parameters,
    Plan,
    Statistic,
    joined_facts,
    require_valid,
)
from mechanisms.domain import Schema
from mechanisms.inference.bought import is_offered, why_none
from mechanisms.privacy import (
    PURE,
    Guarantee,
    PrivacyLoss,
    definition_of,
    split,
)
from mechanisms.randomness import Randomness
from mechanisms.single import SINGLE_MECHANISMS, calibrate_by
from mechanisms.statistics.stack import Part, Stack, within

T = TypeVar("T")
S = TypeVar("S")

THEOREM = "Dwork & Roth 2014, Corollary 3.15 (composition), with exact shares of epsilon"
THEOREM_OF_ZCDP = "Bun & Steinke 2016, Lemma 1.7 (composition), with exact shares of epsilon"

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
    return _plan(statistic, schema, epsilon, norm)


def inferring(share: Fraction) -> Calibrate:
    """Return what plans a stack with standard errors of the parts that they are offered for.

    ``share`` is what part of each such part's epsilon they may lose. The other parts keep all of
    theirs. It raises what :func:`calibrate` raises.
    """
    return partial(_plan, inference=share)


def _plan(
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
    /,
    *,
    inference: Fraction | None = None,
) -> Plan:
    if not isinstance(statistic, Stack):
        raise InvalidStatisticError("composition releases stack", field_name="mechanism")
    require_valid(statistic, schema, "composition", norm)
    # Exact fractions that sum to epsilon: no part is charged by a rounded share.
    shares = split(epsilon, statistic.exact_shares())
    plans = _each_once(
        list(zip(statistic.parts, shares, strict=True)),
        lambda index, one: _calibrate_part(index, one[0], schema, one[1], inference),
    )
    definition = definition_of(plan.guarantee for plan in plans)
    return Plan(
        mechanism="composition",
        norm=None,
        statistic=statistic,
        schema=schema,
        parameters=Stacked(tuple(plan.parameters for plan in plans)),
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity="; ".join(plan.guarantee.sensitivity for plan in plans),
            sensitivity_unit="one for each part, in the units that details.parts names",
            theorem=THEOREM if definition == PURE else THEOREM_OF_ZCDP,
            definition=definition,
            exact=all(plan.guarantee.exact for plan in plans),
            # zCDP adds up by itself: less than what the square of the summed epsilon would cost.
            rho=sum((plan.guarantee.zcdp for plan in plans), Fraction(0)),
        ),
        grid={"parts": [plan.grid for plan in plans]},
        reason=(
            "Each part is drawn independently, by the mechanism and norm that details.parts "
            "names, at its share of epsilon."
        ),
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
                _part_facts(part, plan, inferred=inference is not None)
                for part, plan in zip(statistic.parts, plans, strict=True)
            ],
        },
    )


@dataclass(frozen=True, slots=True)
class Stacked:
    """The parameters of the parts of a stack."""

    parts: tuple[Parameters, ...]

    def drawing(self, statistic: Stack, schema: Schema) -> Drawing:
        """Return a drawing of the parts one after the other, from disjoint bits."""
        asked = [
            (drawn, part.statistic) for drawn, part in zip(self.parts, statistic.parts, strict=True)
        ]
        parts = _each_once(asked, lambda _, one: one[0].drawing(one[1], schema))

        def draw(data: Data, randomness: Randomness) -> Outcome:
            outcomes = [each.draw(data, randomness) for each in parts]
            off = [outcome.shares_off for outcome in outcomes]
            return Outcome(
                value={"parts": [outcome.value for outcome in outcomes]},
                noise=_joined([outcome.noise for outcome in outcomes]),
                inference=joined_inference([outcome.inference for outcome in outcomes]),
                facts=joined_facts([outcome.facts for outcome in outcomes]),
                shares_off={"parts": off} if any(off) else None,
            )

        return Drawing(
            draw=draw, preview=lambda rows: _joined([each.preview(rows) for each in parts])
        )


def _each_once(parts: Sequence[T], make: Callable[[int, T], S]) -> list[S]:
    """Return what is made of each part and its place; of equal parts it is made once.

    Nothing of it stores anything from a draw, so drawing with one again takes fresh bits.
    """
    made: list[S] = []
    for index, part in enumerate(parts):
        # parts may hold what cannot be hashed, and there are few
        known = next((at for at in range(index) if parts[at] == part), None)
        made.append(make(index, part) if known is None else made[known])
    return made


def joined_inference(parts: Sequence[Inference | None]) -> Inference | None:
    """Return the inference of the parts that have one, each term with its place in the stack."""
    known = [(at, part) for at, part in enumerate(parts) if part is not None]
    if not known:
        return None
    methods = dict.fromkeys(part.method for _, part in known)
    return Inference(
        method="; ".join(methods),
        cost=str(sum((Fraction(part.cost) for _, part in known), Fraction(0))),
        terms=tuple(
            replace(term, place=("parts", at, *term.place))
            for at, part in known
            for term in part.terms
        ),
        fit=tuple(
            replace(term, place=("parts", at, "fit", term.term))
            for at, part in known
            for term in part.fit
        ),
    )


def _calibrate_part(
    index: int, part: Part, schema: Schema, epsilon: PrivacyLoss, inference: Fraction | None
) -> Plan:
    if epsilon.fraction < SMALLEST_EPSILON:
        raise InvalidStatisticError(
            "this part's share of epsilon must be at least 1e-12",
            field_name=f"parts[{index}].share",
        )
    try:
        return calibrate_by(
            SINGLE_MECHANISMS,
            part.statistic,
            schema,
            epsilon,
            mechanism=part.mechanism,
            norm=part.norm,
            inference=inference if is_offered(part.statistic, schema) else None,
        )
    except InvalidStatisticError as error:
        if error.field_name == "inference":  # it is the stack's own field
            said = f"part {index + 1}: {error.detail}"
            raise InvalidStatisticError(said, field_name="inference") from None
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


def _part_facts(part: Part, plan: Plan, *, inferred: bool) -> dict[str, object]:
    """Return the public facts about a part, except its grid."""
    facts: dict[str, object] = {}
    if inferred and not is_offered(part.statistic, plan.schema):
        facts["no_inference"] = why_none(part.statistic, plan.schema)
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
        **facts,
    }
