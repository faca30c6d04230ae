"""The list of what is public, the page of a public release, its certificate, and its tombstone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path
from markupsafe import Markup
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response

from app.desk.arranging import Arrangement, Numbers, numbers_of, pivot_file
from app.desk.figures import Say
from app.desk.forms import Named
from app.desk.rendering import DATE, Listing, page, say_in
from app.desk.routes import Page, State
from app.domain.problems import Problem
from app.services.plans.questions import KINDS
from app.services.publishing.citations import citation
from app.services.publishing.linked_data import FORMS, schema_org, signposts
from app.services.publishing.publications import Published, wanted
from app.services.publishing.published import badge_text, guarantee, meaning, methods
from app.tidy.names import marked
from app.web.anonymous import base_of, public_answer
from app.web.languages import PARAMETER, language_of

router = APIRouter(prefix="/public", tags=["public"], route_class=Page)

_ON_A_PAGE, _SUGGESTED = 25, 40
_MOST_SAID = 200
_IN_SCRIPT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
_HTML = "text/html; charset=utf-8"


def _told(text: str) -> str:
    """Return a text, or none where it holds what no name does: a database need not take it."""
    return text if text.isprintable() else ""


def _first(text: str) -> str:
    """Return as much of a text as is searched for: a pasted page is cut to its beginning."""
    return _told(text[:_MOST_SAID])


Said = Annotated[str, AfterValidator(_first)]
Id = Annotated[str, Path(), AfterValidator(_told)]


@router.get("")
def show_public(
    *,
    request: Request,
    state: State,
    q: Said = "",
    dataset: Said = "",
    statistic: Said = "",
) -> Response:
    """Show what is public, with a search for everyone."""
    publications = state.services.publications
    dataset, called = publications.called(dataset) if dataset else ("", "")
    sets = publications.datasets(_SUGGESTED + 1)
    many = len(sets) > _SUGGESTED
    asked = {"q": q, "dataset": dataset, "statistic": statistic}
    asked = {name: text for name, text in asked.items() if text}
    kept = {
        **asked,
        PARAMETER: language_of(request.scope) if PARAMETER in request.query_params else "",
    }
    listing = Listing.of(request, "/public", size=_ON_A_PAGE, filters=kept, sorts=(DATE,))
    found = publications.search(wanted(q, dataset, statistic), listing.span)
    return _kept(
        request, "public_list.html", {},
        part=listing.cut(found, lambda each: each.publication.number), asked=asked, kinds=KINDS,
        named=Named(None if many else sets, [name for _, name in sets]), called=called,
    )  # fmt: skip


@router.get("/releases/{release}")
def show_release(request: Request, state: State, release: Id) -> Response:
    """Show a public release, or the tombstone of one that was withdrawn."""
    return _release(request, state, release, "public_release.html")


@router.get("/releases/{release}/certificate")
def show_certificate(request: Request, state: State, release: Id) -> Response:
    """Show what a release promises on one sheet of paper."""
    return _release(request, state, release, "public_certificate.html")


@router.get("/releases/{release}/chart.svg")
def show_chart(request: Request, state: State, release: Id) -> Response:
    """Send the chart of a public release's numbers as a file of its own."""
    found = _numbers(state.services.publications.find(release), Arrangement.of(request), str)
    if found.figure is None:
        raise Problem("not-found")
    return public_answer(found.figure.alone.encode(), "image/svg+xml", status=200, headers={})


@router.get("/releases/{release}/pivot.{ending}")
def show_pivot(request: Request, state: State, release: Id, ending: str) -> Response:
    """Send a public release's numbers as tables of rows and columns."""
    found = state.services.publications.find(release)
    kind, content = pivot_file(
        numbers_of(found.answer, "", found.columns, Arrangement.of(request)), ending
    )
    return public_answer(content, kind, status=200, headers={})


def _release(request: Request, state: State, release: str, template: str) -> Response:
    try:
        published = state.services.publications.find(release)
    except Problem as problem:
        if problem.code != "withdrawn":
            raise
        request.scope["problem"] = problem.code
        return _kept(
            request, "public_tombstone.html", {}, status=410, release=release, **problem.extras
        )
    base = base_of(request, state.settings.public_url)
    # of what the document has at its end: absent until a checkpoint covers the charge
    proof = state.services.log.prove(published.release.account, published.release.seq)
    shown = {
        **_shown(published, base),
        "proof": proof,
        "numbers": _numbers(published, Arrangement.of(request), say_in(request)),
    }
    return _kept(request, template, {"Link": signposts(published, base)}, **shown)


def _shown(published: Published, base: str) -> dict[str, Any]:
    """Return what the pages of a release show."""
    address = f"{base}{published.path}"
    linked = json.dumps(schema_org(published, base), ensure_ascii=False)
    alternative = ", ".join(badge_text(published))
    return {
        "published": published,
        "answer": published.answer,
        "address": address,
        "meaning": meaning(published),
        "guarantee": guarantee(published),
        "methods": methods(published),
        "citation": citation(published, address),
        "alternative": alternative,
        "badge": f'<a href="{address}"><img src="{address}.svg" alt="{alternative}"></a>',
        "forms": FORMS,
        # JSON in a script element ends where its text says so; nothing in it can look like that.
        "linked": Markup(linked.translate(_IN_SCRIPT)),  # noqa: S704
    }


def _numbers(published: Published, wanted: Arrangement, say: Say) -> Numbers:
    name = marked("Numbers of %(title)s", title=published.title)
    return numbers_of(published.answer, name, published.columns, wanted, say)


def _kept(
    request: Request,
    template: str,
    headers: Mapping[str, str],
    *,
    status: int = 200,
    **shown: Any,
) -> Response:
    """Return a page that every cache may store."""
    made = page(request, template, status=status, **shown)
    sent = {name: made.headers[name] for name in ("Content-Security-Policy", "Content-Language")}
    sent["Vary"] = "Accept-Language"
    return public_answer(bytes(made.body), _HTML, status=status, headers={**sent, **headers})
