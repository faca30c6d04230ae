"""Answers to release requests leave at ticks of a public clock, whatever they say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from app.domain.timing import response_schedule
from app.services import draws as draw_module
from tests.contract.service import Service, ask, assert_problem, running, upload

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
    }
    for request, status in requests.values():
        answered(request, status)


def test_a_failure_after_the_charge_waits_too(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    dataset = str(upload(client)["id"])
    monkeypatch.setattr(draw_module, "run", broken)
    assert_problem(answered(lambda: ask(client, dataset, key="a"), 500), 500, "release-void")
    assert_problem(answered(lambda: ask(client, dataset, key="a"), 500), 500, "release-void")


def test_a_draw_that_is_late_is_answered_at_a_doubling(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, work_s = draw_module.run, 0.13

    def slow(*arguments: Any) -> Any:
        time.sleep(work_s)
        return draw(*arguments)

    dataset = str(upload(client)["id"])
    monkeypatch.setattr(draw_module, "run", slow)
    sent = time.time()
    schedule = response_schedule(arrived_ms=int(sent * 1000), slot_ms=SLOT_MS)
    ask(client, dataset)
    assert time.time() * 1000 >= schedule.first_from(int((sent + work_s) * 1000))
