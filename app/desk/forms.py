"""What a form was filled with, and where it was wrong.

A form comes from our own page or is refused: browsers say where a post comes from, in
``Sec-Fetch-Site`` or in ``Origin``. A program without a browser sends neither, and has no cookie
that somebody else could use.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.hashing import sha256_hex
from app.domain.problems import Problem, invalid_request
from app.services.people.keys import Caller
from app.web.requests.base import Request as Asked
from app.web.requests.exact_json import read_model
from app.web.state import AppState

Model = TypeVar("Model", bound=Asked)

_MOST_FIELDS = 20_000  # the table of a data set's columns has several for each
_MOST_KEY = 100
FORM_KEY = "form_key"
"""The field whose value makes a form count once (see :attr:`Form.once`)."""


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form, in order; a name may come several times."""

    pairs: Sequence[tuple[str, str]] = ()

    def text(self, name: str) -> str:
        """Return a field's first value without the white space around it, or an empty text.

        Its lines end as they do everywhere else: browsers send two characters for each end.
        """
        found = next((value for known, value in self.pairs if known == name), "")
        return found.replace("\r\n", "\n").strip()

    def raw(self, name: str) -> str:
        """Return a field's first value as it is: a choice may be white space."""
        return next((value for known, value in self.pairs if known == name), "")

    def texts(self, name: str) -> list[str]:
        """Return every value of a field, such as of check boxes."""
        return [value for known, value in self.pairs if known == name]

    def changed(self, **fields: str) -> Form:
        """Return the form with other values of some fields."""
        kept = [pair for pair in self.pairs if pair[0] not in fields]
        return Form((*kept, *fields.items()))

    def required(self, name: str) -> str:
        """Return a field's value.

        Raises
        ------
        Problem
            ``invalid-request``: it is empty.
        """
        value = self.text(name)
        if not value:
            raise invalid_request(name, "is required")
        return value

    @property
    def key(self) -> str:
        """Return the key that the form was shown with.

        Raises
        ------
        Problem
            ``invalid-request``: it has none.
        """
        key = self.text(FORM_KEY)
        if not 1 <= len(key) <= _MOST_KEY:
            raise invalid_request(FORM_KEY, "is missing; load the page again")
        return key

    @property
    def once(self) -> str:
        """Return what the form counts once by: its key, and all that it was filled in with.

        A double click sends the same again. A visitor who goes back and changes something wants it
        done.

        Raises
        ------
        Problem
            ``invalid-request``: it has no key.
        """
        return sha256_hex(json.dumps([self.key, *self.pairs]).encode())


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with a form: by field, and in all."""

    problem: Problem | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    """What a field of the request is called in the form."""

    def at(self, name: str) -> str | None:
        """Return what is wrong with a field, or None."""
        return next((message for place, message in self.all if place == name), None)

    @property
    def all(self) -> Sequence[tuple[str, str]]:
        """Return each field that is wrong, and why."""
        errors = self.problem.extras.get("errors", ()) if self.problem is not None else ()
        found = errors if isinstance(errors, list | tuple) else ()
        return [(self.renamed.get(e["field"], e["field"]), e["message"]) for e in found]


def faulted(request: Request, faults: Faults) -> int:
    """Return the status of a page with a form; where it was refused, the log knows why."""
    if faults.problem is None:
        return 200
    request.scope["problem"] = faults.problem.code
    return faults.problem.status


async def read_form(request: Request) -> Form:
    """Return what a browser's form was filled with.

    Raises
    ------
    Problem
        ``forbidden``: it was sent from another site; ``unsupported-media-type``,
        ``too-large``, ``malformed-request``.
    """
    require_own_site(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem("unsupported-media-type", "Send the form as a browser does.")
    state: AppState = request.state.app
    most, body = state.constants.max_request_bytes, bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise Problem(
                "too-large",
                f"The form is larger than max_request_bytes ({most} bytes).",
                limit="max_request_bytes",
                maximum=most,
            )
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise Problem("malformed-request", "The form cannot be read.") from None
    return Form(pairs)


EMPTY, NONE = Form(), Faults()
"""An empty form, and no faults."""


def read_as(model: type[Model], fields: Mapping[str, object]) -> Model:
    """Return what a form asks for, as the request of a program; an empty field is left out.

    Raises
    ------
    Problem
        ``invalid-request``, its places named as programs name them.
    """
    given = {name: value for name, value in fields.items() if value != ""}
    return read_model(model, json.dumps(given).encode())


def require_own_site(request: Request) -> None:
    """Pass for what our own pages send.

    Raises
    ------
    Problem
        ``forbidden``.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    own = site == "same-origin" if site is not None else origin is None or _ours(request, origin)
    if not own:
        raise Problem("forbidden", "The form was sent from another site.")


def _ours(request: Request, origin: str) -> bool:
    return urlsplit(origin).netloc == request.headers.get("host", "")


async def act_once(
    request: Request, form: Form, *, caller: Caller, act: Callable[[], Awaitable[str]]
) -> Response:
    """Do what a form asks for once, and lead to the page that shows it: post, redirect, get."""
    state: AppState = request.state.app
    location = await state.services.sessions.once(form.once, caller=caller, act=act)
    return see(location)


def see(address: str) -> Response:
    """Lead a browser to a page after what it sent was done."""
    return RedirectResponse(address, status_code=303)
