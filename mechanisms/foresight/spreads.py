"""Verdicts on answers that are divided by a spread of values that no assumption states.

The error of a correlation is in proportion to 1 / (s t), s and t the standard deviations of its two
columns, and that of a slope to 1 / s**2: a statistic says which it is divided by (``divided_by``).
A column without a stated distribution is assumed to be spread evenly over its bounds or values.
So let r be the largest expected error under that assumption, as a share of the possible range, of
an answer that is divided p times by such columns. Where each spreads c times as far, it is about
r / c**p, and

    c >= (r / 2%)**(1 / p) is good,   c >= (r / 10%)**(1 / p) is weak.

The verdict is then ``depends``, unless it is the same for all columns that spread at least 1/30
as far: about 1% of the width of their bounds. A verdict ``noise`` also stays, because it applies to
almost all columns that spread further.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mechanisms.foresight.asked import Asked, stored
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.verdicts import GOOD, WEAK, Usefulness, depending, verdict_of
from mechanisms.statistics.questions import Question, viewed
from mechanisms.words import listed

_NARROWEST = 1 / 30


@dataclass(frozen=True, slots=True)
class Spreads:
    """Which columns' spreads are guessed, and how often at most an answer is divided by one.

    ``jointly``: several columns are fitted at once, so it matters how they are related, too.
    """

    guessed: tuple[str, ...]
    times: int
    jointly: bool = False

    def __bool__(self) -> bool:
        return bool(self.guessed)


def spreads_of(asked: Asked, assumptions: Assumptions) -> Spreads:
    """Return which spreads an answer is divided by that nothing is stated of."""
    wanted = viewed(asked.statistic, asked.schema)
    statistic = wanted.statistic
    if assumptions.even or not isinstance(statistic, Question):
        return Spreads((), 0)
    stated = {name for name, _ in (*assumptions.population, *assumptions.shares)}

    def unstated(name: str) -> list[str]:
        return [each for each in stored(wanted, [name]) if each not in stated]

    divisors = [[name for name in each if unstated(name)] for each in statistic.divided_by]
    guessed = dict.fromkeys(each for names in divisors for n in names for each in unstated(n))
    squared = {each[0] for each in statistic.divided_by if len(set(each)) < len(each)}
    return Spreads(tuple(guessed), max(map(len, divisors), default=0), len(squared) > 1)


def with_spreads(found: Usefulness, spreads: Spreads) -> Usefulness:
    """Return a verdict that says how it depends on private spreads."""
    share, times = found.share, spreads.times
    if not spreads.guessed or not share:
        return found
    if found.verdict in ("noise", verdict_of(share / _NARROWEST**times)):
        return found
    names = listed(spreads.guessed)
    if found.verdict == "depends":  # on the number of records, too
        said = f"Values of {names} are assumed to spread evenly over their bounds: where they"
        return replace(found, sentence=f"{found.sentence} {said} spread less, the error is larger.")
    good, weak = (f"{100 * (share / limit) ** (1 / times):.2g}%" for limit in (GOOD, WEAK))
    first = f"about {weak if found.verdict == 'weak' else good} of the assumed standard deviations"
    steps = f"from {first} on the answer is {found.verdict}"
    steps += f", from {weak} on weak" if found.verdict == "good" else ""
    apart = ", in columns that are independent of each other" if spreads.jointly else ""
    return depending(
        found,
        on=f"how far the values of {names} spread, private: {steps}, with less it is mostly noise.",
        where=(
            f"That is for values spread evenly over their bounds{apart}, since nothing is stated "
            f"of {names}."
        ),
    )
