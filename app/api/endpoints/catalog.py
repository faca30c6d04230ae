"""The catalog: what can be asked, without a key."""

from __future__ import annotations

from typing import Any

from app.api.answers.paging import Page, whole_page
from app.api.dependencies import State
from app.api.endpoint import ANYONE, kept, router_of

router = router_of("/v1", "catalog")


@router.get(
    "/catalog",
    operation_id="getCatalog",
    openapi_extra=ANYONE,
)
@kept
def get_catalog(state: State) -> Page[dict[str, Any]]:
    """List every statistic x mechanism x norm, its parameters, theorem and limits, on one page."""
    return whole_page(state.services.catalog.offers)
