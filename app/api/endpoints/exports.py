"""Exports: what is public of a data set, in the forms that catalogues take."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from app.api.answers.problems import documented
from app.api.dependencies import Analyst, Id, State
from app.api.endpoint import router_of
from app.services.publishing.linked_data import EXPORTS
from app.web.anonymous import base_of

router = router_of("/v1/datasets/{dataset}/exports", "publications")


@router.get("/registry", operation_id="exportToRegistry", responses=documented("not-found"))
def export_to_registry(
    request: Request, caller: Analyst, dataset: Id, state: State
) -> dict[str, Any]:
    """Describe a data set's public releases in the fields of the Deployments Registry, all three
    tiers (arXiv 2509.13509). The newest hundred are in it."""
    del caller
    return _exported(request, dataset, state, "registry")


@router.get("/datacite", operation_id="exportToDatacite", responses=documented("not-found"))
def export_to_datacite(
    request: Request, caller: Analyst, dataset: Id, state: State
) -> dict[str, Any]:
    """Describe a data set's public releases in the fields of DataCite 4, without a DOI."""
    del caller
    return _exported(request, dataset, state, "datacite")


@router.get("/croissant", operation_id="exportToCroissant", responses=documented("not-found"))
def export_to_croissant(
    request: Request, caller: Analyst, dataset: Id, state: State
) -> dict[str, Any]:
    """Describe a data set's public releases in the Croissant format 1.0: a table for each."""
    del caller
    return _exported(request, dataset, state, "croissant")


def _exported(request: Request, dataset: str, state: State, form: str) -> dict[str, Any]:
    facts, items = state.services.publications.of_dataset(dataset)
    return EXPORTS[form](facts, items, base_of(request, state.settings.public_url))
