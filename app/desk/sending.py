"""What pages that take a file have in common: its limits, where its rows are, how it was read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response

from app.desk import reports
from app.desk.cookies import ShownOnce
from app.desk.forms import Form, act_once
from app.desk.lists import address
from app.desk.rendering import path_of
from app.domain.datasets import ENCODINGS as ENCODINGS_OF_FILES
from app.domain.problems import invalid_request
from app.domain.sources import Source
from app.domain.upload_problems import UploadReport
from app.services.datasets.datasets import DatasetView
from app.services.people.keys import Caller
from app.web.requests.uploads import SentForm, UploadLimits
from app.web.state import AppState

DELIMITERS = ((",", "comma"), (";", "semicolon"), ("\t", "tab"), ("|", "bar"))
"""What may stand between the cells of a CSV file, and its name."""
ENCODINGS = tuple((each, each) for each in ENCODINGS_OF_FILES)

_READ: ShownOnce[tuple[str, UploadReport]] = ShownOnce(seconds=30)
"""How a form's file was read: after a double click, the second answer shows it too."""


def limits_of(state: AppState) -> UploadLimits:
    """Return how large a file and its form may be."""
    return UploadLimits(
        file_bytes=state.settings.max_upload_bytes, spec_bytes=state.constants.max_request_bytes
    )


def content_of(state: AppState, form: Form, sent: SentForm) -> BinaryIO | Source:
    """Return where the rows are that a form is sent with.

    Raises
    ------
    Problem
        ``invalid-request``: nowhere, or in two places; what a source is refused for.
    """
    source = addressed(state, form)
    if source is not None and sent.file_name:
        raise invalid_request("source", "leave it empty where a file is chosen")
    if source is None and not sent.file_name:
        raise invalid_request("file", "is required: choose it again")
    return sent.file if source is None else source


def addressed(state: AppState, form: Form) -> Source | None:
    """Return the source that a form names, if it names one."""
    url = form.text("source")
    return state.services.sources.located(url) if url else None


async def stage_once(
    request: Request, form: Form, *, caller: Caller, stage: Callable[[], Awaitable[str]]
) -> Response:
    """Store a form's rows once; the page that follows shows how they were read, to be confirmed.

    Raises
    ------
    Problem
        What storing them raises; ``busy``.
    """

    async def act() -> str:
        return path_of("datasets", await stage(), "create")

    return await act_once(request, form, caller=caller, act=act)


async def take_in_once(
    request: Request,
    form: Form,
    *,
    caller: Caller,
    store: Callable[[], Awaitable[tuple[DatasetView, UploadReport]]],
) -> Response:
    """Store a form's rows once; the page of the data set then says, this once, how they were read.

    Raises
    ------
    Problem
        What storing them raises; ``busy``.
    """

    async def act() -> str:
        view, report = await store()
        _READ.hold(caller.person, form.once, (view.facts.id, report))
        done = "uploaded" if view.facts.record.extends is None else "extended"
        return address(path_of("datasets", view.facts.id), done=done)

    answer = await act_once(request, form, caller=caller, act=act)
    read = _READ.look(caller.person, form.once)
    if read is not None:
        reports.send_along(request, answer, *read)
    return answer
