"""From a template and what it shows to an answer.

Every page is a template that extends ``base.html``. What it is given is shown as text: the
environment escapes it, and nothing is marked as HTML but what :mod:`app.desk` itself has drawn.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zlib import crc32

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.desk.notices import NOTICES
from app.domain.policies import Role
from app.services.people.keys import Caller
from app.services.plans.wording import asked, asked_in_full
from app.tidy.rows import number, within

# How pages write numbers, times and names

_ROUGH = 3  # of expected errors, which are known no better
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_OTHERS = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)


def about(value: float | str | None) -> str:
    """Return a number with three significant digits, as errors are shown.

    >>> about(21.874), about(0.10937), about(94.68)
    ('21.9', '0.109', '94.7')
    """
    if value is None or isinstance(value, str):
        return number(value)
    return number(float(f"{value:.{_ROUGH}g}"))


def grouped(text: str) -> str:
    """Return a decimal text with its thousands apart, and all its digits.

    >>> grouped("1000"), grouped("1234567.25"), grouped("0.5")
    ('1,000', '1,234,567.25', '0.5')
    """
    whole, point, rest = text.partition(".")
    return f"{int(whole):,}{point}{rest}"


def words(name: str) -> str:
    """Return the name of a kind, mechanism or state as words.

    >>> words("geometric_median")
    'geometric median'
    """
    return name.replace("_", " ")


def moment(at: str | None) -> Markup:
    """Return a time of the ledger (UTC) as HTML that browsers understand too.

    >>> moment("2026-11-23T20:15:09.123456Z")
    Markup('<time datetime="2026-11-23T20:15:09Z">2026-11-23 20:15 UTC</time>')
    """
    if at is None:
        return Markup("–")
    second = at.partition(".")[0].removesuffix("Z")
    shown = f"{second[:10]} {second[11:16]} UTC"
    return Markup('<time datetime="{}Z">{}</time>').format(escape(second), escape(shown))


def ident(name: str) -> str:
    """Return the id of an element that has to do with a name, whatever letters that has.

    >>> ident("epsilon"), ident("age lower")
    ('epsilon', 'age-lower-61a5c2a1')
    """
    if _PLAIN.fullmatch(name):
        return name
    return f"{_OTHERS.sub('-', name).strip('-')}-{crc32(name.encode()):08x}"


_MOST_MEASURED = 20


def measured(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the units of columns, as words; no text where none has one.

    >>> measured({"income": {"unit_of_measure": "francs"}, "age": {}})
    'income in francs'
    """
    by_unit: dict[str, list[str]] = {}
    for name, column in [*columns.items()][:_MOST_MEASURED]:
        if unit := column.get("unit_of_measure"):
            by_unit.setdefault(unit, []).append(name)
    return "; ".join(f"{', '.join(names)} in {unit}" for unit, names in by_unit.items())


def drawn(picture: str) -> Markup:
    """Return a picture of the library's as HTML; it is made of numbers and names of norms."""
    return Markup(picture)  # noqa: S704 - no user wrote any part of it


_UNTOLD = {"account", "amount", "at", "by", "id", "plan", "sha256"}
"""Members of a note that are amounts of an account, or that its entry has already."""


def noted(note: str | None) -> str:
    """Return what an entry's note says, as words.

    >>> noted("the board's decision"), noted('{"person": "Ada", "amount": 5, "reason": "at first"}')
    ("the board's decision", 'person: Ada; reason: at first')
    """
    try:
        members = json.loads(note or "")
    except ValueError:
        return note or ""
    if not isinstance(members, dict):
        return note or ""
    given = {name: value for name, value in members.items() if name not in _UNTOLD and value}
    return "; ".join(f"{words(name)}: {value}" for name, value in given.items())


FILTERS: Mapping[str, Callable[..., Any]] = {
    "about": about,
    "asked": asked,
    "asked_in_full": asked_in_full,
    "measured": measured,
    "drawn": drawn,
    "grouped": grouped,
    "ident": ident,
    "moment": moment,
    "noted": noted,
    "number": number,
    "within": within,
    "words": words,
}
"""What templates may write after a bar."""


# From a template and what it shows to an answer

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
