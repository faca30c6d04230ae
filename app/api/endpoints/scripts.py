"""Scripts: a release or a question as a program, ready to run."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.problems import documented
from app.api.answers.releases import script_answer
from app.api.dependencies import Analyst, Id, State, json_body
from app.api.endpoint import router_of
from app.services.scripts.scripts import Language
from app.web.anonymous import base_of
from app.web.requests.questions import PreviewRequest

router = router_of("/v1", "releases")

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
    request: Request, caller: Analyst, release: Id, state: State, language: _Wanted = "python"
) -> Response:
    """Show a release as a program (its owner and curators): it reads the answer, for free.

    It holds no key: where the service is and who asks, the environment says. Asking the question
    again is in it too, and switched off.
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
            dataset, question, body.wish, caller=caller
        )
    script = state.services.scripts.of_question(
        dataset,
        question,
        body.assumed,
        language,
        service=base_of(request, state.settings.public_url),
    )
    return script_answer(script)
