"""Coefficients with an epsilon and a delta: AdaSSP, noisy gradient descent and TukeyEM.

Written from the formulas of the papers, for rows of length ``length`` at most, the column of ones
included, and targets in [-1, 1]. All three guarantee epsilon and delta where a row is replaced, for
real numbers. Normal noise has the smallest standard deviation that keeps them (Balle and Wang
2018), which favours the first two: their authors' bounds ask for more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from studies.peers.cells import Values
from studies.peers.published.fits import symmetric
from studies.peers.published.promises import gaussian_shift

_MISSED = 0.05
"""With this probability at most AdaSSP's ridge is smaller than the noise of the matrix."""
_LIKELY = 4.0
"""Standard deviations by which its noisy eigenvalue is lowered."""
_MOST_MODELS = 1_000
_TRIALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of shape (n, d), a column of ones first, their targets, and what is asked for."""

    design: Values
    target: Values
    length: float
    epsilon: float
    delta: float


Draw = Callable[[Rows, np.random.Generator], Values | None]
"""Returns coefficients, or None where the method gives no answer."""


def adaptive_moments(rows: Rows, rng: np.random.Generator) -> Values | None:
    """AdaSSP (Wang 2018, Algorithm 2): noisy X'X and X'y, and a ridge as large as the noise asks.

    The ridge needs the smallest eigenvalue, which is released as well. A replaced row moves it by
    length^2, X'X by sqrt(2) length^2 in Frobenius norm, and X'y by 2 length. The three have even
    shares of the squared shift.
    """
    d = rows.design.shape[1]
    share = gaussian_shift(rows.epsilon, rows.delta) / math.sqrt(3)
    square = rows.length**2
    gram = rows.design.T @ rows.design
    scale = math.sqrt(2) * square / share
    least = float(np.linalg.eigvalsh(gram)[0]) + square / share * (rng.standard_normal() - _LIKELY)
    wanted = scale * math.sqrt(d * math.log(2 * d**2 / _MISSED))
    ridge = max(0.0, wanted - max(least, 0.0))
    noisy = gram + symmetric(rng.normal(scale=scale, size=d * (d + 1) // 2), d)
    right = rows.design.T @ rows.target + rng.normal(scale=2 * rows.length / share, size=d)
    return np.asarray(np.linalg.solve(noisy + ridge * np.eye(d), right), np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """Noisy gradient descent: full batches, gradients of rows no longer than ``clip``."""

    steps: int
    clip: float
    rate: float

    def __call__(self, rows: Rows, rng: np.random.Generator) -> Values | None:
        """Return the mean of the second half of the steps.

        A replaced row moves a sum of gradients by 2 clip; the squared shifts of all steps add up.
        """
        n, d = rows.design.shape
        scale = 2 * self.clip * math.sqrt(self.steps) / gaussian_shift(rows.epsilon, rows.delta)
        lengths = np.linalg.norm(rows.design, axis=1)
        theta, later = np.zeros(d), []
        for step in range(self.steps):
            residuals = rows.design @ theta - rows.target
            shrunk = residuals * np.minimum(
                1, self.clip / np.maximum(lengths * abs(residuals), 1e-300)
            )
            noisy = rows.design.T @ shrunk + rng.normal(scale=scale, size=d)
            theta = theta - self.rate / n * noisy
            if 2 * (step + 1) > self.steps:
                later.append(theta)
        return np.asarray(np.mean(later, axis=0), np.float64)


GRID: Mapping[str, tuple[float, ...]] = {
    "steps": (10, 40, 160),
    "clip": (0.1, 0.3, 1.0),
    "rate": (0.3, 1.0),
}


PLAIN = Descent(steps=40, clip=0.3, rate=0.3)
"""One setting for all rows, as it would be chosen without a look at them."""


def tuned_descent(rows: Rows, truth: Values, rng: np.random.Generator) -> Descent:
    """Return the descent of :data:`GRID` that is nearest to the truth in a few draws.

    The choice reads the rows and the truth and costs nothing here: it favours the method.
    """

    def error(one: Descent) -> float:
        drawn = [one(rows, rng) for _ in range(_TRIALS)]
        return float(np.mean([np.linalg.norm(each - truth) for each in drawn if each is not None]))

    tried = [
        Descent(steps=int(steps), clip=clip, rate=rate)
        for steps, clip, rate in product(*GRID.values())
    ]
    return min(tried, key=error)


def deep_model(rows: Rows, rng: np.random.Generator) -> Values | None:
    """TukeyEM (Amin, Joseph, Ribero and Vassilvitskii 2023), with m regressions of disjoint rows.

    The depth of a point is the least, over coordinates, of how many models are on either side of
    it: points of depth i or more are a box. A replaced row moves one model, and so a depth by one.
    Half of epsilon, and delta, go to a test whether the boxes of neighbours are alike (propose,
    test, release), half to the exponential mechanism on the depth of points in the box of depth
    m / 4. None where the test fails.
    """
    n, d = rows.design.shape
    models = _models(rows, min(_MOST_MODELS, n // (2 * d)), rng)
    share = rows.epsilon / 2
    ends = np.sort(models, axis=0)
    count = len(ends) // 2
    volumes = np.log(ends[::-1][:count] - ends[:count]).sum(axis=1)  # of depth i + 1 or more
    edge = len(ends) // 4
    safe = unsafe_after(volumes, share, rows.delta, edge)
    if safe + rng.laplace(scale=1 / share) <= math.log(1 / (2 * rows.delta)) / share:
        return None
    inner = volumes[edge - 1 :]
    shells = inner + np.log(-np.expm1(np.append(np.diff(inner), -np.inf)))
    scores = shells + share / 2 * np.arange(len(inner))
    depth = edge + int(np.argmax(scores + rng.gumbel(size=len(scores))))
    return in_shell(ends, depth, rng)


def unsafe_after(volumes: Values, epsilon: float, delta: float, edge: int) -> int:
    """Return how many models may be moved, and the mechanism still be alike for neighbours.

    By the paper's lemma k moved models are safe if for some g > 0 the box of depth edge - k - 1 is
    at most delta / (8 e^epsilon) e^(epsilon g / 2) times that of depth edge + k + g + 1. The
    largest such k is returned, and -1 if there is none. ``volumes`` has logarithms, from depth 1.
    """
    least = math.log(delta / 8) - epsilon
    for k in range(edge - 3, -1, -1):
        deeper = volumes[edge + k + 1 :]
        gaps = np.arange(1, len(deeper) + 1)
        if len(deeper) and (volumes[edge - k - 2] - deeper - epsilon * gaps / 2).min() <= least:
            return k
    return -1


def _models(rows: Rows, count: int, rng: np.random.Generator) -> Values:
    order = rng.permutation(len(rows.design))
    parts = np.array_split(order, count)
    found = [np.linalg.lstsq(rows.design[part], rows.target[part], rcond=None)[0] for part in parts]
    return np.array(found, dtype=np.float64)


def in_shell(ends: Values, depth: int, rng: np.random.Generator) -> Values:
    """Return a point of just this depth, uniformly: from the box, until it is in no deeper one."""
    low, high = ends[depth - 1], ends[-depth]
    inner_low, inner_high = ends[depth], ends[-depth - 1]
    while True:
        point = rng.uniform(low, high)
        if 2 * (depth + 1) > len(ends) or not ((inner_low <= point) & (point <= inner_high)).all():
            return np.asarray(point, np.float64)
