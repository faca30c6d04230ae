"""All 4,950 tables of two of 100 columns, a million cells, through a server: time and memory.

Released, read as lines, shown and downloaded at the desk. What is bounded is processor time of all
processes, on any machine in proportion to its speed, and the memory that is theirs together.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest

from app.store import inspecting
from tests.e2e.live import ADMIN_KEY, LiveServer, upload
from tests.speed import in_time

pytestmark = [pytest.mark.slow, pytest.mark.timed]

NAMES = [f"c{place:02d}" for place in range(100)]
VALUES = [f"v{place:02d}" for place in range(14)]
ROWS = 20_000
CELLS = 4950 * 14**2
ASKED = {
    "statistic": {"kind": "tables", "columns": NAMES, "margins": "all_two_way"},
    "epsilon": "1",
}
PREVIEW_S, RELEASE_S, PAGE_S, DESK_S = 2.0, 60.0, 2.0, 3.0
MOST_BYTES = 2 << 30
PAGE_BYTES = 500_000


def rows() -> str:
    """Return a file in which columns depend on one another."""
    generator = np.random.default_rng(7)
    kinds = generator.integers(2, 15, (ROWS, 1))
    codes = generator.integers(0, 1 << 30, (ROWS, len(NAMES))) % kinds
    lines = (",".join([VALUES[code] for code in row]) for row in codes.tolist())
    return "\n".join([",".join(NAMES), *lines, ""])


class Watched:
    """What the processes of a server have used together, since the last look."""

    def __init__(self, pid: int) -> None:
        self._server = psutil.Process(pid)
        self._taken: dict[int, float] = {}
        self._stopped = threading.Event()
        self.bytes = 0

    def watch(self) -> None:
        """Look at all processes until the end."""
        while not self._stopped.wait(0.2):
            self.look()

    def look(self) -> float:
        """Return the processor time of all of them, those included that have ended."""
        memory = 0
        for each in [self._server, *self._server.children(recursive=True)]:
            with suppress(psutil.Error):
                times = each.cpu_times()
                self._taken[each.pid] = times.user + times.system
                memory += each.memory_full_info().pss
        self.bytes = max(self.bytes, memory)
        return sum(self._taken.values())

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Run a block that takes less processor time than this on a usual machine."""
        before = self.look()
        yield
        taken = self.look() - before
        assert in_time(taken, seconds), f"{taken:.1f} s of {seconds} s"

    def __enter__(self) -> Watched:
        self._thread = threading.Thread(target=self.watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def released(client: httpx.Client, dataset: str) -> httpx.Response:
    """Release the tables: a job, which says when it is shown."""
    answer = client.post(
        f"/v1/datasets/{dataset}/releases", json=ASKED, headers={"Idempotency-Key": "all"}
    )
    assert answer.status_code == 202, answer.text[:300]
    job, path = answer.json()["job"], f"/v1/releases/{answer.json()['id']}"
    assert (job["deadline_s"], job["expected_s"] < 32) == (32, True)
    deadline = time.monotonic() + 280
    while answer.json()["status"] == "running" and time.monotonic() < deadline:
        time.sleep(0.5)
        answer = client.get(path)
    return answer


def require_agreement(value: dict[str, Any]) -> None:
    """All tables are there, whole, not negative, and agree in every column."""
    assert [table["columns"] for table in value["tables"]] == [
        list(pair) for pair in combinations(NAMES, 2)
    ]
    known: dict[str, Any] = {}
    for table in value["tables"]:
        counts = [cell["count"] for cell in table["cells"]]
        assert all(isinstance(count, int) and count >= 0 for count in counts)
        square = np.array(counts).reshape(14, 14)
        sums = square.sum(axis=1), square.sum(axis=0)
        for name, own in zip(table["columns"], sums, strict=True):
            assert np.array_equal(known.setdefault(name, own), own)
        assert square.sum() == value["rows"] == ROWS


def lines_of(client: httpx.Client, release: str) -> list[bytes]:
    """Return all cells as lines, from one page to the next."""
    found: list[bytes] = []
    path: str | None = f"/v1/releases/{release}/cells?format=jsonl&limit=100000"
    while path is not None:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text[:300]
        found += answer.content.splitlines()
        path = answer.links.get("next", {}).get("url")
    return found


def require_public(
    server: LiveServer, client: httpx.Client, dataset: str, release: str, watched: Watched
) -> None:
    """Publish it: its page takes no longer than a small one's, and the file has all cells."""
    published = client.post(
        f"/v1/releases/{release}/publication", json={"reason": "for all"}, headers={"If-Match": "*"}
    )
    assert published.status_code == 201, published.text[:300]
    with httpx.Client(base_url=f"{server.url}/public", verify=False, timeout=280) as everyone:
        with watched.within(PAGE_S):
            page = everyone.get(f"/releases/{release}?rows=c50&across=c77")
        assert page.status_code == 200
        assert len(page.content) < PAGE_BYTES
        with watched.within(RELEASE_S):
            file = everyone.get(f"/releases/{release}.csv")
        assert file.content.count(b"\n") == CELLS + 1
        with watched.within(PAGE_S):
            catalogue = everyone.get(f"/datasets/{dataset}/croissant.json").json()
        assert catalogue["distribution"] == []


@contextmanager
def desk_of(server: LiveServer) -> Iterator[httpx.Client]:
    """Sign in at the desk."""
    options = {"timeout": 120, "verify": False, "follow_redirects": True}
    with httpx.Client(base_url=server.url, **options) as desk:  # type: ignore[arg-type]
        desk.post("/desk/sign-in", data={"key": ADMIN_KEY}, headers={"Origin": server.url})
        yield desk


def test_a_million_cells_are_released_read_and_shown(tmp_path: Path) -> None:
    columns = {name: {"type": "category", "values": VALUES} for name in NAMES}
    with LiveServer(tmp_path / "data") as server, server.client() as client:
        dataset = upload(client, rows(), columns)["id"]
        with Watched(server.pid) as watched:
            with watched.within(PREVIEW_S):
                preview = client.post(f"/v1/datasets/{dataset}/previews", json=ASKED)
            assert preview.status_code == 200, preview.text[:300]
            assert len(preview.content) < 2 << 20
            with watched.within(RELEASE_S):
                answer = released(client, dataset)
            release, value = answer.json()["id"], answer.json()["value"]
            with watched.within(PAGE_S):
                page = client.get(f"/v1/releases/{release}/cells?format=csv&after=500000&limit=500")
            assert page.content.count(b"\n") == 501
            with desk_of(server) as desk, watched.within(3 * DESK_S):
                shown = desk.get(f"/desk/releases/{release}?rows=c50&across=c77")
                files = [
                    desk.get(f"/desk/releases/{release}/pivot.{ending}?rows=c50&across=c77")
                    for ending in ("csv", "xlsx")
                ]
            lines = lines_of(client, release)
            require_public(server, client, dataset, release, watched)
            memory = watched.bytes
    require_agreement(value)
    cells = [(place, cell) for place, t in enumerate(value["tables"]) for cell in t["cells"]]
    assert len(lines) == len(cells) == CELLS
    for at in range(0, CELLS, 9973):
        place, cell = cells[at]
        line = json.loads(lines[at])
        assert (line["table"], line["cell"], line["count"]) == (place, cell["cell"], cell["count"])
    assert shown.status_code == 200
    assert len(shown.content) < PAGE_BYTES
    assert re.search(r"4,950", shown.text)
    assert [each.status_code for each in files] == [200, 200]
    assert files[0].text.count("\n") >= 14
    assert memory < MOST_BYTES, f"{memory >> 20} MB"
    with inspecting(f"sqlite:///{tmp_path}/data/release-desk.db") as reader:
        assert reader.verify().ok
