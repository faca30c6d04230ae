"""429 comes before everything else a valid key may ask, and says when to come back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.domain.problems import Problem
from app.services.people.rates import RateLimiter
from app.store import Portion
from tests.contract.service import ask, assert_problem, make_key, running, spent, upload


class Clock:
    """A clock that stands still until it is moved."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def take(rates: RateLimiter, *keys: str) -> None:
    async def all_of_them() -> None:
        for key in keys:
            await rates.take(key)

    asyncio.run(all_of_them())


def test_each_key_has_a_window_of_its_own() -> None:
    clock = Clock()
    rates = RateLimiter(3, clock=clock)
    take(rates, "a", "a", "a")
    clock.now += 20.5
    with pytest.raises(Problem) as refused:
        take(rates, "a")
    assert (refused.value.code, refused.value.retry_after_s) == ("rate-limited", 40)
    take(rates, "b")
    clock.now += 39.5
    take(rates, "a", "a", "a")
    with pytest.raises(Problem):
        take(rates, "a")


def test_no_limit_counts_nothing() -> None:
    rates = RateLimiter(0, clock=Clock())
    take(rates, *["a"] * 10_000)
    assert rates.known == frozenset()


def test_windows_that_ended_are_forgotten() -> None:
    clock = Clock()
    rates = RateLimiter(1, clock=clock)
    take(rates, *map(str, range(5_000)))
    clock.now += 60
    take(rates, "last")
    assert rates.known == {"last"}


# Several processes of one database


class Ledger:
    """Gives out portions as the database does, or fails."""

    def __init__(self, most: int) -> None:
        self.most, self.asked, self.fails = most, 0, False

    async def share(self, key: str, wanted: int) -> Portion:
        await asyncio.sleep(0)
        self.asked += 1
        if self.fails:
            raise Problem("ledger-frozen")
        given = min(wanted, self.most)
        self.most -= given
        return Portion(given, 30_000)


async def taken(rates: Sequence[RateLimiter], requests: int) -> int:
    """Return how many of so many requests, to processes in turn and all at once, are let in."""
    each = [rates[number % len(rates)].take("a") for number in range(requests)]
    outcomes = await asyncio.gather(*each, return_exceptions=True)
    refused = [each for each in outcomes if each is not None]
    assert {getattr(each, "code", each) for each in refused} <= {"rate-limited"}
    return requests - len(refused)


@pytest.mark.parametrize(("most", "processes"), [(5, 4), (300, 3), (1_600, 4)])
def test_processes_together_let_in_no_more_than_one_would(most: int, processes: int) -> None:
    ledger = Ledger(most)
    rates = [RateLimiter(most, share=ledger.share, clock=Clock()) for _ in range(processes)]
    assert asyncio.run(taken(rates, 2 * most)) == most
    assert ledger.asked <= 80 + processes, "not the database for every request"


def test_processes_that_share_nothing_are_caught() -> None:
    rates = [RateLimiter(5, clock=Clock()) for _ in range(4)]
    assert asyncio.run(taken(rates, 100)) == 20


def test_while_the_database_does_not_answer_each_counts_alone() -> None:
    ledger = Ledger(100)
    ledger.fails = True
    assert asyncio.run(taken([RateLimiter(5, share=ledger.share, clock=Clock())], 10)) == 5


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
