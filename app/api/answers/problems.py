"""Every refusal and every failure as one shape: RFC 9457 ``application/problem+json``.

At the addresses of pages, it is a page (:func:`is_of_pages`).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from app.domain.problems import PROBLEMS, Problem
from app.web.anonymous import admit
from app.web.requests.validation import Fields, validation_problem
from app.web.state import AppState

MEDIA_TYPE = "application/problem+json"

_BY_STATUS = {
    400: "malformed-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
}
_CODES = "codes"
_PROBLEM_SCHEMA = {"$ref": "#/components/schemas/ProblemAnswer"}

_HEADERS = {
    "ETag": "Names the state that is shown, for `If-None-Match` and `If-Match`.",
    "Link": "Where what is sent is described.",
    "Location": "Where what has been made is shown.",
    "Retry-After": "Seconds to wait before asking again.",
    "WWW-Authenticate": "How to send a key.",
}
_NUMBERS = ("Retry-After",)
_SENT_WITH = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}


class ProblemAnswer(BaseModel):
    """A refusal. Kinds with extras carry them as further members, see `/problems/{code}`."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    type: str
    """The address of the page that says what it means and what to do."""
    code: str
    """The kind of refusal, one of those at `/problems`."""
    title: str
    """The kind in a few words."""
    status: int
    """The HTTP status."""
    detail: str
    """What was wrong with this request."""
    remedy: str
    """What to do about it."""
    request_id: str
    """Finds the request in the service's log."""


def problem_body(problem: Problem, request_id: str) -> dict[str, object]:
    """Return the members of a problem's body."""
    return {
        "type": f"/problems/{problem.code}",
        "code": problem.code,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "remedy": problem.remedy,
        "request_id": request_id,
        **problem.extras,
    }


def is_of_pages(path: str) -> bool:
    """Return whether people read the answers of an address in a browser.

    >>> is_of_pages("/desk"), is_of_pages("/desk/x"), is_of_pages("/public/releases/rel_1")
    (True, True, True)
    >>> is_of_pages("/deskx"), is_of_pages("/v1/datasets"), is_of_pages("/public/releases/x.json")
    (False, False, False)
    """
    room, _, rest = path.removeprefix("/").partition("/")
    return room == "desk" or (room == "public" and "." not in rest.rpartition("/")[2])


def refusal(scope: Scope, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer for a problem: a page at the addresses of pages, JSON at all others.

    ``scope`` needs a ``path``, a ``request_id`` and the lifespan's ``state``; without a state
    there are no pages.
    """
    state: AppState | None = scope.get("state", {}).get("app")
    if state is not None and is_of_pages(scope["path"]):
        return state.refusal_page(Request(scope), problem, headers or {})
    return _problem_response(problem, str(scope["request_id"]), headers)


def _problem_response(
    problem: Problem, request_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer for a problem, for programs."""
    sent = dict(headers or {})  # a copy: the headers belong to the caller
    if problem.status == 401:
        sent["WWW-Authenticate"] = "Bearer"
    if problem.retry_after_s is not None:
        sent["Retry-After"] = str(problem.retry_after_s)
    return Response(
        json.dumps(problem_body(problem, request_id), separators=(",", ":")),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=sent,
    )


def problem_answer(
    request: Request, problem: Problem, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem's answer, and let the middleware know its code."""
    request.scope["problem"] = problem.code
    return refusal(request.scope, problem, headers)


async def _on_problem(request: Request, error: Any) -> Response:
    return problem_answer(request, error)


async def _on_validation(request: Request, error: Any) -> Response:
    return problem_answer(
        request, validation_problem(error.errors(), None, fields=_parameters(request))
    )


def query_names(needs: Dependant) -> set[str]:
    """Return the query parameters of a route and of all it depends on."""
    own = {field.alias for field in needs.query_params}
    return own.union(*map(query_names, needs.dependencies))


def _parameters(request: Request) -> Fields:
    """Return the names of a route's parameters: those are ours, what they hold is not."""
    needs = request.scope["route"].dependant
    names = query_names(needs) | {field.alias for field in needs.path_params}
    return Fields({"properties": dict.fromkeys(names)})


def install_problem_handlers(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Let every error of the framework leave in this service's shape.

    ``routes`` are all that the application has, each with its own methods.
    """

    async def on_http(request: Request, error: Any) -> Response:
        try:
            await admit(request.scope)
        except Problem as refused:
            return problem_answer(request, refused)
        problem = Problem(_BY_STATUS.get(error.status_code, "internal"))
        allow = {"Allow": _methods(request, routes)} if problem.status == 405 else {}
        return problem_answer(request, problem, allow)

    # All else is the middleware's, which answers that the desk has failed, and logs why.
    handlers: dict[type[Exception], Callable[[Request, Any], Awaitable[Response]]] = {
        Problem: _on_problem,
        RequestValidationError: _on_validation,
        HTTPException: on_http,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _methods(request: Request, routes: Sequence[BaseRoute]) -> str:
    """Return every method an address takes; the framework names those of one route."""
    found = {
        method
        for route in routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    return ", ".join(sorted(found | {"HEAD"} if "GET" in found else found))


def carrying(*names: str) -> dict[str, dict[str, Any]]:
    """Return the OpenAPI ``headers`` of an answer that always carries these."""
    return {
        name: {
            "description": _HEADERS[name],
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if name in _NUMBERS else {"type": "string"},
        }
        for name in names
    }


def documented(
    *codes: str, answers: dict[int | str, dict[str, Any]] | None = None
) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI ``responses`` of an endpoint that may give these problems.

    What every key and every body may be refused for, the endpoint adds (:func:`described`).
    """
    found: dict[int | str, dict[str, Any]] = dict(answers or {})
    for code in codes:
        found.setdefault(PROBLEMS[code].status, {_CODES: []})[_CODES].append(code)
    return found


def described(
    responses: Mapping[int | str, dict[str, Any]], always: Sequence[str]
) -> dict[int | str, dict[str, Any]]:
    """Return what :func:`documented` gave, and the problems that there always are, in full."""
    named = {code for each in responses.values() for code in each.get(_CODES, ())}
    found = documented(*named, *always)
    return {
        **{status: each for status, each in responses.items() if _CODES not in each},
        **{status: _refusals(each[_CODES]) for status, each in sorted(found.items(), key=str)},
    }


def _refusals(codes: Sequence[str]) -> dict[str, Any]:
    """Return the description of all problems of one status."""
    known = [code for code in PROBLEMS if code in codes]
    status = PROBLEMS[known[0]].status
    described: dict[str, Any] = {
        "description": ", ".join(f"`{code}`" for code in known),
        "content": {MEDIA_TYPE: {"schema": _PROBLEM_SCHEMA}},
    }
    sent = _SENT_WITH.get(status)
    # some of 503 say nothing of when
    if sent and (status != 503 or all(PROBLEMS[code].retry_after_s for code in known)):
        described["headers"] = carrying(sent)
    return described
