"""The search path of the vertex route: the least h at every l1 norm up to B.

Minimise t subject to |(A theta - b)_r| <= t and ||theta||_1 <= beta. As beta
grows from 0 to B the optimum moves along a path of linear pieces (a parametric
simplex method, the dual of the Dantzig selector's path). On a piece, N are the
coordinates of theta that are not zero, with signs sigma, and R, equally many,
the residuals at the bound, with signs. The dual point mu >= 0 on R, sum mu = 1,
and the price lambda = -dt / dbeta satisfy (A mu)_j = -lambda sigma_j on N and
|(A mu)_j| <= lambda elsewhere. A bound met by theta is followed by a dual step,
and the other way round.

Everything here is a *hint*, computed at the midpoints of balls: the vertex route
certifies what it is given. So A and b are nudged by about 2**-60 of their size,
which splits ties, and the search gives up after a number of pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from mechanisms.exact.floats import working_precision
from mechanisms.samplers.affine.posterior import AffinePosterior

# The vertex route's cone as affine maps, enclosed; :mod:`vertex` says what it is


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


# The search path of the vertex route: the least h at every l1 norm up to B

Balls = NDArray[np.object_]
Row = tuple[tuple[int, float], ...]

_PIECES_PER_DIMENSION = 20  # the walk, which is only a hint, stops after this many
_GOLDEN = 0.6180339887498949  # spreads the nudges, so that no two are alike
_NUDGE = arb((1, -60))  # splits ties; what it moves is only a hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """What makes a cone: N with its signs, and as many rows omega with t >= omega'V.

    A row lists its nonzero (place, weight) pairs; the sizes of its weights, exact
    floats, sum to at most 1. A residual at the bound is the row ((r, sign),).
    """

    support: tuple[tuple[int, int], ...]
    rows: tuple[Row, ...]


def find_vertices(law: AffinePosterior) -> list[Vertex]:
    """Return the vertices passed on the way to B, as hints, the last one first.

    The last is the vertex of least h on Theta, unless h reaches 0 inside Theta,
    where the path ends. The dual points of earlier ones are as feasible; their
    cones start lower but may be narrower.
    """
    vertices: list[Vertex] = []
    with working_precision(64 + 2 * law.guard_bits):
        path = _Path(law)
        for _ in range(_PIECES_PER_DIMENSION * law.dimension + 20):
            vertices.append(path.vertex())
            try:
                if path.advance():
                    break
            except ZeroDivisionError:  # h has reached 0, or a degenerate piece
                break
    return vertices[::-1]


class _Path:
    """One run along the path; signs are kept folded into the rows they belong to."""

    __slots__ = (
        "_dual",
        "_left",
        "_matrix",
        "_mu",
        "_price",
        "_residual",
        "_residuals",
        "_size",
        "_support",
        "_theta",
        "_top",
    )

    def __init__(self, law: AffinePosterior) -> None:
        exact = law.enclose(64)
        size = law.dimension
        self._size = size
        self._matrix = _nudged(exact.matrix.entries()).reshape(size, size)
        vector = _nudged(exact.vector.entries())
        self._theta: Balls = np.array([arb(0)] * size, dtype=object)
        self._residual: Balls = -vector
        self._left = exact.bound.mid()
        # At beta = 0 theta is 0, and the largest |b_r| is the residual at the bound.
        first = _largest(self._residual)
        sign = _sign(self._residual[first])
        self._top = abs(self._residual[first])
        self._residuals = [(first, sign)]
        self._mu: Balls = np.array([arb(1)], dtype=object)
        self._dual: Balls = self._matrix[:, first] * sign
        entering = _largest(self._dual)
        self._price = abs(self._dual[entering])
        self._support = [(entering, -_sign(self._dual[entering]))]

    def vertex(self) -> Vertex:
        """Return the active constraints reached."""
        rows = tuple(((place, float(sign)),) for place, sign in self._residuals)
        return Vertex(support=tuple(self._support), rows=rows)

    def advance(self) -> bool:
        """Follow one piece and pivot; True at the l1 bound.

        Raises
        ------
        ZeroDivisionError
            h has reached 0 inside Theta, or the piece is degenerate.
        """
        columns = [place for place, _ in self._support]
        rows = [place for place, _ in self._residuals]
        signs = np.array([sign for _, sign in self._residuals], dtype=object)
        block = self._matrix[np.ix_(rows, columns)] * signs[:, None]
        move: Balls = np.array([arb(0)] * self._size, dtype=object)
        move[columns] = _solve(block, [-self._price] * len(rows))
        slope = _middle(self._matrix @ move)
        step, event = self._first_event(move, slope)
        self._theta = _middle(self._theta + move * step)
        self._residual = _middle(self._residual + slope * step)
        self._top = (self._top - self._price * step).mid()
        self._left = (self._left - step).mid()
        if event is None:
            return True
        kind, place, sign = event
        if kind == "residual":
            self._dual_step(entering=(place, sign))
        else:
            self._dual_step(leaving=(place, sign))
        return False

    def _first_event(self, move: Balls, slope: Balls) -> tuple[arb, tuple[str, int, int] | None]:
        """Return how far the piece goes and what ends it (None: the l1 bound)."""
        if not self._price > 0:
            raise ZeroDivisionError
        step = self._left
        event: tuple[str, int, int] | None = None
        active = {place for place, _ in self._residuals}
        for place in range(self._size):
            for sign in (1, -1):
                gap = self._top - self._residual[place] * sign
                closing = slope[place] * sign + self._price
                if place not in active and closing > 0 and gap / closing < step:
                    step, event = (gap / closing).mid(), ("residual", place, sign)
        for place, sign in self._support:
            closing = -move[place] * sign
            if closing > 0 and self._theta[place] * sign / closing < step:
                step, event = (self._theta[place] * sign / closing).mid(), ("zero", place, sign)
        # h would be 0 before the piece ends.
        if self._top / self._price < step:
            raise ZeroDivisionError
        # Rounding may have put a constraint a hair behind the point.
        return (step if step > 0 else arb(0)), event

    def _dual_step(
        self,
        *,
        entering: tuple[int, int] | None = None,
        leaving: tuple[int, int] | None = None,
    ) -> None:
        """Move the dual point along its free direction until a weight or a price binds."""
        columns = [place for place, _ in self._support]
        sigma = [sign for _, sign in self._support]
        rows = [place for place, _ in self._residuals]
        signs = np.array([sign for _, sign in self._residuals], dtype=object)
        count = len(columns) + 1
        system: Balls = np.array([[arb(0)] * count] * count, dtype=object)
        # A mu + lambda sigma = 0 on N, and sum mu = 1, must go on holding.
        system[:-1, :-1] = (self._matrix[np.ix_(rows, columns)] * signs[:, None]).T
        system[:-1, -1] = sigma
        system[-1, :-1] = arb(1)
        if entering is not None:
            extra = self._matrix[:, entering[0]] * entering[1]
            drift = _solve(system, [*(-extra[columns]), arb(-1)])
        else:
            extra = np.array([arb(0)] * self._size, dtype=object)
            right = [arb(sign if (place, sign) == leaving else 0) for place, sign in self._support]
            drift = _solve(system, [*right, arb(0)])
        weights, price = drift[:-1], drift[-1]
        dual = _middle(self._matrix[:, rows] @ (weights * signs) + extra)
        if leaving is not None:
            self._support.remove(leaving)
        step, event = self._first_binding(weights, dual, price, leaving)
        self._mu = _middle(self._mu + weights * step)
        if entering is not None:
            self._residuals.append(entering)
            self._mu = np.array([*self._mu, step], dtype=object)
        self._dual = _middle(self._dual + dual * step)
        self._price = (self._price + price * step).mid()
        kind, place, sign = event
        if kind == "weight":
            del self._residuals[place]
            self._mu = np.delete(self._mu, place)
        else:
            self._support.append((place, sign))

    def _first_binding(
        self, weights: Balls, dual: Balls, price: arb, leaving: tuple[int, int] | None
    ) -> tuple[arb, tuple[str, int, int]]:
        """Return how far the dual point goes and which constraint stops it."""
        step: arb | None = None
        event = ("", 0, 0)
        for place, rate in enumerate(weights):
            if rate < 0 and (step is None or -self._mu[place] / rate < step):
                step, event = (-self._mu[place] / rate).mid(), ("weight", place, 0)
        inside = {place for place, _ in self._support}
        for place in range(self._size):
            for sign in (1, -1):
                if place in inside or (place, sign) == leaving:
                    continue
                # sigma_j = sign needs price + sign * dual_j to stay >= 0
                gap = self._price + self._dual[place] * sign
                closing = -(price + dual[place] * sign)
                if closing > 0 and (step is None or gap / closing < step):
                    step, event = (gap / closing).mid(), ("price", place, sign)
        if step is None:
            raise ZeroDivisionError
        return (step if step > 0 else arb(0)), event


def _solve(matrix: Balls, right: Sequence[arb]) -> Balls:
    size = len(right)
    solution = arb_mat(size, size, list(matrix.ravel())).solve(arb_mat(size, 1, list(right)))
    return _middle(np.array(solution.entries(), dtype=object))


def _middle(balls: Balls) -> Balls:
    middles: Balls = np.frompyfunc(lambda entry: entry.mid(), 1, 1)(balls)
    return middles


def _nudged(balls: Sequence[arb]) -> Balls:
    """Return the midpoints, each moved by its own part of about 2**-60 of its size."""
    parts = [(place + 1) * _GOLDEN % 1 for place in range(len(balls))]
    moved = [entry * (1 + _NUDGE * part) for entry, part in zip(balls, parts, strict=True)]
    return _middle(np.array(moved, dtype=object))


def _largest(balls: Balls) -> int:
    return int(np.argmax([float(abs(entry)) for entry in balls]))


def _sign(entry: arb) -> int:
    return 1 if entry > 0 else -1
