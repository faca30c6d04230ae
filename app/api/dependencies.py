"""What endpoints ask for: the services, the caller, the body.

A route that states each thing about itself once; documents, tests and logs read it there.

*Who may call it* is the caller its function asks for (``Analyst``, ``Curator``, ``Admin``), or
:data:`ANYONE`. *What it takes* is the model of its ``json_body``, or a model in its
``openapi_extra``. *What it may refuse* it names with ``documented``; what every key or body may
be refused for is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import APIRouter, Depends, Path
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.answers.problems import described, problem_answer, query_names
from app.domain.policies import Right
from app.domain.problems import Problem, invalid_request
from app.services.people.keys import Caller
from app.services.plans.answers import etag_of, tag_of_release
from app.services.releases.receipts import LongAnswer, SentAnswer
from app.services.releases.releases import ReleaseRecord
from app.web.anonymous import admit, serve_anyone
from app.web.requests.questions import answer_in, made_of, request_in
from app.web.requests.schemas import ReceiptRequest
from app.web.requests.validation import unknown_parameter
from app.web.requests.values import RequestBody
from app.web.state import AppState

_ID = "An opaque id, as the service gave it."
_JSON = "application/json"
_MAX_KEY_LENGTH = 200


def state_of(request: Request) -> AppState:
    """Return what the lifespan built."""
    # Out of the scope itself: the framework wraps it again for every access.
    state: AppState = request.scope["state"]["app"]
    return state


async def _state(request: Request) -> AppState:
    # a coroutine, because the framework calls plain functions in another thread
    return state_of(request)


State = Annotated[AppState, Depends(_state)]


async def caller_of(request: Request, right: Right) -> Caller:
    """Return who sent a request, which counts against the key's rate.

    Raises
    ------
    Problem
        ``unauthorized``, ``rate-limited``, ``forbidden``; ``invalid-request``
        for a query parameter that the route does not have; ``busy`` in the head room
        beyond the most connections, which is for admins and for who reads the metrics;
        ``not-found`` for a data set or a release that is not there for them.
    """
    state = state_of(request)
    try:
        known = await state.services.keys.recognise(_bearer(request))
    except Problem:
        await state.anonymous.admit(request.scope)
        raise
    state.anonymous.note_person()
    request.scope["caller"] = known
    # After the key is known: only then is it known whether it is an operator's.
    if request.scope.get("in_head_room") and not known.role.may(Right.WATCH):
        raise Problem("busy")
    # Before the right is judged: a refusal counts against the rate as well.
    await state.rates.take(known.key)
    known.require(right)
    if request.scope["query_string"]:
        _check_query(request)
    # Before the body is judged: a refusal of that says that the data set is there.
    await state.services.keys.access.require(
        known, request.scope["path_params"], leaving=state.clock.answer
    )
    return known


@dataclass(frozen=True, slots=True)
class CallerWith:
    """The dependency that requires a right; what the route takes is read from it."""

    right: Right

    # a coroutine, because key look-ups belong on the event loop (see KeyService)
    async def __call__(self, request: Request) -> Caller:
        """Return who sent a request."""
        return await caller_of(request, self.right)


def _check_query(request: Request) -> None:
    """Refuse query parameters that the route does not have, as bodies do with fields."""
    known = query_names(request.scope["route"].dependant)
    for name in request.query_params:
        if name not in known:
            raise invalid_request("query", unknown_parameter(sorted(known), name))


def _bearer(request: Request) -> bytes:
    """Return the bytes of the bearer token; any text may be a bootstrap key."""
    # Given twice it is refused: two readers of one request could believe different ones.
    found = _headers(request, b"authorization")
    scheme, _, secret = found[0].partition(b" ") if len(found) == 1 else (b"", b"", b"")
    if scheme.lower() != b"bearer":
        raise Problem("unauthorized")
    return bytes(secret.strip())


Reader = Annotated[Caller, Depends(CallerWith(Right.READ))]
Analyst = Annotated[Caller, Depends(CallerWith(Right.ASK))]
Overseer = Annotated[Caller, Depends(CallerWith(Right.OVERSEE))]
Reviewer = Annotated[Caller, Depends(CallerWith(Right.DECIDE))]
Curator = Annotated[Caller, Depends(CallerWith(Right.CURATE))]
Admin = Annotated[Caller, Depends(CallerWith(Right.ADMINISTER))]
Watcher = Annotated[Caller, Depends(CallerWith(Right.WATCH))]


def _headers(request: Request, name: bytes) -> list[bytes]:
    """Return the values of a header; names arrive in lower case."""
    return [value for known, value in request.scope["headers"] if known == name]


def id_in_path(request: Request, name: str) -> str:
    """Return an id that the route's path holds."""
    return _of_an_id(request.scope["path_params"][name])


def _of_an_id(text: str) -> str:
    """Return the text, or what no id is: some databases cannot even be asked for a NUL."""
    return text if text.isprintable() else ""


Id = Annotated[str, Path(description=_ID), AfterValidator(_of_an_id)]
IdFilter = Annotated[str | None, AfterValidator(lambda text: text and _of_an_id(text))]


class TakesJson(Protocol):
    """A dependency that reads a JSON body; the route's model is read from it."""

    @property
    def model(self) -> type[BaseModel]: ...

    async def __call__(self, request: Request) -> Any:
        """Return what the body says."""


@dataclass(frozen=True, slots=True)
class JsonBody:
    """The dependency that reads a body as a model, exactly (see ``exact_json``).

    The framework's own body parameters would parse, coerce and round.
    """

    model: type[RequestBody]

    async def __call__(self, request: Request) -> RequestBody:
        """Return the body.

        Raises
        ------
        Problem
            ``unsupported-media-type``, ``too-large``, ``invalid-request``; ``busy``
            when it is long and many such of the person's are waiting to be read.
        """
        body = await json_bytes(request)
        reading = state_of(request).services.reading
        return await made_of(body, _person(request), reading, request_in, self.model)


def json_body(model: type[RequestBody]) -> Any:
    """Return what annotates an endpoint's body."""
    return Depends(JsonBody(model))


async def json_bytes(request: Request) -> bytes:
    """Return a JSON body as it was sent.

    Raises
    ------
    Problem
        ``unsupported-media-type``, ``too-large``.
    """
    body = bytearray()
    await _take_json(request, "max_request_bytes", body.extend)
    return bytes(body)


def is_json(request: Request) -> bool:
    """Say whether a request says that its body is JSON."""
    kinds = _headers(request, b"content-type")
    return bool(kinds) and kinds[0].partition(b";")[0].strip().lower() == _JSON.encode()


@dataclass(frozen=True, slots=True)
class SentBack:
    """The dependency that reads an answer that was sent back.

    A long one is not kept, and read by its end alone.
    """

    model: type[BaseModel]

    async def __call__(self, request: Request) -> SentAnswer:
        """Return the answer."""
        state = state_of(request)
        body, long = bytearray(), LongAnswer()

        def take(chunk: bytes) -> None:
            body.extend(chunk)
            if long.begun or len(body) > state.constants.max_request_bytes:
                # From here on only its end is kept; what has come is hashed.
                long.add(body)
                body.clear()

        await _take_json(request, "max_answer_bytes", take)
        if long.begun:
            return long.sent()
        return await made_of(bytes(body), _person(request), state.services.reading, answer_in)


def _person(request: Request) -> str:
    """Return who sent a request; no body is read before that is known."""
    caller: Caller = request.scope["caller"]
    return caller.person


Sent = Annotated[SentAnswer, Depends(SentBack(ReceiptRequest))]


def id_parameter(name: str) -> dict[str, Any]:
    """Return the OpenAPI description of an id in the path of a direct route."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _ID,
        "schema": {
            "type": "string",
            "title": name.capitalize(),
            "description": _ID,
        },
    }


async def _take_json(request: Request, limit: str, take: Callable[[bytes], object]) -> None:
    """Have a JSON body taken as it comes; ``limit`` is the constant of how large it may be."""
    if not is_json(request):
        raise Problem("unsupported-media-type", "Send the body as application/json.")
    maximum: int = getattr(state_of(request).constants, limit)
    received, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        received += len(chunk)
        if received > maximum:
            raise Problem(
                "too-large",
                f"The body is larger than {limit} ({maximum} bytes).",
                limit=limit,
                maximum=maximum,
            )
        take(chunk)


def idempotency_key_of(request: Request) -> str:
    """Return the Idempotency-Key of a request.

    Raises
    ------
    Problem
        ``idempotency-key-missing`` when it is absent, empty, given twice or
        not printable ASCII of at most 200 characters.
    """
    found = _headers(request, b"idempotency-key")
    key = found[0].decode("latin-1") if len(found) == 1 else ""
    if not (1 <= len(key) <= _MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise Problem("idempotency-key-missing")
    return key


def unchanged(request: Request) -> Callable[[ReleaseRecord], bool]:
    """Return whether a release is still what the request's If-Match names.

    Raises
    ------
    Problem
        ``precondition-missing``.
    """
    named = tag_named(request)
    return lambda found: named(etag_of(found))


def tag_named(request: Request) -> Callable[[str], bool]:
    """Return whether an entity tag is one that the request's If-Match names.

    Raises
    ------
    Problem
        ``precondition-missing``.
    """
    condition = request.headers.get("if-match")
    if condition is None:
        raise Problem("precondition-missing")
    return lambda tag: _names(condition, tag)


def _names(condition: str, tag: str) -> bool:
    """Return whether an If-Match names the tag (strong comparison, RFC 9110 13.1.1)."""
    named = [part.strip() for part in condition.split(",")]
    return condition.strip() == "*" or tag in (*named, *map(tag_of_release, named))


# A route that states each thing about itself once; documents, tests and logs read it there


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
    right
        What it takes to call it; None: anyone may, without a key.
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
        rights = [call.right for call in asked if isinstance(call, CallerWith)]
        bodies: list[TakesJson] = [c for c in asked if isinstance(c, JsonBody | SentBack)]
        extra = dict(self.openapi_extra or {})
        # At the start, rather than later with an endpoint that is open to all by mistake.
        if len(rights) != (0 if extra.get("security") == [] else 1):
            raise TypeError(f"{path} does not say, once, who may call it")
        self.right: Right | None = rights[0] if rights else None
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
        if self.right is not None:
            await super().handle(scope, receive, send)
        elif self.probe:
            await admit(scope, probe=True)
            await super().handle(scope, receive, send)
        else:
            await serve_anyone(super().handle, scope, receive, send, kept=self.kept)

    def _always_refused(self) -> tuple[str, ...]:
        """Return the problems that its key and its body alone may lead to."""
        keyed = _OPEN if self.right is None else _KEYED
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
        if self.right is None or self.body is None:
            raise TypeError(f"{path} is direct, and does not take a caller and a body")
        self._needs = self.right, self.body

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Of what the endpoint raises, problems are answered here."""
        if scope["method"] not in (self.methods or ()):  # the framework answers 405, as everywhere
            await super().handle(scope, receive, send)
            return
        request, (right, read) = Request(scope, receive, send), self._needs
        response: Response
        try:
            caller = await caller_of(request, right)
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
