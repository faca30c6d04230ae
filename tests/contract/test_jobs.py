"""Jobs over HTTP: 202, polling, replays; nothing is seen before its public moment."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.processes.jobs import JobProcesses
from app.services.releases.draws import DrawDiedError
from app.services.releases.public_moments import PublicMoments
from tests.app import signer_program
from tests.contract.service import (
    ADMIN_KEY,
    Service,
    ask,
    assert_problem,
    running,
    settled,
    spent,
    upload,
)
from tests.desk.browsing import signed_in

SLOT_MS = 20
ROWS = "x,y,z\n" + "0,0.5,0.1\n0.3,0.2,-0.9\n-0.4,0.1,0.6\n" * 10
BOUNDS: dict[str, Any] = {"type": "number", "lower": -1, "upper": 1}
COLUMNS = dict.fromkeys("xyz", BOUNDS)
JOB = {"kind": "quantile_regression", "target": "y", "features": ["x", "z"], "bound": 1}
INLINE = {"kind": "mean", "columns": ["x"]}
DEADLINE_S = 2


@pytest.fixture(scope="module")
def slotted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("jobs") / "data", response_slot_ms=SLOT_MS) as found:
        yield found


@pytest.fixture(scope="module")
def client(slotted: Service) -> Iterator[httpx.Client]:
    with slotted.client() as found:
        yield found


@pytest.fixture(scope="module")
def people(client: httpx.Client) -> str:
    return str(upload(client, ROWS, columns=COLUMNS, budget={"epsilon": "1000"})["id"])


def ask_job(client: httpx.Client, dataset: str, **more: Any) -> httpx.Response:
    return ask(client, dataset, JOB, mechanism="kng", **more)


def test_a_preview_says_what_is_a_job(client: httpx.Client, people: str) -> None:
    def preview(statistic: Any, **more: Any) -> Any:
        body = {"statistic": statistic, "epsilon": "1", **more}
        return client.post(f"/v1/datasets/{people}/previews", json=body).json()["job"]

    assert preview(JOB, mechanism="kng") == {"deadline_s": DEADLINE_S, "expected_s": 2}
    assert preview(INLINE) is None


def test_the_desk_shows_how_far_away_the_public_moment_is(
    slotted: Service, client: httpx.Client, people: str
) -> None:
    with signed_in(slotted, ADMIN_KEY) as desk:
        release = ask_job(client, people, epsilon="1").json()["id"]
        page = desk.open(f"/desk/releases/{release}")
        (bar,) = page.tree.xpath("//p[@data-poll]/progress")
        assert 0 <= int(bar.get("value")) < int(bar.get("max"))
        settled(client, client.get(f"/v1/releases/{release}"))
        assert not desk.open(page.path).tree.xpath("//p[@data-poll]")


@pytest.mark.slow
def test_a_job_is_accepted_shown_at_its_deadline_and_replayed(
    client: httpx.Client, people: str
) -> None:
    before = spent(client, people)
    asked = time.time()
    accepted = ask_job(client, people, key="job", epsilon="1")
    assert accepted.status_code == 202
    body = accepted.json()
    assert (body["status"], body["value"], body["released_at"]) == ("running", None, None)
    assert accepted.headers["location"] == f"/v1/releases/{body['id']}"
    assert 1 <= int(accepted.headers["retry-after"]) <= DEADLINE_S
    charged = spent(client, people)
    assert float(charged) == float(before) + 1

    replay = ask_job(client, people, key="job", epsilon="1")
    assert (replay.status_code, replay.content) == (202, accepted.content)

    shown, seen = poll(client, body["id"])
    assert time.time() >= asked + DEADLINE_S
    assert seen <= {"running"}
    assert shown.json()["status"] == "released"
    assert shown.json()["value"]["coefficients"].keys() == {"(intercept)", "x", "z"}
    assert "retry-after" not in shown.headers

    stored = ask_job(client, people, key="job", epsilon="1")
    assert (stored.status_code, stored.content) == (201, shown.content)
    assert_problem(ask_job(client, people, key="job", epsilon="2"), 422, "idempotency-key-reused")
    assert spent(client, people) == charged


def poll(client: httpx.Client, release: str) -> tuple[httpx.Response, set[str]]:
    """Ask by every way there is until the outcome is shown; return it and what was seen before."""
    seen: set[str] = set()
    tag = None
    while True:
        # the list first: what it shows, the release itself shows a moment later
        listed = client.get("/v1/releases").json()["items"]
        status = next(item["status"] for item in listed if item["id"] == release)
        if status != "running":
            return client.get(f"/v1/releases/{release}"), seen
        answer = client.get(f"/v1/releases/{release}")
        if answer.json()["status"] == "running":
            seen.add("running")
            assert int(answer.headers["retry-after"]) >= 1
            assert tag in (None, answer.headers["etag"])
            tag = answer.headers["etag"]
            derived = client.post(f"/v1/releases/{release}/derivations", json={"statistic": INLINE})
            assert_problem(derived, 422)
        time.sleep(0.05)


def test_a_job_that_fails_is_shown_at_its_deadline_too(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> None:
        raise DrawDiedError

    monkeypatch.setattr(JobProcesses, "draw", die)
    dataset = str(upload(client, ROWS, columns=COLUMNS)["id"])
    asked = time.time()
    accepted = ask_job(client, dataset, key="doomed")
    assert accepted.status_code == 202
    shown, seen = poll(client, accepted.json()["id"])
    assert time.time() >= asked + DEADLINE_S
    assert seen <= {"running"}
    assert (shown.json()["status"], shown.json()["value"]) == ("void", None)
    assert_problem(ask_job(client, dataset, key="doomed"), 500, "release-void")
    assert spent(client, dataset) == "0.1"


def test_an_inline_release_is_shown_with_its_answer(client: httpx.Client, people: str) -> None:
    for _ in range(20):
        answer = ask(client, people, INLINE)
        assert answer.status_code == 201
        shown = client.get(answer.headers["location"])
        assert shown.content == answer.content


def test_no_release_is_shown_before_its_moment(client: httpx.Client, slotted: Service) -> None:
    from app.store import inspecting

    with inspecting(f"sqlite:///{slotted.data_dir / 'release-desk.db'}") as reader:
        records = reader.releases.list(limit=50)
    assert len(records) > 20
    moments = PublicMoments(SLOT_MS)
    for record in records:
        charged = datetime.fromisoformat(record.created_at).timestamp() * 1000
        ended = datetime.fromisoformat(record.finished_at or "").timestamp() * 1000
        moment = moments.public_from_ms(record)
        assert moment >= max(charged + SLOT_MS, ended)
        if '"job": null' in record.plan:
            assert moment % SLOT_MS == 0


def test_a_person_may_have_so_many_unfinished_jobs(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", response_slot_ms=SLOT_MS, max_unfinished_jobs=1) as service,
        service.client() as client,
    ):
        # so many rows are possible: a job counts until its deadline, which this test does not reach
        many = {"adjacency": "add_remove", "max_rows": 10_000_000}
        people = str(upload(client, ROWS, columns=COLUMNS, budget={"epsilon": "10"}, **many)["id"])
        for _ in range(2):  # the same again is no second one
            first = ask_job(client, people, key="first", epsilon="1")
            assert first.status_code == 202
            assert first.json()["job"]["deadline_s"] >= 16
        refused = assert_problem(
            ask_job(client, people, key="second", epsilon="1"), 429, "too-many-jobs"
        )
        assert (refused["limit"], refused["maximum"]) == ("max_unfinished_jobs", 1)
        assert ask(client, people, INLINE, epsilon="1").status_code == 201
        assert spent(client, people) == "2"


@pytest.mark.slow
@pytest.mark.parametrize("statistic", [INLINE, JOB])
def test_what_cannot_be_signed_is_kept_and_drawn_again(
    tmp_path: Path, statistic: dict[str, Any]
) -> None:
    """A signer that is away makes nothing void: nothing of the draw has been shown."""
    keeper = tmp_path / "signer"
    keeper.mkdir()
    (keeper / "key").write_bytes(b"k" * 32)
    signer = shlex.join([sys.executable, str(signer_program.__file__), str(keeper)])
    with (
        running(tmp_path / "data", response_slot_ms=SLOT_MS, signer_command=signer) as service,
        service.client() as client,
    ):
        people = str(upload(client, ROWS, columns=COLUMNS, budget={"epsilon": "10"})["id"])
        (keeper / "gone").touch()
        ask(client, people, statistic, key="one", epsilon="1")
        time.sleep(1.5)
        assert spent(client, people) == "1"
        (keeper / "gone").unlink()
        answer = settled(client, ask(client, people, statistic, key="one", epsilon="1"))
        assert answer.json()["status"] == "released"
        sent = {"Content-Type": "application/json"}
        checked = client.post("/v1/ledger/receipts", content=answer.content, headers=sent)
        assert checked.json()["ok"] is True
        assert spent(client, people) == "1"
    assert not (tmp_path / "data" / "receipts.key").exists()
