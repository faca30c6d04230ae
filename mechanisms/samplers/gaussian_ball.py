"""Exact draws from a Gaussian shape truncated to an l1 ball.

    f(theta) proportional to exp(-E(theta)),    E(theta) = theta'P theta / 2 - b'theta,

on ||theta||_1 <= B,

for exact rationals P (symmetric, positive definite), b and B > 0.

*Envelopes.* The free one is the Gaussian N(P^-1 b, P^-1); a try is accepted iff it lies in the
ball. It fails where the data pull the centre out of the ball. The others are
exponential towards a face: choose signs s of some coordinates and a set W of others,
s_j = 0 on W. On the ball

    r = B - s'theta >= sum over W of |theta_j|.

Let z = (r, theta_W), and v the coordinates left but one with s_p != 0, which r and the
others give. The map theta -> (z, v) has determinant 1 up to sign and makes E a
quadratic with blocks P_zz, P_zv, P_vv. Given z, v is Gaussian; and the least of E over v is

    q(z) = z'S z / 2 - beta'z + const >= a'z - z0'S z0 / 2 + const,    a = S z0 - beta,

the tangent at z0, since S = P_zz - P_zv P_vv^-1 P_vz is positive definite. For a_r > |a_j|
and u = r - sum |theta_j| >= 0, the tangent's a'z = a_r u + sum (a_r |theta_j| + a_j theta_j) is
the exponent of independent exponentials: u of rate a_r, theta_j of rate a_r + a_j above
zero and a_r - a_j below.
A try draws those, then v given z, and is accepted with probability
exp(-(z - z0)'S(z - z0) / 2) iff theta lies in the ball. So f is drawn exactly,
whatever s, W and a, which change the cost alone. They are chosen by the envelope's mass
(:mod:`mechanisms.samplers.gaussian_ball`),

    exp(z0'S z0 / 2) / a_r prod 2 a_r / (a_r^2 - a_j^2),

convex in a on a logarithmic scale, times the Gaussian's over v: the mean number of
tries is this over the integral of f. All of S, beta, z0 and the Gaussian's factors are exact
rationals but for square roots.

*Cost*, with P at least (d / B)^2 times the identity: over some 1,400 random and degenerate
problems (columns identical, sparse, nearly collinear or of all sizes, centre up to ten
times outside) the largest mean number of tries was 15 at d = 4, 55 at d = 8 and 56 at
d = 12, the medians 1.1 to 1.2. a_j is a multiple of a_r / 2**59, so that signs have
dyadic odds. A try is screened in floats with a margin and decided in balls
(:mod:`mechanisms.samplers.affine.cube`).

*Choice of the cheapest envelope of a truncated Gaussian, and draws from it.* The law and its
envelopes: :mod:`mechanisms.samplers.gaussian_ball`. Every envelope gives exactly the law; this
search works in floats and decides the cost alone. Its candidates are the free envelope and, for
each number of signs taken from the mode's largest coordinates, the widest of the others as W.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from flint import arb, fmpq, fmpq_mat
from numpy.typing import NDArray

from mechanisms.exact.balls import dot, norm_one
from mechanisms.exact.floats import Floats, Words
from mechanisms.exact.fractions import fmpq_matrix, once, to_fmpq, to_fraction
from mechanisms.randomness import Randomness
from mechanisms.samplers.affine.cube import Verdict, decide, random_words, surviving
from mechanisms.samplers.quadratics import Quadratic

# Choice of the cheapest envelope of a truncated Gaussian, and draws from it

_NEWTON_STEPS = 60  # far more than the convex search needs
_ENOUGH = 1e-4  # of a log mass: a ten-thousandth of a try
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
    with np.errstate(all="ignore"):
        mass, frame, rates = _Search.of(law).cheapest()
    if mass < _free_mass(matrix, vector):
        return Envelope(law, frame, tuple(rates.tolist()))
    return Envelope(law, free, ())


@dataclass(frozen=True, slots=True)
class _Search:
    """Signs of the mode's largest coordinates, and the widest of the rest as W, in all sizes.

    The least masses of neighbouring sizes are near one another, so the search descends from a few
    of them: it looks at 11 of 78 frames at d = 12, and its mean mass is 1.003 times the least.
    """

    law: GaussianBall
    mode: Floats
    order: Sequence[int]
    known: dict[tuple[int, int], tuple[float, Frame, Floats]]

    @classmethod
    def of(cls, law: GaussianBall) -> _Search:
        """Return the search for a law, with the coordinates in the order of the mode's sizes."""
        matrix, vector = law.floats
        mode = Quadratic(matrix, -vector, float(law.bound), exact=False).minimise().theta
        return cls(law, mode, [int(j) for j in np.argsort(-np.abs(mode))], {})

    def cheapest(self) -> tuple[float, Frame, Floats]:
        """Return a frame that no neighbour is cheaper than, its log mass and its rates."""
        size = self.law.dimension
        half = (size + 1) // 2
        begin = ((1, 0), (1, size - 1), (half, 0), (half, size // 2), (size, 0))
        place = min(begin, key=self._mass)
        while True:
            count, width = place
            near = (
                place,
                *((count + more, width) for more in (1, -1)),
                *((count, width + more) for more in (1, -1)),
                *((count + more, width - more) for more in (1, -1)),
            )
            best = min(near, key=self._mass)
            if best == place:
                return self.known[place]
            place = best

    def _mass(self, place: tuple[int, int]) -> float:
        count, width = place
        if count < 1 or width < 0 or count + width > self.law.dimension:
            return math.inf
        if place not in self.known:
            frame = self._frame(count, width)
            try:
                mass, rates = _least_mass(self.law, frame)
            except np.linalg.LinAlgError:  # a hint out of the floats' reach
                mass, rates = math.inf, np.zeros(0)
            self.known[place] = (math.inf if math.isnan(mass) else mass), frame, rates
        return self.known[place][0]

    def _frame(self, count: int, width: int) -> Frame:
        """Return the frame with so many signs, and so many other coordinates in W."""
        signed, matrix = self.order[:count], self.law.floats[0]
        rest = sorted(self.order[count:], key=lambda j: float(matrix[j, j]))
        signs = [0] * self.law.dimension
        for j in signed:
            signs[j] = 1 if self.mode[j] >= 0 else -1
        return Frame(
            signs=tuple(signs),
            pivot=signed[0],
            wide=tuple(rest[:width]),
            others=(*signed[1:], *rest[width:]),
        )


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
        if gain < _ENOUGH:
            break
    return point, best


# Exact draws from a Gaussian shape truncated to an l1 ball

_RATE_BITS = 60  # signs get dyadic odds, one word each
_NORMAL_SLACK = 2.0**-20  # granted to normals made in floats, whose log and cosine are not proved
_FLOAT_SLACK = 2.0**-36  # of sums and products in floats, far above their true error


@dataclass(frozen=True, kw_only=True)
class GaussianBall:
    """The law: P as d rows of d Fractions, b, and the bound B. All of it may be private."""

    matrix: tuple[tuple[Fraction, ...], ...]
    vector: tuple[Fraction, ...]
    bound: Fraction

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self.vector)

    @once
    def floats(self) -> tuple[Floats, Floats]:
        """Return P and b as floats: hints only."""
        matrix = np.array([[float(entry) for entry in row] for row in self.matrix])
        return matrix, np.array([float(entry) for entry in self.vector])


@dataclass(frozen=True, slots=True)
class Frame:
    """Which coordinates are which: pivot with sign s_p, other signs, W, and v. No pivot: free."""

    signs: tuple[int, ...]
    pivot: int | None
    wide: tuple[int, ...]
    others: tuple[int, ...]

    def map(self) -> NDArray[np.int64]:
        """Return the integer matrix T of theta = base + T (z, v)."""
        size = len(self.signs)
        columns = ([self.pivot] if self.pivot is not None else []) + [*self.wide, *self.others]
        matrix = np.zeros((size, size), dtype=np.int64)
        for place, row in enumerate(columns):
            matrix[row, place] = 1
        if self.pivot is not None:
            sign = self.signs[self.pivot]
            matrix[self.pivot, 0] = -sign
            for place, row in enumerate(self.others, start=1 + len(self.wide)):
                matrix[self.pivot, place] = -sign * self.signs[row]
        return matrix

    @property
    def slow(self) -> int:
        """Return the length of z."""
        return 0 if self.pivot is None else 1 + len(self.wide)


@dataclass(frozen=True)
class Envelope:
    """One envelope, a :class:`~mechanisms.samplers.affine.cube.Route`: exact, whatever the hints.

    ``hints`` are the rates a, as floats.
    """

    law: GaussianBall
    frame: Frame
    hints: tuple[float, ...]
    _balls: dict[int, _Balls] = field(default_factory=dict, repr=False, compare=False)
    name = "gaussian"
    log_mass = 0.0

    @property
    def choices(self) -> int:
        """Return how many signs are drawn: one for each coordinate of W."""
        return len(self.frame.wide)

    @property
    def uniforms(self) -> int:
        """Return how many uniforms: one per entry of z, two per pair of entries of v."""
        return self.frame.slow + 2 * ((len(self.frame.others) + 1) // 2)

    @once
    def guard_bits(self) -> int:
        """Return how many bits the products may cancel; a hint."""
        largest = max(abs(entry) for row in self.law.matrix for entry in row)
        least: Fraction = min(
            [to_fraction(pivot) for pivot in self.exact.pivots], default=Fraction(1)
        )
        spread = largest / least * (self.law.bound + 1)
        return int(spread).bit_length() + 4 * self.law.dimension + 16

    @once
    def exact(self) -> _Exact:
        """Return everything rational."""
        return _exact(self.law, self.frame, self.hints)

    @once
    def shadow(self) -> _Shadow:
        """Return the rational parts as floats."""
        return _shadow(self.exact)

    def screen(self, choices: Words, uniforms: Floats) -> Floats:
        """Return per row an upper bound on the log ratio; -inf where surely outside the ball."""
        shadow, slow = self.shadow, self.frame.slow
        draws = -np.log(uniforms[:, :slow])
        z, slack_z = self._slow_floats(choices, draws)
        normal = _normals(uniforms[:, slow:])[:, : len(self.frame.others)]
        theta = shadow.offset + z @ shadow.slow.T + normal @ shadow.fast.T
        # How far each coordinate of theta may be off: only a try that is surely outside is dropped.
        slack = (_NORMAL_SLACK * (np.abs(normal) + 1)) @ np.abs(shadow.fast).T
        slack += slack_z @ np.abs(shadow.slow).T + _FLOAT_SLACK * np.abs(shadow.offset)
        away = z - shadow.start
        # The quadratic form at the float point, then the most that its errors can add.
        near = np.maximum(np.abs(away) - slack_z - _FLOAT_SLACK * np.abs(shadow.start), 0)
        ceiling = -0.5 * np.einsum("ij,jk,ik->i", away, shadow.schur, away)
        reach = np.abs(away) + slack_z + _FLOAT_SLACK * np.abs(shadow.start)
        error, size = reach - near, np.abs(shadow.schur)
        ceiling += np.einsum("ij,jk,ik->i", error + _FLOAT_SLACK * reach, size, reach)
        outside = (np.abs(theta) - slack).sum(axis=1) > shadow.bound * (1 + _FLOAT_SLACK)
        # The true ratio is never above 1, so a looser ceiling says no more.
        return np.where(outside, -np.inf, np.minimum(ceiling, 0.0))

    def _slow_floats(self, choices: Words, draws: Floats) -> tuple[Floats, Floats]:
        """Return z and a bound on its float error, row by row."""
        shadow = self.shadow
        if not self.frame.slow:
            return draws, draws
        sizes = draws[:, 1:]
        positive = choices < shadow.thresholds
        signed = np.where(positive, sizes / shadow.above, -sizes / shadow.below)
        slow = draws[:, :1] / shadow.rate + np.abs(signed).sum(axis=1, keepdims=True)
        z = np.concatenate([slow, signed], axis=1)
        unit = 1 / np.minimum(shadow.above, shadow.below)
        errors = np.concatenate([[1 / shadow.rate + unit.sum()], unit])
        return z, _FLOAT_SLACK * (np.abs(z) + errors)

    def verdict(self, choices: Sequence[int], uniforms: Sequence[arb], bits: int) -> Verdict | None:
        """Return the try in balls: theta, the room left in the ball, the log ratio."""
        exact, slow = self.exact, self.frame.slow
        # Many tries are decided at the same few precisions.
        balls = self._balls.get(bits)
        if balls is None:
            balls = self._balls[bits] = _Balls.of(exact)
        z = self._slow_balls(choices, [-uniform.log() for uniform in uniforms[:slow]], balls)
        normal = _normal_balls(uniforms[slow:])[: len(self.frame.others)]
        theta = [
            offset + dot(first, z) + dot(second, normal)
            for offset, first, second in zip(balls.offset, balls.slow, balls.fast, strict=True)
        ]
        away = [x - x0 for x, x0 in zip(z, balls.start, strict=True)]
        images = [dot(row, away) for row in balls.schur]
        form = dot(away, images)
        room = balls.bound - norm_one(theta)
        return Verdict(theta=theta, conditions=[room], log_ratio=-form / 2)

    def _slow_balls(self, choices: Sequence[int], draws: list[arb], balls: _Balls) -> list[arb]:
        if not draws:
            return []
        signed = [
            size / above if word < threshold else -size / below
            for word, threshold, size, above, below in zip(
                choices, self.exact.thresholds, draws[1:], balls.above, balls.below, strict=True
            )
        ]
        return [draws[0] / balls.rate + norm_one(signed), *signed]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exact:
    """theta = offset + slow z + (fast D^-1/2) xi, with xi standard normal; all entries rational."""

    offset: list[fmpq]
    slow: list[list[fmpq]]
    fast: list[list[fmpq]]
    pivots: list[fmpq]
    schur: list[list[fmpq]]
    start: list[fmpq]
    rate: fmpq
    above: list[fmpq]
    below: list[fmpq]
    thresholds: list[int]
    bound: fmpq


def _exact(law: GaussianBall, frame: Frame, hints: Sequence[float]) -> _Exact:
    size, slow = law.dimension, frame.slow
    matrix = fmpq_matrix(law.matrix)
    change = fmpq_mat([[fmpq(int(entry)) for entry in row] for row in frame.map()])
    base = fmpq_mat(size, 1)
    if frame.pivot is not None:
        base[frame.pivot, 0] = frame.signs[frame.pivot] * to_fmpq(law.bound)
    vector = fmpq_mat([[to_fmpq(entry)] for entry in law.vector])
    # P and b in the coordinates (z, v), the pull of the base point taken off.
    turned = change.transpose() * matrix * change
    pull = change.transpose() * (vector - matrix * base)
    fast = _block(turned, slow, size, slow, size)
    unit_inverse, pivots = _unit_factor(fast)
    inverse = fast.inv() if pivots else fast
    cross = _block(turned, slow, size, 0, slow)
    pull_fast, pull_slow = _block(pull, slow, size, 0, 1), _block(pull, 0, slow, 0, 1)
    to_fast = _block(change, 0, size, slow, size)
    schur = _block(turned, 0, slow, 0, slow)
    beta, along, offset = pull_slow, _block(change, 0, size, 0, slow), base
    # v's own mean moves with z: complete the square, and S is what is left for z.
    if pivots:
        offset = base + to_fast * (inverse * pull_fast)
        if slow:
            schur -= cross.transpose() * inverse * cross
            beta = pull_slow - cross.transpose() * (inverse * pull_fast)
            along -= to_fast * (inverse * cross)
    rate, odds = _rates(hints)
    half = 1 << (_RATE_BITS - 1)
    tilts = [rate * fmpq(odd, half) for odd in odds]
    # z0 is where the tangent has the slopes that were chosen: S z0 = a + beta.
    start = _entries(schur.solve(fmpq_mat([[rate], *([t] for t in tilts)]) + beta)) if slow else []
    return _Exact(
        offset=_entries(offset),
        slow=_rows(along),
        fast=_rows(to_fast * unit_inverse.transpose() if pivots else to_fast),
        pivots=pivots,
        schur=_rows(schur),
        start=start,
        rate=rate,
        above=[rate + tilt for tilt in tilts],
        below=[rate - tilt for tilt in tilts],
        # Above zero the rate is a_r + a_j, so that side has the share (a_r - a_j) / (2 a_r).
        thresholds=[(half - odd) << (64 - _RATE_BITS) for odd in odds],
        bound=to_fmpq(law.bound),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Balls:
    """The exact parts at one working precision; ``fast`` holds the roots of D as well."""

    offset: list[arb]
    slow: list[list[arb]]
    fast: list[list[arb]]
    schur: list[list[arb]]
    start: list[arb]
    rate: arb
    above: list[arb]
    below: list[arb]
    bound: arb

    @classmethod
    def of(cls, exact: _Exact) -> _Balls:
        roots = [1 / arb(pivot).sqrt() for pivot in exact.pivots]
        return cls(
            offset=[arb(x) for x in exact.offset],
            slow=[[arb(x) for x in row] for row in exact.slow],
            fast=[
                [arb(x) * root for x, root in zip(row, roots, strict=True)] for row in exact.fast
            ],
            schur=[[arb(x) for x in row] for row in exact.schur],
            start=[arb(x) for x in exact.start],
            rate=arb(exact.rate),
            above=[arb(x) for x in exact.above],
            below=[arb(x) for x in exact.below],
            bound=arb(exact.bound),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shadow:
    """The exact parts as floats, each off by a unit in the last place or two."""

    offset: Floats
    slow: Floats
    fast: Floats
    schur: Floats
    start: Floats
    rate: float
    above: Floats
    below: Floats
    thresholds: Words
    bound: float


def _shadow(exact: _Exact) -> _Shadow:
    size = len(exact.offset)
    roots = np.sqrt([_float(pivot) for pivot in exact.pivots])
    return _Shadow(
        offset=_array([exact.offset])[0],
        slow=_array(exact.slow).reshape(size, -1),
        fast=_array(exact.fast).reshape(size, -1) / roots,
        schur=_array(exact.schur).reshape(len(exact.start), len(exact.start)),
        start=_array([exact.start])[0],
        rate=_float(exact.rate),
        above=_array([exact.above])[0],
        below=_array([exact.below])[0],
        thresholds=np.array(exact.thresholds, dtype=np.uint64),
        bound=_float(exact.bound),
    )


def _rates(hints: Sequence[float]) -> tuple[fmpq, list[int]]:
    """Return a_r, and a_j in units of a_r / 2**59, strictly between -1 and 1 times it."""
    if not hints:
        return fmpq(1), []
    half = 1 << (_RATE_BITS - 1)
    odds = [round(hint / hints[0] * half) for hint in hints[1:]]
    # A rate of 0 would be no exponential: each stays one unit away.
    return to_fmpq(Fraction(hints[0])), [min(max(odd, 1 - half), half - 1) for odd in odds]


def _unit_factor(matrix: fmpq_mat) -> tuple[fmpq_mat, list[fmpq]]:
    """Return U^-1 and D of matrix = U D U', U lower triangular with unit diagonal."""
    size = matrix.nrows()
    rest, inverse, pivots = (
        _rows(matrix),
        [[fmpq(i == j) for j in range(size)] for i in range(size)],
        [],
    )
    # Elimination without pivoting: a positive definite matrix has positive pivots.
    for k in range(size):
        pivots.append(rest[k][k])
        for i in range(k + 1, size):
            times = rest[i][k] / pivots[k]
            for j in range(k + 1, size):
                rest[i][j] -= times * rest[k][j]
            for j in range(k + 1):
                inverse[i][j] -= times * inverse[k][j]
    return fmpq_mat(size, size, [entry for row in inverse for entry in row]), pivots


def _block(matrix: fmpq_mat, top: int, bottom: int, left: int, right: int) -> fmpq_mat:
    entries = [matrix[i, j] for i in range(top, bottom) for j in range(left, right)]
    return fmpq_mat(bottom - top, right - left, entries)


def _rows(matrix: fmpq_mat) -> list[list[fmpq]]:
    return [[matrix[i, j] for j in range(matrix.ncols())] for i in range(matrix.nrows())]


def _entries(matrix: fmpq_mat) -> list[fmpq]:
    return [entry for row in _rows(matrix) for entry in row]


def _normals(uniforms: Floats) -> Floats:
    """Return standard normals, a column each, from pairs of uniform columns (Box and Muller)."""
    lengths = np.sqrt(-2 * np.log(uniforms[:, 0::2]))
    angles = 2 * np.pi * uniforms[:, 1::2]
    return np.concatenate([lengths * np.cos(angles), lengths * np.sin(angles)], axis=1)


def _normal_balls(uniforms: Sequence[arb]) -> list[arb]:
    """Return the same normals in balls."""
    pairs = list(zip(uniforms[0::2], uniforms[1::2], strict=True))
    lengths = [(-2 * length.log()).sqrt() for length, _ in pairs]
    waves = [(2 * angle).sin_cos_pi() for _, angle in pairs]
    cosines = [length * wave[1] for length, wave in zip(lengths, waves, strict=True)]
    return cosines + [length * wave[0] for length, wave in zip(lengths, waves, strict=True)]


def _array(rows: Sequence[Sequence[fmpq]]) -> Floats:
    return np.array([[_float(entry) for entry in row] for row in rows], dtype=np.float64)


def _float(value: fmpq) -> float:
    return float(to_fraction(value))
