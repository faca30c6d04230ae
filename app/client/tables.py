"""Answers as tidy tables: a row for each number, with its group, its name and its noise.

For a notebook each row has an error bar, drawn from numbers alone. An inference is a table of text,
as R prints a regression's.
"""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from html import escape
from io import StringIO
from itertools import pairwise
from math import isfinite
from numbers import Real
from textwrap import wrap
from typing import Any

from app.client.errors import ClientError, MissingPackageError
from app.tidy import rows as tidy
from app.tidy.names import NO_LABELS, Labels, grouping, label, where
from app.tidy.pivots import inert

Row = dict[str, Any]

MEASURES = (
    "term", "value", "noise", "noise_low", "noise_high", "expected_error", "synthetic",
    "std_error", "confidence_low", "confidence_high", "note",
)  # fmt: skip
"""What a row may say, after the labels of its group."""
_PART = ("part", "where", "statistic")
_TAKEN = frozenset({*MEASURES, *_PART})
_SHOWN = 30
"""Rows that a notebook shows; the frame has them all."""
_NO_PACKAGE = (
    "{method}() needs {package}: pip install {package}. rows() has the same rows without it."
)


def rows_of(answer: Mapping[str, Any]) -> list[Row]:
    """Return the rows of an answer: of its value, else of what a preview shows of each number.

    They are those of :mod:`app.tidy`, as flat dictionaries. A stack's rows also say which part they
    are of, its conditions and its statistic, and those of moments which moment. A category's labels
    follow its values.
    """
    found = tidy.rows_of(answer)
    groups = grouping([row.key for row in found], _TAKEN, answer.get("labels") or NO_LABELS)
    conditions = any(row.key.where for row in found)
    answered = answer.get("value") is not None
    expected = answer.get("expected_error") is not None
    inferred, noted = bool(answer.get("inference")), any(row.remark for row in found)
    rows = []
    for each in found:
        key = each.key
        row: Row = {}
        if key.part is not None:
            row |= {"part": key.part}
            row |= {"where": where(key)} if conditions else {}
        if key.part is not None or key.mixed:
            row |= {"statistic": each.statistic}
        row |= groups.cells(key)
        row["term"] = each.term
        if answered:
            row["value"] = each.estimate
        low, high = each.noise or _MISSING
        row |= {"noise": each.noise_std, "noise_low": low, "noise_high": high}
        if expected:
            row["expected_error"] = each.expected_error
        if answer.get("synthetic"):
            row["synthetic"] = True
        if inferred:
            low, high = each.confidence or _MISSING
            row |= {"std_error": each.std_error, "confidence_low": low, "confidence_high": high}
        if noted:
            row["note"] = each.remark
        rows.append(row)
    return rows


_MISSING = (None, None)


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Return every column of the rows, in the order in which they first occur."""
    ordered = list(dict.fromkeys(name for row in rows for name in row))
    labels = [name for name in ordered if name not in MEASURES]
    return [*labels, *(name for name in MEASURES if name in ordered)]


def cell(row: Row, name: str) -> str:
    """Return a cell as people read it; one whose number cannot be said, or is a bound, says so.

    A note is why there is no number, or why the number is an upper bound.
    """
    noted = name == "value" and bool(row.get("note"))
    if noted and row[name] is None:
        return tidy.CANNOT_BE_SAID
    return tidy.bounded(shown(row.get(name)), bound=noted)


def name_of(row: Row) -> str:
    """Return what a row's number is of, in a few words: its group and its term."""
    own = [fact for name, fact in row.items() if name not in MEASURES and fact not in (None, "")]
    return " ".join(map(str, [*own, row["term"]]))


def notes_of(rows: Sequence[Row]) -> list[str]:
    """Return why numbers cannot be said, or are upper bounds, each reason once."""
    return list(dict.fromkeys(row["note"] for row in rows if row.get("note")))


def frame_of(rows: Sequence[Row]) -> Any:
    """Return rows as a data frame of pandas.

    Raises
    ------
    MissingPackageError
        pandas is not installed.
    """
    return _package("pandas", "to_frame").DataFrame(rows, columns=columns_of(rows))


def drawn_on(answer: Mapping[str, Any], title: str, axes: Any) -> Any:
    """Draw an answer's numbers on axes of matplotlib, by default new ones, and return the axes.

    Raises
    ------
    ClientError
        There are no numbers to draw yet.
    MissingPackageError
        matplotlib is not installed.
    """
    found = [each for each in tidy.rows_of(answer) if isinstance(each.estimate, Real)]
    if not found:
        raise ClientError("there are no numbers to draw yet")
    curves = [each for each in found if each.key.at is not None]
    ratios = [each for each in found if each.key.is_ratio and each.key.part is None]
    if axes is None:
        height = 4.0 if curves else 1.5 + 0.3 * len(ratios or found)
        axes = _package("matplotlib.pyplot", "plot").subplots(
            figsize=(7, height), layout="constrained"
        )[1]
    labels = answer.get("labels") or NO_LABELS
    if curves:
        _draw_curves(axes, curves, labels)
    elif ratios:
        _draw_ratios(axes, ratios, labels)
    else:
        _draw_points(axes, [*tidy.with_intervals(found)], labels)
        for value in {each.key.reference for each in found} - {0.0}:
            axes.axvline(value, color="grey", linewidth=0.5)
    axes.set_title(title)
    return axes


def _draw_points(axes: Any, found: Sequence[tidy.Row], labels: Labels) -> None:
    confident = any(each.confidence for each in found)
    for place, each in enumerate(found):
        ends = each.confidence if confident else each.noise
        if ends is not None and all(isinstance(end, Real) and isfinite(end) for end in ends):
            axes.plot(ends, (place, place), color="C0", solid_capstyle="butt")
        axes.plot(each.estimate, place, "o", color="C0")
    axes.set_yticks(range(len(found)), [each.named(labels) for each in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlabel(f"with 95% {'confidence' if confident else 'noise'} intervals")


def _draw_ratios(axes: Any, found: Sequence[tidy.Row], labels: Labels) -> None:
    """Draw a forest plot; an interval that says nothing ends where its axis does."""
    sizes = [each.estimate for each in found]
    least, most = min(sizes) / _FURTHEST, max(sizes) * _FURTHEST
    cut = [
        replace(each, confidence=(max(ends[0], least), min(ends[1], most))) if ends else each
        for each in found
        for ends in [each.confidence]
    ]
    _draw_points(axes, cut, labels)
    axes.set_xscale("log")
    axes.axvline(1.0, color="grey", linewidth=0.5)
    axes.xaxis.set_major_formatter("{x:g}")
    low, high = axes.get_xlim()
    if high < 10 * low:  # too few powers of ten are on the axis to read it by them
        axes.xaxis.set_minor_formatter("{x:g}")


_FURTHEST = 1000.0
"""How many times the largest ratio, or what part of the smallest, an axis reaches at most."""


def _draw_curves(axes: Any, found: Sequence[tidy.Row], labels: Labels) -> None:
    groups: dict[tuple[object, ...], dict[float, dict[str, tidy.Row]]] = {}
    for each in found:
        *above, _, name = each.key.place
        at = each.key.at or 0.0
        groups.setdefault(tuple(above), {}).setdefault(at, {})[str(name)] = each
    for color, places in enumerate(groups.values()):
        own = next(iter(next(iter(places.values())).values())).key.labels
        style: dict[str, Any] = {
            "color": f"C{color % 10}",
            "label": ", ".join(label(name, value, labels) for name, value in own.items()),
        }
        if all({"true_positive", "false_positive"} <= names.keys() for names in places.values()):
            _draw_rates(axes, [*places.values()], style)
        else:
            _draw_steps(axes, sorted(places.items()), style)
    if any(line.get_label()[:1] not in ("", "_") for line in axes.lines):
        axes.legend()


def _draw_rates(axes: Any, places: Sequence[Mapping[str, tidy.Row]], style: Any) -> None:
    """Draw true against false positives, and the line of a score that predicts nothing."""
    rates = ("false_positive", "true_positive")
    across, up = ([names[rate].estimate for names in places] for rate in rates)
    axes.plot(across, up, ".-", **style)
    axes.plot((0, 1), (0, 1), color="grey", linewidth=0.5)
    axes.set_xlabel("false positives")
    axes.set_ylabel("true positives")


def _draw_steps(axes: Any, places: Any, style: Any) -> None:
    """Draw what falls in steps, with its band; it begins at 1."""
    rows = [(at, names["survival"]) for at, names in places if "survival" in names]
    at = [0.0, *(place for place, _ in rows)]
    axes.step(at, [1.0, *(row.estimate for _, row in rows)], where="post", **style)
    bands = [row.interval for _, row in rows]
    if all(bands):
        lows, highs = zip((1.0, 1.0), *bands, strict=True)
        axes.fill_between(
            at, lows, highs, step="post", color=style["color"], alpha=0.2, linewidth=0
        )
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("survival")


def polars_of(rows: Sequence[Row]) -> Any:
    """Return rows as a data frame of Polars; a cell that a row does not have is null.

    Raises
    ------
    MissingPackageError
        polars is not installed.
    """
    names = columns_of(rows)
    cells = {name: [row.get(name) for row in rows] for name in names}
    return _package("polars", "to_polars").DataFrame(cells, strict=False)


def typed_columns(text: str, columns: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Return the columns of a CSV file of synthetic rows, typed as its description says."""
    rows = list(csv.reader(StringIO(text, newline="")))[1:]
    readers = [_reader_of(column) for column in columns]
    return [[read(row[place]) for row in rows] for place, read in enumerate(readers)]


def _reader_of(column: Mapping[str, Any]) -> Callable[[str], Any]:
    if column["type"] == "category":
        # what a spreadsheet would run has an apostrophe in the file
        written = {str(inert(value)): value for value in column["values"]}
        return written.__getitem__
    return _READERS[column["type"]]


_READERS: Mapping[str, Callable[[str], Any]] = {
    "boolean": "true".__eq__,
    "integer": int,
    "number": float,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
}


def typed_frame_of(
    package: str, method: str, columns: Sequence[Mapping[str, Any]], values: Sequence[list[Any]]
) -> Any:
    """Return columns as a data frame of pandas or Polars.

    Raises
    ------
    MissingPackageError
        The package is not installed.
    """
    names = [str(column["name"]) for column in columns]
    return _package(package, method).DataFrame(dict(zip(names, values, strict=True)))


def _package(package: str, method: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        message = _NO_PACKAGE.format(method=method, package=package.partition(".")[0])
        raise MissingPackageError(message) from None


def html_of(caption: str, rows: Sequence[Row], note: str = "") -> str:
    """Return a small table of rows for a notebook: no script, and every text escaped.

    Where intervals are known, a drawing next to each number shows its own.
    """
    meaning, bars, scales = bars_of(rows[:_SHOWN])
    columns = [name for name in columns_of(rows) if name != "note"]
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    cells = [
        "".join(f"<td>{escape(cell(row, name))}</td>" for name in columns) for row in rows[:_SHOWN]
    ]
    if any(bars):
        head += f"<th>{meaning}</th>"
        cells = [f"{own}<td>{bar}</td>" for own, bar in zip(cells, bars, strict=True)]
    body = "".join(f"<tr>{own}</tr>" for own in cells)
    more = f"<p>and {len(rows) - _SHOWN} more rows</p>" if len(rows) > _SHOWN else ""
    said = "".join(f"<p>{escape(each)}</p>" for each in (scales, *notes_of(rows), note) if each)
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{said}"
    )


def shown(value: object) -> str:
    """Return a cell as people read it: numbers to six digits, nothing for what is not known."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def lines_of(rows: Sequence[Row]) -> Iterator[str]:
    """Yield rows as aligned lines below their names, words to the left and numbers to the right.

    Measures that no row has, as the noise where it is not known beforehand, are left out. Below
    the lines is why numbers cannot be said, each reason once.
    """
    for_people = [
        name
        for name in columns_of(rows)
        if name not in MEASURES or any(_has(row, name) for row in rows)
    ]
    columns = [[name, *(cell(row, name) for row in rows)] for name in for_people]
    right = [any(isinstance(row.get(name), Real) for row in rows) for name in for_people]
    widths = [max(map(len, column)) for column in columns]
    for line in zip(*columns, strict=True):
        cells = zip(line, widths, right, strict=True)
        padded = (text.rjust(width) if is_number else text.ljust(width)
                  for text, width, is_number in cells)  # fmt: skip
        yield "  ".join(padded).rstrip()
    yield from notes_of(rows)


def _has(row: Row, name: str) -> bool:
    """Return whether a measure of a row has a cell of its own."""
    return name != "note" and bool(cell(row, name))


_BAR_WIDTH, _MIDDLE, _CAP, _MARGIN = 160.0, 7.0, 4.0, 6.0
_ENDS = (("confidence_low", "confidence_high"), ("noise_low", "noise_high"))
_MEANING = ("95% confidence", "95% noise")


@dataclass(frozen=True, slots=True)
class _Bar:
    """A number between two others, or the two alone where it cannot be said."""

    low: float
    value: float | None
    high: float


def bars_of(rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[str], str]:
    """Return what the bars mean, a drawing for each row, and their scales in words.

    A drawing is SVG, or nothing where no interval is known. Numbers of one name share a scale, if
    there are several of it; else all numbers do. Where some have confidence intervals, the bars are
    those.
    """
    inferred = any(row.get(_ENDS[0][0]) is not None for row in rows)
    bars = [_bar(row, *_ENDS[0 if inferred else 1]) for row in rows]
    names = [row.get("term") for row in rows]
    scales = names if len(set(names)) < len(names) else [None] * len(names)
    drawn, ends = [], dict[str, str]()
    for bar, scale in zip(bars, scales, strict=True):
        alike = [each for each, other in zip(bars, scales, strict=True) if each and other == scale]
        drawn.append(_drawn(bar, alike) if bar else "")
        if bar:
            least, most = min(each.low for each in alike), max(each.high for each in alike)
            ends[f"{scale or ''} {least:.6g} to {most:.6g}".strip()] = ""
    said = f"Scale of the bars: {'; '.join(ends)}." if ends else ""
    return _MEANING[0 if inferred else 1], drawn, said


def _bar(row: Mapping[str, Any], low: str, high: str) -> _Bar | None:
    """Return a row's bar; a preview's is around zero."""
    value = row.get("value", 0.0)
    ends = (row.get(low), *(() if row.get("note") else (value,)), row.get(high))
    known = [float(end) for end in ends if isinstance(end, Real) and isfinite(end)]
    if len(known) < len(ends) or any(one > other for one, other in pairwise(known)):
        return None
    return _Bar(known[0], None if row.get("note") else known[1], known[-1])


def _drawn(bar: _Bar, alike: Sequence[_Bar]) -> str:
    least, most = min(each.low for each in alike), max(each.high for each in alike)
    room = (_BAR_WIDTH - 2 * _MARGIN) / ((most - least) or 1.0)
    low, high = (_MARGIN + room * (end - least) for end in (bar.low, bar.high))
    top, bottom = _MIDDLE - _CAP, _MIDDLE + _CAP
    line = f"M{low:.1f} {_MIDDLE}H{high:.1f}M{low:.1f} {top}V{bottom}M{high:.1f} {top}V{bottom}"
    said, dot = f"between {bar.low:.6g} and {bar.high:.6g}", ""
    if bar.value is not None:
        said, value = f"{bar.value:.6g}, {said}", _MARGIN + room * (bar.value - least)
        dot = f'<circle cx="{value:.1f}" cy="{_MIDDLE}" r="2.5" fill="currentColor"></circle>'
    return (
        f'<svg role="img" aria-label="{said}" width="{_BAR_WIDTH:.0f}" height="{2 * _MIDDLE:.0f}">'
        f'<path d="{line}" stroke="currentColor" fill="none"></path>{dot}</svg>'
    )


_INFERENCE = ("", "estimate", "std. error", "t value", "95% confidence", "95% noise")
_WIDTH = 88
_NO_INFERENCE = (
    "There are no standard errors. A regression, mean or quantile asked for with an inference, "
    'as in inference="1/3", has them for that share of its epsilon. What is derived from moments '
    "has them free: means, correlations and linear regressions."
)


def summary_of(answer: Mapping[str, Any], numbers: str) -> str:
    """Return an answer's inference as text: a line for each number, then how it was made.

    ``numbers`` is what can be said without.
    """
    inference = answer.get("inference")
    if inference is None:
        return "\n".join([*([numbers, ""] if numbers else []), *wrap(_NO_INFERENCE, _WIDTH)])
    inferred = [row for row in tidy.rows_of(answer) if row.confidence is not None]
    rows = [_INFERENCE, *map(_inferred, inferred)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    notes = [line for note in tidy.notes_of(inferred) for line in ["", *wrap(note, _WIDTH)]]
    method = wrap(f"Method: {inference['method']}", _WIDTH)
    return "\n".join([*_aligned(rows, widths), *notes, "", *method])


def _inferred(row: tidy.Row) -> tuple[str, ...]:
    """Return the cells of a number; ratios, R squared and the like get no test against 0."""
    estimate, error, ratio = row.estimate, row.std_error, row.key.is_ratio
    tested = error and row.key.measure != "fit" and isinstance(estimate, int | float) and not ratio
    return (
        " ".join([*map(str, row.key.labels.values()), *[row.statistic] * ratio, row.term]),
        tidy.CANNOT_BE_SAID if row.note else _text(estimate),
        tidy.CANNOT_BE_SAID if error is None and row.confidence else _text(error),
        f"{estimate / error:.2f}" if tested else "",
        _interval(row.confidence),
        _interval(row.noise),
    )


def _text(number: Any) -> str:
    return f"{number:.4g}" if isinstance(number, int | float) else str(number or "")


def _interval(ends: tidy.Interval | None) -> str:
    return f"[{_text(ends[0])}, {_text(ends[1])}]" if ends else ""


def _aligned(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *numbers]).rstrip()
