"""The form of a new data set: from a header to fields, from fields to a spec, and back to faults.

A column's fields are named by its place in the table, such as ``columns.0.lower``. What is wrong
with a spec comes back by the places of the spec; :func:`at_cells` says which field that is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.desk.bounds import looks_read_off
from app.desk.forms import Form
from app.domain.problems import Problem, invalid_requests
from app.uploads.drafts import Draft

LEFT_OUT = "left out"
TYPES = ("number", "integer", "category", "boolean", "date", "datetime", LEFT_OUT)
REVIEWS = ("never", "always", "above")
PLACES = ("type", "lower", "upper", "values", "missing", "label", "unit_of_measure", "typical")
"""The fields of a column, in the table's order, by their names in the spec."""

_NAME = re.compile(r"columns\.(\d{1,5})\.name", re.ASCII)
_PLACE = re.compile(
    r"columns(?:\[(?P<position>\d+)\](?P<rest>.*)|\.(?P<named>.*))", re.ASCII | re.DOTALL
)
_ABOUT = re.compile(r" \(column \".*\"\)$", re.DOTALL)
"""What a message says of its column, where the field says it already."""
_WITHIN = re.compile(r"\.typical\.(mean|std)$")
_WHOLE = re.compile(r"[+-]?\d{1,300}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_SHARE = re.compile(r"(\S.*?)[ \t]*[:=\t ][ \t]*(\S+)", re.ASCII)
"""A line of what is typical: a name, then a number."""
_NUMBERS = ("number", "integer")
_FIELDS: Mapping[str, str] = {
    "budget": "epsilon",
    "budget.epsilon": "epsilon",
    "budget.delta": "delta",
    "policy.review": "review",
    "policy.reviewers": "reviewers",
    "policy.max_epsilon_per_release": "max_epsilon_per_release",
    "policy": "allowed",
    "policy.allowed": "allowed",
    "unit": "unit_column",
    "unit.column": "unit_column",
    "unit.max_rows": "unit_max_rows",
    "overlap": "overlap",
    "overlap.reason": "overlap",
}
"""Where a field of the form has another name than in the spec."""

_LABELS: Mapping[str, str] = {
    "source": "Address of the data",
    "epsilon": "Epsilon budget",
    "na": "Missing cells",
    "allowed": "Statistics that may be asked",
    "unit_column": "Person column",
    "unit_max_rows": "Rows per person",
    "overlap": "Other people",
    "reviewers": "Who decides",
    "delimiter": "Between cells",
    "decimal": "Before decimals",
    "thousands": "Between thousands",
}
"""What fields are called whose names say something else."""


def rows_of(form: Form) -> Sequence[tuple[int, str]]:
    """Return the columns of a form's table, each with the place that names its fields."""
    found = [(_NAME.fullmatch(name), value) for name, value in form.pairs]
    return [(int(match[1]), value) for match, value in found if match is not None]


def labelled(form: Form) -> Mapping[str, str]:
    """Return what fields are called: those of the table by their column and place."""
    columns = {
        f"columns.{place}.{field}": f"{name} {field if field != 'unit_of_measure' else 'unit'}"
        for place, name in rows_of(form)
        for field in PLACES
    }
    return {**_LABELS, **columns}


def with_draft(form: Form, draft: Draft, file_name: str) -> Form:
    """Return a form whose table has a draft's columns; what was filled in of them stays."""
    kept = {name: place for place, name in rows_of(form)}
    pairs = [pair for pair in form.pairs if not pair[0].startswith("columns.")]
    for place, (name, column) in enumerate(draft.spec["columns"].items()):
        pairs.append((f"columns.{place}.name", name))
        for field in PLACES:
            earlier = form.text(f"columns.{kept[name]}.{field}") if name in kept else ""
            told = earlier or str(column.get(field) or "")
            pairs.append((f"columns.{place}.{field}", "" if told == "[]" else told))
    if "delimiter" in draft.spec:
        pairs = [("delimiter", draft.spec["delimiter"]), *pairs]
    if not form.text("name"):
        pairs = [("name", file_name.partition(".")[0]), *pairs]
    return Form(pairs)


def with_partitions(draft: Draft, names: Sequence[str]) -> Draft:
    """Return a draft that has the columns too which a source's folders tell."""
    columns = dict(draft.spec["columns"])
    for name in names:
        columns.setdefault(name, {"type": "category", "values": []})
    return Draft({**draft.spec, "columns": columns}, draft.notes)


def spec_of(form: Form) -> dict[str, Any]:
    """Return the spec that a form declares; what is not filled in is left out."""
    spec: dict[str, Any] = {
        "name": form.text("name"),
        "description": form.text("description"),
        "adjacency": form.text("adjacency"),
        "columns": dict(_columns(form)),
        "policy": _policy(form),
    }
    if epsilon := form.text("epsilon"):
        delta = form.text("delta")
        spec["budget"] = {"epsilon": epsilon} | ({"delta": delta} if delta else {})
    if most := form.text("max_rows"):
        spec["max_rows"] = number_of(most)
    if column := form.text("unit_column"):
        rows = form.text("unit_max_rows")
        spec["unit"] = {"column": column} | ({"max_rows": number_of(rows)} if rows else {})
    if reason := form.text("overlap"):
        spec["overlap"] = {"reason": reason}
    for name in ("delimiter", "decimal", "thousands"):
        if given := form.raw(name):
            spec[name] = given
    if account := form.text("account"):
        spec["account"] = account
    if markers := _lines(form.text("na")):
        spec["na"] = markers
    return spec


def _columns(form: Form) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for place, name in rows_of(form):
        fields = {field: form.text(f"columns.{place}.{field}") for field in PLACES}
        if fields["type"] != LEFT_OUT:
            yield name, dict(_column(fields))


def _column(fields: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the members of a column that its type has and that are filled in."""
    kind = fields["type"]
    yield "type", kind
    numbers = kind in _NUMBERS
    if kind == "category":
        yield "values", _lines(fields["values"])
    elif kind != "boolean":
        for end in ("lower", "upper"):
            if fields[end]:
                yield end, number_of(fields[end]) if numbers else fields[end]
    if missing := fields["missing"]:
        yield "missing", _missing(kind, missing)
    if fields["label"]:
        yield "label", fields["label"]
    if fields["unit_of_measure"] and numbers:
        yield "unit_of_measure", fields["unit_of_measure"]
    if typical := fields["typical"]:
        yield "typical", number_of(typical) if kind == "boolean" else dict(_shares(typical))


def _shares(text: str) -> Iterator[tuple[str, object]]:
    """Yield names and numbers, such as `mean 980` or `north 0.3`, of each line one."""
    for line in _lines(text):
        match = _SHARE.fullmatch(line)
        yield (line, "") if match is None else (match[1], number_of(match[2]))


def _missing(kind: str, text: str) -> object:
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return number_of(text) if kind in _NUMBERS else text


def _policy(form: Form) -> dict[str, Any]:
    review, allowed = form.text("review"), form.texts("allowed")
    policy: dict[str, Any] = {"review": review or "never"}
    if review == "above":
        policy["review"] = f"above:{form.text('review_above')}"
    if most := form.text("max_epsilon_per_release"):
        policy["max_epsilon_per_release"] = most
    if allowed:
        policy["allowed"] = allowed
    if form.text("reviewers"):
        policy["reviewers"] = number_of(form.text("reviewers"))
    return policy


def number_of(text: str) -> int | float | str:
    """Return a number as JSON has it; what is none is left to be refused as a text."""
    if _WHOLE.fullmatch(text):
        return int(text)
    number = float(text) if _DECIMAL.fullmatch(text) else math.inf
    return number if math.isfinite(number) else text


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def doubts(form: Form) -> Mapping[str, str]:
    """Return the bounds that look as if they were read off the file, by their fields."""
    return {
        field: "So precise a bound looks read off the file. It is shown to everybody: take a "
        "round one, from public knowledge."
        for place, _ in rows_of(form)
        for field in (f"columns.{place}.lower", f"columns.{place}.upper")
        if looks_read_off(form.text(field))
    }


def at_cells(problem: Problem, form: Form) -> Problem:
    """Return a refusal of a form's spec by the fields of the form."""
    if problem.code == "name-taken":
        return _named(problem, [("name", "is taken; choose another one")])
    errors = problem.extras.get("errors")
    if not isinstance(errors, list):
        return at_source(problem)
    names = [(p, n) for p, n in rows_of(form) if form.text(f"columns.{p}.type") != LEFT_OUT]
    above = {"review": "review_above"} if form.text("review") == "above" else {}
    faults = []
    for each in errors:
        place, words = str(each["field"]), str(each["message"])
        field = _field(place, names)
        faults.append((above.get(field, field), _message(place, words)))
    return invalid_requests(faults)


def at_source(problem: Problem) -> Problem:
    """Return a refusal that is about a source by the field that names it."""
    limit = str(problem.extras.get("limit", ""))
    if problem.code.startswith("source-") or limit.startswith("max_source_"):
        return _named(problem, [("source", problem.detail)])
    return problem


def _message(place: str, words: str) -> str:
    """Return what is wrong, as its field says it, which stands for all that is typical."""
    told = _ABOUT.sub("", words)
    return f"{match[1]} {told}" if (match := _WITHIN.search(place)) else told


def _named(problem: Problem, faults: Sequence[tuple[str, str]]) -> Problem:
    errors = [{"field": place, "message": words} for place, words in faults]
    return Problem(problem.code, problem.detail, errors=errors)


def _field(place: str, names: Sequence[tuple[int, str]]) -> str:
    """Return the field that a place of the spec is filled in by.

    A column is told by its position, or by its name where a field of specs has that name too.
    """
    place = place.removeprefix("spec.")
    if (match := _PLACE.fullmatch(place)) is None:
        return _FIELDS.get(place, place)
    if match["position"] is not None:
        at, rest = int(match["position"]), match["rest"]
        row = names[at][0] if at < len(names) else None
    else:
        told = match["named"]
        fits = [each for each in names if f"{told}.".startswith(f"{each[1]}.")]
        row, name = max(fits, key=lambda each: len(each[1]), default=(None, ""))
        rest = told[len(name) + 1 :]
    field = re.split(r"[.\[]", rest.removeprefix("."))[0]
    return "columns" if row is None else f"columns.{row}.{field if field in PLACES else 'type'}"
