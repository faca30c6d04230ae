"""The field ``clip`` of sums and means: the bounds that values are clamped to before they count.

``none`` are the bounds that the curator declared, ``private`` ones that a part of epsilon pays for
(:mod:`mechanisms.clipping`), and ``{"lower": a, "upper": b}`` ones that the question states, which
must be public knowledge. What is asked is then a statistic of clamped values, which differs from
that of the values themselves: an answer says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeVar

from mechanisms.contract import FieldHint, InvalidStatisticError, Json, Statistic, meaning
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.fractions import as_written
from mechanisms.words import rounded, worded

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipBounds:
    """Public bounds that a question clamps values to: numbers, or texts of dates and moments."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    lower: float | str = field(metadata=meaning("The least value that counts.", example=0))
    upper: float | str = field(metadata=meaning("The largest value that counts.", example=60000))


Clip = Literal["none", "private"] | ClipBounds

CLIP = meaning(
    "What values are clamped to before they count. `none`: the column's bounds. `private`: "
    "half of epsilon pays for narrower bounds, between which all but a few records are; far "
    "less noise where the column's bounds are much wider than its values. "
    '`{"lower": a, "upper": b}`: bounds of one column, from public knowledge. Clamped values have '
    "another mean than values: `details.clip` has the bounds, and says so.",
    example="private",
)
CLIP_HINT = FieldHint(
    "Clipping",
    "What values are clamped to before they count. Bounds must be public knowledge.",
    rare=True,
    options={
        "none": "the column's own bounds",
        "private": "bounds that a part of epsilon pays for",
    },
    members={"lower": "Clip below", "upper": "Clip above"},
)
_WIDE = 100  # typical standard deviations: bounds this far apart are worth clipping


def clip_of(statistic: object) -> Clip:
    """Return what a statistic clips to; ``none`` where it knows no clipping."""
    found: Clip = getattr(statistic, "clip", "none")
    return found


def is_clipped(statistic: object) -> bool:
    """Return whether values are clamped to other bounds than their columns'."""
    return clip_of(statistic) != "none"


def unclipped(statistic: S) -> S:
    """Return the same question of the values themselves."""
    asked: Any = statistic
    return replace(asked, clip="none") if is_clipped(statistic) else statistic


def require_clip(clip: Clip, names: Sequence[str], numbers: Sequence[NumberColumn]) -> None:
    """Refuse clipping that does not fit the columns.

    Raises
    ------
    InvalidStatisticError
        A boolean is to be clipped, or bounds are not of one column, or not within its own.
    """
    if clip == "none":
        return
    if any(column.boolean for column in numbers):
        raise _invalid("a boolean is 0 or 1: there is nothing to clip")
    if clip == "private" and any(column.timed is not None for column in numbers):
        raise _invalid(
            "dates and moments have no scale to draw bounds on: state bounds from public "
            'knowledge, {"lower": ..., "upper": ...}'
        )
    if isinstance(clip, ClipBounds):
        if len(names) != 1:
            raise _invalid(
                "bounds are of one column: ask for each column by itself, or for a stack of them"
            )
        narrowed(numbers[0], clip)


def narrowed(column: NumberColumn, clip: ClipBounds) -> NumberColumn:
    """Return a column with the bounds that a question states.

    Raises
    ------
    InvalidStatisticError
        They are not values of the column, not in order, or not within its bounds.
    """
    lower, upper = (_bound(column, each) for each in (clip.lower, clip.upper))
    if not column.lower <= lower < upper <= column.upper:
        low, high = column.shown(float(column.lower)), column.shown(float(column.upper))
        raise _invalid(
            f"lower must be below upper, and both within the column's bounds, {low} to {high}"
        )
    return replace(column, lower=lower, upper=upper)


def _bound(column: NumberColumn, given: float | str) -> Fraction:
    number = column.number_of(given)
    finite = number is not None and abs(number) < float("inf")
    if number is None or not finite or (column.whole and number != int(number)):
        if column.timed is not None:
            raise _invalid(f"a bound must be a value of the column: {column.timed}")
        raise _invalid(
            "a bound must be a value of the column: a whole number"
            if column.whole
            else "a bound must be a value of the column: a number"
        )
    return as_written(number)


def suggestions(statistic: Statistic, schema: Schema) -> Iterator[str]:
    """Yield the advice to clip, for columns whose bounds are much wider than what is typical."""
    if getattr(statistic, "clip", None) != "none":
        return
    asked: Any = statistic
    for name in asked.columns:
        column = schema.columns[name]
        if not isinstance(column, NumberColumn) or column.typical is None or column.boolean:
            continue
        times = (column.upper - column.lower) / column.typical.std
        if times > _WIDE:
            yield worded(
                "The bounds of %(name)s are %(times)s times as wide as its typical standard "
                "deviation. Clipping to bounds that a part of epsilon pays for has far less noise "
                '("clip": "private").',
                name=name, times=rounded(float(times), 2),
            )  # fmt: skip


def _invalid(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="clip")


def warning(details: str) -> Json:
    """Return the member of ``details.clip`` that says what clamping does."""
    return {
        "warning": (
            f"The answer is about clamped values{details}: it misses what lies beyond the bounds, "
            "and the interval of the noise does not say by how much."
        )
    }
