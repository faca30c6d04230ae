"""How a file was read, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows and people, each column with anything to report, then the warnings."""
    yield f"rows: {report['rows']} read, {report['rows_dropped']} dropped"
    if (people := report.get("people")) is not None:
        yield (
            f"people: {people['people']}, half of them with {people['median_rows']} rows or fewer, "
            f"one with {people['most_rows']}; {people['rows_left_out']} rows left out, "
            f"{people['rows_without_id']} without an id"
        )
    for name, counts in report["columns"].items():
        parts = [
            f"{count} {member.replace('_', ' ')}"
            for member, count in counts.items()
            if count and member != "values"
        ]
        if parts:
            yield f"{name}: {', '.join(parts)}"
    for warning in report["warnings"]:
        yield f"warning: {warning['column']}: {warning['message']}"
