"""While hostile files and bodies are read in, everybody else is served as before."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.bombs import gzip_bomb, parquet_bombs
from tests.app.forked_hosts import LOADED
from tests.e2e.bystanders import require_served_as_before
from tests.e2e.hostile_bodies import KINDS, hostile_body
from tests.e2e.live import ADMIN_KEY, LiveServer, upload

pytestmark = [pytest.mark.slow, pytest.mark.timed]

NUMBER: dict[str, Any] = {"x": {"type": "number", "lower": 0, "upper": 2}}
SECONDS = 3.0
ATTACKERS = 3
LARGEST_BODY = 2**20

File = tuple[str, bytes, dict[str, Any], set[int]]


def _wide(columns: int, rows: int) -> tuple[bytes, dict[str, Any]]:
    """Return a file that is sound, small to send and much to sketch."""
    names = [f"c{number}" for number in range(columns)]
    row = ",".join(["1"] * columns) + "\n"
    content = gzip.compress((",".join(names) + "\n" + row * rows).encode(), mtime=0)
    return content, dict.fromkeys(names, NUMBER["x"])


def _files() -> list[File]:
    """Return files and the answers that are sound; two bombs may be read as their ten rows."""
    million = b",".join(b"c%d" % number for number in range(1_000_000)) + b"\n"
    wide, columns = _wide(400, 2_000)
    bombs = parquet_bombs().items()
    return [
        ("wide", wide, columns, {201}),
        ("gzip bomb", gzip_bomb("x", "1", mebibytes=150), NUMBER, {413}),
        ("million columns", gzip.compress(million, mtime=0), NUMBER, {422}),
        ("wide", wide, columns, {201}),
        ("enormous cell", gzip.compress(b"x\n" + b"9" * (1 << 26), mtime=0), NUMBER, {422}),
        *((name, content, NUMBER, {201, 413, 422}) for name, content in bombs),
    ]


def _attack(url: str, dataset: str, stop: Any, answers: Any) -> None:
    """Send the files by turns from a few clients, and the bodies from one, until asked to stop.

    Each at least once.
    """
    files = _files()
    reported: list[tuple[str, int]] = []

    def send(client_number: int) -> None:
        share = len(files) // ATTACKERS
        number = begun = client_number * share
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        with httpx.Client(base_url=url, timeout=120, verify=False, headers=headers) as client:
            while not stop.is_set() or number <= begun + share:
                name, content, columns, _ = files[number % len(files)]
                number += 1
                spec = {
                    "name": f"{name} {number} {time.time_ns()}",
                    "adjacency": "replace_one",
                    "columns": columns,
                    "budget": {"epsilon": "1"},
                    "overlap": {"reason": "the same rows over and over"},
                }
                sent = {"file": ("f", content), "spec": (None, json.dumps(spec))}
                answer = client.post("/v1/datasets", files=sent)
                reported.append((name, answer.status_code))

    def ask() -> None:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
        bodies = {kind: hostile_body(kind, LARGEST_BODY) for kind in KINDS}
        with httpx.Client(base_url=url, timeout=120, verify=False, headers=headers) as client:
            for number, kind in enumerate(cycle(bodies)):
                if stop.is_set() and number >= len(bodies):
                    return
                answer = client.post(f"/v1/datasets/{dataset}/previews", content=bodies[kind])
                reported.append((kind, answer.status_code))

    threads = [threading.Thread(target=send, args=(start,)) for start in range(ATTACKERS)]
    threads.append(threading.Thread(target=ask))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(reported)


@contextmanager
def _attacked(server: LiveServer, dataset: str, outcomes: dict[str, set[int]]) -> Iterator[None]:
    """Have hostile files and bodies sent from another process, and note the answers."""
    stop, answers = LOADED.Event(), LOADED.Queue()
    process = LOADED.Process(target=_attack, args=(server.url, dataset, stop, answers), daemon=True)
    process.start()
    time.sleep(1.5)  # the files have to be made
    try:
        yield
    finally:
        stop.set()
        for name, status in answers.get(timeout=120):
            outcomes.setdefault(name, set()).add(status)
        process.join()


def test_others_are_served_as_before(tmp_path: Path) -> None:
    outcomes: dict[str, set[int]] = {}
    with LiveServer(tmp_path / "data") as server:
        with server.client() as admin:
            dataset = str(upload(admin, "x\n1\n2\n", NUMBER)["id"])
        require_served_as_before(
            server, dataset, "x", lambda: _attacked(server, dataset, outcomes), seconds=SECONDS
        )
    bodies = {kind: {413, 422} if kind.startswith("sound") else {422} for kind in KINDS}
    allowed = {name: sound for name, _, _, sound in _files()} | bodies
    assert outcomes.keys() == allowed.keys(), "every file and body had its turn"
    for name, statuses in outcomes.items():
        assert statuses <= allowed[name], (name, statuses)
