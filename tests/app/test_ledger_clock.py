"""A clock behind the ledger's last entry: it dates nothing, and `/readyz` says so."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from app.domain.problems import Problem
from app.services.releases.jobs import JobRunner
from app.services.releases.public_moments import LedgerClock
from app.store.ledger import commands
from app.store.ledger.records import text_of
from tests.app.homes import Home
from tests.app.ledgers import opened
from tests.contract.service import (
    ADMIN_KEY,
    ROWS,
    ask,
    assert_problem,
    make_key,
    running,
    send_upload,
    spec,
    spent,
    upload,
)

DAY_S = 86_400.0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).timestamp()

    def __call__(self) -> float:
        return self.now


def test_the_clock_is_compared_with_the_last_entry(home: Home) -> None:
    clock = Clock()
    with opened(home, total=10**6) as ledger:
        ledger.release("one")
        of_desk = LedgerClock(ledger.store, most_behind_s=300, clock=clock)

        def require() -> None:
            asyncio.run(of_desk.require())

        for moved_s in (0, 10, -9, 100, -250):  # corrections
            clock.now += moved_s
            require()
        clock.now -= 400 * DAY_S
        for act in (require, of_desk.check, require):
            with pytest.raises(Problem, match="clock-behind") as refused:
                act()
            assert "400 days behind" in str(refused.value.detail)
        clock.now += 400 * DAY_S
        require()
        # one look at a clock far ahead, which nothing was dated by, is no entry
        clock.now += 400 * DAY_S
        require()
        clock.now -= 400 * DAY_S
        require()
        of_desk.check()


def test_a_clock_that_was_set_back_dates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = text_of(datetime.now(UTC) + timedelta(days=400))

    async def nothing(*_: object) -> None:
        return None

    with running(tmp_path / "data") as service, service.client() as admin:
        dataset = str(upload(admin, policy={"review": "above:0.5"})["id"])
        bounds = {"type": "number", "lower": -1, "upper": 1}
        points = "x,y\n" + "0,0.5\n0.3,0.2\n-0.4,0.1\n" * 10
        of_job = str(
            upload(admin, points, name="points", columns=dict.fromkeys("xy", bounds))["id"]
        )
        first = ask(admin, dataset, key="before")
        waiting = ask(admin, dataset, epsilon="1")
        curator = make_key(admin, "curator")["secret"]
        analyst = make_key(admin, "analyst")
        with monkeypatch.context() as patched:
            patched.setattr(JobRunner, "_claim", nothing)
            line = {"kind": "quantile_regression", "target": "y", "features": ["x"], "bound": 1}
            job = ask(admin, of_job, line, mechanism="kng")
            assert job.status_code == 202
            at_job = job.headers["location"]
            patched.setattr(commands, "now", lambda: later)
            assert ask(admin, dataset).status_code == 201
    request = f"/v1/releases/{waiting.json()['id']}"
    decision = {"decision": "approve", "reason": "r"}
    with running(tmp_path / "data") as service, service.client() as admin:
        charged = spent(admin, dataset)
        body = assert_problem(ask(admin, dataset), 503, "clock-behind")
        assert body["detail"].endswith("days behind the ledger's last entry.")
        assert_problem(ask(admin, dataset, epsilon="1"), 503, "clock-behind")
        assert ask(admin, dataset, key="before").content == first.content
        grant = {"epsilon": "1", "reason": "another year"}
        refused = [
            send_upload(admin, ROWS, spec(name="another")),
            admin.post(f"/v1/datasets/{dataset}/grants", json=grant),
            admin.put(f"/v1/datasets/{dataset}/caps", json={"person": analyst["person"], **grant}),
            admin.patch(f"/v1/datasets/{dataset}", json={"description": "d", "reason": "r"}),
            admin.post(f"/v1/datasets/{dataset}/archive"),
            admin.delete(f"/v1/datasets/{dataset}"),
            admin.post("/v1/keys", json={"name": "new", "role": "analyst"}),
            admin.post(f"{request}/comments", json={"text": "t"}),
            admin.post(f"{request}/withdrawal"),
            admin.post(
                f"/v1/releases/{first.json()['id']}/publication",
                json={"reason": "r"},
                headers={"If-Match": "*"},
            ),
        ]
        with service.client(curator) as other:
            for how in ("approve", "reject"):
                said = {**decision, "decision": how}
                answer = other.post(f"{request}/decision", json=said, headers={"If-Match": "*"})
                refused.append(answer)
        for answer in refused:
            assert_problem(answer, 503, "clock-behind")
        assert_problem(httpx.get(f"{service.url}/readyz"), 503, "clock-behind")
        assert spent(admin, dataset) == charged
        # what cannot wait
        assert admin.delete(f"/v1/keys/{analyst['id']}").status_code == 204
        pause = {"what": "dataset", "name": dataset, "paused": True, "reason": "r"}
        assert admin.put("/v1/pauses", json=pause).status_code == 200
        pause["paused"] = False
        assert_problem(admin.put("/v1/pauses", json=pause), 503, "clock-behind")
        assert admin.get(at_job).json()["status"] == "running", "it waits for a clock that is right"
        assert admin.get("/v1/ledger/verification").json()["ok"] is True
    with running(tmp_path / "data", max_clock_behind_s=500 * DAY_S) as service:
        assert httpx.get(f"{service.url}/readyz").status_code == 200
        with service.client(ADMIN_KEY) as admin:
            pause["paused"] = False
            assert admin.put("/v1/pauses", json=pause).status_code == 200
            assert ask(admin, dataset).status_code == 201
            until = time.monotonic() + 30
            while admin.get(at_job).json()["status"] != "released" and time.monotonic() < until:
                time.sleep(0.05)
            assert admin.get(at_job).json()["status"] == "released"


def test_what_is_drawn_by_then_is_drawn_again_and_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "data") as service, service.client() as admin:
        dataset = str(upload(admin)["id"])

        async def behind(_: LedgerClock) -> bool:
            return True

        with monkeypatch.context() as patched:
            patched.setattr(LedgerClock, "is_behind", behind)
            assert ask(admin, dataset, key="one").json()["status"] == "running"
        charged = spent(admin, dataset)
        assert ask(admin, dataset, key="one").status_code == 201
        assert spent(admin, dataset) == charged
