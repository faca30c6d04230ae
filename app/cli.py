"""``release-desk``: run the service, and talk to one from a shell.

``serve``, ``migrate``, ``backup``, ``demo`` and ``audit`` work on this machine's data
directory and read the ``RELEASE_DESK_*`` settings. ``keys``, ``datasets``
and ``releases`` are a client of a running service (``--url``, ``--key``).

Exit codes: 0 done, 1 refused or a check failed, 2 wrong usage, 3 no service there.
"""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from app.client import ProblemError, ReleaseDesk, UnreachableError
from app.client.models import Answer
from app.settings import PREFIX, Settings, SettingsError

if TYPE_CHECKING:
    from fastapi import FastAPI

DEFAULT_URL = "http://127.0.0.1:8000"
REFUSED, UNREACHABLE = 1, 3
Command = Callable[..., None]


def application() -> FastAPI:
    """Return the application over the environment's settings, for server processes."""
    # Imported late: a client command should not wait for the whole service to load.
    from app.main import create_app  # noqa: PLC0415

    return create_app(_settings())


_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
_EPSILON = click.option("--epsilon", required=True, help='The price as a decimal, e.g. "0.5".')
_MECHANISM = click.option("--mechanism", default="auto", show_default=True)
_NORM = click.option("--norm", default="auto", show_default=True)


@click.group(epilog=__doc__.rsplit("\n\n", maxsplit=1)[-1].strip() if __doc__ else None)
@click.version_option(package_name="release-desk", prog_name="release-desk")
def main() -> None:
    """Run a Release Desk service, or talk to one."""


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

    with _refusals():
        steps.run(once=once, port=port, data_dir=data_dir)


@main.group()
def audit() -> None:
    """Check the ledger and the stored data."""


@audit.command("verify")
@_JSON
def audit_verify(as_json: bool) -> None:
    """Walk every hash chain and sum of this machine's ledger; exits 1 on any fault.

    Works beside a running service, and without one.
    """
    from app.store import inspecting  # noqa: PLC0415

    with _local(), inspecting(_settings().resolved_database_url) as reader:
        found = reader.verify()
    if as_json:
        facts = {"ok": found.ok, "entries": found.entries, "head": found.head}
        click.echo(json.dumps({**facts, "faults": list(found.faults)}))
    else:
        click.echo(f"{'ok' if found.ok else 'BROKEN'}: {found.entries} entries, head {found.head}")
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
    """Hash every stored file and sum every data set's rows anew; exits 1 on any fault.

    Reads all rows. Works beside a running service, and without one.
    """
    from app.services.audit import check_stored_data  # noqa: PLC0415

    broken = False
    with _local():
        directory = _settings().data_dir
        if not directory.is_dir():
            raise click.ClickException("there is no data directory")
        for dataset, fault in check_stored_data(directory, processes=processes):
            click.echo(f"{dataset} ok" if fault is None else f"{dataset} BROKEN: {fault}")
            broken = broken or fault is not None
    if broken:
        sys.exit(REFUSED)


# Over HTTP


def connected(command: Command) -> Command:
    """Give a command ``--url`` and ``--key``, and a connected client as its first argument."""

    @click.option("--url", envvar=f"{PREFIX}URL", default=DEFAULT_URL, show_default=True)
    @click.option("--key", envvar=f"{PREFIX}KEY", help=f"API key; better in {PREFIX}KEY.")
    @wraps(command)
    def with_desk(*, url: str, key: str | None, **options: object) -> None:
        with _refusals(), ReleaseDesk(url, key) as desk:
            command(desk, **options)

    return with_desk


@main.group()
def keys() -> None:
    """Make, list and revoke API keys of a running service (admins)."""


@keys.command("create")
@click.argument("name")
@click.option("--role", required=True, type=click.Choice(["admin", "curator", "analyst"]))
@click.option("--expires", help="Moment after which the key is refused, ISO 8601.")
@_JSON
@connected
def keys_create(
    desk: ReleaseDesk, *, name: str, role: str, expires: str | None, as_json: bool
) -> None:
    """Make a key for NAME and print its secret, which is shown this once."""
    key = desk.create_key(name=name, role=role, expires=expires)
    click.echo(key.model_dump_json() if as_json else key.secret)


@keys.command("list")
@_JSON
@connected
def keys_list(desk: ReleaseDesk, *, as_json: bool) -> None:
    """List every key, without secrets."""
    _print(desk.keys(), ("id", "name", "role", "expires"), as_json=as_json)


@keys.command("revoke")
@click.argument("key_id")
@connected
def keys_revoke(desk: ReleaseDesk, *, key_id: str) -> None:
    """Revoke the key with the id KEY_ID."""
    desk.revoke_key(key_id)
    click.echo(f"revoked {key_id}")


@main.group()
def datasets() -> None:
    """Upload, list and archive the data sets of a running service."""


@datasets.command("upload")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("spec", type=click.File("r", encoding="utf-8"))
@connected
def datasets_upload(desk: ReleaseDesk, *, file: Path, spec: Iterable[str]) -> None:
    """Upload FILE (CSV, CSV.gz, Parquet) as the JSON file SPEC says; prints the new id."""
    click.echo(desk.upload(file, _parsed("".join(spec), "SPEC")).id)


@datasets.command("list")
@_JSON
@connected
def datasets_list(desk: ReleaseDesk, *, as_json: bool) -> None:
    """List the data sets."""
    _print(desk.datasets(), ("id", "name", "adjacency", "rows", "status"), as_json=as_json)


@datasets.command("budget")
@click.argument("dataset")
@connected
def datasets_budget(desk: ReleaseDesk, *, dataset: str) -> None:
    """Print what is left of the budget of DATASET (an id)."""
    left = desk.budget(dataset).epsilon
    click.echo(
        f"total {left.total}  spent {left.spent}  reserved {left.reserved}"
        f"  remaining {left.remaining}"
    )


@datasets.command("grant")
@click.argument("dataset")
@_EPSILON
@click.option("--reason", required=True, help="Kept in the ledger.")
@connected
def datasets_grant(desk: ReleaseDesk, *, dataset: str, epsilon: str, reason: str) -> None:
    """Raise the total budget of DATASET."""
    desk.grant(dataset, epsilon=epsilon, reason=reason)
    click.echo(f"total {desk.budget(dataset).epsilon.total}")


@datasets.command("archive")
@click.argument("dataset")
@click.confirmation_option(prompt="Erase the rows for good? Ledger and releases stay.")
@connected
def datasets_archive(desk: ReleaseDesk, *, dataset: str) -> None:
    """Erase the rows of DATASET; its ledger and releases stay."""
    click.echo(desk.archive(dataset).status)


@main.group()
def releases() -> None:
    """Ask for releases, and list them."""


@releases.command("ask")
@click.argument("dataset")
@click.argument("statistic")
@_EPSILON
@_MECHANISM
@_NORM
@click.option("--idempotency-key", help="Give the one of an earlier try to get its answer.")
@connected
def releases_ask(
    desk: ReleaseDesk,
    *,
    dataset: str,
    statistic: str,
    idempotency_key: str | None,
    **choice: str,
) -> None:
    """Release STATISTIC (JSON) of DATASET (an id), and charge its epsilon."""
    question = _parsed(statistic, "STATISTIC")
    click.echo(
        desk.release(dataset, question, idempotency_key=idempotency_key, **choice).body.decode()
    )


@releases.command("derive")
@click.argument("release")
@click.argument("statistic")
@connected
def releases_derive(desk: ReleaseDesk, *, release: str, statistic: str) -> None:
    """Compute STATISTIC (JSON) from RELEASE (an id); free, reads no data."""
    question = _parsed(statistic, "STATISTIC")
    click.echo(desk.derive(release, question).model_dump_json())


@releases.command("preview")
@click.argument("dataset")
@click.argument("statistic")
@_EPSILON
@_MECHANISM
@_NORM
@connected
def releases_preview(
    desk: ReleaseDesk, *, dataset: str, statistic: str, epsilon: str, mechanism: str, norm: str
) -> None:
    """Say how noisy STATISTIC would be; free, reads no data."""
    question = _parsed(statistic, "STATISTIC")
    seen = desk.preview(dataset, question, epsilon=epsilon, mechanism=mechanism, norm=norm)
    click.echo(seen.model_dump_json())


@releases.command("list")
@_JSON
@connected
def releases_list(desk: ReleaseDesk, *, as_json: bool) -> None:
    """List your releases; a curator sees everybody's."""
    columns = ("id", "dataset", "status", "mechanism", "norm", "epsilon")
    _print(desk.releases(), columns, as_json=as_json)


@releases.command("show")
@click.argument("release")
@connected
def releases_show(desk: ReleaseDesk, *, release: str) -> None:
    """Print one release as the service stored it."""
    click.echo(desk.released(release).body.decode())


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
    from app.store import Store  # noqa: PLC0415

    with _local():
        Store.open(settings.resolved_database_url, data_dir=settings.data_dir).close()


@contextmanager
def _local() -> Iterator[None]:
    """Turn the store's refusal to open into one line."""
    from app.store import StoreError  # noqa: PLC0415

    try:
        yield
    except StoreError as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn the client's errors into one line on stderr and an exit code."""
    try:
        yield
    except ProblemError as problem:
        click.echo(f"refused: {problem}", err=True)
        for name, value in problem.extras.items():
            click.echo(f"  {name}: {json.dumps(value)}", err=True)
        sys.exit(REFUSED)
    except UnreachableError as error:
        click.echo(str(error), err=True)
        if error.idempotency_key:
            click.echo(f"ask again with --idempotency-key {error.idempotency_key}", err=True)
        sys.exit(UNREACHABLE)


def _parsed(text: str, name: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        raise click.UsageError(f"{name} is not JSON") from None
    if not isinstance(value, dict):
        raise click.UsageError(f"{name} must be a JSON object")
    return value


def _print(items: Iterable[Answer], columns: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        for item in items:
            click.echo(item.model_dump_json())
        return
    rows = [[str(getattr(item, name) or "") for name in columns] for item in items]
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


if __name__ == "__main__":
    main()
