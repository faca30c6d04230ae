"""The service over HTTP: does n cost anything, and how much of a bare endpoint is left?"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import numpy as np

from studies import load

KEY = "bench-bootstrap-key-of-more-than-32-characters"
BARE_PATH = "/bench/bare"


@dataclass(frozen=True, slots=True)
class Throughput:
    """Requests per second of a bare validated endpoint and of whole releases, same server."""

    bare: load.Load
    releases: load.Load

    @property
    def share(self) -> float:
        """Return releases per second as a share of bare requests per second."""
        return self.releases.per_second / self.bare.per_second


def _serve(data_dir: str, port: int) -> None:
    import uvicorn  # noqa: PLC0415

    from app.api.schemas import ReleaseRequest  # noqa: PLC0415
    from app.main import create_app  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415

    os.environ["RELEASE_DESK_BOOTSTRAP_KEY"] = KEY
    os.environ["RELEASE_DESK_DATA_DIR"] = data_dir
    os.environ["RELEASE_DESK_RESPONSE_SLOT_MS"] = "0"
    app = create_app(Settings())

    async def bare(body: ReleaseRequest) -> dict[str, str]:
        return {"epsilon": str(body.epsilon)}

    # a local name, which the framework could not look up
    bare.__annotations__["body"] = ReleaseRequest
    app.post(BARE_PATH)(bare)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)


@contextmanager
def server() -> Iterator[int]:
    """Run the service in a process of its own over a temporary directory; yield its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(folder, port), daemon=True
        )
        process.start()
        try:
            _wait_until_ready(port)
            yield port
        finally:
            process.terminate()
            process.join(15)


def _wait_until_ready(port: int) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the service did not become ready")


def upload(port: int, rows: int) -> str:
    """Upload one column of random numbers; return the data set's id."""
    values = np.random.default_rng(rows).uniform(0, 100, rows)
    spec = {
        "name": f"bench {rows}",
        "adjacency": "replace_one",
        "columns": {"x": {"type": "number", "lower": 0, "upper": 100}},
        "budget": {"epsilon": "10000"},
    }
    answer = httpx.post(
        f"http://127.0.0.1:{port}/v1/datasets",
        files={
            "file": ("x.csv", "x\n" + "\n".join(map(str, values)) + "\n"),
            "spec": (None, json.dumps(spec)),
        },
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=120,
    )
    answer.raise_for_status()
    return str(answer.json()["id"])


def _mean_request(dataset: str, prefix: str) -> load.RequestBytes:
    body = b'{"statistic":{"kind":"mean","columns":["x"]},"epsilon":"0.001"}'
    headers = {"Authorization": f"Bearer {KEY}"}
    path = f"/v1/datasets/{dataset}/releases"
    return lambda number: load.post(path, body, headers | {"Idempotency-Key": f"{prefix}-{number}"})


def rows_ratio(port: int, *, rounds: int = 6, requests: int = 150) -> float:
    """Return the time of a mean release at 20,000 rows over that at 200 rows, interleaved."""
    medians: dict[int, list[float]] = {200: [], 20_000: []}
    datasets = {rows: upload(port, rows) for rows in medians}
    for turn in range(rounds):
        for rows, dataset in datasets.items():
            result = load.run(
                port, _mean_request(dataset, f"n-{rows}-{turn}"), total=requests, connections=1
            )
            assert set(result.statuses) == {201}, result.statuses
            if turn:  # the first round warms up
                medians[rows].append(result.quantile(0.5))
    return statistics.median(medians[20_000]) / statistics.median(medians[200])


def throughput(port: int, *, connections: int = 64) -> Throughput:
    """Measure bare requests and whole releases with the same clients, one after the other."""
    dataset = upload(port, 1000)
    body = b'{"statistic":{"kind":"mean","columns":["x"]},"epsilon":"0.001"}'
    bare_request = load.post(BARE_PATH, body, {"Authorization": f"Bearer {KEY}"})
    warm = load.run(port, lambda _: bare_request, total=500, connections=connections)
    assert set(warm.statuses) == {200}, warm.statuses
    bare = load.run(port, lambda _: bare_request, total=8000, connections=connections)
    releases = load.run(port, _mean_request(dataset, "load"), total=3000, connections=connections)
    assert set(releases.statuses) == {201}, releases.statuses
    return Throughput(bare, releases)
