"""Which cone the vertex route should use: the one of least mass that the floats can find.

The mean number of tries is the envelope's mass over f's integral, so masses
compare cones without a single try. Any cone whose rates are positive is valid, so
the search is free: it starts from the vertices of the path, and, when that is
not enough, descends by four moves.

- *Blend* a row with a residual, t >= (1 - tau) omega'V + tau (+-V_r): points
  between two dual vertices, for a theta_hat close to Theta's boundary.
- *Shrink* a row, t >= tau omega'V: for a theta_hat within Theta, where V takes
  both signs.
- *Drop* a coordinate of N together with a row: wider along directions the data
  leave open (repeated columns).
- *Add* a signed coordinate to N together with a signed residual.

Floats only; the vertex route certifies the winner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mechanisms.samplers.affine.path import Row, Vertex
from mechanisms.samplers.affine.posterior import Floats, Shadow

_BLENDS = (0.1, 0.3, 0.6, 0.8, 0.9, 0.97, 0.997)
_STARTS = 3
_MOST_MOVES = 40
_LEAST_GAIN = 0.05
_UNIT = 2.0**40
_SHRINK = _UNIT * (1 - 2.0**-30)

Ranked = tuple[float, Vertex]


def ranked(shadow: Shadow, vertices: Sequence[Vertex]) -> list[Ranked]:
    """Return the vertices with finite mass and their log masses, least first."""
    found = [
        (float(log_masses(shadow, vertex.support, dense(vertex.rows, shadow)[None])[0]), vertex)
        for vertex in vertices
    ]
    return sorted((pair for pair in found if np.isfinite(pair[0])), key=lambda pair: pair[0])


def improved(shadow: Shadow, vertices: Sequence[Vertex]) -> list[Ranked]:
    """Return better cones than those of the path's vertices, the best first."""
    starts = ranked(shadow, vertices)
    starts += [pair for vertex in vertices if (pair := _shrunk(shadow, vertex)) is not None]
    starts.sort(key=lambda pair: pair[0])
    found = [_descended(shadow, start) for start in starts[:_STARTS]]
    return sorted(found, key=lambda pair: pair[0])


def _descended(shadow: Shadow, start: Ranked) -> Ranked:
    """Return where the best moves lead from a cone."""
    reached = start
    for _ in range(_MOST_MOVES):
        moves = [move(shadow, reached[1]) for move in (_blended, _shrunk, _dropped, _added)]
        best = min((pair for pair in moves if pair), key=lambda pair: pair[0], default=None)
        if best is None or best[0] >= reached[0] - _LEAST_GAIN:
            break
        reached = best
    return reached


def dense(rows: Sequence[Row], shadow: Shadow) -> Floats:
    """Return sparse rows as an array with d columns."""
    matrix = np.zeros((len(rows), len(shadow.vector)))
    for place, row in enumerate(rows):
        for column, weight in row:
            matrix[place, column] = weight
    return matrix


def log_masses(shadow: Shadow, support: Sequence[tuple[int, int]], rows: Floats) -> Floats:
    """Return the log mass of each of K cones with the same N: rows is (K, |N|, d).

    The formula of :mod:`mechanisms.samplers.affine.vertex` without eta; inf
    where a rate is not positive.
    """
    stack, count, size = rows.shape
    inside = [place for place, _ in support]
    outside = [place for place in range(size) if place not in inside]
    slopes = rows @ shadow.matrix
    system = np.zeros((stack, count + 1, count + 1))
    system[:, :count, :count] = -slopes[:, :, inside]
    system[:, :count, count] = 1.0
    system[:, count, :count] = [sign for _, sign in support]
    _, log_determinant = np.linalg.slogdet(system)
    usable = np.isfinite(log_determinant)
    system[~usable] = np.eye(count + 1)
    dual = np.linalg.inv(system)[:, count, :]
    rates, price = dual[:, :count], -dual[:, count]
    cross = np.einsum("kr,krj->kj", rates, slopes[:, :, outside])
    start = -np.einsum("kr,kr->k", rates, rows @ shadow.vector) - price * shadow.bound
    c = shadow.floor_rate
    reduced = price - shadow.power * np.log1p(shadow.bound) / (c * shadow.bound)
    plus, minus = price[:, None] + cross, price[:, None] - cross
    everything = np.hstack([rates, reduced[:, None], plus, minus])
    usable &= (everything > 0).all(axis=1)
    with np.errstate(all="ignore"):
        masses = -log_determinant - c * start - size * np.log(c)
        masses -= np.log(rates).sum(axis=1) + np.log(reduced)
        masses += np.log(1 / plus + 1 / minus).sum(axis=1)
    masses -= shadow.power * np.log1p(shadow.bound)
    return np.where(usable & np.isfinite(masses), masses, np.inf)


def _blended(shadow: Shadow, vertex: Vertex) -> Ranked | None:
    """Return the best blend of one of the rows with a signed residual."""
    residuals = _signed(len(shadow.vector))
    choices = [
        (*vertex.rows[:q], _blend(row, residual, share), *vertex.rows[q + 1 :])
        for q, row in enumerate(vertex.rows)
        for residual in residuals
        for share in _BLENDS
    ]
    return _best(shadow, vertex.support, choices)


def _shrunk(shadow: Shadow, vertex: Vertex) -> Ranked | None:
    """Return the best cone with one of the rows scaled down."""
    choices = [
        (*vertex.rows[:q], _blend(row, (), share), *vertex.rows[q + 1 :])
        for q, row in enumerate(vertex.rows)
        for share in _BLENDS
    ]
    return _best(shadow, vertex.support, choices)


def _dropped(shadow: Shadow, vertex: Vertex) -> Ranked | None:
    """Return the best cone with one coordinate of N and one row less."""
    if len(vertex.support) == 1:
        return None
    choices = [(*vertex.rows[:row], *vertex.rows[row + 1 :]) for row in range(len(vertex.rows))]
    found = [
        _best(shadow, (*vertex.support[:place], *vertex.support[place + 1 :]), choices)
        for place in range(len(vertex.support))
    ]
    return min((pair for pair in found if pair), key=lambda pair: pair[0], default=None)


def _added(shadow: Shadow, vertex: Vertex) -> Ranked | None:
    """Return the best cone with one signed coordinate and one signed residual more."""
    size = len(shadow.vector)
    inside = {place for place, _ in vertex.support}
    choices = [(*vertex.rows, residual) for residual in _signed(size)]
    found = [
        _best(shadow, (*vertex.support, (place, sign)), choices)
        for place in range(size)
        for sign in (1, -1)
        if place not in inside
    ]
    return min((pair for pair in found if pair), key=lambda pair: pair[0], default=None)


def _best(
    shadow: Shadow, support: tuple[tuple[int, int], ...], choices: Sequence[tuple[Row, ...]]
) -> Ranked | None:
    """Return the rows of least mass, if any is finite."""
    stack = np.array([dense(rows, shadow) for rows in choices])
    masses = log_masses(shadow, support, stack)
    least = int(np.argmin(masses))
    if not np.isfinite(masses[least]):
        return None
    return float(masses[least]), Vertex(support=support, rows=choices[least])


def _signed(size: int) -> list[Row]:
    """Return the 2 d signed residuals."""
    return [((place, sign),) for place in range(size) for sign in (1.0, -1.0)]


def _blend(one: Row, two: Row, share: float) -> Row:
    """Return (1 - share) one + share two, rounded towards zero so that the sizes sum below 1."""
    weights = {column: (1 - share) * weight for column, weight in one}
    for column, weight in two:
        weights[column] = weights.get(column, 0.0) + share * weight
    rounded = {column: math.trunc(weight * _SHRINK) / _UNIT for column, weight in weights.items()}
    return tuple(sorted(rounded.items()))
