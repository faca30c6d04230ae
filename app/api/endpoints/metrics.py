"""What was counted, for Prometheus."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.metrics import MEDIA_TYPE, metrics_answer
from app.api.answers.problems import documented
from app.api.dependencies import State, Watcher
from app.api.endpoint import router_of

router = router_of("", "operation")


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses=documented(
        answers={
            200: {
                "description": "Prometheus text format.",
                "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
            }
        },
    ),
)
async def get_metrics(request: Request, caller: Watcher, state: State) -> Response:
    """Count requests and refusals of this server process, for Prometheus (role `metrics`, admins).

    There is nothing about any data set, and no duration that depends on data or on noise.
    """
    del caller
    return metrics_answer(request.app.state.counts, state.settings.data_dir)
