"""The first page: what waits, and for whom, and the latest data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.desk.rendering import page
from app.desk.routes import State, Visitor, router_of
from app.domain.policies import Role
from app.domain.releases import ReleaseState
from app.services.people.keys import Caller
from app.services.plans.answers import heading_of
from app.services.releases.releases import ReleaseRecord

router = router_of("home")

_SHOWN = 20
_LATEST = 10
_WAITING = (ReleaseState.CHANGES_REQUESTED, ReleaseState.RESERVED)


@router.get("")
def show_home(request: Request, visitor: Visitor, state: State) -> Response:
    """Show what waits, what of it is the visitor's to do first, and the latest data sets."""
    services = state.services
    found = [services.releases.heads(caller=visitor, state=each, limit=_SHOWN) for each in _WAITING]
    rows = [_row(record, visitor) for heads in found for record in heads.records]
    rows.sort(key=lambda row: not row["mine"])  # a stable order: newest first in each part
    asked = {row["of"].dataset for row in rows}
    names = {each: services.datasets.facts(each).record.name for each in asked}
    views, _ = services.datasets.list(before=None, limit=_LATEST, most_bytes=1 << 20)
    more = any(heads.more for heads in found)
    return page(request, "home.html", rows=rows, more=more, names=names, datasets=views)


def _row(record: ReleaseRecord, visitor: Caller) -> Mapping[str, Any]:
    """Return what is said of a request that waits, and whether it is the visitor's turn."""
    own = record.principal == visitor.person
    if record.state is ReleaseState.CHANGES_REQUESTED:
        turn = "your answer" if own else record.principal
        return {"of": heading_of(record), "mine": own, "turn": turn}
    mine = not own and visitor.role.may_act_as(Role.CURATOR)
    return {"of": heading_of(record), "mine": mine, "turn": "your review" if mine else "a review"}
