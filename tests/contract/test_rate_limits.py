"""429 comes before everything else a valid key may ask, and says when to come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.domain.problems import Problem
from app.services.people.rates import RateLimiter
from tests.contract.service import ask, assert_problem, make_key, running, spent, upload


class Clock:
    """A clock that stands still until it is moved."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_each_key_has_a_window_of_its_own() -> None:
    clock = Clock()
    rates = RateLimiter(3, clock=clock)
    for _ in range(3):
        rates.take("a")
    clock.now += 20.5
    with pytest.raises(Problem) as refused:
        rates.take("a")
    assert (refused.value.code, refused.value.retry_after_s) == ("rate-limited", 40)
    rates.take("b")
    clock.now += 39.5
    for _ in range(3):
        rates.take("a")
    with pytest.raises(Problem):
        rates.take("a")


def test_no_limit_counts_nothing() -> None:
    rates = RateLimiter(0, clock=Clock())
    for _ in range(10_000):
        rates.take("a")
    assert rates._windows == {}


def test_windows_that_ended_are_forgotten() -> None:
    clock = Clock()
    rates = RateLimiter(1, clock=clock)
    for number in range(5_000):
        rates.take(str(number))
    clock.now += 60
    rates.take("last")
    assert set(rates._windows) == {"last"}


def test_the_limit_comes_before_the_idempotency_look_up(tmp_path: Path) -> None:
    with running(tmp_path / "data", rate_limit_per_minute=6) as service, service.client() as admin:
        dataset = str(upload(admin)["id"])
        key = make_key(admin, "analyst")
        with service.client(key["secret"]) as analyst:
            first = ask(analyst, dataset, key="again")
            assert first.status_code == 201
            for _ in range(5):
                assert ask(analyst, dataset, key="again").content == first.content
            for sent in ("again", "new"):
                problem = assert_problem(ask(analyst, dataset, key=sent), 429, "rate-limited")
                assert 1 <= problem["retry_after"] <= 60
            answer = analyst.get("/v1/datasets/unknown")
            assert answer.headers["retry-after"] == str(answer.json()["retry_after"])
            # a role that does not suffice is not told before the limit either
            assert_problem(analyst.get("/v1/keys"), 429, "rate-limited")
        assert spent(admin, dataset) == "0.1"
        with service.client("x" * 40) as nobody:
            for _ in range(10):
                assert_problem(nobody.get("/v1/datasets"), 401, "unauthorized")
            assert nobody.get("/livez").status_code == 200
