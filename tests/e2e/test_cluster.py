"""A service next to a Dask cluster of processes, all of which speak TLS."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.domain.problems import DataUnreadableError
from app.engine.choice import Passes
from app.engine.dask import DaskExecutor
from app.engine.data import DataEngine
from app.uploads import sketching, storing
from app.vault.vault import Vault
from mechanisms.contract import Block
from tests.app.tls import certificates
from tests.app.uploads import DataHere, columns_spec
from tests.e2e.live import LiveServer, upload

pytestmark = pytest.mark.slow

NUMBER = {"type": "number", "lower": -1, "upper": 1}


@dataclass(frozen=True)
class Cluster:
    """Where the scheduler is, the files that the service is told, and its workers."""

    address: str
    pems: dict[str, Path]
    workers: list[subprocess.Popen[bytes]]

    @property
    def settings(self) -> dict[str, str]:
        """Return what a service needs to know of it."""
        files = {f"RELEASE_DESK_DASK_TLS_{name}_FILE": str(p) for name, p in self.pems.items()}
        return {"RELEASE_DESK_DASK_SCHEDULER": self.address, **files}

    @property
    def passes(self) -> Passes:
        ca, cert, key = (self.pems[name].read_text() for name in ("CA", "CERT", "KEY"))
        return Passes(scheduler=self.address, authority=ca, certificate=cert, key=key)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Give a scheduler and two workers, each a process, begun as `docker-compose.yml` does."""
    pems = {name: tmp_path / f"{name}.pem" for name in ("CA", "CERT", "KEY")}
    for path, content in zip(pems.values(), certificates(), strict=True):
        path.write_text(content)
    found = tmp_path / "scheduler.json"
    quiet = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    with ExitStack() as ending:
        log = ending.enter_context((tmp_path / "cluster.log").open("ab"))

        def begin(*words: str) -> subprocess.Popen[bytes]:
            process = ending.enter_context(
                subprocess.Popen(
                    [Path(sys.executable).with_name("dask"), *words, *quiet, *tls(pems)],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    cwd=tmp_path,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
            )
            ending.callback(process.kill)
            return process

        place = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(found))
        begin("scheduler", "--protocol", "tls", "--no-show", *place)
        until(found.exists)
        address = json.loads(found.read_text())["address"]
        single = ("--no-nanny", "--nthreads", "1", "--host", "127.0.0.1")
        workers = [begin("worker", address, *single) for _ in range(2)]
        made = Cluster(address, pems, workers)
        with_workers(made)
        yield made


def tls(pems: dict[str, Path]) -> Iterator[str]:
    for option, name in (("ca-file", "CA"), ("cert", "CERT"), ("key", "KEY")):
        yield from (f"--tls-{option}", str(pems[name]))


def with_workers(cluster: Cluster) -> None:
    """Return when both workers are there."""
    executor = cluster.passes.executor()
    assert isinstance(executor, DaskExecutor)
    try:
        executor.connected().wait_for_workers(2, timeout=60)
    finally:
        executor.close()


def until(met: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


X = np.random.default_rng(3).uniform(-1, 1, 280_000).round(3)
"""The rows of two parts."""


def uploaded(client: httpx.Client, *, beside: int = 0) -> str:
    """Upload them, with so many more columns."""
    more, rest = [f"k{place}" for place in range(beside)], ",1" * beside
    text = f"{','.join(['x', 'yes', *more])}\n"
    text += "".join(f"{each},{int(each > 0)}{rest}\n" for each in X.tolist())
    columns = {"x": NUMBER, "yes": {"type": "boolean"}} | dict.fromkeys(more, NUMBER)
    return str(upload(client, text, columns, budget={"epsilon": "100"})["id"])


def expect_sum(client: httpx.Client, dataset: str) -> None:
    above = {"kind": "sum", "columns": ["x"], "where": [{"column": "x", "op": ">", "value": 0}]}
    released = release(client, dataset, above, "auto")
    assert abs(released["value"]["x"] - X[X > 0].sum()) < 100


class Starting(LiveServer):
    """A server whose hosts are started: their processes' semaphores are no one else's."""

    forking = False


def test_a_service_divides_its_passes_among_processes(tmp_path: Path) -> None:
    settings = {"RELEASE_DESK_EXECUTOR_PROCESSES": "2"}
    with Starting(tmp_path / "data", **settings) as server, server.client() as client:
        expect_sum(client, uploaded(client))
        server.stop()
    time.sleep(1)  # what unlinks semaphores outlives who had them
    assert "leaked" not in server.log.read_text(), "processes leave at once, and need no warning"


@pytest.mark.wide
def test_a_service_has_its_passes_made_by_workers(cluster: Cluster, tmp_path: Path) -> None:
    logistic = {"kind": "logistic_regression", "target": "yes", "features": ["x"], "bound": 8}
    executor = cluster.passes.executor()
    assert isinstance(executor, DaskExecutor)
    with LiveServer(tmp_path / "data", **cluster.settings) as server, server.client() as client:
        dataset = uploaded(client, beside=sketching.DENSE_COLUMNS)
        made = tasks(executor)
        assert made >= 4, "two parts of many columns were sketched"
        expect_sum(client, dataset)
        assert tasks(executor) > made, "two parts were read"
        released = release(client, dataset, logistic, "objective_perturbation")
        assert released["value"]["coefficients"]["x"] > 3
    executor.close()


def tasks(executor: DaskExecutor) -> int:
    """Return how many tasks the scheduler has heard of."""
    made: int = executor.connected().run_on_scheduler(_heard)
    return made


def _heard(dask_scheduler: Any) -> int:
    return int(dask_scheduler.transition_counter)


def release(client: httpx.Client, dataset: str, statistic: dict[str, Any], mechanism: str) -> Any:
    answer = client.post(
        f"/v1/datasets/{dataset}/releases",
        json={"statistic": statistic, "mechanism": mechanism, "epsilon": "10"},
        headers={"Idempotency-Key": statistic["kind"]},
    )
    while answer.status_code in (200, 202) and answer.json()["status"] != "released":
        time.sleep(0.1)
        answer = client.get(f"/v1/releases/{answer.json()['id']}")
    assert answer.is_success, answer.text
    return answer.json()


@dataclass(frozen=True)
class Dies:
    """Takes its worker with it; given a marker, the first time only."""

    marker: str = ""

    def __call__(self, block: Block) -> int:
        if not self.marker:
            os._exit(1)
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return int(block["x"].sum())
        os._exit(1)


def test_a_worker_is_lost_in_mid_pass_and_then_all_are(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "_MAX_PART_ROWS", 7)
    vault = Vault(tmp_path / "vault")
    content = "x\n" + "".join(f"{number / 99}\n" for number in range(99))
    DataHere(vault).store("ds_1", io.BytesIO(content.encode()), columns_spec({"x": NUMBER}))
    expected = [int(block["x"].sum()) for block in DataEngine(vault).open("ds_1").blocks(["x"])]
    executor = cluster.passes.executor()
    data = DataEngine(vault, executor=executor).open("ds_1")
    marker = tmp_path / "died"
    try:
        assert list(data.map(Dies(str(marker)), ["x"])) == expected
        assert marker.exists()
        until(lambda: [each.poll() for each in cluster.workers].count(None) == 1)
        monkeypatch.setattr("app.engine.dask.PATIENCE_S", 0.1)
        monkeypatch.setattr("app.engine.dask.LOOK_S", 0.2)
        with pytest.raises(DataUnreadableError):
            list(data.map(Dies(), ["x"]))
        assert all(each.poll() is not None for each in cluster.workers)
    finally:
        executor.close()
