"""Brawner and Honaker's bootstrap (2018): intervals from noisy samples of rows with replacement.

Each sample has an even share of epsilon and delta, and normal noise as much as the table's own
sums would have by concentrated privacy. The authors split it: rows that are drawn i times are
summed with i p_i of its variance, p_i being the chance of i. The parts add up to the whole.
"""

from __future__ import annotations

import math

import numpy as np

from studies.peers.cells import Values
from studies.peers.published.fits import Asked, Fit, Z, fit
from studies.peers.published.moments import gaussian, reach, widths
from studies.peers.published.promises import concentrated

SAMPLES = 10
"""The smaller number of the two that were tried: with more of them each has more noise."""


def shift(epsilon: float, delta: float) -> float:
    """Return how far a row that is drawn once moves a sample, in standard deviations of noise."""
    return math.sqrt(2 * concentrated(epsilon / SAMPLES, delta / SAMPLES))


def sample(rows: Values, moved: Values, scale: float, rng: np.random.Generator) -> Values:
    """Return the noisy moments of one sample."""
    drawn = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)))
    return np.asarray(
        (rows * drawn[:, None]).T @ rows + gaussian(moved, scale, 1, rng)[0], dtype=np.float64
    )


def by_samples(asked: Asked, rng: np.random.Generator) -> dict[str, Fit]:
    """Return a regression by the mean of the samples' ones, and intervals by their spread."""
    moved = widths(asked.bounds)
    scale = reach(len(moved)) / shift(asked.epsilon, asked.delta)
    drawn = [sample(asked.rows, moved, scale, rng) for _ in range(SAMPLES)]
    found = np.array([np.linalg.solve(each[:-1, :-1], each[:-1, -1]) for each in drawn])
    mean, half = found.mean(axis=0), Z * found.std(axis=0, ddof=1)
    low, high = np.quantile(found, (0.025, 0.975), axis=0)
    return {"asymptotic": fit(mean, mean - half, mean + half), "bootstrap": fit(mean, low, high)}
