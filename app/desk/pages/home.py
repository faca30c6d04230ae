"""The first page, search, signing in and out, the desk's own files.

Also every address where nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from app.desk import cookies
from app.desk.arranging import numbers_of
from app.desk.forms import EMPTY, NONE, Faults, read_form, require_own_site, see
from app.desk.rendering import STATIC, keep_language, page, static_address
from app.desk.routes import SIGN_IN, State, Visitor, router_of, state_of
from app.domain.access import Span
from app.domain.policies import Right
from app.domain.problems import Problem, invalid_request
from app.domain.releases import ReleaseState
from app.domain.reviews import PlanState
from app.services.datasets.datasets import DatasetFacts
from app.services.people.keys import Caller
from app.services.plans.answers import heading_of
from app.services.releases.releases import ReleaseRecord
from app.services.searching import MOST_CHARACTERS, NEWEST
from app.tidy.names import marked
from app.web.anonymous import base_of
from app.web.languages import LANGUAGES
from app.web.state import AppState

router = router_of("home")
elsewhere = router_of("home", alone=True)
"""Pages that wait for a provider of identities."""

_CHART = marked("The released numbers")
_SHOWN = 20
_LATEST = 10
_LATEST_RELEASES = 5
_WAITING = (ReleaseState.CHANGES_REQUESTED, ReleaseState.RESERVED)
_PLANS_WAITING = (PlanState.CHANGES_REQUESTED, PlanState.REQUESTED)


@router.get("")
def show_home(request: Request, visitor: Visitor, state: State) -> Response:
    """Show what waits, the visitor's own turn first, what was opened last, and what is new."""
    services, more = state.services, Span(limit=_SHOWN + 1)
    found = [services.releases.heads(caller=visitor, state=each, span=more) for each in _WAITING]
    rows = [_row(record, visitor) for heads in found for record in heads[:_SHOWN]]
    rows.sort(key=lambda row: not row["mine"])  # a stable order: newest first in each part
    asked = {row["of"].dataset for row in rows}
    names = {each: services.datasets.facts(each).record.name for each in asked}
    views, _ = services.datasets.list(caller=visitor, span=Span(limit=_LATEST), most_bytes=1 << 20)
    recent = list(_opened(request, visitor, state))
    pending = {row["of"].id for row in rows}
    latest = services.releases.heads(caller=visitor, span=Span(limit=_LATEST_RELEASES))
    return page(
        request,
        "home.html",
        rows=rows,
        more=any(len(heads) > _SHOWN for heads in found),
        names=names,
        recent=recent,
        waiting=services.datasets.waiting(caller=visitor),
        datasets=[each.facts for each in views if each.facts.id not in {r.id for r in recent}],
        releases=[heading_of(each) for each in latest if each.id not in pending],
        plans=services.study_plans.heads(
            caller=visitor, span=Span(limit=_SHOWN), states=_PLANS_WAITING
        ),
    )


def _opened(request: Request, visitor: Caller, state: AppState) -> Iterator[DatasetFacts]:
    """Yield the data sets that the browser opened last, of those that the visitor may see."""
    for dataset in cookies.opened(request):
        with suppress(Problem):
            facts = state.services.datasets.facts(dataset)
            if facts.record.account not in visitor.hidden:
                yield facts


def _row(record: ReleaseRecord, visitor: Caller) -> Mapping[str, Any]:
    """Return what is said of a request that waits, and whether it is the visitor's turn."""
    own = record.principal == visitor.person
    if record.state is ReleaseState.CHANGES_REQUESTED:
        turn = marked("your answer") if own else record.principal
        return {"of": heading_of(record), "mine": own, "turn": turn}
    mine = not own and visitor.role.may(Right.DECIDE)
    return {
        "of": heading_of(record),
        "mine": mine,
        "turn": marked("your review") if mine else marked("a review"),
    }


_MOST_FOUND = 20


@router.get("/search")
def search(request: Request, visitor: Visitor, state: State, q: str = "") -> Response:
    """Show what has every word of a query, of what the visitor may see."""
    query = q.strip()[:MOST_CHARACTERS]
    return page(
        request,
        "search.html",
        query=query,
        found=state.services.searching.find(query, caller=visitor, limit=_MOST_FOUND),
        documents=state.documents_with(query)[:_MOST_FOUND],
        most=_MOST_FOUND,
        newest=NEWEST,
    )


@router.get("/sign-in")
async def show_sign_in(request: Request) -> Response:
    """Show where one signs in."""
    return _shown_sign_in(request, _own(request.query_params.get("next", "")))


@router.post("/sign-in")
async def sign_in(request: Request, state: State) -> Response:
    """Begin a session; a wrong key is reported as such, and no more."""
    if request.scope.get("in_head_room"):  # everyone could keep requesting a form
        raise Problem("busy")
    form = await read_form(request)
    wanted = _own(form.text("next"))
    secret = form.text("key").strip()
    try:
        caller = await state.services.keys.recognise(secret.encode())
        caller.require(Right.READ)
        await state.rates.take(caller.key)
        token = await state.services.sessions.begin(secret)
    except Problem as problem:
        if problem.code != "unauthorized":
            raise
        await state.anonymous.admit(request.scope)
        request.scope["problem"] = problem.code
        return _shown_sign_in(request, wanted, wrong=True)
    return await _begun(request, state, see(wanted), token)


@elsewhere.get("/sign-in/{provider}")
async def begin_at_provider(request: Request, state: State, provider: str) -> Response:
    """Send a browser to where its user signs in; a proxy has signed them in already."""
    wanted = _own(request.query_params.get("next", ""))
    if state.sign_in.by_proxy(provider):
        token = await state.sign_in.of_proxy(request.headers.raw)
        return await _begun(request, state, page(request, "signed_in.html", wanted=wanted), token)
    address, taken = await state.sign_in.begin(
        provider, back=_back(request, state, provider), wanted=wanted
    )
    response = RedirectResponse(address, status_code=303, headers=_NOT_STORED)
    cookies.take_along(request, response, taken)
    return response


@elsewhere.get("/sign-in/{provider}/callback")
async def end_at_provider(request: Request, state: State, provider: str) -> Response:
    """Begin a session for whom a provider vouches for.

    The answer is a page that goes on by itself: browsers send the session's cookie only with what
    a page of this site has asked for, and a browser that the provider sends comes from another.
    """
    said = request.query_params
    token, wanted = await state.sign_in.finish(
        provider,
        back=_back(request, state, provider),
        taken=cookies.taken_along(request),
        state=said.get("state", ""),
        code=said.get("code", ""),
    )
    shown = page(request, "signed_in.html", wanted=_own(wanted))
    response = await _begun(request, state, shown, token)
    cookies.take_along(request, response, "")
    return response


async def _begun(request: Request, state: AppState, response: Response, token: str) -> Response:
    """Return an answer that begins a session, in the language that its person chose last."""
    cookies.remember(request, response, token)
    sessions = state.services.sessions
    caller = await sessions.caller(token)
    language = await run_in_threadpool(partial(sessions.language, caller=caller))
    if language in LANGUAGES:
        keep_language(response, language)
        sessions.keep_language(language, caller=caller)
    return response


def _back(request: Request, state: State, provider: str) -> str:
    """Return where a provider sends browsers back to; it knows this address beforehand."""
    base = base_of(request, state.settings.public_url)
    return f"{base}/desk/sign-in/{provider}/callback"


@router.post("/sign-out")
async def sign_out(request: Request, state: State) -> Response:
    """End a session."""
    require_own_site(request)
    token = cookies.session_of(request)
    if token:
        await state.services.sessions.end(token)
    response = see(SIGN_IN)
    cookies.forget(request, response)
    return response


def _shown_sign_in(request: Request, wanted: str, *, wrong: bool = False) -> Response:
    status = 401 if wrong else 200
    offered = state_of(request).sign_in.offered
    return page(
        request, "sign_in.html", status=status, wrong=wrong, wanted=wanted, providers=offered
    )


def _own(address: str) -> str:
    """Return an address of the desk; anything else is the desk's first page."""
    below = address.startswith("/desk/") and "//" not in address and "\\" not in address
    return address if below and address.isprintable() else "/desk"


_NOT_STORED = {"Cache-Control": "no-store"}
_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/static/{digest}/{name}")
def show_file(digest: str, name: str) -> Response:
    """Send a file of the desk."""
    known = {path.name for path in STATIC.iterdir() if path.is_file()}
    if name not in known or static_address(name) != f"/desk/static/{digest}/{name}":
        raise Problem("not-found")
    return FileResponse(STATIC / name, headers=_KEPT)


# What pages are made of, in development

_TOKENS = (
    "paper", "sheet", "ink", "soft", "line", "accent", "good", "weak", "bad", "good-back",
    "weak-back", "bad-back", "calm-back", "bar", "second", "third", "fourth",
)  # fmt: skip
_STATES = (
    "released", "awaiting_review", "changes_requested", "running", "rejected", "withdrawn",
    "expired", "void", "draft", "active", "archived", "good", "weak", "depends", "noise",
)  # fmt: skip
_MEANS = {"income": 3250.0, "food": 482.0}
_ENDS = {"income": [3209.0, 3291.0], "food": [458.0, 506.0]}
_ASKED = (
    {"kind": "mean", "columns": [*_MEANS], "by": ["region"]},
    {"kind": "histogram", "columns": ["region"]},
)
_ANSWER = {
    "statistic": {"kind": "stack", "parts": [{"statistic": each} for each in _ASKED]},
    "value": {
        "parts": [
            {"groups": [{"by": {"region": each}, "value": _MEANS} for each in ("north", "south")]},
            {"cells": [{"cell": {"region": f"region {n}"}, "count": 900 // n} for n in (1, 2, 3)]},
        ]
    },
    "noise": {"interval_95": {"parts": [{"groups": [{"by": {}, "value": _ENDS}] * 2}, None]}},
}


@router.get("/components")
def show_components(request: Request, visitor: Visitor, state: State) -> Response:
    """Show every part that pages are made of, where the service runs in development."""
    del visitor
    if not state.settings.development:
        raise Problem("not-found")
    wrong = invalid_request("accuracy", "must be a number")
    return page(
        request,
        "components.html",
        tokens=_TOKENS,
        states=_STATES,
        numbers=numbers_of(_ANSWER, _CHART, {}),
        form=EMPTY,
        faults=Faults(wrong),
        none_wrong=NONE,
    )


nowhere = router_of("nowhere")


@nowhere.get("/{rest:path}")
def show_nothing(visitor: Visitor, rest: str) -> Response:
    """Say that there is no such page."""
    del visitor
    if not rest:
        return see("/desk")
    raise Problem("not-found")
