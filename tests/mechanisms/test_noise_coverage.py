"""The stated noise is the noise: deviations and 95% intervals of every offer that states them.

The error of a release is its distance from the same question's answer at epsilon 10,000, where the
noise is a thousandth of the stated one. Each offer of the catalog is tried whole, so that nothing
is scaled, mapped or labelled wrongly on the way from a law to an answer.
"""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.testing import seeded_randomness
from tests.mechanisms.test_every_offer import (
    CASES,
    ROWS,
    Case,
    first_of_each,
    intervals,
    numbers,
    offer_of,
    spread_out,
    without_intervals,
)

DRAWS = 300
EPSILON = "2"
STATED = [case for case in CASES if case.proof.noise]


@pytest.mark.statistical
@first_of_each(offer_of, STATED)
def test_the_stated_noise_is_the_noise(case: Case) -> None:
    data = spread_out(case.proof)
    plan, randomness = case.plan(EPSILON, ROWS), seeded_randomness(11)
    settled = case.plan("10000", ROWS).draw(data, seeded_randomness(12))
    truth = np.array(list(numbers(without_intervals(settled.value))))
    covered = np.zeros(len(truth))
    errors, deviations = [], []
    for _ in range(DRAWS):
        outcome = plan.draw(data, randomness)
        assert outcome.noise is not None
        value = without_intervals(outcome.value)
        low, high = np.array(list(intervals(outcome.noise.interval_95, value))).T
        covered += (low - 1e-3 <= truth) & (truth <= high + 1e-3)
        errors.append(np.array(list(numbers(value))) - truth)
        deviations.append(list(numbers(outcome.noise.std)))
    share = covered / DRAWS
    # five standard errors below 95%, the number of draws being what it is
    assert share.min() >= 0.887
    stated = np.median(np.array(deviations), axis=0)
    found = np.sqrt(np.mean(np.array(errors) ** 2, axis=0))
    noisy = found > 1e-6
    assert np.all(stated[noisy] > 0.8 * found[noisy])
    assert np.all(stated[noisy] < 1.25 * found[noisy]) or case.proof.noise_is_bound
    assert np.all(stated[~noisy] < 1e-5)
