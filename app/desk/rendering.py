"""From a template and what it shows to an answer.

Every page is a template that extends ``base.html``. What it is given is shown as text: the
environment escapes it, and nothing is marked as HTML but what :mod:`app.desk` itself has drawn.
"""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.desk.notices import NOTICES
from app.desk.words import FILTERS
from app.domain.roles import Role
from app.services.people.keys import Caller

_HERE = Path(__file__).parent
STATIC = _HERE / "static"
CSP = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page may load: our own files, and nothing inline."""
_PRIVATE = {"Content-Security-Policy": CSP, "Cache-Control": "no-store"}
_NAVIGATION = (
    ("Data sets", "/desk/datasets", Role.ANALYST),
    ("Releases", "/desk/releases", Role.ANALYST),
    ("Reviews", "/desk/reviews", Role.ANALYST),
    ("Keys", "/desk/keys", Role.ADMIN),
    ("Audit", "/desk/audit", Role.ANALYST),
)


def page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    **shown: Any,
) -> Response:
    """Return a page for the signed-in user; no cache stores a copy of it.

    ``shown`` is what the template shows; it may also use ``visitor`` (the caller, or None),
    ``here`` (the path), ``new_form_key()``, ``path_of(...)`` and ``static(name)``.
    """
    visitor: Caller | None = request.scope.get("caller")
    may = [
        (name, address)
        for name, address, least in _NAVIGATION
        if visitor is not None and visitor.role.may_act_as(least)
    ]
    text = (
        environment()
        .get_template(template)
        .render(
            visitor=visitor,
            here=request.url.path,
            notice=NOTICES.get(request.query_params.get("done", "")),
            navigation=may,
            is_curator=visitor is not None and visitor.role.may_act_as(Role.CURATOR),
            is_admin=visitor is not None and visitor.role.may_act_as(Role.ADMIN),
            **shown,
        )
    )
    return HTMLResponse(text, status_code=status, headers={**_PRIVATE, **(headers or {})})


@cache
def environment() -> Environment:
    """Return the environment of all templates; a name that a page lacks is an error."""
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    made.globals.update(static=static_address, new_form_key=new_form_key, path_of=path_of)
    return made


def new_form_key() -> str:
    """Return the key that a form is sent with, so that sending it twice acts once."""
    return secrets.token_urlsafe(18)


def path_of(*parts: str) -> str:
    """Return an address below ``/desk``, its parts quoted.

    >>> path_of("datasets", "ds_1", "ask")
    '/desk/datasets/ds_1/ask'
    """
    return "/".join(["/desk", *(quote(part, safe="") for part in parts)])


@cache
def static_address(name: str) -> str:
    """Return the address of a file of the desk, which changes when the file does."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/desk/static/{digest}/{name}"
