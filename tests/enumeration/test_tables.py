"""Measurements of workloads keep epsilon on every outcome, between all small data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import permutations, product
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pytest

from mechanisms.privacy import Adjacency
from mechanisms.randomness import Randomness
from mechanisms.tables.characters import CubeCharacters
from mechanisms.tables.gaussian import GaussianResiduals
from mechanisms.tables.laplace import LaplaceMargins
from mechanisms.tables.planning import Measurement, TreeChoice, scores
from mechanisms.tables.ranges import RangeTree
from mechanisms.tables.sensitivities import Changes
from mechanisms.tables.workload import ColumnSet, Counts, Workload, count_margins
from tests.enumeration.domains import Rows, data_sets, largest_loss, neighbours
from tests.enumeration.walk import RESOLVED, Bounds, law_of
from tests.tiers import wide

F = Fraction
TWO = Workload.of_order((2, 2), 1)
CHANGES = {
    Adjacency.REPLACE_ONE: Changes(replaced=True, added=False),
    Adjacency.ADD_REMOVE: Changes(replaced=False, added=True),
}


NESTED = Workload((2, 3), ((0,), (1,)))
"""Three places in two regions: a region follows from a place."""
CELLS = {TWO: [(0, 0), (0, 1), (1, 0), (1, 1)], NESTED: [(0, 0), (0, 1), (1, 2)]}
"""The cells that a record can be in."""


def measured(measurement: Measurement, rows: Rows[int], randomness: Randomness) -> tuple[int, ...]:
    """Draw all measurements of rows, each a number that stands for its two cells."""
    workload = measurement.workload
    codes = np.array([CELLS[workload][row] for row in rows], dtype=np.int64).reshape(-1, 2)
    tables = measurement.draw(count_margins(codes, workload), randomness)
    return tuple(int(each) for table in tables for each in np.ravel(table))


def laws_of(measurement: Measurement, *, times: int = 1) -> dict[Rows[int], Bounds]:
    """Walk the noise once, and add it to what is measured of every data set."""
    records = tuple(range(len(CELLS[measurement.workload])))
    sets = [rows for rows in data_sets(records, most=2) if rows]
    walked = law_of(lambda r: measured(measurement, (), r), cutoff=2.0**-30)
    assert walked.unresolved < RESOLVED
    exact = {rows: measured(measurement, rows, _Silent()) for rows in sets}
    return {
        rows: walked.mapped(
            lambda v, own=own: tuple(a + times * b for a, b in zip(own, v, strict=True))
        )
        for rows, own in exact.items()
    }


class _Silent(Randomness):
    """Every draw of noise is 0: its coins and bits are those of no noise."""

    def __init__(self) -> None:
        super().__init__(_Ones())

    def bernoulli_exp(self, exponent: Fraction) -> bool:
        """Accept."""
        return True

    def below(self, bound: int) -> int:
        """Return the middle, which is no noise for a coordinate of a cube."""
        return bound // 2 if bound % 2 else 0


class _Ones:
    """Bits that are all 1: no coin of a geometric variable shows a digit."""

    def bits(self, count: int) -> int:
        return (1 << count) - 1


MADE = [
    LaplaceMargins(TWO, CHANGES[Adjacency.REPLACE_ONE], TWO.margins, (1, 1), F(12)),
    LaplaceMargins(TWO, CHANGES[Adjacency.ADD_REMOVE], TWO.margins, (1, 1), F(12)),
    # one lattice step a record: coarse enough to be walked
    CubeCharacters(TWO, CHANGES[Adjacency.REPLACE_ONE], ((0,), (1,)), 1, F(10)),
    LaplaceMargins(NESTED, CHANGES[Adjacency.REPLACE_ONE], NESTED.margins, (1, 2), F(12)),
    LaplaceMargins(NESTED, CHANGES[Adjacency.ADD_REMOVE], NESTED.margins, (1, 1), F(12)),
]


@pytest.mark.parametrize(
    "measurement",
    [*MADE[:3], *wide(MADE[3]), MADE[4]],
    ids=["hulls", "l1", "cube", "levels", "l1 levels"],
)
def test_a_workload_uses_all_of_epsilon(measurement: Measurement) -> None:
    adjacency = next(each for each, changes in CHANGES.items() if changes == measurement.changes)
    epsilon = 10 if isinstance(measurement, CubeCharacters) else 12
    loss, pair = largest_loss(laws_of(measurement), adjacency)
    assert loss <= epsilon + 1e-12, pair
    assert loss > 0.999 * epsilon, pair


@pytest.mark.parametrize("changes", CHANGES.values(), ids=["replaced", "added"])
@pytest.mark.parametrize("workload", [TWO, NESTED], ids=["columns", "levels"])
def test_shares_that_add_up_to_more_are_caught(changes: Changes, workload: Workload) -> None:
    """The control: each margin with the whole of epsilon, not with half of it."""
    adjacency = next(each for each, own in CHANGES.items() if own == changes)
    whole = LaplaceMargins(workload, changes, workload.margins, (1, 1), F(24))
    assert largest_loss(laws_of(whole), adjacency)[0] > 12


# Blocks of ordered cells

BLOCKS = {
    Adjacency.REPLACE_ONE: RangeTree(3, CHANGES[Adjacency.REPLACE_ONE], "laplace", (1,), (F(6),)),
    Adjacency.ADD_REMOVE: RangeTree(
        2, CHANGES[Adjacency.ADD_REMOVE], "laplace", (2, 1), (F(6), F(6))
    ),
}


def blocks(tree: RangeTree, rows: Rows[int], randomness: Randomness) -> tuple[int, ...]:
    """Draw the counts of all blocks of cells."""
    counts = np.bincount(np.array(rows, dtype=np.int64), minlength=tree.cells).tolist()
    return tuple(each for level in tree.draw(counts, randomness) for each in level)


def laws_of_blocks(tree: RangeTree) -> dict[Rows[int], Bounds]:
    """Walk the noise of all blocks once, and add it to those of every data set."""
    walked = law_of(lambda r: blocks(tree, (), r), cutoff=2.0**-30)
    assert walked.unresolved < RESOLVED
    sets = [rows for rows in data_sets(tuple(range(tree.cells)), most=2) if rows]
    exact = {rows: blocks(tree, rows, _Silent()) for rows in sets}
    return {rows: walked.mapped(partial(_moved, own)) for rows, own in exact.items()}


def _moved(own: tuple[int, ...], noise: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(own, noise, strict=True))


@pytest.mark.parametrize("adjacency", BLOCKS, ids=["replaced", "added"])
def test_blocks_of_cells_use_all_of_epsilon(adjacency: Adjacency) -> None:
    loss, pair = largest_loss(laws_of_blocks(BLOCKS[adjacency]), adjacency)
    assert loss <= 12 + 1e-12, pair
    assert loss > 0.999 * 12, pair


def test_blocks_that_forget_one_of_two_changed_counts_are_caught() -> None:
    """The control: a replaced record moves two counts of a level, not one."""
    tree = replace(BLOCKS[Adjacency.REPLACE_ONE], noise=(F(12),))
    assert largest_loss(laws_of_blocks(tree), Adjacency.REPLACE_ONE)[0] > 12


# A tree of pairs of columns, chosen for a part of epsilon

THREE = (2, 2, 2)
RECORDS = [(0, 0, 0), (1, 1, 1), (0, 1, 0), (1, 1, 0)]
PAIRS: list[ColumnSet] = [(0, 1), (0, 2), (1, 2)]


def counted(rows: Rows[int], order: int) -> dict[ColumnSet, Counts]:
    """Return all margins of so many columns."""
    codes = np.array([RECORDS[row] for row in rows], dtype=np.int64).reshape(-1, 3)
    return dict(count_margins(codes, Workload.of_order(THREE, order)))


def law_of_flips(exponents: Sequence[float]) -> list[float]:
    """Return the law of permute-and-flip, over all orders."""
    found = [0.0] * len(exponents)
    orders = list(permutations(range(len(exponents))))
    for order in orders:
        left = 1 / len(orders)
        for place in order:
            heads = exp(-exponents[place])
            found[place] += left * heads
            left *= 1 - heads
    return found


def law_of_trees(choice: TreeChoice, quality: Mapping[ColumnSet, int]) -> dict[Any, float]:
    """Return the law of two of three pairs, whose second one is any other than the first."""
    found: dict[Any, float] = {}
    for first, one in _flipped(choice, quality).items():
        rest = {pair: each for pair, each in quality.items() if pair != first}
        for second, other in _flipped(choice, rest).items():
            tree = tuple(sorted((first, second)))
            found[tree] = found.get(tree, 0.0) + one * other
    return found


def _flipped(choice: TreeChoice, quality: Mapping[ColumnSet, int]) -> dict[ColumnSet, float]:
    best = max(quality.values())
    exponents = [float(choice.rate) * (best - each) for each in quality.values()]
    if choice.flips:
        return dict(zip(quality, law_of_flips(exponents), strict=True))
    weights = [exp(-each) for each in exponents]
    return {pair: each / sum(weights) for pair, each in zip(quality, weights, strict=True)}


@pytest.mark.parametrize("flips", [True, False], ids=["flips", "exponential"])
@pytest.mark.parametrize("numbers", [(3, 3, 3), (4, 0, 2), (0, 1, 4)])
def test_trees_are_drawn_by_their_law(numbers: tuple[int, ...], flips: bool) -> None:
    choice = TreeChoice.calibrated(THREE, CHANGES[Adjacency.ADD_REMOVE], F(16))
    choice = replace(choice, flips=flips)
    quality = dict(zip(PAIRS, numbers, strict=True))
    walked = law_of(partial(choice.tree, quality), cutoff=2.0**-22)
    for tree, probability in law_of_trees(choice, quality).items():
        low, high = float(walked.lower[tree]), float(walked.upper(tree))
        assert low - 1e-9 <= probability <= high + 1e-9
        assert high - low < 1e-3


def widest_range(choice: TreeChoice, adjacency: Adjacency) -> float:
    """Return by how much the log ratio of one draw of a pair varies at most."""
    people = 2 if adjacency is Adjacency.REPLACE_ONE else None
    sets = [rows for rows in data_sets(tuple(range(4)), most=2) if rows]
    sets = sets if people is None else [rows for rows in sets if len(rows) == people]
    widest = 0.0
    for noisy in map(np.array, product(product(range(3), repeat=2), repeat=3)):
        laws = {
            rows: _flipped(choice, scores(counted(rows, 2), list(noisy), people)) for rows in sets
        }
        for here, there in neighbours(list(laws), adjacency):
            ratios = [log(laws[here][pair] / laws[there][pair]) for pair in PAIRS]
            widest = max(widest, max(ratios) - min(ratios))
    return widest


@pytest.mark.parametrize("adjacency", CHANGES, ids=["replaced", "added"])
def test_a_draw_in_zcdp_has_the_range_that_is_charged(adjacency: Adjacency) -> None:
    choice = TreeChoice.in_zcdp(THREE, CHANGES[adjacency], F(1, 2))
    assert isinstance(choice.singles, GaussianResiduals)
    paid = float(choice.rho - choice.singles.rho) / 2
    assert paid == pytest.approx(1 / 16)
    assert 0.45 * sqrt(8 * paid) < widest_range(choice, adjacency) <= sqrt(8 * paid) * (1 + 1e-9)
    # the control
    assert widest_range(replace(choice, rate=3 * choice.rate), adjacency) > sqrt(8 * paid)


def largest_loss_of_choice(choice: TreeChoice, adjacency: Adjacency) -> float:
    """Return the largest log ratio of a whole draw: the noisy counts of columns, and the tree.

    All outcomes of columns count that have at most a record more or less than some data set.
    """
    sets = [rows for rows in data_sets(tuple(range(4)), most=2) if rows]
    people = 2 if adjacency is Adjacency.REPLACE_ONE else None
    own = {rows: np.array(list(counted(rows, 1).values())) for rows in sets}
    free = list(product(range(-1, 2), repeat=2))
    columns = [(m, 2 - m) for m in range(-1, 4)] if people else free
    worst = 0.0
    for noisy in map(np.array, product(columns, repeat=3)):
        trees: dict[Rows[int], dict[Any, float]] = {}
        for rows in sets if people is None else [each for each in sets if len(each) == people]:
            quality = scores(counted(rows, 2), list(noisy), people)
            trees[rows] = law_of_trees(choice, quality)
        for here, there in neighbours(list(trees), adjacency):
            # of each column a third of the epsilon of all, in a norm that moves by 1
            moved = [
                int(abs(noisy - own[rows]).sum()) / choice.singles.changes.l1
                for rows in (there, here)
            ]
            counts = float(choice.singles.epsilon) / 3 * (moved[0] - moved[1])
            odds = max(trees[here][tree] / trees[there][tree] for tree in trees[here])
            worst = max(worst, counts + log(odds))
    return worst


@pytest.mark.parametrize("adjacency", CHANGES, ids=["replaced", "added"])
def test_the_whole_choice_of_tables_costs_its_share(adjacency: Adjacency) -> None:
    choice = TreeChoice.calibrated(THREE, CHANGES[adjacency], F(1))
    assert 0.55 < largest_loss_of_choice(choice, adjacency) < 1 + 1e-9


@pytest.mark.parametrize("adjacency", CHANGES, ids=["replaced", "added"])
def test_a_choice_with_each_pair_at_the_whole_share_is_caught(adjacency: Adjacency) -> None:
    """The control: two pairs are drawn, and a score may rise while another one falls."""
    choice = TreeChoice.calibrated(THREE, CHANGES[adjacency], F(1))
    assert largest_loss_of_choice(replace(choice, rate=8 * choice.rate), adjacency) > 1
