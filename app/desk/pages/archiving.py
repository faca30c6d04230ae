"""Archiving a data set, and deleting one without releases: rows go, and the ledger stays."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk.confirmation import lacking
from app.desk.forms import EMPTY, NONE, Faults, Form, act_once, faulted, read_form
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
    """Archive a data set, once that is confirmed."""
    form = await read_form(request)
    if (faults := lacking(form)) is not None:
        return await run_in_threadpool(_shown, request, state, dataset, faults, form)

    async def act() -> str:
        await state.services.archiving.archive(dataset, caller=visitor)
        return address(path_of("datasets", dataset), done="archived")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_shown, request, state, dataset, Faults(problem))


@router.get("/datasets/{dataset}/delete")
def show_delete(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Show what deleting does, before it is done."""
    del visitor
    return _shown_deletion(request, state, dataset, NONE)


@router.post("/datasets/{dataset}/delete")
async def delete(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Delete a data set that has no releases, once that is confirmed."""
    form = await read_form(request)
    if (faults := lacking(form)) is not None:
        return await run_in_threadpool(_shown_deletion, request, state, dataset, faults, form)

    async def act() -> str:
        await state.services.deleting.delete(dataset, caller=visitor)
        return address(path_of("datasets", dataset), done="deleted")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_shown_deletion, request, state, dataset, Faults(problem))


def _shown(
    request: Request, state: AppState, dataset: str, faults: Faults, form: Form = EMPTY
) -> Response:
    return page(
        request,
        "archive.html",
        status=faulted(request, faults),
        facts=state.services.datasets.facts(dataset),
        form=form,
        faults=faults,
    )


def _shown_deletion(
    request: Request, state: AppState, dataset: str, faults: Faults, form: Form = EMPTY
) -> Response:
    return page(
        request,
        "delete.html",
        status=faulted(request, faults),
        facts=state.services.datasets.view(dataset).facts,
        deletable=state.services.deleting.may_delete(dataset),
        form=form,
        faults=faults,
    )
