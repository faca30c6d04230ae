"""Error messages for expressions, and the functions that are refused for reading other rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mechanisms.words import closest_first, listed, no_column, slip_of


class ExpressionError(ValueError):
    """An expression that cannot be read, or that does not fit the columns.

    Attributes
    ----------
    detail
        The error, which may name columns and functions, but no other part of the input.
    """

    def __init__(self, what: str, place: int | None = None) -> None:
        self.detail = what if place is None else f"{what} (at character {place})"
        super().__init__(self.detail)


_SUMMARIES = """average avg mean median mode sum prod total range mad sd std stdev var variance cor
corr cov n ncol nrow len length unique first last head tail"""
_PLACES = """rank order sort rev percentile quantile ntile cut qcut bins lag lead shift diff rolling
cumsum cumprod cummin cummax"""
_SCALES = """center centre demean scale standardise standardize normalise normalize zscore winsorise
winsorize poly bs ns cr cs cc te spline hinge"""
_CHANCE = "random rnorm runif sample shuffle"

OF_SEVERAL_ROWS = frozenset(" ".join((_SUMMARIES, _PLACES, _SCALES, _CHANCE)).split())
"""Functions whose value in one row depends on other rows: they read the data."""


def unknown_column(names: Sequence[str], written: str, place: int | None) -> ExpressionError:
    """Return the message for a name that is not a column."""
    return ExpressionError(no_column(names, written), place)


def unknown_function(names: Sequence[str], written: str, place: int) -> ExpressionError:
    """Return the message for a function that is not offered."""
    # np.mean and Mean ask for the same.
    known = written.casefold().rpartition(".")[2]
    if known in OF_SEVERAL_ROWS:
        return several_rows(known, place)
    there = listed(closest_first(list(names), written))
    close = slip_of(names, written)
    if close is None:
        return ExpressionError(f"there is no such function; there are {there}", place)
    return ExpressionError(
        f"{written} is no function (did you mean {close}?); there are {there}", place
    )


def with_hints(error: ExpressionError, text: str) -> ExpressionError:
    """Return the message for a text that cannot be parsed, with a suggestion."""
    hints = []
    if _DECIMAL_COMMA.search(text):
        hints.append("decimals are written with a point, as in 3.5")
    if name := _NAME_OF_SIGNS.search(text):
        hints.append(f"a name with signs or spaces stands in backticks, as in `{name.group(1)}`")
    if not hints:
        return error
    return ExpressionError("; ".join([error.detail, *hints]))


_DECIMAL_COMMA = re.compile(r"(?<![\w(,.])\d+,\d+(?![\w,)])")
_NAME_OF_SIGNS = re.compile(
    r"(?<![`\"'\w])([^\W\d]\w*(?: \w+)* ?[\[{$%][^`\"'~+*:<>=]{0,40}?[\]}$%])(?!`)"
)


def several_rows(name: str, place: int) -> ExpressionError:
    """Return the message for a function that reads other rows."""
    return ExpressionError(
        f"{name} reads other rows than one, so it reads the data: a derived column is computed "
        "from one row alone. Write public numbers instead, as in (age - 40) / 10",
        place,
    )
