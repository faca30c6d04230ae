"""The commands that settle and check the ledger and the stored data of this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from app.cli.local import local, require_ledger, settings_of_environment
from app.cli.refusals import REFUSED
from app.cli.remote import as_json_option
from app.cli.stamps import check_authority, check_stamps
from app.settings import PREFIX

if TYPE_CHECKING:
    from app.store import Findings, Reader


@click.group()
def ledger() -> None:
    """Settle a ledger that is frozen."""


@ledger.command("reconcile")
@click.option("--yes", is_flag=True, help="Do not ask.")
def ledger_reconcile(yes: bool) -> None:
    """Go on with the database as it is, and charge it for what it has forgotten.

    For a database that was restored, or whose anchor is lost. Stop the service
    first. What the anchor knows was spent is burned, releases without a result
    are given up, and the ledger says so.
    """
    from app.places import open_anchor, signing_key  # noqa: PLC0415
    from app.store import inspecting, reconciling  # noqa: PLC0415

    settings = settings_of_environment()
    require_ledger(settings)
    url, data_dir = settings.resolved_database_url, settings.data_dir
    with (
        local(),
        reconciling(
            url, data_dir=data_dir, anchor=open_anchor(settings), key=signing_key(settings)
        ) as ledger,
    ):
        found = ledger.findings()
        with inspecting(url) as reader:
            _show_findings(found, reader)
        if not yes:
            click.confirm("Go on with this database?", abort=True)
        ledger.apply()
    click.echo("reconciled: the service can be started")


def _show_findings(found: Findings, reader: Reader) -> None:
    from app.services.datasets.accounts import meter_of_lost  # noqa: PLC0415

    click.echo(f"the database: {found.standing}")
    if found.anchored is None:
        click.echo("nothing is known of what was spent after this database was written")
    elif found.anchored != found.ledger:
        click.echo(f"it is {found.ledger}, and the anchor is that of {found.anchored}")
    for account, amount in found.lost.items():
        meter = meter_of_lost(reader, found, account)
        # without a trace of its data sets nothing says what it counts in
        charge = f"{amount} units" if meter is None else f"{meter.text(amount)} {meter.unit}"
        click.echo(f"account {account}: {charge} will be burned")
    for dataset in found.forgotten:
        whose = "an account unknown" if dataset.origin is None else dataset.origin.account
        click.echo(f"data set {dataset.dataset} of {whose} is forgotten, its row digests are not")
    click.echo(f"releases to be given up, their charges kept: {found.unfinished}")
    click.echo("keys, archived data sets, caps, grants changed since are as they were: check them")
    for fault in found.verification.faults:
        click.echo(f"INVALID, and will stay so: {fault}", err=True)


@click.group()
def audit() -> None:
    """Check the ledger, the stored data, and the privacy of a running desk."""


@audit.command("verify")
@click.option(
    "--signatures/--no-signatures",
    default=True,
    show_default=True,
    help="Check the signature of every result's receipt, a tenth of a millisecond each. Without, a"
    " million entries take about 5 seconds on two processors, and 20 with their releases.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Walk everything, also what an earlier run has found sound.",
)
@click.option(
    "--authority",
    metavar="PEM",
    type=click.Path(exists=True, dir_okay=False),
    callback=check_authority,
    help="Check every time stamp kept of a checkpoint as well, by the certificates of its authority"
    " in this file: by whom it is, of what, and that its time is not before the checkpoint's.",
)
@as_json_option
def audit_verify(signatures: bool, full: bool, authority: bytes | None, as_json: bool) -> None:
    """Walk every hash chain and sum of this machine's ledger; exits 1 on any fault.

    Finds any edit: of entries, balances, releases, results, their receipts, keys,
    data sets, the schema and the file. Compares with the anchor too, where it can
    be read, and so finds an older ledger or a result that was taken out again. A
    backup has no anchor and is checked alone, a ledger that was served must have one.
    Works with or without a running service.

    A run that finds a ledger of more than 5,000 entries sound notes in the data directory how far
    it came. The next one walks only what has come since, and says so. It finds what is wrong with
    that, and whether the entries that it goes on from are still those. An edit of what is older
    it may not find: --full does.
    """
    from app.places import anchor_witness, shares_device  # noqa: PLC0415
    from app.store import MOST_FAULTS, VERIFIED, earlier_mark, inspecting, keep_mark  # noqa: PLC0415

    settings = settings_of_environment()
    note = settings.data_dir / VERIFIED
    with local(), inspecting(settings.resolved_database_url) as reader:
        since = None if full else earlier_mark(note, signed=signatures)
        witness = anchor_witness(settings)
        found = reader.verify(signed=signatures, witness=witness, marked=True, since=since)
        stamps = None if authority is None else check_stamps(reader, authority, most=MOST_FAULTS)
    keep_mark(note, found)
    anchored = found.anchored and str(found.anchored)
    faults = [*found.faults, *(() if stamps is None else stamps.faults)]
    if as_json:
        facts: dict[str, object] = {"ok": not faults, "entries": found.entries, "head": found.head}
        facts |= {"anchor": anchored, "anchor_shares_device": shares_device(settings)}
        facts |= {"since": found.since, "stamps": None if stamps is None else stamps.counts}
        click.echo(json.dumps({**facts, "faults": faults}))
    else:
        click.echo(f"{'INVALID' if faults else 'ok'}: {found.entries} entries, head {found.head}")
        if found.since is not None:
            click.echo(f"the first {found.since} were verified earlier; --full reads them again")
        click.echo(f"the anchor: {anchored or 'not compared'}")
        if anchored and shares_device(settings):
            click.echo("the anchor is on the ledger's own disk: both may have been put back")
        if stamps is not None:
            click.echo(stamps.summary)
        for fault in faults:
            click.echo(f"  {fault}")
    if faults:
        sys.exit(REFUSED)


@audit.command("data")
@click.option(
    "--processes",
    default=2,
    show_default=True,
    type=click.IntRange(1, 64),
    help=f"Processes that read the rows, where {PREFIX}DASK_SCHEDULER names no cluster.",
)
def audit_data(processes: int) -> None:
    """Hash every stored file, row digests too, and sum all rows again; exits 1 on any fault.

    Reads all rows. Works with or without a running service.
    """
    from app.places import passes_of  # noqa: PLC0415
    from app.services.audit import (  # noqa: PLC0415
        check_lineage,
        check_manifests,
        check_stored_data,
    )

    broken = False
    with local():
        settings = settings_of_environment()
        directory = settings.data_dir
        if not directory.is_dir():
            raise click.ClickException("there is no data directory")
        passes = replace(passes_of(settings), processes=processes)
        for dataset, fault in check_stored_data(directory, passes):
            click.echo(f"{dataset} ok" if fault is None else f"{dataset} INVALID: {fault}")
            broken = broken or fault is not None
        for dataset in check_lineage(directory, settings.resolved_database_url):
            click.echo(f"{dataset} INVALID: row digests")
            broken = True
        for dataset in check_manifests(directory, settings.resolved_database_url):
            click.echo(f"{dataset} INVALID: not the manifest that the ledger has recorded")
            broken = True
    if broken:
        sys.exit(REFUSED)
