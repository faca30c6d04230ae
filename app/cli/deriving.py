"""The command that computes with released numbers."""

from __future__ import annotations

import click

from app.cli.remote import AS_TABLE, connected, parsed, print_numbers
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
@click.option("--summary", is_flag=True, help="Print a table with standard errors, as R does.")
@AS_TABLE
@connected
def releases_derive(
    desk: ReleaseDesk,
    *,
    release: str,
    statistic: str,
    together_with: tuple[str, ...],
    summary: bool,
    as_table: bool,
) -> None:
    """Compute STATISTIC (JSON) from RELEASE (an id); free, reads no data."""
    question = parsed(statistic, "STATISTIC")
    derived = desk.derive(release, question, together_with=together_with)
    text = derived.summary() if summary else derived.model_dump_json()
    print_numbers(derived, text, as_table=as_table)
