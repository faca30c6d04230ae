"""Measurements of workloads: privacy over all neighbours, least squares, and exact variances."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import chi2

from mechanisms.exact.floats import Floats
from mechanisms.geometry.laws import histogram_law, noise_law
from mechanisms.tables import characters, gaussian, laplace
from mechanisms.tables.characters import CubeCharacters
from mechanisms.tables.gaussian import GaussianResiduals
from mechanisms.tables.laplace import LaplaceMargins
from mechanisms.tables.planning import Estimates, Measurement, pure_measurement, score
from mechanisms.tables.residuals import cell_variance, diagonal
from mechanisms.tables.sensitivities import Changes
from mechanisms.tables.workload import ColumnSet, Counts, Workload, count_margins
from mechanisms.testing import FLAKE, seeded_randomness
from tests.tiers import in_one

REPLACED, ADDED, ANY = Changes(True, False), Changes(False, True), Changes(True, True)
CHANGES = [REPLACED, ADDED, ANY]
MIXED = Workload.of_order((2, 3, 4), 2)
BINARY = Workload.of_order((2, 2, 2), 2)
WIDE = Workload((70, 2, 3), ((0,), (1, 2)))  # a margin without a hull, and one inside another
WORKLOADS = [MIXED, BINARY, WIDE, Workload((3, 1, 2), ((0, 1), (2,), (0, 2), (0,)))]
EPSILON, RHO = Fraction(3, 2), Fraction(9, 8)


def pure(workload: Workload, changes: Changes) -> Measurement:
    return LaplaceMargins.calibrated(workload, changes, EPSILON)


def cube(workload: Workload, changes: Changes) -> Measurement:
    return CubeCharacters.calibrated(workload, changes, EPSILON)


def zcdp(workload: Workload, changes: Changes) -> Measurement:
    return GaussianResiduals.calibrated(workload, changes, RHO)


Make = Callable[[Workload, Changes], Measurement]
MADE = [
    *((make, workload) for make in (pure, zcdp) for workload in WORKLOADS),
    (cube, BINARY),
    (cube, Workload((2, 2, 1, 2), ((0, 1, 3), (2, 3)))),
]


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Fraction, int]]:
    """Draw no noise, and write down which noise was asked for."""
    asked: list[tuple[str, Fraction, int]] = []

    def none(law: str) -> Callable[..., list[int]]:
        def draw(_: object, count: int, parameter: Fraction) -> list[int]:
            asked.append((law, parameter, count))
            return [0] * count

        return draw

    monkeypatch.setattr(laplace, "draw_l1", none("l1"))
    monkeypatch.setattr(laplace, "draw_hull", none("hull"))
    monkeypatch.setattr(characters, "draw_linf", none("linf"))
    monkeypatch.setattr(gaussian, "draw_discrete_gaussian", none("gaussian"))
    return asked


def counts_of(workload: Workload, codes: Sequence[Sequence[int]]) -> Mapping[ColumnSet, Counts]:
    table = np.array(codes, dtype=np.int64).reshape(len(codes), len(workload.sizes))
    return count_margins(table, workload)


def neighbours(changes: Changes, points: Sequence[int]) -> list[tuple[int, int | None]]:
    """All changes of one record of the domain, by its place; None stands for no record."""
    found: list[tuple[int, int | None]] = []
    if changes.replaced:
        found += combinations(points, 2)
    if changes.added:
        found += [(x, None) for x in points]
    return found


def loss(law: str, parameter: Fraction, moved: Sequence[int]) -> Fraction:
    """The largest privacy loss of one vector of noise, or its rho, when a sum moves by this."""
    if law == "l1":
        return parameter * sum(map(abs, moved))
    if law == "hull":
        # of the cells, and one more for records that are not counted
        return parameter * max(
            sum(each for each in moved if each > 0), sum(-each for each in moved if each < 0)
        )
    if law == "linf":
        return parameter * max(map(abs, moved), default=0)
    return sum(Fraction(each) ** 2 for each in moved) / (2 * parameter)


Parts = list[tuple[str, Fraction, list[int]]]
"""Each vector of noise, and the numbers that it was added to."""


def measured_without_noise(
    measurement: Measurement,
    codes: Sequence[Sequence[int]],
    asked: list[tuple[str, Fraction, int]],
) -> Parts:
    """Measure a data set, and join what was measured to the noise that was asked for."""
    asked.clear()
    measured = measurement.draw(counts_of(measurement.workload, codes), seeded_randomness(1))
    numbers = [int(each) for table in measured for each in np.ravel(table)]
    # a hull may have one more cell, for records that are not counted, which is dropped
    extra = measurement.changes.added
    found, start = [], 0
    for law, parameter, count in asked:
        size = count - extra if law == "hull" else count
        found.append((law, parameter, numbers[start : start + size]))
        start += size
    assert start == len(numbers)
    return found


def total_loss(here: Parts, there: Parts) -> Fraction:
    """Add up the losses of independent vectors of noise."""
    return sum(
        (
            loss(law, parameter, [a - b for a, b in zip(one, other, strict=True)])
            for (law, parameter, one), (_, _, other) in zip(here, there, strict=True)
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize(("make", "workload"), MADE)
def test_the_worst_neighbours_cost_what_is_stated_and_no_more(
    make: Make,
    workload: Workload,
    changes: Changes,
    noiseless: list[tuple[str, Fraction, int]],
) -> None:
    """Measure every data set of one record without noise; add up the losses of each pair."""
    measurement = make(workload, changes)
    # cells of one column differ in names alone, so that three of them show every case
    domain = list(product(*(range(min(size, 3)) for size in workload.sizes)))
    parts = [measured_without_noise(measurement, [record], noiseless) for record in domain]
    empty = measured_without_noise(measurement, [], noiseless)
    losses = [
        total_loss(parts[x], empty if y is None else parts[y])
        for x, y in neighbours(changes, range(len(domain)))
    ]
    stated = RHO if make is zcdp else EPSILON
    assert max(losses) <= stated
    assert max(losses) > stated * Fraction(99, 100)


@pytest.mark.parametrize("make", [pure, cube, zcdp])
def test_several_rows_cost_as_many_times_as_much(
    make: Make, noiseless: list[tuple[str, Fraction, int]]
) -> None:
    """A unit of three rows: three times epsilon, nine times rho, and never more."""
    measurement = make(BINARY, ADDED)
    stated = 9 * RHO if make is zcdp else 3 * EPSILON
    losses = []
    empty = measured_without_noise(measurement, [], noiseless)
    for rows in product(product(*map(range, BINARY.sizes)), repeat=3):
        here = measured_without_noise(measurement, rows, noiseless)
        losses.append(total_loss(here, empty))
    assert max(losses) <= stated
    assert max(losses) > stated * Fraction(99, 100)


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize(("make", "workload"), MADE)
def test_without_noise_the_estimates_are_the_margins(
    make: Make, workload: Workload, changes: Changes, noiseless: object
) -> None:
    """So the estimates are unbiased: they are linear in what is measured."""
    generator = np.random.default_rng(3)
    codes = [[int(generator.integers(n)) for n in workload.sizes] for _ in range(50)]
    counts = counts_of(workload, codes)
    measurement = make(workload, changes)
    measured = measurement.draw(counts, seeded_randomness(1))
    records = len(codes) if changes.records_known else None
    estimates = Estimates(workload, measurement.residuals(measured, records))
    for margin in workload.maximal():
        found = estimates.margin(margin)
        assert (found.values == found.denominator * counts[margin]).all()


@pytest.mark.statistical
@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize(("make", "workload"), MADE)
def test_errors_have_the_stated_variance_and_no_other(
    make: Make, workload: Workload, changes: Changes
) -> None:
    """The mean square of all cells' errors over many draws, within 5 standard errors of its own."""
    counts = counts_of(workload, [])
    measurement = make(workload, changes)
    spreads = measurement.spreads()
    records = 0 if changes.records_known else None
    randomness = seeded_randomness(11)
    squares: dict[ColumnSet, list[float]] = {margin: [] for margin in workload.margins}
    means: dict[ColumnSet, list[float]] = {margin: [] for margin in workload.margins}
    for _ in range(1200):
        measured = measurement.draw(counts, randomness)
        estimates = Estimates(workload, measurement.residuals(measured, records))
        for margin in workload.margins:
            errors = estimates.margin(margin).floats()
            squares[margin].append(float(np.mean(errors**2)))
            means[margin].append(float(errors.ravel()[0]))
    for margin in workload.margins:
        stated = cell_variance(workload, spreads, margin)
        found = np.array(squares[margin])
        error = found.std() / math.sqrt(len(found))
        assert abs(found.mean() - stated) < 6.2 * error
        assert error < 0.06 * stated  # so 1.4 times the variance, or 0.6, would be refused
        own = np.array(means[margin])
        assert abs(own.mean()) < 6.2 * own.std() / math.sqrt(len(own))


def dense_covariance(measurement: LaplaceMargins) -> tuple[Floats, Floats]:
    """The margins' queries on the whole domain, and the covariance of the noise."""
    workload = measurement.workload
    rows, blocks = [], []
    for place, C in enumerate(measurement.sets):
        matrix = np.ones((1, 1))
        for i, size in enumerate(workload.sizes):
            matrix = np.kron(matrix, np.eye(size) if i in C else np.ones((1, size)))
        rows.append(matrix)
        alpha, total = measurement.noise_variances(place)
        cells = workload.size(C)
        ones = np.ones((cells, cells)) / cells
        blocks.append(alpha * (np.eye(cells) - ones) + total / cells * ones)
    count = sum(map(len, blocks))
    covariance, start = np.zeros((count, count)), 0
    for block in blocks:
        covariance[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return np.vstack(rows), covariance


@in_one("changes", CHANGES)
@in_one("workload", [MIXED, BINARY, Workload((5, 4), ((0,), (1,)))])
def test_estimates_are_generalized_least_squares(workload: Workload, changes: Changes) -> None:
    """The closed-form variance is that of dense least squares, the records known or not."""
    measurement = LaplaceMargins.calibrated(workload, changes, EPSILON)
    queries, covariance = dense_covariance(measurement)
    if changes.records_known:
        queries = np.vstack([queries, np.ones(queries.shape[1])])
        covariance = np.pad(covariance, (0, 1))
    # where noise is 0 it is made tiny
    precision = np.linalg.inv(covariance + 1e-7 * np.eye(len(covariance)))
    spread = np.linalg.pinv(queries.T @ precision @ queries, rcond=1e-12)
    spreads = measurement.spreads()
    for margin in workload.margins:
        matrix = np.ones((1, 1))
        for i, size in enumerate(workload.sizes):
            matrix = np.kron(matrix, np.eye(size) if i in margin else np.ones((1, size)))
        dense = np.diag(matrix @ spread @ matrix.T)
        assert dense == pytest.approx(cell_variance(workload, spreads, margin), rel=2e-3)
        # the control: one margin alone, with the number of records where that is public, has more
        cells = workload.size(margin)
        alpha = measurement.noise_variances(measurement.sets.index(margin))[0]
        alone = alpha * (1 - 1 / cells) if changes.records_known else alpha
        assert dense.mean() < 0.99 * alone or len(workload.margins) == 2


def test_the_better_measurement_is_chosen() -> None:
    many = Workload.of_order((2,) * 20, 2)
    for changes in CHANGES:
        assert isinstance(pure_measurement(many, changes, Fraction(1)), CubeCharacters)
        mixed = pure_measurement(MIXED, changes, Fraction(1))
        assert isinstance(mixed, LaplaceMargins)
    single = Workload((2,), ((0,),))
    for criterion in ("sum", "largest"):
        best = pure_measurement(many, ADDED, Fraction(1), criterion)  # type: ignore[arg-type]
        plain = LaplaceMargins.calibrated(many, ADDED, Fraction(1))
        assert score(best, criterion) < score(plain, criterion) / 4  # type: ignore[arg-type]
    assert pure_measurement(single, REPLACED, Fraction(1)).workload == single


def test_the_split_of_margins_is_the_best_for_its_criterion() -> None:
    workload = Workload((2, 3, 30, 40), ((0, 1), (2, 3)))
    total, largest = (
        LaplaceMargins.calibrated(workload, ADDED, Fraction(1), criterion)  # type: ignore[arg-type]
        for criterion in ("sum", "largest")
    )
    assert score(total, "sum") < 0.9 * score(largest, "sum")
    assert score(largest, "largest") < 0.9 * score(total, "largest")


@pytest.mark.parametrize("make", [LaplaceMargins, CubeCharacters, GaussianResiduals])
def test_a_budget_is_positive(make: type) -> None:
    with pytest.raises(ValueError, match="positive"):
        make.calibrated(BINARY, ADDED, Fraction(0))


def test_characters_are_of_two_cells() -> None:
    with pytest.raises(ValueError, match="two cells"):
        CubeCharacters.calibrated(MIXED, ADDED, Fraction(1))


def test_one_cell_has_nothing_to_draw() -> None:
    workload = Workload((1,), ((0,),))
    for make in (pure, cube, zcdp):
        measurement = make(workload, REPLACED)
        measured = measurement.draw(counts_of(workload, [[0]] * 7), seeded_randomness(1))
        estimates = Estimates(workload, measurement.residuals(measured, 7))
        found = estimates.margin((0,))
        assert (found.values / found.denominator).tolist() == [7]
        assert cell_variance(workload, measurement.spreads(), (0,)) == 0


@pytest.mark.statistical
def test_many_binary_columns_in_a_few_seconds() -> None:
    """100 binary columns, all pairs: errors of all 19,800 cells have the variance stated."""
    workload = Workload.of_order((2,) * 100, 2)
    generator = np.random.default_rng(1)
    codes = generator.integers(0, 2, (2000, 100))
    counts = count_margins(codes, workload)
    measurement = GaussianResiduals.calibrated(workload, REPLACED, RHO)
    measured = measurement.draw(counts, seeded_randomness(2))
    estimates = Estimates(workload, measurement.residuals(measured, 2000))
    spreads = measurement.spreads()
    # one interaction of each pair is independent of all others
    scores = [
        float(np.dot(estimates.margin(m).floats().ravel() - counts[m].ravel(), [1, -1, -1, 1])) ** 2
        / (16 * spreads[m] * float(diagonal(workload, m)))
        for m in workload.margins
    ]
    low, high = chi2.ppf([FLAKE, 1 - FLAKE], len(scores))
    assert low < sum(scores) < high
    assert high / low < 1.3


@in_one("cells", [2, 3, 4, 7, 20, 64])
def test_weights_know_the_variance_of_a_hull(cells: int) -> None:
    """On fine lattices hull noise has (2c - 1) / (2c + 2) of the variance of l1 noise."""
    rate = 0.01
    own = histogram_law(cells, rate).std ** 2 * cells / (cells - 1)
    plain = noise_law("l1", 1, rate / 2).std ** 2
    assert own == pytest.approx(plain * (2 * cells - 1) / (2 * cells + 2), rel=2e-3)
