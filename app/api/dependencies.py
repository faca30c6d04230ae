"""What endpoints ask for: the services, the caller, the body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import Depends, Path
from fastapi.dependencies.models import Dependant
from pydantic import AfterValidator, BaseModel
from starlette.requests import ClientDisconnect, Request

from app.domain.policies import Role
from app.domain.problems import Problem, invalid_request
from app.services.people.keys import Caller
from app.services.plans.answers import etag_of, tag_of_release
from app.services.releases.receipts import LongAnswer, SentAnswer
from app.services.releases.releases import ReleaseRecord
from app.web.requests.bodies import answer_in, made_of, request_in
from app.web.requests.fields import Request as RequestBody
from app.web.requests.schemas import ReceiptRequest
from app.web.requests.validation import unknown_parameter
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


async def caller_of(request: Request, role: Role) -> Caller:
    """Return who sent a request, which counts against the key's rate.

    Raises
    ------
    Problem
        ``unauthorized``, ``rate-limited``, ``forbidden``; ``invalid-request``
        for a query parameter that the route does not have; ``busy`` in the head room
        beyond the most connections, which is for admins and for who reads the metrics.
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
    if request.scope.get("crowded") and not known.role.may_act_as(Role.METRICS):
        raise Problem("busy")
    # Before the role is judged: a refusal counts against the rate as well.
    await state.rates.take(known.key)
    known.require(role)
    if request.scope["query_string"]:
        _check_query(request)
    return known


@dataclass(frozen=True, slots=True)
class CallerAtLeast:
    """The dependency that requires at least this role; the route's role is read from it."""

    role: Role

    # a coroutine, because key look-ups belong on the event loop (see KeyService)
    async def __call__(self, request: Request) -> Caller:
        """Return who sent a request."""
        return await caller_of(request, self.role)


def _check_query(request: Request) -> None:
    """Refuse query parameters that the route does not have, as bodies do with fields."""
    known = query_names(request.scope["route"].dependant)
    for name in request.query_params:
        if name not in known:
            raise invalid_request("query", unknown_parameter(sorted(known), name))


def query_names(needs: Dependant) -> set[str]:
    """Return the query parameters of a route and of all it depends on."""
    own = {field.alias for field in needs.query_params}
    return own.union(*map(query_names, needs.dependencies))


def _bearer(request: Request) -> bytes:
    """Return the bytes of the bearer token; any text may be a bootstrap key."""
    # Given twice it is refused: two readers of one request could believe different ones.
    found = _headers(request, b"authorization")
    scheme, _, secret = found[0].partition(b" ") if len(found) == 1 else (b"", b"", b"")
    if scheme.lower() != b"bearer":
        raise Problem("unauthorized")
    return bytes(secret.strip())


Analyst = Annotated[Caller, Depends(CallerAtLeast(Role.ANALYST))]
Curator = Annotated[Caller, Depends(CallerAtLeast(Role.CURATOR))]
Admin = Annotated[Caller, Depends(CallerAtLeast(Role.ADMIN))]
Watcher = Annotated[Caller, Depends(CallerAtLeast(Role.METRICS))]


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
    condition = request.headers.get("if-match")
    if condition is None:
        raise Problem("precondition-missing")
    return lambda found: _names(condition, etag_of(found))


def _names(condition: str, tag: str) -> bool:
    """Return whether an If-Match names the tag (strong comparison, RFC 9110 13.1.1)."""
    named = [part.strip() for part in condition.split(",")]
    return condition.strip() == "*" or tag in (*named, *map(tag_of_release, named))
