"""What a curator states as typical of columns, as an assumption where nothing else is assumed."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from app.domain.columns import BooleanSpec, CategorySpec, ColumnSpec, NumberSpec
from app.domain.datasets import ColumnsSpec
from mechanisms.foresight.assumptions import Assumptions, Spread


def with_typical(assumed: Assumptions, columns: ColumnsSpec) -> Assumptions:
    """Return assumptions in which columns that are not named are as their curator states.

    That is public: it stands in the spec, and is never read off the rows.
    """
    if assumed.even:
        return assumed
    named = dict(assumed.population)
    spreads = {
        name: spread
        for name, column in columns.columns.items()
        if (spread := _spread(column)) is not None
    }
    typical = {
        name: tuple(zip(column.values, map(float, column.typical.of(column.values)), strict=True))
        for name, column in columns.columns.items()
        if isinstance(column, CategorySpec) and column.typical is not None
    }
    shares = {**typical, **dict(assumed.shares)}
    return replace(
        assumed, population=tuple({**spreads, **named}.items()), shares=tuple(shares.items())
    )


def _spread(column: ColumnSpec) -> Spread | None:
    """Return where the values of a column usually lie; a boolean's mean is the share of true."""
    match column:
        case NumberSpec() if column.typical is not None:
            return Spread(mean=float(column.typical.mean), std=float(column.typical.std))
        case BooleanSpec() if column.typical is not None:
            share = float(column.typical)
            return Spread(mean=share, std=sqrt(share * (1 - share)) or 1.0)
    return None
