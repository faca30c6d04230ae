"""A real server in a thread of the test process, and helpers that speak to it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import uvicorn

from app.domain.problems import PROBLEMS
from app.main import create_app
from app.processes import calculations
from tests.app.chosen import chosen
from tests.speed import PATIENCE_S

T = TypeVar("T")

ADMIN_KEY = "contract-tests-bootstrap-key-0123456789"

COLUMNS: dict[str, Any] = {
    "income": {"type": "number", "lower": 0, "upper": 100},
    "food": {"type": "number", "lower": 0, "upper": 50},
    "region": {"type": "category", "values": ["north", "south"]},
    "owner": {"type": "boolean"},
}
ROWS = "income,food,region,owner\n" + "40,20,south,false\n60,30,north,true\n" * 20
MEAN: dict[str, Any] = {"kind": "mean", "columns": ["income"]}


@dataclass(frozen=True)
class Service:
    """A running server."""

    url: str
    data_dir: Path

    def client(self, key: str | None = ADMIN_KEY) -> httpx.Client:
        """Return a client with a key, or without one; certificates are slow to load."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, verify=False)


@contextmanager
def running(data_dir: Path, **settings: Any) -> Iterator[Service]:
    """Serve a data directory until the block ends; at once, unless a test is about time.

    Nothing but what a test asks for is written meanwhile.
    """
    quiet = {
        "response_slot_ms": 0, "rate_limit_per_minute": 0, "checkpoint_s": 86_400,
        "anonymous_rate_limit_per_minute": 0,
    }  # fmt: skip
    own = {"data_dir": data_dir, "bootstrap_key": ADMIN_KEY, **quiet, **settings}
    app = create_app(*chosen(**own))
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        http="app.api.connections:PatientProtocol",
        ws="none",
        log_config=None,
        access_log=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + PATIENCE_S
    while not (server.started and calculations.FORKS.is_ready()):
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the server did not start")
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Service(f"http://127.0.0.1:{port}", data_dir)
    finally:
        server.should_exit = True
        thread.join(30)


def lying(data_dir: Path) -> str:
    """Return the URL of rows that lie in a folder next to a data directory, and nothing else."""
    folder = data_dir.with_name("lying")
    folder.mkdir(exist_ok=True)
    (folder / "rows.csv").write_text(ROWS)
    return f"file://{folder}/rows.csv"


def spec(**changes: Any) -> dict[str, Any]:
    """Return a sound data set spec under a fresh name."""
    return {
        "name": f"data set {uuid4()}",
        "adjacency": "replace_one",
        "columns": COLUMNS,
        "budget": {"epsilon": "10"},
        **changes,
    }


def send_upload(
    client: httpx.Client, rows: str | bytes = ROWS, body: Mapping[str, Any] | str | None = None
) -> httpx.Response:
    """Send an upload and return whatever comes back."""
    text = body if isinstance(body, str) else json.dumps(spec() if body is None else body)
    return client.post("/v1/datasets", files={"file": ("rows.csv", rows), "spec": (None, text)})


def upload(client: httpx.Client, rows: str | bytes = ROWS, **changes: Any) -> dict[str, Any]:
    """Upload a sound data set and return its public facts."""
    answer = send_upload(client, rows, spec(**changes))
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def make_key(admin: httpx.Client, role: str, name: str | None = None) -> dict[str, Any]:
    """Make a key for a person who is new unless named."""
    answer = admin.post("/v1/keys", json={"name": name or f"{role} {uuid4()}", "role": role})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def ask(
    client: httpx.Client,
    dataset: str,
    statistic: Any = None,
    *,
    epsilon: Any = "0.1",
    key: str | None = None,
    **more: Any,
) -> httpx.Response:
    """Ask for a release under a fresh Idempotency-Key unless one is given."""
    return client.post(
        f"/v1/datasets/{dataset}/releases",
        json={"statistic": MEAN if statistic is None else statistic, "epsilon": epsilon, **more},
        headers={"Idempotency-Key": key or str(uuid4())},
    )


def settled(client: httpx.Client, answer: httpx.Response) -> httpx.Response:
    """Return the answer of a release that was asked for, once it is shown if it is a job."""
    limit = time.monotonic() + PATIENCE_S
    while answer.json()["status"] == "running":
        assert time.monotonic() < limit
        time.sleep(0.1)
        answer = client.get(f"/v1/releases/{answer.json()['id']}")
    return answer


def in_time(attempt: Callable[[datetime], T]) -> tuple[T, datetime]:
    """Do something before a moment that is soon, and return what came of it, and the moment.

    Where a busy machine came too late, it is done again before one that is further away.
    """
    for seconds in (1, 5, 25):
        soon = datetime.now(UTC) + timedelta(seconds=seconds)
        try:
            done = attempt(soon)
        except AssertionError:
            if datetime.now(UTC) < soon:
                raise
        else:
            if datetime.now(UTC) < soon:
                return done, soon
    raise AssertionError("too late even for 25 seconds")


def sleep_until(moment: datetime) -> None:
    """Sleep until a moment has surely passed."""
    time.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds() + 0.1))


def send_raw(client: httpx.Client, path: str, body: bytes) -> httpx.Response:
    """Post bytes as JSON under a fresh Idempotency-Key."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid4())}
    return client.post(path, content=body, headers=headers)


def spent(client: httpx.Client, dataset: str) -> str:
    """Return what a data set's account has spent."""
    return str(client.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"])


def assert_problem(answer: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """Check the one shape of every refusal and return its body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert {"type", "code", "title", "status", "detail", "remedy", "request_id"} <= body.keys()
    assert body["type"] == f"/problems/{body['code']}"
    assert body["status"] == status
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["detail"]
    if body["code"] == "invalid-request" and body["errors"]:
        assert body["errors"][0]["field"] in body["remedy"]
    else:
        assert body["remedy"] == PROBLEMS[body["code"]].remedy
    if code is not None:
        assert body["code"] == code, body
    return body
