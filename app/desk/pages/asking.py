"""Asking: a form for every statistic, its preview, and the step before it is paid for."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.desk.asking import FRESH, Asking
from app.desk.forms import FORM_KEY, read_form, see
from app.desk.rendering import path_of
from app.desk.routes import State, Visitor, router_of
from app.domain.problems import Problem
from app.services.people.keys import Caller
from app.services.releases.releases import OWN_KEY
from app.web.state import AppState

router = router_of("asking")


@router.get("/datasets/{dataset}/ask")
async def show_form(request: Request, visitor: Visitor, state: State, dataset: str) -> Response:
    """Show the form of a question, filled in as the address says, and what it asks to see."""
    asking = await _asking(request, visitor, state, dataset)
    return await asking.shown()


@router.post("/datasets/{dataset}/ask")
async def pay(request: Request, visitor: Visitor, state: State, dataset: str) -> Response:
    """Charge and release, once for each question; again where a new draw is asked for.

    Then the form's key makes it one, however often the form is sent.
    """
    form = await read_form(request)
    asking = await _asking(request, visitor, state, dataset)
    releases = state.services.releases
    try:
        asked = await asking.sent(form)
        key = f"{FORM_KEY}:{form.key}" if form.text(FRESH) else OWN_KEY
        async with state.clock.answer() as answer:
            record = await releases.submit(
                asking.facts.id, asked.question, idem=key, caller=visitor
            )
            answer.hold(releases.moments.public_from_ms(record))
            return see(path_of("releases", record.id))
    except Problem as problem:
        return asking.refused(form, problem)


async def _asking(request: Request, visitor: Caller, state: AppState, dataset: str) -> Asking:
    facts = await state.services.datasets.present(dataset)
    return Asking(
        request=request,
        visitor=visitor,
        facts=facts,
        heading=f"Ask {facts.record.name}",
        about=(path_of("datasets", facts.id), "The data set"),
        sends="Release",
        last="Release this?",
        warning="A charge is never given back, whatever the numbers are.",
    )
