"""Verdicts on answers about records that conditions and groups choose.

Errors of ratios, quantiles and regressions fall as 1 / n in the number n of records that an answer
is about. Where ``where`` and ``by`` choose records by columns whose distribution is stated (as
typical, or as assumed), n follows. Where it is not stated, the sizes are private, and groups of
equal size are a guess. So let r be the largest expected error of a group of n_0 records, as a share
of the possible range. A group of n records has about r n_0 / n, and

    n >= n_0 r / 2% is good,   n >= n_0 r / 10% is weak.

The verdict is then ``depends``, unless it is good for a single record, or noise for all records
together. A value of a category may be that rare, since no public fact excludes it.

The largest expected error that is reported is one of fewer records than are assumed: a twentieth
where their number is a guess, and a quarter where it follows from several columns, which may be
related, or from the shape of a number's distribution.

Errors of counts and sums do not depend on n, and those of few records cannot be distinguished from
0. So the verdict on those of records that meet conditions ``depends`` on how large they are.

A column with optional values is assumed to have no missing cells, unless a share is assumed. The
sentence then says so.

*Possible ranges.* A mean is between its column's bounds. Each statistic states its own
(``possible_ranges``). Where the extremes are implausible the range is narrower:

- *a count* of the rows that meet conditions, in a group or in a cell: from 0 to five times what
  the assumed population has there, or all rows if those are fewer;
- *a slope* of a linear or quantile regression of d features: up to 1 / sqrt(d) of either sign, in
  scaled columns. At that size d equally strong features fully explain a target of their width;
- *a logistic regression's slope*: 4 / sqrt(d) in scaled columns. One feature then moves the odds
  by a factor of 3000 between its bounds;
- *an intercept*: the sum of all of these at the point where every column is zero.

*Scales.* A verdict compares errors with the same ranges of columns whose bounds are what is
typical of them: two standard deviations to either side of the mean, as the curator states it or as
it is assumed. How wide the bounds are must not matter. So a number whose range changes with the
bounds of a column of which nothing is stated has no scale. Correlations, shares and counts have one
without any statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any, cast

from mechanisms.contract import InvalidStatisticError, Json, Statistic
from mechanisms.domain import Column, NumberColumn, Schema
from mechanisms.estimates.asked import Asked, columns_of, stored
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.errors import ROWS, ExpectedErrors
from mechanisms.estimates.synthetic import synthetic_rows
from mechanisms.estimates.trees import at, mapped, numbers
from mechanisms.estimates.verdicts import (
    DISTINCT,
    GOOD,
    WEAK,
    Usefulness,
    depending,
    verdict_of,
)
from mechanisms.parted import parts_of
from mechanisms.statistics.conditions import PRESENCE
from mechanisms.statistics.facts.defaults import most_of
from mechanisms.statistics.questions import Question, plain, viewed
from mechanisms.views import RowView
from mechanisms.words import listed, worded

_GUESSED, _LOOSE = 20.0, 4.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The assumed number of records in each group, and the columns that make it a guess.

    ``most`` is the largest size of a group where sizes are private, and ``rows`` the number of
    rows. ``complete`` are the columns assumed to have no missing cells, because no share is stated.
    ``chosen`` are the columns of conditions among the guessed ones. ``loose`` says that sizes
    follow from several columns, which may be related, or from the shape of a distribution.
    """

    each: tuple[float, ...]
    guessed: tuple[str, ...]
    rows: int
    grouped: bool
    complete: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    loose: bool = False

    @property
    def fewer(self) -> float:
        """Return how many times fewer records there may be than assumed, in what is considered."""
        return _GUESSED if self.guessed else _LOOSE if self.loose else 1.0

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
    conditions = [
        each.column
        for each in statistic.where
        if each.op not in PRESENCE
        or (each.op == "missing" and each.column not in dict(assumptions.missing))
    ]
    groups = [each if isinstance(each, str) else each.column for each in statistic.by]
    chosen, guessed = (
        _guessed(wanted.view, named, assumptions) for named in (conditions, conditions + groups)
    )
    excluded = cast(Sequence[str], wanted.facts.get("excludes_missing", ()))
    complete = tuple(name for name in excluded if name not in dict(assumptions.missing))
    reads = _read(wanted.view, conditions + groups)
    numeric = any(
        isinstance(column := asked.schema.columns.get(name), NumberColumn) and not column.boolean
        for name in reads
    )
    return Sizes(
        each, guessed, rows, grouped=bool(statistic.by), complete=complete, chosen=chosen,
        loose=not assumptions.even and (numeric or len(reads) > 1),
    )  # fmt: skip


def _guessed(view: RowView, named: Sequence[str], assumptions: Assumptions) -> tuple[str, ...]:
    """Return the stored columns that these read and whose distribution is not stated."""
    if assumptions.even:
        return ()
    stated = {name for name, _ in (*assumptions.population, *assumptions.shares)}
    return tuple(name for name in _read(view, named) if name not in stated)


def _read(view: RowView, named: Sequence[str]) -> list[str]:
    """Return the stored columns that these are made of."""
    reads = [*named, *(read for each in view.needed(named) for read in view.added[each].reads)]
    return [name for name in dict.fromkeys(reads) if name not in view.added]


def over_sizes(errors: ExpectedErrors, statistic: Statistic, sizes: Sizes) -> ExpectedErrors:
    """Return expected errors with those of as many and as few records as are considered."""
    if statistic.error_law == "linear" or errors.mean is None or sizes.fewer <= 1:
        return errors
    low, high = errors.low or errors.mean, errors.high or errors.mean
    more = min(sizes.fewer, sizes.most / max(sum(sizes.each) / len(sizes.each), 1.0))
    return replace(
        errors,
        low=mapped(lambda each: each / max(more, 1.0), low),
        high=mapped(lambda each: each * sizes.fewer, high),
    )


def with_sizes(found: Usefulness, statistic: Statistic, sizes: Sizes) -> Usefulness:
    """Return a verdict that says how it depends on private sizes."""
    share = found.share
    if statistic.error_law == "linear":
        return found
    if sizes.complete:
        none = worded(
            "No value of %(names)s is assumed to be missing: state their assumed share in a "
            "preview.",
            names=listed(sizes.complete),
        )
        found = replace(found, sentence=f"{found.sentence} {none}")
    if not sizes.guessed or not share:
        return found
    assumed = max(sum(sizes.each) / len(sizes.each), 1.0)
    best = verdict_of(share * assumed / max(sizes.most, assumed))
    worst = verdict_of(share * assumed)  # of a single record
    if best == "noise" or worst == "good":
        return found
    good, weak = (ceil(assumed * share / limit) for limit in (GOOD, WEAK))
    on, where = _OF_GROUPS if sizes.grouped else _OF_CONDITIONS
    return depending(
        found,
        on=on % {"good": _about(good), "weak": _about(weak)},
        where=where % {"rows": _about(assumed), "names": listed(sizes.guessed)},
    )


_OF_GROUPS = (
    worded(
        "It depends on how many records the smallest group has, private: from about %(good)s on "
        "the answer is good, from %(weak)s on weak, with fewer it is mostly noise."
    ),
    worded("That is for %(rows)s records in each group, since nothing is stated of %(names)s."),
)
_OF_CONDITIONS = (
    worded(
        "It depends on how many records meet the conditions, private: from about %(good)s on the "
        "answer is good, from %(weak)s on weak, with fewer it is mostly noise."
    ),
    worded("That is for %(rows)s records, since nothing is stated of %(names)s."),
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
    if errors is None or (found.verdict == "noise" and sum(sizes.each) >= 1):
        return found
    sizes_of_errors = [error for _, error in numbers(errors)]
    least = DISTINCT * max(sizes_of_errors, default=0.0)
    if least < 1 and statistic.counts_records:  # a single record differs from none
        return found
    on = (
        worded(
            "It depends on how large the numbers are, private: where none is above about %(least)s "
            "they cannot be distinguished from 0, and are mostly noise."
        )
        if len(sizes_of_errors) > 1
        else worded(
            "It depends on how large the number is, private: up to about %(least)s it cannot be "
            "distinguished from 0, and is mostly noise."
        )
    )
    return depending(
        found,
        on=on % {"least": _about(least)},
        where=worded("Nothing is stated of %(names)s.", names=listed(sizes.chosen)),
    )


def _about(count: float) -> str:
    return f"{float(f'{count:.2g}'):,.0f}"


def worst_of(found: Sequence[Usefulness]) -> Usefulness:
    """Return the verdict on several answers together: that of the worst."""
    order = ("noise", "depends", "weak", "good")
    return min(found, key=lambda each: (order.index(each.verdict), -(each.share or 0.0)))


# Possible ranges, and the scales that errors are compared with

_TYPICAL = 2
"""Standard deviations to either side of the mean."""
_HALF = Fraction(1, 2)


def ranges_of(asked: Asked, assumptions: Assumptions) -> Json | None:
    """Return ``[low, high]`` for each number of an answer; None where no range is known."""
    return _ranges(asked, asked.schema, assumptions)


def scale_of(asked: Asked, assumptions: Assumptions) -> Json | None:
    """Return the range that each number's error is compared with; None where there is none."""
    if asked.statistic.counts_records:
        return ranges_of(asked, assumptions)
    wanted = viewed(asked.statistic, asked.schema)
    about = stored(wanted, [*columns_of(wanted.statistic)])
    try:
        whole, other = (
            _ranges(asked, _typical(asked.schema, about, assumptions, of_bounds), assumptions)
            for of_bounds in (Fraction(1), _HALF)
        )
    except InvalidStatisticError:  # as of an expression that typical values leave undefined
        return None
    return None if whole is None else cast(Json, _agreed(whole, other, ()))


def _agreed(whole: Any, other: Json | None, path: Sequence[object]) -> object:
    """Return ranges, with None for those that another statement of the unknown changes."""
    if isinstance(whole, dict):
        return {key: _agreed(inner, other, (*path, key)) for key, inner in whole.items()}
    if _is_range(whole):
        return whole if at(other, path) == whole else None
    return [_agreed(inner, other, (*path, place)) for place, inner in enumerate(whole)]


def _is_range(node: Sequence[object]) -> bool:
    return len(node) == 2 and all(isinstance(end, int | float) for end in node)


def _typical(
    schema: Schema, about: Sequence[str], assumptions: Assumptions, of_bounds: Fraction
) -> Schema:
    """Return a schema in which the columns of an answer have only their typical values.

    Those of which nothing is stated have this part of their bounds.
    """

    def narrowed(name: str, column: Column) -> Column:
        if not isinstance(column, NumberColumn) or column.boolean:
            return column
        spread, low, high = assumptions.spread_of(name), column.lower, column.upper
        if spread is not None:
            reach = _TYPICAL * spread.std
            low = max(low, _end(column, spread.mean - reach))
            high = min(high, _end(column, spread.mean + reach))
        elif not assumptions.even:
            high = low + _whole(column, of_bounds * (high - low))
        return replace(column, lower=low, upper=high) if low < high else column

    own = {name: narrowed(name, schema.columns[name]) for name in about}
    return replace(schema, columns={**schema.columns, **own})


def _end(column: NumberColumn, value: float) -> Fraction:
    return _whole(column, Fraction(repr(value)))


def _whole(column: NumberColumn, value: Fraction) -> Fraction:
    """Return a number as the column can have it."""
    return Fraction(round(value)) if column.whole else value


def _ranges(asked: Asked, schema: Schema, assumptions: Assumptions) -> Json | None:
    """Return the possible ranges in a schema that may be narrower than the question's own."""
    wanted = viewed(asked.statistic, asked.schema)
    rows = assumptions.rows_of(asked.schema)
    if not isinstance(wanted.statistic, Question):
        alone: Statistic = viewed(asked.statistic, schema).statistic
        return alone.possible_ranges(viewed(asked.statistic, schema).view.schema, max(rows, 1.0))
    whole = viewed(cast(Statistic, plain(cast(Question, asked.statistic))), schema)
    facts, asked_of_all = whole.view.schema, whole.statistic
    sizes = sizes_of(asked, assumptions).each
    parts = [asked_of_all.possible_ranges(facts, max(most_of(size, rows), 1.0)) for size in sizes]
    if parts[0] is None or not wanted.statistic.by:
        return parts[0]
    return {"groups": [{"value": part} for part in parts]}
