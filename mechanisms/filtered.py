"""A statistic of the records that meet public conditions: ``where``, for every mechanism.

    release M(D_phi),   D_phi = {x in D : phi(x)},   phi a public function of one record.

**Privacy.** Let D and D' be neighbours.

*Add-remove.* The record that comes or goes is in D_phi or not. So D_phi and D'_phi are equal or
add-remove neighbours, and M, planned as without conditions, is epsilon-DP.

*Replace-one.* A record r gives way to r'. If phi holds for neither, D_phi = D'_phi; if for both,
one record of D_phi is replaced; if for r alone, one is removed; if for r' alone, one is added. The
number of rows in D_phi then differs, so it is private. So M must be epsilon-DP under all three
changes (*any one change*), and no constant of it may depend on how many rows there are. A schema
with ``selected`` set states that requirement, and each mechanism meets it as follows:

- *K-norm, and the functional mechanism*: the differences of all three kinds are the adjacent
  output space. What is summed is what is summed under add-remove, count included, and the space
  holds both (0, t(r) - t(r')) and +-(1, t(r)): :mod:`mechanisms.geometry.counted`,
  :mod:`mechanisms.statistics.second_order`, :mod:`mechanisms.statistics.mean`. Counts, histograms
  and sums add a record's contribution or nothing: :mod:`mechanisms.statistics.histogram`,
  :mod:`mechanisms.statistics.total`, :mod:`mechanisms.functional.moments`.
- *K-norm gradient*: a record contributes g to the gradient, a replaced one g - g', and Delta is
  the largest norm of both. That is the Delta of replace-one, everywhere: for regressions and the
  geometric median it is twice what bounds ||g||; for a quantile 1 against max(tau, 1 - tau), for
  several jointly 2 against 2 (1 - gap). The hull of a quantile regression's changes holds
  a (1, x) too: ``|u_j| <= |u_1| <= 2 M - (2 M - 1) |u_1|`` for |u_1| = |a| <= M <= 1.
- *Exponential mechanism*: one record's loss lies in [0, Delta], so it moves by at most Delta when
  it is replaced, added or removed, at the rate of replace-one, epsilon / (2 Delta).
- *Objective perturbation*: the tilt's Delta as for gradients. With the records in common, one more
  multiplies the determinant of the Hessian by a factor in [1, 1 + lambda / gamma]; a record
  replaced by a ratio of two such factors. So exp(epsilon (1 - q)) covers all three changes.

*Rows that are counted nowhere.* The public row count, or its bound, is a bound on D_phi as well:
what is refused, what a draw may cost and the grids depend on it. A filter that selects no
records is planned and drawn like any other, as a data set without rows under add-remove is.

*Missing cells.* Where a data set keeps them, a question is about D_phi, phi(x) = "x has a value in
every column that the question reads". Which those are follows from the question and the schema, and
whether x has them from x alone: phi is a public function of one record, and all of the above holds
for it. :func:`mechanisms.statistics.questions.complete` adds phi to the question's own conditions,
with which it may be joined, since ``and`` of two such functions is one. So under replace-one the
number of records that an answer is about is private as soon as one column it reads may lack a cell.
What is stored where a cell is missing is read by no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from mechanisms.contract import (
    Calibrate,
    Data,
    Drawing,
    ErrorsOn,
    Json,
    Outcome,
    Parameters,
    Plan,
    Statistic,
)
from mechanisms.domain import Schema
from mechanisms.parted import parts_of
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.statistics.cells.parting import Parting
from mechanisms.statistics.questions import Question, plain, reading_ms

REDUCTIONS = {
    Adjacency.ADD_REMOVE: (
        "One record more or less is one more or less of those that meet the conditions, or none: "
        "planned as without them."
    ),
    Adjacency.REPLACE_ONE: (
        "A replaced record may replace, add or remove one of those that meet the conditions: "
        "planned for all three, with their number private."
    ),
}


def plan_filtered(
    calibrate: Calibrate, statistic: Question, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a statistic of the records that meet its conditions.

    Parameters
    ----------
    calibrate
        The mechanism's, for the statistic of all records.

    Raises
    ------
    InvalidStatisticError
        What the mechanism raises; the conditions do not fit the schema.
    """
    parting = statistic.parting(schema)
    plan = calibrate(*_about_part(statistic, schema), epsilon, norm)
    return replace(
        plan,
        statistic=cast(Statistic, statistic),
        schema=schema,
        parameters=Filtered(plan.parameters),
        guarantee=replace(plan.guarantee, reduction=REDUCTIONS[schema.adjacency]),
        expected_ms=plan.expected_ms + reading_ms(statistic, parting, schema),
    )


def _about_part(statistic: Question, schema: Schema) -> tuple[Question, Schema]:
    """Return the question about all rows of a part, and the facts that those are planned with."""
    return plain(statistic), replace(schema, selected=True)


@dataclass(frozen=True, slots=True)
class Filtered:
    """The parameters of a statistic of the rows that are selected: those of all rows of a part."""

    part: Parameters

    def drawing(self, statistic: Question, schema: Schema) -> Drawing:
        """Return a drawing from the rows that meet the conditions."""
        parting = statistic.parting(schema)
        drawn = self.part.drawing(*_about_part(statistic, schema))
        return replace(
            drawn,
            draw=FilteredDraw(parting, drawn.draw),
            errors_on=_filtered(parting, drawn.errors_on),
        )


def _filtered(parting: Parting, errors_on: ErrorsOn | None) -> ErrorsOn | None:
    """Return the errors of an answer about the rows that are selected."""
    if errors_on is None:
        return None

    def errors(data: Data, count: int, seed: bytes, times: float) -> Json:
        (part,) = parts_of(data, parting)
        return errors_on(part, count, seed, times)

    return errors


@dataclass(frozen=True, slots=True)
class FilteredDraw:
    """Draws from the rows that are selected."""

    parting: Parting
    draw: Callable[[Data, Randomness], Outcome]

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        (part,) = parts_of(data, self.parting)
        return self.draw(part, randomness)
