"""What an answer says of its columns: missing cells, fills, weights, and labels of values.

All of it follows from the question and from the data set's declaration. It is put in a plan's
``details``, once, where every answer, page and file takes it from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any, cast

from app.domain.column_json import column_json
from app.domain.columns import BooleanSpec, CategorySpec, ColumnSpec, Fill, NumberSpec
from app.domain.datasets import ColumnsSpec
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.wording import kinds_in_words
from mechanisms.available import parts_by_column
from mechanisms.contract import Outcome, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.estimates.asked import EstimatedByRows
from mechanisms.estimates.assumptions import Assumptions, Spread
from mechanisms.estimates.verdicts import Usefulness, Verdict
from mechanisms.expressions.parsing import parse
from mechanisms.expressions.presence import values_read
from mechanisms.statistics.facts.readings import Sourced
from mechanisms.statistics.questions import stored_columns_read, viewed, weighed
from mechanisms.statistics.stack import Stack
from mechanisms.words import listed, worded

# What a curator states as typical of columns, as an assumption where nothing else is assumed


def with_typical(assumed: Assumptions, columns: ColumnsSpec) -> Assumptions:
    """Return assumptions in which columns that are not named are as their curator states.

    That is public: it stands in the spec, and is never read off the rows.
    """
    if assumed.even:
        return assumed
    named = dict(assumed.population)
    spreads = {
        name: spread
        for name, column in columns.columns.items()
        if (spread := _spread(column)) is not None
    }
    typical = {
        name: tuple(zip(column.values, map(float, column.typical.of(column.values)), strict=True))
        for name, column in columns.columns.items()
        if isinstance(column, CategorySpec) and column.typical is not None
    }
    shares = {**typical, **dict(assumed.shares)}
    return replace(
        assumed, population=tuple({**spreads, **named}.items()), shares=tuple(shares.items())
    )


def _spread(column: ColumnSpec) -> Spread | None:
    """Return where the values of a column usually lie; a boolean's mean is the share of true."""
    match column:
        case NumberSpec() if column.typical is not None:
            return Spread(mean=float(column.typical.mean), std=float(column.typical.std))
        case BooleanSpec() if column.typical is not None:
            share = float(column.typical)
            return Spread(mean=share, std=sqrt(share * (1 - share)) or 1.0)
    return None


# What an answer says of its columns: missing cells, fills, weights, and labels of values

_MEMBERS = ("excludes_missing", "fills", "about_missing", "about_weights", "labels")


def with_column_facts(plan: Plan, statistic: Statistic, facts: DatasetFacts) -> Plan:
    """Return a plan whose details say what its answer must say of the columns.

    That is which records it leaves out, every fill, whether records count once although the data
    set declares their weight, and labels of the categories that it names.
    """
    by_part = list(_excluded(statistic, facts))
    excluded = list(dict.fromkeys(name for part in by_part for name in part))
    fills = dict(_fills(statistic, facts))
    facts_of = {
        "excludes_missing": excluded,
        "fills": {name: value for name, (value, _) in fills.items()},
        "about_missing": [*_of_excluded(statistic, by_part), *_of_fills(fills)],
        "about_weights": list(_of_weights(statistic, facts.schema)),
        "fills_at_bounds": {name: bound for name, (_, bound) in fills.items() if bound},
        "labels": dict(_labels(statistic, facts)),
    }
    return replace(
        plan, details={**plan.details, **{n: each for n, each in facts_of.items() if each}}
    )


def column_members(details: Mapping[str, Any]) -> dict[str, object]:
    """Return the members of an answer that are about its columns; none where there is nothing.

    ``details`` are those of the plan.
    """
    return {name: details[name] for name in _MEMBERS if details.get(name)}


def joined_members(all_details: Iterable[Mapping[str, Any]]) -> dict[str, object]:
    """Return the same of what is computed from several answers."""
    found: dict[str, Any] = {}
    for details in all_details:
        for name, member in column_members(details).items():
            before = found.get(name)
            if before is None:
                found[name] = member
            elif isinstance(member, Mapping):
                found[name] = {**before, **member}
            else:
                found[name] = [*dict.fromkeys([*before, *cast(Sequence[str], member)])]
    return found


def warned(
    useful: Usefulness, details: Mapping[str, Any], outcome: Outcome | None = None
) -> Usefulness:
    """Return a verdict that warns of what no expected error counts: an answer is not good with it.

    That is a fill value at a bound of its column, which pulls an answer, and an interval that is
    uninformative: of the outcome, or before there is one in a population that is considered.
    """
    useful = _with_intervals(useful, details, outcome)
    bounds: Mapping[str, str] = details.get("fills_at_bounds") or {}
    return _with_fills(useful, bounds, details) if bounds else useful


def intervals_of(details: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield what a plan says of confidence intervals: of the whole, as 0, and of each part."""
    parts = cast(Sequence[Mapping[str, Any]], details.get("parts") or ())
    for place, each in enumerate((details, *(part.get("details", {}) for part in parts))):
        yield place, each.get("inference") or {}


def _with_intervals(
    useful: Usefulness, details: Mapping[str, Any], outcome: Outcome | None
) -> Usefulness:
    if outcome is not None:
        terms = [] if outcome.inference is None else outcome.inference.terms
        if not (nothing := sum(term.open for term in terms)):
            return useful
        text = worded(
            "%(open)s of %(count)s confidence intervals are uninformative: they are all that the "
            "public bounds allow."
        )
        return _but(useful, text % {"open": nothing, "count": len(terms)}, "weak")
    needed = {
        place: each["safe_epsilon"]
        for place, each in intervals_of(details)
        if "safe_epsilon" in each
    }
    if not needed:
        return useful
    may = worded(
        "Confidence intervals may be uninformative: too much noise for the fewest records and the "
        "narrowest columns considered."
    )
    enough = worded("No epsilon is enough for all of them.")
    if None not in needed.values():
        place = max(needed, key=lambda each: Decimal(needed[each]))
        text = (
            worded("About epsilon %(epsilon)s for part %(place)s alone is enough for all of them.")
            if place
            else worded("About epsilon %(epsilon)s is enough for all of them.")
        )
        enough = text % {"epsilon": needed[place], "place": place}
    return _but(useful, f"{may} {enough}", "depends")


def _but(useful: Usefulness, warning: str, verdict: Verdict) -> Usefulness:
    """Return a verdict with a warning before it, and this verdict in place of a good one."""
    if useful.verdict != "good":
        return replace(useful, sentence=f"{warning} {useful.sentence}")
    apart = worded("Apart from that:")
    return replace(useful, verdict=verdict, sentence=f"{warning} {apart} {useful.sentence}")


def _with_fills(
    useful: Usefulness, bounds: Mapping[str, str], details: Mapping[str, Any]
) -> Usefulness:
    fills = details["fills"]
    named = listed([f"{name} as {_text(fills[name])}, its {bounds[name]} bound" for name in bounds])
    warning = worded(
        "Missing values count as a bound: %(fills)s. They pull the answer towards it, by an error "
        "that is not counted here.",
        fills=named,
    )
    return _but(useful, warning, "weak")


def fills_in_words(columns: ColumnsSpec) -> Mapping[str, str]:
    """Return by column what missing cells count as, where they are filled in."""
    return {
        name: f"missing values count as {_text(_shown(column))}"
        for name, column in columns.columns.items()
        if isinstance(column.missing, Fill)
    }


def _excluded(statistic: Statistic, facts: DatasetFacts) -> Iterator[Sequence[str]]:
    """Yield the columns whose missing cells leave records out, for each part that is drawn."""
    for each in _single(statistic, facts.schema):
        for part in parts_by_column(each, facts.schema):
            excluded = viewed(part, facts.schema).facts.get("excludes_missing", ())
            yield cast(Sequence[str], excluded)


def _fills(statistic: Statistic, facts: DatasetFacts) -> Iterator[tuple[str, tuple[object, str]]]:
    """Yield the columns whose missing cells are filled in: the value, and which bound it is."""
    read = dict.fromkeys(
        name
        for each in _single(statistic, facts.schema)
        for name in stored_columns_read(each, facts.schema)
    )
    for name in dict.fromkeys(base for each in read for base in _declared(each, facts.columns)):
        column = facts.columns.columns[name]
        if isinstance(column.missing, Fill):
            yield name, (_shown(column), _bound(column))


def _labels(statistic: Statistic, facts: DatasetFacts) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the columns whose values have labels: each value's, by the columns in their order."""
    read = {
        name
        for each in _single(statistic, facts.schema)
        for name in stored_columns_read(each, facts.schema)
    }
    for name, column in facts.columns.columns.items():
        if name in read and isinstance(column, CategorySpec) and column.labels:
            yield name, dict(column.labels)


def _single(statistic: Statistic, schema: Schema) -> Sequence[Statistic]:
    """Return the questions that are drawn: of a stack, or of what is read off one, its parts.

    What is read off a stack also shows the number of records, drawn or public.
    """
    source = statistic.source_question(schema) if isinstance(statistic, Sourced) else statistic
    if not isinstance(source, Stack):
        return [source]
    parts = [part.statistic for part in source.parts]
    if isinstance(statistic, EstimatedByRows):
        parts.append(statistic.counted_records())
    return parts


def _declared(name: str, columns: ColumnsSpec) -> Iterator[str]:
    """Yield the declared columns whose values a stored column is made of."""
    made = columns.derived.get(name)
    if made is None:
        yield name
        return
    for each in values_read(parse(made.expression)):
        yield from _declared(each, columns)


def _filled(column: NumberSpec) -> Fraction:
    """Return what is stored where a number is missing: the fill value, clamped."""
    assert isinstance(column.missing, Fill)
    value = column.missing.value
    assert isinstance(value, Fraction)
    return min(max(value, column.lower), column.upper)


def _bound(column: ColumnSpec) -> str:
    """Return which bound of its column a fill value is; empty for none."""
    if not isinstance(column, NumberSpec):
        return ""
    value = _filled(column)
    return "lower" if value == column.lower else "upper" if value == column.upper else ""


def _shown(column: ColumnSpec) -> object:
    """Return a fill value as JSON has it: as it is stored."""
    if isinstance(column, NumberSpec):
        column = replace(column, missing=Fill(_filled(column)))
    return column_json(column)["missing"]


def _of_excluded(statistic: Statistic, parts: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield which records are left out of all numbers, and which of those that need a value."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    everywhere = [name for name in names if all(name in part for part in parts)]
    rest = [name for name in names if name not in everywhere]
    if names and getattr(statistic, "missing", None) == "available":
        yield worded(
            "Each column's number is about the records that have a value of it. Missing values are "
            "left out of: %(names)s.",
            names=listed(names),
        )
        return
    if everywhere:
        either = listed(everywhere, last="or")
        yield worded("Records without a value of %(names)s are left out.", names=either)
    if rest:
        yield worded(
            "Records without a value of %(names)s are left out of the numbers that use it, and of "
            "no others.",
            names=listed(rest, last="or"),
        )


def _of_weights(statistic: Statistic, schema: Schema) -> Iterator[str]:
    """Yield what is said where a data set declares the weight of its records, and it is not used.

    That is where a statistic takes no weights, or a question says null.
    """
    if schema.design is None:
        return
    parts = statistic.parts if isinstance(statistic, Stack) else ()
    of = [part.statistic for part in parts] or [statistic]
    once = [each for each in of if not getattr(weighed(each, schema), "weights", None)]
    if len(once) == len(of):
        yield worded(
            "Each record counts once: the weight that the data set declares, %(weight)s, is not "
            "used.",
            weight=schema.design.weight,
        )
    elif once:
        yield worded(
            "In the %(kinds)s each record counts once: the weight that the data set declares, "
            "%(weight)s, is not used there.",
            kinds=kinds_in_words([each.kind for each in once]),
            weight=schema.design.weight,
        )


def _of_fills(fills: Mapping[str, tuple[object, str]]) -> Iterator[str]:
    texts = {
        "": worded("%(name)s: missing values count as %(value)s."),
        "lower": worded("%(name)s: missing values count as %(value)s, its lower bound."),
        "upper": worded("%(name)s: missing values count as %(value)s, its upper bound."),
    }
    for name, (value, bound) in fills.items():
        yield texts[bound] % {"name": name, "value": _text(value)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
