"""Answers in readable form: dates and moments as texts, and which numbers are uninformative.

*Times.* Quantiles and means of a column of dates or moments are ISO 8601 texts, rounded to its day
or second; so are the ends of their intervals. Whatever else is computed counts days or seconds, and
so do standard deviations of noise.

*Edges.* Some numbers are clamped to what is possible: a variance to 0 or more, a correlation to
[-1, 1], a mean over a noisy count to its column's bounds. A number at its limit reflects only the
noise, and is no estimate. An answer lists each with a reason, and its ``value`` stays as it was
drawn. Sums and counts are never clamped, so they may always be added up. Neither are quantiles and
coefficients: a draw chooses them among the possible values.

Both are computed from released numbers, so they cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from mechanisms.contract import (
    AT_THE_EDGE,
    IN_CONFIDENCE,
    Edge,
    Inference,
    Json,
    Outcome,
    Statistic,
    Term,
)
from mechanisms.domain import NumberColumn, Schema
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.stack import Stack
from mechanisms.times import TimeKind, number_of, text_of

_Change = Callable[[TimeKind, Any], Any]


_IN_NOISE = f"{AT_THE_EDGE} The noise interval shows where it may be."


def shown(outcome: Outcome, statistic: Statistic, schema: Schema) -> Outcome:
    """Return an outcome with dates and moments as texts, and its uninformative numbers listed."""
    outcome = _with_edges(outcome, statistic)
    if not _tells_times(statistic, schema):
        return outcome
    change = partial(_changed, statistic=statistic, schema=schema, change=_text)
    noise = outcome.settled().noise
    if noise is not None:
        noise = replace(noise, interval_95=change(noise.interval_95))
    inference = outcome.inference
    if inference is not None:
        terms = tuple(_term(term, statistic, schema) for term in inference.terms)
        inference = replace(inference, terms=terms)
    return replace(outcome, value=change(outcome.value), noise=noise, inference=inference)


def _with_edges(outcome: Outcome, statistic: Statistic) -> Outcome:
    """Return an outcome that names the numbers which a clamp has moved to a limit."""
    if not _clamps(statistic):
        return outcome
    interval = None if outcome.noise is None else outcome.noise.interval_95
    edges = tuple(_edges(outcome.value, interval, statistic, ()))
    inference = outcome.inference
    if inference is not None and edges:
        inference = _unestimated(inference, frozenset(edge.place for edge in edges))
    return replace(outcome, edges=edges, inference=inference)


def _clamps(statistic: Statistic) -> bool:
    """Return whether an answer may have clamped numbers; others are not checked."""
    if isinstance(statistic, Stack):
        return any(_clamps(part.statistic) for part in statistic.parts)
    return hasattr(statistic, "clamped_to")


def _edges(
    part: Any, interval: Any, statistic: Statistic, place: tuple[str | int, ...]
) -> Iterator[Edge]:
    """Yield the edges among the numbers of a part of an answer, whose noise intervals these are."""
    if isinstance(statistic, Stack):
        for at, each in enumerate(statistic.parts):
            if _clamps(each.statistic):
                own, ends = part["parts"][at], _below(_below(interval, "parts"), at)
                yield from _edges(own, ends, each.statistic, (*place, "parts", at))
    elif isinstance(part, int | float):
        if _is_edge(part, interval, statistic, place):
            yield Edge(place=place, reason=AT_THE_EDGE if interval is None else _IN_NOISE)
    elif isinstance(part, Mapping | list):
        inside = part.items() if isinstance(part, Mapping) else enumerate(part)
        for step, inner in inside:
            if step != "by" or not isinstance(part, Mapping):
                yield from _edges(inner, _below(interval, step), statistic, (*place, step))


def _is_edge(number: float, ends: Any, statistic: Any, place: tuple[str | int, ...]) -> bool:
    """Return whether a number has been clamped: the end of an interval that is clamped alike."""
    if ends is not None:
        low, high = ends
        # that of what has no noise, as a correlation of a column with itself, is the number alone
        return bool(low < high and (number in (low, high) or number in statistic.clamped_to))
    return number in statistic.clamped_to and place[-1] != place[-2:][0]


def _below(part: Any, step: str | int) -> Any:
    return None if part is None else part[step]


def _unestimated(inference: Inference, places: frozenset[tuple[str | int, ...]]) -> Inference:
    """Return an inference that has no estimate of the numbers at these places."""
    terms = tuple(
        replace(term, estimate=None, reason=term.reason or IN_CONFIDENCE)
        if term.place in places
        else term
        for term in inference.terms
    )
    return replace(inference, terms=terms)


def _term(term: Term, statistic: Statistic, schema: Schema) -> Term:
    """Return the inference about a date or a moment as texts; its standard error stays a number."""
    kinds = _kinds(statistic, schema)
    name = statistic.column if isinstance(statistic, Quantile) else str(term.place[-1])
    kind = kinds.get(name)
    if kind is None:
        return term
    ends = term.noise_95
    return replace(
        term,
        estimate=_text(kind, term.estimate),
        confidence_95=_ends(kind, term.confidence_95),
        noise_95=None if ends is None else _ends(kind, ends),
    )


def _ends(kind: TimeKind, ends: tuple[Any, Any]) -> tuple[str, str]:
    return _text(kind, ends[0]), _text(kind, ends[1])


def shown_ranges(ranges: Json, statistic: Statistic, schema: Schema) -> Json:
    """Return the ranges of an answer's numbers with the ends of dates and moments as texts."""
    return cast(Json, _changed(ranges, statistic=statistic, schema=schema, change=_text))


def counted(answer: Mapping[str, Any], statistic: Statistic, schema: Schema) -> dict[str, Any]:
    """Return a released answer's ``value`` and ``noise`` with dates and moments as numbers."""
    change = partial(_changed, statistic=statistic, schema=schema, change=_number)
    noise = answer["noise"]
    if noise is not None:
        noise = {**noise, "interval_95": change(noise["interval_95"])}
    return {"value": change(answer["value"]), "noise": noise}


def _text(kind: TimeKind, number: Any) -> Any:
    return text_of(kind, number) if isinstance(number, int | float) else number


def _number(kind: TimeKind, text: Any) -> Any:
    return float(number_of(kind, text)) if isinstance(text, str) else text


def _changed(value: Any, *, statistic: Statistic, schema: Schema, change: _Change) -> Any:
    """Return an answer's value, or its intervals, with the cells of time columns changed."""
    if not isinstance(value, Mapping):
        return value
    if isinstance(statistic, Stack):
        pairs = zip(value["parts"], statistic.parts, strict=True)
        of = partial(_changed, schema=schema, change=change)
        return {**value, "parts": [of(part, statistic=each.statistic) for part, each in pairs]}
    kinds = _kinds(statistic, schema)
    if not kinds:
        return value
    if "groups" in value:
        of = partial(_changed, statistic=statistic, schema=schema, change=change)
        groups = [{**group, "value": of(group["value"])} for group in value["groups"]]
        return {**value, "groups": groups}
    if isinstance(statistic, Quantile):
        kind = kinds[statistic.column]
        levels = [
            {**each, "value": _leaf(kind, each["value"], change)} for each in value["quantiles"]
        ]
        return {**value, "quantiles": levels}
    return {
        name: _leaf(kinds[name], cell, change) if name in kinds else cell
        for name, cell in value.items()
    }


def _tells_times(statistic: Statistic, schema: Schema) -> bool:
    """Return whether an answer has cells of any column that holds times."""
    if isinstance(statistic, Stack):
        return any(_tells_times(part.statistic, schema) for part in statistic.parts)
    return bool(_kinds(statistic, schema))


def _leaf(kind: TimeKind, cell: Any, change: _Change) -> Any:
    return (
        [change(kind, end) for end in cell]
        if isinstance(cell, list | tuple)
        else change(kind, cell)
    )


def _kinds(statistic: Statistic, schema: Schema) -> dict[str, TimeKind]:
    """Return which columns an answer has cells of, of those that hold times."""
    names: tuple[str, ...] = ()
    if isinstance(statistic, Mean):
        names = tuple(statistic.columns)
    elif isinstance(statistic, Quantile):
        names = (statistic.column,)
    columns = {name: schema.columns.get(name) for name in names}
    return {
        name: column.timed
        for name, column in columns.items()
        if isinstance(column, NumberColumn) and column.timed is not None
    }
