"""Answers in readable form: dates as texts, ratios of slopes, and uninformative numbers.

*Times.* Quantiles and means of a column of dates or moments are ISO 8601 texts, rounded to its day
or second; so are the ends of their intervals. Whatever else is computed counts days or seconds, and
so do standard deviations of noise.

*Edges.* Some numbers are clamped to what is possible: a variance to 0 or more, a correlation to
[-1, 1], a mean over a noisy count to its column's bounds. A number at its limit reflects only the
noise, and is no estimate. An answer lists each with a reason, and its ``value`` stays as it was
drawn. Sums and counts are never clamped, so they may always be added up. Neither are quantiles and
coefficients: a draw chooses them among the possible values.

*Ratios.* The exponential of a slope is an odds, rate or hazard ratio, and that of its interval the
ratio's, since it is monotone. Its standard error is the slope's times the ratio (delta method).

All are computed from released numbers, so they cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import exp, log
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
from mechanisms.domain import NumberColumn, Schema, TimeKind, number_of, text_of
from mechanisms.statistics.designs.scaling import is_slope
from mechanisms.statistics.stack import Stack

_Change = Callable[[TimeKind, Any], Any]


_IN_NOISE = f"{AT_THE_EDGE} The noise interval shows where it may be."


def shown(outcome: Outcome, statistic: Statistic, schema: Schema) -> Outcome:
    """Return an outcome with times as texts, with ratios, its uninformative numbers listed."""
    outcome = with_edges(_with_ratios(outcome, statistic), statistic)
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


_LARGEST = log(1e300)  # JSON has no infinity


def _exp(number: float) -> float:
    return exp(min(number, _LARGEST))


def _with_ratios(outcome: Outcome, statistic: Statistic) -> Outcome:
    """Return an outcome with the exponentials of slopes, where those are ratios."""
    value = _ratios_in(outcome.value, statistic)
    if value is outcome.value:
        return outcome
    inference = outcome.inference
    if inference is not None:
        ratios = (_ratio(term, statistic) for term in inference.terms)
        added = tuple(each for each in ratios if each is not None)
        inference = replace(inference, terms=(*inference.terms, *added))
    return replace(outcome, value=value, inference=inference)


def _ratios_in(value: Any, statistic: Statistic) -> Any:
    """Return an answer's value with its ratios; the same object where it has none."""
    if isinstance(statistic, Stack):
        pairs = zip(value["parts"], statistic.parts, strict=True)
        parts = [_ratios_in(part, each.statistic) for part, each in pairs]
        same = all(part is old for part, old in zip(parts, value["parts"], strict=True))
        return value if same else {**value, "parts": parts}
    if not statistic.ratios:
        return value
    if isinstance(groups := value.get("groups"), list):
        own = [{**each, "value": _ratios_in(each["value"], statistic)} for each in groups]
        return {**value, "groups": own}
    slopes = {name: each for name, each in value["coefficients"].items() if is_slope(name)}
    ratios = {name: _exp(slope) for name, slope in slopes.items()}
    return {**value, statistic.ratios: ratios} if ratios else value


def _ratio(term: Term, statistic: Statistic) -> Term | None:
    """Return the inference about the ratio of a slope; None for any other number."""
    *above, kind, name = term.place
    if isinstance(statistic, Stack):
        statistic = statistic.parts[int(term.place[1])].statistic
    if not statistic.ratios or kind != "coefficients" or not is_slope(str(name)):
        return None
    ratio = _exp(term.estimate)
    ratios = statistic.ratios.removesuffix("s").replace("_", " ")
    return replace(
        term,
        term=f"{ratios} of {name}",
        place=(*above, statistic.ratios, name),
        estimate=ratio,
        std_error=None if term.std_error is None else min(ratio * term.std_error, 1e300),
        confidence_95=_exp_both(term.confidence_95),
        noise_95=None if term.noise_95 is None else _exp_both(term.noise_95),
    )


def _exp_both(ends: tuple[float, float]) -> tuple[float, float]:
    return _exp(ends[0]), _exp(ends[1])


def with_edges(outcome: Outcome, statistic: Statistic) -> Outcome:
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
    return statistic.clamped_to is not None


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
    if isinstance(statistic, Stack):
        own, rest = statistic.parts[int(term.place[1])].statistic, term.place[:2]
        found = _term(replace(term, place=term.place[2:]), own, schema)
        return replace(found, place=(*rest, *found.place))
    place = term.place[3:] if term.place[:1] == ("groups",) else term.place
    kind = _time_kind(statistic, schema, place)
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
    if not _tells_times(statistic, schema):
        return value
    if isinstance(groups := value.get("groups"), list):
        of = partial(_changed, statistic=statistic, schema=schema, change=change)
        return {**value, "groups": [{**group, "value": of(group["value"])} for group in groups]}

    def walked(node: Any, place: tuple[str | int, ...]) -> Any:
        if isinstance(node, Mapping):
            return {key: walked(inner, (*place, key)) for key, inner in node.items()}
        if isinstance(node, list | tuple) and any(isinstance(each, Mapping) for each in node):
            return [walked(inner, (*place, at)) for at, inner in enumerate(node)]
        kind = _time_kind(statistic, schema, place)
        return node if kind is None else _leaf(kind, node, change)

    return walked(value, ())


def _tells_times(statistic: Statistic, schema: Schema) -> bool:
    """Return whether an answer has cells of any column that holds times."""
    if isinstance(statistic, Stack):
        return any(_tells_times(part.statistic, schema) for part in statistic.parts)
    return any(_timed(schema, name) for name in statistic.value_columns)


def _leaf(kind: TimeKind, cell: Any, change: _Change) -> Any:
    return (
        [change(kind, end) for end in cell]
        if isinstance(cell, list | tuple)
        else change(kind, cell)
    )


def _time_kind(
    statistic: Statistic, schema: Schema, place: tuple[str | int, ...]
) -> TimeKind | None:
    """Return the kind of time that the number at a place is; None for any other number."""
    name = statistic.column_at(place)
    return None if name is None else _timed(schema, name)


def _timed(schema: Schema, name: str) -> TimeKind | None:
    """Return the kind of time that a column holds, if it does."""
    column = schema.columns.get(name)
    return column.timed if isinstance(column, NumberColumn) else None
