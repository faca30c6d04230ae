"""The place where a sum of unit vectors is about 0, in floats: a hint, never a fact."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mechanisms.exact.floats import Floats
from mechanisms.objectives.points.field import Field

_CELLS = 1 << 13  # enough to say where and how curved
_FLAT = 2.0**-16  # of the curvature across: points are on one line, but for their rounding
_SHARPER = 3  # times at most a hint is looked for among half as many cells
_SUMMED_UP = 4.0  # radii from it within which cells are separate
_STEPS = 4  # Newton steps at each smoothing
_NARROWER = 4.0  # each smoothing from the one before: Newton's method stays near
_APART = 3.0  # points within this many smoothing lengths do not determine the curvature
_SHORTEST = 2.0**-10  # of a smoothing length: nearer does not matter to a hint
_SHARP = 0.1  # of the noise's own width: distances are smoothed by no more


@dataclass(frozen=True, slots=True, eq=False)
class Hint:
    """A point, and about the curvature of the sum of distances there, per grid step (d x d)."""

    point: Floats
    curve: Floats

    @property
    def curvature(self) -> float:
        """Return the least curvature in any direction."""
        return float(np.linalg.eigvalsh(self.curve)[0])

    @property
    def across(self) -> float:
        """Return the second least curvature."""
        return float(np.linalg.eigvalsh(self.curve)[1])

    @property
    def flat(self) -> bool:
        """Return whether there is as good as no curvature in one direction, and some in others."""
        return not self.curvature > self.across * _FLAT and self.across > 0


def least(field: Field, speed: float) -> Hint:
    """Return about where the sum of distances is least in a field's ball.

    Distances are smoothed to ``sqrt(r^2 + e^2)``, e falling until it is far below the width of a
    law ``exp(-speed N)``.
    """
    smooth, point = max(field.radius / 2, 1.0), field.centre
    field = replace(field, near=field.near.grouped(_CELLS))
    while True:
        for _ in range(_STEPS):
            point, moved = _step(field, point, smooth)
            if moved < smooth * _SHORTEST:
                break
        _, hessian, apart = _look(field, point, smooth)
        sharp = smooth * float(np.linalg.eigvalsh(hessian)[0]) * speed <= _SHARP
        if smooth <= 1 or sharp:
            return Hint(point, apart)
        smooth = max(smooth / _NARROWER, 1.0)


def sharpened(field: Field, hint: Hint, speed: float) -> Hint:
    """Return a hint from the cells around one, where there were too many to look at each."""
    for _ in range(_SHARPER):
        if len(field.near) <= _CELLS:
            break
        away = np.sqrt(((field.near.rows().places - hint.point) ** 2).sum(axis=1))
        radius = float(np.partition(away, _CELLS // 2)[_CELLS // 2]) / _SUMMED_UP
        field = field.narrowed(hint.point, max(radius, 1.0), _SUMMED_UP)
        hint = least(field, speed)
    return hint


def less_nearest(field: Field, hint: Hint) -> Hint:
    """Return the nearest point, if it is most of the curvature at a hint, and that of all others.

    The curvature grows without bound towards a heavy point, and does not show the length of a law.
    """
    near = field.near.rows()
    if not len(near):
        return hint
    square = ((near.places - hint.point) ** 2).sum(axis=1)
    closest = int(np.argmin(square))
    own = float(near.counts[closest]) / max(float(np.sqrt(square[closest])), 1.0)
    if near.blurs[closest] or own * (len(hint.point) - 1) * 2 < float(np.trace(hint.curve)):
        return hint
    apart = np.arange(len(near)) == closest
    place = near.places[closest]
    _, _, curve = _look(replace(field, near=field.near.less(apart)), place, 1.0)
    return Hint(place, curve)


def _step(field: Field, point: Floats, smooth: float) -> tuple[Floats, float]:
    """Return the point after a damped Newton step, and how far it has moved."""
    gradient, hessian, _ = _look(field, point, smooth)
    size = float(np.sqrt(gradient @ gradient))
    ridge = 1e-12 * float(np.trace(hessian)) * np.eye(len(point)) + 1e-300 * np.eye(len(point))
    try:
        step = np.linalg.solve(hessian + ridge, gradient)
    except np.linalg.LinAlgError:
        return point, 0.0
    share = 1.0
    while share > _SHORTEST:
        found = _inside(field, point - share * step)
        there, _, _ = _look(field, found, smooth)
        # Armijo's condition: a full step may overshoot where the curvature comes from few near
        # points.
        if float(np.sqrt(there @ there)) <= (1 - share / 4) * size:
            return found, float(np.abs(found - point).max())
        share /= 2
    return point, 0.0


def _inside(field: Field, point: Floats) -> Floats:
    """Return the point, pulled back into the ball."""
    away = point - field.centre
    length = float(np.sqrt(away @ away))
    return field.centre + away * min(1.0, field.radius / max(length, 1e-300))


def _look(field: Field, point: Floats, smooth: float) -> tuple[Floats, Floats, Floats]:
    """Return gradient and Hessian of the smoothed distances, and the latter of points apart."""
    eta = (point - field.centre) / field.radius
    level = field.level + field.slope @ eta + field.bend @ eta @ eta
    far = (field.slope + 2 * field.bend @ eta) / field.radius
    away = point - field.near.places
    square = (away**2).sum(axis=1)
    distance = np.sqrt(square + smooth**2)
    weights = field.near.counts / distance
    gradient = level + weights @ away
    apart = np.where(square > (_APART * smooth) ** 2, weights, 0.0)
    curves = [_curve(each, away, distance) + far for each in (weights, apart)]
    return gradient, curves[0], curves[1]


def _curve(weights: Floats, away: Floats, distance: Floats) -> Floats:
    spread = away * (weights / distance**2)[:, None]
    return np.asarray(weights.sum() * np.eye(away.shape[1]) - spread.T @ away)
