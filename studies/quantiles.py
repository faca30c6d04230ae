"""Several quantiles, jointly or one by one: by how many records do their ranks miss?

Run with ``python -m studies.quantiles``. For each set of levels and adjacency it prints the
mean error in rank over releases from 10,000 distinct records at epsilon = 1, next to
the public number in the plans, which decides the norm of "auto".
"""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import cast

import numpy as np

from mechanisms import kng
from mechanisms.domain import CODE_MAX, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.intervals import GridCodes
from mechanisms.sketches import distinct
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.ranks.draw import QuantileDraw
from mechanisms.testing import seeded_randomness

ROWS, RELEASES, SEED = 10_000, 200, 20261121
LEVELS: dict[str, tuple[float, ...]] = {
    "quartiles": (0.25, 0.5, 0.75),
    "deciles": tuple(k / 10 for k in range(1, 10)),
    "ventiles": tuple(k / 20 for k in range(1, 20)),
    "two in the middle": (0.5, 0.51),
    "both tails": (0.05, 0.95),
}


def main() -> None:
    """Print one line per set of levels, adjacency and way of drawing."""
    codes = np.random.default_rng(SEED).integers(-CODE_MAX, CODE_MAX, ROWS).astype(np.int32)
    grid = GridCodes.count(*distinct(codes), low=-CODE_MAX, high=CODE_MAX)
    write = sys.stdout.write
    write(f"{'levels':20} {'adjacency':12} {'norm':5} {'stated':>8} {'measured':>9}  auto\n")
    for name, levels in LEVELS.items():
        for adjacency in Adjacency:
            schema = Schema(
                {"x": NumberColumn(Fraction(0), Fraction(1))}, adjacency, ROWS, max_rows=ROWS
            )
            question = Quantile(column="x", levels=levels)
            chosen = kng.calibrate(question, schema, Epsilon.parse("1"), "auto").norm
            for norm in ("l1", "linf"):
                stated, measured = errors(question, schema, norm, grid)
                mark = "chosen" if norm == chosen else ""
                numbers = f"{stated:8.2f} {measured:9.2f}"
                write(f"{name:20} {adjacency:12} {norm:5} {numbers}  {mark}\n")


def errors(question: Quantile, schema: Schema, norm: str, grid: GridCodes) -> tuple[float, float]:
    """Return the mean error in rank as the plan states it, and as measured."""
    plan = kng.calibrate(question, schema, Epsilon.parse("1"), norm)
    sampler = cast(QuantileDraw, plan.draw).sampler
    randomness = seeded_randomness(SEED)
    wanted = ROWS * np.sort(question.levels)
    misses = []
    for _ in range(RELEASES):
        points = np.sort(np.asarray(sampler(grid, randomness)))
        ranks = grid.reached[np.searchsorted(grid.codes, points, side="right")]
        misses.append(np.abs(ranks - wanted).mean())
    stated = cast(list[float], plan.details["mean_rank_errors"])
    return float(np.mean(stated)), float(np.mean(misses))


if __name__ == "__main__":
    main()
