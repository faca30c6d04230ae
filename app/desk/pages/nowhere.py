"""Every address of the desk where nothing is."""

from __future__ import annotations

from starlette.responses import Response

from app.desk.forms import see
from app.desk.routes import Visitor, router_of
from app.domain.problems import Problem

router = router_of("nowhere")


@router.get("/{rest:path}")
def show_nothing(visitor: Visitor, rest: str) -> Response:
    """Say that there is no such page."""
    del visitor
    if not rest:
        return see("/desk")
    raise Problem("not-found")
