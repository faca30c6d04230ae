"""A route that states each thing about itself once; documents, tests and logs read it there.

*Who may call it* is the caller its function asks for (``Analyst``, ``Curator``, ``Admin``), or
:data:`ANYONE`. *What it takes* is the model of its ``json_body``, or a model in its
``openapi_extra``. *What it may refuse* it names with ``documented``; what every key or body may
be refused for is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.answers.problems import described, problem_answer
from app.api.dependencies import (
    CallerAtLeast,
    JsonBody,
    SentBack,
    TakesJson,
    caller_of,
    state_of,
)
from app.domain.policies import Role
from app.domain.problems import Problem
from app.web.anonymous import admit, serve_anyone

ANYONE: dict[str, Any] = {"security": []}
"""The ``openapi_extra`` of a route that needs no key."""

_KEYED = ("unauthorized", "forbidden", "invalid-request", "rate-limited")
_OPEN = ("rate-limited",)
_WITH_BODY = ("too-large", "unsupported-media-type", "invalid-request")
_UNTIMED, _KEPT, _PROBE = "untimed", "kept", "probe"

Function = TypeVar("Function", bound=Callable[..., Any])


def untimed(function: Function) -> Function:
    """Keep the duration of a call out of the log: it depends on rows or on the noise drawn."""
    vars(function)[_UNTIMED] = True
    return function


def kept(function: Function) -> Function:
    """Let anyone keep an answer, until something public changes: it is the same for everyone."""
    vars(function)[_KEPT] = True
    return function


def probe(function: Function) -> Function:
    """Have a call wait for no other request without a key."""
    vars(function)[_PROBE] = True
    return function


class Endpoint(APIRoute):
    """A route of the contract.

    Attributes
    ----------
    role
        The least role that may call it; None: anyone may, without a key.
    body
        What reads its JSON body, if it takes one.
    models
        Every model of its request bodies, for the OpenAPI document.
    untimed
        Whether its duration must not be published.
    kept
        Whether anyone may keep its answer, which is the same for everyone.
    probe
        Whether it says how the service is, and waits for no other request without a key.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        asked = [each.call for each in _within(self.dependant)]
        roles = [call.role for call in asked if isinstance(call, CallerAtLeast)]
        bodies: list[TakesJson] = [c for c in asked if isinstance(c, JsonBody | SentBack)]
        extra = dict(self.openapi_extra or {})
        # At the start, rather than later with an endpoint that is open to all by mistake.
        if len(roles) != (0 if extra.get("security") == [] else 1):
            raise TypeError(f"{path} does not say, once, who may call it")
        self.role: Role | None = roles[0] if roles else None
        self.body: TakesJson | None = bodies[0] if bodies else None
        self.untimed = bool(vars(endpoint).get(_UNTIMED))
        self.kept = bool(vars(endpoint).get(_KEPT))
        self.probe = bool(vars(endpoint).get(_PROBE))
        if self.body is not None:
            content = {"application/json": {"schema": {"$ref": self.body.model}}}
            extra["requestBody"] = {"required": True, "content": content}
        self.models: set[type[BaseModel]] = set()
        self.openapi_extra = self._referring(extra)
        self.responses = described(self.responses, self._always_refused())

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; one that needs no key has its bounds (:mod:`app.web.anonymous`)."""
        if self.role is not None:
            await super().handle(scope, receive, send)
        elif self.probe:
            await admit(scope, probe=True)
            await super().handle(scope, receive, send)
        else:
            await serve_anyone(super().handle, scope, receive, send, kept=self.kept)

    def _always_refused(self) -> tuple[str, ...]:
        """Return the problems that its key and its body alone may lead to."""
        keyed = _OPEN if self.role is None else _KEYED
        return (*keyed, *(_WITH_BODY if self.models else ()))

    def _referring(self, part: Any) -> Any:
        """Return a part of the description with models replaced by their names, and keep them."""
        if isinstance(part, type) and issubclass(part, BaseModel):
            self.models.add(part)
            return f"#/components/schemas/{part.__name__}"
        if isinstance(part, Mapping):
            return {name: self._referring(inner) for name, inner in part.items()}
        return [self._referring(inner) for inner in part] if isinstance(part, list) else part


class DirectEndpoint(Endpoint):
    """An endpoint without the framework's machinery, for what is asked most.

    The framework resolves an endpoint's dependencies for every request, which takes longer
    than to charge for a small release and to draw it. A direct endpoint is a coroutine of the
    request, its caller and its body, in this order, and is documented like any other; its
    parameters, which the framework does not see, are declared in ``openapi_extra``.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        if self.role is None or self.body is None:
            raise TypeError(f"{path} is direct, and does not take a caller and a body")
        self._needs = self.role, self.body

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Of what the endpoint raises, problems are answered here."""
        if scope["method"] not in (self.methods or ()):  # the framework answers 405, as everywhere
            await super().handle(scope, receive, send)
            return
        request, (role, read) = Request(scope, receive, send), self._needs
        response: Response
        try:
            caller = await caller_of(request, role)
            response = await self.endpoint(request, caller, await self._read(request, read))
        except Problem as problem:
            response = problem_answer(request, problem)
        await response(scope, receive, send)

    async def _read(self, request: Request, read: TakesJson) -> Any:
        """Return the body. If its answers leave at ticks, so does a refusal of the body."""
        try:
            return await read(request)
        except Problem:
            if not self.untimed:
                raise
            async with state_of(request).clock.answer():
                raise


class DirectRoutes:
    """Has direct endpoints answer before the framework looks for a route.

    Their paths with another method are the framework's, as all other paths are.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes = [route for route in routes if isinstance(route, DirectEndpoint)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        for route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                await route.handle(scope, receive, send)
                return
        await self._app(scope, receive, send)


def router_of(prefix: str, tag: str, *, direct: bool = False) -> APIRouter:
    """Return a router whose routes are endpoints."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=DirectEndpoint if direct else Endpoint)


def _within(needs: Dependant) -> Iterator[Dependant]:
    """Yield all that a route depends on, however indirectly."""
    for each in needs.dependencies:
        yield each
        yield from _within(each)
