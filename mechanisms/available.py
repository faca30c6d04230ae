"""Numbers of several columns, each about the records that have a value of that column.

    release (M_1(D_1), ..., M_k(D_k)),   D_j = the records that have the columns of part j,
    epsilon_j = epsilon m_j / m,   m_j the columns of part j, m those of all parts.

Columns without missing cells are one part, as are those with a value in the same records.

**Privacy.** Each part is a filter (:mod:`mechanisms.filtered`), private for itself at epsilon_j,
and the parts' draws are independent. So together they lose at most the sum, which is epsilon: basic
composition, as of a stack (:mod:`mechanisms.composition`). Which columns keep missing cells is
public, and so are the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from mechanisms.contract import (
    Alternative,
    Calibrate,
    Data,
    Drawing,
    ErrorsOn,
    Json,
    Noise,
    Outcome,
    Parameters,
    Plan,
    Statistic,
    joined_facts,
    joined_noise,
)
from mechanisms.domain import Schema
from mechanisms.privacy import PrivacyLoss, definition_of, split
from mechanisms.randomness import Randomness
from mechanisms.statistics.cells.parting import is_of_each_column
from mechanisms.statistics.questions import viewed

_REDUCTION = (
    "Each column's number is about the records that have a value of it, and is drawn with that "
    "column's share of epsilon."
)


def parts_by_column(statistic: Statistic, schema: Schema) -> Sequence[Statistic]:
    """Return the parts of a question with ``missing: "available"``; others are one part.

    Raises
    ------
    InvalidStatisticError
        The question does not fit the schema.
    """
    if not is_of_each_column(statistic):
        return (statistic,)
    found: dict[frozenset[str], list[str]] = {}
    asked: Any = statistic
    for name in asked.columns:
        one = viewed(replace(asked, columns=(name,)), schema)
        needed = frozenset(each.column for each in one.statistic.where if each.op == "present")
        found.setdefault(needed, []).append(name)
    return [replace(asked, columns=tuple(names), missing="complete") for names in found.values()]


def plan_by_column(
    plan_of_rows: Calibrate,
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
) -> Plan:
    """Return the plan of all parts, each at its exact share of epsilon.

    Parameters
    ----------
    plan_of_rows
        Plans one part.

    Raises
    ------
    InvalidStatisticError
        What ``plan_of_rows`` raises.
    """
    parts = parts_by_column(statistic, schema)
    columns: list[Sequence[str]] = [cast(Any, part).columns for part in parts]
    shares = split(epsilon, [Fraction(len(names)) for names in columns])
    plans = [
        plan_of_rows(part, schema, share, norm) for part, share in zip(parts, shares, strict=True)
    ]
    named = [", ".join(names) for names in columns]
    first = plans[0]
    return replace(
        first,
        statistic=statistic,
        schema=schema,
        parameters=ByColumn(tuple(plan.parameters for plan in plans)),
        norm=first.norm if len({plan.norm for plan in plans}) == 1 else None,
        guarantee=replace(
            first.guarantee,
            epsilon=epsilon,
            sensitivity="; ".join(plan.guarantee.sensitivity for plan in plans),
            sensitivity_unit="one for each part, in the units that details.parts names",
            definition=definition_of(plan.guarantee for plan in plans),
            exact=all(plan.guarantee.exact for plan in plans),
            rho=sum((plan.guarantee.zcdp for plan in plans), Fraction(0)),
            reduction=" ".join(
                dict.fromkeys([_REDUCTION, *(plan.guarantee.reduction or "" for plan in plans)])
            ).strip(),
        ),
        grid={"parts": [plan.grid for plan in plans]},
        expected_ms=sum(plan.expected_ms for plan in plans),
        time_depends_on_data=any(plan.time_depends_on_data for plan in plans),
        drawn_on_boxes=any(plan.drawn_on_boxes for plan in plans),
        slowness=max(plan.slowness for plan in plans),
        alternatives=tuple(
            Alternative(
                mechanism=other.mechanism,
                norm=other.norm,
                comparison=f"{name}: {other.comparison}",
                std=other.std,
            )
            for name, plan in zip(named, plans, strict=True)
            for other in plan.alternatives
        ),
        details={
            "noise": first.details.get("noise"),
            "excludes_missing": [
                *dict.fromkeys(
                    each
                    for plan in plans
                    for each in cast(Sequence[str], plan.details.get("excludes_missing", ()))
                )
            ],
            "parts": [
                {
                    "columns": [*names],
                    "norm": plan.norm,
                    "epsilon": str(share),
                    "sensitivity": plan.guarantee.sensitivity,
                    "sensitivity_unit": plan.guarantee.sensitivity_unit,
                    "details": plan.details,
                }
                for names, share, plan in zip(columns, shares, plans, strict=True)
            ],
        },
    )


def _errors_of(parts: Sequence[ErrorsOn | None]) -> ErrorsOn | None:
    """Return the errors of all parts; None where those of one part are unknown."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return lambda data, *how: _together([part(data, *how) for part in known])


@dataclass(frozen=True, slots=True)
class ByColumn:
    """The parameters of the parts, in the order of :func:`parts_by_column`."""

    parts: tuple[Parameters, ...]

    def drawing(self, statistic: Statistic, schema: Schema) -> Drawing:
        """Return a drawing of the parts one after the other, from disjoint bits."""
        asked = parts_by_column(statistic, schema)
        drawn = [part.drawing(each, schema) for part, each in zip(self.parts, asked, strict=True)]

        def draw(data: Data, randomness: Randomness) -> Outcome:
            outcomes = [each.draw(data, randomness) for each in drawn]
            return Outcome(
                value=_together([outcome.value for outcome in outcomes]),
                noise=_joined([outcome.noise for outcome in outcomes]),
                facts=joined_facts([outcome.facts for outcome in outcomes]),
            )

        return Drawing(
            draw=draw,
            preview=lambda rows: _joined([each.preview(rows) for each in drawn]),
            errors_on=_errors_of([each.errors_on for each in drawn]),
        )


def _joined(parts: Sequence[Noise | None]) -> Noise | None:
    known = [part for part in parts if part is not None]
    return joined_noise(known, _together) if len(known) == len(parts) else None


def _together(values: Sequence[Json]) -> Json:
    """Return answers by column as one, group by group where there are groups."""
    if "groups" in values[0]:
        groups = [cast(Sequence[Json], value["groups"]) for value in values]
        return {
            "groups": [
                {**rows[0], "value": _together([cast(Json, row["value"]) for row in rows])}
                for rows in zip(*groups, strict=True)
            ]
        }
    found: dict[str, object] = {}
    for value in values:
        found.update(value)
    return found
