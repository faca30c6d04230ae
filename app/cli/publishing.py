"""The commands that make releases public, withdraw them, and describe what is public."""

from __future__ import annotations

import json

import click

from app.cli.caution import YES, require_meant
from app.cli.remote import connected
from app.client import ReleaseDesk

_PUBLISHED = (
    "Anyone can read the release without a key, and find it in searches and feeds.",
    "You can withdraw it later, but copies that others have made stay.",
    "Its address keeps a notice then, and it cannot be published again.",
)
_UNPUBLISHED = (
    "The public page shows the note and no numbers from now on.",
    "The release cannot be published again, and copies that others have made stay.",
)


@click.command("publish")
@click.argument("release")
@click.option("--reason", required=True, help="Stored in the ledger, and shown to the public.")
@YES
@connected
def releases_publish(desk: ReleaseDesk, *, release: str, reason: str, yes: bool) -> None:
    """Make RELEASE, which has its result, readable without a key; print the page's path."""
    require_meant(lambda: _PUBLISHED, yes=yes)
    click.echo(desk.publish(release, reason=reason).address)


@click.command("unpublish")
@click.argument("release")
@click.option("--note", required=True, help="Stored in the ledger, and shown at the address.")
@YES
@connected
def releases_unpublish(desk: ReleaseDesk, *, release: str, note: str, yes: bool) -> None:
    """Withdraw RELEASE from the public, for good: its page says who did it, when and why."""
    require_meant(lambda: _UNPUBLISHED, yes=yes)
    click.echo(desk.unpublish(release, note=note).status)


@click.command("publication")
@click.argument("release")
@connected
def releases_publication(desk: ReleaseDesk, *, release: str) -> None:
    """Print who made RELEASE public, when and why, and who withdrew it, as JSON."""
    click.echo(desk.publication(release).model_dump_json())


@click.command("export")
@click.argument("dataset")
@click.argument("form", type=click.Choice(["registry", "datacite", "croissant"]))
@connected
def datasets_export(desk: ReleaseDesk, *, dataset: str, form: str) -> None:
    """Print what is public of DATASET as a catalogue reads it, as JSON."""
    click.echo(json.dumps(desk.export(dataset, form), ensure_ascii=False, indent=2))
