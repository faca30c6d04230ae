"""Versions of a data set: adding rows, and listing what there is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, BinaryIO, TypeVar

from fastapi import Response
from starlette.requests import Request

from app.api.answers.datasets import (
    DatasetVersionAnswer,
    UploadedDatasetAnswer,
    checked_answer,
    uploaded_answer,
    version_answer,
)
from app.api.answers.paging import Page, Paging, page_of
from app.api.answers.problems import carrying, documented
from app.api.dependencies import Analyst, Curator, Id, State, is_json, json_bytes
from app.api.endpoint import router_of, untimed
from app.api.uploading import CHECKED, OF_UPLOADS, Check, upload_of
from app.domain.sources import Source
from app.services.datasets.extending import NewRows
from app.web.requests.bodies import request_in
from app.web.requests.leaving import waiting
from app.web.requests.uploads import UploadLimits, receive_upload
from app.web.requests.versions import SourcedVersionSpec, VersionSpec
from app.web.state import AppState

T = TypeVar("T")
Taking = Callable[[NewRows, BinaryIO | Source], Awaitable[T]]
"""What is done with rows that are added."""

router = router_of("/v1/datasets", "data sets")


@router.post(
    "/{dataset}/versions",
    operation_id="extendDataset",
    status_code=201,
    openapi_extra=upload_of(VersionSpec, SourcedVersionSpec),
    responses=documented(
        "not-found", "dataset-archived", "newer-version", "not-extendable", *OF_UPLOADS,
        answers={200: CHECKED, 201: {"headers": carrying("Location")}},
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
    take_in = _sourced if is_json(request) else _uploaded
    with state.uploads.entered():
        if check:
            checked = partial(extending.check, dataset, **sender)
            return checked_answer(await take_in(request, state, checked))
        view, report = await take_in(request, state, partial(extending.extend, dataset, **sender))
    response.headers["Location"] = f"/v1/datasets/{view.facts.id}"
    return uploaded_answer(view, report)


async def _uploaded(request: Request, state: AppState, take: Taking[T]) -> T:
    settings = state.settings
    limits = UploadLimits(
        file_bytes=settings.max_upload_bytes, spec_bytes=state.constants.max_request_bytes
    )
    async with receive_upload(request, directory=settings.data_dir, limits=limits) as upload:
        new = request_in(upload.spec, VersionSpec).declared()
        return await take(new, upload.file)


async def _sourced(request: Request, state: AppState, take: Taking[T]) -> T:
    body = request_in(await json_bytes(request), SourcedVersionSpec)
    return await take(body.declared(), state.services.sources.located(body.source))


@router.get(
    "/{dataset}/versions",
    operation_id="listDatasetVersions",
    responses=documented("not-found"),
)
def list_versions(
    caller: Analyst, dataset: Id, cut: Paging, state: State
) -> Page[DatasetVersionAnswer]:
    """List the versions of which a data set is one, newest first."""
    del caller
    versions = [
        (each.version, version_answer(each))
        for each in state.services.extending.versions(dataset)
        if cut.position is None or each.version < cut.position
    ]
    return page_of(versions, cut)
