"""Test of the public rule for q, the tilt's share of epsilon in objective perturbation.

The mean Euclidean distance of scaled coefficients to the fit without noise, at fixed shares and at
``q="auto"`` (:func:`mechanisms.perturbation.calibration.automatic_q`), for two losses: logistic,
slopes of norm T, and the smoothed check loss at tau = 3/4, slopes of l1 norm T with normal
residuals of deviation 0.1. Columns are uniform on a part of their bounds, the tilt is l-infinity.
Each data set is a new draw, and all shares draw with the same random bits. ``make bench ARGS=tilt``
repeats it; one run of 40 data sets each, "over" is the ratio of auto to the best share of eight:

==============  =====  ==  ====  ===  ====  ======  ======  ======  ======  ==============  ====
loss                n   d   eps    T  part    q=.5    q=.7    q=.8    q=.9  auto (its q)    over
==============  =====  ==  ====  ===  ====  ======  ======  ======  ======  ==============  ====
logistic         1000   7     1    2     1  0.8043  0.5681  0.5302  0.6273  0.5329 (.775)   1.00
logistic        10000   7   1/4    2     1  0.3243  0.247   0.2436  0.3119  0.241 (.755)    1.00
logistic        10000   7     1    2     1  0.0805  0.0594  0.0578  0.0794  0.0573 (.755)   1.00
logistic         1000   4     1  0.5     1  0.3182  0.2223  0.1914  0.1679  0.2075 (.745)   1.24
logistic         1000   4     1    4     1  0.9553  0.699   0.7862  1.219   0.7134 (.745)   1.02
logistic         5000   4     1  0.5  0.25  0.9267  0.6297  0.5235  0.4244  0.591 (.735)    1.50
logistic         5000   4     1    8  0.25  1.375   1.421   1.846   2.902   1.528 (.735)    1.18
logistic        20000   6     2  0.5     1  0.0130  0.0093  0.0082  0.0077  0.0087 (.755)   1.13
logistic        20000   6     2    4     1  0.0331  0.0296  0.0386  0.0793  0.0328 (.755)   1.12
logistic          300   2     1    1     1  0.4586  0.3146  0.2764  0.2757  0.2969 (.74)    1.11
logistic        10000   5     1    1   0.3  0.4558  0.3206  0.2787  0.2592  0.3022 (.74)    1.17
logistic         3000  12     4    3     1  0.1962  0.144   0.145   0.2298  0.145 (.8)      1.03
logistic        50000   6  1/10    1   0.5  0.4093  0.2886  0.2523  0.2387  0.2707 (.745)   1.13
smoothed check   1000   3     1  0.5     1  0.0177  0.0277  0.0418  0.0812  0.0194 (.335)   1.09
smoothed check  10000   3   1/4  0.5     1  0.0082  0.0128  0.0192  0.0374  0.0089 (.31)    1.08
smoothed check  10000   7     1  0.5     1  0.0043  0.0050  0.0070  0.0136  0.0054 (.36)    1.25
==============  =====  ==  ====  ===  ====  ======  ======  ======  ======  ==============  ====

No fixed share serves both losses. Of 13 logistic settings the rule is within 1.1 of the best share
in 5. It cannot be in all: three pairs differ in their slopes alone, which are not public, and the
share with the smallest larger ratio of a pair has 1.14, 1.37 and 1.13. The rule has 1.24, 1.50 and
1.13 there. It would be within 1.1 in 7 settings, and at most 1.37 above, for slopes of norm 2; the
excess log loss of steep slopes is what speaks for 3 (``studies/long_answers.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import NumberColumn, Schema
from mechanisms.objectives.losses import Loss, logistic_loss, smoothed_check_loss
from mechanisms.perturbation.calibration import Perturbation, smoothing_width
from mechanisms.perturbation.likelihoods import logistic_objective, smoothed_check_objective
from mechanisms.privacy import Adjacency
from mechanisms.samplers.minimiser import Objective
from mechanisms.samplers.regions import L1Ball
from mechanisms.sketches import ArrayData
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import seeded_randomness

Values = NDArray[np.float64]

SHARES = (*(Fraction(q, 100) for q in (50, 60, 70, 75, 80, 85, 90, 95)), None)


@dataclass(frozen=True, slots=True)
class Setting:
    """A loss, the public facts of a question, and what the rows are like.

    ``length`` is the norm of the slopes, ``spread`` the part of its bounds that a feature fills.
    """

    loss: str
    rows: int
    coefficients: int
    epsilon: Fraction
    length: float = 2.0
    spread: float = 1.0

    def __str__(self) -> str:
        facts = f"{self.loss}, n={self.rows}, d={self.coefficients}, epsilon={self.epsilon}"
        return f"{facts}, slopes {self.length:g}, {self.spread:g} of the bounds"


SETTINGS = (
    Setting("logistic", 1_000, 7, Fraction(1)),
    Setting("logistic", 10_000, 7, Fraction(1, 4)),
    Setting("logistic", 10_000, 7, Fraction(1)),
    Setting("logistic", 1_000, 4, Fraction(1), 0.5),
    Setting("logistic", 1_000, 4, Fraction(1), 4.0),
    Setting("logistic", 5_000, 4, Fraction(1), 0.5, 0.25),
    Setting("logistic", 5_000, 4, Fraction(1), 8.0, 0.25),
    Setting("logistic", 20_000, 6, Fraction(2), 0.5),
    Setting("logistic", 20_000, 6, Fraction(2), 4.0),
    Setting("logistic", 300, 2, Fraction(1), 1.0),
    Setting("logistic", 10_000, 5, Fraction(1), 1.0, 0.3),
    Setting("logistic", 3_000, 12, Fraction(4), 3.0),
    Setting("logistic", 50_000, 6, Fraction(1, 10), 1.0, 0.5),
    Setting("smoothed check", 1_000, 3, Fraction(1), 0.5),
    Setting("smoothed check", 10_000, 3, Fraction(1, 4), 0.5),
    Setting("smoothed check", 10_000, 7, Fraction(1), 0.5),
)
_SPREAD, _LEVEL = 0.1, Fraction(3, 4)
_EXACTLY = Fraction(10**4)


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: its mean error at each of :data:`SHARES`, and the rule's choice."""

    setting: str
    errors: tuple[float, ...]
    chosen: float

    @property
    def regret(self) -> float:
        """Return the rule's error over the best fixed share's."""
        return self.errors[-1] / min(self.errors[:-1])


def study(*, replicates: int = 40, seed: int = 1) -> Iterator[Row]:
    """Yield a row per setting."""
    rng = np.random.default_rng(seed)
    for setting in SETTINGS:
        errors = np.zeros(len(SHARES))
        n, epsilon = setting.rows, setting.epsilon
        made = _logistic if setting.loss == "logistic" else _quantile
        for number in range(replicates):
            objective, loss = made(setting, rng)
            fit, _ = _drawn(loss, objective, n, epsilon=_EXACTLY, share=None, seed=number)
            for index, share in enumerate(SHARES):
                theta, chosen = _drawn(
                    loss, objective, n, epsilon=epsilon, share=share, seed=number
                )
                errors[index] += float(np.linalg.norm(theta - fit)) / replicates
        yield Row(str(setting), tuple(errors.tolist()), chosen)


def _drawn(
    loss: Loss,
    objective: Objective,
    n: int,
    *,
    epsilon: Fraction,
    share: Fraction | None,
    seed: int,
) -> tuple[Values, float]:
    """Return theta, and the share that it was drawn with."""
    draw = Perturbation.calibrate(
        loss, epsilon=epsilon, row_bound=n, rows=n, region=L1Ball(Fraction(20)), q=share
    )
    drawn = draw.draw(objective, seeded_randomness(seed))
    return np.array([float(each) for each in drawn]), float(draw.q)


def _schema(n: int, names: tuple[str, ...]) -> Schema:
    unit = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
    flag = NumberColumn(lower=Fraction(0), upper=Fraction(1), boolean=True)
    columns = {**dict.fromkeys((*names, "y"), unit), "yes": flag}
    return Schema(columns=columns, adjacency=Adjacency.REPLACE_ONE, rows=n)


def _logistic(setting: Setting, rng: np.random.Generator) -> tuple[Objective, Loss]:
    n, d = setting.rows, setting.coefficients
    truth = rng.standard_normal(d)
    truth *= setting.length / np.linalg.norm(truth)
    x = setting.spread * rng.uniform(-1, 1, (n, d))
    yes = rng.uniform(size=n) < 1 / (1 + np.exp(-x @ truth))
    names = tuple(f"x{number}" for number in range(d))
    schema = _schema(n, names)
    values = {**dict(zip(names, x.T, strict=True)), "y": np.zeros(n), "yes": yes.astype(float)}
    asked = LogisticRegression(target="yes", features=names, intercept=False)
    objective = logistic_objective(asked, schema, ArrayData.from_values(schema, values))
    return objective, logistic_loss(d, schema.adjacency)


def _quantile(setting: Setting, rng: np.random.Generator) -> tuple[Objective, Loss]:
    n, d, epsilon = setting.rows, setting.coefficients, setting.epsilon
    slopes = rng.standard_normal(d - 1)
    slopes *= setting.length / np.abs(slopes).sum()
    x = rng.uniform(-1, 1, (n, d - 1))
    y = x @ slopes + _SPREAD * rng.standard_normal(n)
    names = tuple(f"x{number}" for number in range(d - 1))
    schema = _schema(n, names)
    values = {**dict(zip(names, x.T, strict=True)), "y": y, "yes": np.zeros(n)}
    asked = QuantileRegression(target="y", features=names, tau=float(_LEVEL))
    width = smoothing_width(epsilon, d, n)
    objective = smoothed_check_objective(
        asked, width, schema, ArrayData.from_values(schema, values)
    )
    loss = smoothed_check_loss(d, _LEVEL, width, intercept=True, adjacency=schema.adjacency)
    return objective, loss
