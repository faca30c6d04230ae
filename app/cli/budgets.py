"""The commands about who may use a data set: its budget, caps, access, groups, and pauses."""

from __future__ import annotations

import click

from app.cli.caution import YES, require_meant, require_meant_grant
from app.cli.remote import as_json_option, connected, datasets, print_rows
from app.client import Access, ReleaseDesk

_REASON = click.option("--reason", required=True, help="Stored in the ledger.")


@datasets.command("budget")
@click.argument("dataset")
@connected
def datasets_budget(desk: ReleaseDesk, *, dataset: str) -> None:
    """Print what is left of the budget of DATASET (an id or a name)."""
    budget = desk.budget(dataset)
    left = budget.epsilon
    target = "" if budget.delta is None else f"  at delta {budget.delta}, kept in zCDP"
    click.echo(
        f"total {left.total}  spent {left.spent}  reserved {left.reserved}"
        f"  remaining {left.remaining}{target}"
    )
    if budget.yours and budget.yours.get("cap") is not None:
        click.echo(f"yours: cap {budget.yours['cap']}  remaining {budget.yours['remaining']}")


@datasets.command("grant")
@click.argument("dataset")
@click.option("--epsilon", required=True, help='What is added, as a decimal, e.g. "0.5".')
@_REASON
@click.option("--expires", help="When the grant ends, ISO 8601; without it never.")
@YES
@connected
def datasets_grant(
    desk: ReleaseDesk, *, dataset: str, epsilon: str, reason: str, expires: str | None, yes: bool
) -> None:
    """Raise the total budget of DATASET, which cannot be taken back.

    It asks for a confirmation. A grant above 10, or above twice the total, is typed again.
    """
    require_meant_grant(desk, dataset, epsilon, yes=yes)
    desk.grant(dataset, epsilon=epsilon, reason=reason, expires=expires)
    click.echo(f"total {desk.budget(dataset).epsilon.total}")


@datasets.command("cap")
@click.argument("dataset")
@click.argument("person")
@click.option("--epsilon", help="What PERSON may use at most; without it the limit is removed.")
@_REASON
@connected
def datasets_cap(
    desk: ReleaseDesk, *, dataset: str, person: str, epsilon: str | None, reason: str
) -> None:
    """Cap what PERSON (whose key it is) may use of the budget of DATASET."""
    cap = desk.cap(dataset, person=person, epsilon=epsilon, reason=reason)
    click.echo(f"cap {cap.epsilon or 'none'}  used {cap.used}")


@datasets.command("caps")
@click.argument("dataset")
@as_json_option
@connected
def datasets_caps(desk: ReleaseDesk, *, dataset: str, as_json: bool) -> None:
    """List the caps on the budget of DATASET."""
    print_rows(desk.caps(dataset), ("person", "epsilon", "used"), as_json=as_json)


# The commands about who may see a data set

_PERSON = click.option("--person", "persons", multiple=True, help="A person, by their key's.")


@datasets.command("access")
@click.argument("dataset")
@connected
def datasets_access(desk: ReleaseDesk, *, dataset: str) -> None:
    """Print who may see DATASET, next to admins and auditors."""
    _print_access(desk.access(dataset))


@datasets.command("restrict")
@click.argument("dataset")
@_PERSON
@click.option("--group", "groups", multiple=True, help="A group; a provider's as ID:NAME.")
@_REASON
@connected
def datasets_restrict(
    desk: ReleaseDesk,
    *,
    dataset: str,
    persons: tuple[str, ...],
    groups: tuple[str, ...],
    reason: str,
) -> None:
    """Hide DATASET, and all that shares its budget, from everyone who is not named."""
    _print_access(desk.restrict(dataset, persons=persons, groups=groups, reason=reason))


@datasets.command("unrestrict")
@click.argument("dataset")
@_REASON
@connected
def datasets_unrestrict(desk: ReleaseDesk, *, dataset: str, reason: str) -> None:
    """Open DATASET to everyone whose role allows it."""
    desk.unrestrict(dataset, reason=reason)
    _print_access(None)


def _print_access(access: Access | None) -> None:
    if access is None:
        click.echo("everyone")
        return
    for what, names in (("person", access.persons), ("group", access.groups)):
        for name in names:
            click.echo(f"{what}  {name}")


@click.group()
def groups() -> None:
    """Make and list groups of persons, whom access lists may name."""


@groups.command("set")
@click.argument("name")
@_PERSON
@_REASON
@connected
def groups_set(desk: ReleaseDesk, *, name: str, persons: tuple[str, ...], reason: str) -> None:
    """Let exactly these persons be in the group NAME (admins)."""
    group = desk.set_group(name, persons=persons, reason=reason)
    click.echo(f"{group.name}  {len(group.persons)} persons")


@groups.command("list")
@as_json_option
@connected
def groups_list(desk: ReleaseDesk, *, as_json: bool) -> None:
    """List the groups, and who is in them (curators)."""
    print_rows(desk.groups(), ("name", "persons"), as_json=as_json)


# The commands that pause and resume people and data sets of a running service

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
