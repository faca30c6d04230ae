"""A new data set: its columns are drafted from the header, filled in, checked, and sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, BinaryIO, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.desk import declaring
from app.desk.bounds import TYPICAL, typical_of
from app.desk.forms import EMPTY, NONE, Faults, Form, faulted, require_own_site
from app.desk.rendering import page
from app.desk.routes import CuratorVisitor, State, router_of
from app.desk.sending import DELIMITERS, addressed, content_of, limits_of, take_in_once
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.domain.sources import Source
from app.domain.upload_reports import UploadReport
from app.services.datasets.admitting import NewDataset
from app.services.datasets.datasets import DatasetView
from app.services.people.keys import Caller
from app.services.plans.questions import POLICY_KINDS
from app.uploads.drafts import Draft, drafted, header_of
from app.uploads.trouble import UnreadableError
from app.web.requests.bodies import made_of, spec_in
from app.web.requests.leaving import waiting
from app.web.requests.uploads import SentForm, receive_form
from app.web.state import AppState

router = router_of("new data set")

_CHOICES: Mapping[str, Any] = {
    "types": declaring.TYPES,
    "reviews": [(each, each) for each in declaring.REVIEWS],
    "adjacencies": [
        ("replace_one", "replace_one: one row differs, the row count is public"),
        ("add_remove", "add_remove: one has a row more, the row count is private"),
    ],
    "delimiters": DELIMITERS,
    "decimals": [(".", "point"), (",", "comma")],
    "thousands": [
        ("", "none"),
        (",", "comma"),
        (".", "point"),
        (" ", "space"),
        ("'", "apostrophe"),
    ],
    "kinds": [(kind, kind.replace("_", " ")) for kind in POLICY_KINDS],
    "typical": TYPICAL,
    "typical_of": typical_of,
}


@router.get("/readings")
def show_readings(visitor: CuratorVisitor, state: State) -> Response:
    """Say how far the visitor's own uploads are, to the script of the page that sends one."""
    found = state.services.datasets.readings(caller=visitor)
    return JSONResponse([asdict(each) for each in found], headers={"Cache-Control": "no-store"})


@router.get("/datasets/new")
async def show_new(request: Request, visitor: CuratorVisitor) -> Response:
    """Show the form of a new data set."""
    del visitor
    return _shown(request, EMPTY)


@router.post("/datasets/new/draft")
async def draft(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Fill the table with the columns of the file's header; nothing else of it is read."""
    require_own_site(request)
    with state.uploads.entered():
        async with receive_form(
            request, directory=state.settings.data_dir, limits=limits_of(state)
        ) as sent:
            form, faults = Form(sent.pairs), NONE
            try:
                found, name = await _drafted(state, visitor, sent)
            except Problem as problem:
                faults = Faults(problem)
            else:
                form = declaring.with_draft(form, found, name)
                return _shown(request, form, notes=found.notes, drafted=True)
    return _shown(request, form, faults)


async def _drafted(state: AppState, visitor: Caller, sent: SentForm) -> tuple[Draft, str]:
    """Return what the header tells, and the file's name; a process beside the server reads it.

    Raises
    ------
    Problem
        ``invalid-request``: there is no file, or it has no header; what a source is refused for.
    """
    url = Form(sent.pairs).text("source")
    partitions: Sequence[str] = ()
    if sent.file_name or not url:
        header, name = await run_in_threadpool(_header, sent), sent.file_name
    else:
        try:
            header, name, partitions = await run_in_threadpool(_first_of, state, url)
        except Problem as problem:
            raise declaring.at_source(problem) from None
    draft = await state.services.reading.run(visitor.person, _draft, header, name)
    return declaring.with_partitions(draft, partitions), name


def _first_of(state: AppState, url: str) -> tuple[bytes, str, Sequence[str]]:
    sources = state.services.sources
    try:
        return sources.header(sources.located(url))
    except UnreadableError as error:
        raise invalid_request("source", str(error)) from None


def _header(sent: SentForm) -> bytes:
    if not sent.file_name:
        raise invalid_request("file", "is required: choose the file whose header is to be read")
    try:
        return header_of(sent.file)
    except UnreadableError as error:
        raise invalid_request("file", str(error)) from None


def _draft(header: bytes, name: str) -> Draft:
    try:
        return drafted(header, name=name)
    except UnreadableError as error:
        raise invalid_request("file", str(error)) from None


@router.post("/datasets/new/check")
async def check(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Tell all that is wrong with what is filled in, and which bounds look odd; nothing is kept."""
    require_own_site(request)
    with state.uploads.entered():
        async with receive_form(
            request, directory=state.settings.data_dir, limits=limits_of(state)
        ) as sent:
            form = Form(sent.pairs)
    try:
        await _asked(state, visitor, form, partial(addressed, state, form))
    except Problem as problem:
        return _shown(request, form, Faults(problem))
    return _shown(request, form, checked=True)


@router.post("/datasets/new")
async def upload(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Take in a data set; the page of it then says, this once, how the file was read."""
    require_own_site(request)
    with state.uploads.entered():
        async with receive_form(
            request, directory=state.settings.data_dir, limits=limits_of(state)
        ) as sent:
            form = Form(sent.pairs)

            async def store() -> tuple[DatasetView, UploadReport]:
                content = partial(content_of, state, form, sent)
                new, rows = await _asked(state, visitor, form, content)
                return await _created(request, visitor, form, new, rows)

            try:
                return await take_in_once(
                    request, form, caller=visitor, done="uploaded", store=store
                )
            except Problem as problem:
                return _shown(request, form, Faults(problem))


T = TypeVar("T")


async def _asked(
    state: AppState, visitor: Caller, form: Form, content: Callable[[], T]
) -> tuple[NewDataset, T]:
    """Return what a form declares, and where its rows are.

    Raises
    ------
    Problem
        All that is wrong with both, by their fields.
    """
    try:
        new = await _declared(state, visitor, form)
    except Problem as problem:
        if problem.code != "invalid-request":
            raise
        faults = [*Faults(problem).all]
        try:
            content()
        except Problem as other:
            faults += Faults(other).all
        raise invalid_requests(faults) from None
    return new, content()


async def _created(
    request: Request, visitor: Caller, form: Form, new: NewDataset, rows: BinaryIO | Source
) -> tuple[DatasetView, UploadReport]:
    """Take in a data set; what it is refused for is told by the form's fields."""
    state: AppState = request.state.app
    try:
        return await state.services.datasets.create(
            new, rows, caller=visitor, waiting=waiting(request)
        )
    except Problem as problem:
        raise declaring.at_cells(problem, form) from None


async def _declared(state: AppState, visitor: Caller, form: Form) -> NewDataset:
    """Return what a form declares.

    Raises
    ------
    Problem
        All that is wrong with it, by its fields.
    """
    content = json.dumps(declaring.spec_of(form)).encode()
    most = state.settings.max_columns
    try:
        return await made_of(content, visitor.person, state.services.reading, spec_in, most)
    except Problem as problem:
        raise declaring.at_cells(problem, form) from None


def _shown(
    request: Request,
    form: Form,
    faults: Faults = NONE,
    *,
    checked: bool = False,
    drafted: bool = False,
    notes: Any = (),
) -> Response:
    return page(
        request,
        "new_dataset.html",
        status=faulted(request, faults),
        form=form,
        faults=faults,
        rows=declaring.rows_of(form),
        labels=declaring.labelled(form),
        doubts=declaring.doubts(form),
        sources=bool(request.state.app.settings.source_roots),
        checked=checked,
        drafted=drafted,
        notes=notes,
        **_CHOICES,
    )
