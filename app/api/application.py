"""The application that the routes make, without its services.

*Every route of the service: an endpoint is its module, and its router's line here.* The role, body
and refusals of an endpoint are read from its route (see ``app.api.endpoint``) by whatever needs
them: the OpenAPI document, the log, the tests of roles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI

from app.api.answers.problems import install_problem_handlers
from app.api.counts import Counts
from app.api.endpoint import DirectRoutes
from app.api.endpoints import (
    budgets,
    catalog,
    datasets,
    derivations,
    exports,
    health,
    inbox,
    keys,
    ledger,
    log,
    pauses,
    previews,
    publications,
    readings,
    releases,
    reviews,
    scripts,
    versions,
)
from app.api.middleware import RequestContext
from app.api.openapi.description import install_openapi
from app.api.pages import documents, public, reference

# Every route of the service: an endpoint is its module, and its router's line here

ROUTERS = (
    releases.direct,  # asked most: answered before a route is looked for
    releases.router,
    datasets.router,
    versions.router,
    readings.router,
    budgets.router,
    previews.router,
    derivations.router,
    scripts.router,
    reviews.router,
    inbox.router,
    publications.router,
    exports.router,
    ledger.router,
    log.router,
    keys.router,
    pauses.router,
    catalog.router,
    health.router,
    reference.router,  # before the documents, which answer for all of /docs
    documents.router,
    public.router,
)


# The application that the routes make, without its services

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]


def bare_application(lifespan: Lifespan | None = None, *, origins: Sequence[str] = ()) -> FastAPI:
    """Return the application; without a lifespan it can describe itself and no more.

    Pages of ``origins`` may read its answers in a browser.
    """
    app = FastAPI(
        title="Release Desk",
        version=_version(),
        lifespan=lifespan,
        openapi_url=None,  # it would be encoded for everybody who asks
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
    app.add_middleware(RequestContext, counts=app.state.counts, origins=origins)
    install_problem_handlers(app, app.routes)
    install_openapi(app)
    return app


def _version() -> str:
    try:
        return version("release-desk")
    except PackageNotFoundError:
        return "0"
