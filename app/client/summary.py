"""Standard errors and confidence intervals as a table, as R prints a regression's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from app.tidy.rows import CANNOT_BE_SAID, Interval, Row, notes_of, rows_of

_HEAD = ("", "estimate", "std. error", "t value", "95% confidence", "95% noise")
_WIDTH = 88
_NONE = (
    "There are no standard errors. A regression or a quantile that is asked for with an inference, "
    'as in inference="1/3", has them for that share of its epsilon. What is derived from moments '
    "has them free: means, correlations and linear regressions."
)


def summary_of(answer: Mapping[str, Any], numbers: str) -> str:
    """Return an answer's inference as text: a line for each number, then how it was made.

    ``numbers`` is what can be said without.
    """
    inference = answer.get("inference")
    if inference is None:
        return "\n".join([*([numbers, ""] if numbers else []), *wrap(_NONE, _WIDTH)])
    inferred = [row for row in rows_of(answer) if row.confidence is not None]
    rows = [_HEAD, *map(_row, inferred)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    notes = [line for note in notes_of(inferred) for line in ["", *wrap(note, _WIDTH)]]
    method = wrap(f"Method: {inference['method']}", _WIDTH)
    return "\n".join([*_aligned(rows, widths), *notes, "", *method])


def _row(row: Row) -> tuple[str, ...]:
    """Return the cells of a number; R squared and the like get no test against 0."""
    estimate, error = row.estimate, row.std_error
    tested = error and row.key.measure != "fit" and isinstance(estimate, int | float)
    return (
        " ".join([*map(str, row.key.labels.values()), row.term]),
        CANNOT_BE_SAID if row.note else _text(estimate),
        _text(error),
        f"{estimate / error:.2f}" if tested else "",
        _interval(row.confidence),
        _interval(row.noise),
    )


def _text(number: Any) -> str:
    return f"{number:.4g}" if isinstance(number, int | float) else str(number or "")


def _interval(ends: Interval | None) -> str:
    return f"[{_text(ends[0])}, {_text(ends[1])}]" if ends else ""


def _aligned(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *numbers]).rstrip()
