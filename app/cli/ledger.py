"""The commands that settle and check a ledger, and audit the privacy of a running desk."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from app.cli.local import local, require_ledger, settings_of_environment
from app.cli.refusals import REFUSED, refusals, require_scheme
from app.cli.remote import as_json_option, connected
from app.client import ReleaseDesk
from app.settings import PREFIX

if TYPE_CHECKING:
    from app.store import Findings, KeptStamp, Reader

# Every time stamp that this machine's ledger keeps, against its authority's certificates

_CLOCKS_APART = timedelta(minutes=1)
"""By how much a sound authority's clock may be behind the service's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StampsFound:
    """What was found: stamps looked at, faults, and checkpoints whose stamps are still to come."""

    checked: int
    faults: tuple[str, ...]
    waiting: int

    @property
    def summary(self) -> str:
        """Return it as a line for a reader; the faults are printed elsewhere."""
        if not self.checked:
            return "time stamps: none is kept"
        summary = f"time stamps: {self.checked} checked"
        return f"{summary}, {self.waiting} still to come" if self.waiting else summary

    @property
    def counts(self) -> dict[str, int]:
        """Return how many were checked, and how many are still to come."""
        return {"checked": self.checked, "waiting": self.waiting}


def check_authority(_: click.Context, __: click.Parameter, path: str | None) -> bytes | None:
    """Return the certificates in a file, if they can be read."""
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    if path is None:
        return None
    with click.open_file(path, "rb") as file:
        pem: bytes = file.read()
    try:
        load_pem_x509_certificates(pem)
    except ValueError:
        raise click.BadParameter("it holds no certificates that can be read (PEM)") from None
    return pem


def check_stamps(reader: Reader, authority: bytes, *, most: int) -> StampsFound:
    """Check every stamp kept: by whom, of what, and when.

    Parameters
    ----------
    reader
        The ledger; that its checkpoints are sound is not looked at here.
    authority
        Certificates (PEM): those that sign stamps or issue what signs them.
    most
        The number of faults after which no more are printed.
    """
    checked, waiting = 0, 0
    faults: list[str] = []
    try:
        for kept in reader.stamps.kept():
            checked += 1
            fault = _fault_of(kept, authority)
            if fault is not None:
                faults.append(f"the time stamp of the log's first {kept.size} leaves: {fault}")
        for size in reader.stamps.left_out(most):
            faults.append(f"the time stamp of the log's first {size} leaves: it was taken out")
        waiting = reader.stamps.waiting()
    except Exception:
        # whatever a damaged file makes fail is the finding
        faults.append("the time stamps cannot be read through")
    return StampsFound(checked=checked, faults=tuple(faults[:most]), waiting=waiting)


def _fault_of(kept: KeptStamp, authority: bytes) -> str | None:
    from app.client import ReceiptError, check_stamp  # noqa: PLC0415

    if kept.note is None or kept.signed_at is None:
        return "there is no such checkpoint"
    try:
        stamped_at = check_stamp(kept.stamp, kept.note.encode(), authority)
    except ReceiptError:
        return "it is not of this checkpoint, or not by this authority"
    signed_at = datetime.fromisoformat(kept.signed_at)
    if datetime.fromisoformat(stamped_at) + _CLOCKS_APART < signed_at:
        return "its time is before the checkpoint's own"
    return None


# The commands about the public log: its checkpoints, their stamps, proofs, and a check

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


# The commands that settle and check the ledger and the stored data of this machine


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
    from app.services.datasets.accounting import meter_of_lost  # noqa: PLC0415

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


@audit.command("privacy")
@click.argument("url", envvar=f"{PREFIX}URL")
@click.option("--key", envvar=f"{PREFIX}KEY", help=f"An admin's key; better in {PREFIX}KEY.")
@click.option(
    "--offers",
    "patterns",
    multiple=True,
    metavar="PATTERN",
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
    patterns: tuple[str, ...],
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
        patterns=patterns,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    require_scheme(url)
    bar_of = click.progressbar(length=1, label="drawing", file=sys.stderr)
    with refusals(url, key=key), bar_of as bar:

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
