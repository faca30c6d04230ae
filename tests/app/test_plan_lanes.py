"""Costly plans are made next to the server, in a queue of bounded length, and no one else waits."""

from __future__ import annotations

import asyncio
import io
import json
import pickle
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import pytest

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.processes import build as process_module
from app.services.build import Services
from app.services.datasets.datasets import DatasetFacts
from app.services.people.keys import Caller
from app.services.plans import dry_runs as dry_run_module
from app.services.plans import plans as plan_module
from app.services.plans.answers import LONGEST_INLINE_MS, Job
from app.services.plans.lanes import OnProgress
from app.services.plans.plans import LONGEST_SHORT_MS, QUICK_MS, Offer, make_offer, make_plan
from app.services.plans.previews import PreviewOptions
from app.services.plans.questions import Question
from app.services.releases.public_moments import job_of_record
from app.uploads.storing import Stop
from app.web.requests.schemas import DatasetSpec
from mechanisms.catalog import calibrate
from mechanisms.contract import Plan, Statistic
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.estimates.estimate import estimating_ms
from mechanisms.expressions.parsing import parse
from mechanisms.geometry import joint_moments, second_moments, smooth
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.cells.parting import Bands
from mechanisms.statistics.cells.spelling import Derived
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.stack import MAX_PARTS, Part, Stack
from mechanisms.statistics.variance import Variance
from tests.app import test_services
from tests.app.test_jobs import final
from tests.app.test_services import (
    ADA,
    BOB,
    leave_debited,
    new_dataset,
    opened,
    question,
    spent,
)
from tests.mechanisms.offers import PROOFS
from tests.mechanisms.proof import MAX_ROWS, Proof
from tests.speed import PATIENCE_S, in_time
from tests.tiers import in_one

T = TypeVar("T")

NAMES = tuple(f"c{number}" for number in range(100))
COLUMNS: Mapping[str, Column] = {
    **{name: NumberColumn(Fraction(0), Fraction(10)) for name in NAMES},
    "yes": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "place": CategoryColumn(tuple(map(str, range(100)))),
}
EDGES = {"c0": tuple(float(edge) / 10 for edge in range(101))}
SLACK_MS = 150.0
"""What a busy machine may add to processor time, and the first use of a module costs."""
TRIES = 12
"""So often it is timed, until it is quick: others fill the caches for a while."""

LARGEST: list[tuple[Statistic, str, bool]] = [
    (Moments(columns=NAMES[:64]), "auto", True),
    (Moments(columns=NAMES[:15]), "auto", False),
    (Covariance(columns=NAMES[:64]), "auto", True),
    (Correlation(columns=NAMES[:32]), "auto", True),
    (LinearRegression(target="c99", features=NAMES[:60]), "functional", True),
    (LinearRegression(target="c99", features=NAMES[:12]), "functional", False),
    (LinearRegression(target="c99", features=NAMES[:90]), "objective_perturbation", False),
    (LogisticRegression(target="yes", features=NAMES[:90]), "objective_perturbation", False),
    (QuantileRegression(target="c99", features=NAMES[:90]), "objective_perturbation", False),
    (QuantileRegression(target="c99", features=NAMES[:3], tau=0.1), "objective_perturbation",
        False),
    (Histogram(columns=("place", "c0"), edges=EDGES), "auto", True),
    (Histogram(columns=("place",)), "auto", False),
    (Mean(columns=NAMES), "auto", False),
    (Variance(columns=NAMES), "auto", False),
    (Quantile(column="c0", levels=tuple(level / 128 for level in range(1, 101))), "auto", False),
    (Stack(parts=tuple(Part(statistic=Moments(columns=NAMES[:k])) for k in (14, 15))),
        "auto", True),
]  # fmt: skip


def _fresh(
    statistic: Statistic, mechanism: str, schema: Schema, inference: Fraction | None = None
) -> float:
    """Return the milliseconds of processor time of a plan and a preview, nothing remembered."""
    for remembered in (
        second_moments._tabulate,
        joint_moments._tabulate,
        smooth._laws_at_rate_one,
    ):
        remembered.cache_clear()
    started = time.thread_time()
    plan = calibrate(
        statistic, schema, Epsilon.parse("1"), mechanism=mechanism, inference=inference
    )
    plan.preview(MAX_ROWS)
    return 1000 * (time.thread_time() - started)


@pytest.mark.parametrize(
    ("statistic", "mechanism", "costly"), LARGEST, ids=lambda each: getattr(each, "kind", None)
)
def test_what_takes_long_is_known_to(statistic: Statistic, mechanism: str, costly: bool) -> None:
    schema = Schema(COLUMNS, Adjacency.REPLACE_ONE, MAX_ROWS, MAX_ROWS)
    expected_ms = statistic.planning_ms(schema, mechanism)
    assert (expected_ms > LONGEST_SHORT_MS) is costly
    most_ms = 2 * expected_ms + SLACK_MS
    assert any(in_time(_fresh(statistic, mechanism, schema), most_ms) for _ in range(TRIES))


@pytest.mark.parametrize(
    ("statistic", "mechanism", "costly"),
    [
        (LinearRegression(target="c99", features=NAMES[:29]), "objective_perturbation", True),
        (LinearRegression(target="c99", features=NAMES[:12]), "objective_perturbation", False),
        (LinearRegression(target="c99", features=NAMES[:12]), "functional", True),
        (LinearRegression(target="c99", features=NAMES[:8]), "functional", False),
        (LogisticRegression(target="yes", features=NAMES[:29]), "objective_perturbation", False),
        (Quantile(column="c0", levels=(0.1, 0.3, 0.5, 0.7, 0.9)), "kng", False),
    ],
    ids=lambda each: getattr(each, "kind", None),
)
def test_standard_errors_count_in_what_takes_long(
    statistic: Statistic, mechanism: str, costly: bool
) -> None:
    third, epsilon = Fraction(1, 3), Epsilon.parse("1")
    schema = Schema(COLUMNS, Adjacency.REPLACE_ONE, MAX_ROWS, MAX_ROWS)
    plain = Question(statistic=statistic, mechanism=mechanism, norm="auto", epsilon=epsilon)
    expected_ms = replace(plain, inference=third).planning_ms(schema)
    assert expected_ms > plain.planning_ms(schema)
    assert (expected_ms > LONGEST_SHORT_MS) is costly
    most_ms = 2 * expected_ms + SLACK_MS
    assert any(in_time(_fresh(statistic, mechanism, schema, third), most_ms) for _ in range(TRIES))


def many_derived(count: int) -> dict[str, str | Derived]:
    """Return so many columns, each a sum of others in half a page of brackets."""
    sums = " + ".join(["((c1 + c2) * 0.25 + (c3 + c4) * 0.125)"] * 12)
    return {f"d{number}": f"c0 * {number + 1} + {sums}" for number in range(count)}


@pytest.mark.parametrize(("count", "costly"), [(100, True), (4, False)])
def test_derived_columns_count_in_what_takes_long(count: int, costly: bool) -> None:
    derive = many_derived(count)
    statistic = Mean(columns=tuple(derive), derive=derive)
    schema = Schema(COLUMNS, Adjacency.REPLACE_ONE, MAX_ROWS, MAX_ROWS)
    asked = Question(statistic=statistic, mechanism="auto", norm="auto", epsilon=Epsilon.parse("1"))
    expected_ms = asked.planning_ms(schema)
    assert (expected_ms > LONGEST_SHORT_MS) is costly
    for _ in range(TRIES):
        parse.cache_clear()
        taken_ms = _fresh(statistic, "auto", replace(schema, columns={**COLUMNS}))
        if in_time(taken_ms, 2 * expected_ms + SLACK_MS):
            return
    pytest.fail(f"{taken_ms} ms, where {expected_ms} are expected")


def test_groups_and_derived_columns_count_in_what_takes_long_to_estimate() -> None:
    schema = Schema(COLUMNS, Adjacency.REPLACE_ONE, MAX_ROWS, MAX_ROWS)
    edges = Bands(column="c99", edges=tuple(edge * 10 / 256 for edge in range(257)))
    assert estimating_ms(Mean(columns=("c0",), by=("yes",)), schema) < QUICK_MS
    assert estimating_ms(Mean(columns=NAMES[:38], by=(edges,)), schema) > 150
    derive = many_derived(50)
    where = (Condition(column="d0", op=">", value=1),)
    assert estimating_ms(Mean(columns=("c0",), derive=derive, where=where), schema) > 500


@in_one("proof", PROOFS)
def test_small_questions_are_short(proof: Proof) -> None:
    adjacency = proof.adjacencies[0]
    rows = MAX_ROWS if adjacency is Adjacency.REPLACE_ONE else None
    schema = Schema(proof.columns, adjacency, rows, MAX_ROWS)
    assert proof.statistic.planning_ms(schema, proof.mechanism) < LONGEST_SHORT_MS


def test_questions_that_fit_no_schema_are_short() -> None:
    schema = Schema(COLUMNS, Adjacency.REPLACE_ONE, MAX_ROWS)
    for columns in (("nothing",), ("c0",), ("place", "nothing"), ()):
        assert Histogram(columns=columns).planning_ms(schema, "auto") < LONGEST_SHORT_MS
    assert Mean(columns=NAMES[:9]).planning_ms(schema, "functional") < LONGEST_SHORT_MS


def test_what_is_costly_to_plan_is_a_job_however_short_its_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier version has charged for as none is drawn all the same."""
    columns = {name: {"type": "number", "lower": 0, "upper": 10} for name in NAMES[:4]}
    spec = {
        "name": "four columns",
        "adjacency": "replace_one",
        "columns": columns,
        "budget": {"epsilon": "1"},
    }
    rows = io.BytesIO((",".join(columns) + "\n1,2,3,4\n").encode())

    moments = Part(statistic=Moments(columns=NAMES[:4]))
    small, large = (
        replace(question("1"), statistic=Stack(parts=(moments,) * parts), norm="auto")
        for parts in (2, MAX_PARTS)
    )

    def as_earlier(facts: DatasetFacts, asked: Question) -> Offer:
        offer = make_offer(facts, asked)
        return replace(offer, text=json.dumps({**json.loads(offer.text), "job": None}))

    monkeypatch.setattr(test_services, "make_offer", as_earlier)

    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            new = DatasetSpec.model_validate(spec).declared()
            facts = (await services.datasets.create(new, rows, caller=ADA))[0].facts
            assert make_offer(facts, small).job is None
            offer = make_offer(facts, large)
            assert offer.job == Job(2, 1)
            assert offer.plan.expected_ms < LONGEST_INLINE_MS
            left = await leave_debited(services, store, facts.id, "left", asked=large)
            services.jobs.start()
            record = await services.releases.submit(facts.id, large, idem="left", caller=BOB)
            assert (record.id, record.state) == (left, ReleaseState.RELEASED)

    asyncio.run(scenario())


class Held:
    """Every plan that is made, and costly ones wait to be let go; what is made beside is made here.

    What would go to a process and come back from it can be pickled.
    """

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.made: list[str] = []
        self.beside = 0
        self.closed = False

    def run(
        self,
        function: Callable[..., T],
        *arguments: object,
        stop: Stop,
        seconds: float,
        urgent: bool,
        on_progress: OnProgress | None = None,
    ) -> T:
        """Do what a process would."""
        del stop, seconds, urgent, on_progress
        self.beside += 1
        arguments = pickle.loads(pickle.dumps(arguments))
        outcome: T = pickle.loads(pickle.dumps(function(*arguments)))
        return outcome

    def is_ready(self) -> bool:
        """There is no process to load."""
        return True

    def close(self) -> None:
        """Note that the service has ended."""
        self.closed = True

    def make(self, facts: DatasetFacts, asked: Question) -> Offer:
        """Make an offer, later."""
        self.made.append(str(asked.epsilon))
        if asked.norm == COSTLY:
            assert self.let_go.wait(PATIENCE_S)
        return make_offer(facts, asked)

    def plan(self, facts: DatasetFacts, asked: Question) -> Plan:
        """Plan a dry run, later."""
        self.made.append(str(asked.epsilon))
        assert self.let_go.wait(PATIENCE_S)
        return make_plan(facts, asked)


COSTLY = "l2"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    """Take a question that names its norm for a costly one."""

    def estimate(asked: Question, _schema: Schema) -> float:
        return LONGEST_SHORT_MS * (2.0 if asked.norm == COSTLY else 0.1)

    monkeypatch.setattr(Question, "planning_ms", estimate)
    found = Held()
    monkeypatch.setattr(plan_module, "make_offer", found.make)
    monkeypatch.setattr(dry_run_module, "make_plan", found.plan)
    monkeypatch.setattr(process_module, "CalculatingProcesses", lambda **_: found)
    return found


def costly(epsilon: str) -> Question:
    return replace(question(epsilon), norm=COSTLY)


async def _preview(
    services: Services,
    dataset: str,
    asked: Question,
    *,
    caller: Caller = BOB,
    accuracy: float | None = None,
) -> dict[str, object]:
    options = PreviewOptions(accuracy=accuracy)
    return await services.previews.preview(dataset, asked, options, caller=caller)


async def _begun(services: Services, dataset: str, *epsilons: str) -> list[asyncio.Task[Any]]:
    tasks = [
        asyncio.ensure_future(
            services.releases.submit(dataset, costly(epsilon), idem=f"{place}", caller=BOB)
        )
        for place, epsilon in enumerate(epsilons)
    ]
    await asyncio.sleep(0.2)
    return tasks


def test_costly_plans_wait_apart_and_not_without_bound(tmp_path: Path, held: Held) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, max_waiting_plans=2, draw_threads=1) as (_, services):
            dataset = await new_dataset(services, "20")
            free = [
                asyncio.ensure_future(_preview(services, dataset, costly(epsilon)))
                for epsilon in ("3", "3.25")
            ]
            await asyncio.sleep(0.2)
            # releases have lanes of their own
            waiting = await _begun(services, dataset, "2", "2.5")
            assert held.made == ["3", "2"]
            for attempt in (
                services.releases.submit(dataset, costly("3"), idem="c", caller=BOB),
                _preview(services, dataset, costly("3")),
                _preview(services, dataset, question("1"), accuracy=0.1),
            ):
                with pytest.raises(Problem, match="busy"):
                    await asyncio.wait_for(attempt, PATIENCE_S)
            assert spent(services, dataset) == 0
            # what is short is served meanwhile, and others have their own queue
            anothers = asyncio.ensure_future(_preview(services, dataset, costly("3.5"), caller=ADA))
            found = await asyncio.wait_for(
                services.releases.submit(dataset, question("1"), idem="d", caller=BOB), 10
            )
            assert found.state is ReleaseState.RELEASED
            await _preview(services, dataset, question("0.5"))
            assert spent(services, dataset) == 10**9
            assert "3.5" in held.made, "it does not wait"
            held.let_go.set()
            assert (await anothers)["cost"] == "3.5"
            await asyncio.gather(*free)
            for task in waiting:
                record = await task
                assert (record.state, record.worker) == (ReleaseState.DEBITED, None)
                assert job_of_record(record) == Job(2, 1), "what is costly to plan is a job"
            preview = await _preview(services, dataset, question("1"), accuracy=0.1)
            assert preview["accuracy"] is not None
            assert not held.closed

    asyncio.run(scenario())
    assert held.closed


def test_the_same_costly_plan_is_made_once(tmp_path: Path, held: Held) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (_, services):
            dataset = await new_dataset(services, "20")
            waiting = await _begun(services, dataset, "2", "2", "2")
            held.let_go.set()
            for task in waiting:
                await task
            assert spent(services, dataset) == 3 * 2 * 10**9
            for epsilon in ("3", "3"):
                await _preview(services, dataset, costly(epsilon))
            await _begun(services, dataset, "3")

    asyncio.run(scenario())
    assert held.made == ["2", "3", "3"], "a release is planned with its preview"


def test_what_is_charged_already_is_planned_no_more(tmp_path: Path, held: Held) -> None:
    """However many wait for their plans: its own is read."""

    async def scenario() -> None:
        async with opened(tmp_path, max_waiting_plans=1) as (store, services):
            dataset = await new_dataset(services, "20")
            release = await leave_debited(services, store, dataset, "left", asked=costly("1.5"))
            waiting = await _begun(services, dataset, "2")
            services.jobs.start()
            assert (await final(services, release)).state is ReleaseState.RELEASED
            assert held.made == ["2"]
            held.let_go.set()
            await asyncio.gather(*waiting)

    asyncio.run(scenario())
