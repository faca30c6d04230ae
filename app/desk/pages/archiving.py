"""Archiving a data set: its rows go, and everything that was said of them stays."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk.forms import NONE, Faults, act_once, faulted, read_form
from app.desk.lists import address
from app.desk.rendering import page, path_of
from app.desk.routes import CuratorVisitor, State, router_of
from app.domain.problems import Problem
from app.web.state import AppState

router = router_of("archiving")


@router.get("/datasets/{dataset}/archive")
def show_archive(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Show what archiving does, before it is done."""
    del visitor
    return _shown(request, state, dataset, NONE)


@router.post("/datasets/{dataset}/archive")
async def archive(
    request: Request, visitor: CuratorVisitor, state: State, dataset: str
) -> Response:
    """Archive a data set."""
    form = await read_form(request)

    async def act() -> str:
        await state.services.archiving.archive(dataset, caller=visitor)
        return address(path_of("datasets", dataset), done="archived")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_shown, request, state, dataset, Faults(problem))


def _shown(request: Request, state: AppState, dataset: str, faults: Faults) -> Response:
    facts = state.services.datasets.facts(dataset)
    return page(
        request, "archive.html", status=faulted(request, faults), facts=facts, faults=faults
    )
