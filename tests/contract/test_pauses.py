"""Pauses over HTTP and in the client: what waits, what is refused, what is cancelled."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.client import ReleaseDesk
from tests.contract.service import (
    ADMIN_KEY,
    Service,
    ask,
    assert_problem,
    make_key,
    running,
    settled,
    spent,
    upload,
)

BOUNDS: dict[str, Any] = {"type": "number", "lower": -1, "upper": 1}
COLUMNS = dict.fromkeys("xyz", BOUNDS)
ROWS = "x,y,z\n" + "0,0.5,0.1\n0.3,0.2,-0.9\n-0.4,0.1,0.6\n" * 10
JOB = {"kind": "quantile_regression", "target": "y", "features": ["x", "z"], "bound": 1}
REVIEWED = {"review": "above:0.5"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("pauses") / "data", job_processes=1) as found:
        yield found


@pytest.fixture
def admin(service: Service) -> Iterator[httpx.Client]:
    with service.client() as found:
        yield found


@pytest.fixture
def desk(service: Service) -> Iterator[ReleaseDesk]:
    with ReleaseDesk(service.url, ADMIN_KEY) as found:
        yield found


@pytest.fixture
def people(admin: httpx.Client) -> str:
    made = upload(admin, ROWS, columns=COLUMNS, budget={"epsilon": "100"}, policy=REVIEWED)
    return str(made["id"])


@pytest.fixture
def ann(service: Service, admin: httpx.Client) -> Iterator[tuple[httpx.Client, str]]:
    key = make_key(admin, "analyst")
    with service.client(key["secret"]) as found:
        yield found, key["person"]


def ask_job(client: httpx.Client, dataset: str, key: str) -> httpx.Response:
    return ask(client, dataset, JOB, mechanism="kng", epsilon="0.5", key=key)


@pytest.mark.parametrize("what", ["person", "dataset"])
def test_nothing_is_charged_meanwhile_and_what_is_charged_waits(
    admin: httpx.Client,
    desk: ReleaseDesk,
    people: str,
    ann: tuple[httpx.Client, str],
    what: str,
) -> None:
    client, person = ann
    mean = {"kind": "mean", "columns": ["x"]}
    before = ask(client, people, mean, key="before")
    assert before.status_code == 201
    blocker = upload(admin, ROWS, columns=COLUMNS, budget={"epsilon": "100"})["id"]
    queued = [ask_job(admin, blocker, f"{what} {number}") for number in range(3)]
    job = ask_job(client, people, "job")
    name = {"person": person, "dataset": people}[what]
    assert desk.pause(what, name, reason="a flood") == 0
    for statistic in (JOB, mean):
        refused = assert_problem(ask(client, people, statistic, epsilon="0.5"), 409, "paused")
        assert refused["what"] == what
    waits = ask(client, people, mean, epsilon="0.6")
    assert_problem(waits, 409, "paused")
    assert ask(client, people, mean, key="before").content == before.content
    for each in queued:  # others are served meanwhile
        assert settled(admin, each).json()["status"] == "released"
    time.sleep(0.3)
    shown = client.get(f"/v1/releases/{job.json()['id']}").json()
    assert shown["status"] in {"running", "released"}  # it may have been drawn before the pause
    assert spent(admin, people) == "0.6"
    [pause] = [each for each in desk.pauses() if each.name == name]
    assert (pause.what, pause.reason, pause.paused_by) == (what, "a flood", "bootstrap")
    desk.resume(what, name, reason="over")
    assert [each for each in desk.pauses() if each.name == name] == []
    assert settled(client, job).json()["status"] == "released"
    assert ask(client, people, mean).status_code == 201
    assert desk.verification().ok


def test_what_is_charged_and_paused_is_not_drawn(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", response_slot_ms=20, job_processes=1) as service,
        service.client() as admin,
    ):
        people = upload(admin, ROWS, columns=COLUMNS, budget={"epsilon": "9"})["id"]
        key = make_key(admin, "analyst")
        with service.client(key["secret"]) as ann, ReleaseDesk(service.url, ADMIN_KEY) as desk:
            # the one lane is taken for two seconds, in which she is paused; on a busy machine her
            # job may have had its turn before that, and then she tries once more
            for turn in range(8):
                first = ask_job(admin, people, f"first {turn}").json()["id"]
                time.sleep(0.3)
                job = ask_job(ann, people, f"job {turn}").json()["id"]
                desk.pause("person", key["person"], reason="a flood")
                if service_state(service, job) == ("debited", None):
                    break
                desk.resume("person", key["person"], reason="too late")
                assert_released(service, job)
            assert_released(service, first)
            time.sleep(0.5)
            assert service_state(service, job) == ("debited", None)
            desk.resume("person", key["person"], reason="over")
            assert_released(service, job)


def assert_released(service: Service, release: str) -> None:
    limit = time.monotonic() + 120
    while service_state(service, release)[0] != "released":
        assert time.monotonic() < limit
        time.sleep(0.05)


def service_state(service: Service, release: str) -> tuple[str, str | None]:
    with closing(sqlite3.connect(service.data_dir / "release-desk.db")) as connection:
        row = connection.execute("SELECT state, worker FROM release WHERE id = ?", (release,))
        found: tuple[str, str | None] = row.fetchone()
        return found


@pytest.mark.parametrize("what", ["person", "dataset"])
def test_what_waits_for_a_review_is_cancelled_and_given_back(
    admin: httpx.Client, desk: ReleaseDesk, people: str, ann: tuple[httpx.Client, str], what: str
) -> None:
    client, person = ann
    mean = {"kind": "mean", "columns": ["x"]}
    waiting = [ask(client, people, mean, epsilon="1").json()["id"] for _ in range(3)]
    other = upload(admin, ROWS, columns=COLUMNS, budget={"epsilon": "9"}, policy=REVIEWED)["id"]
    elsewhere = ask(admin, other, mean, epsilon="1").json()["id"]
    name = {"person": person, "dataset": people}[what]
    kept = desk.pause(what, name, reason="a flood")
    assert kept == 0
    assert desk.pause(what, name, reason="a flood of reviews", cancel_waiting=True) == 3
    for release in waiting:
        shown = client.get(f"/v1/releases/{release}").json()
        assert (shown["status"], shown["review"]["reason"]) == ("rejected", "a flood of reviews")
    assert admin.get(f"/v1/releases/{elsewhere}").json()["status"] == "awaiting_review"
    budget = admin.get(f"/v1/datasets/{people}/budget").json()["epsilon"]
    assert (budget["spent"], budget["reserved"]) == ("0", "0")
    assert desk.verification().ok


def test_only_what_there_is_can_be_paused(desk: ReleaseDesk, admin: httpx.Client) -> None:
    for what, name in (("person", "nobody at all"), ("dataset", "ds_none")):
        body = {"what": what, "name": name, "paused": True, "reason": "r"}
        found = assert_problem(admin.put("/v1/pauses", json=body), 422, "invalid-request")
        assert found["errors"][0]["field"] == "name"
    desk.resume("person", "bootstrap", reason="it never was")


def test_an_approval_is_a_charge(
    desk: ReleaseDesk, admin: httpx.Client, people: str, ann: tuple[httpx.Client, str]
) -> None:
    client, person = ann
    waits = ask(client, people, {"kind": "mean", "columns": ["x"]}, epsilon="1").json()["id"]
    desk.pause("person", person, reason="a flood")
    seen = admin.get(f"/v1/releases/{waits}")
    answer = admin.post(
        f"/v1/releases/{waits}/decision",
        json={"decision": "approve", "reason": "fine"},
        headers={"If-Match": seen.headers["ETag"]},
    )
    assert_problem(answer, 409, "paused")
    assert spent(admin, people) == "0"
    desk.resume("person", person, reason="over")
    assert desk.approve(waits, reason="fine").status == "running"
