"""Strictly convex quadratics over a box or on a sphere.

``minimise theta'H theta / 2 + c'theta``; arrays are float64, or object arrays of
``Fraction``, in which the box's walk is exact and ends at the minimiser.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from mechanisms.exact.balls import dot, midpoint, rational, rational_matrix
from mechanisms.exact.floats import working_precision
from mechanisms.samplers.l1_ball import Point, Vector, solve_exactly

_FLOAT_TOLERANCE = 1e-12  # a hint's walk may stop at rounding
_SECULAR_STEPS = 100  # Newton's method on a convex function ends long before


def box_minimum(
    hessian: Vector, linear: Vector, lower: Vector, upper: Vector, *, exact: bool
) -> Point:
    """Return the minimiser on a box and which coordinates are held (-1 lower, 1 upper, 0 free).

    A primal active-set walk: move towards the minimum over the free
    coordinates, stop where one of them meets its bound and hold it there; at
    that minimum free the held coordinate along which the objective falls
    fastest. The objective falls from one set of held coordinates to the next,
    and there are finitely many. In floats the walk is cut short.
    """
    free = _solve(hessian, -linear, exact)
    theta = np.minimum(np.maximum(free, lower), upper)
    # A first guess that is often right: the clamped free minimum.
    held = np.where(free < lower, -1, np.where(free > upper, 1, 0)).astype(np.int8)
    limit = 20 * (len(theta) + 5)
    steps = 0
    while exact or steps < limit:
        steps += 1
        target = _free_minimum(hessian, linear, theta, held, exact)
        crossing = _first_crossing(theta, target, lower, upper)
        if crossing is not None:
            share, index, side = crossing
            theta = theta + share * (target - theta)
            # Put on the bound itself: the share times the way may miss it by rounding.
            theta[index] = lower[index] if side < 0 else upper[index]
            held[index] = side
            continue
        theta = target
        gradient = hessian @ theta + linear
        slack = 0 if exact else _FLOAT_TOLERANCE * float(np.abs(gradient).max())
        falling = gradient * held  # positive where moving inward lowers the objective
        worst = int(np.argmax(falling))
        if falling[worst] <= slack:
            break
        held[worst] = 0
    return Point(theta, held if held.any() else None)


def _free_minimum(
    hessian: Vector, linear: Vector, theta: Vector, held: NDArray[np.int8], exact: bool
) -> Vector:
    """Return theta with its free coordinates at their minimum."""
    (free,), (fixed,) = np.nonzero(held == 0), np.nonzero(held)
    target = theta.copy()
    if len(free):
        right = -linear[free] - hessian[np.ix_(free, fixed)] @ theta[fixed]
        target[free] = _solve(hessian[np.ix_(free, free)], right, exact)
    return target


def _first_crossing(
    theta: Vector, target: Vector, lower: Vector, upper: Vector
) -> tuple[Fraction | float, int, int] | None:
    """Return where the segment leaves the box first: the share, the coordinate and the side."""
    crossings = []
    for j, (t, end, low, high) in enumerate(zip(theta, target, lower, upper, strict=True)):
        if end < low:
            crossings.append(((low - t) / (end - t), j, -1))
        elif end > high:
            crossings.append(((high - t) / (end - t), j, 1))
    return min(crossings) if crossings else None


def _solve(matrix: Vector, right: Vector, exact: bool) -> Vector:
    return solve_exactly(matrix, right) if exact else np.linalg.solve(matrix, right)


def sphere_minimum(hessian: Vector, linear: Vector, bound: Fraction, bits: int | None) -> Vector:
    """Return the minimiser on ||theta||_2 = B, given that the free minimum lies outside: a hint.

    theta(tau) = -(H + tau I)^-1 c, with tau > 0 the root of ||theta(tau)||_2 = B, by
    Newton's method on 1/||theta|| - 1/B, which is concave and increasing in tau and
    nearly linear: from tau = 0 it rises to the root and never passes it.
    """
    floats = hessian.astype(float)
    values, vectors = np.linalg.eigh(floats)
    pulled, radius = vectors.T @ linear.astype(float), float(bound)
    tau = 0.0
    for _ in range(_SECULAR_STEPS):
        length = float(np.linalg.norm(pulled / (values + tau)))
        steep = float((pulled**2 / (values + tau) ** 3).sum())
        step = (length - radius) / radius * length**2 / steep
        tau = max(tau + step, 0.0)
        if not step > 1e-15 * tau:
            break
    if bits is None:
        answer: Vector = -vectors @ (pulled / (values + tau))
        return answer
    return _refined_sphere_minimum(hessian, linear, bound, tau, bits)


def _refined_sphere_minimum(
    hessian: Vector, linear: Vector, bound: Fraction, tau: float, bits: int
) -> Vector:
    """Return the same to about ``bits`` bits, from a float tau."""
    size = len(linear)
    with working_precision(2 * bits + 64):
        matrix = rational_matrix(hessian)
        right = arb_mat([[-rational(entry)] for entry in linear])
        radius, shift = rational(bound), arb(tau)
        # Newton doubles the right digits each time, the float's dozen to begin with.
        for _ in range(math.ceil(math.log2(bits)) + 1):
            shifted = matrix + arb_mat(
                [[shift if i == j else arb(0) for j in range(size)] for i in range(size)]
            )
            theta = _middle(shifted.solve(right))
            squares = dot(theta.entries(), theta.entries())
            bent = _middle(shifted.solve(theta))
            steep = dot(theta.entries(), bent.entries())
            length = squares.sqrt()
            shift = arb((shift + (length - radius) / radius * squares / steep).mid())
        answer = np.empty(size, dtype=object)
        answer[:] = [midpoint(t) for t in theta.entries()]
    return answer


def _middle(column: arb_mat) -> arb_mat:
    return arb_mat([[arb(entry.mid())] for entry in column.entries()])
