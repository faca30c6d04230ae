"""Choice of the base measure (1 + ||theta||_1)^-p of KNG's linear regression.

The mean Euclidean distance of scaled coefficients to least squares, the first being the intercept;
replace-one, epsilon 1, bound 10. Features are uniform on all of their bounds (spread 1), or on a
quarter of them off their middle (0.25). Slopes have l1 norm 1/2 in all, residuals a deviation of
0.1. All p share their data sets. ``make bench ARGS=base`` repeats it; one run of 30 data sets each:

===================  =====  =====  ======  =====  =====  ======  ======
n, d, spread         p = 0  p = d  1.5 d   2 d    4 d    length  rule p
===================  =====  =====  ======  =====  =====  ======  ======
235, 2, 1            0.171  0.152  0.099   0.137  0.112  0.41    4
235, 4, 1            4.198  1.312  0.271   0.300  0.234  0.30    8
1,000, 4, 1          0.096  0.069  0.105   0.092  0.084  0.30    8
1,000, 6, 1          2.633  0.180  0.148   0.141  0.129  0.25    12
1,000, 8, 1          3.309  0.282  0.203   0.173  0.163  0.22    12
10,000, 4, 0.25      1.393  0.173  0.176   0.145  0.130  0.30    8
10,000, 6, 0.25      3.574  0.499  0.278   0.209  0.188  0.26    12
10,000, 8, 0.25      3.415  0.802  0.291   0.232  0.191  0.21    12
10,000, 8, 1         0.026  0.024  0.023   0.025  0.026  0.21    12
10,000, 12, 1        0.040  0.041  0.041   0.044  0.045  0.18    12
===================  =====  =====  ======  =====  =====  ======  ======

Differences below 20% are within the noise of 30 data sets.

"Length" is that of the answer itself: an error near it is no better than zeros. "Slow" says that
the draws took more than 0.3 s each. The rule is that of :mod:`mechanisms.samplers.base_measure`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.domain import NumberColumn, Schema
from mechanisms.kng.linear import LinearDraw
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.samplers.affine import draw
from mechanisms.sketches import ArrayData
from mechanisms.statistics.linear_regression import LinearRegression

Values = NDArray[np.float64]

SETTINGS = (
    (235, 2, 1.0),
    (235, 4, 1.0),
    (1_000, 4, 1.0),
    (1_000, 6, 1.0),
    (1_000, 8, 1.0),
    (10_000, 4, 0.25),
    (10_000, 6, 0.25),
    (10_000, 8, 0.25),
    (10_000, 8, 1.0),
    (10_000, 12, 1.0),
)
"""Rows, coefficients, spread of the features."""

POWERS = (0.0, 1.0, 1.5, 2.0, 4.0)
"""p over d."""

_SLOWEST_S = 0.3


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: mean errors at each of :data:`POWERS`, None where too slow, and the length."""

    setting: str
    errors: tuple[float | None, ...]
    rule: int
    length: float


def study(*, replicates: int = 30, seed: int = 1) -> Iterator[Row]:
    """Yield a row per setting."""
    for n, d, spread in SETTINGS:
        errors: list[float | None] = []
        length, rule = 0.0, 0
        for power in POWERS:
            rng = np.random.default_rng(seed)  # the same data sets for each power
            found: list[float] = []
            lengths: list[float] = []
            spent = 0.0
            while len(found) < replicates and spent < replicates * _SLOWEST_S:
                design, target = _data(n, d, spread, rng)
                truth = np.linalg.lstsq(design, target, rcond=None)[0]
                began = time.process_time()
                theta, rule = _draw(design, target, round(power * d))
                spent += time.process_time() - began
                found.append(float(np.linalg.norm(theta - truth)))
                lengths.append(float(np.linalg.norm(truth)))
            errors.append(float(np.mean(found)) if len(found) == replicates else None)
            length = float(np.mean(lengths))
        yield Row(f"{n}, {d}, {spread}", tuple(errors), rule, length)


def _data(n: int, d: int, spread: float, rng: np.random.Generator) -> tuple[Values, Values]:
    """Return rows with a first column of ones, and their targets."""
    design = rng.uniform(-spread, spread, (n, d)) + (0.3 if spread < 1 else 0.0)
    design[:, 0] = 1.0
    slopes = rng.standard_normal(d)
    noise = 0.1 * rng.standard_normal(n)
    return design, np.clip(design @ (slopes / (2 * np.abs(slopes).sum())) + noise, -1, 1)


def _draw(design: Values, target: Values, power: int) -> tuple[Values, int]:
    """Return scaled coefficients drawn at one power, and the rule's."""
    n, d = design.shape
    unit = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
    names = tuple(f"x{number}" for number in range(1, d))
    columns = dict.fromkeys((*names, "y"), unit)
    schema = Schema(columns=columns, adjacency=Adjacency.REPLACE_ONE, rows=n)
    values = {**dict(zip(names, design.T[1:], strict=True)), "y": target}
    asked = LinearRegression(target="y", features=names, bound=10.0)
    drawn = calibrate(asked, schema, Epsilon.parse("1"), mechanism="kng").draw
    assert isinstance(drawn, LinearDraw)
    law = drawn.law(ArrayData.from_values(schema, values))
    other = replace(law, power=power, _enclosures={})
    exponent = drawn.step_exponent
    indices = draw(other, system_randomness(), step_exponent=exponent)
    return np.array(indices, dtype=np.float64) * 2.0**exponent, law.power
