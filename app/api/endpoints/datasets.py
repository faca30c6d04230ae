"""Data sets: upload, list, show, archive, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, BinaryIO, TypeVar

from fastapi import Response
from starlette.requests import Request

from app.api.answers.datasets import (
    DatasetAnswer,
    UploadedDatasetAnswer,
    checked_answer,
    dataset_answer,
    datasets_answer,
    uploaded_answer,
)
from app.api.answers.paging import MOST_BYTES, Page, Paging
from app.api.answers.problems import carrying, documented
from app.api.dependencies import Analyst, Curator, Id, State, is_json, json_body, json_bytes
from app.api.endpoint import router_of, untimed
from app.api.uploading import CHECKED, OF_UPLOADS, Check, upload_of
from app.domain.sources import Source
from app.services.datasets.admitting import NewDataset
from app.services.people.keys import Caller
from app.web.requests.bodies import made_of, sourced_spec_in, spec_in
from app.web.requests.leaving import waiting
from app.web.requests.reviews import DatasetEdit
from app.web.requests.schemas import DatasetSpec
from app.web.requests.uploads import SourcedDatasetSpec, UploadLimits, receive_upload
from app.web.state import AppState

T = TypeVar("T")
Taking = Callable[[NewDataset, BinaryIO | Source], Awaitable[T]]
"""What is done with an upload."""

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
        *OF_UPLOADS,
        "dataset-has-releases",
        "newer-version",
        answers={
            200: CHECKED,
            201: {"headers": carrying("Location"), "links": _NEXT},
        },
    ),
    response_model=UploadedDatasetAnswer,
)
@untimed
async def create_dataset(
    request: Request,
    response: Response,
    caller: Curator,
    state: State,
    check: Check = False,
) -> UploadedDatasetAnswer | Response:
    """Upload a data set under a public spec, or register one where it lies (curators).

    With `check` the answer only says how the file would be read.
    """
    datasets = state.services.datasets
    sender: dict[str, Any] = {"caller": caller, "waiting": waiting(request)}
    take_in = _registered if is_json(request) else _uploaded
    with state.uploads.entered():
        if check:
            checked = partial(datasets.check, **sender)
            return checked_answer(await take_in(request, caller, state, checked))
        view, report = await take_in(request, caller, state, partial(datasets.create, **sender))
    response.headers["Location"] = f"/v1/datasets/{view.facts.id}"
    return uploaded_answer(view, report)


async def _uploaded(request: Request, caller: Caller, state: AppState, take: Taking[T]) -> T:
    settings, services = state.settings, state.services
    limits = UploadLimits(
        file_bytes=settings.max_upload_bytes, spec_bytes=state.constants.max_request_bytes
    )
    async with receive_upload(request, directory=settings.data_dir, limits=limits) as upload:
        most = state.constants.max_columns
        new = await made_of(upload.spec, caller.person, services.reading, spec_in, most)
        return await take(new, upload.file)


async def _registered(request: Request, caller: Caller, state: AppState, take: Taking[T]) -> T:
    body, services, most = await json_bytes(request), state.services, state.constants.max_columns
    new, url = await made_of(body, caller.person, services.reading, sourced_spec_in, most)
    return await take(new, services.sources.located(url))


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
    responses=documented("not-found", "busy", "clock-behind"),
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


@router.delete(
    "/{dataset}",
    operation_id="deleteDataset",
    responses=documented(
        "not-found", "dataset-has-releases", "newer-version", "busy", "clock-behind"
    ),
)
@untimed
async def delete_dataset(caller: Curator, dataset: Id, state: State) -> DatasetAnswer:
    """Delete a data set that has no releases, and close its account (curators).

    Its rows and the digests that recognise its people are erased: the same people can be uploaded
    again with a full budget. From the first release on, or the first reservation for one, it is
    refused.
    """
    return dataset_answer(await state.services.deleting.delete(dataset, caller=caller))


@router.post(
    "/{dataset}/archive",
    operation_id="archiveDataset",
    responses=documented("not-found", "dataset-archived", "busy", "clock-behind"),
)
@untimed
async def archive_dataset(caller: Curator, dataset: Id, state: State) -> DatasetAnswer:
    """Erase a data set's rows; its ledger and releases stay (curators)."""
    return dataset_answer(await state.services.archiving.archive(dataset, caller=caller))
