r"""Quantiles with confidence intervals: a joint draw of a level below and a level above each.

The population's quantile q of level tau has N = #{y <= q} ~ Binomial(n, tau) rows at or below it. A
point t drawn for the level l has the rank n l + delta, delta of a public law where rows are many
and distinct (:mod:`mechanisms.statistics.ranks.draw`). So t is above q with probability

    P(t > q) = P(n l + delta > N),   N about normal of variance n tau (1 - tau),

and l is chosen, from public numbers alone, as the largest level below tau for which that is at
most 0.025; likewise above. The two points are the interval. The neighbours of all levels are
drawn jointly, and each has the law of the one in the middle, which misses by most.

**Persons with up to k rows** are drawn independently, and their rows are not. With m rows of a
person, c of them at or below q, N - n tau is the sum of c - m tau over persons, with mean 0. With
p = c / m the variance of a person's part is

    E m**2 (p - tau)**2 <= k E m (p - tau)**2 <= k E m (p - 2 p tau + tau**2) = k tau (1 - tau) E m,

as m <= k, p**2 <= p and E m p = tau E m. So it is at most k times that of independent rows, however
alike a person's rows are, and whatever their number depends on. Levels are chosen for that.

Where a draw might lie outside all rows, as it would with few rows or a small epsilon, the end is
the column's bound.

**A private number of rows**, as under add-remove and of records that meet conditions, is released
first, for a fifth of the share: C = n + N, N of a two-sided geometric law. With
``k`` such that P(N > k) is at most 0.01, ``n >= C - k`` but in one of a hundred cases. Levels that
are far enough apart for fewer rows are far enough apart for more, as the noise in a rank does not
grow with n and its sampling error only as the root. So they are chosen for ``C - k`` rows, and for
0.02 on either side: the interval misses in at most 0.05 of all cases.

**Privacy.** The quantiles are drawn at (1 - s) epsilon and their neighbours at s epsilon, by the
K-norm gradient mechanism: composition, as in :mod:`mechanisms.inference.bought`. Where rows are
counted, levels are functions of the noisy count. For each value of it the neighbours are epsilon-DP
at their part of the share, which is the composition there, where the second part may look at the
first. They are planned with Delta = 2, which no level's exceeds: a replaced record moves the joint
score by at most 2, and one more or less by 2 (1 - smallest gap).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, inf, log, log2, sqrt
from typing import Any, cast

from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from mechanisms.contract import Data, Draw, Inference, Outcome, Term
from mechanisms.domain import NumberColumn
from mechanisms.exact.fractions import decimal_text
from mechanisms.geometry.smooth import TAIL
from mechanisms.privacy import Adjacency
from mechanisms.randomness import Randomness
from mechanisms.statistics.quantile import joint_sensitivity
from mechanisms.statistics.ranks.draw import bridge_law

METHOD = (
    "the values drawn for a level below and a level above, which are chosen by the law of their "
    "ranks and of a sample's: for rows that are drawn independently, many and distinct; sampling "
    "and privacy noise together; values outside their bounds count as the bound"
)
COUNTED_METHOD = (
    f"{METHOD}; there are at least as many rows as a noisy count states, except in 1% of cases"
)
ALIKE_METHOD = (
    "the values drawn for a level below and a level above, which are chosen by the law of their "
    "ranks and of a sample's: for persons who are drawn independently, whose rows may be as alike "
    "as they can be, and for many rows and distinct persons; sampling and privacy noise together; "
    "values outside their bounds count as the bound; there are at least as many rows as a noisy "
    "count states, except in 1% of cases"
)
"""Of persons with several rows, whose number of rows is always private."""
MOST_LEVELS = 5
COUNT_SHARE = Fraction(1, 5)  # of the share: more rows hardly need more
FEWER = 0.01
"""How often there are fewer rows than counted on."""
_HALVINGS = 10
_STEPS = 10**6  # levels are multiples of one over this
_FAR = 14.0  # a rank this many noise scales away is never drawn


@dataclass(frozen=True, slots=True)
class Bracket:
    """The levels drawn below and above one level; None where the end is the column's bound."""

    level: Fraction
    below: Fraction | None
    above: Fraction | None

    @property
    def is_open(self) -> bool:
        """Return whether the interval would be the column's bounds, which say nothing."""
        return self.below is None and self.above is None


def brackets(
    levels: Sequence[Fraction],
    *,
    rows: int,
    epsilon: Fraction,
    outside: float = TAIL,
    alike: int = 1,
) -> list[Bracket]:
    """Return the neighbours of each level, for a joint draw at this epsilon; no two are equal.

    ``outside`` is how often an interval may miss. ``rows`` may be 0: a group may have fewer than
    one, where they are reckoned to be spread evenly. Up to ``alike`` rows are of one person.
    """
    if rows == 0:
        return [Bracket(level, None, None) for level in levels]
    unit = float(2 * joint_sensitivity(levels, Adjacency.REPLACE_ONE) / epsilon)
    points, odds = bridge_law(2 * len(levels))
    taken = set(levels)
    found = []
    for level in levels:
        spread = sqrt(alike * rows * float(level * (1 - level)))

        def beyond(gap: float, spread: float = spread) -> float:
            return float(odds @ ndtr((unit * points - gap) / spread)) - outside / 2

        # So far beyond noise and sampling error the sign has surely changed.
        far = brentq(beyond, 0.0, 40 * (unit + spread))
        least = _FAR * unit / 2
        ends = []
        for side in (-1, 1):
            end = _free(float(level) + side * far / rows, side, taken)
            room = end if side < 0 else 1 - end
            ends.append(end if room > 0 and room * rows > least else None)
        taken |= {end for end in ends if end is not None}
        found.append(Bracket(level, *ends))
    return found


@lru_cache(maxsize=64)
def planned_brackets(
    levels: tuple[Fraction, ...],
    *,
    rows: int,
    epsilon: Fraction,
    outside: float = TAIL,
    alike: int = 1,
) -> tuple[Bracket, ...]:
    """Return the same for public numbers of rows: every column of a summary has the same.

    No draw may ask here, as how long it takes depends on what was asked before.
    """
    return tuple(brackets(levels, rows=rows, epsilon=epsilon, outside=outside, alike=alike))


def _free(level: float, side: int, taken: set[Fraction]) -> Fraction:
    """Return the next free level outwards on the public grid."""
    # Rounded outwards: an interval may only become wider.
    step = int(level * _STEPS // 1) + (side > 0)
    while Fraction(step, _STEPS) in taken:
        step += side
    return Fraction(step, _STEPS)


def surely(count: float, *, epsilon: Fraction) -> int:
    """Return how many rows there are at least but in 1% of cases, at least 1.

    ``count`` has two-sided geometric noise, whose odds fall by exp(-epsilon) a step:
    P(N > k) = p^(k + 1) / (1 + p), p = exp(-epsilon).
    """
    rate = float(epsilon)
    fewer = ceil(-log(FEWER * (1 + exp(-rate))) / rate) - 1
    return max(int(count) - max(fewer, 0), 1)


Neighbours = tuple[Sequence[Bracket], Draw | None]
"""The draws for each level; None where all ends are the column's bounds."""
DrawsNeighbours = Callable[[Data, Randomness], Neighbours]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRows:
    """Chooses the neighbours of levels by a noisy count of the rows.

    ``most`` is the public bound on them, ``alike`` on those of one person, and ``planned`` returns
    the draw of levels' neighbours.
    """

    count: Draw
    count_epsilon: Fraction
    levels: Sequence[Fraction]
    epsilon: Fraction
    most: int
    alike: int
    planned: Callable[[Sequence[Fraction]], Draw]

    def __call__(self, data: Data, randomness: Randomness) -> Neighbours:
        """Return the neighbours, from one noisy count."""
        counted = cast(float, self.count(data, randomness).value["count"])
        # More than the public bound there cannot be.
        rows = min(surely(counted, epsilon=self.count_epsilon), self.most)
        found = brackets(
            self.levels,
            rows=rows,
            epsilon=self.epsilon,
            outside=TAIL - FEWER,
            alike=self.alike,
        )
        drawn = ends_of(found)
        return found, self.planned(drawn) if drawn else None


def enough_times(
    levels: Sequence[Fraction],
    *,
    rows: int,
    counted: bool,
    epsilon: Fraction,
    most: Fraction,
    alike: int = 1,
) -> float:
    """Return how many times this epsilon leaves few intervals open, of so many rows.

    1 at most where it does so itself; infinite where ``most``, the largest epsilon, does not.
    """

    def is_open(times: float) -> bool:
        own, certain, outside = epsilon * Fraction(times), rows, TAIL
        if counted:
            certain = surely(rows, epsilon=COUNT_SHARE * own)
            own, outside = (1 - COUNT_SHARE) * own, TAIL - FEWER
        found = planned_brackets(
            tuple(levels), rows=certain, epsilon=own, outside=outside, alike=alike
        )
        return 2 * sum(each.is_open for each in found) > len(found)

    if not is_open(1):
        return 1.0
    largest = float(most / epsilon)
    if is_open(largest):
        return inf
    low, high = 0.0, log2(largest)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_open(2**middle) else (low, middle)
    return float(2**high)


def ends_of(found: Sequence[Bracket]) -> list[Fraction]:
    """Return the levels that are drawn for intervals, ascending."""
    return sorted(end for each in found for end in (each.below, each.above) if end is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BracketedDraw:
    """Draws the quantiles, then the neighbours that make their intervals.

    ``neighbours`` says what those are.
    """

    draw: Draw
    neighbours: DrawsNeighbours
    column: NumberColumn
    method: str
    cost: str

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        outcome = self.draw(data, randomness)
        values = _values(outcome)
        found, near = self.neighbours(data, randomness)
        ends = {} if near is None else _values(near(data, randomness))
        places = {level: place for place, level in enumerate(values)}
        terms = [
            replace(
                self._term(bracket, values, ends),
                place=("quantiles", places[decimal_text(bracket.level)], "value"),
            )
            for bracket in found
        ]
        inference = Inference(terms=tuple(terms), method=self.method, cost=self.cost)
        return replace(outcome, inference=inference)

    def _term(
        self, bracket: Bracket, values: Mapping[str, float], ends: Mapping[str, float]
    ) -> Term:
        name = decimal_text(bracket.level)
        low = (
            float(self.column.lower) if bracket.below is None else ends[decimal_text(bracket.below)]
        )
        high = (
            float(self.column.upper) if bracket.above is None else ends[decimal_text(bracket.above)]
        )
        return Term(
            term=name,
            estimate=values[name],
            std_error=(high - low) / (2 * float(ndtri(1 - TAIL / 2))),
            confidence_95=(min(low, values[name]), max(high, values[name])),
            open=bracket.is_open,
        )


def _values(outcome: Outcome) -> dict[str, float]:
    """Return the drawn values by the text of their levels."""
    quantiles = cast(Sequence[Mapping[str, Any]], outcome.value["quantiles"])
    return {each["level"]: float(each["value"]) for each in quantiles}
