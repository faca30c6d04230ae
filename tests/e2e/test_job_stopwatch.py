"""A stopwatch through the queue: jobs behind a draw say nothing of how long it took.

Two services differ in nothing but how long the draws on one data set take, and both are
within that job's deadline. Somebody else's jobs wait behind one of them, on the only lane.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from scipy.stats import ks_2samp

from app.processes.jobs import JobProcesses
from app.services.releases.public_moments import PublicMoments
from app.store import DatasetRecord, ReleaseRecord
from tests.contract.service import Service, ask, make_key, running, upload
from tests.speed import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.timed]

COLUMNS = {name: {"type": "number", "lower": -1, "upper": 1} for name in "wxyz"}
ROWS = "w,x,y,z\n" + "0.2,0,0.5,0.1\n0.1,0.3,0.2,-0.9\n-0.3,-0.4,0.1,0.6\n" * 100
TARGET = {"kind": "geometric_median", "columns": ["w", "x", "y", "z"]}
PROBE = {"kind": "geometric_median", "columns": ["x", "y"]}
TARGET_S = 4
QUICK_S, SLOW_S = 0.3, 3.0
PROBES = 10
LEAST_P = 1e-4


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Return how many seconds longer draws take, by data set.

    Elsewhere the first answer is given again at once: probes that take no time, on a busy
    machine too, say nothing but when they had the lane.
    """
    longer: dict[str, float] = {}
    first: dict[str, bytes | None] = {}
    draw = JobProcesses.draw

    async def timed(
        self: JobProcesses, record: ReleaseRecord, dataset: DatasetRecord, manifest: str | None
    ) -> bytes | None:
        if dataset.id in longer:
            answer = await draw(self, record, dataset, manifest)
            await asyncio.sleep(longer[dataset.id])
            return answer
        if dataset.id not in first:
            first[dataset.id] = await draw(self, record, dataset, manifest)
        return first[dataset.id]

    monkeypatch.setattr(JobProcesses, "draw", timed)
    return longer


def watch(client: httpx.Client, probes: Sequence[str], begun: float) -> list[float]:
    """Return how many seconds after the beginning each release is shown."""
    shown: dict[str, float] = {}
    while len(shown) < len(probes):
        for probe in probes:
            if probe in shown:
                continue
            if client.get(f"/v1/releases/{probe}").json()["status"] == "released":
                shown[probe] = time.monotonic() - begun
        time.sleep(0.1)
        assert time.monotonic() < begun + PATIENCE_S
    return sorted(shown.values())


def moments(service: Service, lengths: dict[str, float], draw_s: float) -> list[float]:
    """Return when jobs behind a draw of some length are shown."""
    with service.client() as admin:
        private, other = (
            str(upload(admin, ROWS, columns=COLUMNS, budget={"epsilon": "100"})["id"])
            for _ in range(2)
        )
        with service.client(make_key(admin, "analyst")["secret"]) as spy:
            warm = ask(spy, other, PROBE, epsilon="1").json()["id"]
            watch(spy, [warm], time.monotonic())
            lengths[private] = draw_s
            begun = time.monotonic()
            target = ask(admin, private, TARGET, epsilon="1")
            assert 2 < int(target.headers["retry-after"]) <= TARGET_S
            with ThreadPoolExecutor(PROBES) as threads:
                asked = threads.map(lambda _: ask(spy, other, PROBE, epsilon="1"), range(PROBES))
                probes = [each.json()["id"] for each in asked]
            return watch(spy, probes, begun)


def p_value(tmp_path: Path, lengths: dict[str, float]) -> float:
    """Return how likely it is that a quick and a slow draw give such moments if they are alike."""
    settings = {"response_slot_ms": 100, "job_processes": 1, "drain_timeout_s": 5}
    with (
        running(tmp_path / "quick", **settings) as one,
        running(tmp_path / "slow", **settings) as other,
        ThreadPoolExecutor(2) as threads,
    ):
        quick, slow = threads.map(
            lambda each: moments(each[0], lengths, each[1]), ((one, QUICK_S), (other, SLOW_S))
        )
    return float(ks_2samp(quick, slow).pvalue)


def test_jobs_behind_a_draw_do_not_tell_how_long_it_took(
    tmp_path: Path, lengths: dict[str, float]
) -> None:
    assert p_value(tmp_path, lengths) > LEAST_P


@pytest.mark.wide
def test_twin_a_lane_freed_at_the_end_of_its_draw_is_caught(
    tmp_path: Path, lengths: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_self: PublicMoments, _record: Any) -> int:
        return 0

    monkeypatch.setattr(PublicMoments, "lane_taken_ms", nothing)
    # On a busy machine ten probes take as long as the difference, which is hidden then. Nothing
    # makes one up.
    assert any(p_value(tmp_path / str(turn), lengths) < LEAST_P for turn in range(3))
