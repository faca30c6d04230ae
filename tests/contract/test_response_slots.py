"""Answers to release requests leave at ticks of a public clock, whatever they say."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from app.domain.units import response_schedule
from app.services.releases import charged_draws
from app.services.releases import draws as draw_module
from tests.contract.service import Service, ask, assert_problem, make_key, running, upload

SLOT_MS = 50
Ask = Callable[[], httpx.Response]


@pytest.fixture(scope="module")
def slotted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("slots") / "data", response_slot_ms=SLOT_MS) as found:
        yield found


@pytest.fixture(scope="module")
def client(slotted: Service) -> Iterator[httpx.Client]:
    with slotted.client() as found:
        yield found


def earliest(sent_s: float) -> float:
    """Return when the answer to a request sent at this moment may leave at the earliest."""
    return response_schedule(arrived_ms=int(sent_s * 1000), slot_ms=SLOT_MS).deadline_ms / 1000


def answered(request: Ask, status: int) -> httpx.Response:
    """Ask, and check that the answer was held until its tick."""
    sent = time.time()
    answer = request()
    assert time.time() >= earliest(sent)
    assert answer.status_code == status, answer.text
    return answer


def posted(client: httpx.Client, dataset: str, body: str, media_type: str) -> httpx.Response:
    """Send what is no release request to where they go."""
    headers = {"Content-Type": media_type, "Idempotency-Key": "first"}
    return client.post(f"/v1/datasets/{dataset}/releases", content=body, headers=headers)


def test_no_answer_comes_before_its_tick(client: httpx.Client) -> None:
    dataset = str(upload(client, budget={"epsilon": "1"})["id"])
    requests: dict[str, tuple[Ask, int]] = {
        "release": (lambda: ask(client, dataset, key="first"), 201),
        "replay": (lambda: ask(client, dataset, key="first"), 201),
        "key reused": (lambda: ask(client, dataset, key="first", epsilon="0.2"), 422),
        "too dear": (lambda: ask(client, dataset, epsilon="2"), 409),
        "no such column": (
            lambda: ask(client, dataset, {"kind": "mean", "columns": ["absent"]}),
            422,
        ),
        "no such data set": (lambda: ask(client, "ds_absent"), 404),
        "no such kind": (lambda: ask(client, dataset, {"kind": "absent"}), 422),
        "no JSON": (lambda: posted(client, dataset, "{", "application/json"), 422),
        "another media type": (lambda: posted(client, dataset, "{}", "text/plain"), 415),
    }
    for request, status in requests.values():
        answered(request, status)


def test_no_answer_about_a_review_comes_before_its_tick(
    slotted: Service, client: httpx.Client
) -> None:
    dataset = str(upload(client, policy={"review": "always"})["id"])
    with slotted.client(make_key(client, "curator")["secret"]) as curator:

        def decide(decision: str, release: str, tag: str = "reserved") -> httpx.Response:
            return curator.post(
                f"/v1/releases/{release}/decision",
                json={"decision": decision, "reason": "fine"},
                headers={"If-Match": f'"{tag}"'},
            )

        approved, rejected, mine = (
            str(answered(lambda: ask(client, dataset), 202).json()["id"]) for _ in range(3)
        )
        answered(lambda: decide("approve", approved), 202)
        answered(lambda: decide("approve", approved), 412)
        answered(lambda: decide("reject", rejected), 200)
        answered(lambda: decide("reject", rejected, "rejected"), 409)
        answered(lambda: decide("reject", "rel_absent"), 404)
        withdraw = lambda: client.post(f"/v1/releases/{mine}/withdrawal")  # noqa: E731
        answered(withdraw, 200)
        answered(withdraw, 200)
        answered(lambda: curator.post(f"/v1/releases/{mine}/withdrawal"), 404)


def test_an_approved_release_is_shown_at_its_deadline(
    slotted: Service, client: httpx.Client
) -> None:
    """However quickly it is drawn: two seconds after its approval at the earliest."""
    dataset = str(upload(client, policy={"review": "always"})["id"])
    release = str(ask(client, dataset).json()["id"])
    with slotted.client(make_key(client, "curator")["secret"]) as curator:
        body, headers = {"decision": "approve", "reason": "fine"}, {"If-Match": '"reserved"'}
        sent = time.time()
        curator.post(f"/v1/releases/{release}/decision", json=body, headers=headers)
        while (shown := curator.get(f"/v1/releases/{release}")).json()["status"] == "running":
            assert shown.headers["etag"] == '"debited"'
            assert time.time() < sent + 60
            time.sleep(0.02)
    assert time.time() >= sent + 2
    assert shown.json()["status"] == "released"


def draw_alone(monkeypatch: pytest.MonkeyPatch, run: Callable[..., object]) -> None:
    """Have draws made by this function, each in a thread of its own."""
    monkeypatch.setattr(charged_draws, "run", run)
    monkeypatch.setattr(draw_module, "batched_ms", lambda *_: math.inf)


def test_a_failure_after_the_charge_waits_too(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    dataset = str(upload(client)["id"])
    draw_alone(monkeypatch, broken)
    assert_problem(answered(lambda: ask(client, dataset, key="a"), 500), 500, "release-void")
    assert_problem(answered(lambda: ask(client, dataset, key="a"), 500), 500, "release-void")


def test_a_draw_that_is_late_is_answered_at_a_doubling(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, work_s = charged_draws.run, 0.13

    def slow(*arguments: Any) -> Any:
        time.sleep(work_s)
        return draw(*arguments)

    dataset = str(upload(client)["id"])
    draw_alone(monkeypatch, slow)
    sent = time.time()
    schedule = response_schedule(arrived_ms=int(sent * 1000), slot_ms=SLOT_MS)
    ask(client, dataset)
    assert time.time() * 1000 >= schedule.first_from(int((sent + work_s) * 1000))
