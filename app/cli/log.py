"""The commands about the public log: its checkpoints, their stamps, proofs, and a check."""

from __future__ import annotations

from typing import BinaryIO, TextIO

import click

from app.cli.remote import connected
from app.client import ReleaseDesk

_SIZE = click.option("--size", type=int, help="The number of leaves of the checkpoint.")


@click.group()
def log() -> None:
    """Read the public log of a running service, and check it; no key is needed."""


@log.command("checkpoint")
@click.option("--size", type=int, help="Number of leaves; by default those of the newest.")
@connected
def log_checkpoint(desk: ReleaseDesk, *, size: int | None) -> None:
    """Print a signed checkpoint: keep it, to check the log against it later."""
    click.echo(desk.checkpoint(size), nl=False)


@log.command("stamp")
@click.argument("file", type=click.File("wb"))
@_SIZE
@connected
def log_stamp(desk: ReleaseDesk, *, file: BinaryIO, size: int | None) -> None:
    """Write the time stamp of a checkpoint to FILE, as its authority sent it (RFC 3161)."""
    file.write(desk.stamp(size))


@log.command("inclusion")
@click.argument("index", type=int)
@click.argument("size", type=int)
@connected
def log_inclusion(desk: ReleaseDesk, *, index: int, size: int) -> None:
    """Print the proof that leaf INDEX, counted from 0, is among the first SIZE, as JSON."""
    click.echo(desk.inclusion(index, size).model_dump_json())


@log.command("consistency")
@click.argument("before", type=int)
@click.argument("size", type=int)
@connected
def log_consistency(desk: ReleaseDesk, *, before: int, size: int) -> None:
    """Print the proof that the first SIZE leaves begin with the first BEFORE, as JSON."""
    click.echo(desk.consistency(before, size).model_dump_json())


@log.command("check")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option(
    "--public-key",
    type=click.File("rb"),
    required=True,
    help="What /v1/ledger/public-keys answered when the checkpoint was kept, or one key.",
)
@connected
def log_check(desk: ReleaseDesk, *, file: TextIO, public_key: BinaryIO) -> None:
    """Check that the log still begins with what the checkpoint in FILE has signed."""
    found = desk.check_log(file.read(), public_key.read())
    click.echo(f"{found.log} has only grown, to {found.size} leaves")
