"""Study plans: the list, one plan with what is paid for of it, its review, and drawing it.

A plan is made of questions that the form of a question has asked (:mod:`app.desk.pages.asking`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk.filled import form_of
from app.desk.forms import (
    CALLED,
    EMPTY,
    NONE,
    Faults,
    Form,
    Irrevocable,
    act_once,
    confirm_page,
    lacking,
    read_as,
    read_form,
    see,
)
from app.desk.pages.asking import REPLACES, asking_about
from app.desk.pages.releases import Filters
from app.desk.rendering import DATE, Listing, page, path_of
from app.desk.routes import AskingVisitor, DecidingVisitor, State, Visitor, router_of
from app.domain.datasets import SAME_PEOPLE
from app.domain.policies import Right
from app.domain.problems import Problem
from app.domain.reviews import PlanState
from app.services.people.keys import Caller
from app.services.plans.previews import PlannedQuestion
from app.services.reviewing.sheets import Version
from app.services.reviewing.study_plans import (
    GOING_ON,
    NOT_REVIEWED,
    PLAN_NOTICE,
    PlannedView,
    PlanView,
)
from app.tidy.names import marked
from app.web.requests.questions import PlannedReleaseRequest
from app.web.requests.schemas import CommentRequest, DecisionRequest
from app.web.state import AppState

router = router_of("study plans")

_HERE = "/desk/study-plans"
_QUESTION = re.compile(r"^questions\.(\d+)")
_PAGE = 25
_STATES = {state.status: state for state in PlanState}
_NOT_SHOWN = ("not-found", "forbidden", "unauthorized")


@router.get("/study-plans")
def list_plans(
    request: Request,
    visitor: Visitor,
    state: State,
    *,
    dataset: str = "",
    person: str = "",
    status: str = "",
) -> Response:
    """List the visitor's plans; reviewers and curators see everyone's requests."""
    chosen = status if status in _STATES else ""
    filters = Filters.of(state, visitor, dataset=dataset, person=person)
    here = {**filters.query, "status": chosen}
    listing = Listing.of(request, _HERE, size=_PAGE, filters=here, sorts=("name", DATE))
    heads = state.services.study_plans.heads(
        caller=visitor,
        span=listing.span,
        dataset=filters.dataset or None,
        owner=filters.person or None,
        states=[_STATES[chosen]] if chosen else [],
    )
    return page(
        request,
        "study_plans.html",
        part=listing.cut(heads, lambda each: each.record.number),
        chosen=chosen,
        filters=filters,
        statuses=[
            ("", marked("all states")),
            *((each, each.replace("_", " ")) for each in _STATES),
        ],
    )


@router.post("/datasets/{dataset}/ask/plan")
async def add_to_plan(
    request: Request, visitor: AskingVisitor, state: State, dataset: str
) -> Response:
    """Add the question of a form to a plan, change it in one, or begin one; nothing is charged."""
    form = await read_form(request)
    asking = await asking_about(request, visitor, state, dataset)
    changed, _, replaced = form.text(REPLACES).partition(".")
    plan = changed or form.text("plan") or None
    try:
        asked = await asking.sent(form)

        async def act() -> str:
            made = await state.services.study_plans.add(
                plan,
                asking.facts.id,
                PlannedQuestion(asked.question, asked.options, priced=True),
                name=form.required("plan_name") if plan is None else "",
                replaces=replaced or None,
                caller=visitor,
            )
            done = "replanned" if replaced else "planned"
            return f"{path_of('study-plans', made.record.id)}?done={done}"

        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return asking.refused(form, problem)


@router.get("/study-plans/{plan}")
async def show_plan(request: Request, visitor: Visitor, state: State, plan: str) -> Response:
    """Show a plan: to its owner what is paid for, to reviewers its sheet."""
    return await _shown(request, visitor, state, plan)


@router.post("/study-plans/{plan}/removal")
async def remove_question(
    request: Request, visitor: AskingVisitor, state: State, plan: str
) -> Response:
    """Remove a question from a plan that is edited."""
    form = await read_form(request)

    async def act() -> str:
        asked = _place(form)
        await state.services.study_plans.remove(plan, asked, caller=visitor)
        return f"{path_of('study-plans', plan)}?done=unplanned"

    return await _acted(request, visitor, state, plan, form=form, act=act)


@router.post("/study-plans/{plan}/deletion")
async def delete_plan(
    request: Request, visitor: AskingVisitor, state: State, plan: str
) -> Response:
    """Delete a draft."""
    form = await read_form(request)

    async def act() -> str:
        await state.services.study_plans.delete(plan, caller=visitor)
        return f"{_HERE}?done=plan_deleted"

    return await _acted(request, visitor, state, plan, form=form, act=act)


@router.post("/study-plans/{plan}/request")
async def request_plan(
    request: Request, visitor: AskingVisitor, state: State, plan: str
) -> Response:
    """Ask for the approval of a plan as one request; again where its reviewers want changes."""
    form = await read_form(request)

    async def act() -> str:
        await state.services.study_plans.request(plan, caller=visitor)
        return f"{path_of('study-plans', plan)}?done=plan_requested"

    return await _acted(request, visitor, state, plan, form=form, act=act)


@router.post("/study-plans/{plan}/withdrawal")
async def withdraw_plan(
    request: Request, visitor: AskingVisitor, state: State, plan: str
) -> Response:
    """Withdraw a plan, once that is confirmed."""
    form = await read_form(request)
    view = await state.services.study_plans.get(plan, caller=visitor)
    if (faults := lacking(form)) is not None:
        return confirm_page(request, form, _withdrawal(view), faults)

    async def act() -> str:
        await state.services.study_plans.withdraw(plan, caller=visitor)
        return f"{path_of('study-plans', plan)}?done=plan_withdrawn"

    return await _acted(request, visitor, state, plan, form=form, act=act)


@router.post("/study-plans/{plan}/decision")
async def decide(request: Request, visitor: DecidingVisitor, state: State, plan: str) -> Response:
    """Vote on all questions of a plan as one, or request changes."""
    form = await read_form(request)

    async def act() -> str:
        fields = {name: form.text(name) for name in ("decision", "reason")}
        asked, seen = read_as(DecisionRequest, fields), form.text("seen")
        await state.services.study_plans.decide(
            plan,
            asked.decision,
            asked.reason,
            unchanged=lambda tag: tag == seen,
            caller=visitor,
        )
        return f"{path_of('study-plans', plan)}?done={asked.decision.value}"

    return await _acted(request, visitor, state, plan, form=form, act=act)


@router.post("/study-plans/{plan}/comments")
async def comment(request: Request, visitor: Visitor, state: State, plan: str) -> Response:
    """Say something about a plan."""
    form = await read_form(request)

    async def act() -> str:
        private = form.text("private") == "yes"
        asked = read_as(CommentRequest, {"text": form.text("comment"), "private": private})
        await state.services.comments.add(
            asked.text, study_plan=plan, private=asked.private, caller=visitor
        )
        return f"{path_of('study-plans', plan)}?done=commented"

    return await _acted(request, visitor, state, plan, form=form, act=act)


@router.post("/study-plans/{plan}/release")
async def draw(request: Request, visitor: AskingVisitor, state: State, plan: str) -> Response:
    """Charge for a question and draw it, once that is confirmed; a question is charged once."""
    form = await read_form(request)
    services = state.services
    try:
        view, place = await services.study_plans.get(plan, caller=visitor), _place(form)
        if place >= len(view.questions):
            raise Problem("not-found")
        if (faults := lacking(form)) is not None:
            return confirm_page(request, form, _draw(view, place), faults)
        async with state.clock.answer() as answer:
            record = await services.study_plans.draw(plan, place, caller=visitor)
            answer.hold(services.releases.moments.public_from_ms(record))
            return see(path_of("releases", record.id))
    except Problem as problem:
        return await _shown(request, visitor, state, plan, form=form, problem=problem)


def _place(form: Form) -> int:
    """Return the place of a question that a form names."""
    text = form.text("question")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 3 else -1
    return read_as(PlannedReleaseRequest, {"question": number}).question


async def _acted(
    request: Request,
    visitor: Caller,
    state: AppState,
    plan: str,
    *,
    form: Form,
    act: Callable[[], Awaitable[str]],
) -> Response:
    """Do what a form asks for once; where it is refused, show the plan with what it is for."""
    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await _shown(request, visitor, state, plan, form=form, problem=problem)


def _change(view: PlanView, each: PlannedView) -> str:
    """Return the address of the form that changes a question of a plan."""
    dataset, fingerprint = view.record.dataset, each.planned.fingerprint(view.record.dataset)
    filled = form_of(json.loads(each.planned.request)).pairs
    pairs = [*filled, (REPLACES, f"{view.record.id}.{fingerprint}")]
    return f"{path_of('datasets', dataset, 'ask')}?{urlencode(pairs)}"


def _counted(version: Version) -> Version:
    """Return a version whose questions are counted from 1, as on the page."""
    return replace(
        version,
        differences=tuple(
            replace(each, place=_QUESTION.sub(lambda at: f"question {int(at[1]) + 1}", each.place))
            for each in version.differences
        ),
    )


def _withdrawal(view: PlanView) -> Irrevocable:
    return Irrevocable(
        heading=marked("Withdraw this study plan?"),
        button=marked("Withdraw"),
        happens=(
            marked("No further question of it can be drawn, and it cannot be requested again."),
            marked("What has been drawn stays, and so does its charge."),
        ),
        facts=((marked("Study plan"), view.record.name),),
        back=(path_of("study-plans", view.record.id), marked("The study plan")),
    )


def _draw(view: PlanView, place: int) -> Irrevocable:
    each = view.questions[place]
    epsilon = str(each.question.epsilon)
    return Irrevocable(
        heading=marked("Release this?"),
        button=marked("Release"),
        happens=(
            marked("Epsilon %(epsilon)s is charged, and the numbers are drawn.", epsilon=epsilon),
            marked("A charge is never given back, whatever the numbers are."),
        ),
        facts=(
            (marked("Data set"), view.dataset_name),
            (marked("Statistic"), each.words),
            (marked("Cost"), marked("epsilon %(epsilon)s", epsilon=epsilon)),
        ),
        back=(path_of("study-plans", view.record.id), marked("The study plan")),
    )


async def _shown(
    request: Request,
    visitor: Caller,
    state: AppState,
    plan: str,
    *,
    form: Form = EMPTY,
    problem: Problem | None = None,
) -> Response:
    """Return the page of a plan, with what an act on it was refused for."""
    if problem is not None:
        request.scope["problem"] = problem.code
        if problem.code in _NOT_SHOWN:
            raise problem
    services = state.services
    view = await services.study_plans.get(plan, caller=visitor)
    record, own = view.record, view.record.person == visitor.person
    requested = record.state is not PlanState.DRAFT
    oversees = requested and visitor.role.may(Right.OVERSEE)
    sheet = await services.plan_sheets.sheet(plan, caller=visitor) if oversees else None
    facts = await services.datasets.present(record.dataset)
    voted = sheet is not None and visitor.person in [vote.person for vote in sheet.votes.seen]
    complete = sheet is not None and sheet.votes.complete
    waits = record.state is PlanState.REQUESTED
    shown: Mapping[str, Any] = {
        "view": view,
        "plan": record,
        "stands": record.state.status,
        "edited": record.state.is_edited,
        "changes": [_change(view, each) for each in view.questions],
        "versions": [
            _counted(each)
            for each in await services.comments.versions(study_plan=plan, caller=visitor)
        ],
        "comments": await services.comments.list(study_plan=plan, caller=visitor),
        "said_of": record.state in GOING_ON and (own or visitor.role.may(Right.DECIDE)),
        "own": own and visitor.role.may(Right.ASK),
        "sheet": sheet,
        "facts": facts,
        "same_people": SAME_PEOPLE[facts.same_people],
        "expected": [] if sheet is None else sheet.expected,
        "votes_wanted": waits
        and visitor.role.may(Right.DECIDE)
        and record.person != visitor.person
        and (voted or not complete),
        "voted": voted and not complete and waits,
        "by_policy": view.decided_by is None,
        "not_reviewed": NOT_REVIEWED,
        "plan_notice": PLAN_NOTICE,
        "form": form,
        "faults": NONE if problem is None else Faults(problem, CALLED),
    }
    status = 200 if problem is None else problem.status
    return await run_in_threadpool(page, request, "study_plan.html", status=status, **shown)
