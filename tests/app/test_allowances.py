"""Allowances: what one person may have stored in a day, on both databases, over restarts."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.services.plans.answers import answer_bytes
from app.services.plans.questions import Question
from app.settings import Settings
from app.store import Debit
from app.store.ledger import commands
from app.store.ledger.commands import ENTRY_BYTES
from mechanisms.domain import CategoryColumn, Column, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.tables import Tables
from tests.app.ledgers import ANALYST, Ledger, Place, opened

SIZE = ENTRY_BYTES + 4 + 10
"""Of the releases here: two texts of two letters, and an answer reckoned at 10 bytes."""


def debit(ledger: Ledger, idem: str, *, most: int | None, person: str = ANALYST) -> Debit:
    return Debit(
        dataset=ledger.dataset, principal=person, idem=idem, amount=1, request="{}", plan="{}",
        answer_bytes=10, most_bytes=most,
    )  # fmt: skip


def charge(ledger: Ledger, idem: str, *, most: int | None, person: str = ANALYST) -> bool:
    return ledger.store.write(debit(ledger, idem, most=most, person=person)).fresh


def reserve(ledger: Ledger, idem: str, *, most: int | None) -> str:
    return ledger.store.write(
        lambda u: u.reviews.reserve(
            account=ledger.account, amount=1, dataset=ledger.dataset, principal=ANALYST,
            request="{}", plan="{}", idem=idem, size=SIZE, most_bytes=most,
        ).id
    )  # fmt: skip


def spent(ledger: Ledger) -> int:
    return ledger.balance()[1]


def test_a_person_may_have_so_much_stored_in_a_day(place: Place) -> None:
    with opened(place) as ledger:
        assert charge(ledger, "a", most=2 * SIZE)
        assert charge(ledger, "b", most=2 * SIZE)
        with pytest.raises(Problem, match="too-much-stored") as refused:
            charge(ledger, "c", most=2 * SIZE)
        assert refused.value.extras["limit"] == "max_stored_bytes_per_day"
        assert 1 <= (refused.value.retry_after_s or 0) <= 86_401
        assert spent(ledger) == 2
        # what was charged for is found again, others are not concerned, nor is a higher limit
        assert not charge(ledger, "a", most=2 * SIZE)
        assert charge(ledger, "c", most=2 * SIZE, person="somebody else")
        assert charge(ledger, "d", most=3 * SIZE)
        assert charge(ledger, "e", most=None)
        assert ledger.store.verify().ok


def test_a_restart_does_not_forget_it(place: Place) -> None:
    with opened(place) as ledger:
        charge(ledger, "a", most=SIZE)
        dataset, account = ledger.dataset, ledger.account
    store = place.open()
    try:
        again = Ledger(store, account, dataset, place)
        with pytest.raises(Problem, match="too-much-stored"):
            charge(again, "b", most=SIZE)
    finally:
        store.close()


def test_a_batch_is_judged_one_by_one(place: Place) -> None:
    with opened(place) as ledger:

        async def together() -> list[object]:
            asked = [ledger.store.awrite(debit(ledger, f"{n}", most=3 * SIZE)) for n in range(8)]
            return [*await asyncio.gather(*asked, return_exceptions=True)]

        outcomes = asyncio.run(together())
        assert [isinstance(each, Problem) for each in outcomes] == [False] * 3 + [True] * 5
        assert spent(ledger) == 3


def test_what_is_withdrawn_stays_counted(place: Place) -> None:
    with opened(place) as ledger:
        for number in range(3):
            held = reserve(ledger, f"{number}", most=3 * SIZE)
            ledger.store.write(
                lambda u, held=held: u.reviews.unreserve(
                    held, ReleaseState.WITHDRAWN, principal=ANALYST, reason="no"
                )
            )
        with pytest.raises(Problem, match="too-much-stored"):
            reserve(ledger, "4", most=3 * SIZE)
        assert reserve(ledger, "5", most=None)


def test_the_next_day_begins_anew(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(place) as ledger:
        for day in ("2031-12-31T23:59:58.500000Z", "2032-01-01T00:00:00.000000Z"):
            monkeypatch.setattr(commands, "now", lambda day=day: day)
            assert charge(ledger, day, most=SIZE)
            with pytest.raises(Problem, match="too-much-stored") as refused:
                charge(ledger, f"{day} again", most=SIZE)
        assert refused.value.retry_after_s == 86_401


def test_a_release_of_a_million_cells_is_within_a_usual_day() -> None:
    """Of 100 columns, all tables of two: what `tables` offers at most."""
    values = CategoryColumn(tuple(map(str, range(14))))
    columns: dict[str, Column] = {f"c{place}": values for place in range(100)}
    question = Question(
        statistic=Tables(columns=tuple(columns)), mechanism="margins", norm="auto",
        epsilon=Epsilon.parse("1"),
    )  # fmt: skip
    schema = Schema(columns, Adjacency.REPLACE_ONE, 1000)
    usual = Settings.model_fields["max_stored_bytes_per_day"].default
    assert usual / 2 < answer_bytes(question, schema) < usual
