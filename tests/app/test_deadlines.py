"""What is a job: a public rule, for every offer of the catalog."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from app.services.plans.deadlines import (
    ESTIMATES,
    LONGEST_DEADLINE_S,
    LONGEST_INLINE_MS,
    Job,
    batched_ms,
    expected_ms,
    job_of,
)
from mechanisms.catalog import STATISTICS, calibrate
from mechanisms.contract import Block, InvalidStatisticError, Statistic
from mechanisms.domain import Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.stack import Part, Stack
from tests.mechanisms.offers import ADD, PROOFS, REPLACE, Proof

MANY = 10**8


def schema(proof: Proof, adjacency: Adjacency, rows: int) -> Schema:
    known = rows if adjacency is REPLACE else None
    return Schema(proof.columns, adjacency, known, rows)


def estimate(statistic: Statistic, where: Schema, mechanism: str = "auto") -> float:
    plan = calibrate(statistic, where, Epsilon.parse("1"), mechanism=mechanism)
    return expected_ms(statistic, plan, where)


def test_every_offer_has_an_estimate() -> None:
    offered = {
        (mechanism, kind)
        for kind, statistic in STATISTICS.items()
        for mechanism in statistic.mechanisms
        if statistic is not Stack
    }
    assert set(ESTIMATES) >= offered


@pytest.mark.parametrize(
    "proof", PROOFS, ids=lambda proof: f"{proof.statistic.kind}-{proof.mechanism}"
)
def test_nobody_waits_for_a_draw_whose_time_may_depend_on_the_data(proof: Proof) -> None:
    adjacency = proof.adjacencies[0]
    where = schema(proof, adjacency, 10)
    plan = calibrate(proof.statistic, where, Epsilon.parse("1"), mechanism=proof.mechanism)
    taken = batched_ms(proof.statistic, plan, where)
    if proof.mechanism == "k_norm":
        assert taken == expected_ms(proof.statistic, plan, where)
    else:
        assert taken == math.inf


@dataclass
class Watched:
    """A data set that tells whether its rows were read."""

    data: Any
    passes: int = 0

    @property
    def rows(self) -> int:
        return int(self.data.rows)

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        return self.data.gram(columns)

    def ordered(self, column: str) -> Any:
        return self.data.ordered(column)

    def category_counts(self, column: str) -> Any:
        return self.data.category_counts(column)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        self.passes += 1
        return iter(self.data.blocks(columns))


@pytest.mark.parametrize(
    ("proof", "adjacency"),
    [(proof, adjacency) for proof in PROOFS for adjacency in proof.adjacencies],
    ids=lambda part: f"{part.statistic.kind}-{part.mechanism}" if isinstance(part, Proof) else part,
)
def test_what_reads_rows_is_a_job_on_many_rows(proof: Proof, adjacency: Adjacency) -> None:
    data = Watched(proof.pair(adjacency)[0])
    small = schema(proof, adjacency, data.rows)
    plan = calibrate(proof.statistic, small, Epsilon.parse("1"), mechanism=proof.mechanism)
    plan.draw(data, system_randomness())
    try:
        many = schema(proof, adjacency, MANY)
        on_many = estimate(proof.statistic, many, proof.mechanism)
    except InvalidStatisticError:
        return  # refused on so many rows
    if data.passes:
        assert on_many > LONGEST_INLINE_MS


def test_sketched_statistics_cost_the_same_on_any_number_of_rows() -> None:
    proof = next(proof for proof in PROOFS if proof.statistic.kind == "mean")
    few, many = (schema(proof, REPLACE, rows) for rows in (10, MANY))
    assert estimate(proof.statistic, few) == estimate(proof.statistic, many) < LONGEST_INLINE_MS


def test_a_job_follows_from_public_facts_alone() -> None:
    proof = next(proof for proof in PROOFS if proof.statistic.kind == "quantile_regression")
    statistic = QuantileRegression(target="y", features=("x",), bound=1.0)
    answers: Mapping[int, bool] = {100: False, 1_000_000: True}
    for adjacency in (REPLACE, ADD):
        for rows, is_job in answers.items():
            known = schema(proof, adjacency, rows)
            plan = calibrate(
                statistic, known, Epsilon.parse("1"), mechanism="objective_perturbation"
            )
            assert (job_of(statistic, plan, known) is not None) == is_job


def test_what_the_box_engine_draws_is_a_job_however_small() -> None:
    """The time of such a draw is told by the data: here a few rows that are all alike."""
    drawn = {("kng", "geometric_median"), ("kng", "logistic_regression")}
    drawn |= {(mechanism, "quantile_regression") for mechanism in ("kng", "exponential")}
    small = [proof for proof in PROOFS if (proof.mechanism, proof.statistic.kind) in drawn]
    assert {(proof.mechanism, proof.statistic.kind) for proof in small} == drawn
    for proof in small:
        known = schema(proof, REPLACE, 10)
        plan = calibrate(proof.statistic, known, Epsilon.parse("1"), mechanism=proof.mechanism)
        assert job_of(proof.statistic, plan, known) == Job(2)


def test_deadlines_are_powers_of_two_with_an_end() -> None:
    proof = next(proof for proof in PROOFS if proof.statistic.kind == "quantile_regression")
    statistic = QuantileRegression(target="y", features=("x", "yes"), bound=1.0)
    deadlines = []
    for rows in (1000, 10_000, 100_000, 1_000_000):
        known = schema(proof, REPLACE, rows)
        plan = calibrate(statistic, known, Epsilon.parse("1"), mechanism="kng")
        job = job_of(statistic, plan, known)
        assert job is not None
        assert job.deadline_s.bit_count() == 1
        assert job.deadline_s <= LONGEST_DEADLINE_S
        assert job.deadline_s * 1000 >= expected_ms(statistic, plan, known)
        deadlines.append(job.deadline_s)
    assert deadlines == sorted(deadlines)
    assert deadlines[0] < deadlines[-1]


def test_a_stack_costs_what_its_parts_cost() -> None:
    proof = next(proof for proof in PROOFS if proof.statistic.kind == "mean")
    known = schema(proof, REPLACE, 100)
    mean = Mean(columns=("x", "y"))
    parts = tuple(Part(statistic=mean) for _ in range(3))
    assert math.isclose(estimate(Stack(parts=parts), known), 3 * estimate(mean, known))
