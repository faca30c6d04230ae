"""How a file was read, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows, then each column with anything to tell, then the warnings."""
    yield f"rows: {report['rows']} read, {report['rows_dropped']} dropped"
    for name, counts in report["columns"].items():
        told = [
            f"{count} {member.replace('_', ' ')}"
            for member, count in counts.items()
            if count and member != "values"
        ]
        if told:
            yield f"{name}: {', '.join(told)}"
    for warning in report["warnings"]:
        yield f"warning: {warning['column']}: {warning['message']}"
