"""Fitted records: margins are whole, agree, are near the estimates, and always the same."""

from __future__ import annotations

import hashlib
import math
import resource
import time
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.tables import records
from mechanisms.tables.gaussian import GaussianResiduals
from mechanisms.tables.laplace import LaplaceMargins
from mechanisms.tables.planning import Estimates, Measurement, pure_measurement
from mechanisms.tables.records import FittedRecords, fit_records
from mechanisms.tables.residuals import Residual, centred, exact, summed
from mechanisms.tables.sensitivities import Changes
from mechanisms.tables.workload import ColumnSet, Workload, count_margins
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

REPLACED, ADDED, ANY = Changes(True, False), Changes(False, True), Changes(True, True)
SIZES = (4, 2, 4, 6, 4, 2)


def people_like(count: int, sizes: tuple[int, ...] = SIZES, seed: int = 1) -> np.ndarray:
    """Codes of people of a few kinds, whose columns depend on each other through the kind."""
    generator = np.random.default_rng(seed)
    kinds = generator.integers(0, 6, count)
    columns = []
    for size in sizes:
        shares = generator.dirichlet(np.full(size, 0.7), 6).cumsum(axis=1)
        columns.append((shares[kinds] < generator.random(count)[:, None]).sum(axis=1))
    return np.stack(columns, axis=1).clip(0, np.array(sizes) - 1)


def fitted(
    measurement: Measurement, codes: np.ndarray, seed: int
) -> tuple[FittedRecords, Estimates]:
    counts = count_margins(codes, measurement.workload)
    measured = measurement.draw(counts, seeded_randomness(seed))
    people = len(codes) if measurement.changes.records_known else None
    residuals = measurement.residuals(measured, people)
    found = fit_records(measurement.workload, residuals, measurement.nominal(), people)
    return found, Estimates(measurement.workload, residuals)


def require_agreement(found: FittedRecords) -> None:
    workload = found.workload
    for margin in workload.margins:
        own = found.margin(margin)
        assert own.shape == workload.shape(margin)
        assert own.dtype == np.int64
        assert own.min() >= 0
        assert own.sum() == found.people
    for one, other in combinations(workload.margins, 2):
        shared = tuple(i for i in one if i in other)
        here, there = (
            found.margin(each).sum(axis=tuple(p for p, i in enumerate(each) if i not in shared))
            for each in (one, other)
        )
        assert (here == there).all()
        assert (here == found.margin(shared)).all()


@in_one("changes", [REPLACED, ADDED, ANY])
@in_one("epsilon", [Fraction(1, 100), Fraction(1), Fraction(100)])
@in_one(
    "workload",
    [
        Workload.of_order((4, 2, 1, 3), 2),
        Workload.of_order((2, 2, 2, 2), 3),
        Workload((3, 1, 2, 4), ((0,), (0, 1, 3), (2, 3))),
        Workload((3, 1, 2, 4), ((1,), (2,))),
        Workload((1, 2), ((0,),)),
    ],
)
def test_margins_are_whole_and_agree(
    workload: Workload, epsilon: Fraction, changes: Changes
) -> None:
    codes = people_like(200, workload.sizes)
    for measurement in (
        pure_measurement(workload, changes, epsilon),
        GaussianResiduals.calibrated(workload, changes, epsilon**2 / 2),
    ):
        found, estimates = fitted(measurement, codes, seed=3)
        require_agreement(found)
        if changes.records_known:
            assert found.people == 200
        else:
            total = estimates.margin(())
            assert found.people == max(round(Fraction(int(total.values), total.denominator)), 0)


def test_no_people_and_one() -> None:
    workload = Workload.of_order((3, 2), 2)
    for count in (0, 1):
        measurement = LaplaceMargins.calibrated(workload, REPLACED, Fraction(1))
        found, _ = fitted(measurement, people_like(count, workload.sizes), seed=1)
        require_agreement(found)
        assert found.people == count


def exact_residuals(workload: Workload, codes: np.ndarray) -> dict[ColumnSet, Residual]:
    """Residuals without noise."""
    measurement = GaussianResiduals(workload, REPLACED, (), (), Fraction(1))
    counts = count_margins(codes, workload)
    holders = workload.holders()
    found = measurement.residuals([], len(codes))
    for A in workload.closure():
        if A:
            found[A] = Residual(centred(exact(summed(counts[holders[A]], holders[A], A))), 1)
    return found


def distance(found: FittedRecords, codes: np.ndarray) -> float:
    """The mean total variation distance of the maximal margins."""
    counts = count_margins(codes, found.workload)
    return float(
        np.mean([np.abs(found.margin(B) - own).sum() / 2 / len(codes) for B, own in counts.items()])
    )


@pytest.mark.parametrize(("order", "most"), [(1, 0.0), (2, 0.0016), (3, 0.006)])
def test_exact_margins_are_nearly_reached(
    order: int, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload, codes = Workload.of_order(SIZES, order), people_like(2000)
    residuals = exact_residuals(workload, codes)
    none = dict.fromkeys(residuals, Fraction(0))
    found = fit_records(workload, residuals, none, len(codes))
    assert distance(found, codes) <= most
    # the control: independent columns, where the fit begins, are far
    monkeypatch.setattr(records, "MOST_ROUNDS", 0)
    begun = fit_records(workload, residuals, none, len(codes))
    assert order == 1 or distance(begun, codes) > 20 * most


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "most"), [(Fraction(1, 10), 0.35), (Fraction(1), 0.8), (Fraction(4), 1.03)]
)
def test_the_fit_is_nearer_than_the_estimates(epsilon: Fraction, most: float) -> None:
    """Mean distances of 15 tables of 1,000 people over six draws, at most this share."""
    workload, codes = Workload.of_order(SIZES, 2), people_like(1000)
    counts = count_margins(codes, workload)
    measurement = pure_measurement(workload, REPLACED, epsilon)
    raw, near = [], []
    for seed in range(6):
        found, estimates = fitted(measurement, codes, seed)
        near.append(distance(found, codes))
        raw += [
            np.abs(estimates.margin(B).floats() - own).sum() / 2000 for B, own in counts.items()
        ]
    assert np.mean(near) < most * np.mean(raw)


def test_many_people_are_fitted_as_closely() -> None:
    """A million people by 65,536 records: the fit is nearly as near as the estimates."""
    workload, codes = Workload.of_order((5, 3, 4, 2), 2), people_like(1_000_000, (5, 3, 4, 2))
    measurement = GaussianResiduals.calibrated(workload, REPLACED, Fraction(1, 2))
    found, _ = fitted(measurement, codes, seed=1)
    require_agreement(found)
    assert len(found.masses) == records.MOST_RECORDS_FITTED
    assert found.people == 1_000_000
    assert distance(found, codes) < 1e-4


def test_the_same_numbers_give_the_same_records() -> None:
    """The hashes are fixed: no order of sums, instruction set or library decides."""
    workload = Workload.of_order((5, 3, 4, 2), 2)
    numbers = np.arange(20_000, dtype=np.int64)
    codes = np.stack(
        [(numbers**2 * (i + 3) + numbers // 7) % 97 % n for i, n in enumerate(workload.sizes)], 1
    )
    digests = []
    for measurement in (
        pure_measurement(workload, REPLACED, Fraction(1)),
        GaussianResiduals.calibrated(workload, ADDED, Fraction(1, 2)),
    ):
        found, _ = fitted(measurement, codes, seed=5)
        digest = hashlib.sha256(found.codes.astype("<i8").tobytes())
        digest.update(found.masses.astype("<i8").tobytes())
        digests.append(digest.hexdigest()[:16])
    assert digests == ["7ed6a6faa5c9ed5d", "c599eea98c40dd28"]


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=4).filter(
        lambda each: any(v > 0 for v in each)
    ),
    st.integers(0, 6),
)
def test_quotas_are_the_nearest_whole_counts(target: list[int], people: int) -> None:
    """Against all whole counts of that sum, up to the rounding of the projection."""
    found = records.quotas(target, people)
    assert sum(found) == people
    assert min(found) >= 0

    def far(counts: tuple[int, ...]) -> int:
        return sum((records.SCALE * c - t) ** 2 for c, t in zip(counts, target, strict=True))

    options = [
        each for each in product(range(people + 1), repeat=len(target)) if sum(each) == people
    ]
    assert far(tuple(found)) == min(map(far, options))


@in_one("people", [0, 1, 8192, 8193, 50_000, 10**6, 2**32])
def test_masses_add_up(people: int) -> None:
    masses = records.shared_masses(people, min(people, 8192))
    assert masses.sum() == people
    assert len(masses) == min(people, 8192)
    assert not people or masses.min() >= 1
    assert (np.diff(masses) <= 0).all()


def test_squares_beyond_an_int64_are_exact() -> None:
    weights, change, errors = (
        np.array(each, dtype=np.int64) for each in ([3, 16], [2**35, -(2**35)], [2**40, 5])
    )
    stated = 3 * ((2**40 + 2**35) ** 2 - 2**80) + 16 * ((5 - 2**35) ** 2 - 25)
    assert records.weighted_squares(weights, change, errors) == stated
    assert records.weighted_squares(weights, change // 2**34, errors // 2**38) == 3 * (
        36 - 16
    ) + 16 * (4 - 0)


def test_noise_beyond_all_counts_is_cut_off() -> None:
    """At an epsilon of a billionth the estimates are about 10**11, and the fit still ends."""
    workload = Workload.of_order((3, 2, 2), 2)
    for changes in (REPLACED, ADDED):
        measurement = pure_measurement(workload, changes, Fraction(1, 10**9))
        found, _ = fitted(measurement, people_like(100, workload.sizes), seed=2)
        require_agreement(found)
        assert found.people <= records.MOST_RECORDS


@pytest.mark.slow
@pytest.mark.timed
def test_all_pairs_of_a_hundred_binary_columns_in_a_minute() -> None:
    workload = Workload.of_order((2,) * 100, 2)
    codes = people_like(10_000, workload.sizes)
    began = time.process_time()
    measurement = pure_measurement(workload, REPLACED, Fraction(1))
    found, estimates = fitted(measurement, codes, seed=1)
    tables = [estimates.margin(B).floats() for B in workload.margins]
    whole = [found.margin(B) for B in workload.margins]
    assert time.process_time() - began < 60
    assert len(tables) == len(whole) == math.comb(100, 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 << 20  # kilobytes
