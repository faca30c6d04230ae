"""Errors of the private regressions against the non-private fit, by the papers' simulations.

* :func:`linear_regression`: Reimherr & Awan (2019), Algorithm 1: d = 12,
  theta* = (0, -1, -1 + 2/11, ..., 1 - 2/11), epsilon = 1, bound 1. The target is
  scaled by its largest absolute value, which only a simulation may do.
* :func:`logistic_regression`: Awan & Slavkovic, Algorithm 3: m = 7, n = 10^4,
  beta = (0, -1, -1/2, -1/4, 0, 3/4, 3/2).

Both report the mean Euclidean distance to the true coefficients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from mechanisms.catalog import calibrate
from mechanisms.contract import Statistic
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression

Values = NDArray[np.float64]

LINEAR_THETA = np.concatenate([[0.0], np.linspace(-1, 1 - 2 / 11, 11)])
LOGISTIC_BETA = np.array([0, -1, -0.5, -0.25, 0, 0.75, 1.5])


@dataclass(frozen=True, slots=True)
class Error:
    """A mean distance to the truth, and the non-private one on the same data."""

    setting: str
    private: float
    reference: float

    @property
    def ratio(self) -> float:
        """Return private over non-private error."""
        return self.private / self.reference


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"x{number}" for number in range(1, count + 1))


def _coefficients(
    statistic: Statistic, schema: Schema, data: ArrayData, epsilon: str, norm: str = "auto"
) -> dict[str, float]:
    mechanism = "kng" if isinstance(statistic, LinearRegression) else "objective_perturbation"
    plan = calibrate(statistic, schema, Epsilon.parse(epsilon), mechanism=mechanism, norm=norm)
    value = plan.draw(data, system_randomness()).value["coefficients"]
    assert isinstance(value, dict)
    return value


def _linear_error(n: int, rng: np.random.Generator) -> tuple[float, float]:
    features = rng.uniform(-1, 1, (n, 11))
    design = np.column_stack([np.ones(n), features])
    target = design @ LINEAR_THETA + rng.standard_normal(n)
    scale = Fraction(float(np.abs(target).max()))
    unit = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
    names = _names(11)
    schema = Schema(
        columns=dict.fromkeys(names, unit) | {"y": NumberColumn(lower=-scale, upper=scale)},
        adjacency=Adjacency.REPLACE_ONE,
        rows=n,
    )
    values = dict(zip(names, features.T, strict=True)) | {"y": target}
    statistic = LinearRegression(target="y", features=names, bound=1.0)
    private = _coefficients(statistic, schema, ArrayData.from_values(schema, values), "1")
    found = np.array([private[name] for name in ("(intercept)", *names)])
    least_squares = np.linalg.lstsq(design, target, rcond=None)[0]
    return (
        float(np.linalg.norm(found - LINEAR_THETA)),
        float(np.linalg.norm(least_squares - LINEAR_THETA)),
    )


def linear_regression(*, replicates: int = 20, seed: int = 1) -> Iterator[Error]:
    """Yield KNG's error and least squares' at n = 1e3, 1e4 and 1e5."""
    rng = np.random.default_rng(seed)
    for n in (10**3, 10**4, 10**5):
        errors = np.array([_linear_error(n, rng) for _ in range(replicates)])
        private, reference = errors.mean(axis=0)
        yield Error(f"n={n}", float(private), float(reference))


def logistic_mle(features: Values, labels: Values) -> Values:
    """Return the coefficients of greatest likelihood, without an intercept."""

    def loss(beta: Values) -> tuple[float, Values]:
        linear = features @ beta
        residual = 1 / (1 + np.exp(-linear)) - labels
        return float(np.logaddexp(0, linear).sum() - labels @ linear), features.T @ residual

    return np.asarray(minimize(loss, np.zeros(features.shape[1]), jac=True, method="BFGS").x)


def logistic_regression(
    *, replicates: int = 20, n: int = 10**4, seed: int = 2
) -> Iterator[tuple[str, str, str, Error]]:
    """Yield (epsilon, norm, q, error) for the paper's norms and two values of q."""
    names = _names(7)
    unit = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
    flag = NumberColumn(lower=Fraction(0), upper=Fraction(1), boolean=True)
    schema = Schema(
        columns=dict.fromkeys(names, unit) | {"y": flag}, adjacency=Adjacency.REPLACE_ONE, rows=n
    )
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(replicates):
        features = rng.uniform(-1, 1, (n, 7))
        labels = (rng.uniform(size=n) < 1 / (1 + np.exp(-features @ LOGISTIC_BETA))).astype(float)
        values = dict(zip(names, features.T, strict=True)) | {"y": labels}
        mle = float(np.linalg.norm(logistic_mle(features, labels) - LOGISTIC_BETA))
        samples.append((ArrayData.from_values(schema, values), mle))
    reference = float(np.mean([mle for _, mle in samples]))
    settings: tuple[tuple[str, float | Literal["auto"]], ...] = (
        ("linf", 0.5), ("linf", 0.85), ("linf", "auto"), ("l2", 0.5), ("l1", 0.5),
    )  # fmt: skip
    for epsilon in ("0.25", "1", "2"):
        for norm, q in settings:
            statistic = LogisticRegression(target="y", features=names, intercept=False, q=q)
            errors = []
            for data, _ in samples:
                found = _coefficients(statistic, schema, data, epsilon, norm)
                beta = np.array([found[name] for name in names])
                errors.append(float(np.linalg.norm(beta - LOGISTIC_BETA)))
            yield epsilon, norm, str(q), Error(f"n={n}", float(np.mean(errors)), reference)
