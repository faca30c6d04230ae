"""Choice of the cheapest envelope of a truncated Gaussian, and draws from it.

The law and its envelopes: :mod:`mechanisms.samplers.gaussian_ball`. Every envelope
gives exactly the law; this search works in floats and decides the cost alone.
Its candidates are the free envelope and, for each number of signs taken from the
mode's largest coordinates, the widest of the others as W, in all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.randomness import Randomness
from mechanisms.samplers.affine.tries import decide, random_words, surviving
from mechanisms.samplers.gaussian_ball import Envelope, Frame, GaussianBall
from mechanisms.samplers.l1_ball import Quadratic

_NEWTON_STEPS = 60  # far more than the convex search needs
_FIRST_ROWS = 4  # most draws keep one of the first few tries
_MOST_ROWS = 8192  # tries screened at a time
_WELL_INSIDE = 3.0  # standard deviations of every coordinate between the centre and the sphere


def draw(law: GaussianBall, randomness: Randomness, *, step_exponent: int) -> tuple[int, ...]:
    """Return one exact draw of theta, rounded with certainty to the grid ``2**step_exponent``."""
    envelope = best_envelope(law)
    rows = _FIRST_ROWS
    while True:
        words = random_words(randomness, rows, 1 + envelope.choices + envelope.uniforms)
        for row in surviving(envelope, words):
            point = decide(envelope, words[row].tolist(), randomness, step_exponent)
            if point is not None:
                return point
        rows = min(4 * rows, _MOST_ROWS)


def best_envelope(law: GaussianBall) -> Envelope:
    """Return the envelope of least mass, to the accuracy of floats."""
    matrix, vector = law.floats
    size = law.dimension
    free = Frame(signs=(0,) * size, pivot=None, wide=(), others=tuple(range(size)))
    spread = np.sqrt(np.diag(np.linalg.inv(matrix)))
    centre = np.linalg.solve(matrix, vector)
    # The free envelope then keeps nearly every try: nothing is worth a search.
    if np.abs(centre).sum() + _WELL_INSIDE * spread.sum() < float(law.bound):
        return Envelope(law, free, ())
    best = (_free_mass(matrix, vector), free, np.zeros(0))
    with np.errstate(all="ignore"):
        for frame in _frames(law):
            try:
                mass, rates = _least_mass(law, frame)
            except np.linalg.LinAlgError:  # a hint out of the floats' reach
                continue
            if mass < best[0]:
                best = (mass, frame, rates)
    return Envelope(law, best[1], tuple(best[2].tolist()))


def _frames(law: GaussianBall) -> Iterator[Frame]:
    """Yield signs of the largest coordinates of the mode, with the widest of the rest as W."""
    matrix, vector = law.floats
    mode = Quadratic(matrix, -vector, float(law.bound), exact=False).minimise().theta
    order = [int(j) for j in np.argsort(-np.abs(mode))]
    for count in range(1, law.dimension + 1):
        signed = order[:count]
        rest = sorted(order[count:], key=lambda j: float(matrix[j, j]))
        signs = tuple(
            (1 if mode[j] >= 0 else -1) if j in signed else 0 for j in range(law.dimension)
        )
        for width in range(len(rest) + 1):
            others = (*signed[1:], *rest[width:])
            yield Frame(signs=signs, pivot=signed[0], wide=tuple(rest[:width]), others=others)


def _free_mass(matrix: Floats, vector: Floats) -> float:
    """Return the log of the integral of exp(v'b - v'P v / 2)."""
    if not len(vector):
        return 0.0
    determinant = float(np.linalg.slogdet(matrix)[1])
    peak = float(vector @ np.linalg.solve(matrix, vector)) / 2
    return peak - determinant / 2 + len(vector) / 2 * math.log(2 * math.pi)


def _least_mass(law: GaussianBall, frame: Frame) -> tuple[float, Floats]:
    """Return the least log mass of a frame's envelopes, and the rates a that reach it."""
    matrix, vector = law.floats
    base = np.zeros(law.dimension)
    if frame.pivot is not None:
        base[frame.pivot] = frame.signs[frame.pivot] * float(law.bound)
    change, slow = frame.map().astype(np.float64), frame.slow
    turned = change.T @ matrix @ change
    pull = change.T @ (vector - matrix @ base)
    rest, cross = turned[slow:, slow:], turned[slow:, :slow]
    schur = turned[:slow, :slow] - (cross.T @ np.linalg.solve(rest, cross) if len(rest) else 0)
    beta = pull[:slow] - (cross.T @ np.linalg.solve(rest, pull[slow:]) if len(rest) else 0)
    inside = float(vector @ base) - float(base @ matrix @ base) / 2
    rates, mass = _minimise_mass(np.asarray(np.linalg.inv(schur), dtype=np.float64), beta)
    return inside + _free_mass(rest, pull[slow:]) + mass, rates


def _start(inverse: Floats, beta: Floats) -> Floats:
    """Return rates near the gradient at z = 0, where the tangent touches a mode on the sphere."""
    point = -beta
    least = 1.001 * float(np.abs(point[1:]).max(initial=0.0))
    point[0] = max(float(point[0]), least, 1e-3 / math.sqrt(inverse[0, 0]))
    return point


def _minimise_mass(inverse: Floats, beta: Floats) -> tuple[Floats, float]:
    """Return a that minimises (a + beta)'S^-1(a + beta) / 2 + log prod of 1 / rates, by Newton."""

    def value(a: Floats) -> float:
        if not a[0] > np.abs(a[1:]).max(initial=0.0):
            return math.inf
        pairs = np.log(2 * a[0] / (a[0] ** 2 - a[1:] ** 2)).sum()
        shifted = a + beta
        return float(shifted @ inverse @ shifted / 2 - math.log(a[0]) + pairs)

    point = _start(inverse, beta)
    best = value(point)
    for _ in range(_NEWTON_STEPS):
        below, above = 1 / (point[0] - point[1:]), 1 / (point[0] + point[1:])
        gradient = inverse @ (point + beta)
        gradient[0] += ((len(point) - 2) / point[0]) - (below + above).sum()
        gradient[1:] += below - above
        hessian = inverse.copy()
        hessian[0, 0] += (below**2 + above**2).sum() - (len(point) - 2) / point[0] ** 2
        hessian[0, 1:] += above**2 - below**2
        hessian[1:, 0] += above**2 - below**2
        hessian[1:, 1:] += np.diag(below**2 + above**2)
        step, size = np.linalg.solve(hessian, gradient), 1.0
        while value(point - size * step) > best and size > 1e-9:
            size /= 2
        if size <= 1e-9:
            break
        gain = best - value(point - size * step)
        point, best = point - size * step, best - gain
        if gain < 1e-9:
            break
    return point, best
