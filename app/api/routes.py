"""Every route of version 1, and the application they make without its services."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI

from app.api import (
    budgets,
    catalog,
    datasets,
    derivations,
    docs,
    health,
    keys,
    ledger,
    metrics,
    previews,
    releases,
)
from app.api.middleware import RequestContext
from app.api.openapi import install_openapi
from app.api.problems import install_problem_handlers

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]

_ROUTERS = (
    releases.router,  # first, because it is asked most
    datasets.router,
    budgets.router,
    previews.router,
    derivations.router,
    ledger.router,
    keys.router,
    catalog.router,
    health.router,
    metrics.router,
    docs.router,
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
    )
    for router in _ROUTERS:
        app.include_router(router)
    app.state.metrics = metrics.Metrics(app.version)
    app.add_middleware(RequestContext, metrics=app.state.metrics)
    own = [route for router in _ROUTERS for route in router.routes]
    install_problem_handlers(app, [*app.routes, *own])
    install_openapi(app)
    return app


def _version() -> str:
    try:
        return version("release-desk")
    except PackageNotFoundError:
        return "0"
