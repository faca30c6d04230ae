"""Which cone the vertex route should use: the one of least mass that the floats can find.

The mean number of tries is the envelope's mass over f's integral, so masses
compare cones without a single try. Any cone whose rates are positive is valid, so
the search is free: it starts from the vertices of the path, and, when that is
not enough, tries two moves.

- *Blend* a row with a neighbouring vertex's residual, t >= (1 - tau) (+-V_q) +
  tau (+-V_r): the points between two dual vertices, for a theta_hat close to
  Theta's boundary.
- *Drop* a coordinate of N together with a row: wider along directions the data
  leave open (repeated columns).

Floats only; the vertex route certifies the winner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mechanisms.samplers.affine.path import Row, Vertex
from mechanisms.samplers.affine.posterior import Floats, Shadow

_BLENDS = tuple(numerator / 1024 for numerator in (307, 614, 819, 922, 973, 1003, 1014, 1021))

Ranked = tuple[float, Vertex]


def ranked(shadow: Shadow, vertices: Sequence[Vertex]) -> list[Ranked]:
    """Return the vertices with finite mass and their log masses, least first."""
    found = [
        (float(log_masses(shadow, vertex.support, dense(vertex.rows, shadow)[None])[0]), vertex)
        for vertex in vertices
    ]
    return sorted((pair for pair in found if np.isfinite(pair[0])), key=lambda pair: pair[0])


def improved(shadow: Shadow, vertices: Sequence[Vertex]) -> list[Ranked]:
    """Return better cones than those of the path's vertices, by blending and dropping."""
    best = ranked(shadow, [*vertices, *_blended(shadow, vertices)])
    if not best:
        return []
    trail = [best[0]]
    while True:
        dropped = _dropped(shadow, trail[-1][1])
        if dropped is None or dropped[0] >= trail[-1][0] - 0.01:
            return trail[::-1]
        trail.append(dropped)


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


def _blended(shadow: Shadow, vertices: Sequence[Vertex]) -> list[Vertex]:
    """Return, per vertex, the best blend of one of its rows with a neighbour's residual."""
    found = []
    for place, vertex in enumerate(vertices):
        around = [*vertices[max(0, place - 1) : place], *vertices[place + 1 : place + 2]]
        partners = {row for other in around for row in other.rows} - set(vertex.rows)
        choices = [
            (*vertex.rows[:q], _blend(vertex.rows[q], partner, share), *vertex.rows[q + 1 :])
            for q in range(len(vertex.rows))
            for partner in sorted(partners)
            for share in _BLENDS
        ]
        if choices:
            stack = np.array([dense(rows, shadow) for rows in choices])
            least = int(np.argmin(log_masses(shadow, vertex.support, stack)))
            found.append(Vertex(support=vertex.support, rows=choices[least]))
    return found


def _blend(one: Row, two: Row, share: float) -> Row:
    """Return (1 - share) one + share two; exact, as shares are multiples of 1/1024."""
    weights = {column: (1 - share) * weight for column, weight in one}
    for column, weight in two:
        weights[column] = weights.get(column, 0.0) + share * weight
    return tuple(sorted(weights.items()))


def _dropped(shadow: Shadow, vertex: Vertex) -> Ranked | None:
    """Return the best cone with one coordinate of N and one row less."""
    best: Ranked | None = None
    if len(vertex.support) == 1:
        return None
    choices = [(*vertex.rows[:row], *vertex.rows[row + 1 :]) for row in range(len(vertex.rows))]
    stack = np.array([dense(rows, shadow) for rows in choices])
    for place in range(len(vertex.support)):
        support = (*vertex.support[:place], *vertex.support[place + 1 :])
        masses = log_masses(shadow, support, stack)
        least = int(np.argmin(masses))
        if np.isfinite(masses[least]) and (best is None or masses[least] < best[0]):
            best = (float(masses[least]), Vertex(support=support, rows=choices[least]))
    return best
