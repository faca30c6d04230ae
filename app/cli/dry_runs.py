"""The commands that ask for synthetic numbers: free, and without real people."""

from __future__ import annotations

import sys
from typing import Any

import click

from app.cli.remote import connected, parsed
from app.client import ReleaseDesk


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
