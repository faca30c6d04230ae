"""The texts, amounts and moments that request bodies hold, each with its own rules and words."""

from __future__ import annotations

import re
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from app.domain.ledger import MAX_TOTAL
from mechanisms.accounting import parse_delta
from mechanisms.privacy import MAX_EPSILON_NANOS, Epsilon, InvalidEpsilonError

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
        raise refusal(str(error).removeprefix("epsilon ")) from None


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
        raise refusal(str(error).removeprefix("delta ")) from None


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
