"""Every route of version 1, and the application they make without its services."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI

from app.api.endpoints import (
    budgets,
    catalog,
    datasets,
    derivations,
    health,
    keys,
    ledger,
    metrics,
    previews,
    releases,
    reviews,
)
from app.api.middleware import RequestContext
from app.api.openapi import install_openapi
from app.api.pages import documents, problems, reference
from app.api.problems import install_problem_handlers

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]

_ROUTERS = (
    releases.direct,  # first, because it is asked most
    releases.router,
    datasets.router,
    budgets.router,
    previews.router,
    derivations.router,
    reviews.router,
    ledger.router,
    keys.router,
    catalog.router,
    health.router,
    metrics.router,
    reference.router,  # before the documents, which answer for all of /docs
    documents.router,
    problems.router,
)


def bare_application(lifespan: Lifespan | None = None) -> FastAPI:
    """Return the application; without a lifespan it can describe itself and no more."""
    app = FastAPI(
        title="Release Desk",
        version=_version(),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # what is told of requests is in our log and our metrics, whatever the environment asks for
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    for router in _ROUTERS:
        # what include_router makes of routes is matched twice, and slowly
        app.router.routes.extend(router.routes)
    app.state.metrics = metrics.Metrics(app.version)
    app.add_middleware(RequestContext, metrics=app.state.metrics)
    install_problem_handlers(app, app.routes)
    install_openapi(app)
    return app


def _version() -> str:
    try:
        return version("release-desk")
    except PackageNotFoundError:
        return "0"
