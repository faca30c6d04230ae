"""Uploads that wait: how a file was read, and the button that creates the data set or adds rows.

More rows for a data set become its next version.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, BinaryIO, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.desk import cookies, declaring
from app.desk.building import CHANGE
from app.desk.cookies import ShownOnce
from app.desk.forms import (
    EMPTY,
    FORM_KEY,
    NONE,
    Faults,
    Form,
    act_once,
    faulted,
    number_of,
    read_as,
    read_form,
    require_own_site,
    see,
)
from app.desk.rendering import address, headers_of_file, page, path_of
from app.desk.routes import CuratorVisitor, State, router_of
from app.domain.access import Span
from app.domain.datasets import SAME_PEOPLE, columns_json, derived_json, design_json
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.domain.sources import Source
from app.domain.units import unit_json
from app.domain.upload_reports import UploadReport
from app.services.datasets.admitting import NewDataset
from app.services.datasets.datasets import DatasetFacts, DatasetView
from app.services.datasets.drafts import Staged, doubts
from app.services.people.keys import Caller
from app.uploads.drafting.drafts import Draft
from app.web.requests.questions import made_of, request_in, spec_in
from app.web.requests.uploads import SentForm, UploadLimits, VersionSpec, receive_form
from app.web.state import AppState, waiting
from mechanisms.words import worded

_READ: ShownOnce[tuple[str, UploadReport]] = ShownOnce(seconds=30)
"""How a form's file was read: after a double click, the second answer shows it too."""


@asynccontextmanager
async def received(request: Request, state: AppState) -> AsyncIterator[SentForm]:
    """Receive a form with a file from our own page; few uploads are received at a time."""
    require_own_site(request)
    with state.uploads.entered():
        limits = UploadLimits(
            file_bytes=state.settings.max_upload_bytes,
            spec_bytes=state.constants.max_request_bytes,
        )
        async with receive_form(request, directory=state.settings.data_dir, limits=limits) as sent:
            yield sent


def content_of(state: AppState, form: Form, sent: SentForm) -> BinaryIO | Source:
    """Return where the rows are that a form is sent with.

    Raises
    ------
    Problem
        ``invalid-request``: nowhere, or in two places; what a source is refused for.
    """
    source = addressed(state, form)
    if source is not None and sent.file_name:
        raise invalid_request("source", "leave it empty where a file is chosen")
    if source is None and not sent.file_name:
        raise invalid_request("file", "is required: choose it again")
    return sent.file if source is None else source


def addressed(state: AppState, form: Form) -> Source | None:
    """Return the source that a form names, if it names one."""
    url = form.text("source")
    return state.services.sources.located(url) if url else None


async def stage_once(
    request: Request, form: Form, *, caller: Caller, stage: Callable[[], Awaitable[str]]
) -> Response:
    """Store a form's rows once; the page that follows shows how they were read, to be confirmed.

    Raises
    ------
    Problem
        What storing them raises; ``busy``.
    """

    async def act() -> str:
        return path_of("datasets", await stage(), "create")

    return await act_once(request, form, caller=caller, act=act)


async def take_in_once(
    request: Request,
    form: Form,
    *,
    caller: Caller,
    store: Callable[[], Awaitable[tuple[DatasetView, UploadReport]]],
) -> Response:
    """Store a form's rows once; the page of the data set then says, this once, how they were read.

    Raises
    ------
    Problem
        What storing them raises; ``busy``.
    """

    async def act() -> str:
        view, report = await store()
        _READ.hold(caller.person, form.once, (view.facts.id, report))
        done = "uploaded" if view.facts.record.extends is None else "extended"
        return address(path_of("datasets", view.facts.id), done=done)

    answer = await act_once(request, form, caller=caller, act=act)
    read = _READ.look(caller.person, form.once)
    if read is not None:
        cookies.send_report(request, answer, *read)
    return answer


router = router_of("uploads")

NEW = "/desk/datasets/new"
"""Where the form of a new data set is, and by what name its draft is stored."""


@router.get("/readings")
def show_readings(visitor: CuratorVisitor, state: State) -> Response:
    """Say how far the visitor's own uploads are, to the script of the page that sends one."""
    found = state.services.datasets.readings(caller=visitor)
    return JSONResponse([asdict(each) for each in found], headers={"Cache-Control": "no-store"})


_MOST_EARLIER = 12
_NOT_STORED = {"Cache-Control": "no-store"}
_UNANSWERED = worded("is required: choose no, yes, or that you do not know")


@router.get("/datasets/new")
async def show_new(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Show the form of a new data set: empty, or as the visitor has left it."""
    draft = state.services.sessions.draft(NEW, caller=visitor)
    if draft is not None and request.query_params.get("draft"):
        pairs = parse_qsl(urlsplit(draft[0]).query, keep_blank_values=True)
        return _shown(request, Form(pairs))
    return _shown(request, EMPTY, draft=None if draft is None else draft[1])


@router.post("/datasets/new/keep")
async def keep(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Save what is filled in, without the file; the script of the page does so by itself."""
    async with received(request, state) as sent:
        form = Form(sent.pairs)
    _keep(state, visitor, form)
    return see(f"{NEW}?draft=yes&done=draft_kept")


@router.post("/datasets/new/discard")
async def discard_draft(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Forget what the visitor has filled in and not sent."""
    await read_form(request)
    await state.services.sessions.forget_draft(NEW, caller=visitor)
    return see(f"{NEW}?done=draft_discarded")


def _keep(state: AppState, visitor: Caller, form: Form) -> None:
    """Keep what is filled in as the visitor's draft; an empty form replaces none."""
    kept = [pair for pair in form.pairs if pair[0] != FORM_KEY]
    if any(value for name, value in kept if name == "name" or name.startswith("columns.")):
        state.services.sessions.keep_draft(NEW, f"{NEW}?{urlencode(kept)}", caller=visitor)


@router.post("/datasets/new/draft")
async def draft(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Fill the table with the file's columns, by its first megabyte and a dictionary."""
    async with received(request, state) as sent:
        form, faults = Form(sent.pairs), NONE
        try:
            found, name = await _drafted(state, sent)
        except Problem as problem:
            faults = Faults(problem)
        else:
            form = declaring.with_draft(form, found, name, described=bool(sent.dictionary))
            _keep(state, visitor, form)
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
    """Report all faults of a filled-in form and its file, and how the file would be read.

    Nothing is stored. Without a file the declaration alone is looked at.
    """
    async with received(request, state) as sent:
        form = Form(sent.pairs)
        _keep(state, visitor, form)
        try:
            report = await _checked(request, visitor, form, sent)
        except Problem as problem:
            return _shown(request, form, Faults(problem))
    return _shown(request, form, checked=True, report=report)


async def _checked(
    request: Request, visitor: Caller, form: Form, sent: SentForm
) -> UploadReport | None:
    """Return how the file that a form is sent with would be read; None without one.

    Raises
    ------
    Problem
        What is wrong with the declaration or the file, by the form's fields.
    """
    state: AppState = request.state.app
    new, source = await _asked(state, visitor, form, partial(addressed, state, form))
    if source is None and not sent.file_name:
        return None
    rows = content_of(state, form, sent)
    try:
        return await state.services.datasets.check(
            new, rows, caller=visitor, waiting=waiting(request)
        )
    except Problem as problem:
        raise declaring.at_cells(problem, form) from None


@router.post("/datasets/new/columns")
async def change_columns(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Fill many fields at once: of chosen columns, from an earlier data set, or from a spec."""
    async with received(request, state) as sent:
        form = Form(sent.pairs)
    change = form.text(CHANGE)
    form = Form([pair for pair in form.pairs if pair[0] != CHANGE])
    try:
        if change == "export":
            return _exported(form)
        form = await _changed(state, visitor, form, change)
    except Problem as problem:
        return _shown(request, form, Faults(problem))
    _keep(state, visitor, form)
    return _shown(request, form, filled=change)


def _exported(form: Form) -> Response:
    """Return the spec that a form declares, as a file for programs."""
    return JSONResponse(declaring.spec_of(form), headers=headers_of_file("spec.json"))


async def _changed(state: AppState, visitor: Caller, form: Form, change: str) -> Form:
    """Return a form as the button leaves it that it was sent by.

    Raises
    ------
    Problem
        ``invalid-request``, by the form's fields: no such data set, or no spec.
    """
    if change == "copy":
        facts = await _earlier(state, visitor, form)
        columns = declaring.with_own_signs(columns_json(facts.columns), form)
        return declaring.with_people(declaring.with_columns(form, columns), _people(facts))
    if change == "import":
        try:
            spec = json.loads(form.text("spec"))
        except (ValueError, RecursionError):
            raise invalid_request("spec", "is not JSON") from None
        if not isinstance(spec, dict):
            raise invalid_request("spec", "must be an object")
        return declaring.form_of(spec, form)
    return declaring.with_one_field(form, change)


def _people(facts: DatasetFacts) -> dict[str, Any]:
    """Return what a data set declares of people, bounds, sampling and derived columns."""
    unit, design = facts.columns.unit, facts.columns.design
    return {
        "adjacency": facts.columns.adjacency.value,
        "max_rows": facts.columns.max_rows,
        "unit": None if unit is None else unit_json(unit),
        "derive": derived_json(facts.columns),
        "design": None if design is None else design_json(design),
    }


async def _earlier(state: AppState, visitor: Caller, form: Form) -> DatasetFacts:
    try:
        chosen = form.required("copied")
        await state.services.keys.access.require(visitor, {"dataset": chosen})
        return await state.services.datasets.present(chosen)
    except Problem as problem:
        if problem.code == "invalid-request":
            raise
        raise invalid_request("copied", "is not there any more; choose another one") from None


@router.post("/datasets/new")
async def upload(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Take in a file; the page that follows says how it was read, and creates the data set."""
    async with received(request, state) as sent:
        form = Form(sent.pairs)

        _keep(state, visitor, form)

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
    report: UploadReport | None = None,
    drafted: bool = False,
    filled: str = "",
    draft: str | None = None,
    notes: Any = (),
) -> Response:
    state: AppState = request.state.app
    return page(
        request,
        "new_dataset.html",
        status=faulted(request, faults),
        form=form,
        faults=faults,
        rows=declaring.rows_of(form),
        labels=declaring.labelled(form),
        doubts=declaring.doubts(form),
        set_of=declaring.set_of,
        sources=bool(state.settings.source_roots),
        earlier=_names_of_earlier(request),
        checked=checked,
        report=report,
        filled=filled,
        drafted=drafted,
        draft=draft,
        notes=notes,
        **declaring.CHOICES,
    )


def _names_of_earlier(request: Request) -> list[tuple[str, str]]:
    """Return the newest data sets that the visitor may see, by their ids."""
    state, caller = request.state.app, request.scope["caller"]
    found, _ = state.services.datasets.list(
        caller=caller,
        span=Span(limit=_MOST_EARLIER),
        most_bytes=state.constants.max_request_bytes,
    )
    return [("", "–"), *((each.facts.id, each.facts.record.name) for each in found)]


@router.get("/datasets/{upload}/create")
async def show_report(
    request: Request, visitor: CuratorVisitor, state: State, upload: str
) -> Response:
    """Show how a file was read, before its data set is created; afterwards, the data set."""
    try:
        return await _shown_report(request, state, visitor, upload)
    except Problem as problem:
        if problem.code != "not-found":
            raise
        await state.services.keys.access.require(visitor, {"dataset": upload})
        return see(path_of("datasets", upload))


@router.post("/datasets/{upload}/create")
async def create(request: Request, visitor: CuratorVisitor, state: State, upload: str) -> Response:
    """Create the data set of an upload that waits."""
    form = await read_form(request)

    async def store() -> tuple[DatasetView, UploadReport]:
        staged = await run_in_threadpool(_waiting, state, visitor, upload)
        new = await _declared_with(state, visitor, staged)
        if doubts(staged.report, new.budget) and not form.text("confirmed"):
            raise invalid_request("confirmed", "tick it to create the data set all the same")
        view = await state.services.datasets.confirm(upload, new, caller=visitor)
        await state.services.sessions.forget_draft(NEW, caller=visitor)
        return view, staged.report

    try:
        return await take_in_once(request, form, caller=visitor, store=store)
    except Problem as problem:
        return await _shown_report(
            request, state, visitor, upload, form=form, faults=Faults(problem)
        )


@router.post("/datasets/{upload}/discard")
async def discard(request: Request, visitor: CuratorVisitor, state: State, upload: str) -> Response:
    """Clear away an upload that waits."""
    form = await read_form(request)
    discarding = state.services.datasets.discard

    async def act() -> str:
        await run_in_threadpool(discarding, upload, caller=visitor)
        return address("/desk/datasets", done="discarded")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        if problem.code != "not-found":
            raise
        return see("/desk/datasets")


def _waiting(state: AppState, visitor: Caller, dataset: str) -> Staged:
    return state.services.datasets.staged(dataset, caller=visitor)


async def _declared_with(state: AppState, visitor: Caller, staged: Staged) -> NewDataset:
    """Return what an upload was declared with."""
    content = staged.declared.encode()
    if staged.extends is not None:
        rows = request_in(content, VersionSpec).declared()
        return await state.services.extending.declared(staged.extends, rows)
    most = state.constants.max_columns
    return await made_of(content, visitor.person, state.services.reading, spec_in, most)


async def _shown_report(
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
        staged = await run_in_threadpool(_waiting, state, visitor, dataset)
    except Problem:
        if faults.problem is None:
            raise
        return page(request, "upload_refused.html", status=faulted(request, faults), faults=faults)
    declared: dict[str, Any] = json.loads(staged.declared)
    budget = same_people = None
    if staged.extends is None:
        new = await _declared_with(state, visitor, staged)
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


@router.get("/datasets/{dataset}/versions")
def show_extending(
    request: Request, visitor: CuratorVisitor, state: State, dataset: str
) -> Response:
    """Show the form that adds rows, and to which version they are added."""
    del visitor
    return _shown_extending(request, state, dataset, EMPTY)


@router.post("/datasets/{dataset}/versions")
async def extend(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Take in rows; the page that follows says how they were read, and adds them."""
    async with received(request, state) as sent:
        form = Form(sent.pairs)
        stage = partial(_staged_rows, request, dataset, form, sent, caller=visitor)
        try:
            return await stage_once(request, form, caller=visitor, stage=stage)
        except Problem as problem:
            faults = Faults(problem)
    return await run_in_threadpool(_shown_extending, request, state, dataset, form, faults)


async def _staged_rows(
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
        new, rows = _asked_rows(state, form, sent)
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


def _asked_rows(
    state: AppState, form: Form, sent: SentForm
) -> tuple[VersionSpec, BinaryIO | Source]:
    """Return what a form says of the rows, and where they are; it reports all mistakes."""
    try:
        new = _declared_rows(form)
    except Problem as problem:
        faults = [*Faults(problem).all]
        try:
            content_of(state, form, sent)
        except Problem as other:
            faults += Faults(other).all
        raise invalid_requests(faults) from None
    return new, content_of(state, form, sent)


def _declared_rows(form: Form) -> VersionSpec:
    """Return what a form says of the rows."""
    fields: dict[str, Any] = {name: form.text(name) for name in ("name", "max_rows")}
    fields |= {name: form.raw(name) for name in ("delimiter", "encoding")}
    if skipped := form.text("skip_rows"):
        fields["skip_rows"] = number_of(skipped)
    if fields["max_rows"]:
        fields["max_rows"] = number_of(fields["max_rows"])
    if reason := form.text("overlap"):
        fields["overlap"] = {"reason": reason}
    return read_as(VersionSpec, fields)


def _shown_extending(
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
        delimiters=declaring.DELIMITERS,
        encodings=declaring.ENCODINGS,
        sources=bool(state.settings.source_roots),
    )
