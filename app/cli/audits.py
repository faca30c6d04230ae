"""The command that audits the privacy of a running desk."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click

from app.cli.refusals import REFUSED, refusals
from app.settings import PREFIX

# How a file was read, in lines for people


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows and people, each column with anything to report, then the warnings."""
    yield f"rows: {report['rows']} read, {report['rows_dropped']} dropped"
    if (people := report.get("people")) is not None:
        yield (
            f"people: {people['people']}, half of them with {people['median_rows']} rows or fewer, "
            f"one with {people['most_rows']}; {people['rows_left_out']} rows left out, "
            f"{people['rows_without_id']} without an id"
        )
    for name, counts in report["columns"].items():
        parts = [
            f"{count} {member.replace('_', ' ')}"
            for member, count in counts.items()
            if count and member != "values"
        ]
        if parts:
            yield f"{name}: {', '.join(parts)}"
    for warning in report["warnings"]:
        yield f"warning: {warning['column']}: {warning['message']}"


# The command that audits the privacy of a running desk

_MOST_EPSILON = 100  # no count of draws could certify as much


def _decimal(_: click.Context, __: click.Parameter, value: str) -> str:
    """Return an epsilon as it was written, if it is one."""
    try:
        amount = Decimal(value)
    except InvalidOperation:
        raise click.BadParameter("this is not a decimal") from None
    if not (amount.is_finite() and 0 < amount <= _MOST_EPSILON):
        raise click.BadParameter(f"choose more than 0 and at most {_MOST_EPSILON}")
    return value


@click.command("privacy")
@click.argument("url", envvar=f"{PREFIX}URL")
@click.option("--key", envvar=f"{PREFIX}KEY", help=f"An admin's key; better in {PREFIX}KEY.")
@click.option(
    "--offers",
    "wishes",
    multiple=True,
    metavar="WISH",
    help="Which offers, such as mean, quantile/kng or l1/add_remove; may be given again. Without,"
    " all of the catalog.",
)
@click.option(
    "--draws",
    default=1000,
    show_default=True,
    type=click.IntRange(2, 1_000_000),
    help="Draws of each data set, at most.",
)
@click.option(
    "--seconds",
    default=540.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="For how long draws are asked for; those asked for are waited for.",
)
@click.option(
    "--confidence",
    default=0.999,
    show_default=True,
    type=click.FloatRange(0.5, 1, max_open=True),
    help="Of all bounds together.",
)
@click.option(
    "--epsilon",
    default="1",
    show_default=True,
    callback=_decimal,
    help="Promised of each draw.",
)
@click.option(
    "--alone", is_flag=True, help="Ask for each draw by itself, not for up to 20 in a stack."
)
@click.option(
    "--out",
    default="privacy-audit",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the report goes: this name with .html and with .json.",
)
def audit_privacy(
    *,
    url: str,
    key: str | None,
    wishes: tuple[str, ...],
    draws: int,
    seconds: float,
    confidence: float,
    epsilon: str,
    alone: bool,
    out: Path,
) -> None:
    """Have the desk at URL prove by its draws that it loses no more than it promises.

    Takes an admin's key. Uploads throw-away data sets of neighbours, draws each offer of the
    catalog many times from both, and certifies how much epsilon the draws lose at least. Prints a
    table, writes a report, and exits with 1 if an offer is above its promise. Its data sets are
    archived afterwards, and its keys revoked.
    """
    from app.audit import Terms, as_html, as_json, as_text, audit  # noqa: PLC0415

    terms = Terms(
        epsilon=epsilon,
        draws=draws,
        confidence=confidence,
        seconds=seconds,
        alone=alone,
        wishes=wishes,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with refusals(url), click.progressbar(length=1, label="drawing", file=sys.stderr) as bar:

        def show(made: int, most: int) -> None:
            bar.length = most
            bar.update(made - bar.pos)

        findings = asyncio.run(audit(url, key, terms, show))
    if not findings.offers:
        raise click.UsageError("the catalog has no such offer")
    for line in as_text(findings):
        click.echo(line)
    for ending, text in ((".html", as_html(findings)), (".json", as_json(findings))):
        place = out.with_name(out.name + ending)
        place.write_text(text, "utf-8")
        click.echo(f"the report: {place}", err=True)
    if findings.flagged:
        sys.exit(REFUSED)
