"""Budgets without HTTP: the ends of grants are entered, whatever comes between."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.requests.schemas import DatasetSpec
from app.domain.ledger import Balance, EntryKind
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.services.build import Services
from app.services.datasets import budgets as budgets_module
from app.services.datasets.accounting import PureMeter, ZcdpMeter
from app.store.ledger.ids import text_of
from mechanisms.accounting import RHO_UNIT, total_units
from mechanisms.privacy import Epsilon
from tests.app.ledgers import Place
from tests.app.test_jobs import Fake
from tests.app.test_jobs import opened as serving
from tests.app.test_services import ADA, SECRET, new_dataset, opened, question

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def test_a_grant_ends_although_the_ledger_was_busy_and_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(budgets_module, "LOOK_EVERY_S", 0.01)
    caplog.set_level("INFO")

    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            account = services.datasets.facts(dataset).record.account
            await services.budgets.grant(
                dataset, Epsilon.parse("2"), "a while", caller=ADA, expires=LONG_AGO
            )
            write, troubles = store.awrite, [Problem("busy"), OSError(SECRET)]

            async def troubled(task: Any) -> Any:
                if troubles:
                    raise troubles.pop(0)
                return await write(task)

            monkeypatch.setattr(store, "awrite", troubled)
            keeping = asyncio.create_task(services.budgets.keep_expiring())
            kinds: list[str] = []
            async with asyncio.timeout(20):
                while "expire" not in kinds:
                    await asyncio.sleep(0.01)
                    with store.reading() as reader:
                        kinds = [entry.kind for entry in reader.entries.list(account)]
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping
            assert (troubles, kinds) == ([], ["open", "grant", "expire"])
            assert store.verify().ok

    asyncio.run(scenario())
    said = [each for each in caplog.records if each.msg == "grants not ended yet"]
    assert [(each.levelname, vars(each).get("code")) for each in said] == [
        ("INFO", "busy"), ("ERROR", None),
    ]  # fmt: skip
    assert vars(said[1])["failure"] == "OSError"
    assert SECRET not in str([vars(each) for each in caplog.records])


# Grants towards a target of (epsilon, delta)

DELTA = Fraction(1, 10**6)
METER = ZcdpMeter(DELTA)
NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)


def at_most(epsilon: str | Fraction) -> int:
    """The most units within a target, as an account opened with it has."""
    return total_units(Fraction(epsilon), DELTA)


class Grants:
    """An account in zCDP, and a clock that stands still but for the test."""

    def __init__(self, services: Services, dataset: str, patched: pytest.MonkeyPatch) -> None:
        self.services, self.dataset, self.minutes = services, dataset, 0
        for module in ("accounts", "entries", "batches", "releases", "datasets"):
            patched.setattr(f"app.store.ledger.{module}.now", lambda: text_of(self.at(0)))

    def at(self, minutes: int) -> datetime:
        return NOW + timedelta(minutes=self.minutes + minutes)

    async def give(self, epsilon: str, *, minutes: int | None = None) -> None:
        await self.services.budgets.grant(
            self.dataset,
            Epsilon.parse(epsilon),
            "more",
            caller=ADA,
            expires=None if minutes is None else self.at(minutes),
        )

    @property
    def total(self) -> int:
        return self.services.budgets.view(self.dataset, caller=ADA).balance.total


@asynccontextmanager
async def granting(place: Place, patched: pytest.MonkeyPatch) -> AsyncIterator[Grants]:
    async with serving(place, Fake()) as (store, services):
        budget = {"epsilon": "1", "delta": "1e-6"}
        grants = Grants(services, await budgeted(services, budget), patched)
        assert grants.total == at_most("1")
        yield grants
        await store.awrite(lambda work: work.accounts.expire_due())
        found = store.verify()
        assert found.ok, found.faults


async def budgeted(services: Services, budget: dict[str, str]) -> str:
    spec = DatasetSpec.model_validate(
        {
            "name": "one column",
            "adjacency": "replace_one",
            "columns": {"x": {"type": "number", "lower": 0, "upper": 1}},
            "budget": budget,
        }
    )
    rows = io.BytesIO(b"x\n1\n0\n")
    return (await services.datasets.create(spec.declared(), rows, caller=ADA)).facts.id


@pytest.mark.parametrize("for_good_first", [True, False])
def test_after_a_grant_has_ended_the_lasting_ones_are_left(
    place: Place, monkeypatch: pytest.MonkeyPatch, for_good_first: bool
) -> None:
    async def scenario() -> None:
        async with granting(place, monkeypatch) as grants:
            if for_good_first:
                await grants.give("1")
                assert grants.total == at_most("2")
            await grants.give("1", minutes=2)
            if not for_good_first:
                assert at_most("2") - 5 < grants.total < at_most("2")
                await grants.give("1")
            assert at_most("2") < grants.total <= at_most("3")
            grants.minutes = 2
            assert grants.total == at_most("2")
            # and so it is when the end has been entered
            await grants.give("1")
            assert grants.total == at_most("3")

    asyncio.run(scenario())


def test_of_several_grants_each_takes_away_what_it_gave(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with granting(place, monkeypatch) as grants:
            await grants.give("2", minutes=3)
            await grants.give("1")
            await grants.give("5", minutes=1)
            await grants.give("0.5", minutes=2)
            assert at_most("2") < grants.total < at_most("9.5")
            for minutes, most in ((1, "4.5"), (2, "4")):
                grants.minutes = minutes
                assert at_most("2") < grants.total <= at_most(most)
                await grants.give("0.1", minutes=1)
            grants.minutes = 9
            assert grants.total == at_most("2")

    asyncio.run(scenario())


def test_what_was_spent_of_a_grant_stays_spent_and_raises_nothing_else(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with granting(place, monkeypatch) as grants:
            await grants.give("4", minutes=1)
            ask = question("0.5", "x")
            released = await grants.services.releases.submit(
                grants.dataset, ask, idem="a", caller=ADA
            )
            assert released.state is ReleaseState.RELEASED
            spent = int(Fraction("0.5") ** 2 / 2 / RHO_UNIT)
            grants.minutes = 1
            assert grants.total == spent > at_most("1")
            await grants.give("1")
            assert grants.total == spent + at_most("2") - at_most("1")

    asyncio.run(scenario())


steps = st.lists(
    st.tuples(
        st.integers(1, 3 * 10**9).map(Epsilon),
        st.none() | st.integers(1, 5),  # for how long
        st.integers(0, 3),  # and how long afterwards the next one comes
        st.fractions(0, 1),  # of what remains, spent by then
    ),
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2 * 10**9).map(Epsilon), steps)
def test_no_order_of_grants_gives_more_than_their_targets(
    opened_with: Epsilon, steps: list[tuple[Epsilon, int | None, int, Fraction]]
) -> None:
    """Beside what was spent of grants that have ended, whose targets count on."""
    lasting = alone = METER.opening(opened_with) if opened_with.nanos else 0
    target, now = opened_with.fraction, 0
    balance = Balance(lasting)
    running: list[tuple[int, Epsilon, int]] = []
    for epsilon, minutes, pause, share in [*steps, (Epsilon(1), 1, 99, Fraction(0))]:
        try:
            amount = METER.raising(lasting, epsilon, ends=minutes is not None)
        except Problem:
            amount = 0
        if amount and minutes is not None:
            running.append((now + minutes, epsilon, amount))
            balance = balance.after(EntryKind.GRANT, amount)
        elif amount:
            lasting, target = lasting + amount, target + epsilon.fraction
            alone += METER.raising(alone, epsilon, ends=False)
            balance = balance.after(EntryKind.GRANT, amount)
        in_force = sum((each.fraction for _, each, _ in running), target)
        if in_force:
            assert balance.total <= total_units(in_force, DELTA) + 1  # whose rounding is down
        if taken := int(balance.remaining * share):
            balance = balance.after(EntryKind.DEBIT, taken)
        now += pause
        for grant in [each for each in running if each[0] <= now]:
            before = balance.total
            balance = balance.after(EntryKind.EXPIRE, grant[2])
            running.remove(grant)
            if before - balance.total < grant[2]:  # some of it was spent, and its target stays
                target += grant[1].fraction
    assert lasting == alone
    assert not running
    assert balance.total >= lasting
    if not any(share for *_, share in steps):
        assert balance.total == lasting


@pytest.mark.parametrize("ends", [True, False])
def test_what_adds_nothing_is_refused(ends: bool) -> None:
    meter = ZcdpMeter(Fraction(1, 10**30))
    with pytest.raises(Problem, match="invalid-request"):
        meter.raising(meter.opening(Epsilon(100)), Epsilon(1), ends=ends)
    pure = PureMeter()
    assert pure.raising(7, Epsilon(1), ends=ends) == 1


def test_what_remains_for_a_person_is_the_lesser_of_account_and_cap(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (_, services):
            services.keys.bootstrap("s" * 32)
            caller = services.keys.authenticate(b"s" * 32)
            dataset = await new_dataset(services, "3")

            async def remaining(cap: str | None) -> tuple[int, int]:
                epsilon = None if cap is None else Epsilon.parse(cap)
                await services.budgets.set_cap(
                    dataset, caller.person, epsilon, "a slice", caller=ADA
                )
                views = (services.budgets.view(dataset, caller=each) for each in (caller, ADA))
                mine, others = (view.remaining // 10**9 for view in views)
                return mine, others

            assert services.budgets.view(dataset, caller=caller).remaining == 3 * 10**9
            assert await remaining("2") == (2, 3)
            assert await remaining("7") == (3, 3)
            await services.releases.submit(dataset, question("2"), idem="a", caller=caller)
            assert await remaining("1") == (0, 1), "less than was used already"
            assert await remaining(None) == (1, 1)

    asyncio.run(scenario())
