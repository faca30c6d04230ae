"""Budgets without HTTP: the ends of grants are entered, whatever comes between."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.domain.problems import Problem
from app.services.build import Services
from app.services.datasets import budgets as budgets_module
from app.web.requests.schemas import DatasetSpec
from mechanisms.privacy import Epsilon
from tests.app.test_services import ADA, SECRET, new_dataset, opened, question
from tests.speed import PATIENCE_S

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
            async with asyncio.timeout(PATIENCE_S):
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


def test_one_grant_adds_at_most_what_the_operator_allows(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, max_grant="0.3") as (_, services):
            dataset = await new_dataset(services)
            await services.budgets.grant(dataset, Epsilon.parse("0.3"), "all of it", caller=ADA)
            with pytest.raises(Problem) as refused:
                await services.budgets.grant(
                    dataset, Epsilon.parse("0.300000001"), "too much", caller=ADA
                )
            assert refused.value.code == "grant-too-large"
            assert refused.value.extras == {"requested": "0.300000001", "maximum": "0.3"}

    asyncio.run(scenario())


def test_a_grant_for_a_total_that_was_seen_is_made_while_it_is_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (_, services):
            dataset = await new_dataset(services)
            seen = services.budgets.view(dataset, caller=ADA).balance.total
            grant = services.budgets.grant
            await grant(dataset, Epsilon.parse("1"), "as it was", caller=ADA, total=seen)
            with pytest.raises(Problem) as refused:
                await grant(dataset, Epsilon.parse("1"), "too late", caller=ADA, total=seen)
            assert refused.value.code == "precondition"
            after = services.budgets.view(dataset, caller=ADA).balance.total
            assert after == seen + Epsilon.parse("1").nanos

    asyncio.run(scenario())


@pytest.mark.parametrize("expires", [None, datetime(2100, 1, 1, tzinfo=UTC)])
def test_no_grant_moves_a_target(tmp_path: Path, expires: datetime | None) -> None:
    """Neither before the first answer nor after; what an account in epsilons takes."""

    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            pure = await budgeted(services, "pure", {"epsilon": "1"})
            zcdp = await budgeted(services, "zcdp", {"epsilon": "1", "delta": "1e-6"})
            before = services.budgets.view(zcdp, caller=ADA).balance
            more = Epsilon.parse("2")
            for _ in range(2):
                with pytest.raises(Problem, match="target-fixed"):
                    await services.budgets.grant(zcdp, more, "more", caller=ADA, expires=expires)
                assert services.budgets.view(zcdp, caller=ADA).balance.total == before.total
                ask = question("0.1", "x")
                await services.releases.submit(zcdp, ask, idem="a", caller=ADA)
            await services.budgets.grant(pure, more, "more", caller=ADA, expires=expires)
            assert services.budgets.view(pure, caller=ADA).balance.total == 3 * 10**9
            assert store.verify().ok

    asyncio.run(scenario())


async def budgeted(services: Services, name: str, budget: dict[str, str]) -> str:
    spec = DatasetSpec.model_validate(
        {
            "name": name,
            "adjacency": "replace_one",
            "columns": {"x": {"type": "number", "lower": 0, "upper": 1}},
            "budget": budget,
        }
    )
    # rows of their own, or the second upload would be of the same people
    rows = io.BytesIO(b"x\n" + (b"1\n0\n" if name == "pure" else b"0.25\n0.75\n"))
    return (await services.datasets.create(spec.declared(), rows, caller=ADA))[0].facts.id


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
