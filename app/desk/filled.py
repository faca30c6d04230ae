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

from app.desk.building import conditions_in, prefix_of, questions_in
from app.desk.controls import DATE_PARTS, EACH_ONCE, EDGES, OUTSIDE, Field, hint_of
from app.desk.forms import Form
from app.desk.questions import WITHOUT_VALUE, derived_in, fields_of
from app.domain.problems import Problem, invalid_request
from app.web.requests.validation import unknown_choice
from mechanisms.catalog import STATISTICS
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
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
    found: dict[str, Any] = {
        "statistic": _statistic_of(form, schema),
        "epsilon": form.text("epsilon"),
        **_drawn_by(form),
    }
    if purpose := form.text("purpose"):
        found["purpose"] = purpose
    if share := form.text("inference"):
        found["inference"] = {"share": share}
    return found


def _drawn_by(form: Form) -> dict[str, Any]:
    return {
        name: chosen
        for name in ("mechanism", "norm")
        if (chosen := form.text(name)) not in ("", "auto")
    }


def _statistic_of(form: Form, schema: Schema) -> dict[str, Any]:
    kind = form.text("statistic")
    if kind not in STATISTICS:
        raise invalid_request("statistic", unknown_choice([*STATISTICS], kind))
    asked: dict[str, Any] = {"kind": kind}
    for field in fields_of(kind, schema, form):
        if " " in field.name:
            continue  # read with the field that it is a part of
        read = _READ.get(field.name)
        value = _BY_SHAPE[field.shape](form, field) if read is None else read(form, field, schema)
        if value not in (None, "", [], {}):
            asked[field.name] = value
    if asked.get("weights") == EACH_ONCE:
        asked["weights"] = None
    if edges := dict(_edges_of(form, schema)):
        asked[EDGES] = edges
    if own := {
        name: chosen for name in _counted(form) if (chosen := form.text(f"{OUTSIDE} {name}"))
    }:
        usual = {} if OUTSIDE not in asked else dict.fromkeys(edges, asked[OUTSIDE])
        asked[OUTSIDE] = {**usual, **own}
    if "formula" in asked:  # it says what these would
        for name in ("target", "time", "event", "features", "intercept"):
            asked.pop(name, None)
    return asked


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


def _read_target(form: Form, field: Field, schema: Schema) -> Any:
    column = form.text(field.name)
    return _comparison(form, field.name, column, schema) if form.text("target op") else column


def _read_where(form: Form, _: Field, schema: Schema) -> list[dict[str, Any]]:
    # one without its column is refused: to leave it out would ask something else
    return [
        _comparison(form, f"where {at}", form.text(f"where {at} column"), schema)
        for at in conditions_in(form)
    ]


_BOUNDED = re.compile(
    r"(?P<expr>.+?)(?:\s+from\s+(?P<lower>\S+))?(?:\s+to\s+(?P<upper>\S+))?", re.ASCII | re.DOTALL
)
"""A derived column's expression, and its bounds where it has narrower ones than follow."""


def _read_derive(form: Form, field: Field, _: Schema) -> dict[str, Any]:
    return derived_of(form.text(field.name))


def derived_of(text: str) -> dict[str, Any]:
    """Return the columns that lines derive, such as ``rest = income - food from 0 to 500``.

    Raises
    ------
    Problem
        ``invalid-request``: a line is none.
    """
    found: dict[str, Any] = {}
    for line in filter(str.strip, text.splitlines()):
        named, equals, expression = line.partition("=")
        if not (equals and named.strip() and expression.strip()):
            raise invalid_request("derive", "each line must be a name, =, and an expression")
        found[named.strip()] = _derived(expression.strip())
    return found


def _derived(text: str) -> Any:
    """Return an expression as a request has it.

    >>> _derived("age / 2"), _derived("log(income) from 1 to 7.5")
    ('age / 2', {'expr': 'log(income)', 'lower': 1, 'upper': 7.5})
    """
    parsed = _json_in(text)  # as earlier drafts have it
    if isinstance(parsed, dict):
        return parsed
    match = _BOUNDED.fullmatch(text)
    bounds = {} if match is None else match.groupdict()
    given = {name: _number(each) for name, each in bounds.items() if each and name != "expr"}
    plain = all(isinstance(each, int | float) for each in given.values())
    return {"expr": bounds["expr"], **given} if given and plain else text


def _read_lines(form: Form, field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in filter(str.strip, form.text(field.name).splitlines()):
        measure, equals, share = line.partition("=")
        if not equals:
            raise invalid_request(field.name, "each line must be a measure, =, and a number")
        found[measure.strip()] = _number(share.strip())
    return found


def _json_in(text: str) -> Any:
    """Return the list or object that a text is as JSON, or None."""
    try:
        return json.loads(text) if text.startswith(("[", "{")) else None
    except (ValueError, RecursionError):
        return None


def _read_margins(form: Form, field: Field, _: Schema) -> Any:
    listed = form.text(f"{field.name} listed")
    if not listed:
        return form.text(field.name)
    tables = _json_in(listed)  # where a column's name has a comma
    if tables is not None:
        return tables
    lines = filter(str.strip, listed.splitlines())
    return [[each.strip() for each in line.split(",") if each.strip()] for line in lines]


def _read_select(form: Form, field: Field) -> Any:
    """Return a choice, or the object that its members make where any is filled in."""
    members = {
        member: _number(text)
        for member in hint_of(field.name, form.text("statistic")).members
        if (text := form.text(f"{field.name} {member}"))
    }
    return members or form.text(field.name)


def _read_features(form: Form, field: Field, schema: Schema) -> list[Any]:
    """Return features: names, and what is more than a name as JSON."""
    named = form.texts(field.name)
    read = {each: _json_in(each) for each in named if each not in schema.columns}
    return [parsed if isinstance(parsed := read.get(each), dict) else each for each in named]


def _read_by(form: Form, field: Field, schema: Schema) -> list[Any]:
    """Return groups: names, and number columns with their edges where they are filled in."""
    found: list[Any] = []
    for name in form.texts(field.name):
        text = form.text(f"{field.name} {EDGES} {name}")
        if not text:
            found.append(name)
            continue
        outside = form.text(f"{field.name} {OUTSIDE} {name}")
        bands = {"column": name, EDGES: _edges_in(text, schema.columns.get(name))}
        found.append({**bands, OUTSIDE: outside} if outside else bands)
    return found


def _read_parts(form: Form, _: Field, schema: Schema) -> list[dict[str, Any]]:
    return [_part(at, each, schema) for at, each in enumerate(questions_in(form))]


def _part(at: int, question: Form, schema: Schema) -> dict[str, Any]:
    """Return a question of a stack; what cannot be read of it is refused at its place."""
    try:
        part = {"statistic": _statistic_of(question, schema), **_drawn_by(question)}
    except Problem as problem:
        raise problem.inside(f"parts[{at}]") from None
    share = _number(question.text("share"))
    return part if share == "" else {**part, "share": share}


VALUES, STEP = "values", "step"
"""How edges are written in a field that are no list."""


def _edges_of(form: Form, schema: Schema) -> Iterator[tuple[str, Any]]:
    statistic = STATISTICS.get(form.text("statistic"))
    counted = _counted(form) if EDGES in getattr(statistic, "__dataclass_fields__", ()) else ()
    for name in counted:
        text = form.text(f"{EDGES} {name}")
        if text:
            yield name, _edges_in(text, schema.columns.get(name))


def _counted(form: Form) -> Sequence[str]:
    """Return the columns whose cells are counted."""
    return [name for field in ("columns", "time", "score") for name in form.texts(field) if name]


def _edges_in(text: str, column: Column | None) -> Any:
    """Return edges as a request has them: a list, a step, or a cell for each value."""
    timed = isinstance(column, NumberColumn) and column.timed is not None
    if text == VALUES:
        return VALUES
    if text in DATE_PARTS and isinstance(column, NumberColumn) and timed:
        return _calendar(text, column)
    if text.startswith(f"{STEP} "):
        return {"step": _number(text.removeprefix(STEP).strip())}
    return [each.strip() for each in text.split(",")] if timed else _numbers_in(text)


_MONTHS: Mapping[str, int] = dict(zip(DATE_PARTS, (12, 3, 1), strict=True))


def _calendar(part: str, column: NumberColumn) -> list[str]:
    """Return the column's bounds, and the first day of each year, quarter or month between."""
    low, high = (column.shown(float(each)) for each in (column.lower, column.upper))
    first, last = (12 * int(each[:4]) + int(each[5:7]) - 1 for each in (low, high))
    found = [low]
    for month in range(first + 1, last + 1):
        day = f"{month // 12:04}-{month % 12 + 1:02}-01"
        start = day if column.timed == "date" else f"{day}T00:00:00Z"
        if month % _MONTHS[part] == 0 and low < start < high:
            found.append(start)
    return [*found, high]


def edges_at_fault(form: Form, schema: Schema) -> str:
    """Return the field of the first column whose edges are missing, or do not fit it."""
    given = dict(_edges_of(form, schema))
    for name in _counted(form):
        column = schema.columns.get(name)
        try:
            if column is not None:
                axis_of(name, column, _as_asked(given.get(name)))
        except InvalidStatisticError:
            return f"{EDGES} {name}"
    derived = [name for name in derived_in(form) if name in _counted(form)]
    return f"{EDGES} {derived[0]}" if derived else "columns"


def _as_asked(edges: Any) -> Any:
    """Return edges as a statistic has them."""
    if isinstance(edges, Mapping):
        step = edges["step"]
        return Step(step=step if isinstance(step, int | float) else nan)
    return tuple(edges) if isinstance(edges, list) else edges


def _read_known(form: Form, field: Field, _: Schema) -> dict[str, Any]:
    """Return totals by level and value, of lines such as ``north of region = 5120``."""
    found: dict[str, Any] = {}
    for line in filter(str.strip, form.text(field.name).splitlines()):
        named, equals, total = line.rpartition("=")
        value, of, level = named.rpartition(" of ")
        if not (equals and of):
            raise invalid_request(field.name, "each line must be a value, of, a level, =, a number")
        found.setdefault(level.strip(), {})[value.strip()] = _number(total.strip())
    return found


_READ: Mapping[str, Callable[[Form, Field, Schema], Any]] = {
    "target": _read_target,
    "features": _read_features,
    "margins": _read_margins,
    "known": _read_known,
    "derive": _read_derive,
    "where": _read_where,
    "by": _read_by,
    "parts": _read_parts,
}
"""How fields are read that are more than their shape says."""


def _read_check(form: Form, field: Field) -> bool | None:
    checked = form.text(field.name) == "yes"
    return checked if field.always else checked or None


_BY_SHAPE: Mapping[str, Callable[[Form, Field], Any]] = {
    "text": lambda form, field: _number(form.text(field.name)),
    "words": lambda form, field: form.text(field.name),
    "lines": _read_lines,
    "numbers": lambda form, field: _numbers_in(form.text(field.name)),
    "select": _read_select,
    "checks": lambda form, field: form.texts(field.name),
    "check": _read_check,
}


def form_of(request: Mapping[str, Any]) -> Form:
    """Return the form that is filled in as a request has it: what :func:`request_of` reads again.

    Only names and values that the form parts at their commas or ends may differ then, such as a
    category that ends in a space.
    """
    pairs = [("wanted", "epsilon"), ("epsilon", request["epsilon"])]
    pairs += [(name, request[name]) for name in ("mechanism", "norm", "purpose") if name in request]
    if "inference" in request:
        pairs.append(("inference", request["inference"]["share"]))
    return Form([*_pairs_of(request["statistic"]), *pairs])


def _pairs_of(asked: Mapping[str, Any]) -> list[tuple[str, str]]:
    kind = str(asked["kind"])
    pairs = [("statistic", kind)]
    for name, value in asked.items():
        if isinstance(value, Mapping) and hint_of(name, kind).members:
            pairs += [(f"{name} {member}", _written(each)) for member, each in value.items()]
        elif name != "kind":
            pairs += _WRITTEN.get(name, _by_value)(name, value)
    return [pair for pair in pairs if pair[1]]


Pairs = Sequence[tuple[str, str]]


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    return json.dumps(value)


def _by_value(name: str, value: Any) -> Pairs:
    """Return what a field is filled with, by what its value is."""
    match value:
        case bool():
            return [(name, "yes")] if value else []
        case list() if all(isinstance(each, str) for each in value):
            return _each(name, value)
        case list():
            return _joined(name, value)
        case Mapping():
            return _lines(name, value)
    return [(name, _written(value))]


def _lines(name: str, value: Mapping[str, Any]) -> Pairs:
    return [(name, "\n".join(f"{each} = {_written(number)}" for each, number in value.items()))]


def _each(name: str, values: Sequence[Any]) -> Pairs:
    return [(name, _written(value)) for value in values]


def _written_weights(name: str, weights: str | None) -> Pairs:
    return [(name, EACH_ONCE if weights is None else weights)]


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
    return [(f"{name} {column}", _edges_text(each)) for column, each in edges.items()]


def _edges_text(edges: Any) -> str:
    if isinstance(edges, Mapping):
        return f"{STEP} {_written(edges['step'])}"
    return edges if isinstance(edges, str) else ", ".join(map(_written, edges))


def _written_outside(name: str, outside: Any) -> Pairs:
    if isinstance(outside, str):
        return [(name, outside)]
    return [(f"{name} {column}", each) for column, each in outside.items()]


def _written_derive(name: str, derived: Mapping[str, Any]) -> Pairs:
    return [(name, lines_of(derived))]


def lines_of(derived: Mapping[str, Any]) -> str:
    """Return the lines that :func:`derived_of` reads as these columns."""
    return "\n".join(f"{name} = {_derived_text(each)}" for name, each in derived.items())


def _derived_text(derived: Any) -> str:
    if isinstance(derived, str):
        return derived
    bounds = [
        f" {word} {_written(derived[name])}"
        for name, word in (("lower", "from"), ("upper", "to"))
        if derived.get(name) is not None
    ]
    return "".join([derived["expr"], *bounds])


def _written_by(name: str, groups: Sequence[Any]) -> Pairs:
    found: list[tuple[str, str]] = []
    for each in groups:
        if isinstance(each, str):
            found.append((name, each))
            continue
        column = each["column"]
        found += [(name, column), (f"{name} {EDGES} {column}", _edges_text(each[EDGES]))]
        if OUTSIDE in each:
            found.append((f"{name} {OUTSIDE} {column}", each[OUTSIDE]))
    return found


def _written_parts(_: str, parts: Sequence[Mapping[str, Any]]) -> Pairs:
    return [
        (f"{prefix_of(at)}{name}", value)
        for at, part in enumerate(parts)
        for name, value in _part_pairs(part)
    ]


def _part_pairs(part: Mapping[str, Any]) -> Pairs:
    more = [(name, _written(part[name])) for name in ("share", "mechanism", "norm") if name in part]
    return [*_pairs_of(part["statistic"]), *more]


def _written_margins(name: str, margins: Any) -> Pairs:
    if isinstance(margins, str):
        return [(name, margins)]
    plain = all("," not in each and each == each.strip() for table in margins for each in table)
    lines = "\n".join(", ".join(table) for table in margins)
    return [(f"{name} listed", lines if plain else _written(margins))]


def _written_known(name: str, known: Mapping[str, Mapping[str, Any]]) -> Pairs:
    lines = [
        f"{value} of {level} = {_written(total)}"
        for level, totals in known.items()
        for value, total in totals.items()
    ]
    return [(name, "\n".join(lines))]


_WRITTEN: Mapping[str, Callable[[str, Any], Pairs]] = {
    "weights": _written_weights,
    "features": _each,
    "by": _written_by,
    "target": _written_target,
    "where": _written_where,
    "edges": _written_edges,
    "outside": _written_outside,
    "derive": _written_derive,
    "parts": _written_parts,
    "margins": _written_margins,
    "known": _written_known,
}
