"""More rows for a data set: they become its next version."""

from __future__ import annotations

from functools import partial
from typing import Any, BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk import declaring
from app.desk.forms import EMPTY, NONE, Faults, Form, faulted, read_as, require_own_site
from app.desk.rendering import page
from app.desk.routes import CuratorVisitor, State, router_of
from app.desk.sending import DELIMITERS, ENCODINGS, content_of, limits_of, stage_once
from app.domain.problems import Problem, invalid_requests
from app.domain.sources import Source
from app.services.people.keys import Caller
from app.web.requests.leaving import waiting
from app.web.requests.uploads import SentForm, receive_form
from app.web.requests.versions import VersionSpec
from app.web.state import AppState

router = router_of("versions")


@router.get("/datasets/{dataset}/versions")
def show_extending(
    request: Request, visitor: CuratorVisitor, state: State, dataset: str
) -> Response:
    """Show the form that adds rows, and to which version they are added."""
    del visitor
    return _shown(request, state, dataset, EMPTY)


@router.post("/datasets/{dataset}/versions")
async def extend(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Take in rows; the page that follows says how they were read, and adds them."""
    require_own_site(request)
    with state.uploads.entered():
        async with receive_form(
            request, directory=state.settings.data_dir, limits=limits_of(state)
        ) as sent:
            form = Form(sent.pairs)
            stage = partial(_staged, request, dataset, form, sent, caller=visitor)
            try:
                return await stage_once(request, form, caller=visitor, stage=stage)
            except Problem as problem:
                faults = Faults(problem)
    return await run_in_threadpool(_shown, request, state, dataset, form, faults)


async def _staged(
    request: Request, dataset: str, form: Form, sent: SentForm, *, caller: Caller
) -> str:
    """Store the rows that a form is sent with; they wait to be confirmed.

    Raises
    ------
    Problem
        What is wrong, by the form's fields; what extending raises.
    """
    state: AppState = request.state.app
    try:
        new, rows = _asked(state, form, sent)
        declared = await state.services.extending.declared(dataset, new.declared())
        return await state.services.datasets.stage(
            declared,
            rows,
            declared=new.model_dump_json(exclude_defaults=True),
            caller=caller,
            waiting=waiting(request),
        )
    except Problem as problem:
        raise declaring.at_cells(problem, form) from None


def _asked(state: AppState, form: Form, sent: SentForm) -> tuple[VersionSpec, BinaryIO | Source]:
    """Return what a form says of the rows, and where they are; it reports all mistakes."""
    try:
        new = _declared(form)
    except Problem as problem:
        faults = [*Faults(problem).all]
        try:
            content_of(state, form, sent)
        except Problem as other:
            faults += Faults(other).all
        raise invalid_requests(faults) from None
    return new, content_of(state, form, sent)


def _declared(form: Form) -> VersionSpec:
    """Return what a form says of the rows."""
    fields: dict[str, Any] = {name: form.text(name) for name in ("name", "max_rows")}
    fields |= {name: form.raw(name) for name in ("delimiter", "encoding")}
    if skipped := form.text("skip_rows"):
        fields["skip_rows"] = declaring.number_of(skipped)
    if fields["max_rows"]:
        fields["max_rows"] = declaring.number_of(fields["max_rows"])
    if reason := form.text("overlap"):
        fields["overlap"] = {"reason": reason}
    return read_as(VersionSpec, fields)


def _shown(
    request: Request, state: AppState, dataset: str, form: Form, faults: Faults = NONE
) -> Response:
    facts = state.services.datasets.facts(dataset)
    versions = state.services.extending.versions(dataset)
    newest = versions[0] if versions else None
    unit = facts.columns.unit
    return page(
        request,
        "extend.html",
        status=faulted(request, faults),
        facts=facts,
        newest=newest,
        is_newest=newest is not None and newest.id == facts.id,
        is_fixed=unit is not None and unit.reduce is not None,
        again=unit is not None,
        bounded=facts.columns.max_rows is not None,
        form=form,
        faults=faults,
        labels=declaring.labelled(form),
        delimiters=DELIMITERS,
        encodings=ENCODINGS,
        sources=bool(state.settings.source_roots),
    )
