"""The published regressions by name, and the epsilon that each keeps where a row is replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from studies.peers.published import moments, promises, resampled, scaled
from studies.peers.published.fits import Asked, Fit

DELTA = 1e-6
"""The middle one of the three below 1 that were tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way to draw a regression, with its guarantee.

    ``keeps`` gives the epsilon that holds at ``delta``, where it is not the one asked for. No more
    than ``most`` may be asked for.
    """

    name: str
    draw: Callable[[Asked, np.random.Generator], dict[str, Fit]]
    promise: str
    delta: float = 0.0
    keeps: Callable[[Asked], float] = lambda asked: asked.epsilon
    most: float = 100.0


def _wishart_keeps(asked: Asked) -> float:
    size = len(asked.bounds) + 1
    held = scaled.degrees(asked.epsilon, asked.delta, size)
    return promises.wishart_epsilon(asked.delta, held, size)


def _normal_keeps(asked: Asked) -> float:
    shift = scaled.furthest(len(asked.bounds) + 1) / scaled.normal_scale(asked)
    return promises.epsilon_of(lambda epsilon: promises.gaussian_delta(epsilon, shift), asked.delta)


def _samples_keep(asked: Asked) -> float:
    shift = resampled.shift(asked.epsilon, asked.delta)

    def spent(epsilon: float) -> float:
        return promises.resampled_delta(epsilon, shift, len(asked.rows), resampled.SAMPLES)

    return promises.epsilon_of(spent, asked.delta)


METHODS = (
    Method(
        name="noisy moments",
        draw=moments.by_laplace,
        promise="holds for real numbers",
    ),
    Method(
        name="analytic Gaussian",
        draw=moments.by_gaussian,
        promise="holds for real numbers; no less normal noise would do",
        delta=DELTA,
    ),
    Method(
        name="Wishart",
        draw=scaled.by_wishart,
        promise="more than holds for real numbers: the proof is loose, and ends at epsilon 1",
        delta=DELTA,
        keeps=_wishart_keeps,
        most=1.0,
    ),
    Method(
        name="Brawner-Honaker",
        draw=resampled.by_samples,
        promise="false of one sample at a large epsilon, as a row may be drawn often; holds of all "
        "together, which keep a smaller epsilon, as shares of epsilon and delta are added up",
        delta=DELTA,
        keeps=_samples_keep,
    ),
    Method(
        name="Wang-Kifer-Lee",
        draw=scaled.by_sphere,
        promise="holds for real numbers",
    ),
    Method(
        name="Wang-Kifer-Lee, normal noise",
        draw=scaled.by_normal,
        promise="more than holds for real numbers: the way from concentrated privacy is loose",
        delta=DELTA,
        keeps=_normal_keeps,
    ),
)
