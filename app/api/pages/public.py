"""What is public, in forms for programs: without a key, without a cookie, kept by caches.

The page of a release, for people, is the desk's; its address without an ending. What was
withdrawn answers 410 in every form, and what was never public 404.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.api.answers.paging import Paging, page_of
from app.api.dependencies import Id, IdFilter, State
from app.domain.access import Span
from app.domain.problems import Problem
from app.services.publishing.citations import FORMS
from app.services.publishing.linked_data import EXPORTS, atom, back
from app.services.publishing.linked_data import FORMS as KINDS
from app.services.publishing.publications import Published, wanted
from app.web.anonymous import KEPT, OpenRoute, base_of, public_answer

router = APIRouter(include_in_schema=False, route_class=OpenRoute)

_MOST_IN_FEED = 50
_TYPES = {end: kind for end, kind, _ in KINDS}
Words = Annotated[IdFilter, Query(max_length=200)]


@router.get("/public/releases.json")
def list_public(
    *,
    state: State,
    cut: Paging,
    q: Words = None,
    dataset: Words = None,
    statistic: Words = None,
) -> Response:
    """List what is public, newest first: by words, data set and kind of statistic."""
    found = state.services.publications.search(wanted(q or "", dataset, statistic), cut.span())
    page = page_of([(each.publication.number, _item(each)) for each in found], cut)
    return public_answer(_encoded({"items": page.items, "next": page.next}), "application/json")


@router.get("/public/feed.atom")
def get_feed(request: Request, state: State) -> Response:
    """Show what was made public last, as an Atom feed."""
    found = state.services.publications.search(wanted(), Span(limit=_MOST_IN_FEED))
    feed = atom(found, base_of(request, state.settings.public_url))
    return public_answer(feed.encode(), "application/atom+xml")


@router.get("/public/datasets/{dataset}/{form}.json")
def get_public_export(request: Request, state: State, dataset: Id, form: str) -> Response:
    """Describe a data set's public releases to a catalogue; nothing of one without any."""
    if form not in EXPORTS:
        raise Problem("not-found")
    facts, items = state.services.publications.public_of(dataset)
    base = base_of(request, state.settings.public_url)
    exported = EXPORTS[form](facts, items, base)
    kind = "application/ld+json" if form == "croissant" else "application/json"
    return public_answer(_encoded(exported), kind)


@router.get("/public/releases/{release}.csl.json")
def get_public_csl(request: Request, state: State, release: Id) -> Response:
    """Show a public release as CSL-JSON; its ending has a dot in it."""
    return _shown(request, state, release, "csl.json")


@router.get("/public/releases/{release}.{ending}")
def get_public_form(request: Request, state: State, release: Id, ending: str) -> Response:
    """Show a public release in one of its forms."""
    return _shown(request, state, release, ending)


def _shown(request: Request, state: State, release: str, ending: str) -> Response:
    if ending != "json" and ending not in FORMS:
        raise Problem("not-found")
    published = state.services.publications.find(release)
    base = base_of(request, state.settings.public_url)
    if ending == "csv" and published.is_long:
        lines = state.services.cells.lines(published.release, "csv", person="")
        headers = {"Cache-Control": KEPT, "Link": back(published, base)}
        return StreamingResponse(lines, media_type=_TYPES[ending], headers=headers)
    if ending == "json":
        content = state.services.public_documents.document(published)
    else:
        content = FORMS[ending](published, base)
    return public_answer(content, _TYPES[ending], headers={"Link": back(published, base)})


def _item(item: Published) -> dict[str, Any]:
    return {
        "release": item.id,
        "title": item.title,
        "dataset": {"id": item.release.dataset, "name": item.dataset},
        "statistics": list(item.kinds),
        "epsilon": item.epsilon,
        "published_at": item.publication.published_at,
        "address": item.path,
    }


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
