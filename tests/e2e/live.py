"""A real server on 127.0.0.1 in a process of its own, cheap to start and to kill.

Processes are forked from a fork server that has imported the application
once, so a test can afford a hundred starts. Nothing is shared with the test
but the data directory and the port.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from tests.app.forked_hosts import LOADED, fork_hosts, may_have_children
from tests.speed import PATIENCE_S

ADMIN_KEY = "test-bootstrap-key-of-more-than-32-characters"
CONSTANTS = "CONSTANTS"
"""Where a server of these tests finds its constants, in its environment."""
_START_TIMEOUT_S = 60.0


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free, and is given to no one who asks for any.

    A socket that is bound and does not listen keeps it from them until this process ends. A server
    may listen there, as each lets its address be used again.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    holder.detach()
    return port


def _begin(serve: Callable[..., None], forking: bool, *reported: object) -> None:
    may_have_children()
    if forking:
        fork_hosts()
    serve(*reported)


def serve(environment: dict[str, str], port: int, log: str) -> None:
    """Serve in this process, as its environment says."""
    os.environ.update(environment)
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]

    import uvicorn

    from app.main import create_app, keep_in_memory
    from tests.app.chosen import chosen

    settings, constants = chosen(**json.loads(environment[CONSTANTS]))
    app = create_app(settings, constants)
    keep_in_memory()
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        log_level="warning",
        http="app.api.connections:PatientProtocol",
        ws="none",
        access_log=False,
        timeout_graceful_shutdown=math.ceil(settings.drain_timeout_s),
    )


class LiveServer:
    """One server over one data directory; ``kill`` is SIGKILL, ``stop`` is SIGTERM.

    ``target`` is what its process does; its hosts are forked, unless a class of it starts them.
    """

    target = staticmethod(serve)
    forking = True

    def __init__(
        self, data_dir: Path, *, constants: Mapping[str, float] | None = None, **environment: str
    ) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = data_dir.parent / f"{data_dir.name}.log"
        self.environment = {
            "RELEASE_DESK_DATA_DIR": str(data_dir),
            "RELEASE_DESK_BOOTSTRAP_KEY": ADMIN_KEY,
            "RELEASE_DESK_RESPONSE_SLOT_MS": "0",
            "RELEASE_DESK_RATE_LIMIT_PER_MINUTE": "0",
            "RELEASE_DESK_ANONYMOUS_RATE_LIMIT_PER_MINUTE": "0",
            "RELEASE_DESK_DRAIN_TIMEOUT_S": "10",
            CONSTANTS: json.dumps({"stop_notice_s": 0.0, **(constants or {})}),
            **environment,
        }
        self._process: Any = None

    def start(self, *, ready: int = 200) -> LiveServer:
        """Start and wait until ``/readyz`` answers, 200 unless set otherwise."""
        self._process = LOADED.Process(
            target=_begin,
            args=(self.target, self.forking, self.environment, self.port, str(self.log)),
            daemon=True,
        )
        self._process.start()
        deadline = time.monotonic() + _START_TIMEOUT_S
        with self.client() as asking:
            while time.monotonic() < deadline and self._process.exitcode is None:
                with suppress(httpx.TransportError):
                    if asking.get("/readyz", timeout=5).status_code == ready:
                        return self
                time.sleep(0.02)
        raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")

    @property
    def pid(self) -> int:
        """Return the process id."""
        return int(self._process.pid)

    @property
    def exit_code(self) -> int | None:
        """Return how the process ended, or None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self._process.kill()
        self._process.join()

    def stop(self) -> None:
        """Ask the process to end and wait."""
        self._process.terminate()
        self._process.join(15)
        if self._process.exitcode is None:
            self.kill()

    def client(self, key: str = ADMIN_KEY, **options: Any) -> httpx.Client:
        """Return a client that authenticates with ``key``; certificates are slow to load."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(
            base_url=self.url, headers=headers, timeout=PATIENCE_S, verify=False, **options
        )

    def __enter__(self) -> LiveServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def upload(
    client: httpx.Client, csv: str | bytes, columns: dict[str, Any], **spec: Any
) -> dict[str, Any]:
    """Upload a data set of a few columns and return its public facts."""
    body = {
        "name": f"data set {time.monotonic_ns()}",
        "description": "a test",
        "adjacency": "replace_one",
        "columns": columns,
        "budget": {"epsilon": "10"},
        **spec,
    }
    answer = client.post(
        "/v1/datasets", files={"file": ("rows.csv", csv), "spec": (None, json.dumps(body))}
    )
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def release_mean(
    client: httpx.Client, dataset: str, *, column: str, epsilon: str, key: str
) -> httpx.Response:
    """Ask for one mean under an idempotency key."""
    return client.post(
        f"/v1/datasets/{dataset}/releases",
        json={"statistic": {"kind": "mean", "columns": [column]}, "epsilon": epsilon},
        headers={"Idempotency-Key": key},
    )
