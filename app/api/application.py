"""The application that the routes make, without its services, and the document it describes.

*Every route of the service: an endpoint is its module, and its router's line here.* The role, body
and refusals of an endpoint are read from its route (see ``app.api.dependencies``) by whatever needs
them: the OpenAPI document, the log, the tests of roles.

``python -m app.api.application FILE`` writes that document; ``tests/contract/openapi.json`` is kept
that way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.responses import JSONResponse, Response

from app.api.answers.problems import ProblemAnswer, install_problem_handlers
from app.api.dependencies import DirectRoutes, Endpoint
from app.api.endpoints import (
    budgets,
    datasets,
    keys,
    ledger,
    previews,
    publications,
    releases,
    reviews,
)
from app.api.middleware import Counts, Ends, RequestContext
from app.api.pages import documents, public, reference
from app.web.anonymous import KeptRoute
from mechanisms.catalog import STATISTICS

ROUTERS = (
    releases.direct,  # asked most: answered before a route is looked for
    releases.router,
    datasets.router,
    datasets.readings,
    budgets.router,
    budgets.pauses,
    budgets.access,
    budgets.groups,
    previews.router,
    previews.catalog,
    previews.saved,
    reviews.router,
    reviews.inbox,
    publications.router,
    publications.exports,
    ledger.router,
    ledger.log,
    keys.router,
    ledger.health,
    reference.router,  # before the documents, which answer for all of /docs
    documents.router,
    public.router,
)


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]


def bare_application(
    lifespan: Lifespan | None = None,
    *,
    origins: Sequence[str] = (),
    traces: Ends | None = None,
) -> FastAPI:
    """Return the application; without a lifespan it can describe itself and no more.

    Pages of ``origins`` may read its answers in a browser. ``traces`` gets a span of each request.
    """
    app = FastAPI(
        title="Release Desk",
        version=own_version(),
        lifespan=lifespan,
        openapi_url=None,  # it would be encoded for everyone who asks
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # requests are reported in our log and our metrics alone, whatever the environment sets
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    for router in ROUTERS:
        # what include_router makes of routes is matched twice, and slowly
        app.router.routes.extend(router.routes)
    app.state.counts = Counts(app.version)
    app.add_middleware(DirectRoutes, routes=app.routes)  # within the next
    app.add_middleware(RequestContext, counts=app.state.counts, origins=origins, traces=traces)
    install_problem_handlers(app, app.routes)
    install_openapi(app)
    return app


def own_version() -> str:
    """Return the version that is installed."""
    try:
        return version("release-desk")
    except PackageNotFoundError:
        return "0"


DESCRIPTION = """\
Sanitized statistics of private data sets, under a budget that cannot be overspent.

Send `Authorization: Bearer <key>`. Epsilons are decimal text or numbers with at most 9 decimals.
Lists are paged: `limit` and `cursor` in, `items` and `next` out. Every refusal is
`application/problem+json`, and its `type` is a page of this service.
"""
_PREFIXES = {"dataset": "ds", "release": "rel", "plan": "plan", "key": "key"}
_FRAMEWORK_ERRORS = ("HTTPValidationError", "ValidationError")


def install_openapi(app: FastAPI) -> None:
    """Let the application describe itself with :func:`describe`, once, and show that.

    As a text it is made once, too: everyone may request it, and it is long.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app)
        return app.openapi_schema

    @cache
    def text() -> str:
        return bytes(JSONResponse(app.openapi()).body).decode()

    async def get_text() -> Response:
        return Response(text(), media_type="application/json")

    app.openapi = openapi  # type: ignore[method-assign]
    app.state.openapi_text = text
    app.router.routes.append(KeptRoute("/openapi.json", get_text, include_in_schema=False))


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    document = get_openapi(
        title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    taken = (route.models for route in app.routes if isinstance(route, Endpoint))
    bodies = sorted(set().union(*taken), key=lambda model: model.__name__)
    _, described = models_json_schema(
        [(model, "validation") for model in bodies] + [(ProblemAnswer, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    schemas |= described["$defs"]
    for name in _FRAMEWORK_ERRORS:
        schemas.pop(name, None)
    _require_discriminators(schemas)
    _add_examples(schemas)
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}]
    for operations in document["paths"].values():
        for operation in operations.values():
            _drop_framework_errors(operation)
            _add_example_ids(operation)
    return document


def _require_discriminators(schemas: dict[str, Any]) -> None:
    """Require the member that distinguishes kinds: without it a body is refused.

    The models give it a default, for those who make them in Python.
    """
    for union in list(_unions(schemas)):
        member = union["discriminator"]["propertyName"]
        for name in union["discriminator"]["mapping"].values():
            schema = schemas[name.rsplit("/", 1)[-1]]
            schema["properties"][member].pop("default", None)
            schema["properties"][member]["description"] = "Identifies this kind."
            schema["required"] = sorted({member, *schema.get("required", ())})


def _add_examples(schemas: dict[str, Any]) -> None:
    """Show each statistic's own example, as a whole and field by field, and a question of one."""
    example = next(each.example for each in STATISTICS.values() if each.suggested)
    question = {"statistic": example, "epsilon": "0.5"}
    schemas["ReleaseRequest"]["examples"] = [question]
    schemas["PreviewRequest"]["examples"] = [question | {"accuracy": 25}]
    schemas["DryRunRequest"]["examples"] = [question | {"assume": {"r_squared": 0.5}}]
    schemas["DerivationRequest"]["examples"] = [{"statistic": example}]
    for statistic in STATISTICS.values():
        schema = schemas[statistic.__name__]
        schema["examples"] = [statistic.example]
        for name, value in statistic.example.items():
            schema["properties"][name]["examples"] = [value]


def _unions(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema that is one of several, with one member as discriminator."""
    if isinstance(part, dict) and isinstance(part.get("discriminator"), dict):
        yield part
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for each in inner:
        yield from _unions(each)


def _add_example_ids(operation: dict[str, Any]) -> None:
    """Show an id of its own kind for each that a path names."""
    for parameter in operation.get("parameters", ()):
        prefix = _PREFIXES.get(parameter["name"])
        if parameter["in"] == "path" and prefix is not None:
            parameter["schema"]["examples"] = [f"{prefix}_5f1c0a7e9b3d4826a1f04c77d20b6e39"]


def _drop_framework_errors(operation: dict[str, Any]) -> None:
    """Remove the framework's own 422, which this service never sends."""
    described = json.dumps(operation["responses"].get("422", {}))
    if any(f"/{name}" in described for name in _FRAMEWORK_ERRORS):
        del operation["responses"]["422"]


@cache
def snapshot() -> str:
    """Return the OpenAPI document as the snapshot's text; to describe it takes a second."""
    return json.dumps(bare_application().openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(snapshot(), "utf-8")
