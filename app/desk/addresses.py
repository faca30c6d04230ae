"""Every page of the desk: a page is its module, and its router's line here."""

from __future__ import annotations

from fastapi import FastAPI

from app.desk import public
from app.desk.pages import (
    archiving,
    asking,
    audit,
    budgets,
    confirming,
    datasets,
    editing,
    extending,
    files,
    home,
    keys,
    nowhere,
    releases,
    reviews,
    sign_in,
    uploading,
)

ROUTERS = (
    sign_in.router,
    home.router,
    uploading.router,  # before any data set's own page
    confirming.router,
    datasets.router,
    budgets.router,
    editing.router,
    extending.router,
    archiving.router,
    keys.router,
    audit.router,
    asking.router,
    releases.router,
    reviews.router,
    files.router,
    public.router,
    nowhere.router,  # last: it answers for every other address
)


def add_desk(app: FastAPI) -> None:
    """Let an application answer for the desk's addresses."""
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
