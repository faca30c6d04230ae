"""The pages that explain refusals, at the address that each problem names as its type."""

from __future__ import annotations

from html import escape

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.api.pages.layout import page, table, wants_json
from app.domain.problem_kind import ProblemKind
from app.domain.problems import PROBLEMS, Problem
from app.web.anonymous import KeptRoute

router = APIRouter(include_in_schema=False, route_class=KeptRoute)


@router.get("/problems")
def list_problems() -> Response:
    """Show every kind of refusal."""
    rows = (
        (f'<a href="/problems/{kind.code}">{kind.code}</a>', str(kind.status), escape(kind.title))
        for kind in PROBLEMS.values()
    )
    return page("Problems", table(("Code", "Status", "Title"), rows))


@router.get("/problems/{code}")
def get_problem(request: Request, code: str) -> Response:
    """Show one kind of refusal: a page, or JSON for a client that asks for it."""
    kind = PROBLEMS.get(code)
    if kind is None:
        raise Problem("not-found")
    if wants_json(request):
        return JSONResponse(_kind_json(kind))
    return page(kind.title, _kind_html(kind))


def _kind_json(kind: ProblemKind) -> dict[str, object]:
    return {
        "type": f"/problems/{kind.code}",
        "code": kind.code,
        "title": kind.title,
        "status": kind.status,
        "meaning": kind.meaning,
        "remedy": kind.remedy,
        "extras": dict(kind.extras),
    }


def _kind_html(kind: ProblemKind) -> str:
    extras = ((f"<code>{name}</code>", escape(what)) for name, what in kind.extras.items())
    return (
        f"<p><code>{kind.code}</code>, HTTP status {kind.status}</p>"
        f"<h2>What it means</h2><p>{escape(kind.meaning)}</p>"
        f"<h2>What to do</h2><p>{escape(kind.remedy)}</p>"
        + (f"<h2>Members</h2>{table(('Member', 'Meaning'), extras)}" if kind.extras else "")
        + '<p><a href="/problems">All problems</a></p>'
    )
