"""Jobs on one lane: throughput when the lane is freed at once, and when it stays taken.

A lane stays taken until a public moment, so that waiters do not learn when a draw ended
(``app/services/releases/jobs.py``). The cost is measured from the ends of draws in
the ledger: the service shows them later, and in groups.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np

from studies import service

_WIDE = [f"c{place}" for place in range(64)]
_QUESTIONS: Mapping[str, tuple[Mapping[str, object], int]] = {
    "geometric median of 2 columns": ({"kind": "geometric_median", "columns": _WIDE[:2]}, 5),
    "moments of 64 columns": ({"kind": "moments", "columns": _WIDE}, 3),
}
_ROWS = 500
_LONGEST_S = 120.0


@dataclass(frozen=True, slots=True)
class LanePrice:
    """Seconds from one draw's end to the next on one lane: freed at once, and kept taken."""

    what: str
    free_s: float
    kept_s: float

    @property
    def share(self) -> float:
        """Return how much is left of the jobs that a lane could draw."""
        return self.free_s / self.kept_s


def lane_prices() -> Iterator[LanePrice]:
    """Yield the cost of keeping a lane taken, for a short job and for a long one."""
    free, kept = _seconds(slot_ms=0), _seconds(slot_ms=100)
    for what in _QUESTIONS:
        yield LanePrice(what, free[what], kept[what])


def _seconds(*, slot_ms: int) -> Mapping[str, float]:
    """Return the median seconds from one draw's end to the next, by what is drawn."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"response_slot_ms": slot_ms, "job_processes": 1}
        with service.server(Path(folder), settings) as port:
            dataset = _upload(port)
            return {
                what: _between_ends(port, Path(folder), dataset, statistic, count)
                for what, (statistic, count) in _QUESTIONS.items()
            }


def _upload(port: int) -> str:
    values = np.random.default_rng(1).uniform(-1, 1, (_ROWS, len(_WIDE)))
    lines = (",".join(f"{value:.4f}" for value in row) for row in values)
    columns = {name: {"type": "number", "lower": -1, "upper": 1} for name in _WIDE}
    return service.send_upload(port, "jobs", columns, "\n".join((",".join(_WIDE), *lines)) + "\n")


def _between_ends(
    port: int, folder: Path, dataset: str, statistic: Mapping[str, object], count: int
) -> float:
    """Ask for one job to warm up, and for others; return the median time from end to end."""
    asked = [_ask(port, dataset, statistic) for _ in range(count + 1)]
    deadline = time.monotonic() + _LONGEST_S
    while len(ends := _ends(folder, asked)) < len(asked):
        if time.monotonic() > deadline:
            raise RuntimeError("the jobs were not drawn")
        time.sleep(0.2)
    return statistics.median(
        (later - earlier).total_seconds() for earlier, later in pairwise(ends[1:])
    )


def _ask(port: int, dataset: str, statistic: Mapping[str, object]) -> str:
    answer = httpx.post(
        f"http://127.0.0.1:{port}/v1/datasets/{dataset}/releases",
        content=json.dumps({"statistic": statistic, "epsilon": "1"}),
        headers={
            "Authorization": f"Bearer {service.KEY}",
            "Content-Type": "application/json",
            "Idempotency-Key": str(time.monotonic_ns()),
        },
        timeout=120,
    )
    answer.raise_for_status()
    return str(answer.json()["id"])


def _ends(folder: Path, releases: list[str]) -> list[datetime]:
    """Return when those of the releases that are drawn were, in order."""
    with closing(sqlite3.connect(folder / "release-desk.db")) as connection:
        rows = connection.execute("SELECT id, finished_at FROM release").fetchall()
    known = {name: at for name, at in rows if at is not None}
    return sorted(datetime.fromisoformat(known[name]) for name in releases if name in known)
