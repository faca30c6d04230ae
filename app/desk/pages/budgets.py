"""Budgets: granting more, and slices of one for single people."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk.forms import EMPTY, NONE, Faults, Form, act_once, faulted, read_as, read_form
from app.desk.lists import address, number_in
from app.desk.rendering import page, path_of
from app.desk.routes import CuratorVisitor, State, router_of, state_of
from app.domain.problems import Problem
from app.services.datasets.accounting import in_epsilons
from app.services.people.keys import Caller
from app.web.requests.schemas import CapRequest, GrantRequest

router = router_of("budgets")

_PAGE = 100
_LIFT = "lift"


@router.get("/datasets/{dataset}/grants")
def show_grant(request: Request, visitor: CuratorVisitor, dataset: str) -> Response:
    """Show the form that raises a budget."""
    return _grant_page(request, visitor, dataset)


@router.post("/datasets/{dataset}/grants")
async def grant(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Raise the total of a data set's account."""
    form = await read_form(request)

    async def act() -> str:
        asked = read_as(GrantRequest, _grant_fields(form))
        await state.services.budgets.grant(
            dataset, asked.epsilon, asked.reason, caller=visitor, expires=asked.expires
        )
        return address(path_of("datasets", dataset), done="granted")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(
            _grant_page, request, visitor, dataset, form, Faults(problem)
        )


def _grant_fields(form: Form) -> Mapping[str, object]:
    day = form.text("expires")
    fields = {name: form.text(name) for name in ("epsilon", "reason")}
    return {**fields, "expires": f"{day}T00:00:00Z" if len(day) == len("2030-01-01") else day}


def _grant_page(
    request: Request,
    visitor: Caller,
    dataset: str,
    form: Form = EMPTY,
    faults: Faults = NONE,
) -> Response:
    state = state_of(request)
    view = state.services.budgets.view(dataset, caller=visitor)
    return page(
        request,
        "grant.html",
        status=faulted(request, faults),
        facts=state.services.datasets.facts(dataset),
        now=in_epsilons(view.balance, view.meter),
        form=form,
        faults=faults,
    )


@router.get("/datasets/{dataset}/caps")
def show_caps(request: Request, visitor: CuratorVisitor, dataset: str) -> Response:
    """Show what single people may use of a budget."""
    del visitor
    return _caps_page(request, dataset)


@router.post("/datasets/{dataset}/caps")
async def cap(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Cap what somebody may use of a data set's account, or lift the cap."""
    form = await read_form(request)
    lifts = form.text(_LIFT) != ""

    async def act() -> str:
        fields = {name: form.text(name) for name in ("person", "epsilon", "reason")}
        asked = read_as(CapRequest, {**fields, "epsilon": None} if lifts else fields)
        await state.services.budgets.set_cap(
            dataset, asked.person, asked.epsilon, asked.reason, caller=visitor
        )
        return address(path_of("datasets", dataset, "caps"), done="uncapped" if lifts else "capped")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_caps_page, request, dataset, form, Faults(problem))


def _caps_page(
    request: Request, dataset: str, form: Form = EMPTY, faults: Faults = NONE
) -> Response:
    state = state_of(request)
    facts = state.services.datasets.facts(dataset)
    after = number_in(request, "after")
    found = state.services.budgets.caps(dataset, after=after, limit=_PAGE + 1)
    shown, meter, here = found[:_PAGE], facts.meter, path_of("datasets", dataset, "caps")
    rows = [
        (
            each.person,
            str(meter.epsilon(each.amount or 0)),  # a cap that is lifted is not listed
            str(meter.epsilon(each.used)),
        )
        for each in shown
    ]
    return page(
        request,
        "caps.html",
        status=faulted(request, faults),
        facts=facts,
        rows=rows,
        more=address(here, after=shown[-1].number) if len(found) > _PAGE else None,
        first=None if after is None else here,
        form=form,
        lifts=form.text(_LIFT) != "",
        faults=faults,
    )
