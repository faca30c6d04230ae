"""From a template and what it shows to an answer, and the addresses that pages name.

Every page is a template that extends ``base.html``. What it is given is shown as text: the
environment escapes it, and nothing is marked as HTML but what :mod:`app.desk` itself has drawn.

*A page of a list: what its address asks for, and the addresses next to it.* Next and previous
pages, and heads that sort, are links: every list works without script, and keeps its filters. A
list reads a span of rows (:class:`app.domain.access.Span`) with one more than it shows.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode
from zlib import crc32

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.domain.access import Span
from app.domain.policies import Right
from app.domain.problems import Problem
from app.services.people.keys import Caller
from app.services.plans.wording import asked, asked_in_full
from app.tidy.names import Phrase, marked, said_of, words
from app.tidy.pivots import heat
from app.tidy.rows import number, within
from app.web.languages import (
    COOKIE,
    LANGUAGES,
    PARAMETER,
    SOURCE,
    language_of,
    local_moment,
    local_number,
    local_numbers,
    local_picture,
    localized,
    sentence,
    translated,
)
from app.web.languages import Part as Said

NOTICES: Mapping[str, str] = {
    "archived": marked(
        "The data set is archived. Its rows are erased and its name is free; its releases "
        "and ledger stay."
    ),
    "capped": marked("The cap is set."),
    "deleted": marked(
        "The data set is deleted. Its rows are erased and its account is closed, unless "
        "another data set shares it; its ledger stays."
    ),
    "discarded": marked("The upload is deleted. Nothing of it is stored."),
    "draft_discarded": marked("The draft is discarded."),
    "draft_kept": marked("The draft is saved. Only you see it, for 30 days."),
    "edited": marked("The edit is in the ledger."),
    "extended": marked(
        "The rows are added. This is the new version; those before it stay as they were."
    ),
    "grouped": marked("The group is saved."),
    "granted": marked("The grant is in the ledger."),
    "approve": marked("Your vote is in the ledger: approved."),
    "reject": marked("Your vote is in the ledger: rejected."),
    "request_changes": marked("Your vote is in the ledger: changes are wanted."),
    "commented": marked("Your comment is there."),
    "read": marked("Marked as read."),
    "revised": marked("The new version waits for its reviewers."),
    "made": marked(
        "The key is made. Its secret was shown then, and is not shown again. If it is lost,"
        " revoke the key and make another one."
    ),
    "opened": marked("Everyone whose role allows it sees the data set."),
    "plan_deleted": marked("The draft is deleted."),
    "plan_requested": marked("The plan is requested. Nothing is reserved or charged for it."),
    "plan_withdrawn": marked("The plan is withdrawn. What has been drawn of it stays."),
    "planned": marked("The question is in the plan. Nothing is charged for it yet."),
    "replanned": marked("The question is changed in the plan. Nothing is charged for it yet."),
    "unplanned": marked("The question is removed from the plan."),
    "published": marked("The release is public now."),
    "restricted": marked("Only who is named sees the data set, and admins and auditors."),
    "revoked": marked("The key is revoked."),
    "sign_in_allowed": marked("They may sign in again, and get a new key when they do."),
    "uncapped": marked("The limit is removed."),
    "unpublished": marked("The release is withdrawn from the public. Its address says so."),
    "uploaded": marked("Data set created. The rows are stored; the uploaded file was deleted."),
    "withdrawn": marked(
        "The request is withdrawn. The budget that was reserved for it is free again."
    ),
}
"""The words for each value of ``?done=``; anything else says nothing."""


# How pages write numbers, times and names

_ROUGH = 3  # of expected errors, which are known no better
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
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


def moment(at: str | None, language: str = "en") -> Markup:
    """Return a time of the ledger (UTC) as HTML that browsers understand too.

    >>> moment("2026-11-23T20:15:09.123456Z")
    Markup('<time datetime="2026-11-23T20:15:09Z">2026-11-23 20:15 UTC</time>')
    """
    if at is None:
        return Markup("–")
    second = at.partition(".")[0].removesuffix("Z")
    shown = local_moment(second, language)
    return Markup('<time datetime="{}Z">{}</time>').format(escape(second), escape(shown))


def ident(name: str) -> str:
    """Return the id of an element that has to do with a name, whatever letters that has.

    >>> ident("epsilon"), ident("columns.0.lower"), ident("age lower")
    ('epsilon', 'columns.0.lower', 'age-lower-61a5c2a1')
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


def _capitalized(text: str) -> str:
    """Return a text whose first letter is a capital; German nouns in it stay as they are."""
    return text[:1].upper() + text[1:]


def advised(answer: Mapping[str, Any]) -> Sequence[str]:
    """Return the advice of an answer or a preview, and that of its parts, each sentence once.

    >>> advised({"details": {"warnings": ["A."], "parts": [{"details": {"warnings": ["A."]}}]}})
    ('A.',)
    """
    details = answer.get("details") or {}
    found = [details, *(part.get("details") or {} for part in details.get("parts") or ())]
    return (*dict.fromkeys(text for each in found for text in each.get("warnings", ())),)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "about": about,
    "advised": advised,
    "asked": asked,
    "asked_in_full": asked_in_full,
    "said_of": said_of,
    "capitalize": _capitalized,
    "measured": measured,
    "drawn": drawn,
    "grouped": grouped,
    "heat": heat,
    "ident": ident,
    "moment": moment,
    "noted": noted,
    "number": number,
    "pairs": lambda names: [(each, each) for each in names],
    "within": within,
    "words": words,
}
"""What templates may write after a bar."""


def say_in(request: Request) -> Callable[[str], str]:
    """Return what says a text in the language of the page that a request asks for."""
    language = language_of(request.scope)
    return lambda text: translated(text, language)


def _said_in(language: str) -> Callable[[Any], Any]:
    """Return what translates a marked text, and leaves anything else as it is."""
    return lambda value: translated(value, language) if isinstance(value, Phrase) else value


def _marked(parts: Sequence[Said], language: str) -> Markup:
    """Return a text of services in a language; what it has in English only is marked as that."""
    return Markup(" ").join(
        Markup('<span lang="{}">{}</span>').format(SOURCE, part.text)
        if part.language != language
        else escape(part.text)
        for part in parts
    )


def _of_ours(text: str, language: str) -> str:
    """Return a text that may be a person's in a language, if all of it is a text of services."""
    parts = localized(text, language)
    return parts[0].text if len(parts) == 1 else text


def _local_filters(language: str) -> Mapping[str, Callable[..., Any]]:
    """Return the filters that write as a language does."""

    def local(write: Callable[..., str]) -> Callable[..., str]:
        return lambda *given: local_number(write(*given), language)

    said = _said_in(language)
    made: dict[str, Callable[..., Any]] = {
        name: local(FILTERS[name]) for name in ("about", "grouped", "number", "within")
    }
    made["local"] = lambda text: (
        said(text) if isinstance(text, Phrase) else local_numbers(str(text), language)
    )
    made["picture"] = lambda svg: Markup(local_picture(svg, language))  # noqa: S704 - as drawn
    made["moment"] = lambda at: moment(at, language)
    made["localized"] = lambda text: _marked(localized(text, language), language)
    made["sentence"] = lambda text: _marked(sentence(text, language), language)
    made["said"] = lambda text: translated(text, language)
    made["noted"] = lambda note: _of_ours(noted(note), language)
    made["spoken"] = lambda pairs: [(each, translated(name, language)) for each, name in pairs]
    made["asked"] = lambda statistic: translated(asked(statistic), language)
    made["asked_in_full"] = lambda statistic: translated(asked_in_full(statistic), language)
    made["words"] = lambda name: translated(words(name), language)
    return made


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
    (marked("Data sets"), "/desk/datasets", Right.READ, "d"),
    (marked("Releases"), "/desk/releases", Right.READ, "r"),
    (marked("Reviews"), "/desk/reviews", Right.READ, "v"),
    (marked("Keys"), "/desk/keys", Right.ADMINISTER, "k"),
    (marked("Audit"), "/desk/audit", Right.READ, "a"),
)
"""What the pages are called, where they are, for whom, and the key that leads there after "g"."""


def attached(content: bytes, kind: str, name: str) -> Response:
    """Return a file, which a browser stores and no cache does; ``kind`` is its media type."""
    return Response(content, media_type=kind, headers=headers_of_file(name))


def headers_of_file(name: str) -> dict[str, str]:
    """Return the headers that a file is sent with."""
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
    }


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
        (name, address, key)
        for name, address, right, key in _NAVIGATION
        if visitor is not None and visitor.role.may(right)
    ]
    language = language_of(request.scope)
    text = (
        environment(language)
        .get_template(template)
        .render(
            language=language,
            languages=_elsewhere(request),
            in_language=_keeping(request),
            visitor=visitor,
            here=request.url.path,
            notice=NOTICES.get(request.query_params.get("done", "")),
            navigation=may,
            is_curator=visitor is not None and visitor.role.may(Right.CURATE),
            is_admin=visitor is not None and visitor.role.may(Right.ADMINISTER),
            may={right.value for right in Right if visitor is not None and visitor.role.may(right)},
            **shown,
        )
    )
    shown_in = {"Content-Language": language}
    response = HTMLResponse(
        text, status_code=status, headers={**_PRIVATE, **shown_in, **(headers or {})}
    )
    if request.query_params.get(PARAMETER) == language and not _is_public(request):
        keep_language(response, language)
        if visitor is not None:
            request.state.app.services.sessions.keep_language(language, caller=visitor)
    return response


def keep_language(response: Response, language: str) -> None:
    """Have the browser ask for the pages of the desk in a language."""
    response.set_cookie(
        COOKIE, language, max_age=_YEAR_S, path="/desk", httponly=True, samesite="lax"
    )


_YEAR_S = 31_536_000
_LONGEST_QUERY = 2_000


def _is_public(request: Request) -> bool:
    return not request.url.path.startswith("/desk")


def _elsewhere(request: Request) -> list[tuple[str, str, str]]:
    """Return each language, its own name, and where this page is in it.

    What a form was sent to may have no page to show: its links lead to the first page.
    """
    path, query = request.url.path, request.query_params.multi_items()
    if request.method not in ("GET", "HEAD") or len(request.url.query) > _LONGEST_QUERY:
        path, query = path if request.method == "GET" else "/desk", []
    rest = [each for each in query if each[0] not in (PARAMETER, "done")]
    return [
        (each, name, f"{path}?{urlencode([*rest, (PARAMETER, each)])}")
        for each, name in LANGUAGES.items()
    ]


def _keeping(request: Request) -> Callable[[str], str]:
    """Return what keeps the language of a public page's address in addresses of others."""
    asked = request.query_params.get(PARAMETER)
    if asked not in LANGUAGES or not _is_public(request):
        return str
    return lambda path: f"{path}{'&' if '?' in path else '?'}{PARAMETER}={asked}"


@cache
def environment(language: str = "en") -> Environment:
    """Return the environment of all templates; a name that a page lacks is an error."""
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_said_in(language),
        extensions=["jinja2.ext.i18n"],
    )
    made.policies["ext.i18n.trimmed"] = True

    def say(text: str) -> str:
        return translated(text, language)

    def say_many(one: str, many: str, n: int) -> str:
        return translated(one if n == 1 else many, language)

    made.install_gettext_callables(say, say_many)  # type: ignore[attr-defined]
    made.globals["_"] = say  # Jinja's own copies all that a template knows, for each text in a loop
    made.filters.update({**FILTERS, **_local_filters(language)})
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


_LARGEST = 2**62  # what databases keep in 64 bits with a sign


def number_in(request: Request, name: str) -> int | None:
    """Return a whole number that an address carries, or None.

    Raises
    ------
    Problem
        ``not-found``: what it carries is none.
    """
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _LARGEST):
        raise Problem("not-found")
    return int(text)


def address(path: str, **parameters: str | int | None) -> str:
    """Return an address with its parameters; those that are None or empty are left out.

    >>> address("/desk/audit", account="acc_1", kind=None, page=2)
    '/desk/audit?account=acc_1&page=2'
    """
    query: Mapping[str, object] = {
        name: value for name, value in parameters.items() if value not in (None, "")
    }
    return f"{path}?{urlencode(query)}" if query else path


# A page of a list: what its address asks for, and the addresses next to it

T = TypeVar("T")

DATE = "date"
"""Sorted by when rows were made, which is by their numbers; without a word, newest first."""
_BY: Mapping[str, str] = {DATE: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list as an address asks for it.

    Attributes
    ----------
    path, filters
        What every address of the list has, a name's empty text apart.
    size
        How many rows a page shows.
    column, ascending
        What it is sorted by, and in which order.
    sorts
        What it may be sorted by.
    prefix
        Begins the names of this list's own parameters, where a page has several lists.
    anchor
        Where on the page it is.
    """

    path: str
    filters: Mapping[str, str]
    size: int
    column: str = DATE
    ascending: bool = False
    sorts: Sequence[str] = ()
    prefix: str = ""
    anchor: str = ""
    before: int | None = None
    after: int | None = None

    @classmethod
    def of(
        cls,
        request: Request,
        path: str,
        *,
        size: int,
        filters: Mapping[str, str] | None = None,
        sorts: Sequence[str] = (),
        oldest: bool = False,
        prefix: str = "",
        anchor: str = "",
    ) -> Listing:
        """Return the list that a request asks for; ``oldest``: it has no other order than that.

        Raises
        ------
        Problem
            ``not-found``: a position is no number.
        """
        asked = request.query_params.get(f"{prefix}sort", "")
        column = asked.removeprefix("-")
        known = column in sorts
        return cls(
            path=path,
            filters=filters or {},
            size=size,
            column=column if known else DATE,
            ascending=not asked.startswith("-") if known else oldest,
            sorts=sorts,
            prefix=prefix,
            anchor=anchor,
            before=number_in(request, f"{prefix}before"),
            after=number_in(request, f"{prefix}after"),
        )

    @property
    def span(self) -> Span:
        """Return what is read for the page: one extra row shows whether there are more."""
        return Span(
            limit=self.size + 1,
            before=self.before,
            after=self.after,
            by=_BY.get(self.column, self.column),
            ascending=self.ascending,
        )

    def cut(self, found: Sequence[T], number: Callable[[T], int], *, more: bool = False) -> Part[T]:
        """Return the page of rows that were read; ``more``: there are, though none was read."""
        back, begins = self.span.back, self.span.start is None
        further = more or len(found) > self.size
        shown = found[: self.size][:: -1 if back else 1]
        earlier, later = (further, True) if back else (not begins, further)
        up, down = ("before", "after") if self.ascending else ("after", "before")
        here = self._sorted(self.column, ascending=self.ascending)
        return Part(
            items=shown,
            previous=self._at(here, **{up: number(shown[0])}) if shown and earlier else None,
            next=self._at(here, **{down: number(shown[-1])}) if shown and later else None,
            first=self._at(here) if earlier or not (shown or begins) else None,
            orders={self.column: "ascending" if self.ascending else "descending"},
            links={each: self._at(self._turned(each)) for each in self.sorts},
            sort=here,
        )

    def _turned(self, column: str) -> str:
        """Return the order that a click on a head leads to: the other one of the present column."""
        own = column == self.column
        return self._sorted(column, ascending=not self.ascending if own else column != DATE)

    def _sorted(self, column: str, *, ascending: bool) -> str:
        """Return an order as addresses have it; the usual one is not said."""
        if column not in self.sorts or (column == DATE and not ascending):
            return ""
        return column if ascending else f"-{column}"

    def _at(self, order: str, **position: int) -> str:
        own: Mapping[str, str | int] = {"sort": order, **position}
        named = {f"{self.prefix}{name}": value for name, value in own.items()}
        return address(self.path, **self.filters, **named) + self.anchor


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[T]):
    """What a page shows of a list, and the addresses of what is next to it.

    ``orders`` has the order of the column that rows are sorted by, ``links`` what heads lead to,
    and ``sort`` what a form sends that keeps the order.
    """

    items: Sequence[T] = ()
    previous: str | None = None
    next: str | None = None
    first: str | None = None
    orders: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    sort: str = ""


def numbered(at: int, addressed: Callable[[int | None], str], *, more: bool) -> Part[object]:
    """Return the addresses around a page that is found by its place, counted from 1.

    Entries of the ledger have no number of their own over all accounts.
    """
    return Part(
        previous=addressed(at - 1 if at > 2 else None) if at > 1 else None,
        next=addressed(at + 1) if more else None,
        first=addressed(None) if at > 1 else None,
    )
