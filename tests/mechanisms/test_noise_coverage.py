"""The stated noise is the noise: deviations and 95% intervals of every offer that states them.

The error of a release is its distance from the same question's answer at epsilon 10,000, where the
noise is a thousandth of the stated one. Each offer of the catalog is tried whole, so that nothing
is scaled, mapped or labelled wrongly on the way from a law to an answer.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from mechanisms.domain import CategoryColumn
from mechanisms.sketches import ArrayData
from mechanisms.testing import seeded_randomness
from tests.mechanisms.offers import Proof
from tests.mechanisms.test_every_offer import CASES, Case, intervals, numbers

ROWS, DRAWS = 90, 400
EPSILON = "2"
STATED = [case for case in CASES if case.proof.noise]


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


@pytest.mark.statistical
@pytest.mark.parametrize("case", STATED, ids=str)
def test_the_stated_noise_is_the_noise(case: Case) -> None:
    data = spread_out(case.proof)
    plan, randomness = case.plan(EPSILON, ROWS), seeded_randomness(11)
    settled = case.plan("10000", ROWS).draw(data, seeded_randomness(12))
    truth = np.array(list(numbers(settled.value)))
    covered = np.zeros(len(truth))
    errors, deviations = [], []
    for _ in range(DRAWS):
        outcome = plan.draw(data, randomness)
        assert outcome.noise is not None
        low, high = np.array(list(intervals(outcome.noise.interval_95, outcome.value))).T
        covered += (low - 1e-3 <= truth) & (truth <= high + 1e-3)
        errors.append(np.array(list(numbers(outcome.value))) - truth)
        deviations.append(list(numbers(outcome.noise.std)))
    share = covered / DRAWS
    # five standard errors below 95%, the number of draws being what it is
    assert share.min() >= 0.895
    stated = np.median(np.array(deviations), axis=0)
    found = np.sqrt(np.mean(np.array(errors) ** 2, axis=0))
    noisy = found > 1e-6
    assert np.all(stated[noisy] > 0.8 * found[noisy])
    assert np.all(stated[noisy] < 1.25 * found[noisy])
    assert np.all(stated[~noisy] < 1e-5)
