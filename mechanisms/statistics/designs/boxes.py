"""What regressions drawn on boxes share: their public limits, and their records as integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from mechanisms.contract import Data, InvalidStatisticError
from mechanisms.domain import CODE_MAX, Schema
from mechanisms.objectives.check_loss import Records
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.designs.grids import grid_bits
from mechanisms.statistics.designs.rows import scaled_codes
from mechanisms.statistics.designs.scaling import RegressionScaling

MAX_DIMENSION = 4  # the number of boxes grows too fast beyond
# By the number of coefficients: more rows would take too long.
MOST_ROWS = {1: 4_000_000, 2: 2_000_000, 3: 1_000_000, 4: 200_000}

MOST_INFORMATION = 1 << 30
"""Of epsilon times rows: a law is about that much narrower than Theta, and 2**34 grid steps are
across a unit of it. Beyond, boxes would have to follow what is hardly wider than the grid."""


def require_effort(epsilon: PrivacyLoss, schema: Schema, field_name: str) -> None:
    """Raise :class:`InvalidStatisticError` where epsilon times the rows is beyond any draw's reach.

    How long a draw on boxes takes cannot be proved but for few distinct rows, which is private.
    So what is offered is bounded by public facts: rows, dimension and epsilon.
    """
    if epsilon.fraction * schema.row_bound > MOST_INFORMATION:
        raise InvalidStatisticError(
            f"an exact draw on boxes takes at most {MOST_INFORMATION:,} of epsilon times rows "
            "(or max_rows); ask with a smaller epsilon",
            field_name=field_name,
        )


def require_drawable(dimension: int, schema: Schema, epsilon: PrivacyLoss) -> None:
    """Raise :class:`InvalidStatisticError` where a draw could outlast its public limits."""
    require_effort(epsilon, schema, "features")
    if dimension > MAX_DIMENSION:
        raise InvalidStatisticError(
            f"exact draws on boxes reach at most {MAX_DIMENSION} coefficients, the intercept "
            "included; use objective_perturbation",
            field_name="features",
        )
    if schema.row_bound > MOST_ROWS[dimension]:
        raise InvalidStatisticError(
            f"with {dimension} coefficients an exact draw on boxes takes at most "
            f"{MOST_ROWS[dimension]} rows (or max_rows); use fewer features or "
            "objective_perturbation",
            field_name="features",
        )


def read_records(
    scaling: RegressionScaling, data: Data, *, bound: Fraction, spread: bool = False
) -> Records:
    """Return the scaled integer records of a regression with a number target; private."""
    columns = (*scaling.features, *((scaling.target,) if scaling.target else ()))
    blocks = [
        np.column_stack([scaled_codes(column, block[column.name]) for column in columns])
        for block in data.blocks(scaling.columns)
    ]
    rows = np.concatenate(blocks) if blocks else np.zeros((0, len(columns)), dtype=np.int64)
    x, y = rows[:, :-1], np.ascontiguousarray(rows[:, -1])
    if scaling.intercept:
        x = np.column_stack([np.full(len(rows), CODE_MAX, dtype=np.int64), x])
    bits = grid_bits(bound)
    return Records.build(
        np.ascontiguousarray(x),
        y,
        grid_bits=bits,
        radius=int(bound * (1 << bits)),
        spread=spread,
    )
