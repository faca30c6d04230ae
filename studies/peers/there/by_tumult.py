"""Tumult Core: its noise mechanisms and its quantile, without a Spark session.

Its aggregations read Spark tables, so sums are made here by numpy, in whole numbers or floats, and
the peer adds its noise to them.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from tmlt.core.domains.numpy_domains import NumpyFloatDomain
from tmlt.core.domains.pandas_domains import PandasSeriesDomain
from tmlt.core.measurements.noise_mechanisms import AddGeometricNoise, AddLaplaceNoise
from tmlt.core.measurements.pandas_measurements.series import NoisyQuantile
from tmlt.core.measures import PureDP

Draw = Callable[[], list[float]]
Data = dict[str, list[float]]
Settings = dict[str, Any]


def make(statistic: str, data: Data, settings: Settings) -> Draw:
    """Return a function that draws a statistic once."""
    return MAKERS[statistic](data, settings)


def _laplace(scale: Fraction) -> AddLaplaceNoise:
    return AddLaplaceNoise(NumpyFloatDomain(), f"{scale.numerator}/{scale.denominator}")


def _sum(data: Data, settings: Settings) -> Draw:
    low, high = settings["bounds"]
    reach = max(abs(Fraction(low)), abs(Fraction(high))) if settings["distance"] == 1 else None
    width = Fraction(high) - Fraction(low) if reach is None else reach
    noise, x = _laplace(width / Fraction(settings["epsilon"])), np.array(data["x"])
    return lambda: [noise(float(np.clip(x, low, high).sum()))]


def _mean(data: Data, settings: Settings) -> Draw:
    low, high = settings["bounds"]
    columns = [np.array(each) for each in data.values()]
    width = (Fraction(high) - Fraction(low)) / len(columns[0])
    noise = _laplace(width * len(columns) / Fraction(settings["epsilon"]))
    return lambda: [noise(float(np.clip(each, low, high).mean())) for each in columns]


def _histogram(data: Data, settings: Settings) -> Draw:
    scale = Fraction(settings["distance"]) / Fraction(settings["epsilon"])
    noise = AddGeometricNoise(f"{scale.numerator}/{scale.denominator}")
    cells, x = settings["cells"], np.array(data["cell"], dtype=np.int64)
    return lambda: [noise(each) for each in np.bincount(x, minlength=cells)]


def _quantile(data: Data, settings: Settings) -> Draw:
    low, high = settings["bounds"]
    levels = settings["levels"]
    share = Fraction(settings["epsilon"]) / len(levels) / settings["distance"]
    measures = [
        NoisyQuantile(
            PandasSeriesDomain(NumpyFloatDomain()),
            PureDP(),
            level,
            low,
            high,
            f"{share.numerator}/{share.denominator}",
        )
        for level in levels
    ]
    x = pd.Series(data["x"])
    return lambda: [measure(x) for measure in measures]


MAKERS: dict[str, Callable[[Data, Settings], Draw]] = {
    "sum": _sum,
    "mean": _mean,
    "histogram": _histogram,
    "quantile": _quantile,
}
