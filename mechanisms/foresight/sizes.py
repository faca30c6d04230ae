"""Verdicts on answers about records that conditions and groups choose.

Errors of ratios, quantiles and regressions fall as 1 / n in the number n of records that an answer
is about. Where ``where`` and ``by`` choose records by columns whose distribution is stated (as
typical, or as assumed), n follows. Where it is not stated, the sizes are private, and groups of
equal size are a guess. So let r be the largest expected error of a group of n_0 records, as a share
of the possible range. A group of n records has about r n_0 / n, and

    n >= n_0 r / 2% is good,   n >= n_0 r / 10% is weak.

The verdict is then ``depends``, unless it is good for a single record, or noise for all records
together. A value of a category may be that rare, since no public fact excludes it.

Errors of counts and sums do not depend on n, and those of few records cannot be distinguished from
0. So the verdict on those of records that meet conditions ``depends`` on how large they are.

A column with optional values is assumed to have no missing cells, unless a share is assumed. The
sentence then says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import cast

from mechanisms.contract import Json, Statistic
from mechanisms.foresight.asked import Asked
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.errors import ROWS
from mechanisms.foresight.synthetic import synthetic_rows
from mechanisms.foresight.trees import numbers
from mechanisms.foresight.verdicts import (
    DISTINCT,
    GOOD,
    WEAK,
    Usefulness,
    depending,
    verdict_of,
)
from mechanisms.parted import parts_of
from mechanisms.statistics.conditions import PRESENCE
from mechanisms.statistics.questions import Question, viewed
from mechanisms.views import RowView
from mechanisms.words import listed


@dataclass(frozen=True, slots=True)
class Sizes:
    """The assumed number of records in each group, and the columns that make it a guess.

    ``most`` is the largest size of a group where sizes are private, and ``rows`` the number of
    rows. ``complete`` are the columns assumed to have no missing cells, because no share is stated.
    ``chosen`` are the columns of conditions among the guessed ones.
    """

    each: tuple[float, ...]
    guessed: tuple[str, ...]
    rows: int
    grouped: bool
    complete: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()

    @property
    def most(self) -> float:
        """Return the largest possible size of the smallest group."""
        return self.rows / len(self.each)


def sizes_of(asked: Asked, assumptions: Assumptions) -> Sizes:
    """Return the number of records in each group, under the assumptions."""
    rows = assumptions.rows_of(asked.schema)
    wanted = viewed(asked.statistic, asked.schema)
    statistic = wanted.statistic
    if not isinstance(statistic, Question) or statistic.is_of_all_rows:
        return Sizes((float(rows),), (), rows, grouped=False)
    sample = synthetic_rows(asked.schema, assumptions, ROWS, None)
    parts = parts_of(wanted.view.over(sample.data), statistic.parting(wanted.view.schema))
    each = tuple(rows * part.rows / ROWS for part in parts)
    conditions = [each.column for each in statistic.where if each.op not in PRESENCE]
    groups = [each if isinstance(each, str) else each.column for each in statistic.by]
    chosen, guessed = (
        _guessed(wanted.view, named, assumptions) for named in (conditions, conditions + groups)
    )
    excluded = cast(Sequence[str], wanted.facts.get("excludes_missing", ()))
    complete = tuple(name for name in excluded if name not in dict(assumptions.missing))
    grouped = bool(statistic.by)
    return Sizes(each, guessed, rows, grouped=grouped, complete=complete, chosen=chosen)


def _guessed(view: RowView, named: Sequence[str], assumptions: Assumptions) -> tuple[str, ...]:
    """Return the stored columns that these read and whose distribution is not stated."""
    if assumptions.even:
        return ()
    reads = [*named, *(read for each in view.needed(named) for read in view.added[each].reads)]
    stated = {name for name, _ in (*assumptions.population, *assumptions.shares)}
    return tuple(n for n in dict.fromkeys(reads) if n not in view.added and n not in stated)


def with_sizes(found: Usefulness, statistic: Statistic, sizes: Sizes) -> Usefulness:
    """Return a verdict that says how it depends on private sizes."""
    share = found.share
    if statistic.error_law == "linear" or not share:
        return found
    if sizes.complete:
        none = f" No value of {listed(sizes.complete)} is assumed to be missing"
        said = f"{found.sentence}{none}: say in assume.missing which share is."
        found = replace(found, sentence=said)
    if not sizes.guessed:
        return found
    assumed = max(sum(sizes.each) / len(sizes.each), 1.0)
    best = verdict_of(share * assumed / max(sizes.most, assumed))
    worst = verdict_of(share * assumed)  # of a single record
    if best == "noise" or worst == "good":
        return found
    good, weak = (ceil(assumed * share / limit) for limit in (GOOD, WEAK))
    many = "the smallest group has" if sizes.grouped else "meet the conditions"
    return depending(
        found,
        on=(
            f"how many records {many}, private: from about {_about(good)} on the answer is good, "
            f"from {_about(weak)} on weak, with fewer it is mostly noise."
        ),
        where=(
            f"That is for {_about(assumed)} records{' in each group' if sizes.grouped else ''}, "
            f"since nothing is stated of {listed(sizes.guessed)}."
        ),
    )


def with_amounts(
    found: Usefulness, statistic: Statistic, errors: Json | None, sizes: Sizes
) -> Usefulness:
    """Return a verdict on counts and sums that says how it depends on how large they are.

    A release that can distinguish none of them from 0 is mostly noise, however exact it is. Without
    conditions all records are counted somewhere, and their number is known or assumed.
    """
    if statistic.near_zero != "nothing" or not sizes.chosen:
        return found
    if errors is None or found.verdict == "noise":
        return found
    sizes_of_errors = [error for _, error in numbers(errors)]
    least = DISTINCT * max(sizes_of_errors, default=0.0)
    if least < 1 and statistic.counts_records:  # a single record differs from none
        return found
    about = _about(least)
    if len(sizes_of_errors) > 1:
        how = f"large the numbers are, private: where none is above about {about} they"
        verb = "are"
    else:
        how, verb = f"large the number is, private: up to about {about} it", "is"
    return depending(
        found,
        on=f"how {how} cannot be distinguished from 0, and {verb} mostly noise.",
        where=f"Nothing is stated of {listed(sizes.chosen)}.",
    )


def _about(count: float) -> str:
    return f"{float(f'{count:.2g}'):,.0f}"


def worst_of(found: Sequence[Usefulness]) -> Usefulness:
    """Return the verdict on several answers together: that of the worst."""
    order = ("noise", "depends", "weak", "good")
    return min(found, key=lambda each: (order.index(each.verdict), -(each.share or 0.0)))
