"""diffprivlib: its tools and models as their documents call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from diffprivlib import models, tools

Draw = Callable[[], list[float]]
Data = dict[str, list[float]]
Settings = dict[str, Any]


def make(statistic: str, data: Data, settings: Settings) -> Draw:
    """Return a function that draws a statistic once."""
    return MAKERS[statistic](data, settings)


def _sum(data: Data, settings: Settings) -> Draw:
    x, bounds, epsilon = np.array(data["x"]), tuple(settings["bounds"]), settings["epsilon"]
    return lambda: [tools.sum(x, epsilon=epsilon, bounds=bounds)]


def _mean(data: Data, settings: Settings) -> Draw:
    table, epsilon = np.column_stack(list(data.values())), settings["epsilon"]
    bounds = tuple(settings["bounds"])
    return lambda: list(tools.mean(table, epsilon=epsilon, bounds=bounds, axis=0))


def _histogram(data: Data, settings: Settings) -> Draw:
    cells, epsilon = settings["cells"], settings["epsilon"]
    x, ends = np.array(data["cell"], dtype=np.float64), (-0.5, cells - 0.5)
    return lambda: list(tools.histogram(x, epsilon=epsilon, bins=cells, range=ends)[0])


def _quantile(data: Data, settings: Settings) -> Draw:
    x, bounds, epsilon = np.array(data["x"]), tuple(settings["bounds"]), settings["epsilon"]
    levels = settings["levels"]
    return lambda: list(np.ravel(tools.quantile(x, levels, epsilon=epsilon, bounds=bounds)))


def _linear(data: Data, settings: Settings) -> Draw:
    """With ``intercept`` as the peer draws it, else by a column of ones that counts as data."""
    features = [np.array(data[name]) for name in data if name != "y"]
    own = bool(settings["intercept"])
    table = np.column_stack(features if own else [np.ones(len(data["y"])), *features])
    y, bounds = np.array(data["y"]), tuple(settings["bounds"])

    def draw() -> list[float]:
        model = models.LinearRegression(
            epsilon=settings["epsilon"],
            bounds_X=bounds,
            bounds_y=tuple(settings["target"]),
            fit_intercept=own,
        ).fit(table, y)
        return [model.intercept_, *model.coef_] if own else list(model.coef_)

    return draw


def _logistic(data: Data, settings: Settings) -> Draw:
    """Without the peer's own intercept; a column of ones may be among the features."""
    table = np.column_stack([np.array(data[name]) for name in data if name != "y"])
    y = np.array(data["y"], dtype=int)

    def draw() -> list[float]:
        model = models.LogisticRegression(
            epsilon=settings["epsilon"],
            data_norm=settings["norm"],
            C=settings["C"],
            fit_intercept=False,
        ).fit(table, y)
        return list(model.coef_[0])

    return draw


MAKERS: dict[str, Callable[[Data, Settings], Draw]] = {
    "sum": _sum,
    "mean": _mean,
    "histogram": _histogram,
    "quantile": _quantile,
    "linear": _linear,
    "logistic": _logistic,
}
