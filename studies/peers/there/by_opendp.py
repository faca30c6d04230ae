"""OpenDP: its own measurements, each at the noise scale that its own privacy map asks for.

``idealized-numerics`` is switched on where a constructor demands it: OpenDP then says that its
proof is about real numbers, not about the floats that are computed with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp

dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")

Draw = Callable[[], list[float]]
Data = dict[str, list[float]]
Settings = dict[str, Any]


def make(statistic: str, data: Data, settings: Settings) -> Draw:
    """Return a function that draws a statistic once."""
    return MAKERS[statistic](data, settings)


def _numbers(settings: Settings, *, size: int | None = None) -> Any:
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    return (space, dp.symmetric_distance()) >> dp.t.then_clamp(tuple(settings["bounds"]))


def _at(chain: Callable[[float], Any], settings: Settings) -> Any:
    """Return the chain of the least noise that the privacy map allows."""
    return dp.binary_search_chain(
        chain, d_in=settings["distance"], d_out=float(settings["epsilon"]), bounds=(1e-6, 1e9)
    )


def _sum(data: Data, settings: Settings) -> Draw:
    total = _numbers(settings) >> dp.t.then_sum()
    measure = _at(lambda scale: total >> dp.m.then_laplace(scale), settings)
    x = np.array(data["x"])
    return lambda: [measure(x)]


def _mean(data: Data, settings: Settings) -> Draw:
    names = list(data)
    mean = _numbers(settings, size=len(data[names[0]])) >> dp.t.then_mean()
    shared = {**settings, "epsilon": float(settings["epsilon"]) / len(names)}
    measure = _at(lambda scale: mean >> dp.m.then_laplace(scale), shared)
    columns = [np.array(data[name]) for name in names]
    return lambda: [measure(each) for each in columns]


def _histogram(data: Data, settings: Settings) -> Draw:
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    cells = list(range(settings["cells"]))
    counts = space >> dp.t.then_count_by_categories(categories=cells, null_category=False)
    measure = _at(lambda scale: counts >> dp.m.then_laplace(scale), settings)
    x = np.array(data["cell"], dtype=np.int32)
    return lambda: list(measure(x))


def _quantile(data: Data, settings: Settings) -> Draw:
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    low, high = settings["bounds"]
    candidates = [float(each) for each in np.linspace(low, high, settings["candidates"])]
    levels = settings["levels"]
    shared = {**settings, "epsilon": float(settings["epsilon"]) / len(levels)}

    def of(level: float) -> Callable[[float], Any]:
        return lambda scale: space >> _private(candidates, level, scale)

    measures = [_at(of(level), shared) for level in levels]
    x = np.clip(np.array(data["x"]), *settings["bounds"])
    return lambda: [measure(x) for measure in measures]


def _private(candidates: list[float], level: float, scale: float) -> Any:
    return dp.m.then_private_quantile(dp.max_divergence(), candidates, level, scale)


def _linear(data: Data, settings: Settings) -> Draw:
    """Theil-Sen for one feature in [-1, 1]: all that OpenDP offers for regressions."""

    def fitted(scale: float) -> Any:
        return dp.sklearn.linear_model.LinearRegression(
            dp.max_divergence(), x_bounds=[(-1.0, 1.0)], y_bounds=(-1.0, 1.0), scale=scale
        )

    epsilon = float(settings["epsilon"])
    scale = dp.binary_search(
        lambda scale: fitted(scale).measurement.map(settings["distance"]) <= epsilon,
        bounds=(1e-3, 1e6),
    )
    model = fitted(scale)
    x, y = np.array(data["x0"])[:, None], np.array(data["y"])

    def draw() -> list[float]:
        found = model.fit(x, y)
        return [found.intercept_, *found.coef_]

    return draw


MAKERS: dict[str, Callable[[Data, Settings], Draw]] = {
    "sum": _sum,
    "mean": _mean,
    "histogram": _histogram,
    "quantile": _quantile,
    "linear": _linear,
}
