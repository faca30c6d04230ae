"""A cell of the comparison: data, a question, the answer without privacy, and the methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Json, Statistic
from mechanisms.domain import Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency

Values = NDArray[np.float64]
Table = Mapping[str, Sequence[float]]
Interval = tuple[float, float]
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE

DISTANCE = {ADD: 1, REPLACE: 2}
"""Neighbours in rows added or removed, as libraries count that know no replacing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A mechanism of ours: one that a request may name."""

    mechanism: str = "auto"
    norm: str = "auto"
    draws: int = 10_000

    @property
    def name(self) -> str:
        """Return the name of its row."""
        if self.mechanism == "auto":
            return "ours"
        return f"ours, {self.mechanism}" + ("" if self.norm == "auto" else f" {self.norm}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a peer: its settings, and the epsilon that it truly guarantees.

    ``true`` is None where the peer guarantees no epsilon. ``promise`` says why it differs from the
    stated one. ``remark`` says why our error or our time is larger, where it is.
    """

    peer: str
    settings: Mapping[str, object] = field(default_factory=dict)
    label: str = ""
    stated: float
    true: float | None
    promise: str = "holds"
    remark: str = ""
    draws: int = 5_000

    @property
    def name(self) -> str:
        """Return the name of its row."""
        return f"{self.peer}, {self.label}" if self.label else self.peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One question about one data set at one true epsilon."""

    name: str
    statistic: str
    about: str
    adjacency: Adjacency
    epsilon: str
    question: Statistic
    columns: Mapping[str, Column]
    rows: int
    values: Mapping[str, Sequence[object]]
    plain: Table
    truth: Sequence[float]
    read: Callable[[Json], list[float]]
    ours: tuple[Way, ...] = (Way(),)
    peers: tuple[Call, ...]

    @property
    def schema(self) -> Schema:
        """Return the public facts."""
        known = self.rows if self.adjacency is REPLACE else None
        return Schema(self.columns, self.adjacency, known, max_rows=self.rows)


def number(low: float, high: float) -> NumberColumn:
    """Return a number column with these bounds."""
    return NumberColumn(lower=Fraction(low), upper=Fraction(high))


UNIT = number(-1, 1)
FLAG = NumberColumn(lower=Fraction(0), upper=Fraction(1), boolean=True)


def listed(values: Values) -> list[float]:
    """Return plain numbers for JSON."""
    return [float(each) for each in values]
