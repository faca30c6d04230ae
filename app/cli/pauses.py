"""The commands that pause and resume people and data sets of a running service."""

from __future__ import annotations

import click

from app.cli.caution import YES, require_meant
from app.cli.remote import as_json_option, connected, print_rows
from app.client import ReleaseDesk

_REASON = click.option("--reason", required=True, help="Stored in the ledger.")

_CANCELLED = (
    "All requests that wait for a review there are rejected, with this reason. None is charged.",
    "A rejected request cannot be approved later, even when the pause is lifted.",
)


@click.group()
def pauses() -> None:
    """Pause and resume people and data sets of a running service (admins)."""


_WHAT = click.argument("what", type=click.Choice(["person", "dataset"]))


@pauses.command("set")
@_WHAT
@click.argument("name")
@_REASON
@click.option(
    "--cancel-waiting", is_flag=True, help="Reject what waits for a review; it is not charged."
)
@YES
@connected
def pauses_set(
    desk: ReleaseDesk, *, what: str, name: str, reason: str, cancel_waiting: bool, yes: bool
) -> None:
    """Pause the person NAME, or the data set with the id NAME: nothing is charged or drawn.

    It asks for a confirmation with --cancel-waiting, which cannot be undone.
    """
    require_meant(lambda: _CANCELLED, yes=yes or not cancel_waiting)
    cancelled = desk.pause(what, name, reason=reason, cancel_waiting=cancel_waiting)
    click.echo(f"paused {name}  cancelled {cancelled}")


@pauses.command("lift")
@_WHAT
@click.argument("name")
@_REASON
@connected
def pauses_lift(desk: ReleaseDesk, *, what: str, name: str, reason: str) -> None:
    """Resume the person NAME, or the data set with the id NAME: waiting jobs are drawn."""
    desk.resume(what, name, reason=reason)
    click.echo(f"resumed {name}")


@pauses.command("list")
@as_json_option
@connected
def pauses_list(desk: ReleaseDesk, *, as_json: bool) -> None:
    """List what is paused."""
    columns = ("what", "name", "paused_by", "paused_at", "reason")
    print_rows(desk.pauses(), columns, as_json=as_json)
