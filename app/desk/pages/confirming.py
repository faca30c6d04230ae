"""The last step of an upload: how the file was read, and "Create data set"."""

from __future__ import annotations

import json
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk.forms import EMPTY, NONE, Faults, Form, act_once, faulted, read_form, see
from app.desk.lists import address
from app.desk.rendering import page, path_of
from app.desk.routes import CuratorVisitor, State, router_of
from app.desk.sending import take_in_once
from app.domain.datasets import SAME_PEOPLE
from app.domain.problems import Problem, invalid_request
from app.domain.upload_problems import UploadReport
from app.services.datasets.admitting import NewDataset
from app.services.datasets.datasets import DatasetView
from app.services.datasets.drafts import Staged, doubts
from app.services.people.keys import Caller
from app.web.requests.bodies import made_of, request_in, spec_in
from app.web.requests.versions import VersionSpec
from app.web.state import AppState

router = router_of("new data set")


@router.get("/datasets/{dataset}/create")
async def show_report(
    request: Request, visitor: CuratorVisitor, state: State, dataset: str
) -> Response:
    """Show how a file was read, before its data set is created; afterwards, the data set."""
    try:
        return await _shown(request, state, visitor, dataset)
    except Problem as problem:
        if problem.code != "not-found":
            raise
        facts = await state.services.datasets.present(dataset)
        return see(path_of("datasets", facts.id))


@router.post("/datasets/{dataset}/create")
async def create(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Create the data set of an upload that waits."""
    form = await read_form(request)

    async def store() -> tuple[DatasetView, UploadReport]:
        staged = await run_in_threadpool(_staged, state, visitor, dataset)
        new = await _declared(state, visitor, staged)
        if doubts(staged.report, new.budget) and not form.text("confirmed"):
            raise invalid_request("confirmed", "tick it to create the data set all the same")
        view = await state.services.datasets.confirm(dataset, new, caller=visitor)
        return view, staged.report

    try:
        return await take_in_once(request, form, caller=visitor, store=store)
    except Problem as problem:
        return await _shown(request, state, visitor, dataset, form=form, faults=Faults(problem))


@router.post("/datasets/{dataset}/discard")
async def discard(
    request: Request, visitor: CuratorVisitor, state: State, dataset: str
) -> Response:
    """Clear away an upload that waits."""
    form = await read_form(request)
    discarding = state.services.datasets.discard

    async def act() -> str:
        await run_in_threadpool(discarding, dataset, caller=visitor)
        return address("/desk/datasets", done="discarded")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        if problem.code != "not-found":
            raise
        return see("/desk/datasets")


def _staged(state: AppState, visitor: Caller, dataset: str) -> Staged:
    return state.services.datasets.staged(dataset, caller=visitor)


async def _declared(state: AppState, visitor: Caller, staged: Staged) -> NewDataset:
    """Return what an upload was declared with."""
    content = staged.declared.encode()
    if staged.extends is not None:
        rows = request_in(content, VersionSpec).declared()
        return await state.services.extending.declared(staged.extends, rows)
    most = state.constants.max_columns
    return await made_of(content, visitor.person, state.services.reading, spec_in, most)


async def _shown(
    request: Request,
    state: AppState,
    visitor: Caller,
    dataset: str,
    *,
    form: Form = EMPTY,
    faults: Faults = NONE,
) -> Response:
    """Show the report of an upload that waits, or that it was refused and is gone."""
    try:
        staged = await run_in_threadpool(_staged, state, visitor, dataset)
    except Problem:
        if faults.problem is None:
            raise
        return page(request, "upload_refused.html", status=faulted(request, faults), faults=faults)
    declared: dict[str, Any] = json.loads(staged.declared)
    budget = same_people = None
    if staged.extends is None:
        new = await _declared(state, visitor, staged)
        budget, same_people = new.budget, SAME_PEOPLE[new.same_people]
    return page(
        request,
        "create.html",
        status=faulted(request, faults),
        name=staged.name,
        extends=staged.extends,
        replaces=declared.get("replaces"),
        report=staged.report,
        budget=budget,
        same_people=same_people,
        doubts=doubts(staged.report, budget),
        form=form,
        faults=faults,
        dataset=dataset,
    )
