"""A new data set: its columns are drafted from the header, filled in, checked, and sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, BinaryIO, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.desk import declaring
from app.desk.forms import EMPTY, NONE, TYPICAL, Faults, Form, faulted, require_own_site, typical_of
from app.desk.rendering import page
from app.desk.routes import CuratorVisitor, State, router_of
from app.desk.sending import DELIMITERS, ENCODINGS, addressed, content_of, limits_of, stage_once
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.domain.sources import Source
from app.services.datasets.admitting import NewDataset
from app.services.people.keys import Caller
from app.services.plans.questions import POLICY_KINDS
from app.uploads.drafting.drafts import Draft
from app.web.requests.bodies import made_of, spec_in
from app.web.requests.leaving import waiting
from app.web.requests.uploads import SentForm, receive_form
from app.web.state import AppState

router = router_of("new data set")

_UNANSWERED = "is required: choose no, yes, or that you do not know"
_CHOICES: Mapping[str, Any] = {
    "types": declaring.TYPES,
    "reviews": [(each, each) for each in declaring.REVIEWS],
    "adjacencies": [
        ("replace_one", "replace_one: one row differs, the row count is public"),
        ("add_remove", "add_remove: one person is added or removed, the row count is private"),
    ],
    "delimiters": DELIMITERS,
    "encodings": ENCODINGS,
    "unit_ids": [
        ("", "numbers or texts: 7 and 7.0 are the same person, 007 is another"),
        ("number", "numbers: 7, 7.0 and 007 are the same person"),
        ("text", "texts: 7, 7.0 and 007 are three persons"),
    ],
    "reading": declaring.READING,
    "decimals": [(".", "point"), (",", "comma")],
    "thousands": [
        ("", "none"),
        (",", "comma"),
        (".", "point"),
        (" ", "space, of any kind"),
        ("'", "apostrophe, of any kind"),
    ],
    "same_people": [
        ("", "choose an answer"),
        ("no", "no, as far as I know"),
        ("yes", "yes, or some of them"),
        ("unknown", "I do not know"),
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
    """Fill the table with the file's columns, by its first megabyte and a dictionary."""
    del visitor
    require_own_site(request)
    with state.uploads.entered():
        async with receive_form(
            request, directory=state.settings.data_dir, limits=limits_of(state)
        ) as sent:
            form, faults = Form(sent.pairs), NONE
            try:
                found, name = await _drafted(state, sent)
            except Problem as problem:
                faults = Faults(problem)
            else:
                form = declaring.with_draft(form, found, name)
                return _shown(request, form, notes=found.notes, drafted=True)
    return _shown(request, form, faults)


async def _drafted(state: AppState, sent: SentForm) -> tuple[Draft, str]:
    """Return the draft of what is sent, and the file's name; a confined process reads it.

    Raises
    ------
    Problem
        ``invalid-request``: there is no file, or it is no table; what a source is refused for.
    """
    drafts, url = state.services.drafts, Form(sent.pairs).text("source")
    if sent.file_name:
        name = sent.file_name
        return await drafts.of_file(sent.file, name, sent.dictionary), name
    if not url:
        raise invalid_request("file", "is required: choose the file whose columns are drafted")
    try:
        source = state.services.sources.located(url)
        return await drafts.of_source(source, sent.dictionary)
    except Problem as problem:
        raise declaring.of_source(declaring.at_source(problem)) from None


@router.post("/datasets/new/check")
async def check(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Report all faults of a filled-in form, and which bounds look odd; nothing is stored."""
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
    """Take in a file; the page that follows says how it was read, and creates the data set."""
    require_own_site(request)
    with state.uploads.entered():
        async with receive_form(
            request, directory=state.settings.data_dir, limits=limits_of(state)
        ) as sent:
            form = Form(sent.pairs)

            async def stage() -> str:
                content = partial(content_of, state, form, sent)
                new, rows = await _asked(state, visitor, form, content)
                return await _staged(request, visitor, form, new, rows)

            try:
                return await stage_once(request, form, caller=visitor, stage=stage)
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


async def _staged(
    request: Request, visitor: Caller, form: Form, new: NewDataset, rows: BinaryIO | Source
) -> str:
    """Store a file that waits; a refusal is reported at the form's fields."""
    state: AppState = request.state.app
    try:
        return await state.services.datasets.stage(
            new,
            rows,
            declared=json.dumps(declaring.spec_of(form)),
            caller=visitor,
            waiting=waiting(request),
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
    most = state.constants.max_columns
    unanswered = [] if form.text("same_people") else [("same_people", _UNANSWERED)]
    try:
        new = await made_of(content, visitor.person, state.services.reading, spec_in, most)
    except Problem as problem:
        placed = declaring.at_cells(problem, form)
        if unanswered and placed.code == "invalid-request":
            placed = invalid_requests([*Faults(placed).all, *unanswered])
        raise placed from None
    if unanswered:
        raise invalid_requests(unanswered)
    return new


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
