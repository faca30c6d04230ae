"""The form of a question: which fields a statistic has, and what they are called.

The fields are the catalog's parameters, in its order. What makes a request sound is judged where
every request is, and what is wrong comes back by the names of the request; :func:`at_fields`
says which field of the form that is. How a filled form and a request say the same is described in
:mod:`app.desk.filled`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import Any, Literal

from app.desk.forms import EMPTY, FORM_KEY, Form
from app.domain.problems import Problem, invalid_requests
from app.services.plans.questions import KINDS
from mechanisms.catalog import STATISTICS, offers
from mechanisms.contract import FieldHint
from mechanisms.domain import CategoryColumn, NumberColumn, Schema

CONDITIONS = 3
"""How many conditions an empty form has room for."""
OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in")
WITHOUT_VALUE = ("present", "missing")
"""Operators of conditions alone, which take no value."""
EDGES = "edges"
"""What a request calls the edges of all its columns, each of which has a field of its own."""
MISSING_SHARES = "assume_missing"
"""The field that says which shares of cells a preview assumes to be missing."""
_LABELS: Mapping[str, str] = {
    "accuracy": "Margin of error (±)",
    "inference": "Share for standard errors",
    MISSING_SHARES: "Assumed share of missing cells",
    FORM_KEY: "The form",
}
_SENT_BEFORE = (
    "was sent before with another question, which was asked then; look at this one, and send it now"
)
_FEW = ("mechanism", "norm", "inference", MISSING_SHARES)
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


def fields_of(kind: str, schema: Schema, form: Form = EMPTY) -> Sequence[Field]:
    """Return the fields of a statistic's form, for the columns of a data set.

    Columns that a filled ``form`` derives, and what else it has chosen, are choices too.
    """
    first = next(offer for offer in offers() if offer.statistic == kind)
    derived = derived_in(form)
    found = [
        _widened(field, derived, form)
        for parameter in first.parameters
        for field in _FIELDS.get(parameter.name, _text)(parameter.name, kind, schema)
    ]
    if STATISTICS[kind].has_cells:
        found += [_edges_field(name) for name in derived]
    shown = [field for field in found if field.options or field.name != "by"]
    return sorted(shown, key=lambda field: field.more)


def derived_in(form: Form) -> Sequence[str]:
    """Return the names of the columns that a form derives."""
    lines = [line.partition("=") for line in form.text("derive").splitlines()]
    return [name.strip() for name, equals, _ in lines if equals and name.strip()]


def room_of(form: Form) -> range:
    """Return the places of a form's conditions: some more than an empty form has, where filled."""
    names = {name for name, _ in form.pairs}
    filled = takewhile(lambda at: f"where {at} column" in names, count())
    return range(max(CONDITIONS, len([*filled])))


def conditions_in(form: Form) -> Sequence[int]:
    """Return the places of the conditions of which anything is filled in.

    >>> conditions_in(Form([("where 0 column", ""), ("where 1 column", ""), ("where 1 op", "<")]))
    [1]
    """
    parts = ("column", "op", "value")
    return [at for at in room_of(form) if any(form.text(f"where {at} {part}") for part in parts)]


def _widened(field: Field, derived: Sequence[str], form: Form) -> Field:
    """Return a field whose choices are columns with those that are derived or chosen as well."""
    if field.shape not in ("checks", "select", "conditions") or field.name == "target op":
        return field
    chosen = form.texts(field.name)
    if field.shape == "conditions":
        chosen = [form.text(f"where {at} column") for at in room_of(form)]
    known = dict(field.options)
    more = dict.fromkeys(name for name in (*derived, *chosen) if name and name not in known)
    return replace(field, options=[*field.options, *((name, _called(name)) for name in more)])


def _called(choice: str) -> str:
    """Return what a choice is called: what is more than a column's name is written as JSON.

    >>> _called("income"), _called('{"product": ["age", {"expr": "log(income)"}]}')
    ('income', 'age × log(income)')
    """
    try:
        parsed = json.loads(choice) if choice.startswith("{") else choice
    except (ValueError, RecursionError):
        return choice
    return _factor(parsed)


def _factor(factor: Any) -> str:
    if not isinstance(factor, Mapping):
        return str(factor)
    if isinstance(factors := factor.get("product"), list):
        return " × ".join(map(_factor, factors))
    if reference := factor.get("reference"):
        return f"{factor.get('column')}, reference {reference}"
    return str(factor.get("expr") or factor.get("column") or json.dumps(factor))


def labels_of(fields: Sequence[Field], form: Form = EMPTY) -> Mapping[str, str]:
    """Return what the fields of a question's form are called."""
    conditions = {
        f"where {at} {part}": f"Condition {at + 1} {label}"
        for at in room_of(form)
        for part, label in (("column", "column"), ("op", "comparison"), ("value", "value"))
    }
    return {**_LABELS, **conditions, **{field.name: field.label for field in fields}}


def opened(form: Form, fields: Sequence[Field], wrong: Collection[str]) -> bool:
    """Say whether the fields that few questions need are to be seen: one is filled in or wrong."""
    given = {name for name, value in form.pairs if value not in ("", "auto")}
    named = {name.partition(" ")[0] for name in (*given, *wrong)}
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
    names = list(schema.columns) if STATISTICS[kind].has_cells else _numbers(schema)
    return [Field(name=name, label="Columns", shape="checks", options=_named(names))]


def _column(name: str, _: str, schema: Schema) -> list[Field]:
    options = _named(_numbers(schema))
    return [Field(name=name, label="Column", shape="select", options=options)]


def _edges(_: str, __: str, schema: Schema) -> list[Field]:
    return [
        _edges_field(name)
        for name, each in schema.columns.items()
        if isinstance(each, NumberColumn) and not each.boolean
    ]


def _edges_field(name: str) -> Field:
    usual = (
        "Increasing, separated by commas: 0, 18, 65. Or “step 5” for edges at equal distances, or "
        "“values” for a cell for each whole number."
    )
    return Field(name=f"edges {name}", label=f"{name} edges", shape="text", help=usual)


def _outside(name: str, _: str, __: Schema) -> list[Field]:
    options = [("", "counted in cells of their own"), ("drop", "left out")]
    return [
        Field(
            name=name, label="Values outside the edges", shape="select", options=options, more=True
        )
    ]


def _target(name: str, kind: str, schema: Schema) -> list[Field]:
    options = [("", "–"), *_named(_numbers(schema))]
    if not STATISTICS[kind].compares_target:
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


def _missing(name: str, kind: str, schema: Schema) -> list[Field]:
    if not schema.optional:
        return []
    options = [("", "Leave out records without all values")]
    if STATISTICS[kind].column_by_column:
        options.append(("available", "Each column’s own records"))
    options.append(("cell", "Count missing values of categories"))
    return [Field(name=name, label="Missing values", shape="select", options=options, more=True)]


def _weights(name: str, _: str, schema: Schema) -> list[Field]:
    weighing = [
        each
        for each, column in schema.columns.items()
        if isinstance(column, NumberColumn) and column.lower >= 0 and not column.boolean
    ]
    options = [("", "each record counts once"), *_named(weighing)]
    return [Field(name=name, label="Weights", shape="select", options=options, more=True)]


def _derive(name: str, _: str, __: Schema) -> list[Field]:
    usual = "One a line: log_income = log(income + 1). A preview shows them among the columns."
    return [Field(name=name, label="Derived columns", shape="area", help=usual, more=True)]


def _where(name: str, kind: str, schema: Schema) -> list[Field]:
    usual = 'Only records that meet all of these count. For "in", separate values with commas.'
    options = [("", "–"), *_named(list(schema.columns))]
    return [
        Field(
            name=name,
            label="Conditions",
            shape="conditions",
            help=usual,
            options=options,
            more=not STATISTICS[kind].usually_conditioned,
        )
    ]


def _by(name: str, _: str, schema: Schema) -> list[Field]:
    usual = "An answer for each combination of their values."
    options = _named(_parted(schema))
    return [
        Field(name=name, label="Groups", shape="checks", help=usual, options=options, more=True)
    ]


def _parts(name: str, _: str, __: Schema) -> list[Field]:
    usual = "A list as JSON, each part with a statistic and a share."
    return [Field(name=name, label="Parts", shape="area", help=usual)]


def _text(name: str, kind: str, _: Schema) -> list[Field]:
    usual = FieldHint(name.replace("_", " ").capitalize(), "")
    hint = STATISTICS[kind].hints.get(name, usual)
    return [Field(name=name, label=hint.label, shape="text", help=hint.help, more=hint.rare)]


_FIELDS: Mapping[str, Callable[[str, str, Schema], list[Field]]] = {
    "columns": _columns,
    "column": _column,
    "edges": _edges,
    "outside": _outside,
    "target": _target,
    "features": _features,
    "intercept": _intercept,
    "weights": _weights,
    "derive": _derive,
    "missing": _missing,
    "where": _where,
    "by": _by,
    "parts": _parts,
}


def at_fields(problem: Problem, form: Form) -> Problem:
    """Return a refusal whose places are the fields of the form that it is about."""
    errors = problem.extras.get("errors")
    about = _AT.get(str(problem.extras.get("rule", problem.code)))
    if about is not None:
        return Problem(
            problem.code, problem.detail, errors=[{"field": about, "message": problem.detail}]
        )
    if problem.code == "idempotency-key-reused":
        return invalid_requests([(FORM_KEY, _SENT_BEFORE)])
    if problem.code != "invalid-request" or not isinstance(errors, list):
        return problem
    return invalid_requests([(_field_named(e["field"], form), e["message"]) for e in errors])


def _field_named(place: str, form: Form) -> str:
    inner = place.removeprefix("body.").removeprefix("statistic.")
    if found := re.match(r"where\[(\d+)\]\.?(\w*)", inner):
        condition = f"where {conditions_in(form)[int(found[1])]}"
        about = "value" if form.text(f"{condition} column") else "column"
        return f"{condition} {found[2] or about}"
    if found := re.match(r"target\.(\w+)", inner):
        return "target" if found[1] == "column" else f"target {found[1]}"
    if inner.startswith("assume.missing"):
        return MISSING_SHARES
    if found := re.match(r"edges\.([^\[]+)", inner):
        return f"edges {found[1]}"
    return re.split(r"[.\[]", inner, maxsplit=1)[0]
