"""The demo's own service: a process started, awaited and stopped in order."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import httpx

from app.client import Release
from app.client.tables import MEASURES

# The demo's lines: answers as aligned tables


def table(release: Release) -> Iterator[str]:
    """Yield aligned lines: each released number, its 95% noise interval and its noise's std."""
    rows = {_label(row): row for row in release.rows()}
    width = max(map(len, rows), default=0)
    yield f"{'':<{width}} {'released':>14}   95% noise interval"
    for label, row in rows.items():
        line = f"{label:<{width}} {_number(row['value']):>14}"
        if row["noise_low"] is None:
            line += "   depends on the data"
        else:
            low, high = _number(row["noise_low"]), _number(row["noise_high"])
            line += f"   [{low:>14}, {high:>14}]   std {_number(row['noise'])}"
        yield line


def _label(row: Mapping[str, Any]) -> str:
    """Return what a number is called: its group, and its term where the group does not say all."""
    group = [str(row[name]) for name in row if name not in MEASURES]
    term = row["term"]
    return ", ".join(group if group and term == "count" else [*group, term])


def _number(value: float | None) -> str:
    """Return a number to a readable count of digits."""
    if value is None:
        return "-"
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"


def heading(text: str) -> None:
    """Open a step."""
    click.echo(f"\n== {text}")


def compact(body: Mapping[str, object]) -> str:
    """Return a request body as one line of JSON."""
    return json.dumps(body)


# The demo's own service: a process started, awaited and stopped in order

_START_TIMEOUT_S = 60.0  # a first start makes a database, on a machine that may be busy
_STOP_TIMEOUT_S = 10.0


def free_port() -> int:
    """Return 8000, or any free port when it is taken."""
    for wanted in (8000, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise click.ClickException("no free port on 127.0.0.1")


@contextmanager
def directory_for_demo(chosen: Path | None) -> Iterator[Path]:
    """Yield an empty directory: the chosen one, kept, or a temporary one, removed."""
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        if any(chosen.iterdir()):
            raise click.ClickException("the demo wants an empty data directory")
        yield chosen
        return
    made = Path(tempfile.mkdtemp(prefix="release-desk-demo-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def running(directory: Path, port: int) -> Iterator[tuple[str, str]]:
    """Start a server process; yield its URL and the admin key; stop it in the end."""
    url, key = f"http://127.0.0.1:{port}", secrets.token_urlsafe(32)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("RELEASE_DESK_")}
    environment = {
        **inherited,
        "RELEASE_DESK_DATA_DIR": str(directory / "data"),
        "RELEASE_DESK_BOOTSTRAP_KEY": key,
    }
    heading("Start the service")
    click.echo(f"  release-desk serve --host 127.0.0.1 --port {port}   over {directory}")
    log_path = directory / "server.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "app.cli", "serve", "--host", "127.0.0.1", "--port", str(port)],
            env=environment,
            stdout=log,
            stderr=log,
            # A Ctrl-C at the terminal reaches us alone; we then stop the server in order.
            start_new_session=True,
        )
    try:
        taken_s = _await_ready(url, lambda: process.poll() is not None, log_path)
        click.echo(f"  -> ready at {url} ({taken_s:.1f} s)")
        yield url, key
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(url: str, ended: Callable[[], bool], log: Path) -> float:
    started = time.monotonic()
    while time.monotonic() < started + _START_TIMEOUT_S and not ended():
        try:
            if httpx.get(f"{url}/readyz", timeout=2).is_success:
                return time.monotonic() - started
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    tail = log.read_text(errors="replace").splitlines()[-20:]
    raise click.ClickException("the service did not start:\n" + "\n".join(tail))


def wait_for_interrupt() -> None:
    """Sleep until Ctrl-C or, inside :func:`terminating`, SIGTERM."""
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return


@contextmanager
def terminating() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that the server process and its directory are cleaned up."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
