"""The demo's lines: answers as aligned tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from app.client import Release
from app.client.tables import MEASURES


def table(release: Release) -> Iterator[str]:
    """Yield aligned lines: each released number, its 95% noise interval and its noise's std."""
    rows = {_label(row): row for row in release.rows()}
    width = max(map(len, rows), default=0)
    yield f"{'':<{width}} {'released':>14}   95% noise interval"
    for label, row in rows.items():
        line = f"{label:<{width}} {_number(row['value']):>14}"
        if row["noise_low"] is None:
            line += "   depends on the data"
        else:
            low, high = _number(row["noise_low"]), _number(row["noise_high"])
            line += f"   [{low:>14}, {high:>14}]   std {_number(row['noise'])}"
        yield line


def _label(row: Mapping[str, Any]) -> str:
    """Return what a number is called: its group, and its term where the group does not say all."""
    group = [str(row[name]) for name in row if name not in MEASURES]
    term = row["term"]
    return ", ".join(group if group and term == "count" else [*group, term])


def _number(value: float | None) -> str:
    """Return a number to a readable count of digits."""
    if value is None:
        return "-"
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"


def heading(text: str) -> None:
    """Open a step."""
    click.echo(f"\n== {text}")


def compact(body: Mapping[str, object]) -> str:
    """Return a request body as one line of JSON."""
    return json.dumps(body)
