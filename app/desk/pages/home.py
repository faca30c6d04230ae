"""The first page: what waits for whoever is signed in."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from app.desk.rendering import page
from app.desk.routes import State, Visitor, router_of
from app.domain.releases import ReleaseState
from app.services.plans.answers import answer_of

router = router_of("home")

_SHOWN = 10


@router.get("")
def show_home(request: Request, visitor: Visitor, state: State) -> Response:
    """Show what waits, the latest releases and the latest data sets."""
    services = state.services
    waiting, _ = services.releases.list(
        caller=visitor,
        dataset=None,
        state=ReleaseState.RESERVED,
        before=None,
        limit=_SHOWN,
        most_bytes=0,
    )
    views, _ = services.datasets.list(before=None, limit=_SHOWN, most_bytes=1 << 20)
    names = {each.dataset: services.datasets.facts(each.dataset).record.name for each in waiting}
    told = [json.loads(answer_of(each)) for each in waiting]
    return page(request, "home.html", waiting=told, names=names, datasets=views)
