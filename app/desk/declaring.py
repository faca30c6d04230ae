"""The form of a new data set: from a header to fields, from fields to a spec, and back to faults.

A column's fields are named by its place in the table, such as ``columns.0.lower``. What is wrong
with a spec comes back by the places of the spec; :func:`at_cells` says which field that is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.desk.forms import Form, looks_read_off
from app.domain.problems import Problem, invalid_requests
from app.uploads.drafting.drafts import Draft

LEFT_OUT = "left out"
TYPES = ("number", "integer", "category", "boolean", "date", "datetime", LEFT_OUT)
REVIEWS = ("never", "always", "above")
PLACES = ("type", "lower", "upper", "values", "missing", "label", "unit_of_measure", "typical")
"""The fields of a column, in the table's order, by their names in the spec."""
READING: Mapping[str, Sequence[str]] = {
    "source": (),
    "true": ("boolean",),
    "false": ("boolean",),
    "format": ("date", "datetime"),
    "timezone": ("date", "datetime"),
    "labels": ("category",),
    "trim": ("category",),
    "na": (),
}
"""The fields that say how a column's cells are read, and the types that have them; () is all."""

_NAME = re.compile(r"columns\.(\d{1,5})\.name", re.ASCII)
_PLACE = re.compile(
    r"columns(?:\[(?P<position>\d+)\](?P<rest>.*)|\.(?P<named>.*))", re.ASCII | re.DOTALL
)
_ABOUT = re.compile(r" \(column \".*\"\)$", re.DOTALL)
"""What a message says of its column, where the field says it already."""
_IN_REDUCE = re.compile(r"^unit\.reduce\b.*", re.DOTALL)
_WITHIN = re.compile(r"\.typical\.(mean|std)$")
_WHOLE = re.compile(r"[+-]?\d{1,300}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_SHARE = re.compile(r"(\S.*?)[ \t]*[:=\t ][ \t]*(\S+)", re.ASCII)
"""A line of what is typical: a name, then a number."""
_NUMBERS = ("number", "integer")
_WRITTEN = ("delimiter", "encoding", "skip_rows", "decimal", "thousands")
"""What says how a file is written, and is the draft's whatever was filled in before."""
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
    "unit.id": "unit_id",
    "unit.reduce": "unit_reduce",
    "overlap": "overlap",
    "overlap.reason": "overlap",
}
"""Where a field of the form has another name than in the spec."""

_LABELS: Mapping[str, str] = {
    "source": "Address of the data",
    "epsilon": "Epsilon budget",
    "na": "Missing-value codes",
    "allowed": "Statistics that may be asked",
    "unit_column": "Person identifier",
    "unit_max_rows": "Maximum rows per person",
    "unit_id": "Person ids",
    "unit_reduce": "One row per person",
    "overlap": "Other people",
    "reviewers": "Who decides",
    "delimiter": "Delimiter",
    "decimal": "Decimal mark",
    "thousands": "Thousands separator",
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
        for field in (*PLACES, *READING)
    }
    return {**_LABELS, **columns}


def with_draft(form: Form, draft: Draft, file_name: str) -> Form:
    """Return a form whose table has a draft's columns; what was filled in of them stays."""
    kept = {name: place for place, name in rows_of(form)}
    pairs = [pair for pair in form.pairs if not pair[0].startswith("columns.")]
    for place, (name, column) in enumerate(draft.spec["columns"].items()):
        pairs.append((f"columns.{place}.name", name))
        for field in (*PLACES, *READING):
            earlier = form.raw(f"columns.{kept[name]}.{field}") if name in kept else ""
            source = earlier.strip() and earlier
            pairs.append((f"columns.{place}.{field}", source or _written(column.get(field))))
    written = [(name, str(draft.spec[name])) for name in _WRITTEN if name in draft.spec]
    usual = [
        (name, _written(draft.spec.get(name)))
        for name in ("name", "description", "na")
        if not form.text(name)
    ]
    if not form.text("name"):
        usual.append(("name", file_name.partition(".")[0]))
    return Form([*written, *(each for each in usual if each[1]), *pairs])


def _written(value: Any) -> str:
    """Return what a draft says, as a field has it: lists and labels a line each."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return "\n".join(f"{name} = {label}" for name, label in value.items())
        case list() | tuple():
            return "\n".join(map(str, value))
    return str(value)


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
    if form.text("unit_column"):
        spec["unit"] = dict(_unit(form))
    if reason := form.text("overlap"):
        spec["overlap"] = {"reason": reason}
    for name in ("delimiter", "encoding", "decimal", "thousands"):
        if given := form.raw(name):
            spec[name] = given
    if skipped := form.text("skip_rows"):
        spec["skip_rows"] = number_of(skipped)
    if stated := form.text("same_people"):
        spec["same_people"] = stated
    if account := form.text("account"):
        spec["account"] = account
    if markers := _lines(form.text("na")):
        spec["na"] = markers
    return spec


def _unit(form: Form) -> Iterator[tuple[str, Any]]:
    yield "column", _header(form, "unit_column")
    if rows := form.text("unit_max_rows"):
        yield "max_rows", number_of(rows)
    if kind := form.text("unit_id"):
        yield "id", kind
    if reduced := _lines(form.text("unit_reduce")):
        yield "reduce", dict(map(_label, reduced))


def _header(form: Form, name: str) -> str:
    """Return the text of a header as it was filled in: it may begin and end with anything."""
    return form.raw(name).replace("\r\n", "\n")


def _columns(form: Form) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for place, name in rows_of(form):
        fields = {field: form.text(f"columns.{place}.{field}") for field in (*PLACES, *READING)}
        fields["source"] = _header(form, f"columns.{place}.source")
        if fields["type"] != LEFT_OUT:
            yield name, {**dict(_column(fields)), **dict(_reading(fields))}


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
        yield "typical", number_of(typical) if kind == "boolean" else dict(numbers_by_name(typical))


def _reading(fields: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield what says how a column's cells are read, where its type has it and it is filled in."""
    for name, kinds in READING.items():
        text = fields[name]
        if not text or (kinds and fields["type"] not in kinds):
            continue
        match name:
            case "true" | "false" | "format" | "na":
                yield name, _lines(text)
            case "labels":
                yield name, dict(map(_label, _lines(text)))
            case "trim":
                if text != "yes":
                    yield name, False if text == "no" else text
            case _:
                yield name, text


def _label(line: str) -> tuple[str, str]:
    """Return the value and the label of a line such as ``1 = north``, ``1: north`` or ``1 north``.

    >>> [_label(line) for line in ("1 = north", "1: north", "a:b = c", "1 far north", "alone")]
    [('1', 'north'), ('1', 'north'), ('a:b', 'c'), ('1', 'far north'), ('alone', '')]
    """
    for sign in (" = ", "\t", "=", ":", " "):
        value, found, label = line.partition(sign)
        if found and value.strip():
            return value.strip(), label.strip()
    return line, ""


def numbers_by_name(text: str) -> Iterator[tuple[str, object]]:
    """Yield a name and a number, such as `mean 980` or `north 0.3`, of each line.

    A line without a number is yielded with an empty text, to be refused.
    """
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


def of_source(problem: Problem) -> Problem:
    """Return a refusal of a file by the field of the source that it is in."""
    errors = problem.extras.get("errors")
    if not isinstance(errors, list):
        return problem
    refused = [(str(each["field"]), str(each["message"])) for each in errors]
    return invalid_requests([("source" if f == "file" else f, text) for f, text in refused])


def _message(place: str, words: str) -> str:
    """Return what is wrong, as its field says it, which stands for all that is typical."""
    text = _ABOUT.sub("", words)
    return f"{match[1]} {text}" if (match := _WITHIN.search(place)) else text


def _named(problem: Problem, faults: Sequence[tuple[str, str]]) -> Problem:
    errors = [{"field": place, "message": words} for place, words in faults]
    return Problem(problem.code, problem.detail, errors=errors)


def _field(place: str, names: Sequence[tuple[int, str]]) -> str:
    """Return the field that a place of the spec is filled in by.

    A column is given by its position, or by its name where a field of specs has that name too.
    """
    place = _IN_REDUCE.sub("unit.reduce", place.removeprefix("spec."))
    if (match := _PLACE.fullmatch(place)) is None:
        return _FIELDS.get(place, place)
    if match["position"] is not None:
        at, rest = int(match["position"]), match["rest"]
        row = names[at][0] if at < len(names) else None
    else:
        named = match["named"]
        fits = [each for each in names if f"{named}.".startswith(f"{each[1]}.")]
        row, name = max(fits, key=lambda each: len(each[1]), default=(None, ""))
        rest = named[len(name) + 1 :]
    field = re.split(r"[.\[]", rest.removeprefix("."))[0]
    known = {*PLACES, *READING}
    return "columns" if row is None else f"columns.{row}.{field if field in known else 'type'}"
