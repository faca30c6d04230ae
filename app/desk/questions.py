"""The form of a question: which fields a statistic has, and the request that a filled one makes.

The fields are the catalog's parameters, in its order. What makes a request sound is judged where
every request is, and what is wrong comes back by the names of the request; :func:`at_fields`
says which field of the form that is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.desk.forms import FORM_KEY, Form
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.services.plans.questions import KINDS
from mechanisms.catalog import STATISTICS, offers
from mechanisms.domain import CategoryColumn, NumberColumn, Schema

CONDITIONS = 3
"""How many conditions the form has room for."""
OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in")
_NUMBER = re.compile(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$", re.ASCII)
_TEXTS: Mapping[str, tuple[str, str]] = {
    "levels": ("Levels", "Between 0 and 1, with commas between them: 0.25, 0.5, 0.75."),
    "tau": ("Level", "Between 0 and 1; 0.5 fits the median. Empty: 0.5."),
    "bound": (
        "Bound",
        "Limit of the coefficients' absolute sum in scaled columns. Empty: the usual one.",
    ),
    "ridge": ("Ridge", "Penalty in scaled columns. Empty: the mechanism's public rule."),
    "q": ("Share of the tilt", "Of objective perturbation: 0.001 to 0.999. Empty: a public rule."),
    "formula": (
        "Formula",
        "As R writes it, in place of target, features and intercept: food ~ log(income) + region.",
    ),
}
"""Fields of one line, with their labels and help."""
_LABELS: Mapping[str, str] = {
    "accuracy": "Half-width",
    "inference": "Share for standard errors",
    FORM_KEY: "The form",
}
_FEW = ("mechanism", "norm", "inference")
"""Fields that every statistic has and few questions need."""
_AT: Mapping[str, str] = {"budget-exceeded": "epsilon", "max_epsilon_per_release": "epsilon"}
"""Which field a refusal is about that names none: by its code, or by the rule that refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of the form; ``options`` are pairs of a value and what is shown for it."""

    name: str
    label: str
    shape: Literal["text", "area", "select", "checks", "check", "conditions"]
    help: str = ""
    options: Sequence[tuple[str, str]] = ()
    more: bool = False
    """Whether few questions need it."""


def kinds() -> Sequence[tuple[str, str]]:
    """Return every statistic, as pairs of its kind and its name in words."""
    return [(kind, kind.replace("_", " ")) for kind in KINDS]


def summary_of(kind: str) -> str:
    """Return the catalog's sentence about a statistic."""
    return next(offer.summary for offer in offers() if offer.statistic == kind)


def fields_of(kind: str, schema: Schema) -> Sequence[Field]:
    """Return the fields of a statistic's form, for the columns of a data set."""
    first = next(offer for offer in offers() if offer.statistic == kind)
    found = [
        field
        for parameter in first.parameters
        for field in _FIELDS.get(parameter.name, _text)(parameter.name, kind, schema)
    ]
    return sorted(found, key=lambda field: field.more)


def labels_of(fields: Sequence[Field]) -> Mapping[str, str]:
    """Return what the fields of a question's form are called."""
    conditions = {
        f"where {at} {part}": f"Condition {at + 1} {label}"
        for at in range(CONDITIONS)
        for part, label in (("column", "column"), ("op", "comparison"), ("value", "value"))
    }
    return {**_LABELS, **conditions, **{field.name: field.label for field in fields}}


def opened(form: Form, fields: Sequence[Field], wrong: Collection[str]) -> bool:
    """Say whether the fields that few questions need are to be seen: one is filled in or wrong."""
    told = {name for name, value in form.pairs if value not in ("", "auto")}
    named = {name.partition(" ")[0] for name in (*told, *wrong)}
    return not named.isdisjoint((*_FEW, *(field.name for field in fields if field.more)))


def choices_of(kind: str) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]]:
    """Return the mechanisms and the norms that may be chosen for a statistic."""
    mine = [offer for offer in offers() if offer.statistic == kind]
    mechanisms = dict.fromkeys(offer.mechanism for offer in mine)
    norms = dict.fromkeys(norm for offer in mine for norm in offer.norms)
    auto = ("auto", "automatic")
    return (
        [auto, *((name, name.replace("_", " ")) for name in mechanisms if name != "composition")],
        [auto, *((name, name) for name in norms)],
    )


def _named(names: Sequence[str]) -> Sequence[tuple[str, str]]:
    return [(name, name) for name in names]


def _numbers(schema: Schema) -> list[str]:
    return [name for name, each in schema.columns.items() if isinstance(each, NumberColumn)]


def _parted(schema: Schema) -> list[str]:
    """Return the columns whose values make groups without edges."""
    return [
        name
        for name, each in schema.columns.items()
        if isinstance(each, CategoryColumn) or each.boolean
    ]


def _columns(name: str, kind: str, schema: Schema) -> list[Field]:
    names = list(schema.columns) if kind == "histogram" else _numbers(schema)
    return [Field(name=name, label="Columns", shape="checks", options=_named(names))]


def _column(name: str, _: str, schema: Schema) -> list[Field]:
    options = _named(_numbers(schema))
    return [Field(name=name, label="Column", shape="select", options=options)]


def _edges(_: str, __: str, schema: Schema) -> list[Field]:
    usual = "Increasing, with commas between them: 0, 18, 65."
    return [
        Field(name=f"edges {name}", label=f"{name} edges", shape="text", help=usual)
        for name, each in schema.columns.items()
        if isinstance(each, NumberColumn) and not each.boolean
    ]


def _target(name: str, kind: str, schema: Schema) -> list[Field]:
    options = [("", "–"), *_named(_numbers(schema))]
    if kind != "logistic_regression":
        return [Field(name=name, label="Target", shape="select", options=options)]
    options = [("", "–"), *_named(list(schema.columns))]
    return [
        Field(
            name=name,
            label="Target",
            shape="select",
            options=options,
            help="A boolean column; any other with a comparison that makes it true or false.",
        ),
        Field(
            name="target op",
            label="Target comparison",
            shape="select",
            options=[("", "is true"), *_named(OPERATORS)],
        ),
        Field(name="target value", label="Target value", shape="text"),
    ]


def _features(name: str, _: str, schema: Schema) -> list[Field]:
    usual = "A category is compared with its first value; products and logs are for the formula."
    options = _named(list(schema.columns))
    return [Field(name=name, label="Features", shape="checks", options=options, help=usual)]


def _intercept(name: str, _: str, __: Schema) -> list[Field]:
    return [Field(name=name, label="Intercept", shape="check")]


def _weights(name: str, _: str, schema: Schema) -> list[Field]:
    weighing = [
        each
        for each, column in schema.columns.items()
        if isinstance(column, NumberColumn) and column.lower >= 0 and not column.boolean
    ]
    options = [("", "each record counts once"), *_named(weighing)]
    return [Field(name=name, label="Weights", shape="select", options=options, more=True)]


def _derive(name: str, _: str, __: Schema) -> list[Field]:
    usual = "One a line: log_income = log(income + 1)."
    return [Field(name=name, label="Derived columns", shape="area", help=usual, more=True)]


def _where(name: str, kind: str, schema: Schema) -> list[Field]:
    usual = "Only records that meet all of these count. With in, commas stand between values."
    options = [("", "–"), *_named(list(schema.columns))]
    return [
        Field(
            name=name,
            label="Conditions",
            shape="conditions",
            help=usual,
            options=options,
            more=kind != "count",
        )
    ]


def _by(name: str, _: str, schema: Schema) -> list[Field]:
    names = _parted(schema)
    if not names:
        return []
    usual = "An answer for each combination of their values."
    options = _named(names)
    return [
        Field(name=name, label="Groups", shape="checks", help=usual, options=options, more=True)
    ]


def _parts(name: str, _: str, __: Schema) -> list[Field]:
    usual = "A list as JSON, each part with a statistic and a share."
    return [Field(name=name, label="Parts", shape="area", help=usual)]


def _text(name: str, _: str, __: Schema) -> list[Field]:
    label, usual = _TEXTS.get(name, (name.replace("_", " ").capitalize(), ""))
    more = name in ("bound", "ridge", "q", "formula")
    return [Field(name=name, label=label, shape="text", help=usual, more=more)]


_FIELDS: Mapping[str, Callable[[str, str, Schema], list[Field]]] = {
    "columns": _columns,
    "column": _column,
    "edges": _edges,
    "target": _target,
    "features": _features,
    "intercept": _intercept,
    "weights": _weights,
    "derive": _derive,
    "where": _where,
    "by": _by,
    "parts": _parts,
}


def request_of(form: Form, schema: Schema) -> dict[str, Any]:
    """Return the request that a filled form makes, ready for JSON.

    Raises
    ------
    Problem
        ``invalid-request``: no such statistic, or a field that cannot be read at all.
    """
    kind = form.text("statistic")
    if kind not in STATISTICS:
        raise invalid_request("statistic", "is not one of the catalog's")
    asked: dict[str, Any] = {"kind": kind}
    for field in fields_of(kind, schema):
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
        json.loads(text.lstrip("+"))
    except ValueError:  # such as 01 and .5, which people write
        return False
    return True


def _value(text: str, name: str, schema: Schema) -> Any:
    """Return what a column is compared with, by the column's kind."""
    column = schema.columns.get(name)
    if isinstance(column, NumberColumn) and column.boolean and text.lower() in ("true", "false"):
        return text.lower() == "true"
    plain = isinstance(column, NumberColumn) and column.timed is None
    return _number(text) if plain else text


def _numbers_in(text: str) -> list[Any]:
    return [_number(each.strip()) for each in text.split(",") if each.strip()]


def _number_or_text(form: Form, name: str, _: Schema) -> Any:
    return _number(form.text(name))


def _comparison(form: Form, at: str, name: str, schema: Schema) -> dict[str, Any]:
    op, text = form.text(f"{at} op"), form.text(f"{at} value")
    several = [_value(each.strip(), name, schema) for each in text.split(",")]
    return {
        "column": name,
        "op": op,
        "value": several if op == "in" else _value(text, name, schema),
    }


def _read_target(form: Form, name: str, schema: Schema) -> Any:
    column = form.text(name)
    return _comparison(form, name, column, schema) if form.text("target op") else column


def _read_where(form: Form, _: str, schema: Schema) -> list[dict[str, Any]]:
    return [
        _comparison(form, f"where {at}", name, schema)
        for at in range(CONDITIONS)
        if (name := form.text(f"where {at} column"))
    ]


def _read_derive(form: Form, name: str, _: Schema) -> dict[str, str]:
    found = {}
    for line in filter(str.strip, form.text(name).splitlines()):
        named, equals, expression = line.partition("=")
        if not (equals and named.strip() and expression.strip()):
            raise invalid_request("derive", "each line must be a name, =, and an expression")
        found[named.strip()] = expression.strip()
    return found


def _read_parts(form: Form, name: str, _: Schema) -> Any:
    try:
        return json.loads(form.text(name) or "[]")
    except (ValueError, RecursionError):
        raise invalid_request("parts", "is not JSON") from None


def _edges_of(form: Form, schema: Schema) -> Iterator[tuple[str, list[Any]]]:
    counted = form.texts("columns") if form.text("statistic") == "histogram" else ()
    for name in counted:
        column = schema.columns.get(name)
        timed = isinstance(column, NumberColumn) and column.timed is not None
        text = form.text(f"edges {name}")
        if text:
            words = [each.strip() for each in text.split(",")]
            yield name, [*words] if timed else _numbers_in(text)


_READ: Mapping[str, Callable[[Form, str, Schema], Any]] = {
    "columns": lambda form, name, _: form.texts(name),
    "column": lambda form, name, _: form.text(name),
    "target": _read_target,
    "features": lambda form, name, _: form.texts(name),
    "intercept": lambda form, name, _: form.text(name) == "yes",
    "weights": lambda form, name, _: form.text(name),
    "formula": lambda form, name, _: form.text(name),
    "levels": lambda form, name, _: _numbers_in(form.text(name)),
    "derive": _read_derive,
    "where": _read_where,
    "by": lambda form, name, _: form.texts(name),
    "parts": _read_parts,
}


def at_fields(problem: Problem) -> Problem:
    """Return a refusal whose places are the fields of the form."""
    errors = problem.extras.get("errors")
    about = _AT.get(str(problem.extras.get("rule", problem.code)))
    if about is not None:
        return Problem(
            problem.code, problem.detail, errors=[{"field": about, "message": problem.detail}]
        )
    if problem.code != "invalid-request" or not isinstance(errors, list):
        return problem
    return invalid_requests([(_field_named(e["field"]), e["message"]) for e in errors])


def _field_named(place: str) -> str:
    inner = place.removeprefix("body.").removeprefix("statistic.")
    if found := re.match(r"where\[(\d+)\]\.?(\w*)", inner):
        return f"where {found[1]} {found[2] or 'value'}"
    if found := re.match(r"target\.(\w+)", inner):
        return "target" if found[1] == "column" else f"target {found[1]}"
    if found := re.match(r"edges\.([^\[]+)", inner):
        return f"edges {found[1]}"
    return re.split(r"[.\[]", inner, maxsplit=1)[0]
