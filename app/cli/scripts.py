"""The commands that write programs: a release or a question, ready to run."""

from __future__ import annotations

from typing import Any

import click

from app.cli.remote import connected, parsed
from app.client import ReleaseDesk

_LANGUAGE = click.option(
    "--language",
    type=click.Choice(["python", "r", "notebook"]),
    default="python",
    show_default=True,
    help="A script in Python or in R, or a Jupyter notebook.",
)


@click.command("script")
@click.argument("release")
@_LANGUAGE
@connected
def releases_script(desk: ReleaseDesk, *, release: str, language: str) -> None:
    """Print RELEASE (an id) as a program that reads it; it holds no key."""
    click.echo(desk.script(release, language=language), nl=False)


@click.command("script")
@click.argument("dataset")
@click.argument("statistic")
@click.option("--epsilon", required=True, help="The price that the release would have.")
@click.option("--mechanism", default="auto", show_default=True)
@click.option("--norm", default="auto", show_default=True)
@click.option("--assume", help="What to assume of the rows, as JSON; see `releases preview`.")
@_LANGUAGE
@connected
def datasets_script(
    desk: ReleaseDesk, *, dataset: str, statistic: str, assume: str | None, **choice: Any
) -> None:
    """Print a program that previews STATISTIC (JSON) of DATASET, rehearses and can release it."""
    options: dict[str, Any] = {} if assume is None else {"assume": parsed(assume, "--assume")}
    asked = parsed(statistic, "STATISTIC")
    text = desk.dataset(dataset).script(asked, **choice, **options)
    click.echo(text, nl=False)
