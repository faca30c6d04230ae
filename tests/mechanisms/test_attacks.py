"""Attacks on the draws themselves: floats, shared randomness, noise that looks at data.

*Floats* (Mironov 2012; Haney et al. 2022): textbook noise in floats reaches other bit patterns
from one data set than from its neighbour, and one look at the low bits tells them apart. Here the
released numbers of both lie on one lattice, which the plan states; the textbook draw is the twin
that the same check catches. Where an answer is read off noisy numbers, these are what is attacked,
as they are handed to the reading, and the reading is shown to know nothing else of the data.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.domain import CODE_MAX, Schema
from mechanisms.exact.fractions import as_written
from mechanisms.objectives.geometric_median import MedianLaw
from mechanisms.sketches import ArrayData
from mechanisms.statistics.curves.counts import ReadFromCounts
from mechanisms.statistics.facts.readings import Sourced
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.tables import MarginStatistic
from mechanisms.tables.characters import CubeCharacters
from mechanisms.tables.gaussian import GaussianResiduals
from mechanisms.tables.laplace import LaplaceMargins
from mechanisms.tables.ranges import RangeTree
from mechanisms.testing import record_replay, seeded_randomness
from tests.mechanisms.offers import ADD, COLUMNS, REPLACE
from tests.mechanisms.test_every_offer import CASES, Case, first_of_each, numbers, offer_of
from tests.tiers import in_one

DRAWS = 20


def steps_of(grid: Any) -> Iterator[Fraction]:
    """Yield the steps of the released numbers, in the columns' units."""
    if isinstance(grid, Mapping):
        if "coefficients" in grid:
            grid = grid["coefficients"]
        elif "step" in grid:
            grid = grid["step"]
        for inner in grid.values():
            yield from steps_of(inner)
    elif isinstance(grid, list):
        for inner in grid:
            yield from steps_of(inner)
    else:
        yield Fraction(grid)


def lattice(case: Case, rows: int, epsilon: str = "1") -> Fraction | None:
    """Return the step of an offer's noisy numbers; None where they are functions of sums."""
    grid: Any = case.plan(epsilon, rows).grid
    grid = grid.get("read_off", grid)
    if "coordinate_step" in grid or "count_step" in grid:  # the lattice is that of sums
        return None
    return min(steps_of(grid))


def off_lattice(values: list[float], step: Fraction) -> int:
    """Count values that are no multiple of the step, which may be the float of a decimal."""
    steps = (step, as_written(float(step)))
    return sum(
        all(float(round(Fraction(value) / each) * each) != value for each in steps)
        for value in values
    )


@dataclass
class Taken:
    """What a reading was handed, draw by draw, and the noisy numbers in it."""

    sources: list[tuple[Any, ...]] = field(default_factory=list)
    numbers: list[list[float]] = field(default_factory=list)


@contextmanager
def readings_of(case: Case) -> Iterator[Taken]:
    """Record the noisy numbers that the answers of an offer are read off; none of most offers."""
    taken, statistic = Taken(), case.proof.statistic

    def recording(own: Callable[..., Any], found: Callable[[Any], Iterable[float]]) -> Any:
        def read(reader: Any, source: Any, schema: Schema) -> Any:
            taken.sources.append((source, schema))
            taken.numbers.append([*found(source)])
            return own(reader, source, schema)

        return read

    def measuring(own: Callable[..., Any]) -> Any:
        def draw(*given: Any) -> Any:
            measured = own(*given)
            taken.numbers.append([float(each) for part in measured for each in np.ravel(part)])
            return measured

        return draw

    with pytest.MonkeyPatch.context() as patch:
        if isinstance(statistic, ReadFromCounts):
            own = type(statistic).read
            patch.setattr(type(statistic), "read", recording(own, lambda n: n.counts.ravel()))
        elif isinstance(statistic, Sourced):
            own = type(statistic).read
            patch.setattr(type(statistic), "read", recording(own, lambda n: numbers(n.value)))
        elif isinstance(statistic, MarginStatistic) and statistic.raw:
            for kind in (LaplaceMargins, CubeCharacters, GaussianResiduals):
                patch.setattr(kind, "draw", measuring(kind.draw))
        elif _in_order(statistic):
            patch.setattr(RangeTree, "draw", measuring(RangeTree.draw))
        yield taken


def _in_order(statistic: object) -> bool:
    """Return whether cumulative counts are read off noisy blocks of cells."""
    return isinstance(statistic, Histogram) and statistic.ranges


def is_read_off(case: Case) -> bool:
    """Return whether a plan says that its numbers follow from noisy ones."""
    return "read_off" in case.plan("1", len(case.proof.common) + 1).grid


def drawn(case: Case, data: ArrayData, epsilon: str, *, seed: int = 5, draws: int = DRAWS) -> Any:
    """Return the noisy numbers of some draws: those released, or those they are read off."""
    plan, randomness = case.plan(epsilon, data.rows), seeded_randomness(seed)
    values: list[float] = []
    with readings_of(case) as taken:
        for _ in range(draws):
            value: Any = plan.draw(data, randomness).value
            # ratios and the like follow from the numbers whose steps are stated
            values += numbers({name: value[name] for name in value if name in plan.grid} or value)
    if not is_read_off(case):
        return values
    assert len(taken.numbers) == draws
    return [each for read in taken.numbers for each in read]


COMPUTED = {"correlation", "covariance", "moments", "std", "variance"}


def computed(case: Case) -> bool:
    """Return whether an offer's numbers are functions of sums, attacked by way of `sum`."""
    statistic: Any = case.proof.statistic
    if isinstance(statistic, Sourced):
        statistic = statistic.source_question(case.proof.schema(case.adjacency, 4))
    if statistic.follows_from_moments and case.proof.mechanism in ("functional", "gaussian"):
        return True
    if statistic.kind in COMPUTED:
        return True
    return isinstance(statistic, Mean) and (case.adjacency is ADD or statistic.weights is not None)


LATTICES = [case for case in CASES if not computed(case)]


@first_of_each(offer_of, LATTICES)
@pytest.mark.parametrize("epsilon", ["0.001", "1"])
def test_neighbours_reach_the_same_bit_patterns(case: Case, epsilon: str) -> None:
    """All bounds are dyadic here, so every lattice point is a float of its own."""
    for data in case.proof.pair(case.adjacency):
        step = lattice(case, data.rows, epsilon)
        assert step is not None
        assert off_lattice(drawn(case, data, epsilon), step) == 0


def test_only_what_has_no_lattice_of_its_own_is_left_out() -> None:
    assert [case for case in CASES if lattice(case, 4) is not None] == LATTICES


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_textbook_noise_is_caught(scale: float) -> None:
    generator = np.random.default_rng(1)
    uniform = generator.random(DRAWS * 10) - 0.5
    noise = -scale * np.sign(uniform) * np.log(1 - 2 * np.abs(uniform))
    step = Fraction(1, CODE_MAX)
    assert off_lattice([2.0 + v for v in noise.tolist()], step) > 0.9 * len(noise)


ADDITIVE = [case for case in LATTICES if case.proof.mechanism == "k_norm"]


@in_one("case", ADDITIVE)
def test_noise_does_not_look_at_the_data(case: Case) -> None:
    """The same bits give both neighbours the same noise: outputs differ as the statistics do."""
    pair = case.proof.pair(case.adjacency)
    seen = set()
    for seed in range(12):
        one, two = (
            [Fraction(x) for x in drawn(case, data, "0.01", seed=seed, draws=1)] for data in pair
        )
        # Answers are floats next to exact fractions, which rounds them a little.
        seen.add(tuple(round(a - b, 9) for a, b in zip(one, two, strict=True)))
    assert len(seen) == 1


READ = [case for case in CASES if isinstance(case.proof.statistic, ReadFromCounts)]


@in_one("case", READ)
def test_a_reading_knows_nothing_of_the_data_but_noisy_counts(case: Case) -> None:
    """A neighbour's reading, handed the first one's counts, gives the first one's answer."""
    statistic: Any = case.proof.statistic
    answers, handed = [], []
    for seed, data in enumerate(case.proof.pair(case.adjacency)):
        with readings_of(case) as taken:
            answers.append(case.plan("1", data.rows).draw(data, seeded_randomness(seed)))
        handed += taken.sources
    (first, schema), (other, its) = handed
    assert schema == its
    assert first.counts.tolist() != other.counts.tolist()
    found = statistic.read(replace(other, counts=first.counts), its)
    (read,) = (found if statistic.weights is None else found.of_rows_alone()).outcomes
    assert (read.value, read.inference) == (answers[0].value, answers[0].inference)


def test_every_answer_off_the_lattice_is_said_to_be_read_off() -> None:
    """What is attacked in place of answers is what plans say, and no more."""
    for case in LATTICES:
        statistic = case.proof.statistic
        read = isinstance(statistic, ReadFromCounts | Sourced)
        raw = isinstance(statistic, MarginStatistic) and statistic.raw
        assert is_read_off(case) == (read or raw or _in_order(statistic))


@pytest.mark.parametrize(("adjacency", "delta"), [(REPLACE, 2), (ADD, 1)])
def test_two_hundred_replays_of_the_geometric_median(adjacency: Any, delta: int) -> None:
    """The gradient at a fixed place changes by at most Delta_2, and nearly by it somewhere."""
    schema = Schema({name: COLUMNS[name] for name in ("x", "y")}, adjacency, 4, 100)
    if adjacency is ADD:
        schema = Schema(schema.columns, ADD, None, 100)
    place = np.array([[12_345.0, -6_789.0]])

    def gradient(data: ArrayData) -> list[Fraction]:
        points = np.column_stack([data.codes["x"], data.codes["y"]]).astype(np.int64)
        sums, _ = MedianLaw(points.reshape(-1, 2), rate=Fraction(1))._sums(place, 0.0)
        return [Fraction(x) for x in sums[0].tolist()]

    replay = record_replay(
        gradient,
        schema=schema,
        norm=lambda change: sum((x * x for x in change), Fraction(0)),
        trials=200,
    )
    assert 0.98 * delta < math.sqrt(replay.largest) <= delta + 1e-12


_FORK = """
import os
from fractions import Fraction
from mechanisms.catalog import calibrate
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.fractions import as_written
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.total import Sum

schema = Schema({"x": NumberColumn(Fraction(-1), Fraction(1))}, Adjacency.REPLACE_ONE, 2)
data = ArrayData.from_values(schema, {"x": [0.5, -0.5]})
plan = calibrate(Sum(columns=("x",)), schema, Epsilon.parse("0.000000001"))
warm = system_randomness()
plan.draw(data, warm)  # caches are filled, and a buffer of bits is half used
read, write = os.pipe()
for _ in range(100):
    child = os.fork()
    if child == 0:
        os.write(write, b"%r " % plan.draw(data, warm).value["x"])
        os._exit(0)
    os.waitpid(child, 0)
answers = os.read(read, 1 << 16).split() + [repr(plan.draw(data, warm).value["x"]).encode()]
assert len(answers) == 101 and len(set(answers)) == 101, len(set(answers))
"""


@pytest.mark.wide
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_hundred_forks_of_warm_state_repeat_nothing() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORK],
        timeout=120,
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


def test_no_draw_reads_the_shared_generators() -> None:
    """Seeding what a client could seed changes nothing, and a draw leaves their state alone."""
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]
    for case in CASES[::7]:
        data = case.proof.pair(case.adjacency)[0]
        case.plan("1", data.rows).draw(data, seeded_randomness(1))
    after = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]
    assert before == after
