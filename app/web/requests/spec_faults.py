"""All that is wrong with a data set's spec at once: its form, and what contradicts itself in it.

A model is made only of a document whose form is right throughout. So where the form of one
column is wrong, the others are looked at here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from app.domain.column_json import parse_column
from app.domain.columns import InvalidSpecError
from app.domain.datasets import column_named
from app.domain.problems import Problem, invalid_requests
from app.web.requests.exact_json import read_json

_MOST_FAULTS = 100
_LONGEST_BYTES = 2**16
"""In longer documents only the first fault of each list or mapping is told anyway."""


def with_contradictions(problem: Problem, content: bytes) -> Problem:
    """Return what is wrong with a spec's form, and what else is wrong with it."""
    errors = problem.extras.get("errors")
    if not isinstance(errors, list) or len(content) > _LONGEST_BYTES:
        return problem
    faults = [(str(error["field"]), str(error["message"])) for error in errors]
    try:
        spec = read_json(content)
    except Problem:
        return problem
    if isinstance(spec, dict):
        faults += _contradictions(spec, {place for place, _ in faults})
    return invalid_requests(faults[:_MOST_FAULTS])


def _contradictions(spec: Mapping[str, object], told: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield what contradicts itself in the parts of a spec about which nothing is told yet."""
    columns = spec.get("columns")
    for position, (name, column) in enumerate(columns.items() if isinstance(columns, dict) else ()):
        place = f"columns[{position}]"
        # a column that has the name of a field is told by it
        known = (place, f"columns.{name}")
        if any(f"{each}.".startswith(tuple(f"{one}." for one in known)) for each in told):
            continue
        try:
            parse_column(column)
        except InvalidSpecError as error:
            for fault in error.within(place):
                yield fault.field_name, fault.detail + column_named(name)
    if spec.get("budget") is None and spec.get("account") is None:
        yield "budget", "is required"
    no_bound = spec.get("max_rows") is None and spec.get("adjacency") == "add_remove"
    if no_bound and "max_rows" not in told:
        yield "max_rows", "is required under add_remove"
