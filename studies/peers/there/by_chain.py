"""KNG by a Metropolis chain, as its authors drew it, written from the formulas of the paper.

One coordinate is moved at a time. The paper states the number of moves, 10,000 for linear and 1,000
for quantile regression, but neither the start of a chain nor the size of its moves. Here a chain
begins at the fit without privacy and moves by about the width of its target. That choice favours
its accuracy, and no proof covers it. ``delta`` takes the place of the sensitivity in the exponent

    exp(-epsilon / (2 delta) max_j |gradient_j|),

once as printed and once corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Draw = Callable[[], list[float]]
Data = dict[str, list[float]]
Settings = dict[str, Any]
Values = NDArray[np.float64]

LINEAR_STEPS, QUANTILE_STEPS = 10_000, 1_000


def make(statistic: str, data: Data, settings: Settings) -> Draw:
    """Return a function that runs a chain once."""
    return MAKERS[statistic](data, settings)


def _design(data: Data) -> tuple[Values, Values]:
    features = [np.array(data[name]) for name in data if name != "y"]
    y = np.array(data["y"])
    return np.column_stack([np.ones(len(y)), *features]), y


def _linear(data: Data, settings: Settings) -> Draw:
    """The gradient of the squared loss is A theta - b, A = 2 X'X, b = 2 X'y."""
    x, y = _design(data)
    bound, rate = float(settings["bound"]), settings["epsilon"] / (2 * settings["delta"])
    rng = np.random.default_rng()

    def draw() -> list[float]:
        gram, right = 2 * x.T @ x, 2 * x.T @ y
        theta = np.linalg.solve(gram, right)
        theta *= min(1.0, bound / np.abs(theta).sum())
        d = len(theta)
        reach = d / (rate * np.diag(gram))
        places = rng.integers(0, d, LINEAR_STEPS).tolist()
        moves, odds = rng.standard_normal(LINEAR_STEPS), rng.exponential(size=LINEAR_STEPS)
        gradient = gram @ theta - right
        score, length = rate * np.abs(gradient).max(), np.abs(theta).sum()
        for step, place in enumerate(places):
            move = moves[step] * reach[place]
            long = length + abs(theta[place] + move) - abs(theta[place])
            if long > bound:
                continue
            tried = gradient + gram[place] * move
            worse = rate * np.abs(tried).max()
            if worse - score < odds[step]:
                theta[place] += move
                gradient, score, length = tried, worse, long
        return list(theta)

    return draw


def _quantile_regression(data: Data, settings: Settings) -> Draw:
    """The gradient of the check loss is the sum of (1{y <= x'theta} - tau) x."""
    x, y = _design(data)
    tau, rate = settings["tau"], settings["epsilon"] / (2 * settings["delta"])
    bound, begin = float(settings["bound"]), np.array(settings["begin"])
    reach = x.shape[1] / (rate * len(y)) * 2
    rng = np.random.default_rng()

    def score(theta: Values) -> float:
        return float(rate * np.abs(((y <= x @ theta) - tau) @ x).max())

    def draw() -> list[float]:
        theta, now = begin.copy(), score(begin)
        for step in range(QUANTILE_STEPS):
            tried = theta.copy()
            tried[step % len(tried)] += reach * rng.standard_normal()
            if np.abs(tried).sum() > bound:
                continue
            then = score(tried)
            if then - now < rng.exponential():
                theta, now = tried, then
        return list(theta)

    return draw


def _quantile(data: Data, settings: Settings) -> Draw:
    """One column: x = 1. The chain begins anywhere between the bounds and jumps anywhere."""
    y, tau = np.sort(np.array(data["x"])), settings["levels"][0]
    low, high = settings["bounds"]
    rate = settings["epsilon"] / (2 * settings["delta"])
    rng = np.random.default_rng()

    def draw() -> list[float]:
        points = rng.uniform(low, high, QUANTILE_STEPS + 1)
        below = np.searchsorted(y, points, side="right")
        scores = (rate * np.abs(below - tau * len(y))).tolist()
        odds = rng.exponential(size=QUANTILE_STEPS).tolist()
        place = 0
        for step in range(1, QUANTILE_STEPS + 1):
            if scores[step] - scores[place] < odds[step - 1]:
                place = step
        return [float(points[place])]

    return draw


MAKERS: dict[str, Callable[[Data, Settings], Draw]] = {
    "linear": _linear,
    "quantile_regression": _quantile_regression,
    "quantile": _quantile,
}
