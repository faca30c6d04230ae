"""``release-desk``: run the service, and talk to one from a shell.

``serve``, ``worker``, ``migrate``, ``backup``, ``demo``, ``ledger`` and ``audit`` work on this
machine's data directory and read the ``RELEASE_DESK_*`` settings. ``keys``, ``datasets`` and
``releases`` are a client of a running service (``--url``, ``--key``).

Exit codes: 0 done, 1 refused or a check failed, 2 wrong usage, 3 no service there.
"""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from app.client_commands import REFUSED, as_json_option, datasets, keys, refusals, releases
from app.settings import PREFIX, Settings, SettingsError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.store import Findings, Reader


def application() -> FastAPI:
    """Return the application over the environment's settings, for server processes."""
    # Imported late: a client command should not wait for the whole service to load.
    from app.main import create_app, keep_in_memory  # noqa: PLC0415

    app = create_app(_settings())
    keep_in_memory()
    return app


@click.group(epilog=__doc__.rsplit("\n\n", maxsplit=1)[-1].strip() if __doc__ else None)
@click.version_option(package_name="release-desk", prog_name="release-desk")
def main() -> None:
    """Run a Release Desk service, or talk to one."""


for group in (keys, datasets, releases):
    main.add_command(group)


# On this machine


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Server processes. More than one needs PostgreSQL.",
)
def serve(host: str, port: int, workers: int) -> None:
    """Migrate the database, then serve the API until Ctrl-C or SIGTERM."""
    import uvicorn  # noqa: PLC0415

    settings = _settings()
    if workers > 1 and settings.resolved_database_url.startswith("sqlite"):
        raise click.UsageError(
            "--workers above 1 needs PostgreSQL: an SQLite ledger has exactly one writing process. "
            f"Set {PREFIX}DATABASE_URL, or leave --workers at 1."
        )
    if settings.job_processes == 0 and settings.resolved_database_url.startswith("sqlite"):
        raise click.UsageError(
            f"{PREFIX}JOB_PROCESSES = 0 leaves jobs to `release-desk worker`, which needs "
            "PostgreSQL."
        )
    # Here rather than in the server process, where a refusal would drown in a traceback.
    _migrate(settings)
    # uvicorn raises the signal again once it has shut down in order: that is success.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    click.echo(f"Release Desk on http://{host}:{port}, docs at /docs; Ctrl-C stops it")
    uvicorn.run(
        "app.cli:application",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        http="app.api.connections:PatientProtocol",
        ws="none",
        access_log=False,
        server_header=False,
        log_level=settings.log_level,
        timeout_graceful_shutdown=math.ceil(settings.drain_timeout_s),
    )


@main.command()
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    help=f"Jobs to draw at once. Default: {PREFIX}JOB_PROCESSES.",
)
def worker(processes: int | None) -> None:
    """Draw jobs from a PostgreSQL database until Ctrl-C or SIGTERM, beside `serve`."""
    from app.worker import run_worker  # noqa: PLC0415

    settings = _settings()
    if settings.resolved_database_url.startswith("sqlite"):
        raise click.UsageError(
            "a worker of its own needs PostgreSQL: an SQLite ledger has exactly one writing "
            f"process, and `serve` draws its jobs itself. Set {PREFIX}DATABASE_URL, or see "
            f"{PREFIX}JOB_PROCESSES."
        )
    if processes is not None:
        settings = settings.model_copy(update={"job_processes": processes})
    elif settings.job_processes == 0:
        raise click.UsageError(f"{PREFIX}JOB_PROCESSES is 0: name a number with --processes")
    click.echo("drawing jobs; Ctrl-C stops it")
    with _local():
        run_worker(settings)


@main.command()
def migrate() -> None:
    """Bring the database to the newest schema. `serve` does so by itself."""
    _migrate(_settings())
    click.echo("the schema is the newest")


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path) -> None:
    """Copy the SQLite ledger to FILE, which must not exist; works beside a running service.

    The rows of data sets are not in it: copy the data directory's `datasets` as well.
    """
    from app.store import back_up  # noqa: PLC0415

    with _local():
        back_up(_settings().resolved_database_url, file)
    click.echo(f"backed up to {file}")


@main.command()
@click.option("--once", is_flag=True, help="Stop the service at the end instead of at Ctrl-C.")
@click.option("--port", type=click.IntRange(1, 65535), help="Default: 8000, or a free one.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Empty directory to use and keep. Default: a temporary one, removed.",
)
def demo(once: bool, port: int | None, data_dir: Path | None) -> None:
    """Start a service, upload real data and release numbers from it, step by step."""
    from app import demo as steps  # noqa: PLC0415

    with refusals():
        steps.run(once=once, port=port, data_dir=data_dir)


@main.group()
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
    from app.places import open_anchor  # noqa: PLC0415
    from app.store import inspecting, reconciling  # noqa: PLC0415

    settings = _settings()
    url, data_dir = settings.resolved_database_url, settings.data_dir
    with _local(), reconciling(url, data_dir=data_dir, anchor=open_anchor(settings)) as ledger:
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
        click.echo(f"BROKEN, and will stay so: {fault}", err=True)


@main.group()
def audit() -> None:
    """Check the ledger and the stored data."""


@audit.command("verify")
@click.option(
    "--signatures/--no-signatures",
    default=True,
    show_default=True,
    help="Check the signature of every result's receipt, a tenth of a millisecond each. Without, a"
    " million entries take about 5 seconds on two processors, and 20 with their releases.",
)
@as_json_option
def audit_verify(signatures: bool, as_json: bool) -> None:
    """Walk every hash chain and sum of this machine's ledger; exits 1 on any fault.

    Finds any edit: of entries, balances, releases, results, their receipts, keys,
    data sets, the schema and the file. Compares with the anchor too, where it can
    be read, and so finds an older ledger or a result that was taken out again. A
    backup has no anchor and is checked alone, a ledger that was served must have one.
    Works beside a running service, and without one.
    """
    from app.places import anchor_witness  # noqa: PLC0415
    from app.store import inspecting  # noqa: PLC0415

    settings = _settings()
    with _local(), inspecting(settings.resolved_database_url) as reader:
        found = reader.verify(signed=signatures, witness=anchor_witness(settings))
    anchored = found.anchored and str(found.anchored)
    if as_json:
        facts = {"ok": found.ok, "entries": found.entries, "head": found.head, "anchor": anchored}
        click.echo(json.dumps({**facts, "faults": list(found.faults)}))
    else:
        click.echo(f"{'ok' if found.ok else 'BROKEN'}: {found.entries} entries, head {found.head}")
        click.echo(f"the anchor: {anchored or 'not compared'}")
        for fault in found.faults:
            click.echo(f"  {fault}")
    if not found.ok:
        sys.exit(REFUSED)


@audit.command("data")
@click.option(
    "--processes",
    default=2,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Processes that read the rows.",
)
def audit_data(processes: int) -> None:
    """Hash every stored file, row digests too, and sum all rows anew; exits 1 on any fault.

    Reads all rows. Works beside a running service, and without one.
    """
    from app.services.audit import check_lineage, check_stored_data  # noqa: PLC0415

    broken = False
    with _local():
        settings = _settings()
        directory = settings.data_dir
        if not directory.is_dir():
            raise click.ClickException("there is no data directory")
        for dataset, fault in check_stored_data(directory, processes=processes):
            click.echo(f"{dataset} ok" if fault is None else f"{dataset} BROKEN: {fault}")
            broken = broken or fault is not None
        for dataset in check_lineage(directory, settings.resolved_database_url):
            click.echo(f"{dataset} BROKEN: row digests")
            broken = True
    if broken:
        sys.exit(REFUSED)


# Plumbing


def _settings() -> Settings:
    try:
        return Settings()
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    except ValidationError as error:
        # The values stay out of the message: one of them may be a key.
        faults = (f"{PREFIX}{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
        raise click.ClickException("wrong settings: " + "; ".join(faults)) from None


def _migrate(settings: Settings) -> None:
    from app.places import open_store  # noqa: PLC0415

    with _local():
        open_store(settings).close()


@contextmanager
def _local() -> Iterator[None]:
    """Turn the store's refusal to open into one line."""
    from app.store import StoreError  # noqa: PLC0415

    try:
        yield
    except StoreError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
