"""Large honest uploads: others are served as before, and a storing process may be lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl

from tests.e2e.live import ADMIN_KEY, LiveServer, upload

NUMBER: dict[str, Any] = {"type": "number", "lower": 0, "upper": 100}
STORING_OOM_SCORE = "500"


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
        context = multiprocessing.get_context("forkserver")
        self._answers = context.SimpleQueue()
        name = f"data set {time.monotonic_ns()}"
        self._process = context.Process(
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


def test_an_upload_whose_process_is_killed_leaves_nothing(tmp_path: Path) -> None:
    path, columns = _file(tmp_path / "rows.csv", rows=300_000, columns=8)
    with LiveServer(tmp_path / "data") as server, server.client() as client:
        uploading = Uploading(server, path, columns)
        _wait(lambda: list(server.data_dir.glob("staging/*/part-*")))
        (process,) = _storing(server)
        os.kill(process, signal.SIGKILL)
        assert uploading.answer() == (500, "internal")
        assert client.get("/v1/datasets").json()["items"] == []
        for place in ("staging", "datasets"):
            assert list((server.data_dir / place).iterdir()) == []
        assert list((server.data_dir / "lineage").glob("*.digests")) == []
        assert upload(client, "x\n1\n2\n", {"x": NUMBER})["rows"] == 2
        # a server that is killed takes those with it that work for it
        uploading = Uploading(server, path, columns)
        _wait(lambda: list(server.data_dir.glob("staging/*/part-*")))
        (process,) = _storing(server)
        server.kill()
        _wait(lambda: not Path(f"/proc/{process}").exists(), 10)
        assert uploading.answer()[0] == 0
    with LiveServer(tmp_path / "data") as server, server.client() as client:
        assert [each["rows"] for each in client.get("/v1/datasets").json()["items"]] == [2]
        assert list((server.data_dir / "staging").iterdir()) == []
