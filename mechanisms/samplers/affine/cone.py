"""The vertex route's cone as affine maps, enclosed; :mod:`vertex` says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb, arb_mat

from mechanisms.exact.rounding import working_precision
from mechanisms.samplers.affine.path import Row, Vertex
from mechanisms.samplers.affine.posterior import AffinePosterior


@dataclass(frozen=True, slots=True, kw_only=True)
class Cone:
    """The images of y = (x_R, s + sum_Z |theta_j|, theta_Z): base + image y.

    Rows: theta (d), t - V (d), t + V (d), t (1). ``determinant`` is the
    Jacobian of (theta, t) in (x, s, theta_Z).
    """

    base: arb_mat
    image: arb_mat
    determinant: arb


def build_cone(law: AffinePosterior, vertex: Vertex, bits: int) -> Cone:
    """Solve the active constraints for (theta_N, t) and map everything through them."""
    exact, size = law.enclose(bits), law.dimension
    support = [place for place, _ in vertex.support]
    others = [place for place in range(size) if place not in support]
    count = len(support)
    with working_precision(bits + 2 * law.guard_bits):
        matrix = exact.matrix.tolist()
        vector = exact.vector.entries()
        # Unknowns are theta on N and t: a row per residual at its bound, then the l1 bound.
        slopes = [_combine(row, matrix, size) for row in vertex.rows]
        active = [[*(-slope[place] for place in support), arb(1)] for slope in slopes]
        active.append([*(arb(sign) for _, sign in vertex.support), arb(0)])
        inverse = arb_mat(active).inv()
        right = [[arb(0)] * (size + 2) for _ in range(count + 1)]
        for place, row in enumerate(vertex.rows):
            right[place][place] = arb(1)
            for column, other in enumerate(others):
                right[place][count + 1 + column] = slopes[place][other]
            right[place][-1] = -sum((arb(weight) * vector[r] for r, weight in row), arb(0))
        # y has s + sum_Z |theta_j| as one entry, so this column is for both.
        right[count][count] = arb(-1)
        right[count][-1] = exact.bound
        solved = (inverse * arb_mat(right)).tolist()
        theta = [[arb(0)] * (size + 2) for _ in range(size)]
        for place, solution in zip(support, solved[:-1], strict=True):
            theta[place] = solution
        for column, other in enumerate(others):
            theta[other][count + 1 + column] = arb(1)
        return _stack(exact.matrix, vector, theta, solved[-1], abs(inverse.det()))


def _combine(row: Row, matrix: list[list[arb]], size: int) -> list[arb]:
    """Return omega'A."""
    return [
        sum((arb(weight) * matrix[place][column] for place, weight in row), arb(0))
        for column in range(size)
    ]


def _stack(
    matrix: arb_mat,
    vector: Sequence[arb],
    theta: list[list[arb]],
    top: list[arb],
    determinant: arb,
) -> Cone:
    """Return the maps to theta, t - V, t + V and t from those to theta and t."""
    residual = (matrix * arb_mat(theta)).tolist()
    for row, entry in zip(residual, vector, strict=True):
        row[-1] -= entry
    up = [[one - two for one, two in zip(top, row, strict=True)] for row in residual]
    down = [[one + two for one, two in zip(top, row, strict=True)] for row in residual]
    rows = [*theta, *up, *down, top]
    return Cone(
        base=arb_mat([[row[-1]] for row in rows]),
        image=arb_mat([row[:-1] for row in rows]),
        determinant=determinant,
    )
