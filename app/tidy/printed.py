"""Answers as tables that journals print: of a summary a column for each group, a row for a measure.

    characteristic | drug (n = 250)                       | placebo (n = 250)
    age, mean (SD) | 50.3 (12.1) [95% CI 49.1 to 51.5]    | ...
    sex: f         | 130 (52.0%) [95% CI 45.6% to 58.3%]  | ...

Any other answer is a line for each number, with what is known of it: its intervals and errors.
A table is text alone, and is written for a terminal, as Markdown, as LaTeX and as a Word document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.tidy.names import (
    NO_LABELS,
    Labels,
    Phrase,
    joined,
    label,
    marked,
    said_of,
    titles_of,
)
from app.tidy.office import word_document
from app.tidy.pivots import IN_LATEX, IN_MARKDOWN, OF_NOISE, OF_POPULATION
from app.tidy.rows import CANNOT_BE_SAID, Interval, number, rows_of, within
from app.tidy.rows import Row as Number

KIND = "summary"
FIRST = marked("Characteristic")
_SD = marked("SD: standard deviation.")
_OF_NOISE, _OF_POPULATION = "data", "population"
_NOTE = {
    frozenset[str](): _SD,
    frozenset({_OF_POPULATION}): marked(
        "SD: standard deviation. Intervals in brackets are 95% confidence intervals, sampling "
        "error and privacy noise together."
    ),
    frozenset({_OF_NOISE}): marked(
        "SD: standard deviation. Intervals in brackets are 95% noise intervals, for these records: "
        "privacy noise alone, without sampling error."
    ),
    frozenset({_OF_NOISE, _OF_POPULATION}): marked(
        "SD: standard deviation. Intervals in brackets are 95% confidence intervals, sampling "
        "error and privacy noise together; those marked * are of privacy noise alone."
    ),
}
"""The note of a summary, by what the intervals that it prints are of."""
_NONE = "–"
_ALL = marked("All")
_MOST_LINES = 10_000
"""A document with more lines than this is no table to print: such answers are data."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed table.

    Attributes
    ----------
    heads, rows
        Its cells; the first one of a row says what the others are.
    note
        What the numbers in a cell are.
    about
        What else has to be shown with the numbers, a sentence each: files have it below the note.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str
    about: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the table for a terminal."""
        lines = [self.heads, *self.rows]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.heads))]
        written = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        rule = "-" * max(map(len, written))
        return "\n".join([written[0], rule, *written[1:], rule, self._below, ""])

    def markdown(self) -> str:
        """Return the table as Markdown."""
        heads, *lines = self._translated(IN_MARKDOWN)
        rows = [heads, ["---"] * len(heads), *lines]
        table = "".join(f"| {' | '.join(line)} |\n" for line in rows)
        return f"{table}\n{self._below.translate(IN_MARKDOWN)}\n"

    def latex(self) -> str:
        """Return the table as LaTeX that needs no package."""
        heads, *lines = (" & ".join(line) + r" \\" for line in self._translated(IN_LATEX))
        columns = "l" + "c" * (len(self.heads) - 1)
        below = self._below.translate(IN_LATEX)
        return "\n".join([
            r"\begin{table}", rf"\begin{{tabular}}{{{columns}}}", r"\hline", heads, r"\hline",
            *lines, r"\hline", r"\end{tabular}", rf"\par {below}", r"\end{table}", "",
        ])  # fmt: skip

    def word(self) -> bytes:
        """Return the table as a Word document (.docx)."""
        return word_document([(self.heads, self.rows, self._below)])

    @property
    def _below(self) -> str:
        return " ".join(filter(None, (self.note, *self.about)))

    def _translated(self, escaped: Mapping[int, str]) -> list[list[str]]:
        return [[cell.translate(escaped) for cell in line] for line in (self.heads, *self.rows)]


def printed(
    answer: Mapping[str, Any], columns: Mapping[str, Mapping[str, Any]] | None = None
) -> Printed | None:
    """Return the table of a released summary; None for any other answer.

    ``columns`` are declared facts of its columns: with them the table has labels and units.
    """
    asked, value = answer.get("statistic") or {}, answer.get("value")
    if asked.get("kind") != KIND or not value:
        return None
    labels: Labels = answer.get("labels") or NO_LABELS
    edges = {tuple(each["place"]) for each in answer.get("at_edge") or ()}
    rows, contrasts = (
        [
            {**row, "value": None} if (name, at, "value") in edges else row
            for at, row in enumerate(value.get(name) or ())
        ]
        for name in ("rows", "differences")
    )
    groups = [*dict.fromkeys(_group(row, labels) for row in rows)]
    pairs = [*dict.fromkeys(_pair(row, labels) for row in contrasts)]
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for name, row in [
        *((_group(row, labels), row) for row in rows),
        *((_pair(row, labels), row) for row in contrasts),
    ]:
        place = (row["column"], row["measure"], row["level"])
        cells.setdefault(place, {})[name] = row
    counted = cells.get((None, "n", None), {})
    shown = [each for each in (*rows, *contrasts) if each["measure"] in _WRITTEN]
    kinds = frozenset(str(each["interval_of"]) for each in shown if each.get("interval"))
    starred = _OF_NOISE if len(kinds) > 1 else ""
    return Printed(
        heads=(FIRST, *(_head(each, counted.get(each)) for each in groups), *pairs),
        rows=tuple(_lines(cells, [*groups, *pairs], labels, titles_of(columns or {}), starred)),
        note=_NOTE[kinds],
        about=said_of(answer),
    )


def printed_any(
    answer: Mapping[str, Any], columns: Mapping[str, Mapping[str, Any]] | None = None
) -> Printed | None:
    """Return the table of a summary, and of another answer its numbers with what is known of them.

    None of an answer without numbers, or with too many to be printed.
    """
    found = printed(answer, columns)
    numbers = rows_of(answer) if found is None and answer.get("value") else ()
    if not 0 < len(numbers) <= _MOST_LINES:
        return found
    labels: Labels = answer.get("labels") or NO_LABELS
    facts = [name for name, of in _FACTS.items() if any(of(each) for each in numbers)]
    return Printed(
        heads=(marked("Number"), marked("Value"), *facts),
        rows=tuple(
            (each.named(labels), each.shown, *(_FACTS[name](each) or _NONE for name in facts))
            for each in numbers
        ),
        note=" ".join(_NOTES[name] for name in facts if name in _NOTES),
        about=said_of(answer),
    )


def _ends(row: Number, interval: Interval | None) -> str:
    return "" if interval is None else " to ".join(within(end, row.interval) for end in interval)


_FACTS: Mapping[str, Callable[[Number], str]] = {
    OF_NOISE: lambda row: _ends(row, row.noise),
    marked("Standard error"): lambda row: "" if row.std_error is None else number(row.std_error),
    OF_POPULATION: lambda row: _ends(row, row.confidence),
}
_NOTES: Mapping[str, str] = {
    OF_NOISE: "Noise intervals are for these records: privacy noise alone.",
    OF_POPULATION: (
        "Confidence intervals are for the population: sampling error and privacy noise together."
    ),
}


def _group(row: Row, labels: Labels) -> str:
    return ", ".join(label(name, value, labels) for name, value in row["by"].items()) or _ALL


def _pair(row: Row, labels: Labels) -> str:
    return joined([_group(row, labels), _group({"by": row["from"]}, labels)], " − ")


def _head(group: str, counted: Row | None) -> str:
    if counted is None or counted["value"] is None:
        return group
    return Phrase("%(group)s (n = %(count)s)", {"group": group, "count": number(counted["value"])})


def _lines(
    cells: Mapping[tuple[Any, ...], Mapping[str, Row]],
    names: Sequence[str],
    labels: Labels,
    titles: Mapping[str, str],
    starred: str,
) -> Sequence[tuple[str, ...]]:
    found = []
    for (column, measure, level), own in cells.items():
        write = _WRITTEN.get(measure)
        if write is None:  # it is in the cell of another measure
            continue
        called, of = write
        title = titles.get(column, column)
        head = (
            joined([title, called]) if level is None else f"{title}: {label(column, level, labels)}"
        )
        partner = {name: cells.get((column, of, level), {}).get(name) for name in names}
        quartiles = [
            cells.get((column, each, level), {}) for each in ("lower_quartile", "upper_quartile")
        ]
        found.append(
            (head, *(_cell(measure, own.get(name), partner[name],
                           [each.get(name) for each in quartiles], starred) for name in names))
        )  # fmt: skip
    return found


_WRITTEN: Mapping[str, tuple[str, str]] = {
    "mean": (marked("mean (SD)"), "sd"),
    "median": (marked("median (quartiles)"), "median"),
    "share": ("", "count"),
}
"""Measures that have a row: what it is called, and the measure that is in its cells too."""


def _cell(
    measure: str,
    row: Row | None,
    other: Row | None,
    quartiles: Sequence[Row | None],
    starred: str,
) -> str:
    """Return what a cell shows; ``starred`` are intervals of a kind that is marked."""
    if row is None:
        return _NONE
    interval = _interval(row)
    percent = measure == "share"
    write = _said(_percent if percent else lambda end: within(end, interval))
    text: str = write(row["value"])
    if percent and other is not None:
        text = _with(_said(number)(other["value"]), text)
    elif measure == "mean" and other is not None:
        spread = _interval(other)
        text = _with(text, _said(lambda end: within(end, spread))(other["value"]))
    elif measure == "median" and None not in quartiles:
        text = _with(text, _range(write(each["value"]) for each in quartiles if each is not None))
    if interval is None:
        return text
    star = "*" if row["interval_of"] == starred else ""
    shown = {"text": text, "interval": _range(map(write, interval)), "star": star}
    return Phrase("%(text)s [%(interval)s]%(star)s", shown)


def _said(write: Callable[[float], str]) -> Callable[[float | None], str]:
    """Return what writes a number, or that it cannot be said: it is at the edge of its range."""
    return lambda value: Phrase(CANNOT_BE_SAID, {}) if value is None else write(value)


def _with(text: str, other: str) -> Phrase:
    return Phrase("%(text)s (%(other)s)", {"text": text, "other": other})


def _range(ends: Iterable[str]) -> Phrase:
    low, high = ends
    return marked("%(low)s to %(high)s", low=low, high=high)


def _interval(row: Row) -> Interval | None:
    ends = row.get("interval")
    return None if ends is None else (ends[0], ends[1])


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
