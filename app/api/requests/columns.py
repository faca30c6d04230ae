"""The columns of a data set's spec, as they stand in a request."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.api.requests.base import Request
from app.domain.columns import MAX_CATEGORY_LENGTH, MAX_MARKERS

Marker = Annotated[str, Field(min_length=1, max_length=MAX_CATEGORY_LENGTH)] | float
Markers = Annotated[tuple[Marker, ...], Field(max_length=MAX_MARKERS)]


class _Cells(Request):
    """What every column may say of its cells."""

    na: Markers = Field(default=(), examples=[["NA", "-99"]])
    """Texts that stand for a missing cell, instead of the data set's own `na`. In a column of
    numbers they are numbers where they read as such."""
    unreadable: Literal["reject", "missing"] = Field(default="reject", examples=["missing"])
    """What to do with a cell that is not of the column's type: `reject` the file and name the rows,
    or take it as `missing`."""


class NumberSpec(_Cells):
    """A number with declared bounds; values outside are clamped."""

    type: Literal["number"]
    lower: float = Field(examples=[0])
    """The least value a cell can have, from public knowledge; smaller ones count as this one."""
    upper: float = Field(examples=[5000])
    """The largest value a cell can have, from public knowledge; larger ones count as this one."""
    missing: Literal["reject", "drop"] | float = Field(default="reject", examples=[0])
    """What to do with an empty cell: `reject` the file, `drop` the row (add_remove only), or a
    number to fill in."""


class CategorySpec(_Cells):
    """A closed list of texts."""

    type: Literal["category"]
    values: tuple[str, ...] = Field(examples=[["INLAND", "NEAR BAY", "NEAR OCEAN"]])
    """Every text that a cell may hold, each once."""
    missing: str = Field(default="reject", examples=["INLAND"])
    """What to do with an empty cell: `reject` the file, `drop` the row (add_remove only), or one of
    the values to fill in."""


class BooleanSpec(_Cells):
    """True or false; reads true, false, 1 and 0."""

    type: Literal["boolean"]
    missing: Literal["reject", "drop"] | bool = Field(default="reject", examples=[False])
    """What to do with an empty cell: `reject` the file, `drop` the row (add_remove only), or a
    value to fill in."""


ColumnSpec = Annotated[NumberSpec | CategorySpec | BooleanSpec, Field(discriminator="type")]
