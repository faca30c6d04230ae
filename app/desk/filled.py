"""A question's form and a request that say the same: read from one another, both ways.

What a form cannot be read as at all is refused here; what makes a request sound is judged where
every request is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan
from typing import Any

from app.desk.forms import Form
from app.desk.questions import EDGES, WITHOUT_VALUE, conditions_in, derived_in, fields_of
from app.domain.problems import invalid_request
from app.web.requests.validation import unknown_choice
from mechanisms.catalog import STATISTICS
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.statistics.cells.axes import Step, axis_of

_NUMBER = re.compile(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$", re.ASCII)
_WHOLE = 1e15  # below it a float that is whole is written without a point


def request_of(form: Form, schema: Schema) -> dict[str, Any]:
    """Return the request that a filled form makes, ready for JSON.

    Raises
    ------
    Problem
        ``invalid-request``: no such statistic, or a field that cannot be read at all.
    """
    kind = form.text("statistic")
    if kind not in STATISTICS:
        raise invalid_request("statistic", unknown_choice([*STATISTICS], kind))
    asked: dict[str, Any] = {"kind": kind}
    for field in fields_of(kind, schema, form):
        if field.name.startswith(("edges ", "target ")):
            continue  # read with the field that they are part of
        value = _READ.get(field.name, _number_or_text)(form, field.name, schema)
        if value not in (None, "", [], {}):
            asked[field.name] = value
    if edges := dict(_edges_of(form, schema)):
        asked["edges"] = edges
    if "formula" in asked:  # it says what these would
        for name in ("target", "features", "intercept"):
            asked.pop(name, None)
    found: dict[str, Any] = {"statistic": asked, "epsilon": form.text("epsilon")}
    for name in ("mechanism", "norm"):
        if (chosen := form.text(name)) not in ("", "auto"):
            found[name] = chosen
    if purpose := form.text("purpose"):
        found["purpose"] = purpose
    if share := form.text("inference"):
        found["inference"] = {"share": share}
    return found


def _number(text: str) -> Any:
    """Return what a text is as JSON: a number where it is one."""
    return json.loads(text.lstrip("+")) if _is_json_number(text) else text


def _is_json_number(text: str) -> bool:
    if not _NUMBER.fullmatch(text):
        return False
    try:
        number = json.loads(text.lstrip("+"))
    except ValueError:  # such as 01 and .5, which people write
        return False
    return bool(
        abs(number) <= sys.float_info.max
    )  # else no request can hold it, and no field is named


def _value(text: str, name: str, schema: Schema) -> Any:
    """Return what a column is compared with, by the column's kind."""
    column = schema.columns.get(name)  # none of this name: it is derived
    if isinstance(column, CategoryColumn):
        return text
    if (column is None or column.boolean) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return _number(text) if column is None or column.timed is None else text


def _numbers_in(text: str) -> list[Any]:
    return [_number(each.strip()) for each in text.split(",") if each.strip()]


def _number_or_text(form: Form, name: str, _: Schema) -> Any:
    return _number(form.text(name))


def _comparison(form: Form, at: str, name: str, schema: Schema) -> dict[str, Any]:
    op, text = form.text(f"{at} op"), form.text(f"{at} value")
    if op in WITHOUT_VALUE and not text:
        return {"column": name, "op": op}
    if op != "in":
        return {"column": name, "op": op, "value": _value(text, name, schema)}
    several = _json_in(text)  # where a value has a comma itself
    if not isinstance(several, list):
        several = [_value(each.strip(), name, schema) for each in text.split(",")]
    return {"column": name, "op": op, "value": several}


def _read_target(form: Form, name: str, schema: Schema) -> Any:
    column = form.text(name)
    return _comparison(form, name, column, schema) if form.text("target op") else column


def _read_where(form: Form, _: str, schema: Schema) -> list[dict[str, Any]]:
    # one without its column is refused: to leave it out would ask something else
    return [
        _comparison(form, f"where {at}", form.text(f"where {at} column"), schema)
        for at in conditions_in(form)
    ]


def _read_derive(form: Form, name: str, _: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in filter(str.strip, form.text(name).splitlines()):
        named, equals, expression = line.partition("=")
        if not (equals and named.strip() and expression.strip()):
            raise invalid_request("derive", "each line must be a name, =, and an expression")
        parsed = _json_in(expression.strip())  # an expression within bounds
        found[named.strip()] = parsed if isinstance(parsed, dict) else expression.strip()
    return found


def _json_in(text: str) -> Any:
    """Return the list or object that a text is as JSON, or None."""
    try:
        return json.loads(text) if text.startswith(("[", "{")) else None
    except (ValueError, RecursionError):
        return None


def _read_features(form: Form, name: str, schema: Schema) -> list[Any]:
    """Return features: names, and what is more than a name as JSON."""
    read = {each: _json_in(each) for each in form.texts(name) if each not in schema.columns}
    return [
        parsed if isinstance(parsed := read.get(each), dict) else each for each in form.texts(name)
    ]


def _read_parts(form: Form, name: str, _: Schema) -> Any:
    try:
        parsed = json.loads(form.text(name) or "[]")
        json.dumps(parsed, allow_nan=False)
    except (ValueError, RecursionError):
        raise invalid_request("parts", "is not JSON, or has a number that is too large") from None
    return parsed


VALUES, STEP = "values", "step"
"""How edges are written in a field that are no list."""


def _edges_of(form: Form, schema: Schema) -> Iterator[tuple[str, Any]]:
    statistic = STATISTICS.get(form.text("statistic"))
    counted = form.texts("columns") if statistic is not None and statistic.has_cells else ()
    for name in counted:
        column = schema.columns.get(name)
        timed = isinstance(column, NumberColumn) and column.timed is not None
        text = form.text(f"edges {name}")
        if text:
            yield name, _edges_in(text, timed=timed)


def _edges_in(text: str, *, timed: bool) -> Any:
    """Return edges as a request has them: a list, a step, or a cell for each value."""
    if text == VALUES:
        return VALUES
    if text.startswith(f"{STEP} "):
        return {"step": _number(text.removeprefix(STEP).strip())}
    return [each.strip() for each in text.split(",")] if timed else _numbers_in(text)


def edges_at_fault(form: Form, schema: Schema) -> str:
    """Return the field of the first column whose edges are missing, or do not fit it."""
    given = dict(_edges_of(form, schema))
    for name in form.texts("columns"):
        column = schema.columns.get(name)
        try:
            if column is not None:
                axis_of(name, column, _as_asked(given.get(name)))
        except InvalidStatisticError:
            return f"{EDGES} {name}"
    derived = [name for name in derived_in(form) if name in form.texts("columns")]
    return f"{EDGES} {derived[0]}" if derived else "columns"


def _as_asked(edges: Any) -> Any:
    """Return edges as a statistic has them."""
    if isinstance(edges, Mapping):
        step = edges["step"]
        return Step(step=step if isinstance(step, int | float) else nan)
    return tuple(edges) if isinstance(edges, list) else edges


_READ: Mapping[str, Callable[[Form, str, Schema], Any]] = {
    "columns": lambda form, name, _: form.texts(name),
    "column": lambda form, name, _: form.text(name),
    "target": _read_target,
    "features": _read_features,
    "intercept": lambda form, name, _: form.text(name) == "yes",
    "weights": lambda form, name, _: form.text(name),
    "formula": lambda form, name, _: form.text(name),
    "levels": lambda form, name, _: _numbers_in(form.text(name)),
    "derive": _read_derive,
    "where": _read_where,
    "by": lambda form, name, _: form.texts(name),
    "parts": _read_parts,
}


def form_of(request: Mapping[str, Any]) -> Form:
    """Return the form that is filled in as a request has it: what :func:`request_of` reads again.

    Only names and values that the form parts at their commas or ends may differ then, such as a
    category that ends in a space.
    """
    asked = request["statistic"]
    pairs = [("statistic", asked["kind"]), ("wanted", "epsilon"), ("epsilon", request["epsilon"])]
    pairs += [(name, request[name]) for name in ("mechanism", "norm", "purpose") if name in request]
    if "inference" in request:
        pairs.append(("inference", request["inference"]["share"]))
    for name, value in asked.items():
        if name != "kind":
            pairs += _WRITTEN.get(name, _alone)(name, value)
    return Form(pairs)


Pairs = Sequence[tuple[str, str]]


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    return json.dumps(value)


def _alone(name: str, value: Any) -> Pairs:
    return [(name, _written(value))]


def _each(name: str, values: Sequence[Any]) -> Pairs:
    return [(name, _written(value)) for value in values]


def _joined(name: str, values: Sequence[Any]) -> Pairs:
    return [(name, ", ".join(map(_written, values)))]


def _compared(at: str, condition: Mapping[str, Any]) -> Pairs:
    value = condition.get("value")
    compared = [(f"{at} op", condition["op"])]
    return compared if value is None else [*compared, (f"{at} value", _several(value))]


def _several(value: Any) -> str:
    """Return what a column is compared with; several values as JSON where commas will not do."""
    if not isinstance(value, list):
        return _written(value)
    parts = [_written(each) for each in value]
    plain = all(part == part.strip() and "," not in part for part in parts)
    if plain and not parts[0].startswith("["):
        return ", ".join(parts)
    return json.dumps(value, ensure_ascii=False)


def _written_target(name: str, target: Any) -> Pairs:
    if isinstance(target, str):
        return [(name, target)]
    return [(name, target["column"]), *_compared(name, target)]


def _written_where(name: str, conditions: Sequence[Mapping[str, Any]]) -> Pairs:
    return [
        pair
        for at, each in enumerate(conditions)
        for pair in ((f"{name} {at} column", each["column"]), *_compared(f"{name} {at}", each))
    ]


def _written_edges(name: str, edges: Mapping[str, Any]) -> Pairs:
    found: list[tuple[str, str]] = []
    for column, each in edges.items():
        field = f"{name} {column}"
        if isinstance(each, str):
            found.append((field, each))
        elif isinstance(each, Mapping):
            found.append((field, f"{STEP} {_written(each['step'])}"))
        else:
            found += _joined(field, each)
    return found


def _written_derive(name: str, derived: Mapping[str, Any]) -> Pairs:
    return [(name, "\n".join(f"{column} = {_written(each)}" for column, each in derived.items()))]


def _written_parts(name: str, parts: Sequence[Any]) -> Pairs:
    return [(name, json.dumps(parts, indent=1, ensure_ascii=False))]


def _written_intercept(name: str, included: bool) -> Pairs:
    return [(name, "yes")] if included else []


_WRITTEN: Mapping[str, Callable[[str, Any], Pairs]] = {
    "columns": _each,
    "features": _each,
    "by": _each,
    "levels": _joined,
    "target": _written_target,
    "where": _written_where,
    "edges": _written_edges,
    "derive": _written_derive,
    "parts": _written_parts,
    "intercept": _written_intercept,
}
