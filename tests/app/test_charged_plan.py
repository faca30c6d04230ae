"""No release is drawn otherwise than it was charged for, whoever draws it from what is stored."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.logs import AllowListFormatter
from app.processes.channel import pickled, unpickled
from app.processes.draw_child import DrawOrder, answer_of, answers, charged_draws
from app.services.build import Services
from app.services.plans import plans
from app.services.plans.answers import plan_json
from app.services.plans.charged_plan import PlanChangedError, as_charged, require_charged_plan
from app.services.plans.plans import make_offer
from app.services.plans.questions import Question, read_question
from app.services.releases import draws
from app.services.releases.charged_draws import ChargedDraws
from app.store import DatasetRecord, Debit, ReleaseRecord, Store
from app.web.requests.schemas import DatasetSpec
from mechanisms.catalog import calibrate
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.stack import Part, Stack
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


def test_a_stored_question_has_the_mechanisms_that_it_was_charged_for() -> None:
    single = as_charged(MEDIAN, json.dumps({"mechanism": "exponential", "details": {}}))
    assert (single.mechanism, single.norm) == ("exponential", "auto")
    parts = tuple(Part(statistic=MEDIAN.statistic, share=1) for _ in range(2))
    stack = replace(MEDIAN, statistic=Stack(parts=parts))
    facts = [{"mechanism": "kng"}, {"mechanism": "exponential"}]
    plan = json.dumps({"mechanism": "composition", "details": {"parts": facts}})
    whole = as_charged(stack, plan)
    assert isinstance(whole.statistic, Stack)
    assert [part.mechanism for part in whole.statistic.parts] == ["kng", "exponential"]


REGRESSIONS = [
    LinearRegression(target="y", features=("x",)),
    QuantileRegression(target="y", features=("x",)),
]


PAIR = Schema(
    columns={
        "x": NumberColumn(Fraction(0), Fraction(1)),
        "y": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    },
    adjacency=Adjacency.REPLACE_ONE,
    rows=100,
)


@pytest.mark.parametrize("stacked", [False, True], ids=["alone", "in a stack"])
@pytest.mark.parametrize("statistic", REGRESSIONS, ids=lambda each: each.kind)
def test_a_regression_is_drawn_under_the_base_measure_it_was_charged_for(
    statistic: Any, stacked: bool
) -> None:
    """An earlier version's was flat, with another bound where none is asked for."""

    def question(asked: Any) -> Question:
        part = Part(statistic=asked, mechanism="kng")
        if stacked:
            return replace(MEDIAN, statistic=Stack(parts=(part, part)))
        return replace(MEDIAN, statistic=asked, mechanism="kng")

    def plan(asked: Question) -> str:
        made = calibrate(asked.statistic, PAIR, asked.epsilon, mechanism=asked.mechanism)
        return json.dumps(plan_json(made, asked.epsilon))

    earlier = replace(statistic, base_measure="flat", bound=statistic.bound or 7.0)
    texts = [plan(question(charged)) for charged in (statistic, earlier)]
    assert texts[0] != texts[1]
    assert [plan(as_charged(question(statistic), text)) for text in texts] == texts


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


def spent(services: Services, dataset: str) -> int:
    return services.budgets.view(dataset, caller=ADA).balance.spent


@budgets
@pytest.mark.parametrize("job", [False, True], ids=["thread", "process"])
def test_a_release_whose_plan_has_changed_is_void(
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
        upgrade(monkeypatch)
        async with serve(tmp_path) as (store, services):
            facts = services.datasets.facts(dataset)
            costs = left.amount, make_offer(facts, MEDIAN).cost
            assert costs == COSTS[facts.meter.kind]
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
def test_a_release_whose_plan_is_the_same_is_drawn(
    tmp_path: Path, budget: dict[str, str], job: bool
) -> None:
    async def scenario() -> None:
        async with serve(tmp_path) as (store, services):
            dataset = await new_dataset(services, budget)
            left = await leave(services, store, dataset, job=job)
        async with serve(tmp_path) as (store, services):
            services.jobs.start()
            done = await final(services, left.id)
            assert done.state is ReleaseState.RELEASED
            assert json.loads(done.result or b"")["mechanism"] == "kng"

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
def test_a_plan_that_changes_around_the_approval_is_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with serve(tmp_path) as (store, services):
            dataset = await new_dataset(services, budget, review="always")
            first, second = [
                await services.releases.submit(dataset, MEDIAN, idem=idem, caller=BOB)
                for idem in "ab"
            ]
            approved = await approve(services, first.id)
            kind = services.datasets.facts(dataset).meter.kind
            assert approved.amount == first.amount == COSTS[kind][0]
        upgrade(monkeypatch)
        async with serve(tmp_path) as (store, services):
            with pytest.raises(Problem, match="plan-changed"):
                await approve(services, second.id)
            services.jobs.start()
            assert (await final(services, first.id)).state is ReleaseState.VOID
            assert spent(services, dataset) == first.amount
            assert store.verify(signed=True).ok

    asyncio.run(scenario())


# What must be equal

PLAN: dict[str, Any] = {
    "mechanism": "composition",
    "norm": None,
    "epsilon": "1",
    "reason": "a sentence",
    "guarantee": {"epsilon": "1", "sensitivity": "2", "theorem": "Theorem 1", "exact": True},
    "grid": {"noise": 0.5},
    "details": {
        "noise": "a sentence",
        "ridge": 0.25,
        "rank_errors": [1.5, 2.5],
        "parts": [
            {
                "mechanism": "kng",
                "reason": "a sentence",
                "guarantee": {"sensitivity": "1"},
                "grid": {"x": 0.125},
                "details": {"sampler": "by boxes", "noise": None},
            }
        ],
    },
    "job": None,
}

Edit = Callable[[dict[str, Any]], object]


def compare(edit: Edit, *, cost: int = 7) -> None:
    record: Any = type("Record", (), {"plan": json.dumps(PLAN), "amount": 7})()
    changed = json.loads(json.dumps(PLAN))
    edit(changed)
    require_charged_plan(record, plan=json.dumps(changed), cost=cost)


def part(plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plan["details"]["parts"][0]
    return found


@pytest.mark.parametrize(
    "edit",
    [
        lambda plan: None,
        lambda plan: plan.update(reason="in other words"),
        lambda plan: plan.update(job={"deadline_s": 4}),
        lambda plan: plan.pop("job"),
        lambda plan: plan.update(a_new_member=1),
        lambda plan: plan["guarantee"].update(protects="one row is one person"),
        lambda plan: plan["details"].update(noise="in other words"),
        lambda plan: plan["details"].update(adjacent_output_space="a new sentence"),
        lambda plan: plan["details"].update(ridge=0.25 * (1 + 1e-15)),
        lambda plan: part(plan).pop("reason"),
        lambda plan: part(plan)["details"].update(noise="a new sentence"),
    ],
)
def test_what_says_nothing_of_the_law_may_differ(edit: Edit) -> None:
    compare(edit)


@pytest.mark.parametrize(
    "edit",
    [
        lambda plan: plan.clear(),
        lambda plan: plan.update(mechanism="kng"),
        lambda plan: plan.update(norm="l1"),
        lambda plan: plan.pop("norm"),
        lambda plan: plan.update(epsilon="1.0"),
        lambda plan: plan["guarantee"].update(sensitivity="1"),
        lambda plan: plan["guarantee"].update(theorem="Theorem 2"),
        lambda plan: plan["guarantee"].update(exact=False),
        lambda plan: plan["grid"].update(noise=0.5 * (1 + 1e-15)),
        lambda plan: plan["details"].update(ridge=0.2500001),
        lambda plan: plan["details"].pop("ridge"),
        lambda plan: plan["details"].update(gamma=1.0),
        lambda plan: plan["details"].update(rows_per_person=3),
        lambda plan: plan["details"]["rank_errors"].pop(),
        lambda plan: plan["details"].update(rank_errors=[1.5, 3.5]),
        lambda plan: part(plan).update(mechanism="exponential"),
        lambda plan: part(plan)["guarantee"].update(sensitivity="0.5"),
        lambda plan: part(plan)["grid"].update(x=0.25),
        lambda plan: part(plan)["details"].update(sampler="permute-and-flip"),
        lambda plan: plan["details"].update(parts=[]),
    ],
)
def test_what_decides_the_law_must_be_equal(edit: Edit) -> None:
    with pytest.raises(PlanChangedError):
        compare(edit)


@pytest.mark.parametrize("cost", [6, 8])
def test_the_cost_must_be_what_was_charged(cost: int) -> None:
    with pytest.raises(PlanChangedError):
        compare(lambda _: None, cost=cost)


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
