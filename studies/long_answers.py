"""The length of a regression's answer: base measures, default bounds, and the ridge's slopes.

For an intercept and one feature, at epsilon 1/2 and 2 and under replace-one. The K-norm gradient
law is summed on a fine grid around the fit, objective perturbation is solved in floats: no exact
draw is needed to compare. ``make bench ARGS=long`` repeats it in two minutes.

*Logistic regression.* Settings are n = 200 to 6,000, features uniform on all of their bounds, on a
quarter in the middle or off it, or on a tenth, and log odds that change by 2 or by 6 over the
feature's range. An error is the mean excess log loss per row. The geometric mean, and the largest,
over 32 settings of its ratio to the best, by typical slope norm T, which decides q:

=================  =======  ======  ======  ======  ======  ======
T                  q = 1/2  2       3       5       8       10
=================  =======  ======  ======  ======  ======  ======
mean               1.41     1.33    1.25    1.22    1.33    1.41
largest            5.94     3.16    2.30    1.71    3.08    6.35
=================  =======  ======  ======  ======  ======  ======

So T is 3: 5 is as good here, and worse for the seven slopes of norm 2 of Awan & Slavkovic's
Figure 2.

*Quantile regression.* n = 50, 200, 1,000, levels 1/2 and 9/10, residuals of deviation 0.1 and 0.3,
epsilon 1; an error is the mean distance of the scaled coefficients to the fit:

=================  ======  ======  ======  ======  ======
kng, bound         p = 0   p = 2   p = 4   p = 6   p = 8
=================  ======  ======  ======  ======  ======
2                  1.53    1.32    1.16    1.06    1.01
10                 5.60    2.98    1.56    1.14    1.03
10, the largest    18      8.6     3.4     1.6     1.1
=================  ======  ======  ======  ======  ======

At 1,000 rows p hardly matters. p = 2 d = 4 is the rule there too; more would pull long slopes in.

*Geometric median.* Its Theta is the box of public bounds, which every answer is in, so the
counting measure stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize
from scipy.special import expit

Values = NDArray[np.float64]

SLOPES = (None, 2.0, 3.0, 5.0, 8.0, 10.0)
QUANTILE_BOUNDS = (2.0, 10.0)
QUANTILE_POWERS = (0, 2, 4, 6, 8)

_POINTS = 41  # number of values of a feature
_AXIS = 90  # grid points on each side of the fit
_SETS, _TILTS = 8, 30


@dataclass(frozen=True, slots=True)
class Regret:
    """An option's error over the best option's: the geometric mean and the largest."""

    option: str
    mean: float
    largest: float


@dataclass(frozen=True, slots=True)
class Grid:
    """Coefficients around a fit, finer near it, with the area that each stands for."""

    theta: Values
    area: Values

    @classmethod
    def around(cls, fit: Values, hessian: Values, *, reach: float, bound: float) -> Grid:
        """Return a grid of the l1 ball; ``reach`` is how far a gradient may be from 0."""
        lean = hessian[0, 1] / hessian[0, 0]
        across = max(hessian[1, 1] - hessian[0, 1] * lean, 1e-3)
        first, width = _axis(fit[0] + fit[1] * lean, 2 * bound, min(reach / hessian[0, 0], 1))
        slope = min(max(fit[1], -bound), bound)
        second, height = _axis(slope, bound, min(reach / across, 5))
        u, b = np.meshgrid(first, second, indexing="ij")
        a = u - b * lean
        inside = np.abs(a) + np.abs(b) <= bound
        return cls(np.column_stack([a[inside], b[inside]]), np.outer(width, height)[inside])

    def means(self, exponent: Values, error: Values, powers: Sequence[int]) -> list[float]:
        """Return the mean error under each base measure."""
        length = np.abs(self.theta).sum(axis=1)
        found = []
        for power in powers:
            weight = -exponent - power * np.log1p(length) + np.log(self.area)
            weight = np.exp(weight - weight.max())
            found.append(float(weight @ error / weight.sum()))
        return found


def _axis(centre: float, bound: float, scale: float) -> tuple[Values, Values]:
    steps = np.expm1(np.linspace(0, 1, _AXIS) * math.log1p(4 * 2 * bound / scale)) * scale / 4
    places = np.concatenate([centre - steps[:0:-1], centre + steps])
    return places, np.gradient(places)


# Logistic regression


@dataclass(frozen=True, slots=True)
class Labels:
    """How often each value of the feature comes with label 1, and in all."""

    x: Values
    ones: Values
    counts: Values

    def loss(self, theta: Values) -> Values:
        """Return the loss of each theta (k x 2)."""
        z = theta[:, :1] + theta[:, 1:] * self.x
        return np.asarray((np.logaddexp(0, z) * self.counts - z * self.ones).sum(axis=1))

    def gradient(self, theta: Values) -> Values:
        """Return the gradient at each theta."""
        residual = expit(theta[:, :1] + theta[:, 1:] * self.x) * self.counts - self.ones
        return np.column_stack([residual.sum(axis=1), residual @ self.x])

    def hessian(self, theta: Values) -> Values:
        """Return the Hessian (k x 2 x 2) at each theta."""
        s = expit(theta[:, :1] + theta[:, 1:] * self.x)
        weight = s * (1 - s) * self.counts
        entries = [weight.sum(axis=1), weight @ self.x, weight @ self.x**2]
        return np.stack([entries[0], entries[1], entries[1], entries[2]], axis=1).reshape(-1, 2, 2)

    def fit(self) -> Values:
        """Return the coefficients of least loss."""
        rows = self.counts.sum()
        found = minimize(
            lambda t: self.loss(t[None])[0] / rows,
            np.zeros(2),
            jac=lambda t: self.gradient(t[None])[0] / rows,
            method="BFGS",
        )
        return np.asarray(found.x)


def logistic() -> Iterator[tuple[str, list[Regret]]]:
    """Yield the regrets of objective perturbation's slopes."""
    rng = np.random.default_rng(3)
    tilted = []
    designs = ((1.0, 0.0), (0.25, 0.0), (0.25, -0.5), (0.1, -0.5))
    for epsilon, rows, design, effect in product(
        (0.5, 2.0), (200, 600, 2000, 6000), designs, (1, 3)
    ):
        sets = [_labels(rows, *design, effect, rng) for _ in range(_SETS)]
        tilted.append(np.mean([_tilted_errors(each, epsilon, rng) for each in sets], axis=0))
    slopes = ["q = 1/2" if slope is None else f"T = {slope:g}" for slope in SLOPES]
    yield "logistic, objective perturbation", _regrets(slopes, tilted)


def _labels(
    rows: int, spread: float, centre: float, effect: float, rng: np.random.Generator
) -> Labels:
    x = np.clip(centre + np.linspace(-1, 1, _POINTS) * spread, -1, 1)
    counts = rng.multinomial(rows, np.full(_POINTS, 1 / _POINTS))
    ones = rng.binomial(counts, expit(effect / spread * (x - centre)))
    return Labels(x, ones.astype(np.float64), counts.astype(np.float64))


def _tilted_errors(labels: Labels, epsilon: float, rng: np.random.Generator) -> list[float]:
    rows = labels.counts.sum()
    least = labels.loss(labels.fit()[None])[0]
    found = []
    for slope in SLOPES:
        q = 0.5 if slope is None else _share(rows, slope, epsilon)
        tilt = rng.uniform(-1, 1, (_TILTS, 2))
        tilt /= np.abs(tilt).max(axis=1, keepdims=True)
        tilt *= rng.gamma(2, 2 / (epsilon * q), (_TILTS, 1))
        ridge = 0.5 / math.expm1(epsilon * (1 - q))
        theta = np.zeros((_TILTS, 2))
        for _ in range(60):
            gradient = labels.gradient(theta) + ridge * theta + tilt
            hessian = labels.hessian(theta) + ridge * np.eye(2)
            step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
            length = np.linalg.norm(step, axis=1, keepdims=True)
            theta -= step * (2 / np.maximum(length, 2))
        found.append(float((labels.loss(theta) - least).mean() / rows))
    return found


def _share(rows: float, slope: float, epsilon: float) -> float:
    """Return q as :func:`mechanisms.perturbation.calibration.automatic_q` does for a slope."""

    def error(q: float) -> float:
        ridge = 0.5 / math.expm1(epsilon * (1 - q))
        spread = 2 * 2 * 3 / 3 * (2 / (epsilon * q)) ** 2
        return (spread + (ridge * slope) ** 2) / (rows / 16 + ridge) ** 2

    return min((k / 200 for k in range(1, 200)), key=error)


# Quantile regression


def quantile() -> Iterator[tuple[str, list[Regret]]]:
    """Yield the regrets of bounds and powers of kng."""
    rng = np.random.default_rng(5)
    settings = product((50, 200, 1000), ((1.0, 0.0), (0.25, 0.3)), (0.5, 0.9), (0.1, 0.3))
    errors = [
        np.mean([_quantile_errors(*setting, rng) for _ in range(6)], axis=0) for setting in settings
    ]
    options = [
        f"bound {bound:g}, p = {power}" for bound in QUANTILE_BOUNDS for power in QUANTILE_POWERS
    ]
    yield "quantile regression, kng", _regrets(options, errors)


def _quantile_errors(
    rows: int,
    design: tuple[float, float],
    tau: float,
    deviation: float,
    rng: np.random.Generator,
) -> list[float]:
    spread, centre = design
    x = np.column_stack([np.ones(rows), centre + rng.uniform(-spread, spread, rows)])
    y = np.clip(x @ (0.1, 0.4) + rng.normal(0, deviation, rows), -1, 1)
    fit = _quantile_fit(x, y, tau)
    hessian = x.T @ x / (2.5 * deviation)
    found = []
    for bound in QUANTILE_BOUNDS:
        grid = Grid.around(fit, hessian, reach=4.0, bound=bound)
        norm = np.concatenate(
            [
                np.abs(((y <= part @ x.T) - tau) @ x).max(axis=1)
                for part in np.array_split(grid.theta, 1 + len(grid.theta) // 4000)
            ]
        )
        exponent = norm / (4 * max(tau, 1 - tau))
        error = np.linalg.norm(grid.theta - fit, axis=1)
        found += grid.means(exponent, error, QUANTILE_POWERS)
    return found


def _quantile_fit(x: Values, y: Values, tau: float) -> Values:
    rows, size = x.shape
    cost = np.concatenate([np.zeros(2 * size), np.full(rows, tau), np.full(rows, 1 - tau)])
    equal = np.hstack([x, -x, np.eye(rows), -np.eye(rows)])
    found = linprog(cost, A_eq=equal, b_eq=y, method="highs").x
    return np.asarray(found[:size] - found[size : 2 * size])


def _regrets(options: Sequence[str], errors: Sequence[Values]) -> list[Regret]:
    ratios = np.array(errors)
    ratios /= ratios.min(axis=1, keepdims=True)
    means = np.exp(np.log(ratios).mean(axis=0))
    return [
        Regret(option, float(mean), float(largest))
        for option, mean, largest in zip(options, means, ratios.max(axis=0), strict=True)
    ]


STUDIES: tuple[Callable[[], Iterator[tuple[str, list[Regret]]]], ...] = (logistic, quantile)
