"""The range of possible values of each number of an answer, known before the answer.

Errors are compared with it. A mean is between its column's bounds, so an answer with an error of
that width contains no information. Each statistic states its own (``possible_ranges``). Where the
extremes are implausible the range is narrower:

- *a count* of the rows that meet conditions, in a group or in a cell: from 0 to five times what
  the assumed population has there, or all rows if those are fewer;
- *a slope* of a linear or quantile regression of d features: up to 1 / sqrt(d) of either sign, in
  scaled columns. At that size d equally strong features fully explain a target of their width;
- *a logistic regression's slope*: 4 / sqrt(d) in scaled columns. One feature then moves the odds
  by a factor of 3000 between its bounds;
- *an intercept*: the sum of all of these at the point where every column is zero.
"""

from __future__ import annotations

from mechanisms.contract import Json
from mechanisms.foresight.asked import Asked
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.sizes import sizes_of
from mechanisms.statistics.facts.defaults import most_of
from mechanisms.statistics.questions import Question, plain, viewed


def ranges_of(asked: Asked, assumptions: Assumptions) -> Json | None:
    """Return ``[low, high]`` for each number of an answer; None where no range is known."""
    wanted = viewed(asked.statistic, asked.schema)
    facts, rows = wanted.view.schema, assumptions.rows_of(asked.schema)
    if not isinstance(wanted.statistic, Question):
        return wanted.statistic.possible_ranges(facts, max(rows, 1.0))
    sizes = sizes_of(asked, assumptions).each
    asked_of_all = plain(wanted.statistic)
    parts = [asked_of_all.possible_ranges(facts, max(most_of(size, rows), 1.0)) for size in sizes]
    if parts[0] is None or not wanted.statistic.by:
        return parts[0]
    return {"groups": [{"value": part} for part in parts]}
