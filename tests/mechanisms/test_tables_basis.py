"""Workloads, residuals, sensitivities and splits, against dense matrices on small domains."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import fsum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.exact.floats import Floats
from mechanisms.tables import sensitivities
from mechanisms.tables.gaussian import optimal_spreads
from mechanisms.tables.residuals import (
    Residual,
    cell_variance,
    centred,
    diagonal,
    exact,
    reconstruct,
    summed,
)
from mechanisms.tables.sensitivities import Changes, squared_sensitivity
from mechanisms.tables.workload import (
    ColumnSet,
    Workload,
    WorkloadError,
    count_margins,
)
from tests.tiers import in_one

REPLACED, ADDED, ANY = Changes(True, False), Changes(False, True), Changes(True, True)
WORKLOADS = [
    Workload.of_order((2, 3, 4), 1),
    Workload.of_order((2, 3, 2, 2), 2),
    Workload.of_order((2, 2, 3, 2), 3),
    Workload((3, 1, 2, 4), ((0,), (0, 1), (2, 3), (0, 3))),
    Workload((2, 2, 2), ((0, 1, 2), (1,))),
]


def query(workload: Workload, columns: ColumnSet) -> Floats:
    """The dense matrix of one margin on the whole domain."""
    matrix = np.ones((1, 1))
    for i, size in enumerate(workload.sizes):
        matrix = np.kron(matrix, np.eye(size) if i in columns else np.ones((1, size)))
    return matrix


def projection(workload: Workload, columns: ColumnSet) -> Floats:
    """The dense P_A."""
    matrix = np.ones((1, 1))
    for i in columns:
        size = workload.sizes[i]
        matrix = np.kron(matrix, np.eye(size) - 1 / size)
    return matrix


def random_codes(workload: Workload, records: int, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([generator.integers(0, n, records) for n in workload.sizes], axis=1)


@in_one(
    ("sizes", "margins", "words"),
    [
        ((2,) * 101, ((0,),), "at most 100 columns"),
        ((2, 2), (), "at least one margin"),
        ((2, 2), ((0,), (0,)), "twice"),
        ((2, 2), ((1, 0),), "each once"),
        ((2, 2), ((0, 0),), "each once"),
        ((2, 2), ((),), "at least one column"),
        ((2, 2), ((0, 2),), "among the columns"),
        ((2, 2), ((-1, 1),), "among the columns"),
        ((2, 0), ((0,),), "at least one cell"),
        ((1001, 1000), ((0, 1),), "1,000,000 cells"),
    ],
)
def test_what_is_no_workload_is_refused(
    sizes: tuple[int, ...], margins: tuple[ColumnSet, ...], words: str
) -> None:
    with pytest.raises(WorkloadError, match=words):
        Workload(sizes, margins)


def test_too_many_columns_are_refused_before_they_are_combined() -> None:
    with pytest.raises(WorkloadError, match="100 columns"):
        Workload.of_order((2,) * 100_000, 3)
    assert len(Workload.of_order((2,) * 100, 2).margins) == 4950
    assert Workload.of_order((2, 5), 3).margins == ((0, 1),)


def test_the_closure_has_what_the_margins_are_made_of() -> None:
    workload = WORKLOADS[3]
    assert workload.closure() == ((), (0,), (2,), (3,), (0, 3), (2, 3))  # column 1 has one cell
    assert workload.maximal() == ((0, 1), (2, 3), (0, 3))
    assert workload.cells == 3 + 3 + 8 + 12
    assert workload.holders()[(3,)] == (2, 3)


@in_one("workload", [*WORKLOADS, Workload.of_order((2, 3, 2, 2, 4), 2)])
def test_counts_are_those_of_the_dense_queries(workload: Workload) -> None:
    codes = random_codes(workload, 40_000)
    cells = np.ravel_multi_index(tuple(codes.T), workload.sizes)
    domain = np.bincount(cells, minlength=int(np.prod(workload.sizes)))
    for columns, counted in count_margins(codes, workload).items():
        assert (query(workload, columns) @ domain == counted.ravel()).all()


def residuals_of(workload: Workload, counts: dict[ColumnSet, np.ndarray]) -> dict:
    holders = workload.holders()
    return {
        A: Residual(centred(exact(summed(counts[holders[A]], holders[A], A))), 1)
        for A in workload.closure()
    }


@pytest.mark.parametrize("workload", WORKLOADS)
def test_residuals_make_every_margin_again_exactly(workload: Workload) -> None:
    codes = random_codes(workload, 500)
    counts = count_margins(codes, workload)
    residuals = residuals_of(workload, counts)
    for A, residual in residuals.items():
        holder = workload.holders()[A]
        own = projection(workload, A) @ summed(counts[holder], holder, A).ravel().astype(float)
        assert residual.values.ravel().astype(float) / workload.size(A) == pytest.approx(own)
    for margin in workload.margins:
        made = reconstruct(workload, residuals, margin)
        holder = next(each for each in counts if set(margin) <= set(each))
        assert (made.values == made.denominator * summed(counts[holder], holder, margin)).all()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_margins_of_any_residuals_agree(data: st.DataObject) -> None:
    """Shared columns have one margin, whatever the residuals and their scales are."""
    workload = data.draw(st.sampled_from(WORKLOADS))
    numbers = st.integers(-(10**30), 10**30)  # far beyond what an int64 holds
    residuals = {
        A: Residual(
            centred(
                exact(data.draw(st.lists(numbers, min_size=n, max_size=n))).reshape(
                    workload.shape(A)
                )
            ),
            data.draw(st.integers(1, 50)),
        )
        for A in workload.closure()
        for n in [workload.size(A)]
    }
    for one, other in combinations(workload.margins, 2):
        shared = tuple(i for i in one if i in other)
        sums = []
        for margin in (one, other):
            made = reconstruct(workload, residuals, margin)
            total = exact(summed(made.values, margin, shared))
            sums.append([Fraction(int(each), made.denominator) for each in total.ravel()])
        assert sums[0] == sums[1]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_variance_of_a_cell_is_that_of_the_dense_covariance(workload: Workload) -> None:
    spreads = {A: 1.0 + place for place, A in enumerate(workload.closure())}
    for margin in workload.margins:
        covariance = np.zeros((workload.size(margin),) * 2)
        for A, s in spreads.items():
            if set(A) <= set(margin):
                # sums over the columns outside A of the domain of the margin alone
                inner = Workload(workload.sizes, (margin,))
                matrix = np.ones((1, 1))
                for i in margin:
                    n = inner.sizes[i]
                    matrix = np.kron(
                        matrix, np.eye(n) - 1 / n if i in A else np.ones((n, n)) / n**2
                    )
                covariance += s * matrix
        found = np.diag(covariance)
        assert found == pytest.approx(cell_variance(workload, spreads, margin))


def worst(workload: Workload, weights: dict[ColumnSet, Fraction], changes: Changes) -> float:
    """The largest weighted squared norm over all pairs of records of the whole domain."""
    moved = {A: projection(workload, A) @ query(workload, A) for A in weights}
    found = 0.0
    points = range(int(np.prod(workload.sizes)))
    if changes.added:
        found = max(
            fsum(float(a) * (moved[A][:, x] ** 2).sum() for A, a in weights.items()) for x in points
        )
    if changes.replaced:
        for x, y in combinations(points, 2):
            size = fsum(
                float(a) * ((moved[A][:, x] - moved[A][:, y]) ** 2).sum()
                for A, a in weights.items()
            )
            found = max(found, size)
    return found


@in_one("changes", [REPLACED, ADDED, ANY])
@in_one("workload", WORKLOADS)
def test_the_sensitivity_is_the_largest_over_all_neighbours(
    workload: Workload, changes: Changes
) -> None:
    generator = np.random.default_rng(4)
    for _ in range(4):
        weights = {
            A: Fraction(int(generator.integers(0, 9)), 4)
            for A in workload.closure()
            if A or changes.added
        }
        stated = squared_sensitivity(workload, weights, changes)
        found = worst(workload, weights, changes)
        assert found == pytest.approx(float(stated), rel=1e-9)
        assert found <= stated * (1 + Fraction(1, 10**12))
        if changes.replaced and any(a for A, a in weights.items() if A):
            # the negative control: what add-remove costs is too little
            inner = {A: a for A, a in weights.items() if A}
            assert found > 1.5 * float(squared_sensitivity(workload, inner, ADDED))


@pytest.mark.parametrize("sizes", [(2,) * 12, (3,) * 12, (2, 3, 5, 2, 8, 2, 3, 9, 4, 2, 2, 30)])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_bounds_for_many_columns_are_bounds_and_near(
    sizes: tuple[int, ...], order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = Workload.of_order(sizes, order)
    spreads = optimal_spreads(workload, records_known=True, criterion="sum")
    weights = {A: 1 / Fraction(s) for A, s in spreads.items()}
    found = squared_sensitivity(workload, weights, REPLACED)
    monkeypatch.setattr(sensitivities, "MOST_SETS_OF_COLUMNS", 1)
    bound = squared_sensitivity(workload, weights, REPLACED)
    assert found <= bound * (1 + Fraction(1, 10**9))
    assert bound <= (Fraction(102, 100) if order <= 2 else 2) * found
    # no split can cost less than twice what add-remove costs
    assert found >= 2 * squared_sensitivity(workload, weights, ADDED) * (1 - Fraction(1, 10**9))


def test_pairs_that_are_not_all_wanted_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload((2, 3, 2, 4), ((0, 1), (1, 2), (3,)))
    weights = {A: Fraction(1 + len(A)) for A in workload.closure()}
    found = squared_sensitivity(workload, weights, REPLACED)
    monkeypatch.setattr(sensitivities, "MOST_SETS_OF_COLUMNS", 1)
    assert squared_sensitivity(workload, weights, REPLACED) >= found
    assert squared_sensitivity(workload, {(): Fraction(1)}, REPLACED) == 0


def objective(workload: Workload, spreads: dict[ColumnSet, float], criterion: str) -> float:
    known = {(): 0.0, **spreads}
    found = {margin: cell_variance(workload, known, margin) for margin in workload.margins}
    if criterion == "largest":
        return max(found.values())
    return fsum(workload.size(margin) * each for margin, each in found.items())


@in_one("criterion", ["sum", "largest"])
@in_one("known", [True, False])
@in_one("workload", WORKLOADS)
def test_no_other_split_of_the_same_cost_is_better(
    workload: Workload, known: bool, criterion: str
) -> None:
    spreads = optimal_spreads(workload, records_known=known, criterion=criterion)  # type: ignore[arg-type]
    cost = fsum(float(diagonal(workload, A)) / s for A, s in spreads.items())
    best = objective(workload, spreads, criterion) * cost
    generator = np.random.default_rng(2)
    others = []
    for width in (0.01, 0.1, 1.0):
        for _ in range(60):
            other = {A: s * float(np.exp(width * generator.normal())) for A, s in spreads.items()}
            price = fsum(float(diagonal(workload, A)) / s for A, s in other.items())
            others.append(objective(workload, other, criterion) * price)
    slack = 1e-9 if criterion == "sum" else 2e-3
    assert min(others) >= best * (1 - slack)
    assert max(others) > 1.2 * best or len(spreads) == 1  # the test can see a difference


def test_the_split_for_the_largest_variance_lowers_it() -> None:
    workload = Workload((2, 30, 3, 4), ((0, 1), (2,), (0, 2, 3)))
    largest, total = (
        objective(workload, spreads, "largest")
        * fsum(float(diagonal(workload, A)) / s for A, s in spreads.items())
        for spreads in (
            optimal_spreads(workload, records_known=True, criterion=each)  # type: ignore[arg-type]
            for each in ("largest", "sum")
        )
    )
    assert largest < 0.9 * total


def test_the_diagonal_is_that_of_the_projection() -> None:
    workload = WORKLOADS[2]
    for A in workload.closure():
        assert np.diag(projection(workload, A)) == pytest.approx(float(diagonal(workload, A)))
