"""Exact spending: equal parts of one, racing duplicates, and analysts who collude."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from app.domain.problems import BudgetExceededError
from app.store import Charged, Debit
from mechanisms.privacy import Epsilon
from tests.app.ledgers import CURATOR, Ledger, Place, opened
from tests.app.test_ledger_race import hold, outcome_of
from tests.tiers import wide

ONE = Epsilon.parse("1").nanos
CALLERS = 64


def debit_of(ledger: Ledger, person: str, key: str, amount: int, dataset: str = "") -> Debit:
    return Debit(
        dataset=dataset or ledger.dataset, principal=person, idem=key, amount=amount,
        request="{}", plan="{}",
    )  # fmt: skip


@pytest.mark.slow
def test_one_splits_into_equal_decimal_parts_for_every_count_up_to_150(place: Place) -> None:
    """Each part is 1/n in decimal text, as a client sends it: n of them fit, one more never."""
    with opened(place, total=ONE) as ledger:
        for count in range(1, 151):
            part = Epsilon.parse(f"{ONE // count / ONE:.9f}").nanos
            assert part == ONE // count
            account = ledger.store.write(
                lambda u: u.accounts.open(total=ONE, principal=CURATOR, reason="r")
            ).id
            dataset = ledger.store.write(
                lambda u, a=account, n=count: u.datasets.insert(
                    name=f"parts {n}", account=a, spec="{}", rows=1, principal=CURATOR
                )
            ).id
            go = hold(ledger)
            futures = [
                ledger.store.writer.submit(debit_of(ledger, "ann", f"{count}/{n}", part, dataset))
                for n in range(count + 1)
            ]
            go.set()
            assert all(future.result(60).fresh for future in futures[:-1])
            refused = futures[-1].exception(60)
            assert isinstance(refused, BudgetExceededError)
            assert refused.remaining == ONE - count * part
        assert ledger.store.verify().ok


async def send_all(ledger: Ledger, keys: list[str]) -> Counter[tuple[str, bool]]:
    """Send every key from 64 tasks; count what each came to, by release and freshness."""
    seen: Counter[tuple[str, bool]] = Counter()
    waiting = iter(keys)

    async def caller() -> None:
        for key in waiting:
            charged: Charged = await ledger.store.awrite(debit_of(ledger, "ann", key, 1))
            seen[charged.record.id, charged.fresh] += 1

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return seen


def race_duplicates(place: Place, *, requests: int, keys: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    sent = [f"key {number % keys}" for number in range(requests)]
    random.Random(seed).shuffle(sent)
    with opened(place, total=keys) as ledger:
        seen = asyncio.run(send_all(ledger, sent))
        assert sum(seen.values()) == requests
        assert sum(count for (_, fresh), count in seen.items() if fresh) == keys
        assert len({release for release, _ in seen}) == keys
        assert all(count == 1 for (_, fresh), count in seen.items() if fresh)
        assert ledger.balance() == (keys, keys, 0)
        assert ledger.store.verify().ok


def test_racing_duplicates_are_charged_once(place: Place) -> None:
    race_duplicates(place, requests=5_000, keys=200)


@pytest.mark.parametrize(
    "place",
    [
        *wide("sqlite"),
        pytest.param(
            "postgres", marks=[pytest.mark.postgres, pytest.mark.long, pytest.mark.timeout(3600)]
        ),
    ],
    indirect=True,
)
def test_100_000_racing_duplicates_on_1000_keys(place: Place) -> None:
    race_duplicates(place, requests=100_000, keys=1_000)


def test_ten_colluding_analysts_spend_one_account_once(place: Place) -> None:
    """Two data sets of the same people, ten analysts, each asking for the whole budget."""
    people = [f"analyst {number}" for number in range(10)]
    with opened(place, total=30) as ledger:
        other = ledger.store.write(
            lambda u: u.datasets.insert(
                name="again", account=ledger.account, spec="{}", rows=3, principal=CURATOR
            )
        ).id

        def collude(person: str) -> int:
            outcomes: Counter[str] = Counter()
            for number in range(30):
                dataset = other if number % 2 else ledger.dataset
                wanted = debit_of(ledger, person, str(number), 1, dataset)
                outcomes[outcome_of(partial(ledger.store.write, wanted))] += 1
            assert outcomes.keys() <= {"granted", "budget-exceeded"}
            return outcomes["granted"]

        with ThreadPoolExecutor(len(people)) as pool:
            won = dict(zip(people, pool.map(collude, people), strict=True))
        assert sum(won.values()) == 30
        assert ledger.balance() == (30, 30, 0)
        with ledger.store.reading() as r:
            assert {p: r.accounts.spent_by(ledger.account, p) for p in people} == won
        assert ledger.store.verify().ok
