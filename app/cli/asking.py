"""The command that computes with released numbers."""

from __future__ import annotations

import sys
from typing import Any

import click

from app.cli.remote import AS_SUMMARY, AS_TABLE, connected, parsed, print_numbers
from app.client import ReleaseDesk


@click.command("derive")
@click.argument("release")
@click.argument("statistic")
@click.option(
    "--with",
    "together_with",
    multiple=True,
    metavar="RELEASE",
    help="Combine it with this release of the same data set; may be given again.",
)
@AS_TABLE
@AS_SUMMARY
@connected
def releases_derive(
    desk: ReleaseDesk,
    *,
    release: str,
    statistic: str,
    together_with: tuple[str, ...],
    as_table: bool | None,
    as_summary: bool,
) -> None:
    """Compute STATISTIC (JSON) from RELEASE (an id); free, reads no data."""
    question = parsed(statistic, "STATISTIC")
    derived = desk.derive(release, question, together_with=together_with)
    text = derived.summary() if as_summary else derived.model_dump_json()
    print_numbers(derived, text, as_table=False if as_summary else as_table)


# The commands that ask for synthetic numbers: free, and without real people


@click.command("dry-run")
@click.argument("dataset")
@click.argument("statistic")
@click.option("--epsilon", required=True, help="The price that the release would have.")
@click.option("--mechanism", default="auto", show_default=True)
@click.option("--norm", default="auto", show_default=True)
@click.option("--assume", help="What to make the rows of, as JSON; see `releases preview`.")
@connected
def releases_dry_run(
    desk: ReleaseDesk, *, dataset: str, statistic: str, assume: str | None, **choice: str
) -> None:
    """Release STATISTIC (JSON) of synthetic rows in DATASET's form: free, reads no data."""
    options: dict[str, Any] = {} if assume is None else {"assume": parsed(assume, "--assume")}
    run = desk.dry_run(dataset, parsed(statistic, "STATISTIC"), **choice, **options)
    click.echo(run.model_dump_json())


@click.command("synthetic")
@click.argument("dataset")
@connected
def datasets_synthetic(desk: ReleaseDesk, *, dataset: str) -> None:
    """Print synthetic rows in DATASET's form, as a CSV file: free, reads no data."""
    sys.stdout.buffer.write(desk.synthetic_rows(dataset))


# The commands that write programs: a release or a question, ready to run

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
