"""The smallest epsilon for a requested accuracy, by simulation, where no law states the error.

Let w(epsilon) be the largest, over an answer's numbers, of the 95% quantile of the absolute error
in the simulation of :mod:`mechanisms.estimates.errors`. It falls as epsilon grows, mostly as a
power of it, and every epsilon is tried on the same samples with the same bits. From a first
epsilon the next one tried is epsilon w(epsilon) / x, and then ever larger steps are made until x
is between two that were tried. Between these the next is where a line through both, on
logarithmic scales, reaches x, and every third time their geometric mean. The search ends where
the least epsilon known to reach x is at most 1.1 times the largest known not to. It tries at most
24 values, and fewer where one takes long, but at least 8. In that case the returned epsilon reaches
x, and is usually too large by at most 25%.

**Privacy.** Nothing here receives data: the answer is a function of public facts.

A release on synthetic rows, which has the same form as a release on real data.

The plan is the release's own plan for the same number of rows. The rows and the random bits are
those of the simulation (:mod:`mechanisms.estimates.synthetic`). A dry run makes at most 100,000
rows, or 1,000 for draws on boxes. Under replace-one it then plans for that number of rows.

**Privacy.** Nothing here receives data, so the numbers contain no information about any person.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import NamedTuple, cast

from mechanisms.contract import InvalidStatisticError, Noise, Outcome, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.estimates.asked import Asked, is_simulated, relation_of
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.errors import rows_met, simulated_reach, simulating_ms
from mechanisms.estimates.synthetic import Relation, drawn, synthetic_rows
from mechanisms.estimates.trees import numbers
from mechanisms.privacy import MAX_EPSILON_NANOS, Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.stack import Stack

MOST_TRIED, LEAST_TRIED = 24, 8  # each is a simulation, and the caller waits
USUALLY_TRIED = 6
_LONGEST_MS = 1600.0
"""Time for tries beyond ``LEAST_TRIED``; if those take longer, there is no search."""
_NEAR = 1.1  # a simulation determines an epsilon to about 20%: closer values are equivalent
_ASIDE = 1.05
"""The smallest factor between an epsilon and the next one tried: below ``_NEAR`` squared."""
_FARTHEST = 1000.0
"""The largest factor between an epsilon and the next one tried."""
_STEP = 4.0
"""The factor of the second step, unless the error asks for a larger one; later ones are powers."""


AskedAt = Callable[[Epsilon], Sequence[Asked]]
"""What is asked at an epsilon: one question, or the parts of a stack."""


def smallest_epsilon(
    first: Epsilon,
    asked_at: AskedAt,
    assumptions: Assumptions,
    *,
    wanted: float,
) -> Epsilon | None:
    """Return the smallest epsilon whose error is within what is wanted, to about a tenth.

    ``asked_at`` returns what is asked at an epsilon, a stack as its parts; of these the widest
    error counts. ``first`` is tried first. None where none is
    found. At what cannot be asked, as too little to be split, nothing is within.
    """

    def within(nanos: int) -> float:
        try:
            return max(_reach(part, assumptions) for part in asked_at(Epsilon(nanos))) / wanted
        # As far as possible from the target, so that the search continues upwards.
        except InvalidStatisticError:
            return _FARTHEST

    found = searched(within, first.nanos, most=_most_tried(first, asked_at, assumptions))
    return None if found is None else Epsilon(found)


def _reach(asked: Asked, assumptions: Assumptions) -> float:
    """Return what 95% of errors are within: by the law of the noise where the error follows it."""
    if is_simulated(asked.statistic, asked.schema):
        return simulated_reach(asked, assumptions)
    # a law that errors are linear in is stated in every preview
    noise = cast(Noise, asked.plan().preview(max(rows_met(asked, assumptions), 1)))
    ends = numbers(asked.shown(noise.interval_95))
    return max((abs(end) for _, end in ends), default=0.0)


def is_searched(first: Epsilon, asked_at: AskedAt, assumptions: Assumptions) -> bool:
    """Return whether a search takes a second or two at most: by public facts alone."""
    return LEAST_TRIED * _each_ms(first, asked_at, assumptions) <= _LONGEST_MS


def _most_tried(first: Epsilon, asked_at: AskedAt, assumptions: Assumptions) -> int:
    """Return how many epsilons may be tried: by public facts, before anything is simulated."""
    each_ms = _each_ms(first, asked_at, assumptions)
    return min(max(int(_LONGEST_MS / each_ms), LEAST_TRIED), MOST_TRIED)


def _each_ms(first: Epsilon, asked_at: AskedAt, assumptions: Assumptions) -> float:
    try:
        simulated = [each for each in asked_at(first) if is_simulated(each.statistic, each.schema)]
        return max(sum(simulating_ms(each, assumptions) for each in simulated), 1.0)
    except InvalidStatisticError:  # too little to be split: larger epsilons are tried
        return 1.0


class _Tried(NamedTuple):
    """An epsilon in billionths, and the function there."""

    nanos: int
    size: float


def searched(within: Callable[[int], float], first: int, *, most: int = MOST_TRIED) -> int | None:
    """Return about the least integer, up to the largest epsilon, at which a function is at most 1.

    The function falls. None where it is larger everywhere, or where no such was met in ``most``
    tries.
    """
    nanos = first
    low: _Tried | None = None
    high: _Tried | None = None
    for turn in range(most):
        tried = _Tried(nanos, within(nanos))
        if tried.size > 1:
            low = tried
        else:
            high = tried
        if high is None:
            if nanos >= MAX_EPSILON_NANOS:  # not even the largest epsilon will do
                return None
            nanos = _beyond(tried, turn)
        else:
            least = 0 if low is None else low.nanos
            if high.nanos <= least * _NEAR or high.nanos - least <= 1:
                break
            nanos = _beyond(tried, turn) if low is None else _between(low, high, turn)
    return None if high is None else high.nanos


def _beyond(tried: _Tried, turn: int) -> int:
    """Return the next epsilon to try where all tries are too small, or all too large."""
    upwards = tried.size > 1
    factor = max(tried.size if upwards else 1 / max(tried.size, 1 / _FARTHEST), _ASIDE)
    if turn:  # it falls more slowly than as 1 / epsilon, so each step is bolder
        factor = max(factor, _STEP) ** (1 + turn // 2)
    factor = min(factor, _FARTHEST)
    if upwards:
        return min(max(int(tried.nanos * factor), tried.nanos + 1), MAX_EPSILON_NANOS)
    return max(min(int(tried.nanos / factor), tried.nanos - 1), 1)


def _between(low: _Tried, high: _Tried, turn: int) -> int:
    """Return the next epsilon to try between one that is too small and one that is enough."""
    part = 0.5
    if turn % 3 != 2:
        above, below = log(low.size), -log(max(high.size, 1 / _FARTHEST**2))
        part = above / (above + below)
    guess = low.nanos * (high.nanos / low.nanos) ** part
    # Keep away from both ends: a value close to a known one adds almost no information.
    guess = min(max(guess, low.nanos * _ASIDE), high.nanos / _ASIDE)
    return min(max(int(guess), low.nanos + 1), high.nanos - 1)


# A release on synthetic rows, which has the same form as a release on real data


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
