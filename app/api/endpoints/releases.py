"""Releases: requesting, listing, showing, deriving from them, and writing them as programs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.paging import MOST_BYTES, Page, Paging
from app.api.answers.problems import carrying, documented
from app.api.answers.releases import (
    CalculatingAnswer,
    DerivationAnswer,
    ReleaseAnswer,
    SyntheticAnswer,
    calculating_answer,
    cells_answer,
    derivation_answer,
    outcome_answer,
    releases_answer,
    script_answer,
    shown_answer,
    synthetic_answer,
    synthetic_file_answer,
)
from app.api.dependencies import (
    Analyst,
    Id,
    IdFilter,
    Reader,
    State,
    id_in_path,
    id_parameter,
    idempotency_key_of,
    json_body,
    router_of,
    state_of,
    untimed,
)
from app.services.plans.answers import state_called
from app.services.releases.cells import Cut, Lines
from app.services.releases.derivations import UnfinishedError
from app.services.releases.synthetic import MOST_SEED, Format, Wanted
from app.services.scripts import Language
from app.tidy.keys import MOST_LINES
from app.web.anonymous import base_of, names
from app.web.requests.questions import (
    DerivationRequest,
    PreviewRequest,
    ReleaseRequest,
    SyntheticRequest,
)
from app.web.state import while_there
from mechanisms.tables.model import MOST_ROWS
from mechanisms.tables.workload import MOST_CELLS

router = router_of("/v1", "releases")
direct = router_of("/v1", "releases", direct=True)

_ACCEPTED = (
    "A job: charged, and drawn in the background. Or it waits for a review: its budget is "
    "reserved, and it is a job once a curator has approved it. Ask at `Location` again after "
    "`Retry-After` seconds, or send the same request again."
)
_CALCULATING = (
    "It takes more than two seconds, and goes on: send the same request again after `Retry-After` "
    "seconds. What it came to is kept for an hour."
)
_STATUS = (
    "Only releases that wait for a review, or ended without approval. There is no list by what a "
    "draw leads to: when it ends is not public before its deadline."
)
Reviewed = Literal["awaiting_review", "changes_requested", "rejected", "withdrawn", "expired"]
_PARAMETERS = {
    "parameters": [
        id_parameter("dataset"),
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "description": "Yours to choose, once per question. It belongs to the person, not to "
            "the API key, and never expires: the same question again, in any spelling, gives the "
            "same stored answer. With `auto` the service chooses it, by data set, question and "
            "epsilon, so that each question is charged once.",
            "schema": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "examples": ["household-means"],
            },
        },
    ]
}


@direct.post(
    "/datasets/{dataset}/releases",
    operation_id="createRelease",
    status_code=201,
    response_class=Response,
    openapi_extra=_PARAMETERS,
    responses=documented(
        "idempotency-key-missing", "not-found", "budget-exceeded",
        "dataset-archived",
        "policy-refused", "empty-dataset", "idempotency-key-reused", "release-closed",
        "release-void", "internal", "busy", "too-many-jobs", "too-much-stored", "paused",
        "dataset-unreadable", "clock-behind", "not-ready",
        answers={
            201: {"model": ReleaseAnswer, "headers": carrying("Location", "ETag")},
            202: {
                "model": ReleaseAnswer,
                "description": _ACCEPTED,
                "headers": carrying("Location", "ETag", "Retry-After"),
            },
        },
    ),
)  # fmt: skip
@untimed
async def create_release(
    request: Request, caller: Analyst, body: Annotated[ReleaseRequest, json_body(ReleaseRequest)]
) -> Response:
    """Charge the budget and release a statistic. The same key and body replay the answer.

    What may take long to plan or draw is a job, by a public rule that previews show. Every
    answer, a refusal too, leaves at a tick of a public clock.
    """
    dataset, state = id_in_path(request, "dataset"), state_of(request)
    releases = state.services.releases
    async with state.clock.answer() as answer:
        record = await releases.submit(
            dataset, body.question, idem=idempotency_key_of(request), caller=caller
        )
        return outcome_answer(record, releases.moments, answer.hold)


@router.get(
    "/releases",
    operation_id="listReleases",
    response_class=Response,
    responses=documented(answers={200: {"model": Page[ReleaseAnswer]}}),
)
def list_releases(
    caller: Reader,
    cut: Paging,
    state: State,
    dataset: Annotated[
        IdFilter,
        Query(
            max_length=100, description="Only releases of this data set.", examples=["ds_8f2c41"]
        ),
    ] = None,
    status: Annotated[
        Reviewed | None, Query(description=_STATUS, examples=["awaiting_review"])
    ] = None,
) -> Response:
    """List your releases, newest first; a curator sees everyone's.

    A page may hold fewer than `limit`, since it ends after 8 MiB: go on until `next` is null.
    """
    page = state.services.releases.list(
        caller=caller,
        dataset=dataset,
        state=None if status is None else state_called(status),
        before=cut.position,
        limit=cut.limit,
        most_bytes=MOST_BYTES,
    )
    state.services.views.note(page.records, "listed", caller=caller)
    return releases_answer(page)


@router.get(
    "/releases/{release}",
    operation_id="getRelease",
    response_class=Response,
    responses=documented(
        "not-found",
        answers={
            200: {"model": ReleaseAnswer, "headers": carrying("ETag")},
            304: {"description": "Nothing has changed.", "headers": carrying("ETag")},
        },
    ),
)
async def get_release(request: Request, caller: Reader, release: Id, state: State) -> Response:
    """Show a release (its owner and curators), with an ETag for polling."""
    record = await state.services.releases.get(release, caller=caller)
    state.services.views.note([record], "read", caller=caller)
    condition = request.headers.get("if-none-match")
    return shown_answer(
        record, state.services.releases.moments, known=lambda tag: names(condition, tag)
    )


@router.post(
    "/releases/{release}/derivations",
    operation_id="deriveFromRelease",
    response_class=Response,
    responses=documented(
        "not-found",
        "busy",
        answers={
            200: {"model": DerivationAnswer},
            202: {
                "model": CalculatingAnswer,
                "description": _CALCULATING,
                "headers": carrying("Retry-After"),
            },
        },
    ),
)
async def derive_from_release(
    request: Request,
    caller: Analyst,
    release: Id,
    body: Annotated[DerivationRequest, json_body(DerivationRequest)],
    state: State,
) -> Response:
    """Compute a statistic from a released result (its owner and curators).

    Free, and without the data: from `moments`, any linear regression of their columns, and all that
    first and second moments determine; from most statistics, the same of fewer columns. With
    `together_with`, from several releases at once: counts, histograms, sums, means and moments.

    What takes long, as whole counts of many tables do, goes on in the background: send the same
    request again until the answer is there.
    """
    deriving = state.services.derivations.derive(
        release, body.statistic, together_with=body.together_with, caller=caller
    )
    try:
        derived = await while_there(request, deriving)
    except UnfinishedError as going_on:
        return calculating_answer(going_on.share)
    for each in (release, *body.together_with):
        state.services.views.note_id(each, "derived", caller=caller)
    return derivation_answer(derived)


_LINES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A line for each cell. `Link` names the next page, if there is one.",
        "content": {
            "application/jsonl": {"schema": {"type": "string"}},
            "text/csv": {"schema": {"type": "string"}},
        },
    }
}


@router.get(
    "/releases/{release}/cells",
    operation_id="listCells",
    response_class=Response,
    responses=documented("not-found", "busy", answers=_LINES),
)
async def list_cells(
    *,
    request: Request,
    caller: Analyst,
    release: Id,
    state: State,
    format: Annotated[
        Lines, Query(description="JSON Lines, or CSV with a header on each page.", examples=["csv"])
    ] = "jsonl",
    table: Annotated[
        int | None,
        Query(ge=0, le=MOST_CELLS, description="Only this table, counted from 0.", examples=[0]),
    ] = None,
    after: Annotated[
        int, Query(ge=0, le=MOST_CELLS, description="Cells to skip.", examples=[0])
    ] = 0,
    limit: Annotated[
        int, Query(ge=1, le=MOST_LINES, description="Cells of a page.", examples=[1000])
    ] = 10_000,
) -> Response:
    """List the cells of released tables, or the numbers of groups, page by page.

    For the release's owner and curators. Each line of tables has the table, the cell, its count,
    and the law of its noise. Each line of an answer with `by` has the group, the number's name and
    value, and the law of its noise.
    """
    cut = Cut(format=format, table=table, after=after, limit=limit)
    reading = state.services.cells.page(release, cut, caller=caller)
    page = await while_there(request, reading)
    state.services.views.note_id(release, "read", caller=caller)
    return cells_answer(page, cut, release)


_FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The rows, as a file.",
        "headers": carrying("Link"),
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post(
    "/releases/{release}/synthetic",
    operation_id="makeSyntheticRows",
    response_class=Response,
    responses=documented("not-found", "busy", answers=_FILES),
)
async def make_synthetic_rows(
    request: Request,
    caller: Analyst,
    release: Id,
    body: Annotated[SyntheticRequest, json_body(SyntheticRequest)],
    state: State,
) -> Response:
    """Make synthetic rows of a release of tables (its owner and curators), as a file.

    Free, and without the data: they are drawn from a graphical model of the released tables. The
    same request makes the same bytes. `Link` names what describes them.
    """
    making = state.services.synthetic.rows(release, body.wanted, caller=caller)
    made = await while_there(request, making)
    state.services.views.note_id(release, "derived", caller=caller)
    return synthetic_file_answer(made.content, body.wanted, release)


@router.get(
    "/releases/{release}/synthetic",
    operation_id="describeSyntheticRows",
    responses=documented("not-found", "busy"),
)
async def describe_synthetic_rows(
    *,
    request: Request,
    caller: Analyst,
    release: Id,
    state: State,
    rows: Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many.", examples=[10_000])],
    seed: Annotated[
        int, Query(ge=0, le=MOST_SEED, description="What they are drawn with.", examples=[7])
    ],
    format: Annotated[Format, Query(description="Of the file.", examples=["csv"])] = "csv",
) -> SyntheticAnswer:
    """Describe the file that the same request makes: its guarantee, columns, model and quality."""
    wanted = Wanted(rows=rows, seed=seed, format=format)
    making = state.services.synthetic.rows(release, wanted, caller=caller)
    made = await while_there(request, making)
    state.services.views.note_id(release, "derived", caller=caller)
    return synthetic_answer(made.sidecar)


_TEXT = {"schema": {"type": "string"}}
_SCRIPTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The program, as a file.",
        "content": {
            "text/x-python": _TEXT,
            "text/x-r": _TEXT,
            "application/x-ipynb+json": {"schema": {"type": "object"}},
        },
    }
}
_Wanted = Annotated[
    Language,
    Query(
        description="`python` and `r` are scripts by our packages, `notebook` is a Jupyter "
        "notebook in Python.",
        examples=["python"],
    ),
]


@router.get(
    "/releases/{release}/script",
    operation_id="getReleaseScript",
    response_class=Response,
    responses=documented("not-found", answers=_SCRIPTS),
)
async def get_release_script(
    request: Request, caller: Reader, release: Id, state: State, language: _Wanted = "python"
) -> Response:
    """Show a release as a program (its owner and curators): it reads the answer, for free.

    It holds no key: the environment has the service's address and the key. It can also repeat the
    query; that part is switched off.
    """
    service = base_of(request, state.settings.public_url)
    script = await state.services.scripts.of_release(
        release, language, caller=caller, service=service
    )
    return script_answer(script)


@router.post(
    "/datasets/{dataset}/scripts",
    operation_id="writeScript",
    response_class=Response,
    responses=documented(
        "not-found", "dataset-archived", "policy-refused", "empty-dataset", "busy", answers=_SCRIPTS
    ),
)
async def write_script(
    *,
    request: Request,
    caller: Analyst,
    dataset: Id,
    body: Annotated[PreviewRequest, json_body(PreviewRequest)],
    state: State,
    language: _Wanted = "python",
) -> Response:
    """Write a question as a program: a preview, a dry run, and the release, switched off.

    With an `accuracy` and no `epsilon` the program asks at the smallest epsilon that reaches it.
    """
    question = body.question
    if not body.priced:
        _, question = await state.services.previews.preview_within(
            dataset, question, body.options, caller=caller
        )
    script = state.services.scripts.of_question(
        dataset,
        question,
        body.assumed,
        language,
        service=base_of(request, state.settings.public_url),
    )
    return script_answer(script)
