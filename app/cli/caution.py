"""Asking a person first, before a useless answer is paid for."""

from __future__ import annotations

import sys
from typing import Any

import click

from app.client import ReleaseDesk

CAUTION = click.option(
    "--careful/--at-once",
    default=None,
    help="Preview first, and ask before an answer that would be mostly noise is paid for. On a "
    "terminal it is so by default.",
)


def require_worth(
    desk: ReleaseDesk, dataset: str, question: dict[str, Any], choice: dict[str, Any],
    *, careful: bool | None,
) -> None:  # fmt: skip
    """Pass for a question whose answer is worth its price, or whose asker wants it all the same."""
    if not (sys.stdin.isatty() if careful is None else careful):
        return
    found = desk.preview(dataset, question, **choice).usefulness
    if found is not None and found["verdict"] == "noise":
        click.echo(found["sentence"], err=True)
        click.confirm("Pay for it all the same?", abort=True, err=True)
