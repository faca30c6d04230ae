"""Data sets: uploading, listing, showing, editing, archiving, and adding rows as versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, BinaryIO, TypeVar

from fastapi import Query, Response
from pydantic import BaseModel
from starlette.requests import Request

from app.api.answers.datasets import (
    CheckedUploadAnswer,
    DatasetAnswer,
    DatasetVersionAnswer,
    UploadedDatasetAnswer,
    checked_answer,
    dataset_answer,
    datasets_answer,
    uploaded_answer,
    version_answer,
)
from app.api.answers.ledger import ReadingsAnswer, readings_answer
from app.api.answers.paging import MOST_BYTES, Page, Paging, page_of
from app.api.answers.problems import carrying, documented
from app.api.dependencies import (
    Curator,
    Id,
    Reader,
    State,
    is_json,
    json_body,
    json_bytes,
    router_of,
    untimed,
)
from app.domain.access import Span
from app.domain.sources import Source
from app.services.datasets.admitting import NewDataset
from app.services.datasets.extending import NewRows
from app.services.people.keys import Caller
from app.web.requests.questions import made_of, request_in, sourced_spec_in, spec_in
from app.web.requests.schemas import DatasetEdit, DatasetSpec
from app.web.requests.uploads import (
    SourcedDatasetSpec,
    SourcedVersionSpec,
    UploadLimits,
    VersionSpec,
    receive_upload,
)
from app.web.state import LONGEST_READING, AppState, waiting

_OF_UPLOADS = (
    "malformed-request", "name-taken",
    "invalid-upload", "source-unreadable", "source-changed", "overlapping-dataset",
    "too-few-rows", "too-many-overlaps",
    "lineage-lost", "busy", "not-ready", "clock-behind",
)  # fmt: skip
"""What an upload may be refused for."""


Check = Annotated[
    bool,
    Query(
        description="Only say how the file would be read: 200 with the report. Nothing is stored, "
        "and no budget is opened.",
        examples=[False],
    ),
]
_CHECKED: dict[str, Any] = {
    "model": CheckedUploadAnswer,
    "description": "How the file would be read, where `check` is true.",
}
"""The answer to an upload that is only checked."""

_READING = {
    "name": "Reading",
    "in": "header",
    "required": False,
    "description": "A text of your choice, by which `/v1/readings` shows only you how far the "
    "upload is.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": LONGEST_READING,
        # Printable ASCII. HTTP drops spaces before it.
        "pattern": "^[!-~][ -~]*$",
        "examples": ["engel-1"],
    },
}


def _upload_of(spec: type[BaseModel], sourced: type[BaseModel]) -> dict[str, Any]:
    """Return how a file and its spec are sent, or a spec that names a source."""
    file = {
        "type": "string",
        "format": "binary",
        "description": "CSV with a header, CSV.gz or Parquet.",
    }
    parts = {
        "type": "object",
        "required": ["file", "spec"],
        "additionalProperties": False,
        "properties": {
            "file": file,
            "spec": {"$ref": spec, "description": "What is public about it, as JSON."},
        },
    }
    content = {
        "multipart/form-data": {
            "schema": parts,
            "encoding": {"spec": {"contentType": "application/json"}},
        },
        "application/json": {"schema": {"$ref": sourced}},
    }
    return {"parameters": [_READING], "requestBody": {"required": True, "content": content}}


T = TypeVar("T")
New = TypeVar("New", NewDataset, NewRows)
Taking = Callable[[New, BinaryIO | Source], Awaitable[T]]
"""What is done with an upload, or with rows that are added."""

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
    openapi_extra=_upload_of(DatasetSpec, SourcedDatasetSpec),
    responses=documented(
        *_OF_UPLOADS,
        "dataset-has-releases",
        "newer-version",
        answers={200: _CHECKED, 201: {"headers": carrying("Location"), "links": _NEXT}},
    ),
    response_model=UploadedDatasetAnswer,
)
@untimed
async def create_dataset(
    request: Request, response: Response, caller: Curator, state: State, check: Check = False
) -> UploadedDatasetAnswer | Response:
    """Upload a data set under a public spec, or register one where it is stored (curators).

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


async def _uploaded(
    request: Request, caller: Caller, state: AppState, take: Taking[NewDataset, T]
) -> T:
    settings, services = state.settings, state.services
    limits = UploadLimits(
        file_bytes=settings.max_upload_bytes, spec_bytes=state.constants.max_request_bytes
    )
    async with receive_upload(request, directory=settings.data_dir, limits=limits) as upload:
        most = state.constants.max_columns
        new = await made_of(upload.spec, caller.person, services.reading, spec_in, most)
        return await take(new, upload.file)


async def _registered(
    request: Request, caller: Caller, state: AppState, take: Taking[NewDataset, T]
) -> T:
    body, services, most = await json_bytes(request), state.services, state.constants.max_columns
    new, url = await made_of(body, caller.person, services.reading, sourced_spec_in, most)
    return await take(new, services.sources.located(url))


@router.get(
    "",
    operation_id="listDatasets",
    response_class=Response,
    responses=documented(answers={200: {"model": Page[DatasetAnswer]}}),
)
def list_datasets(caller: Reader, cut: Paging, state: State) -> Response:
    """List the public facts of every data set that you may see, newest first."""
    span = Span(limit=cut.limit, before=cut.position)
    views, more = state.services.datasets.list(caller=caller, span=span, most_bytes=MOST_BYTES)
    return datasets_answer(views, more=more)


@router.get("/{dataset}", operation_id="getDataset", responses=documented("not-found"))
def get_dataset(caller: Reader, dataset: Id, state: State) -> DatasetAnswer:
    """Show the public facts of a data set."""
    del caller
    return dataset_answer(state.services.datasets.view(dataset))


@router.patch(
    "/{dataset}",
    operation_id="editDataset",
    responses=documented("not-found", "busy", "clock-behind"),
)
async def edit_dataset(
    caller: Curator, dataset: Id, body: Annotated[DatasetEdit, json_body(DatasetEdit)], state: State
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


@router.post(
    "/{dataset}/versions",
    operation_id="extendDataset",
    status_code=201,
    openapi_extra=_upload_of(VersionSpec, SourcedVersionSpec),
    responses=documented(
        "not-found", "dataset-archived", "newer-version", "not-extendable", *_OF_UPLOADS,
        answers={200: _CHECKED, 201: {"headers": carrying("Location")}},
    ),
    response_model=UploadedDatasetAnswer,
)  # fmt: skip
@untimed
async def extend_dataset(  # noqa: PLR0917 - each is a part of the request
    request: Request,
    response: Response,
    caller: Curator,
    dataset: Id,
    state: State,
    check: Check = False,
) -> UploadedDatasetAnswer | Response:
    """Add rows of new people as the next version of a data set (curators).

    The version is a data set of its own, with the rows of all versions before it. It has their
    columns, policy and account: what is spent on any version is spent on all. With a `unit` the
    same people may come again, and their rows are bounded over all versions. With `check` the
    answer only says how the file would be read.
    """
    extending = state.services.extending
    sender: dict[str, Any] = {"caller": caller, "waiting": waiting(request)}
    take_in = _sourced_rows if is_json(request) else _uploaded_rows
    with state.uploads.entered():
        if check:
            checked = partial(extending.check, dataset, **sender)
            return checked_answer(await take_in(request, state, checked))
        view, report = await take_in(request, state, partial(extending.extend, dataset, **sender))
    response.headers["Location"] = f"/v1/datasets/{view.facts.id}"
    return uploaded_answer(view, report)


async def _uploaded_rows(request: Request, state: AppState, take: Taking[NewRows, T]) -> T:
    settings = state.settings
    limits = UploadLimits(
        file_bytes=settings.max_upload_bytes, spec_bytes=state.constants.max_request_bytes
    )
    async with receive_upload(request, directory=settings.data_dir, limits=limits) as upload:
        new = request_in(upload.spec, VersionSpec).declared()
        return await take(new, upload.file)


async def _sourced_rows(request: Request, state: AppState, take: Taking[NewRows, T]) -> T:
    body = request_in(await json_bytes(request), SourcedVersionSpec)
    return await take(body.declared(), state.services.sources.located(body.source))


@router.get(
    "/{dataset}/versions", operation_id="listDatasetVersions", responses=documented("not-found")
)
def list_versions(
    caller: Reader, dataset: Id, cut: Paging, state: State
) -> Page[DatasetVersionAnswer]:
    """List the versions of which a data set is one, newest first."""
    del caller
    versions = [
        (each.version, version_answer(each))
        for each in state.services.extending.versions(dataset)
        if cut.position is None or each.version < cut.position
    ]
    return page_of(versions, cut)


readings = router_of("/v1/readings", "data sets")


@readings.get("", operation_id="listReadings")
@untimed
def list_readings(caller: Curator, state: State) -> ReadingsAnswer:
    """Show how far those of your uploads are that you have sent with a `Reading` (curators).

    Only the sender sees them. One is there from its first rows on until all are stored.
    """
    return readings_answer(state.services.datasets.readings(caller=caller))
