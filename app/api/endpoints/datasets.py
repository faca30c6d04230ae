"""Data sets: upload, list, show, archive."""

from __future__ import annotations

from typing import Annotated

from fastapi import Response
from starlette.requests import Request

from app.api.answers.datasets import (
    DatasetAnswer,
    UploadedDatasetAnswer,
    dataset_answer,
    datasets_answer,
    uploaded_answer,
)
from app.api.answers.paging import MOST_BYTES, Page, Paging
from app.api.answers.problems import carrying, documented
from app.api.dependencies import Analyst, Curator, Id, State, is_json, json_body, json_bytes
from app.api.endpoint import router_of, untimed
from app.api.uploading import OF_UPLOADS, upload_of
from app.domain.upload_reports import UploadReport
from app.services.datasets.datasets import DatasetView
from app.services.people.keys import Caller
from app.web.requests.bodies import made_of, sourced_spec_in, spec_in
from app.web.requests.leaving import waiting
from app.web.requests.reviews import DatasetEdit
from app.web.requests.schemas import DatasetSpec
from app.web.requests.sources import SourcedDatasetSpec
from app.web.requests.uploads import UploadLimits, receive_upload
from app.web.state import AppState

router = router_of("/v1/datasets", "data sets")

_NEXT = {
    operation: {"operationId": operation, "parameters": {"dataset": "$response.body#/id"}}
    for operation in ("getDataset", "getBudget", "previewRelease")
}
"""What may be asked of a data set that is there now."""


@router.post(
    "",
    operation_id="createDataset",
    status_code=201,
    openapi_extra=upload_of(DatasetSpec, SourcedDatasetSpec),
    responses=documented(
        *OF_UPLOADS, answers={201: {"headers": carrying("Location"), "links": _NEXT}}
    ),
)
@untimed
async def create_dataset(
    request: Request, response: Response, caller: Curator, state: State
) -> UploadedDatasetAnswer:
    """Upload a data set under a public spec, or register one where it lies (curators)."""
    with state.uploads.entered():
        take_in = _registered if is_json(request) else _uploaded
        view, report = await take_in(request, caller, state)
    response.headers["Location"] = f"/v1/datasets/{view.facts.id}"
    return uploaded_answer(view, report)


async def _uploaded(
    request: Request, caller: Caller, state: AppState
) -> tuple[DatasetView, UploadReport]:
    settings, services = state.settings, state.services
    limits = UploadLimits(
        file_bytes=settings.max_upload_bytes, spec_bytes=settings.max_request_bytes
    )
    async with receive_upload(request, directory=settings.data_dir, limits=limits) as upload:
        most = settings.max_columns
        new = await made_of(upload.spec, caller.person, services.reading, spec_in, most)
        return await services.datasets.create(
            new, upload.file, caller=caller, waiting=waiting(request)
        )


async def _registered(
    request: Request, caller: Caller, state: AppState
) -> tuple[DatasetView, UploadReport]:
    body, services, most = await json_bytes(request), state.services, state.settings.max_columns
    new, url = await made_of(body, caller.person, services.reading, sourced_spec_in, most)
    return await services.datasets.create(
        new, services.sources.located(url), caller=caller, waiting=waiting(request)
    )


@router.get(
    "",
    operation_id="listDatasets",
    response_class=Response,
    responses=documented(answers={200: {"model": Page[DatasetAnswer]}}),
)
def list_datasets(caller: Analyst, cut: Paging, state: State) -> Response:
    """List the public facts of every data set, newest first."""
    del caller
    views, more = state.services.datasets.list(
        before=cut.position, limit=cut.limit, most_bytes=MOST_BYTES
    )
    return datasets_answer(views, more=more)


@router.get(
    "/{dataset}",
    operation_id="getDataset",
    responses=documented("not-found"),
)
def get_dataset(caller: Analyst, dataset: Id, state: State) -> DatasetAnswer:
    """Show the public facts of a data set."""
    del caller
    return dataset_answer(state.services.datasets.view(dataset))


@router.patch(
    "/{dataset}",
    operation_id="editDataset",
    responses=documented("not-found", "busy"),
)
async def edit_dataset(
    caller: Curator,
    dataset: Id,
    body: Annotated[DatasetEdit, json_body(DatasetEdit)],
    state: State,
) -> DatasetAnswer:
    """Change policy, description, notices, labels or checklist, never bounds (curators).

    What is left out stays as it is. The ledger keeps each edit's digest, who made it and why.
    """
    view = await state.services.editing.edit(dataset, body.edit, reason=body.reason, caller=caller)
    return dataset_answer(view)


@router.post(
    "/{dataset}/archive",
    operation_id="archiveDataset",
    responses=documented("not-found", "busy"),
)
@untimed
async def archive_dataset(caller: Curator, dataset: Id, state: State) -> DatasetAnswer:
    """Erase a data set's rows; its ledger and releases stay (curators)."""
    return dataset_answer(await state.services.archiving.archive(dataset, caller=caller))
