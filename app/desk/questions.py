"""The form of a question: which fields a statistic has, and what they are called.

The fields are the catalog's parameters, in its order. What makes a request sound is judged where
every request is, and what is wrong comes back by the names of the request; :func:`at_fields`
says which field of the form that is. How a filled form and a request say the same is described in
:mod:`app.desk.filled`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.desk.building import (
    conditions_in,
    prefix_of,
    questions_in,
    room_of,
    with_questions,
)
from app.desk.controls import (
    EDGES,
    OUTSIDE,
    PARTS,
    Field,
    all_of,
    band_fields,
    controls_of,
    edges_fields,
)
from app.desk.forms import EMPTY, FORM_KEY, Form
from app.domain.problems import Problem, invalid_requests
from app.services.plans.questions import KINDS
from app.tidy.names import marked, words
from mechanisms.catalog import offers
from mechanisms.domain import Schema
from mechanisms.statistics.registry import SINGLE_STATISTICS

WITHOUT_VALUE = ("present", "missing")
"""Operators of conditions alone, which take no value."""
MISSING_SHARES = "assume_missing"
"""The field that says which shares of cells a preview assumes to be missing."""
_LABELS: Mapping[str, str] = {
    "accuracy": marked("Margin of error (±)"),
    "inference": marked("Share for standard errors"),
    MISSING_SHARES: marked("Assumed share of missing cells"),
    FORM_KEY: marked("The form"),
}
_SENT_BEFORE = (
    "was sent before with another question, which was asked then; look at this one, and send it now"
)
_FEW = ("mechanism", "norm", MISSING_SHARES)
"""Fields that every statistic has and few questions need."""
_AT: Mapping[str, str] = {"budget-exceeded": "epsilon", "max_epsilon_per_release": "epsilon"}
"""Which field a refusal is about that names none: by its code, or by the rule that refused."""


def kinds() -> Sequence[tuple[str, str]]:
    """Return every statistic, as pairs of its kind and its name in words."""
    return [(kind, words(kind)) for kind in KINDS]


def summary_of(kind: str) -> str:
    """Return the catalog's sentence about a statistic."""
    return next(offer.summary for offer in offers() if offer.statistic == kind)


def fields_of(kind: str, schema: Schema, form: Form = EMPTY) -> Sequence[Field]:
    """Return the fields of a statistic's form, for the columns of a data set.

    Columns that a filled ``form`` derives, and what else it has chosen, are choices too.
    """
    names = parameters_of(kind)
    derived = derived_in(form)
    found = [
        _widened(field, derived, form, schema)
        for name in names
        for field in controls_of(name, kind, schema)
    ]
    if EDGES in names:
        found += [each for name in derived for each in edges_fields(name, kind, schema)]
    shown = [field for field in found if field.options or field.name != "by"]
    return sorted(_gathered(shown, form), key=lambda field: field.more)


def parameters_of(kind: str) -> Sequence[str]:
    """Return the names of a statistic's parameters, in the order of the catalog."""
    first = next(offer for offer in offers() if offer.statistic == kind)
    return [parameter.name for parameter in first.parameters]


def stacks(kind: str) -> bool:
    """Return whether a statistic is made of questions."""
    return PARTS in parameters_of(kind)


def _gathered(found: Sequence[Field], form: Form) -> list[Field]:
    """Return fields with what is said of one column within the boxes that choose columns.

    Where a list chooses the column, what is said of others is left out.
    """
    boxes = next((each for each in found if each.name == "columns"), None)
    if boxes is None:
        return _of_chosen(found, form)
    within: dict[str, list[Field]] = {}
    others = []
    for each in found:
        named = each.name.partition(" ")[2]
        if each is not boxes and named in dict(boxes.options):
            within.setdefault(named, []).append(each)
        else:
            others.append(each)
    return [replace(boxes, within=within) if each is boxes else each for each in others]


def _of_chosen(found: Sequence[Field], form: Form) -> list[Field]:
    """Return fields without those that say something of a column that no list has chosen."""
    lists = [each for each in found if each.of_columns and each.shape == "select"]
    chosen = {form.text(each.name) for each in lists} - {""}
    said = {each.name: each.name.partition(" ") for each in found}
    about = {name: column for name, (word, _, column) in said.items() if word in (EDGES, OUTSIDE)}
    return [
        replace(
            each,
            decides=bool(about) and each in lists,
            undecided=not chosen and bool(about.get(each.name)),
        )
        for each in found
        if not chosen or about.get(each.name) in (None, "", *chosen)
    ]


_OTHERWISE_CALLED = {"column": "columns", "columns": "column", "features": "columns"}
"""What a field of one statistic is called by others."""


def survivors(
    form: Form,
    kind: str,
    schema: Schema,
    always: Collection[str],
    usual: Sequence[tuple[str, str]],
) -> Form:
    """Return what of a form fits another statistic, with what is usual for the rest.

    A choice fits where the other statistic offers it. Fields in ``always`` stay as they are. A
    question becomes the first of a stack, and the first of a stack becomes the question.
    """
    kept = [pair for pair in form.pairs if pair[0] in always]
    if stacks(kind):
        alone = [pair for pair in form.pairs if pair[0] not in (*always, "before")]
        first = Form([("statistic", form.text("before")), *alone])
        fits = form.text("before") in SINGLE_STATISTICS
        made = with_questions(Form(kept), [first] if fits else [])
        return Form([*made.pairs, *_missing_of(made, usual)]).changed(statistic=kind)
    if questions := questions_in(form):
        form = Form([*kept, *questions[0].pairs])
    derived = Form([pair for pair in form.pairs if pair[0] == "derive"])
    mechanisms, norms = choices_of(kind, schema)
    kept += [
        (name, form.text(name))
        for name, options in (("mechanism", mechanisms), ("norm", norms))
        if form.text(name) in dict(options)
    ]
    for field in all_of(fields_of(kind, schema, derived)):
        if field.shape == "conditions":
            kept += [pair for pair in form.pairs if pair[0].startswith("where ")]
            continue
        given = form.texts(field.name) or form.texts(_OTHERWISE_CALLED.get(field.name, ""))
        fit = [each for each in given if not field.options or each in dict(field.options)]
        kept += [(field.name, each) for each in (fit if field.shape == "checks" else fit[:1])]
    found = Form([*kept, *_missing_of(Form([*form.pairs, *kept]), usual)])
    return found.changed(statistic=kind)


def _missing_of(form: Form, usual: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    named = {name for name, _ in form.pairs}
    return [pair for pair in usual if pair[0] not in named]


def derived_in(form: Form) -> Sequence[str]:
    """Return the names of the columns that a form derives."""
    lines = [line.partition("=") for line in form.text("derive").splitlines()]
    return [name.strip() for name, equals, _ in lines if equals and name.strip()]


def _widened(field: Field, derived: Sequence[str], form: Form, schema: Schema) -> Field:
    """Return a field whose choices are columns with those that are derived or chosen as well."""
    if not field.of_columns:
        return field
    chosen = form.texts(field.name)
    if field.shape == "conditions":
        chosen = [form.text(f"where {at} column") for at in room_of(form)]
    known = dict(field.options)
    more = dict.fromkeys(name for name in (*derived, *chosen) if name and name not in known)
    bands = {name: band_fields(name, schema) for name in derived if field.name == "by"}
    return replace(
        field,
        options=[*field.options, *((name, _called(name)) for name in more)],
        within={**field.within, **bands},
    )


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
    own = {field.name: field.label for field in all_of(fields)}
    return {**_LABELS, **conditions, **own}


def opened(form: Form, fields: Sequence[Field], wrong: Collection[str]) -> bool:
    """Say whether the fields that few questions need are to be seen: one is filled in or wrong."""
    given = {name for name, value in form.pairs if value not in ("", "auto")}
    named = {part for name in (*given, *wrong) for part in (name, name.partition(" ")[0])}
    return not named.isdisjoint((*_FEW, *(field.name for field in fields if field.more)))


def choices_of(
    kind: str, schema: Schema
) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]]:
    """Return the mechanisms and the norms that may be chosen for a statistic of a data set."""
    accounting = "zcdp" if schema.zcdp else "pure"
    mine = [
        offer for offer in offers() if offer.statistic == kind and accounting in offer.accounting
    ]
    mechanisms = dict.fromkeys(offer.mechanism for offer in mine)
    norms = dict.fromkeys(norm for offer in mine for norm in offer.norms)
    auto = ("auto", "automatic")
    return (
        [auto, *((name, name.replace("_", " ")) for name in mechanisms if name != "composition")],
        [auto, *((name, name) for name in norms)],
    )


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
    if found := re.match(r"parts\[(\d+)\]\.(.*)", inner, re.DOTALL):
        at, questions = int(found[1]), questions_in(form)
        own = questions[at] if at < len(questions) else EMPTY
        return prefix_of(at) + _field_named(found[2], own)
    if inner.startswith("assume.missing"):
        return MISSING_SHARES
    return _control_named(inner, form)


def _control_named(inner: str, form: Form) -> str:
    """Return the control of what a statistic calls its field, or a place in it."""
    if found := re.match(r"where\[(\d+)\]\.?(\w*)", inner):
        condition = f"where {conditions_in(form)[int(found[1])]}"
        about = "value" if form.text(f"{condition} column") else "column"
        return f"{condition} {found[2] or about}"
    if found := re.match(r"target\.(\w+)", inner):
        return "target" if found[1] == "column" else f"target {found[1]}"
    if found := re.match(r"edges\.([^\[]+)", inner):
        return f"edges {found[1]}"
    if found := re.match(r"by\[(\d+)\]", inner):
        return _band_at(int(found[1]), form)
    if found := re.match(r"(\w+)\.(\w+)", inner):
        member = f"{found[1]} {found[2]}"
        return member if form.text(member) else found[1]
    return re.split(r"[.\[]", inner, maxsplit=1)[0]


def _band_at(at: int, form: Form) -> str:
    """Return the field of a group's edges where they are filled in, else that of all groups."""
    chosen = form.texts("by")
    edges = f"by {EDGES} {chosen[at]}" if at < len(chosen) else ""
    return edges if form.text(edges) else "by"
