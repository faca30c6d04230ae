"""What is refused of an expression, in words, and the functions that read other rows."""

from __future__ import annotations

from collections.abc import Sequence

from mechanisms.words import closest_first, listed


class ExpressionError(ValueError):
    """An expression that cannot be read, or that does not fit the columns.

    Attributes
    ----------
    detail
        What is wrong, from names of columns and functions; nothing else of what was written.
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
    """Return what is said of a name that is no column."""
    there = listed(closest_first(list(names), written)) if names else "none"
    return ExpressionError(f"there is no such column; the columns are {there}", place)


def unknown_function(names: Sequence[str], written: str, place: int) -> ExpressionError:
    """Return what is said of a function that is not offered."""
    # np.mean and Mean ask for the same.
    known = written.casefold().rpartition(".")[2]
    if known in OF_SEVERAL_ROWS:
        return several_rows(known, place)
    there = listed(closest_first(list(names), written))
    return ExpressionError(f"there is no such function; there are {there}", place)


def several_rows(name: str, place: int) -> ExpressionError:
    """Return what is said of a function that reads other rows."""
    return ExpressionError(
        f"{name} reads other rows than one, so it reads the data: a derived column is computed "
        "from one row alone. Write public numbers instead, as in (age - 40) / 10",
        place,
    )
