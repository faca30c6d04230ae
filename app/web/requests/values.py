"""What every request body is, and the texts, amounts and moments that bodies hold.

The columns of a data set's spec, as they stand in a request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from app.domain.columns import (
    FALSE,
    MAX_CATEGORY_LENGTH,
    MAX_FORMAT_LENGTH,
    MAX_FORMATS,
    MAX_MARKERS,
    MAX_SPELLINGS,
    TRUE,
)
from app.domain.columns import (
    MAX_NAME_LENGTH as MAX_COLUMN_NAME_LENGTH,
)
from app.domain.datasets import MAX_SKIPPED_ROWS
from app.domain.ledger import MAX_TOTAL
from mechanisms.accounting import parse_delta
from mechanisms.privacy import MAX_EPSILON_NANOS, Epsilon, InvalidEpsilonError


class RequestBody(BaseModel):
    """A body: immutable, closed to unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )

    def prepared(self) -> Self:
        """Return this body with everything worked out that a long one takes long for."""
        return self


MAX_NAME_LENGTH = 100
MAX_TEXT_LENGTH = 2_000
SMALLEST_SHARE = Fraction(1, 100)
_SHARE = re.compile(r"^(\d{1,6}/\d{1,6}|0?\.\d{1,9})$", re.ASCII)


def refusal(message: str) -> PydanticCustomError:
    """Return a validation error in our own words."""
    return PydanticCustomError("own_words", "{message}", {"message": message})


def _read_epsilon(value: object, *, maximum_nanos: int) -> Epsilon:
    # numbers arrive here as the text they were written in, see exact_json
    if not isinstance(value, str):
        raise refusal("must be a decimal number, as text or number")
    try:
        return Epsilon.parse(value, maximum_nanos=maximum_nanos)
    except InvalidEpsilonError as error:
        raise refusal(str(error)) from None


def _epsilon_schema(maximum_nanos: int) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "title": "Epsilon",
            "description": "A positive decimal with at most 9 decimals, as text or as a number, "
            f"at most {Epsilon(maximum_nanos)}.",
            "anyOf": [
                {"type": "string", "pattern": r"^\d+(\.\d+)?([eE][+-]?\d{1,2})?$", "maxLength": 40},
                {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": maximum_nanos // 10**9,
                },
            ],
            "examples": ["0.5"],
        }
    )


ReleaseEpsilon = Annotated[
    Epsilon,
    PlainValidator(partial(_read_epsilon, maximum_nanos=MAX_EPSILON_NANOS)),
    _epsilon_schema(MAX_EPSILON_NANOS),
]
BudgetEpsilon = Annotated[
    Epsilon,
    PlainValidator(partial(_read_epsilon, maximum_nanos=MAX_TOTAL)),
    _epsilon_schema(MAX_TOTAL),
]


def _read_cap(value: object) -> Epsilon:
    if value in ("0", "0.0"):
        return Epsilon(0)
    return _read_epsilon(value, maximum_nanos=MAX_TOTAL)


CapEpsilon = Annotated[
    Epsilon,
    PlainValidator(_read_cap),
    WithJsonSchema(
        {
            "title": "Epsilon",
            "description": "A decimal with at most 9 decimals, 0 or more.",
            "anyOf": [
                {"type": "string", "pattern": r"^\d+(\.\d+)?([eE][+-]?\d{1,2})?$", "maxLength": 40},
                {"type": "number", "minimum": 0, "maximum": MAX_TOTAL // 10**9},
            ],
            "examples": ["0.5"],
        }
    ),
]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise refusal("must be printable text")
    return text


def _storable(text: str) -> str:
    if any(not (letter.isprintable() or letter in "\n\t") for letter in text):
        raise refusal("must be printable text")
    return text


Printable = Annotated[str, AfterValidator(_printable)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_printable)]
Line = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_printable)]
Person = Annotated[
    str, Field(min_length=1, max_length=MAX_NAME_LENGTH + 20), AfterValidator(_printable)
]
Text = Annotated[str, Field(max_length=MAX_TEXT_LENGTH), AfterValidator(_storable)]
Reason = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH), AfterValidator(_storable)]


def _read_delta(value: object) -> Fraction:
    if not isinstance(value, str):
        raise refusal("must be a decimal number, as text or number")
    try:
        return parse_delta(value)
    except ValueError as error:
        raise refusal(str(error)) from None


Delta = Annotated[
    Fraction,
    PlainValidator(_read_delta),
    WithJsonSchema(
        {
            "title": "Delta",
            "description": "A decimal between 1e-30 and 0.001, as text or as a number; choose it "
            "far below one over the number of people.",
            "anyOf": [
                {"type": "string", "pattern": r"^\d+(\.\d+)?([eE][+-]?\d{1,2})?$", "maxLength": 40},
                {"type": "number", "exclusiveMinimum": 0, "maximum": 0.001},
            ],
            "examples": ["0.000001"],
        }
    ),
]


def _ahead(moment: datetime) -> datetime:
    if moment <= datetime.now(moment.tzinfo):
        raise refusal("must lie in the future")
    return moment


Ahead = Annotated[AwareDatetime, AfterValidator(_ahead)]


def _read_share(value: object) -> Fraction:
    # a number arrives here as the text it was written in, see exact_json
    if not isinstance(value, str) or not _SHARE.fullmatch(value):
        raise refusal('must be a share of epsilon, such as "1/3" or 0.25, with at most 9 decimals')
    whole, _, parts = value.partition("/")
    if parts and int(parts) == 0:
        raise refusal("must not be divided by zero")
    share = Fraction(whole) / (int(parts) if parts else 1)
    if not SMALLEST_SHARE <= share <= 1 - SMALLEST_SHARE:
        raise refusal("must lie between 0.01 and 0.99")
    return share


Share = Annotated[
    Fraction,
    PlainValidator(_read_share),
    WithJsonSchema(
        {
            "title": "Share",
            "description": "A part of epsilon between 0.01 and 0.99: a fraction or a decimal as "
            "text, or a number, with at most 9 decimals.",
            "anyOf": [
                {"type": "string", "pattern": _SHARE.pattern, "maxLength": 20},
                {
                    "type": "number",
                    "minimum": float(SMALLEST_SHARE),
                    "maximum": float(1 - SMALLEST_SHARE),
                },
            ],
            "examples": ["1/3"],
        }
    ),
]


# The columns of a data set's spec, as they stand in a request


Marker = Annotated[str, Field(min_length=1, max_length=MAX_CATEGORY_LENGTH)] | float
Decimal = Literal[".", ","]
Thousands = Literal[".", ",", " ", "'", "\u2019", "\u00a0", "\u202f", "\u2009"]
Delimiter = Literal[",", ";", "\t", "|"]
SkippedRows = Annotated[int, Field(ge=0, le=MAX_SKIPPED_ROWS)]
Spellings = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=MAX_CATEGORY_LENGTH)], ...],
    Field(min_length=1, max_length=MAX_SPELLINGS),
]
Pattern = Annotated[str, Field(min_length=1, max_length=MAX_FORMAT_LENGTH)]
Patterns = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=MAX_FORMATS)]
Markers = Annotated[tuple[Marker, ...], Field(max_length=MAX_MARKERS)]


class _Column(RequestBody):
    """What every column may say of itself and of its cells."""

    label: str | None = Field(default=None, examples=["Yearly income of the household"])
    """What the column is, for people: at most 200 characters."""
    source: str | None = Field(default=None, examples=["Q7. What is your yearly income?"])
    """The text of the column's header in the file, of any length and with any characters, where it
    is not the column's name. The name is used everywhere else."""
    na: Markers = Field(default=(), examples=[["NA", "-99"]])
    """Texts that stand for a missing cell, instead of the data set's own `na`. In a column of
    numbers they are numbers where they read as such."""
    unreadable: Literal["reject", "missing"] = Field(default="reject", examples=["missing"])
    """What to do with a cell that is not of the column's type: `reject` the file and name the rows,
    or take it as `missing`."""


class _Number(_Column):
    """What a column of numbers may say besides."""

    lower: float = Field(examples=[0])
    """The least value a cell can have, from public knowledge; smaller ones count as this one."""
    upper: float = Field(examples=[5000])
    """The largest value a cell can have, from public knowledge; larger ones count as this one."""
    missing: Literal["keep", "reject", "drop"] | float = Field(default="reject", examples=["keep"])
    """What to do with an empty cell: `keep` it missing, so that answers are about the records that
    have a value; `reject` the file; `drop` the row (add_remove only); or a number to fill in, which
    every answer then names."""
    unit_of_measure: str | None = Field(default=None, examples=["euros"])
    """What is counted, for people: at most 200 characters."""
    decimal: Decimal = Field(default=".", examples=[","])
    """The decimal mark, instead of the data set's own `decimal`."""
    thousands: Thousands | None = Field(default=None, examples=["."])
    """The thousands separator, instead of the data set's own `thousands`."""
    bare_number: bool = Field(default=True, examples=[False])
    """Whether a cell is the number alone. If not, letters, currency and percent signs before and
    after it do not count, as in `€ 1720` and `38.5 %`; a percentage stays one."""


class TypicalSpec(RequestBody):
    """Where values usually are, from public knowledge: normally distributed within the bounds."""

    mean: float = Field(examples=[980])
    """Their mean, in the column's units."""
    std: float = Field(examples=[520])
    """Their standard deviation, in the column's units."""


class _Plain(_Number):
    """What a column of plain numbers may say besides."""

    typical: TypicalSpec | None = Field(default=None, examples=[{"mean": 980, "std": 520}])
    """Where values usually are, from public knowledge and never from the rows. It shapes synthetic
    rows, of previews and dry runs, and is the scale of quantiles where bounds are wide."""


class NumberSpec(_Plain):
    """A number with declared bounds; values outside are clamped."""

    type: Literal["number"]


class IntegerSpec(_Plain):
    """A whole number between whole bounds."""

    type: Literal["integer"]


class _Time(_Column):
    """What a column of dates or moments says besides."""

    lower: Annotated[str, Field(max_length=40)] = Field(examples=["1900-01-01"])
    """The earliest a cell can be, from public knowledge, in ISO 8601; earlier ones count as it."""
    upper: Annotated[str, Field(max_length=40)] = Field(examples=["2030-01-01"])
    """The latest a cell can be, from public knowledge, in ISO 8601; later ones count as it."""
    missing: Annotated[str, Field(max_length=40)] = Field(default="reject", examples=["keep"])
    """What to do with an empty cell: `keep` it missing, so that answers are about the records that
    have a value; `reject` the file; `drop` the row (add_remove only); or a date to fill in, which
    every answer then names."""

    format: Pattern | Patterns | None = Field(default=None, examples=["%d.%m.%Y"])
    """How cells are written, as a strptime pattern or a list of patterns: the first that fits
    counts. Without it cells are ISO 8601."""
    timezone: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, examples=["Europe/Berlin"]
    )
    """The time zone, by its IANA name, of times without an offset, in the file and in questions,
    and of the calendar day of an instant; UTC without it. A `date` column of instants needs it."""


class DateSpec(_Time):
    """A date, as in 2020-12-31."""

    type: Literal["date"]


class DatetimeSpec(_Time):
    """A moment, as in 2020-12-31T23:59:59Z; without an offset it is local time of `timezone`."""

    type: Literal["datetime"]


class WithinSpec(RequestBody):
    """The level above a category: a column that is made of it, and is neither read nor stored."""

    column: str = Field(min_length=1, max_length=MAX_COLUMN_NAME_LENGTH, examples=["region"])
    """The level's name. It may be asked about like any column. It may be declared as a category of
    its own, with labels and a level above it; each level is of one column."""
    of: dict[str, Annotated[str, Field(min_length=1, max_length=MAX_CATEGORY_LENGTH)]] = Field(
        min_length=1, examples=[{"INLAND": "land", "NEAR BAY": "coast", "NEAR OCEAN": "coast"}]
    )
    """What each declared value belongs to, from public knowledge: each value of the column once."""


class CategorySpec(_Column):
    """A closed list of texts."""

    type: Literal["category"]
    values: tuple[str, ...] = Field(examples=[["INLAND", "NEAR BAY", "NEAR OCEAN"]])
    """Every text that a cell may hold, each once. A whole number written as a float, as `1.0`, is
    its integer."""
    missing: str = Field(default="reject", examples=["keep"])
    """What to do with an empty cell: `keep` it missing, so that answers are about the records that
    have a value, or count the others in a cell of their own; `reject` the file; `drop` the row
    (add_remove only); or one of the values to fill in, which every answer then names."""
    other: str | None = Field(default=None, examples=["other"])
    """The value that stands for every text that is not listed. It is added to the values, if it is
    not among them."""
    trim: bool = Field(default=True, examples=[False])
    """Whether white space around cells and values does not count, and texts are compared in
    Unicode's composed form (NFC)."""
    labels: dict[str, str] | None = Field(
        default=None, examples=[{"INLAND": "in the country", "NEAR BAY": "near the bay"}]
    )
    """What values mean, by value, for people: shown at the desk and in tables."""
    typical: dict[str, Annotated[float, Field(ge=0)]] | None = Field(
        default=None, examples=[{"INLAND": 0.5, "NEAR BAY": 0.25, "NEAR OCEAN": 0.25}]
    )
    """How often each value usually occurs, from public knowledge; of their sum, and never for those
    not named. It shapes synthetic rows and nothing that is released."""
    within: WithinSpec | None = Field(
        default=None,
        examples=[
            {
                "column": "region",
                "of": {"INLAND": "land", "NEAR BAY": "coast", "NEAR OCEAN": "coast"},
            }
        ],
    )
    """What values belong to: municipalities to regions, occupations to groups of them. The level
    above is a column of its own, made of this one. A record without a value has none there."""


class BooleanSpec(_Column):
    """True or false; reads true, false, 1 and 0, or the spellings that it declares."""

    type: Literal["boolean"]
    true: Spellings = Field(default=TRUE, examples=[["yes", "y"]])
    """How true is written in the file, in any case; a whole float, as `1.0`, is its integer."""
    false: Spellings = Field(default=FALSE, examples=[["no", "n"]])
    """How false is written in the file."""
    missing: Literal["keep", "reject", "drop"] | bool = Field(default="reject", examples=["keep"])
    """What to do with an empty cell: `keep` it missing, so that answers are about the records that
    have a value; `reject` the file; `drop` the row (add_remove only); or a value to fill in, which
    every answer then names."""
    typical: float | None = Field(default=None, ge=0, le=1, examples=[0.3])
    """Which share is usually true, from public knowledge. It shapes synthetic rows and nothing that
    is released."""


ColumnSpec = Annotated[
    NumberSpec | IntegerSpec | DateSpec | DatetimeSpec | CategorySpec | BooleanSpec,
    Field(discriminator="type"),
]


def column_fields(column: ColumnSpec, usual: Mapping[str, object]) -> dict[str, object]:
    """Return what a column declares; what it leaves open of reading is ``usual``."""
    open_to = {each: value for each, value in usual.items() if each in type(column).model_fields}
    return {**open_to, **column.model_dump(exclude_unset=True)}
