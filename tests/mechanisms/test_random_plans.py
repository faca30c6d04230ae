"""Whole plans of random questions: what neighbours lose, and what depends on rows at all.

What these questions are answered by are exact integer vectors with noise of a known law. Here the
noise is not random. Once it is nothing, and notes what it is added to: so the search sees each
vector of neighbours, and what their noises lose together is at most what is charged. Once the noisy
vectors are fixed numbers, whatever the rows: the whole answer must then be the same for all rows,
empty ones too, since everything but the noise is public. A question that does not fit is refused
by the plan; no other error may come from a plan or a draw.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from random import Random
from typing import Any

import pytest

from mechanisms import grouped, knorm, people
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.gaussian.noise import GaussianNoise
from mechanisms.knorm import IntegerNoise
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.knorm import gaussian_rho
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.tables import characters, gaussian, laplace, planning, ranges
from mechanisms.testing import seeded_randomness
from tests.enumeration.mutants import Mutant
from tests.mechanisms.random_questions import data_of, random_question, random_row, random_schema
from tests.mechanisms.test_knorm_privacy import loss
from tests.tiers import wide

EPSILON = Epsilon.parse("1")
KINDS_OF_RECORDS = 9
SEEDS = 40
"""Of one case: about half of them are questions that fit their data set."""

Noise = tuple[str, Any, list[int | None]]
"""A kind of noise, its parameter, and the numbers that its vector is added to."""


class Nothing(int):
    """A noise of nothing, which notes the number that it is added to."""

    seen: list[int | None]
    place: int

    def __radd__(self, exact: int) -> int:
        self.seen[self.place] = int(exact)
        return int(exact)


class Fixed(int):
    """A noise that makes a noisy number this one, whatever it is added to."""

    def __radd__(self, _exact: int) -> int:
        return int(self)


Draw = Callable[[str, Any, int], list[Any]]


def replace_noise(monkeypatch: pytest.MonkeyPatch, draw: Draw) -> None:
    """Have all noise of sums drawn by this: of a kind, with a parameter, of a length."""
    monkeypatch.setattr(IntegerNoise, "draw", lambda own, _: draw("norm", own, own.dimension))
    monkeypatch.setattr(
        GaussianNoise, "draw", lambda own, _: draw("gaussian", own.variance, own.dimension)
    )
    for module, name, kind in (
        (laplace, "draw_hull", "hull"),
        (laplace, "draw_l1", "l1"),
        (ranges, "draw_l1", "l1"),
        (characters, "draw_linf", "linf"),
        (gaussian, "draw_discrete_gaussian", "gaussian"),
        (ranges, "draw_discrete_gaussian", "gaussian"),
    ):
        monkeypatch.setattr(module, name, _drawn_by(draw, kind))


def _drawn_by(draw: Draw, kind: str) -> Callable[..., list[Any]]:
    return lambda _randomness, size, parameter: draw(kind, parameter, size)


class Noted:
    """The vectors of one draw after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._found: list[Noise] = []
        replace_noise(monkeypatch, self._draw)

    def _draw(self, kind: str, parameter: Any, size: int) -> list[Any]:
        seen: list[int | None] = [None] * size
        self._found.append((kind, parameter, seen))
        made = [Nothing() for _ in range(size)]
        for place, each in enumerate(made):
            each.seen, each.place = seen, place
        return made

    def vectors(self, plan: Plan, rows: Sequence[Any]) -> list[Noise]:
        """What a draw from these rows adds its noise to."""
        self._found = []
        plan.draw(data_of(plan.schema, rows), seeded_randomness(1))
        return self._found


def spent(kind: str, parameter: Any, move: Sequence[int]) -> float:
    """What pure noise loses where its vector moves so."""
    if kind == "norm":
        assert not any(each % parameter.refinement for each in move)
        lost = loss(parameter, [each // parameter.refinement for each in move])
        squared = parameter.ball == "l2" and parameter.dimension > 1
        return math.sqrt(lost) if squared else float(lost)
    if kind == "hull":  # of cells that sum to 0, or a last one that is dropped
        sides = sum(max(each, 0) for each in move), sum(max(-each, 0) for each in move)
        return float(parameter) * max(sides)
    sizes = [abs(each) for each in move]
    return float(parameter) * (sum(sizes) if kind == "l1" else max(sizes, default=0))


def cost(plan: Plan, here: Sequence[Noise], there: Sequence[Noise]) -> float:
    """What two draws lose together, in terms of what is charged: in epsilon, or in rho."""
    total = 0.0
    for (kind, parameter, one), (other_kind, other_parameter, other) in zip(
        here, there, strict=True
    ):
        assert (kind, parameter) == (other_kind, other_parameter), "noise depends on rows"
        pairs = zip(one, other, strict=True)
        move = [a - b for a, b in pairs if a is not None and b is not None]
        if kind == "gaussian":
            assert not plan.guarantee.is_pure
            total += float(gaussian_rho(Fraction(sum(each * each for each in move)), parameter))
        elif any(move):
            lost = spent(kind, parameter, move)
            total += lost if plan.guarantee.is_pure else lost**2 / 2
    guarantee = plan.guarantee
    return total / float(guarantee.epsilon.fraction if guarantee.is_pure else guarantee.zcdp)


def planned(chance: Random) -> Plan | None:
    """A plan of a random question; None where that does not fit, and a refusal says so."""
    schema, asked = random_schema(chance), random_question(chance)
    mechanism = "auto"
    if isinstance(asked, LinearRegression):  # by other ways it is no noisy sum
        mechanism = "gaussian" if schema.zcdp and chance.random() < 0.5 else "functional"
    norms = asked.mechanisms.get(mechanism, ()) if chance.random() < 0.4 else ()
    norm = chance.choice(["auto", *norms])
    share = chance.choice([None, Fraction(1, 3)])
    try:
        return _with_errors(asked, schema, mechanism, norm, share)
    except InvalidStatisticError:
        return None


def _with_errors(
    asked: Statistic, schema: Schema, mechanism: str, norm: str, share: Fraction | None
) -> Plan:
    """The plan with standard errors where they are offered."""
    try:
        return calibrate(asked, schema, EPSILON, mechanism=mechanism, norm=norm, inference=share)
    except InvalidStatisticError as refusal:
        if share is None or refusal.field_name != "inference":
            raise
    return calibrate(asked, schema, EPSILON, mechanism=mechanism, norm=norm)


def neighbours(chance: Random, schema: Schema) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    """Pairs of tiny data sets that differ by one person."""
    kinds = [random_row(chance, schema) for _ in range(KINDS_OF_RECORDS)]
    if schema.adjacency is Adjacency.REPLACE_ONE:
        common = [chance.choice(kinds) for _ in range((schema.rows or 1) - 1)]
        for one, other in combinations(kinds, 2):
            yield [*common, one], [*common, other]
        return
    common = [chance.choice(kinds) for _ in range(chance.choice([0, 0, 2]))]
    for kind in kinds:
        yield [*common, *[kind] * schema.protects.rows], common


def worst_cost(noted: Noted, plan: Plan, chance: Random) -> float:
    known: dict[str, list[Noise]] = {}

    def vectors(rows: Sequence[Any]) -> list[Noise]:
        key = repr(rows)
        if key not in known:
            known[key] = noted.vectors(plan, rows)
        return known[key]

    pairs = neighbours(chance, plan.schema)
    return max(cost(plan, vectors(here), vectors(there)) for here, there in pairs)


def worst_costs(
    seeds: Iterable[int],
    planned: Callable[[Random], Plan | None],
    worst_cost: Callable[[Plan, Random], float],
) -> list[float]:
    """Return what the worst neighbours cost of what is charged, for each seed with a plan."""
    found = []
    for seed in seeds:
        chance = Random(seed)
        plan = planned(chance)
        if plan is not None:
            worst = worst_cost(plan, chance)
            assert worst <= 1 + 1e-9, f"seed {seed}: {plan.statistic}"
            found.append(worst)
    return found


@pytest.mark.parametrize("start", [0, *wide(*range(SEEDS, 25 * SEEDS, SEEDS))])
def test_neighbours_of_random_questions_lose_what_is_charged_and_no_more(
    monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    noted = Noted(monkeypatch)
    found = worst_costs(range(start, start + SEEDS), planned, partial(worst_cost, noted))
    assert len(found) > SEEDS / 4
    assert sum(worst > 0.9 for worst in found) > len(found) / 3, "hardly any is near its charge"


WRONG = {
    "groups at the whole of epsilon": Mutant(
        of=grouped, name="group_epsilon", old="return half", new="return epsilon", case=""
    ),
    "people of several rows as of one": Mutant(
        of=people,
        name="per_row",
        old="part_of(epsilon, several)",
        new="epsilon",
        case="",
    ),
    "parts of weights as whole records": Mutant(
        of=planning.WeighedMeasurement,
        name="draw",
        old="self.whole.draw(counts, randomness)",
        new="self.whole.draw({C: 2 * each for C, each in counts.items()}, randomness)",
        case="",
    ),
}


@pytest.mark.parametrize("mutant", WRONG.values(), ids=WRONG)
def test_a_plan_that_loses_too_much_is_found(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    mutant.plant(monkeypatch)
    noted = Noted(monkeypatch)
    for seed in range(40 * SEEDS):
        chance = Random(seed)
        plan = planned(chance)
        if plan is not None and worst_cost(noted, plan, chance) > 1.2:
            return
    pytest.fail("no random question found it")


# What depends on rows


def _fixed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Have noisy vectors be the same numbers in every draw; count what was drawn since."""
    drawn: Counter[str] = Counter()

    def draw(kind: str, parameter: Any, size: int) -> list[Any]:
        chance = Random(f"{kind} {size} {drawn.total()}")
        drawn[kind] += 1
        unit = 1 << 34 if kind == "norm" else 10
        steps = getattr(parameter, "refinement", 1)
        return [Fixed(chance.choice([0, 1, -1, 3, unit, -unit]) * steps) for _ in range(size)]

    replace_noise(monkeypatch, draw)
    return drawn


def answers(plan: Plan, chance: Random, drawn: Counter[str]) -> set[str]:
    """The whole answers to one question of very different rows."""
    schema = plan.schema
    rows = [random_row(chance, schema) for _ in range(5)]
    bare = {name: None if name in schema.optional else rows[0][name] for name in rows[0]}
    if schema.rows is None:
        sets = [rows, [rows[0]] * 7, [bare], []]
    else:
        sets = [[chance.choice(rows) for _ in range(schema.rows)] for _ in range(2)]
        sets.append([bare] * schema.rows)
    found = set()
    for each in sets:
        drawn.clear()
        found.add(repr(plan.draw(data_of(schema, each), seeded_randomness(1)).settled()))
    return found


@pytest.mark.parametrize("start", [0, *wide(*range(SEEDS, 15 * SEEDS, SEEDS))])
def test_all_but_the_noise_is_public(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    drawn = _fixed(monkeypatch)
    for seed in range(start, start + SEEDS):
        chance = Random(seed)
        plan = planned(chance)
        if plan is not None:
            assert len(answers(plan, chance, drawn)) == 1, f"seed {seed}: {plan.statistic}"


def test_an_answer_that_tells_of_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, shipped = _fixed(monkeypatch), knorm.draw_coordinates

    def telling(form: Any, noise: Any, data: Any, randomness: Any) -> list[Fraction]:
        first, *rest = shipped(form, noise, data, randomness)
        return [first + data.rows, *rest]

    monkeypatch.setattr(knorm, "draw_coordinates", telling)
    for seed in range(SEEDS):
        chance = Random(seed)
        plan = planned(chance)
        if plan is not None and len(answers(plan, chance, drawn)) > 1:
            return
    pytest.fail("no random question found it")
