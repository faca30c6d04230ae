"""What tables that are selected lose as a whole: counts, every choice of a pair, and the tables.

Each step may look at what the steps before released. So the noisy counts are held fixed, and the
choices too. For these, what neighbours lose in each step is known exactly: that of noise from its
norm, that of a choice from the laws of both. All steps together lose at most what is charged, and
nearly that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan
from mechanisms.exact.floats import Floats
from mechanisms.samplers.knorm import gaussian_rho
from mechanisms.statistics.tables import Tables
from mechanisms.tables import planning
from mechanisms.testing import seeded_randomness
from tests.enumeration.mutants import Mutant
from tests.mechanisms.random_questions import CONDITIONS, DERIVED, data_of, random_schema
from tests.mechanisms.test_random_plans import (
    EPSILON,
    neighbours,
    replace_noise,
    spent,
    worst_costs,
)
from tests.tiers import wide

SEEDS = 12
COLUMNS = ("g", "h", "yes", "no", "town")
Step = tuple[str, Any, list[Any]]


class Held(int):
    """A noise that makes a noisy number this one, and notes what it is added to."""

    seen: list[int | None]
    place: int

    def __radd__(self, exact: int) -> int:
        self.seen[self.place] = int(exact)
        return int(self)


class Steps:
    """The steps of one draw after the other, all released numbers held fixed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._found: list[Step] = []
        replace_noise(monkeypatch, self._noise)
        for name in ("permute_and_flip", "draw_by_weight"):
            monkeypatch.setattr(planning, name, self._choice(name))

    def _noise(self, kind: str, parameter: Any, size: int) -> list[Any]:
        chance, seen = Random(len(self._found)), [None] * size
        self._found.append((kind, parameter, seen))
        made = [Held(chance.randint(0, 6)) for _ in range(size)]
        for place, each in enumerate(made):
            each.seen, each.place = seen, place
        return made

    def _choice(self, name: str) -> Callable[..., int]:
        def draw(exponents: Sequence[Fraction], _randomness: Any) -> int:
            chosen = Random(len(self._found)).randrange(len(exponents))
            self._found.append((name, len(exponents), [float(each) for each in exponents]))
            return chosen

        return draw

    def of(self, plan: Plan, rows: Sequence[Any]) -> list[Step]:
        """What a draw from these rows does."""
        self._found = []
        plan.draw(data_of(plan.schema, rows), seeded_randomness(1))
        return self._found


def log_law(name: str, exponents: Sequence[float]) -> Floats:
    """The logarithms of the probabilities of a choice."""
    heads = np.exp(-np.array(exponents))
    if name == "draw_by_weight":
        return np.asarray(np.log(heads / heads.sum()))
    found = []
    for at, own in enumerate(heads):  # the integral of a product over the place in the order
        product = np.array([1.0])
        for other in np.delete(heads, at):
            product = np.convolve(product, [1.0, -other])
        found.append(own * (product / np.arange(1, len(product) + 1)).sum())
    return np.log(found)


def cost(plan: Plan, here: Sequence[Step], there: Sequence[Step]) -> float:
    """What two draws lose together, in terms of what is charged: in epsilon, or in rho."""
    pure, total = plan.guarantee.is_pure, 0.0
    for (kind, parameter, one), (other_kind, other_parameter, other) in zip(
        here, there, strict=True
    ):
        assert (kind, parameter) == (other_kind, other_parameter), "a step depends on rows"
        if kind in ("permute_and_flip", "draw_by_weight"):
            ratios = log_law(kind, one) - log_law(kind, other)
            assert pure or kind == "draw_by_weight", "its range is not bounded"
            total += np.abs(ratios).max() if pure else np.ptp(ratios) ** 2 / 8
            continue
        pairs = zip(one, other, strict=True)
        move = [a - b for a, b in pairs if a is not None and b is not None]
        if kind == "gaussian":
            total += float(gaussian_rho(Fraction(sum(each * each for each in move)), parameter))
        elif any(move):
            lost = spent(kind, parameter, move)
            total += lost if pure else lost**2 / 2
    guarantee = plan.guarantee
    return float(total) / float(guarantee.epsilon.fraction if pure else guarantee.zcdp)


def planned(chance: Random) -> Plan | None:
    """A plan of selected tables; None where a condition does not fit the data set."""
    schema = replace(random_schema(chance), design=None)
    columns = tuple(chance.sample(COLUMNS, chance.randint(3, 4)))
    where = tuple(chance.sample(CONDITIONS, chance.choice([0, 0, 1])))
    derive = {"it": DERIVED["it"]} if any(each.column == "it" for each in where) else {}
    share = chance.choice([0.3, 0.9])
    asked = Tables(columns=columns, where=where, derive=derive, select="auto", select_share=share)
    try:
        return calibrate(asked, schema, EPSILON, mechanism=chance.choice(["auto", "margins"]))
    except InvalidStatisticError:
        return None


def worst_cost(steps: Steps, plan: Plan, chance: Random) -> float:
    pairs = neighbours(chance, plan.schema)
    return max(cost(plan, steps.of(plan, here), steps.of(plan, there)) for here, there in pairs)


@pytest.mark.parametrize("start", [0, *wide(*range(SEEDS, 10 * SEEDS, SEEDS))])
def test_all_steps_of_a_selection_lose_what_is_charged_and_no_more(
    monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    steps = Steps(monkeypatch)
    found = worst_costs(range(start, start + SEEDS), planned, partial(worst_cost, steps))
    assert max(found) > 0.9


def test_choices_at_four_times_their_rate_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    Mutant(
        of=planning.TreeChoice,
        name="tree",
        old="self.rate * (best - quality[pair])",
        new="4 * self.rate * (best - quality[pair])",
        case="",
    ).plant(monkeypatch)
    steps = Steps(monkeypatch)
    for seed in range(20 * SEEDS):
        chance = Random(seed)
        plan = planned(chance)
        if plan is not None and worst_cost(steps, plan, chance) > 1.05:
            return
    pytest.fail("no random question found it")


def test_the_law_of_permute_and_flip_is_that_of_its_definition() -> None:
    """Of two: the first in the order is taken, or its coin falls tails and the other one is."""
    head = math.exp(-1.5)
    assert np.exp(log_law("permute_and_flip", [0.0, 1.5])) == pytest.approx(
        [1 - head / 2, head / 2]
    )
