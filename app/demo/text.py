"""The demo's lines: answers as aligned tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from app.client import Release


def table(release: Release) -> Iterator[str]:
    """Yield aligned lines: each released number, its 95% noise interval and its noise's std."""
    values = dict(numbers(release.value or {}))
    noise = release.noise or {}
    intervals = dict(numbers(noise.get("interval_95") or {}))
    stds = dict(numbers(noise.get("std") or {}))
    width = max(map(len, values), default=0)
    yield f"{'':<{width}} {'released':>14}   95% noise interval"
    for label, value in values.items():
        line = f"{label:<{width}} {_number(value):>14}"
        match intervals.get(label):
            case [low, high]:
                line += f"   [{_number(low):>14}, {_number(high):>14}]"
                line += f"   std {_number(stds.get(label))}"
            case _:
                line += "   depends on the data"
        yield line


def _number(value: float | None) -> str:
    """Return a number to a readable count of digits."""
    if value is None:
        return "-"
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"


def numbers(part: object, label: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (label, leaf) of an answer's ``value`` or of a mapping that mirrors it.

    A leaf is a number, null, or an interval of two numbers.
    """
    if isinstance(part, Mapping):
        if isinstance(part.get("cell"), Mapping):
            label = ", ".join(map(str, part["cell"].values()))
            yield label, part.get("count")
        elif "level" in part:
            yield f"level {part['level']}", part.get("value")
        else:
            for name, inner in part.items():
                yield from numbers(inner, name if _is_leaf(inner) else label)
    elif _is_leaf(part):
        yield label, part
    elif isinstance(part, list):
        for index, inner in enumerate(part):
            yield from numbers(inner, f"{label}[{index}]")


def _is_leaf(part: object) -> bool:
    if isinstance(part, list):
        return len(part) == 2 and all(isinstance(end, int | float) for end in part)
    return part is None or isinstance(part, int | float)


def heading(text: str) -> None:
    """Open a step."""
    click.echo(f"\n== {text}")


def compact(body: Mapping[str, object]) -> str:
    """Return a request body as one line of JSON."""
    return json.dumps(body)
