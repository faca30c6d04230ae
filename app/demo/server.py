"""The demo's own service: a process started, awaited and stopped in order."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import httpx

from app.demo.text import heading

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
