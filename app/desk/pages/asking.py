"""Asking: a form for every statistic, its preview, and the step before it is paid for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.desk.foreseen import Foreseen, foresee
from app.desk.forms import FORM_KEY, NONE, Faults, Form, read_form, see
from app.desk.numbers import numbers_of
from app.desk.questions import (
    CONDITIONS,
    OPERATORS,
    at_fields,
    choices_of,
    fields_of,
    kinds,
    labels_of,
    opened,
    request_of,
    summary_of,
)
from app.desk.rendering import new_form_key, page, path_of
from app.desk.routes import State, Visitor, router_of
from app.domain.datasets import columns_json
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.services.datasets.datasets import DatasetFacts
from app.services.people.keys import Caller
from app.services.plans.questions import KINDS
from app.web.requests.bodies import made_of, request_in
from app.web.requests.leaving import while_there
from app.web.requests.questions import PreviewRequest
from app.web.state import AppState
from mechanisms.foresight.assumptions import Assumptions

router = router_of("asking")

_BY_EPSILON, _BY_ACCURACY = "epsilon", "accuracy"
_ANY_ACCURACY = 1.0
"""Stands for one that cannot be read, so that what else is wrong is told with it."""
_USUAL = Form((("intercept", "yes"), ("wanted", _BY_ACCURACY)))


@router.get("/datasets/{dataset}/ask")
async def show_form(request: Request, visitor: Visitor, state: State, dataset: str) -> Response:
    """Show the form of a statistic, filled in as the address says, and what was asked to be seen.

    A preview, a dry run and the step before a question is paid for change nothing, so they have
    addresses: they can be gone back to, and kept.
    """
    facts = await state.services.datasets.present(dataset)
    form = _filled(facts, request)
    fragment = form.text("part") == "preview"
    if not form.text("act"):
        return _form(request, facts, form)
    try:
        found, form = await while_there(request, _seen(visitor, state, facts, form))
        if form.text("act") == "release":
            return page(request, "confirm.html", facts=facts, seen=found, kept=_kept(form))
        tried = None
        if form.text("act") == "try":
            tried = await while_there(request, _tried(visitor, state, facts, form))
    except Problem as problem:
        told = at_fields(problem)
        if fragment:
            labels = labels_of(fields_of(form.text("statistic"), facts.schema))
            faults = Faults(told)
            return page(
                request, "preview.html", seen=None, problem=told, faults=faults, labels=labels
            )
        return _refused(request, facts, form, told)
    if fragment:
        return page(request, "preview.html", seen=found, problem=None, facts=facts)
    return _form(request, facts, form, seen=found, tried=tried)


def _filled(facts: DatasetFacts, request: Request) -> Form:
    """Return the form as an address fills it in, of the first statistic unless one is chosen."""
    form = Form(request.query_params.multi_items())
    kind = form.text("statistic")
    if kind not in KINDS:
        allowed = _allowed(facts)
        kind = "mean" if "mean" in allowed else allowed[0]
    usual = () if len(form.pairs) > 1 else _USUAL.pairs
    return _with(Form((*form.pairs, *usual)), statistic=kind)


def _kept(form: Form) -> list[tuple[str, str]]:
    """Return what the last step sends of a form; an address that was written has no key yet."""
    kept = [pair for pair in form.pairs if pair[0] not in ("act", "part", "wanted")]
    return kept if form.text(FORM_KEY) else [*kept, (FORM_KEY, new_form_key())]


@router.post("/datasets/{dataset}/ask")
async def pay(request: Request, visitor: Visitor, state: State, dataset: str) -> Response:
    """Charge and release; the form's key is the question's, so that it is asked once."""
    form = await read_form(request)
    facts = await state.services.datasets.present(dataset)
    releases = state.services.releases
    try:
        asked = await _read(visitor, state, facts, _with(form, wanted=_BY_EPSILON))
        async with state.clock.answer() as answer:
            record = await releases.submit(
                facts.id, asked.question, idem=f"{FORM_KEY}:{form.key}", caller=visitor
            )
            answer.hold(releases.moments.public_from_ms(record))
            return see(path_of("releases", record.id))
    except Problem as problem:
        return _refused(request, facts, form, at_fields(problem))


def _refused(request: Request, facts: DatasetFacts, form: Form, problem: Problem) -> Response:
    request.scope["problem"] = problem.code
    return _form(request, facts, form, faults=Faults(problem), status=problem.status)


async def _tried(
    visitor: Caller, state: AppState, facts: DatasetFacts, form: Form
) -> Mapping[str, Any]:
    """Return the answer to a question on synthetic rows."""
    asked = await _read(visitor, state, facts, _with(form, wanted=_BY_EPSILON))
    question = asked.question
    run = await state.services.dry_runs.run(facts.id, question, Assumptions(), caller=visitor)
    return {"told": run, "numbers": numbers_of(run, "Numbers from synthetic rows")}


async def _read(
    visitor: Caller, state: AppState, facts: DatasetFacts, form: Form
) -> PreviewRequest:
    """Return the request that a form makes, with the accuracy that is wanted."""
    asked, wrong = request_of(form, facts.schema), list[tuple[str, str]]()
    if form.text("wanted") == _BY_ACCURACY and (form.text("accuracy") or not asked["epsilon"]):
        del asked["epsilon"]
        try:
            asked["accuracy"] = _accuracy(form)
        except Problem as problem:
            wrong, asked["accuracy"] = [*Faults(problem).all], _ANY_ACCURACY
    body = json.dumps(asked).encode()
    try:
        read: PreviewRequest = await made_of(
            body, visitor.person, state.services.reading, request_in, PreviewRequest
        )
    except Problem as problem:
        raise invalid_requests([*Faults(problem).all, *wrong]) if wrong else problem from None
    if wrong:
        raise invalid_requests(wrong)
    return read


def _accuracy(form: Form) -> float:
    """Return the accuracy that is wanted.

    Raises
    ------
    Problem
        ``invalid-request``: there is none, or it is no number.
    """
    text = form.required("accuracy")
    try:
        return float(text)
    except ValueError:
        raise invalid_request("accuracy", "must be a number") from None


async def _seen(
    visitor: Caller, state: AppState, facts: DatasetFacts, form: Form
) -> tuple[Foreseen, Form]:
    """Return what a question would be like, and the form with the epsilon it was seen at."""
    asked = await _read(visitor, state, facts, form)
    found, question = await foresee(
        state.services, facts.id, asked.question, asked.accuracy, caller=visitor
    )
    if asked.accuracy is not None and found.told["accuracy"]["epsilon"] is None:
        raise invalid_request(
            "accuracy", "no epsilon is known that reaches it for this question; choose an epsilon"
        )
    return found, _with(form, epsilon=str(question.epsilon))


def _with(form: Form, **changed: str) -> Form:
    kept = [pair for pair in form.pairs if pair[0] not in changed]
    return Form((*kept, *changed.items()))


def _allowed(facts: DatasetFacts) -> list[str]:
    allowed = facts.policy.allowed
    return [kind for kind in KINDS if allowed is None or kind in allowed or kind == "stack"]


def _form(
    request: Request,
    facts: DatasetFacts,
    form: Form,
    *,
    seen: Foreseen | None = None,
    tried: Mapping[str, Any] | None = None,
    faults: Faults = NONE,
    status: int = 200,
) -> Response:
    kind = form.text("statistic")
    mechanisms, norms = choices_of(kind)
    fields = fields_of(kind, facts.schema)
    allowed = _allowed(facts)
    shown: Mapping[str, Any] = {
        "facts": facts,
        "form": form,
        "kinds": [pair for pair in kinds() if pair[0] in allowed],
        "summary": summary_of(kind),
        "fields": fields,
        "columns": columns_json(facts.columns),
        "opened": opened(form, fields, [place for place, _ in faults.all]),
        "labels": labels_of(fields),
        "mechanisms": mechanisms,
        "norms": norms,
        "operators": [("", "–"), *((each, each) for each in OPERATORS)],
        "conditions": range(CONDITIONS),
        "seen": seen,
        "tried": tried,
        "faults": faults,
    }
    return page(request, "ask.html", status=status, **shown)
