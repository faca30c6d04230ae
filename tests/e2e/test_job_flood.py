"""Another person's single job, behind a flood of jobs or draws that do not end.

On a service as it is delivered.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, text

from app.processes.jobs import JobProcesses
from app.services.releases.public_moments import PublicMoments
from app.store import DatasetRecord, ReleaseRecord
from app.store.ledger import releases
from tests.contract.service import Service, ask, make_key, running, upload

pytestmark = [pytest.mark.slow, pytest.mark.timed]

WIDE = {f"c{place}": {"type": "number", "lower": -1, "upper": 1} for place in range(64)}
ROWS = ",".join(WIDE) + "\n" + ((",".join(["0.5"] * 64) + "\n") * 300)
MOMENTS: dict[str, Any] = {"kind": "moments", "columns": [*WIDE]}
STACK = {"kind": "stack", "parts": [{"statistic": MOMENTS, "share": 1}] * 10}
MEDIAN = {"kind": "geometric_median", "columns": ["c0", "c1", "c2"]}
MANY, STACKS = 60, 6


def takes(
    client: httpx.Client, dataset: str, statistic: Any = MEDIAN, *, most_s: float = 60
) -> float:
    """Ask for a job; return in how many seconds it is shown, at most so many."""
    begun = time.monotonic()
    answer = ask(client, dataset, statistic, epsilon="0.001")
    assert answer.status_code == 202
    while answer.json()["status"] == "running" and time.monotonic() < begun + most_s:
        time.sleep(0.05)
        answer = client.get(f"/v1/releases/{answer.json()['id']}")
    return time.monotonic() - begun


def flood(client: httpx.Client, dataset: str) -> None:
    for statistic, count in ((STACK, STACKS), (MOMENTS, MANY)):
        for _ in range(count):
            assert ask(client, dataset, statistic, epsilon="0.000001").status_code == 202


def measure(service: Service, length: Any) -> tuple[float, float]:
    """Return how long a job may take behind a flood, and how long it does.

    That is twice what it takes when nothing else goes on, and one job of the flood.
    """
    with service.client() as admin:
        dataset = str(upload(admin, ROWS, columns=WIDE, budget={"epsilon": "10"})["id"])
        with (
            service.client(make_key(admin, "analyst")["secret"]) as ann,
            service.client(make_key(admin, "analyst")["secret"]) as bob,
        ):
            most_s = 2 * takes(bob, dataset) + takes(ann, dataset, length)
            flood(ann, dataset)
            return most_s, takes(bob, dataset, most_s=most_s)


def test_a_flood_of_jobs_holds_nobody_else_up(tmp_path: Path) -> None:
    with running(tmp_path / "data", response_slot_ms=100, drain_timeout_s=5) as service:
        most_s, behind_s = measure(service, MOMENTS)
    assert behind_s < most_s


@pytest.mark.wide
def test_a_flood_holds_nobody_up_on_one_lane(tmp_path: Path) -> None:
    """Without ticks and with one process: turns alone see to it."""
    with running(tmp_path / "data", job_processes=1, drain_timeout_s=5) as service:
        most_s, behind_s = measure(service, STACK)
    assert behind_s < most_s


def never_ending(monkeypatch: pytest.MonkeyPatch, without: str) -> None:
    """Have every draw go on for ever, but for those of one data set."""
    draw = JobProcesses.draw

    async def drawn(
        self: JobProcesses, record: ReleaseRecord, dataset: DatasetRecord, manifest: str | None
    ) -> bytes | None:
        if dataset.id != without:
            await asyncio.Event().wait()
        return await draw(self, record, dataset, manifest)

    monkeypatch.setattr(JobProcesses, "draw", drawn)


def behind_what_never_ends(
    service: Service, monkeypatch: pytest.MonkeyPatch, *, most_s: float
) -> float:
    """Return how long a job takes while draws of another person fill every lane, and more wait."""
    with service.client() as admin:
        other, own = (
            str(upload(admin, ROWS, columns=WIDE, budget={"epsilon": "10"})["id"]) for _ in range(2)
        )
        never_ending(monkeypatch, own)
        with (
            service.client(make_key(admin, "analyst")["secret"]) as ann,
            service.client(make_key(admin, "analyst")["secret"]) as bob,
        ):
            for _ in range(6):
                assert ask(ann, other, MEDIAN, epsilon="0.001").status_code == 202
            time.sleep(1)
            return takes(bob, own, most_s=most_s)


def test_draws_that_do_not_end_hold_nobody_else_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"response_slot_ms": 100, "job_processes": 2, "drain_timeout_s": 1}
    with running(tmp_path / "data", **settings) as service:
        assert behind_what_never_ends(service, monkeypatch, most_s=60) < 60


@pytest.mark.wide
def test_twin_lanes_that_are_kept_for_ever_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PublicMoments, "late_ms", lambda *_: 10**9)
    settings = {"response_slot_ms": 100, "job_processes": 2, "drain_timeout_s": 1}
    with running(tmp_path / "data", **settings) as service:
        assert behind_what_never_ends(service, monkeypatch, most_s=15) >= 15


def first_in_first_out(connection: Connection, **which: object) -> str | None:
    del which
    query = "SELECT id FROM release WHERE state = 'debited' AND worker IS NULL ORDER BY number"
    found: str | None = connection.execute(text(f"{query} LIMIT 1")).scalar_one_or_none()
    return found


@pytest.mark.parametrize(
    ("length", "settings"),
    [
        pytest.param(MOMENTS, {"response_slot_ms": 100}, id="ticks", marks=pytest.mark.long),
        pytest.param(STACK, {"job_processes": 1}, id="one lane"),
    ],
)
@pytest.mark.wide
def test_twin_first_in_first_out_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: Any, settings: dict[str, int]
) -> None:
    monkeypatch.setattr(releases, "next_to_draw", first_in_first_out)
    with running(tmp_path / "data", drain_timeout_s=5, **settings) as service:
        most_s, behind_s = measure(service, length)
    assert behind_s >= most_s
