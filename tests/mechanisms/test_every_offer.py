"""Nothing is offered untested: the catalog is read, and every offer in it is tried.

For each statistic x mechanism x norm x adjacency: the plan says what it promises, draws on tiny and
degenerate data have the declared shape at every epsilon, the noise mirrors the value (or a sentence
says why there is none), and a black-box auditor finds no more than epsilon on the worst pair of
neighbours, while it does flag the same mechanism at a multiple of epsilon. What each offer is tried
with is registered in :mod:`tests.mechanisms.offers`.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import MECHANISMS, calibrate, offers
from mechanisms.composition import SMALLEST_EPSILON
from mechanisms.contract import InvalidStatisticError, Noise, Plan
from mechanisms.domain import CategoryColumn, NumberColumn
from mechanisms.privacy import PURE, ZCDP, Adjacency, Epsilon, EpsilonShare, PrivacyLoss
from mechanisms.sketches import ArrayData
from mechanisms.testing import audit_epsilon, seeded_randomness
from tests.mechanisms.offers import PROOFS, REPLACE, Proof
from tests.tiers import in_groups

ROWS = 90
EPSILONS = ("0.000000001", "0.5", "10000")


@dataclass(frozen=True)
class Case:
    """One offer and the entry that proves it."""

    proof: Proof
    norm: str
    adjacency: Adjacency

    def __str__(self) -> str:
        return "-".join(
            (self.proof.statistic.kind, self.proof.mechanism, self.norm, self.adjacency)
        )

    def plan(self, epsilon: str | PrivacyLoss, rows: int) -> Plan:
        """Return the offer's plan on a data set with this many rows."""
        return calibrate(
            self.proof.statistic,
            self.proof.schema(self.adjacency, rows),
            Epsilon.parse(epsilon) if isinstance(epsilon, str) else epsilon,
            mechanism=self.proof.mechanism,
            norm=self.norm,
        )

    def readings(self, data: ArrayData, epsilon: Epsilon, seed: int) -> list[float]:
        """Draw the audited number from a data set."""
        plan, randomness = self.plan(str(epsilon), data.rows), seeded_randomness(seed)
        return [
            self.proof.reading(plan.draw(data, randomness).value)
            for _ in range(self.proof.draws_under(self.adjacency, self.norm))
        ]


CASES = [
    Case(proof, norm, adjacency)
    for proof in PROOFS
    for norm in proof.offered_norms
    for adjacency in proof.adjacencies
    if (norm, adjacency) not in proof.refused
]
REFUSED = [Case(proof, *pair) for proof in PROOFS for pair in proof.refused]


def offer_of(case: Case) -> tuple[str, str, str]:
    """Return what a catalog offers: kind, mechanism and norm."""
    return *mechanism_of(case), case.norm


def mechanism_of(case: Case) -> tuple[str, str]:
    """Return the statistic's kind and the mechanism that draws it."""
    return case.proof.statistic.kind, case.proof.mechanism


def first_of_each(
    key: Callable[[Case], object], cases: Sequence[Case] = CASES
) -> pytest.MarkDecorator:
    """Try the first case of each key, and the others in wide tests."""
    seen: set[object] = set()
    tried = []
    for case in cases:
        marks = [pytest.mark.wide] if key(case) in seen else []
        seen.add(key(case))
        tried.append(pytest.param(case, id=str(case), marks=marks))
    return pytest.mark.parametrize("case", tried)


FIRST = list({offer_of(case): case for case in reversed(CASES)}.values())[::-1]
every_offer = in_groups(
    "case",
    lambda case: case.proof.statistic.kind,
    FIRST,
    further=[case for case in CASES if case not in FIRST],
)
"""Each offer by its first entry and under its first adjacency; by the others in wide tests.

The offers of one statistic are one test.
"""


def test_every_offer_is_registered() -> None:
    offered = {
        (offer.statistic, offer.mechanism, norm, adjacency)
        for offer in offers()
        for norm in offer.norms or ("auto",)
        for adjacency in offer.adjacencies
    }
    proved = {
        (case.proof.statistic.kind, case.proof.mechanism, case.norm, case.adjacency.value)
        for case in CASES
    }
    assert offered == proved, "register the offer in tests/mechanisms/offers.py"


@every_offer
def test_a_plan_says_what_it_promises(case: Case) -> None:
    for epsilon in EPSILONS:
        plan = case.plan(epsilon, 5)
        assert plan.mechanism == case.proof.mechanism
        assert case.norm in (plan.norm, "auto", "optimal")
        assert plan.guarantee.definition == (PURE if case.proof.is_pure else ZCDP)
        assert plan.guarantee.exact
        assert str(plan.guarantee.epsilon) == epsilon
        assert plan.guarantee.adjacency is case.adjacency
        assert plan.guarantee.sensitivity
        assert plan.guarantee.sensitivity_unit
        assert plan.guarantee.theorem == MECHANISMS[case.proof.mechanism].THEOREM
        assert plan.reason
        assert plan.grid
        told = plan.details.get("noise")
        assert isinstance(told, str), "details.noise says what is known of the noise"
        assert len(told.split()) > 5
        for public in (plan.grid, plan.details, [asdict(other) for other in plan.alternatives]):
            assert json.loads(json.dumps(public, allow_nan=False)) is not None
        named = {(offer.mechanism, norm) for offer in offers() for norm in offer.norms}
        for other in plan.alternatives:
            assert other.comparison
            assert other.norm is None or (other.mechanism, other.norm) in named


@every_offer
def test_draws_on_tiny_data_have_the_declared_shape(case: Case) -> None:
    randomness = seeded_randomness(7)
    for epsilon in EPSILONS:
        for data in case.proof.tiny(case.adjacency):
            plan = case.plan(epsilon, data.rows)
            outcome = plan.draw(data, randomness)
            assert skeleton(outcome.value) == case.proof.shape_under(case.adjacency)
            assert json.loads(json.dumps(outcome.value, allow_nan=False)) is not None
            if case.proof.noise:
                assert outcome.noise is not None
                mirrors(outcome.noise, outcome.value)
            else:
                assert outcome.noise is None


@every_offer
def test_the_smallest_share_of_a_stack_can_be_drawn(case: Case) -> None:
    least = EpsilonShare(Epsilon(1), SMALLEST_EPSILON * 10**9)
    if case.proof.mechanism == "composition":
        with pytest.raises(InvalidStatisticError, match="share"):
            case.plan(least, 5)
        return
    data = case.proof.pair(case.adjacency)[0]
    plan = case.plan(least, data.rows)
    assert str(plan.guarantee.epsilon) == "1/1000000000000"
    value = plan.draw(data, seeded_randomness(8)).value
    assert skeleton(value) == case.proof.shape_under(case.adjacency)


@every_offer
def test_a_preview_mirrors_the_answer_around_zero(case: Case) -> None:
    plan = case.plan("0.5", 5)
    noise = plan.preview(20)
    assert (noise is not None) == case.proof.noise
    if noise is not None:
        zeros = without_intervals(case.proof.shape_under(case.adjacency))
        mirrors(noise, zeros)
        for low, high in intervals(noise.interval_95, zeros):
            assert low == -high
    without = plan.preview(None)
    assert without is None or skeleton(without.std) == skeleton(noise.std if noise else {})
    if case.adjacency is REPLACE:
        assert without == noise  # the row count is public


PLAIN = [case for case in CASES if case.proof.plain is not None]


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_without_noise_it_is_what_numpy_computes(case: Case) -> None:
    data = spread_out(case.proof)
    columns = {
        name: np.array([float(column.decode(int(code))) for code in data.codes[name]])
        for name, column in case.proof.columns.items()
        if isinstance(column, NumberColumn)
    }
    assert case.proof.plain is not None
    expected = case.proof.plain(columns)
    outcome = case.plan("10000", data.rows).draw(data, seeded_randomness(9))
    assert outcome.noise is not None
    assert skeleton(outcome.value) == skeleton(expected)
    given = numbers(outcome.value), numbers(expected), numbers(outcome.noise.std)
    for value, exact, std in zip(*given, strict=True):
        assert value == pytest.approx(exact, rel=3e-5, abs=12 * std + 1e-6)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_norm_that_cannot_be_drawn_is_refused(case: Case) -> None:
    with pytest.raises(InvalidStatisticError, match=r"l1|linf") as refusal:
        case.plan("1", 5)
    assert refusal.value.field_name == "norm"


@every_offer
def test_a_question_that_does_not_fit_is_refused(case: Case) -> None:
    other = Case(case.proof, "l0", case.adjacency)
    with pytest.raises(InvalidStatisticError):
        other.plan("1", 5)


@first_of_each(mechanism_of)
@pytest.mark.statistical
@pytest.mark.usefixtures("draws_share")
def test_the_auditor_finds_no_more_than_epsilon(case: Case) -> None:
    """Clopper-Pearson at 99.9%, with fixed seeds; the twin proves that it could have."""
    epsilon = Epsilon.parse(case.proof.epsilon)
    twin = Epsilon(epsilon.nanos * case.proof.caught_at)
    tests = events(case.proof.cuts)
    bounds = []
    for spent in (epsilon, twin):
        drawn = [
            case.readings(data, spent, seed)
            for seed, data in enumerate(case.proof.pair(case.adjacency), start=1)
        ]
        bounds.append(audit_epsilon(*drawn, tests, pure=case.proof.is_pure).epsilon)
    assert bounds[0] <= epsilon.fraction
    assert bounds[1] > epsilon.fraction, "choose a worse pair, better cuts or more draws"


def events(cuts: Sequence[float]) -> dict[str, Callable[[float], bool]]:
    """Return the audit's events: above and at most each cut."""
    above: dict[str, Callable[[float], bool]] = {
        f"above {cut}": lambda reading, cut=cut: reading > cut for cut in cuts
    }
    below: dict[str, Callable[[float], bool]] = {
        f"at most {cut}": lambda reading, cut=cut: reading <= cut for cut in cuts
    }
    return above | below


def spread_out(proof: Proof) -> ArrayData:
    """Return records all over the columns' bounds."""
    generator = random.Random(4)
    values: dict[str, list[object]] = {}
    for name, column in proof.columns.items():
        if isinstance(column, CategoryColumn):
            values[name] = [column.values[row % len(column.values)] for row in range(ROWS)]
        elif column.boolean:
            values[name] = [row % 2 for row in range(ROWS)]
        else:
            low, high = float(column.lower), float(column.upper)
            values[name] = [generator.uniform(low, high) for _ in range(ROWS)]
    records = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return proof.data(records)


def skeleton(part: Any) -> Any:
    """Return a structure with every number replaced by 0.0."""
    if isinstance(part, Mapping):
        return {key: skeleton(inner) for key, inner in part.items()}
    if isinstance(part, list | tuple):
        return [skeleton(inner) for inner in part]
    if isinstance(part, bool) or part is None or isinstance(part, str):
        return part
    assert isinstance(part, int | float)
    assert math.isfinite(part)
    return 0.0


def without_intervals(part: Any) -> Any:
    """Return a value whose rows lack the intervals that they show: its noise and inference."""
    if isinstance(part, Mapping):
        shown = ("interval", "interval_of")
        return {name: without_intervals(inner) for name, inner in part.items() if name not in shown}
    return [without_intervals(each) for each in part] if isinstance(part, list | tuple) else part


def mirrors(noise: Noise, value: Any) -> None:
    """Check that a noise has a deviation and an interval wherever the value has a number."""
    value = without_intervals(value)
    assert skeleton(noise.std) == skeleton(value)
    assert json.dumps([noise.std, noise.interval_95], allow_nan=False)
    for std in numbers(noise.std):
        assert std >= 0
    found = zip(intervals(noise.interval_95, value), numbers(value), strict=True)
    for (low, high), released in found:
        assert low <= released <= high


def numbers(part: Any) -> Iterator[float]:
    """Yield the numbers of a structure, in order."""
    if isinstance(part, Mapping):
        part = list(part.values())
    if isinstance(part, list | tuple):
        for inner in part:
            yield from numbers(inner)
    elif isinstance(part, int | float):
        yield float(part)


def intervals(part: Any, value: Any) -> Iterator[tuple[float, float]]:
    """Yield the pair that stands for each number of a value of the same shape."""
    if isinstance(value, Mapping):
        assert list(part) == list(value)
        for key, inner in value.items():
            yield from intervals(part[key], inner)
    elif isinstance(value, list | tuple):
        for mine, inner in zip(part, value, strict=True):
            yield from intervals(mine, inner)
    elif value is None or isinstance(value, str):
        assert part == value
    else:
        low, high = part
        yield low, high
