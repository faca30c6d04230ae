r"""People who have several rows: every mechanism at epsilon / k, for a person of up to k rows.

    release M(D) at epsilon / k,   M epsilon'-DP under add-remove for every epsilon'.

*Neighbours.* Every row belongs to one person, and a person has at most k rows. The upload keeps k
rows of a person with more, by a rule that reads that person's own rows alone
(:mod:`app.uploads.people`). D and D' are neighbours if all rows of one person are added or removed.
Then they differ by at most k rows.

**Privacy.** Put the rows in or take them out one by one: ``D = D_0, D_1, ..., D_m = D'``, m <= k,
neighbours by one row. Write ``L_i(y) = log P(y | D_{i-1}) / P(y | D_i)``, so that the loss between
D and D' is ``L = L_1 + ... + L_m``.

- *Pure.* ``|L_i| <= epsilon / k`` for each i, hence ``|L| <= m epsilon / k <= epsilon`` (Dwork &
  Roth 2014, Theorem 2.2). It holds for any M, whatever it is planned from: filters, groups, stacks.
- *zCDP of a pure draw.* M is epsilon-DP between D and D', so its cost is that of any epsilon-DP
  draw, ``epsilon**2 / 2 = k**2 (epsilon / k)**2 / 2``.
- *Bounded range.* Let each L_i vary by at most epsilon / k over y. The range of a sum is at most
  the sum of the ranges, so L varies by at most epsilon. That costs
  ``epsilon**2 / 8 = k**2 (epsilon / k)**2 / 8``.
- *Any rho.* Let one row cost rho (a stack's, that of groups, or that of Gaussian noise, which is
  no pure draw). k rows cost ``k**2 rho`` (Bun & Steinke 2016, Proposition 1.9). The two cases above
  agree with it.

So the price is epsilon, and in zCDP k**2 times what one row costs. For a sum, k times the
sensitivity at epsilon is the same law. One person's *sum* with public bounds of its own is
not: that is what ``reduce`` makes of a person's rows, after which k = 1.

*Why add-remove only.* The number of rows changes with a person, so it must be private.
"""

from __future__ import annotations

from dataclasses import replace

from mechanisms.contract import Calibrate, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.privacy import ONE_ROW, Adjacency, PrivacyLoss, part_of

_THEOREM = "Dwork & Roth 2014, Theorem 2.2 (groups of rows)"
_THEOREM_OF_ZCDP = "Bun & Steinke 2016, Proposition 1.9 (groups of rows)"


def per_row(schema: Schema, epsilon: PrivacyLoss) -> tuple[Schema, PrivacyLoss]:
    """Return the facts and the epsilon that each row is planned with."""
    if schema.protects.rows == 1:
        return schema, epsilon
    several = schema.protects.rows
    return replace(schema, protects=replace(ONE_ROW, alike=several)), part_of(epsilon, several)


def plan_for_people(
    calibrate: Calibrate, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a statistic, for the people whom the schema protects.

    Parameters
    ----------
    calibrate
        Plans for people of one row each.

    Raises
    ------
    InvalidStatisticError
        What ``calibrate`` raises.
    ValueError
        People have several rows, and their number is public.
    """
    protects = schema.protects
    if protects.rows == 1:
        plan = calibrate(statistic, schema, epsilon, norm)
        return replace(plan, guarantee=replace(plan.guarantee, protects=protects.words))
    if schema.adjacency is not Adjacency.ADD_REMOVE:
        raise ValueError("people have several rows under add-remove only")
    facts, share = per_row(schema, epsilon)
    plan = calibrate(statistic, facts, share, norm)
    own = plan.guarantee
    several = (
        f"A person has up to {protects.rows} rows: each row is planned for at 1/{protects.rows} of "
        "epsilon."
    )
    return replace(
        plan,
        schema=schema,
        guarantee=replace(
            own,
            epsilon=epsilon,
            sensitivity_unit=f"{own.sensitivity_unit}; of one row",
            theorem=f"{own.theorem}; {_THEOREM if own.is_pure else _THEOREM_OF_ZCDP}",
            rho=protects.rows**2 * own.zcdp,
            reduction=several if own.reduction is None else f"{own.reduction} {several}",
            protects=protects.words,
        ),
        details={
            **plan.details,
            "rows_per_person": protects.rows,
            "epsilon_per_row": str(share),
        },
    )
