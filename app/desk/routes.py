"""A route that answers with a page, whatever happens.

*Who may see it* is what its function asks for: ``Visitor`` (every signed-in user),
``CuratorVisitor``, and others; a function that asks for none is for everyone. A visitor who
is not signed in is led to the page where one does. A refusal is a page that says what to do; a page
with a form shows the refusal itself, at the field (see :class:`app.desk.forms.Faults`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from app.desk import cookies
from app.desk.rendering import page
from app.domain.policies import Right
from app.domain.problems import Problem, StoppedError, is_of_storage, storage_problem
from app.logs import describe
from app.services.people.keys import Caller
from app.web.anonymous import admit, serve_anyone
from app.web.state import AppState

_LOG = logging.getLogger("app.requests")
SIGN_IN = "/desk/sign-in"
_DRAFTED = re.compile(r"/desk/datasets/(new|[^/]+/ask)(?=/|$)")
"""The pages whose forms are kept as drafts."""
_LONGEST_QUERY = 8_000
"""What is longer is left out of the way back: quoted once more, it would be too long."""


class Page(APIRoute):
    """A route whose refusals are pages. It is no part of the contract of programs.

    How long one takes stays out of the log: it may depend on rows, or on noise drawn.
    """

    untimed = True

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        options["include_in_schema"] = False
        options["response_model"] = None
        super().__init__(path, endpoint, **options)
        asked = [each.call for each in self.dependant.dependencies]
        self._open = not any(isinstance(call, VisitorWith) for call in asked)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; one for everyone has its bounds (:mod:`app.web.anonymous`)."""
        if not self._open:
            await super().handle(scope, receive, send)
            return
        try:
            await serve_anyone(super().handle, scope, receive, send)
        except Problem as problem:
            await refused(Request(scope, receive), problem)(scope, receive, send)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await answer(request)
            except RequestValidationError:  # no id looks like this, and no page has this name
                return refused(request, Problem("not-found"))
            except Problem as problem:
                return refused(request, problem)
            except (ClientDisconnect, StoppedError):  # no client is left to be shown a page
                raise
            except Exception as error:  # the boundary: a page's visitor sees the refusal on a page
                details = {"request_id": request.scope["request_id"], **describe(error)}
                _LOG.error("request failed", extra=details)
                failed = storage_problem() if is_of_storage(error) else Problem("internal")
                return refused(request, failed)

        return handler


def refused(
    request: Request, problem: Problem, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the page that says why there is no other; ``headers`` are sent along."""
    request.scope["problem"] = problem.code
    if problem.code == "unauthorized":
        return _to_sign_in(request)
    return page(
        request,
        "refused.html",
        status=problem.status,
        problem=problem,
        headers={**_again(problem), **(headers or {})},
    )


def _again(problem: Problem) -> dict[str, str]:
    after = problem.retry_after_s
    return {} if after is None else {"Retry-After": str(after)}


def _to_sign_in(request: Request) -> Response:
    """Lead to where one signs in, and from there back to what was to be seen."""
    wanted, query = request.url.path, request.url.query
    if request.method not in ("GET", "HEAD"):  # back to a form that has a draft
        drafted = _DRAFTED.match(wanted)
        wanted, query = "" if drafted is None else drafted[0], ""
    if wanted and 0 < len(query) <= _LONGEST_QUERY:
        wanted += f"?{query}"
    asked = f"?next={quote(wanted)}" if wanted not in ("", "/desk") else ""
    response = RedirectResponse(SIGN_IN + asked, status_code=303)
    response.headers["Cache-Control"] = "no-store"
    if cookies.session_of(request):
        cookies.forget(request, response)
    return response


class LonePage(Page):
    """A page for everyone that waits for another service: no other visitor waits behind it."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        try:
            await admit(scope)
            await APIRoute.handle(self, scope, receive, send)
        except Problem as problem:
            await refused(Request(scope, receive), problem)(scope, receive, send)


def router_of(tag: str, *, alone: bool = False) -> APIRouter:
    """Return a router whose routes are pages."""
    return APIRouter(prefix="/desk", tags=[tag], route_class=LonePage if alone else Page)


def state_of(request: Request) -> AppState:
    """Return what the lifespan built."""
    state: AppState = request.state.app
    return state


async def _state(request: Request) -> AppState:
    # a coroutine, because the framework calls plain functions in another thread
    return state_of(request)


State = Annotated[AppState, Depends(_state)]


@dataclass(frozen=True, slots=True)
class VisitorWith:
    """The dependency that requires a right."""

    right: Right

    async def __call__(self, request: Request) -> Caller:
        """Return who is signed in, whose request counts against the key's rate.

        Raises
        ------
        Problem
            ``unauthorized``, ``busy``, ``rate-limited``, ``forbidden``, ``not-found``.
        """
        state = state_of(request)
        token = cookies.session_of(request)
        try:
            if not token:
                raise Problem("unauthorized")
            caller = await state.services.sessions.caller(token)
        except Problem:
            await state.anonymous.admit(request.scope)
            raise
        state.anonymous.note_person()
        request.scope["caller"] = caller
        if request.scope.get("in_head_room") and not caller.role.may(Right.ADMINISTER):
            raise Problem("busy")
        await state.rates.take(caller.key)
        caller.require(self.right)
        await state.services.keys.access.require(
            caller, request.scope["path_params"], leaving=state.clock.answer
        )
        return caller


Visitor = Annotated[Caller, Depends(VisitorWith(Right.READ))]
AskingVisitor = Annotated[Caller, Depends(VisitorWith(Right.ASK))]
OverseeingVisitor = Annotated[Caller, Depends(VisitorWith(Right.OVERSEE))]
DecidingVisitor = Annotated[Caller, Depends(VisitorWith(Right.DECIDE))]
CuratorVisitor = Annotated[Caller, Depends(VisitorWith(Right.CURATE))]
AdminVisitor = Annotated[Caller, Depends(VisitorWith(Right.ADMINISTER))]
