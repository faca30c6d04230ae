"""All that is wrong with a data set's spec at once: its form, and what contradicts itself in it.

A model is made only of a document whose form is right throughout. So where a part of it is wrong,
a sound one is put in its place, and the faults of the rest are reported too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from app.domain.problems import Problem, invalid_requests
from app.web.requests.exact_json import read_json

_MOST_FAULTS = 100  # more are reported once these are corrected
_LONGEST_BYTES = 2**16
"""In longer documents only the first fault of each list or mapping is reported anyway."""
_ROUNDS = 3
"""Form, what is missing, rules: each is looked at where nothing is wrong with the one before."""
_SOUND: Mapping[str, Any] = {
    "name": "name",
    "adjacency": "add_remove",
    "columns": {"column": {"type": "boolean"}},
    "budget": {"epsilon": "1"},
    "max_rows": 1,
    "source": "file:///folder/file",
}
"""What stands for a part that is wrong; others are left out."""
_NO_BUDGET = "budget is required"
_AT = re.compile(r"columns\[(\d+)\]", re.ASCII)
_TOP = re.compile(r"[^.\[]*")

Faults = Sequence[tuple[str, str]]


def with_contradictions(
    problem: Problem, content: bytes, check: Callable[[bytes], object], *, known: Collection[str]
) -> Problem:
    """Return what is wrong with a spec's form, and what else is wrong with it.

    ``check`` raises what is wrong with a spec as it stands, and ``known`` are its fields.
    """
    faults = _faults(problem)
    if not faults or len(content) > _LONGEST_BYTES:
        return problem
    try:
        spec = read_json(content)
    except Problem:
        return problem
    if not isinstance(spec, dict):
        return problem
    spec = {name: value for name, value in spec.items() if name in known}
    if spec.get("budget") is None and spec.get("account") is None:
        # of a whole form that is reported for the form, and not for its field
        faults = [*(each for each in faults if each[1] != _NO_BUDGET), ("budget", "is required")]
    for _ in range(_ROUNDS):
        places = {place for place, _ in faults}
        try:
            check(json.dumps(_mended(spec, places)).encode())
        except Problem as more:
            new = [(place, words) for place, words in _faults(more) if place not in places]
            faults = [*faults, *new]
        else:
            break
    return invalid_requests(faults[:_MOST_FAULTS])


def _faults(problem: Problem) -> Faults:
    errors = problem.extras.get("errors")
    found = errors if isinstance(errors, list) else []
    return [(str(error["field"]), str(error["message"])) for error in found]


def _mended(spec: Mapping[str, Any], places: set[str]) -> dict[str, Any]:
    """Return a spec with something sound where something is wrong."""
    wrong = {_TOP.match(place)[0] for place in places}  # type: ignore[index]
    mended = {name: value for name, value in spec.items() if name not in wrong}
    mended |= {name: _SOUND[name] for name in wrong if name in _SOUND}
    if "columns" in wrong:
        # what they derive from, or identify people by, may be one that is wrong
        mended = {name: mended[name] for name in mended if name not in ("derive", "unit")}
        columns = spec.get("columns")
        if isinstance(columns, dict) and columns and "columns" not in places:
            mended["columns"] = dict(_mended_columns(columns, places))
    if "adjacency" in wrong:
        mended.setdefault("max_rows", 1)
    return mended


def _mended_columns(columns: Mapping[str, Any], places: set[str]) -> Mapping[str, Any]:
    positions = {int(match[1]) for place in places if (match := _AT.match(place))}
    return {
        # a column that has the name of a field is reported by it
        name: {"type": "boolean"}
        if position in positions
        or any(f"{place}.".startswith(f"columns.{name}.") for place in places)
        else column
        for position, (name, column) in enumerate(columns.items())
    }
