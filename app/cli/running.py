"""The commands that run a service, or part of one, on this machine."""

from __future__ import annotations

import gc
import logging
import math
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from app.cli.local import (
    check_directory,
    check_passes,
    check_room,
    listening,
    local,
    require_ledger,
    settings_of_environment,
    system_errors,
)
from app.cli.refusals import refusals
from app.constants import most_accepted, raise_descriptor_limit
from app.logs import START, configure_logs
from app.settings import PREFIX, Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

_START = logging.getLogger(START)
_APPLICATION = "app.cli:application"
_NOT_STARTED = 3  # uvicorn's own code for an application that does not start


def application() -> FastAPI:
    """Return the application over the environment's settings, for server processes."""
    from app.main import create_app, keep_in_memory  # noqa: PLC0415

    settings = Settings()
    _begin_log(settings)
    app = create_app(settings)
    keep_in_memory()
    return app


@click.command()
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
    gc.disable()  # until all is loaded, nearly all of which stays
    import uvicorn  # noqa: PLC0415

    raise_descriptor_limit()
    settings = settings_of_environment()
    _begin_log(settings)
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
    with listening(host, port) as found:
        # Here rather than in the server process, where a refusal would drown in a traceback.
        _migrate(settings)
        # uvicorn raises the signal again once it has shut down in order: that is success.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        where = f"{host}:{found.getsockname()[1]}"
        if sys.stdout.isatty():
            click.echo(f"Release Desk on http://{where}, docs at /docs; Ctrl-C stops it")
        _START.info("starting", extra={"url": f"http://{where}"})
        options = _options(settings)
        if workers == 1:
            server = uvicorn.Server(uvicorn.Config(_APPLICATION, **options))
            with suppress(KeyboardInterrupt):
                server.run(sockets=[found])
            sys.exit(0 if server.started else _NOT_STARTED)
    uvicorn.run(_APPLICATION, host=host, port=port, workers=workers, **options)


def _options(settings: Settings) -> dict[str, Any]:
    """Return how uvicorn is to run the application."""
    return {
        "factory": True,
        "http": "app.api.connections:PatientProtocol",
        "ws": "none",
        "access_log": False,
        "server_header": False,
        "backlog": most_accepted(),
        "forwarded_allow_ips": settings.trusted_proxies.split(","),
        "log_level": settings.log_level,
        "log_config": None,  # its lines are written as ours are
        "timeout_graceful_shutdown": math.ceil(settings.drain_timeout_s),
    }


@click.command()
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    help=f"Jobs to draw at once. Default: {PREFIX}JOB_PROCESSES.",
)
def worker(processes: int | None) -> None:
    """Draw jobs from a PostgreSQL database until Ctrl-C or SIGTERM, next to `serve`."""
    from app.worker import run_worker  # noqa: PLC0415

    raise_descriptor_limit()
    settings = settings_of_environment()
    _begin_log(settings)
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
    with local():
        check_passes(settings)
        check_room(settings)
        if sys.stdout.isatty():
            click.echo("drawing jobs; Ctrl-C stops it")
        _START.info("drawing jobs")
        run_worker(settings)


@click.command()
def migrate() -> None:
    """Bring the database to the newest schema. `serve` does so by itself.

    An SQLite ledger must exist. An empty PostgreSQL database is given its tables.
    """
    settings = settings_of_environment()
    _begin_log(settings)
    require_ledger(settings)
    if not settings.data_dir.exists():
        click.echo(f"making the data directory {settings.data_dir.absolute()}")
    _migrate(settings)
    click.echo("the database has the newest schema")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path) -> None:
    """Copy the SQLite ledger to FILE, which must not exist; works while a service is running.

    The rows of data sets are not in it: copy the data directory's `datasets` as well.
    """
    from app.store import back_up  # noqa: PLC0415

    with local():
        back_up(settings_of_environment().resolved_database_url, file)
    click.echo(f"backed up to {file}")


@click.command()
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

    if data_dir is not None:
        check_directory(data_dir, "the demo's directory", "--data-dir")
    if port is not None:
        listening("127.0.0.1", port).close()
    with refusals(), system_errors():
        steps.run(once=once, port=port, data_dir=data_dir)


def _begin_log(settings: Settings) -> None:
    """Have every line of this process written in the one form, from the first on."""
    from app.places import written_directories  # noqa: PLC0415

    configure_logs(level=settings.log_level, directories=written_directories(settings).values())


def _migrate(settings: Settings) -> None:
    from app.places import open_store, require_current  # noqa: PLC0415
    from app.vault.vault import Vault  # noqa: PLC0415

    with local():
        check_passes(settings)
        check_room(settings)
        open_store(settings).close()
        require_current(Vault(settings.data_dir))
