"""Answers about dates and moments as people write them, and back.

Quantiles and means of such a column are ISO 8601 texts, rounded to its day or second; so are
the ends of their intervals. Whatever else is computed counts days or seconds, and so do
standard deviations of noise. It is done to released numbers, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from mechanisms.contract import Json, Outcome, Statistic
from mechanisms.domain import NumberColumn, Schema
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.stack import Stack
from mechanisms.times import TimeKind, number_of, text_of

_Change = Callable[[TimeKind, Any], Any]


def shown(outcome: Outcome, statistic: Statistic, schema: Schema) -> Outcome:
    """Return an outcome with dates and moments as texts."""
    if not _tells_times(statistic, schema):
        return outcome
    change = partial(_changed, statistic=statistic, schema=schema, change=_text)
    noise = outcome.settled().noise
    if noise is not None:
        noise = replace(noise, interval_95=change(noise.interval_95))
    return replace(outcome, value=change(outcome.value), noise=noise)


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
        told = [
            {**each, "value": _leaf(kind, each["value"], change)} for each in value["quantiles"]
        ]
        return {**value, "quantiles": told}
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
