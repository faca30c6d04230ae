"""Large honest uploads: others are served as before, and a storing process may be lost."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest

from app.domain.datasets import parse_columns
from app.vault.vault import Vault
from mechanisms.privacy import Adjacency
from tests.app.forked_hosts import LOADED
from tests.app.uploads import DataHere
from tests.e2e.live import ADMIN_KEY, LiveServer, release_mean, upload

pytestmark = [pytest.mark.slow, pytest.mark.timed]

NUMBER: dict[str, Any] = {"type": "number", "lower": 0, "upper": 100}
STORING_OOM_SCORE = "500"
QUIET_S = 4.0
ROUNDS = 3
FACTOR = 2.0
SLACK_S = 0.03
"""What a loaded machine may add to one answer in a hundred without anyone's fault."""


def _file(path: Path, *, rows: int, columns: int) -> tuple[Path, dict[str, Any]]:
    """Write a CSV file of numbers and return it with its declaration."""
    values = np.random.default_rng(7).uniform(0, 100, (rows, columns)).round(3)
    names = [f"c{number}" for number in range(columns)]
    pl.DataFrame(values, schema=names).write_csv(path)
    return path, dict.fromkeys(names, NUMBER)


def _send(url: str, path: Path, columns: dict[str, Any], name: str, answers: Any) -> None:
    """Upload a file from a process of its own and tell the answer's status and code."""
    spec = {
        "name": name,
        "adjacency": "replace_one",
        "columns": columns,
        "budget": {"epsilon": "1"},
        "overlap": {"reason": "the same rows over and over"},
    }
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with httpx.Client(base_url=url, timeout=200, verify=False, headers=headers) as client:
        files = {"file": ("f", path.read_bytes()), "spec": (None, json.dumps(spec))}
        try:
            answer = client.post("/v1/datasets", files=files)
        except httpx.TransportError:
            answers.put((0, "the server is gone"))
        else:
            answers.put((answer.status_code, answer.json().get("code")))


class Uploading:
    """An upload under way in another process."""

    def __init__(self, server: LiveServer, path: Path, columns: dict[str, Any]) -> None:
        self._answers = LOADED.SimpleQueue()
        name = f"data set {time.monotonic_ns()}"
        self._process = LOADED.Process(
            target=_send, args=(server.url, path, columns, name, self._answers), daemon=True
        )
        self._process.start()

    def under_way(self) -> bool:
        """Say whether there is no answer yet."""
        return self._process.is_alive()

    def answer(self) -> tuple[int, str | None]:
        """Wait for the status and the problem's code."""
        found: tuple[int, str | None] = self._answers.get()
        self._process.join()
        return found


def _processes(of: int) -> list[int]:
    """Return a process's descendants."""
    found: list[int] = []
    for children in Path(f"/proc/{of}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found += [child, *_processes(child)]
    return found


def _storing(server: LiveServer) -> list[int]:
    found = []
    for process in _processes(server.pid):
        try:
            if Path(f"/proc/{process}/oom_score_adj").read_text().strip() == STORING_OOM_SCORE:
                found.append(process)
        except FileNotFoundError:
            pass
    return found


def _wait(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _the_one_storing(server: LiveServer) -> int:
    # the process of an upload that is answered already may take a moment to end
    _wait(lambda: list(server.data_dir.glob("staging/*/part-*")))
    _wait(lambda: len(_storing(server)) == 1)
    (process,) = _storing(server)
    return process


def test_an_upload_whose_process_is_killed_leaves_nothing(tmp_path: Path) -> None:
    path, columns = _file(tmp_path / "rows.csv", rows=300_000, columns=8)
    with LiveServer(tmp_path / "data") as server, server.client() as client:
        uploading = Uploading(server, path, columns)
        process = _the_one_storing(server)
        os.kill(process, signal.SIGKILL)
        assert uploading.answer() == (500, "internal")
        assert client.get("/v1/datasets").json()["items"] == []
        for place in ("staging", "datasets"):
            assert list((server.data_dir / place).iterdir()) == []
        assert list((server.data_dir / "lineage").glob("*.digests")) == []
        assert upload(client, "x\n1\n2\n", {"x": NUMBER})["rows"] == 2
        # a server that is killed takes those with it that work for it
        uploading = Uploading(server, path, columns)
        process = _the_one_storing(server)
        server.kill()
        _wait(lambda: not Path(f"/proc/{process}").exists(), 10)
        assert uploading.answer()[0] == 0
    with LiveServer(tmp_path / "data") as server, server.client() as client:
        assert [each["rows"] for each in client.get("/v1/datasets").json()["items"]] == [2]
        assert list((server.data_dir / "staging").iterdir()) == []


def _latencies(server: LiveServer, dataset: str, going_on: Callable[[], bool]) -> list[float]:
    """Read and release in turns while something goes on; return how long each took, sorted."""
    found: list[float] = []
    with server.client() as client:
        while going_on():
            started = time.perf_counter()
            if len(found) % 2:
                answer = client.get(f"/v1/datasets/{dataset}/budget")
            else:
                key = f"{time.time_ns()}"
                answer = release_mean(client, dataset, column="x", epsilon="0.000001", key=key)
            found.append(time.perf_counter() - started)
            assert answer.status_code < 300, answer.text
    return sorted(found)


def _p99(found: list[float]) -> float:
    return found[int(0.99 * len(found))]


def _for(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until


def _quiet(server: LiveServer, dataset: str) -> float:
    return _p99(_latencies(server, dataset, _for(QUIET_S)))


def test_others_are_served_as_before(tmp_path: Path) -> None:
    sizes = {"wide": (1_000, 1_000), "long": (1_000_000, 4)}
    files = {
        name: _file(tmp_path / name, rows=rows, columns=columns)
        for name, (rows, columns) in sizes.items()
    }
    with LiveServer(tmp_path / "data") as server:
        with server.client() as admin:
            dataset = str(upload(admin, "x\n1\n2\n", {"x": NUMBER})["id"])
        _latencies(server, dataset, _for(1))
        before = _quiet(server, dataset)
        for name, (path, columns) in files.items():
            measured = []
            # whatever else the machine does can only make others slower, for a while
            for _ in range(ROUNDS):
                uploading = Uploading(server, path, columns)
                time.sleep(0.2)  # the client has to start
                busy = _p99(_latencies(server, dataset, uploading.under_way))
                assert uploading.answer() == (201, None)
                after = _quiet(server, dataset)
                measured.append((before, busy, after))
                fits = busy <= FACTOR * max(before, after) + SLACK_S
                before = after
                if fits:
                    break
            else:
                pytest.fail(f"{name}: 99th percentiles before, during and after: {measured}")


def _processor_s(process: int) -> float:
    """Return the processor time a process has used, its children's not counted."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.wide
def test_a_server_has_its_interpreter_to_itself_while_it_stores(tmp_path: Path) -> None:
    """What a wide upload costs is spent elsewhere; unlike waiting times this is no weather."""
    path, columns = _file(tmp_path / "rows.csv", rows=5_000, columns=800)
    spec = parse_columns(columns, adjacency=Adjacency.REPLACE_ONE, max_rows=None)
    started = time.process_time()
    with path.open("rb") as stream:
        DataHere(Vault(tmp_path / "here"), lineage_key=bytes(32)).store("ds_1", stream, spec)
    here_s = time.process_time() - started
    with LiveServer(tmp_path / "data") as server:
        for _ in range(2):  # a first upload starts processes and loads modules
            started = _processor_s(server.pid)
            assert Uploading(server, path, columns).answer() == (201, None)
            there_s = _processor_s(server.pid) - started
    assert there_s < here_s / 2
