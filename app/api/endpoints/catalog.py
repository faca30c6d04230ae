"""The catalog: what can be asked, without a key."""

from __future__ import annotations

from typing import Any

from app.api.dependencies import State
from app.api.endpoint import ANYONE, router_of
from app.api.paging import Page

router = router_of("/v1", "catalog")


@router.get(
    "/catalog",
    operation_id="getCatalog",
    response_model=Page[dict[str, Any]],
    openapi_extra=ANYONE,
)
def get_catalog(state: State) -> Page[dict[str, Any]]:
    """List every statistic x mechanism x norm, its parameters, theorem and limits, on one page."""
    return Page(items=list(state.services.catalog.offers), next=None)
