"""Asking a person first: before a useless answer is paid for, before what cannot be undone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import click

from app.client import ReleaseDesk

CAUTION = click.option(
    "--careful/--yes",
    default=None,
    help="Preview first, and ask before an answer that would be mostly noise is paid for. On a "
    "terminal it is so by default.",
)
YES = click.option("--yes", is_flag=True, help="Do not ask for a confirmation; for scripts.")
_LARGE, _TIMES = 10, 2
"""A grant above the first, or above the second times the total, is typed a second time."""


def require_worth(
    desk: ReleaseDesk, dataset: str, question: dict[str, Any], choice: dict[str, Any],
    *, careful: bool | None,
) -> None:  # fmt: skip
    """Pass for a question whose answer is worth its price, or whose asker wants it all the same."""
    if not (at_terminal() if careful is None else careful):
        return
    found = desk.preview(dataset, question, **choice).usefulness
    if found is not None and found["verdict"] == "noise":
        click.echo(found["sentence"], err=True)
        click.confirm("Pay for it all the same?", abort=True, err=True)


def require_meant(
    happens: Callable[[], Iterable[str]], *, yes: bool, amount: str | None = None
) -> None:
    """Say what an act does that cannot be undone, and pass once a person confirms it.

    Parameters
    ----------
    happens
        Returns what it does, a sentence each.
    yes
        Whether it has been confirmed; then nothing is said or asked.
    amount
        What has to be typed a second time, if anything.

    Raises
    ------
    click.UsageError
        There is no terminal to ask on, or another amount was typed.
    click.Abort
        It is not meant.
    """
    if yes:
        return
    if not at_terminal():
        raise click.UsageError(
            "this cannot be undone, and there is no terminal to confirm it on. Nothing was done. "
            "Add --yes if it is meant."
        )
    for sentence in happens():
        click.echo(sentence, err=True)
    if amount is None:
        click.confirm("Go on?", abort=True, err=True)
        return
    again = click.prompt("To confirm, type the amount again", err=True)
    if _number(again) != _number(amount):
        raise click.UsageError(f"{again!r} is not {amount}. Nothing was done.")


def require_meant_grant(desk: ReleaseDesk, dataset: str, epsilon: str, *, yes: bool) -> None:
    """Pass for a grant that is confirmed; a large one by typing its amount again.

    Raises
    ------
    click.UsageError, click.Abort
        As :func:`require_meant`; or the amount is no number.
    """
    amount = _number(epsilon)
    if amount is None:
        raise click.UsageError(f"--epsilon is a decimal number such as 0.5, not {epsilon!r}")
    if yes or not at_terminal():
        require_meant(tuple, yes=yes)
        return
    facts, budget = desk.dataset(dataset), desk.budget(dataset)
    if budget.delta is not None:  # its total is fixed: the service refuses, and says why
        return
    total = Decimal(budget.epsilon.total)
    happens = (
        f"The total of {facts.name} rises from epsilon {total:f} to {total + amount:f}.",
        "The people in the data have a weaker privacy guarantee from then on.",
        f"The grant is for all data sets of the account {facts.account}. It cannot be taken back.",
    )
    large = amount > _LARGE or amount > _TIMES * total
    require_meant(lambda: happens, yes=yes, amount=epsilon if large else None)


def at_terminal() -> bool:
    """Return whether there is a person to ask."""
    return sys.stdin.isatty()


def _number(text: str) -> Decimal | None:
    """Return the finite number that a text is, None where it is none."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
