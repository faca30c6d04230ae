"""OpenDP's ``extras.mbi``: margins of tables and synthetic rows of a graphical model.

``mst`` and ``aim`` choose the margins that they measure; ``fixed`` measures all two-way margins,
each with noise of its own, and fits the model to them, as Private-PGM does. A record more or less
is hidden, by epsilon or by rho of zero-concentrated privacy.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib", "honest-but-curious")

Draw = Callable[[], list[float]]
_TRIES, _LESS = 64, 1e-6


def _filled(cells: list[int | None]) -> list[int]:
    """Return cells with others of the column in place of missing ones.

    OpenDP adds a cell for missing values to each column, and noise puts rows in it.
    """
    known = [cell for cell in cells if cell is not None] or [0]
    return [random.choice(known) if cell is None else cell for cell in cells]  # noqa: S311


def make(statistic: str, data: dict[str, list[float]], settings: dict[str, Any]) -> Draw:
    """Return a function that draws ``rows`` or all two-way ``margins``, as one list of numbers."""
    names = list(data)
    table = pl.DataFrame({name: np.array(cells, dtype=np.int64) for name, cells in data.items()})
    pairs = list(combinations(names, 2))
    queries = [dp.mbi.Count(by=pair) for pair in pairs]
    algorithms = {
        "mst": dp.mbi.MST(),
        "aim": dp.mbi.AIM(queries=queries),
        "fixed": dp.mbi.Fixed(queries=queries),
    }
    algorithm = algorithms[settings["algorithm"]]
    keys = {name: list(range(size)) for name, size in settings["sizes"].items()}

    def released(amount: float) -> Any:
        context = dp.Context.compositor(
            data=table.lazy(),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(**{settings["measure"]: amount}),
            split_evenly_over=1,
        )
        query = context.query().select(*names)
        return query.contingency_table(keys=keys, algorithm=algorithm).release()

    def model() -> Any:
        # OpenDP splits the amount in floats, and refuses where the parts are more by one bit
        for tried in range(_TRIES):
            try:
                return released(settings["amount"] * (1 - _LESS * tried))
            except dp.OpenDPException as error:
                if "insufficient budget" not in str(error):
                    # AIM of few columns searches for a scale and tries a negative one
                    raise ValueError("OpenDP failed") from error
        raise ValueError("OpenDP refused every amount")

    def rows() -> list[float]:
        # with its default, "round", columns follow one another's order: "sample" favours the peer
        made = model().synthesize(settings["rows"], method="sample").select(names)
        filled = [_filled(made[name].to_list()) for name in names]
        return [float(cell) for row in zip(*filled, strict=True) for cell in row]

    def margins() -> list[float]:
        fitted = model()
        found = [np.asarray(fitted.project(pair)) for pair in pairs]
        kept = [
            table[: len(keys[one]), : len(keys[other])]
            for table, (one, other) in zip(found, pairs, strict=True)
        ]
        return [float(cell) for table in kept for cell in table.ravel()]

    return {"rows": rows, "margins": margins}[statistic]
