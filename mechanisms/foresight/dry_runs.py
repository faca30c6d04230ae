"""A release on synthetic rows, which has the same form as a release on real data.

The plan is the release's own plan for the same number of rows. The rows and the random bits are
those of the simulation (:mod:`mechanisms.foresight.synthetic`). A dry run makes at most 100,000
rows, or 1,000 for draws on boxes. Under replace-one it then plans for that number of rows.

**Privacy.** Nothing here receives data, so the numbers contain no information about any person.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mechanisms.contract import Outcome, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.foresight.asked import relation_of
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.synthetic import Relation, drawn, synthetic_rows
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.stack import Stack

MOST_ROWS = 100_000
_MOST_ROWS_ON_BOXES = 1_000  # with more a draw may take minutes, and this is no answer


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a plan draws from ``rows`` synthetic rows."""

    plan: Plan
    rows: int
    outcome: Outcome


def dry_run(
    statistic: Statistic,
    schema: Schema,
    assumptions: Assumptions,
    planned: Callable[[Schema], Plan],
) -> DryRun:
    """Return a release on synthetic rows; ``planned`` plans it for a schema.

    Raises
    ------
    InvalidStatisticError
        The assumptions do not fit the schema.
    """
    assumptions.check(schema)
    plan = planned(schema)
    most = _MOST_ROWS_ON_BOXES if plan.drawn_on_boxes else MOST_ROWS
    total = assumptions.rows_of(schema)
    count = min(total, most)
    if count < total and schema.adjacency is Adjacency.REPLACE_ONE:
        # A public row count divides sums: a plan for more rows than there are would answer wrongly.
        plan = planned(replace(schema, rows=count))
    rows = synthetic_rows(schema, assumptions, count, _relation(statistic, schema))
    return DryRun(plan=plan, rows=count, outcome=drawn(plan, rows, 0))


def dry_rows(schema: Schema, assumptions: Assumptions, *, most: int) -> ArrayData:
    """Return at most ``most`` synthetic rows, in which no column depends on another.

    Raises
    ------
    InvalidStatisticError
        The assumptions do not fit the schema.
    """
    assumptions.check(schema)
    count = min(assumptions.rows_of(schema), most)
    return synthetic_rows(schema, assumptions, count, None).data


def _relation(statistic: Statistic, schema: Schema) -> Relation | None:
    """Return which column depends on which: for a stack, in the first part that has a relation."""
    asked = [statistic]
    if isinstance(statistic, Stack):
        asked = [part.statistic for part in statistic.parts]
    found = (relation_of(viewed(each, schema)) for each in asked)
    return next((relation for relation in found if relation is not None), None)
