"""The pages: one module for each noun, as the API has one for each.

A page's functions read what is shown from the services and hand it to its template. May enter:
a noun's addresses. A page may import all of ``app.desk`` but another page. Each has its router's
line here.
"""

from __future__ import annotations

from fastapi import FastAPI

from app.desk import public
from app.desk.pages import (
    asking,
    audit,
    budgets,
    datasets,
    home,
    keys,
    plans,
    releases,
    reuse,
    reviews,
    uploading,
)

ROUTERS = (
    home.router,
    home.elsewhere,
    uploading.router,  # before any data set's own page
    datasets.router,
    budgets.router,
    keys.router,
    audit.router,
    asking.router,
    plans.router,
    releases.router,
    reuse.router,
    reviews.router,
    public.router,
    home.nowhere,  # last: it answers for every other address
)


def add_desk(app: FastAPI) -> None:
    """Let an application answer for the desk's addresses."""
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
