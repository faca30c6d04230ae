"""Where a logistic loss is least or open, in floats: hints for the engines, never facts.

The loss is ``sum_i c_i log(1 + exp(zeta_i'theta))`` over distinct signed rows zeta_i with counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit

from mechanisms.exact.arrays import Floats

_SAMPLE_ROWS = 20_000  # a start from so many rows is close enough
_ROUNDS = 30  # Newton steps, far more than a start in the ball needs
_FULL_ROUNDS = 4  # steps over all rows, from the sample's minimum
_LARGEST_STEP = 2.0  # a longer Newton step leaves where the quadratic model holds
_RIDGE = 1e-9  # keeps collinear columns solvable
_LEAST_PULL = 1e-3  # a weaker pull bounds little, and may be rounding


@dataclass(frozen=True, slots=True, eq=False)
class Hint:
    """A point (scaled units), the Hessian there, and whether it is the minimum inside the ball."""

    point: Floats
    hessian: Floats
    inside: bool


def search(zeta: Floats, counts: Floats, bound: float) -> Hint:
    """Return about where the loss is least on ``||theta||_1 <= bound``: first by a sample."""
    point = np.zeros(zeta.shape[1])
    stride = max(1, len(zeta) // _SAMPLE_ROWS)
    if stride > 1:
        point, _, _ = _descend(zeta[::stride], counts[::stride], point, bound, _ROUNDS)
    rounds = _FULL_ROUNDS if stride > 1 else _ROUNDS
    point, hessian, step = _descend(zeta, counts, point, bound, rounds)
    inside = bool(np.abs(point).sum() < bound * (1 - 1e-9) and step < 1e-3)
    return Hint(point, hessian, inside)


def _descend(
    zeta: Floats, counts: Floats, point: Floats, bound: float, rounds: int
) -> tuple[Floats, Floats, float]:
    """Return a point, the Hessian there and the last step's length, after damped Newton steps.

    A point that leaves the ball is pulled back along its ray.
    """
    hessian, length = np.eye(len(point)), np.inf
    for _ in range(rounds):
        weight = expit(zeta @ point)
        curve = counts * weight * (1 - weight)
        hessian = (zeta * curve[:, None]).T @ zeta
        ridge = (_RIDGE * float(np.trace(hessian)) + 1e-12) * np.eye(len(point))
        step = np.linalg.solve(hessian + ridge, (counts * weight) @ zeta)
        length = float(np.abs(step).sum())
        point = point - step * min(1.0, _LARGEST_STEP / max(length, 1e-300))
        point = point * min(1.0, bound / max(float(np.abs(point).sum()), 1e-300))
        if length < 1e-7:
            break
    return point, hessian, length


def one_sided(zeta: Floats) -> Floats:
    """Return directions along which no row pulls back: for each row the one it pulls most.

    They are w with ``||w||_1 <= 1`` and zeta w >= 0 (about), as rows, none of them twice; none at
    all where the rows leave nothing open.
    """
    rows, dimension = zeta.shape
    bounds = np.vstack([np.hstack([-zeta, zeta]), np.ones(2 * dimension)])
    limits = np.append(np.zeros(rows), 1.0)
    solved = [linprog(np.append(-row, row), A_ub=bounds, b_ub=limits) for row in zeta]
    found = [each.x for each in solved if each.success and each.fun < -_LEAST_PULL]
    ends = np.array(found).reshape(-1, 2, dimension)
    return np.unique(np.round(ends[:, 0] - ends[:, 1], 9), axis=0)
