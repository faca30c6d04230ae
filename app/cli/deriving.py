"""The command that computes with released numbers."""

from __future__ import annotations

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
