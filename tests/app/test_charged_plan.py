"""No release is drawn otherwise than it was charged for, whoever draws it from what is stored."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mechanisms.catalog
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.logs import AllowListFormatter
from app.processes.channel import pickled, unpickled
from app.processes.draws import DrawOrder, answer_of, answers, charged_draws
from app.services.build import Services
from app.services.plans import plans
from app.services.plans.answers import guarantee_json, plan_json, unfinished_answer
from app.services.plans.plans import charged_plan, make_offer
from app.services.plans.questions import Question, read_question
from app.services.releases import draws
from app.services.releases.charged_draws import ChargedDraws
from app.store import DatasetRecord, Debit, ReleaseRecord, Store
from app.web.requests.schemas import DatasetSpec
from mechanisms.catalog import PlanChangedError, calibrate
from mechanisms.privacy import Epsilon
from mechanisms.statistics.quantile import Quantile
from tests.app.ledgers import Place
from tests.app.test_jobs import ADA, BOB, final
from tests.app.test_jobs import opened as serving
from tests.app.test_reviews import approve
from tests.mechanisms.test_every_offer import Case, every_offer

ZCDP = {"epsilon": "8", "delta": "1e-6"}
PURE = {"epsilon": "8"}
# What a median of epsilon 0.1 costs by KNG, and by permute-and-flip.
COSTS = {"zcdp": (1_250_000_000, 5_000_000_000), "pure": (10**8, 10**8)}
MEDIAN = Question(
    statistic=Quantile(column="x", levels=(0.5,)),
    mechanism="auto",
    norm="auto",
    epsilon=Epsilon.parse("0.1"),
)

budgets = pytest.mark.parametrize("budget", [ZCDP, PURE], ids=["zcdp", "pure"])


class Here:
    """A draw process's own code, in this process, where its catalog can be changed."""

    count = 1

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._draws: ChargedDraws | None = None

    def begin(self, store: Store) -> None:
        """Know the ledger whose answers are signed."""
        order = DrawOrder.of(
            data_dir=self._directory, identity=store.identity, key=store.key, log_level="warning"
        )
        self._draws = charged_draws(unpickled(pickled(order)))

    async def draw(
        self, record: ReleaseRecord, dataset: DatasetRecord, manifest: str | None
    ) -> bytes | None:
        assert self._draws is not None
        batch = [(record, dataset, manifest)]
        [(_, answered)] = await asyncio.to_thread(answers, self._draws, batch)
        return answer_of(answered)

    async def stop(self) -> None:
        pass


@asynccontextmanager
async def serve(tmp_path: Path) -> AsyncIterator[tuple[Store, Services]]:
    place, here = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}"), Here(tmp_path)
    async with serving(place, here) as (store, services):
        here.begin(store)
        yield store, services


async def new_dataset(services: Services, budget: dict[str, str], review: str = "never") -> str:
    spec = DatasetSpec.model_validate(
        {
            "name": "one column",
            "adjacency": "replace_one",
            "columns": {"x": {"type": "number", "lower": 0, "upper": 1}},
            "budget": budget,
            "policy": {"review": review},
        }
    )
    rows = io.BytesIO(b"x\n1\n0\n0.5\n")
    return (await services.datasets.create(spec.declared(), rows, caller=ADA))[0].facts.id


async def leave(services: Services, store: Store, dataset: str, *, job: bool) -> ReleaseRecord:
    """Charge for a median and leave it, as a process that dies; as a job or not."""
    facts = services.datasets.facts(dataset)
    offer = make_offer(facts, MEDIAN)
    kept = {**json.loads(offer.text), "job": {"deadline_s": 2} if job else None}
    charged = await store.awrite(
        Debit(
            dataset=dataset, amount=offer.cost, principal=BOB.person,
            request=MEDIAN.canonical, plan=json.dumps(kept),
            idem="a", worker=None if job else "wrk_gone",
        )
    )  # fmt: skip
    return charged.record


def upgrade(patched: pytest.MonkeyPatch) -> None:
    """Have this version answer `auto` by permute-and-flip, as another one might."""

    def changed(*arguments: Any, mechanism: str, norm: str, inference: None) -> Any:
        del mechanism, inference
        return calibrate(*arguments, mechanism="exponential", norm=norm)

    patched.setattr(plans, "calibrate", changed)


def change_form(patched: pytest.MonkeyPatch) -> None:
    """Have this version write plans in another form, and read no other."""
    patched.setattr(mechanisms.catalog, "FORM", mechanisms.catalog.FORM + 1)


def spent(services: Services, dataset: str) -> int:
    return services.budgets.view(dataset, caller=ADA).balance.spent


@budgets
@pytest.mark.parametrize("job", [False, True], ids=["thread", "process"])
def test_a_release_whose_plan_cannot_be_read_is_void(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    budget: dict[str, str],
    job: bool,
) -> None:
    async def scenario() -> None:
        async with serve(tmp_path) as (store, services):
            dataset = await new_dataset(services, budget)
            left = await leave(services, store, dataset, job=job)
        change_form(monkeypatch)
        async with serve(tmp_path) as (store, services):
            services.jobs.start()
            done = await final(services, left.id)
            assert (done.state, done.result) == (ReleaseState.VOID, None)
            assert spent(services, dataset) == left.amount
            assert store.verify(signed=True).ok

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    lines = [json.loads(AllowListFormatter().format(each)) for each in caplog.records]
    [why] = [line for line in lines if line.get("failure") == "PlanChangedError"]
    assert why["event"] == ("draw failed" if job else "release void")
    assert why["release"].startswith("rel_")


@budgets
@pytest.mark.parametrize("job", [False, True], ids=["thread", "process"])
def test_a_release_is_drawn_by_the_plan_it_was_charged_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: dict[str, str], job: bool
) -> None:
    """Whatever this version would plan, at whatever cost."""

    async def scenario() -> None:
        async with serve(tmp_path) as (store, services):
            dataset = await new_dataset(services, budget)
            left = await leave(services, store, dataset, job=job)
        upgrade(monkeypatch)
        async with serve(tmp_path) as (store, services):
            facts = services.datasets.facts(dataset)
            costs = left.amount, make_offer(facts, MEDIAN).cost
            assert costs == COSTS[facts.meter.kind]
            services.jobs.start()
            done = await final(services, left.id)
            assert done.state is ReleaseState.RELEASED
            answer, kept = json.loads(done.result or b""), json.loads(left.plan)
            assert answer["mechanism"] == "kng"
            for member in ("norm", "grid", "details", "reason"):
                assert answer[member] == kept[member]
            assert spent(services, dataset) == left.amount

    asyncio.run(scenario())


@pytest.mark.parametrize("job", [False, True], ids=["thread", "process"])
def test_rows_put_in_place_after_the_charge_are_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: bool
) -> None:
    """Every file fits the manifest, but this is not the one that the ledger has.

    Once the data set's own is back, its release is drawn.
    """
    monkeypatch.setattr(draws, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(draws, "LONGEST_PAUSE_S", 0.05)
    monkeypatch.setattr(draws, "TRIES_PER_ATTEMPT", 10**6)

    async def scenario() -> None:
        async with serve(tmp_path) as (store, services):
            dataset = await new_dataset(services, PURE)
            left = await leave(services, store, dataset, job=job)
        manifest = tmp_path / "datasets" / dataset / "manifest.json"
        own = manifest.read_bytes()
        manifest.write_bytes(own + b" ")
        async with serve(tmp_path) as (_, services):
            services.jobs.start()
            async with asyncio.timeout(60):
                while services.readable.unreadable == 0:
                    await asyncio.sleep(0.01)
            found = await services.releases.get(left.id, caller=BOB)
            assert (found.state, found.result) == (ReleaseState.DEBITED, None)
            manifest.write_bytes(own)
            done = await final(services, left.id)
            assert done.state is ReleaseState.RELEASED

    asyncio.run(scenario())


@budgets
def test_what_was_reviewed_is_drawn_or_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with serve(tmp_path) as (store, services):
            dataset = await new_dataset(services, budget, review="always")
            first, second, third = [
                await services.releases.submit(dataset, MEDIAN, idem=idem, caller=BOB)
                for idem in "abc"
            ]
            approved = await approve(services, first.id)
            kind = services.datasets.facts(dataset).meter.kind
            assert approved.amount == first.amount == COSTS[kind][0]
        upgrade(monkeypatch)
        async with serve(tmp_path) as (store, services):
            await approve(services, second.id)
            services.jobs.start()
            for release in (first, second):
                done = await final(services, release.id)
                assert json.loads(done.result or b"")["mechanism"] == "kng"
        change_form(monkeypatch)
        async with serve(tmp_path) as (store, services):
            with pytest.raises(Problem, match="plan-changed"):
                await approve(services, third.id)
            assert spent(services, dataset) == 2 * first.amount
            assert store.verify(signed=True).ok

    asyncio.run(scenario())


# What is no plan of a release

Edit = Callable[[dict[str, Any]], object]
EDITS: Mapping[str, Edit] = {
    "no form": lambda plan: plan.pop("form"),
    "another form": lambda plan: plan.update(form=0),
    "no parameters": lambda plan: plan.pop("parameters"),
    "unknown parameters": lambda plan: plan.update(parameters={"by": "guessing"}),
    "of another question": lambda plan: plan.update(parameters={"by": "composition", "parts": []}),
    "a smaller epsilon": lambda plan: plan["guarantee"].update(epsilon="0.05"),
    "another cost in zCDP": lambda plan: plan["guarantee"].update(rho="1/2"),
}


def test_what_is_no_plan_of_a_release_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serve(tmp_path) as (store, services):
            left = await leave(services, store, await new_dataset(services, ZCDP), job=False)
            facts = services.datasets.facts(left.dataset)
            question, plan = charged_plan(left, facts)
            assert (question, plan.mechanism) == (MEDIAN, "kng")
            records = [
                left._replace(amount=left.amount + 1),
                left._replace(request="{}"),
                left._replace(request=MEDIAN.canonical.replace("0.1", "0.2")),
                left._replace(request=MEDIAN.canonical.replace('"x"', '"y"')),
                left._replace(plan="[]"),
            ]
            for edit in EDITS.values():
                edited = json.loads(left.plan)
                edit(edited)
                records.append(left._replace(plan=json.dumps(edited)))
            for record in records:
                with pytest.raises(PlanChangedError):
                    charged_plan(record, facts)

    asyncio.run(scenario())


def test_what_a_release_keeps_is_what_it_is_charged_by(tmp_path: Path) -> None:
    """Its cost and what it shows are in the text, and what is sent is the same plan."""

    async def scenario() -> None:
        async with serve(tmp_path) as (store, services):
            left = await leave(services, store, await new_dataset(services, PURE), job=True)
            facts = services.datasets.facts(left.dataset)
            offer = unpickled(pickled(make_offer(facts, MEDIAN)))
            _, plan = charged_plan(left, facts)
            assert plan == replace(offer.plan, alternatives=())
            assert json.loads(unfinished_answer(left))["guarantee"] == guarantee_json(
                plan.guarantee
            )

    asyncio.run(scenario())


@every_offer
def test_every_offer_is_the_same_when_it_is_read_again(case: Case) -> None:
    """Else a release that another process draws would be void for nothing."""
    proof, epsilon = case.proof, Epsilon.parse("0.5")
    asked = Question(
        statistic=proof.statistic, mechanism=proof.mechanism, norm=case.norm, epsilon=epsilon
    )
    schema = proof.schema(case.adjacency, 5)
    texts = [
        json.dumps(
            plan_json(
                calibrate(
                    each.statistic, schema, epsilon, mechanism=each.mechanism, norm=each.norm
                ),
                epsilon,
            )
        )
        for each in (asked, read_question(asked.canonical))
    ]
    assert texts[0] == texts[1]
