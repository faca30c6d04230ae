"""Numbers of groups as a table: values of groups as rows and columns, the interval in the cell.

    numbers of one statistic  --dimensions-->  what distinguishes them  --pivot-->  rows x columns

A *dimension* is what numbers of an answer differ in: a group's column, a place on a curve, or which
number it is where there are several. One dimension may be across, the others are down. A part of a
stack is a table of its own, and so is a curve. The same table is HTML on pages (a template's work),
CSV and an Excel workbook with all digits, Markdown, LaTeX and a Word document.

CSV text that is data in every program: the one place where CSV files are written.

A spreadsheet runs a cell that begins like a formula, whether or not quotes surround it. A person
who chooses a column's name could so write a program into a file that somebody else opens. Such a
header or cell gets an apostrophe in front, which spreadsheets take for the mark of text. Numbers
stay numbers.

What is sent *to* the service goes through no such function: its rows are data, and stay as they
are.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from numbers import Real
from typing import Any, TypeVar

from app.tidy.keys import Key
from app.tidy.names import (
    Labels,
    Phrase,
    joined,
    label,
    labels_of,
    marked,
    of,
    of_part,
    own_term,
    statistic,
    statistic_of,
    with_narrowed,
    words,
)
from app.tidy.office import EXCEL, WORD, word_document, workbook
from app.tidy.rows import Interval, Row, within

T = TypeVar("T")

FORMULA_STARTS = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""A cell that begins with one of these may be run; the last four are the full-width forms."""
_ROW_END = "\r\n"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def csv_text(
    header: Iterable[object],
    rows: Iterable[Iterable[object]],
    *,
    delimiter: str = ",",
    line_end: str = "\r\n",
) -> str:
    r"""Return a CSV file (RFC 4180) with a line of names, which no spreadsheet runs.

    Examples
    --------
    >>> csv_text(["=x", "n"], [["-1.5", -2], ["+a", None]], line_end="\n")
    "'=x,n\n-1.5,-2\n'+a,\n"
    """
    lines = _Lines(line_end)
    # With this end a cell that holds half of it is quoted, too.
    writer = csv.writer(lines, delimiter=delimiter, lineterminator=_ROW_END)
    writer.writerow(map(inert, header))
    writer.writerows(map(inert, row) for row in rows)
    return "".join(lines)


class _Lines(list[str]):
    """What a writer writes, line by line, with an end of its own."""

    def __init__(self, end: str) -> None:
        super().__init__()
        self._end = end

    def write(self, line: str) -> None:
        self.append(line.removesuffix(_ROW_END) + self._end)


def inert(cell: T) -> T | str:
    """Return a cell, with an apostrophe in front of a text that a spreadsheet would run."""
    if isinstance(cell, str) and cell[:1] in FORMULA_STARTS and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


# Numbers of groups as a table: values of groups as rows and columns, the interval in the cell


NUMBER, COLUMN, WITH = marked("number"), marked("column"), marked("with")
"""Dimensions that are no group: which number it is, and the two columns of a matrix's entry."""
MOST_ACROSS = 8
"""A dimension of more values than this is down unless someone wants it across."""
HEATS = 8
"""Steps of colour that tables of counts have."""
_MATRICES = ("covariance", "correlation")
OF_NOISE, OF_POPULATION = marked("95% noise interval"), marked("95% confidence interval")

Path = Mapping[str, str]
"""By dimension, what a number is called in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pivot:
    """One table.

    Attributes
    ----------
    title
        What its numbers are, with their unit.
    down, across
        The dimensions of its rows, and of its columns; "" where it has one column.
    heads
        The values of ``across``, in order; of one column its title.
    lines
        For each row its values of ``down``, and the numbers of its cells; None where there is none.
    confident
        Whether the cells' intervals are confidence intervals, and not those of the noise.
    choices
        The dimensions that could be across.
    """

    title: str
    down: Sequence[str]
    across: str
    heads: Sequence[str]
    lines: Sequence[tuple[tuple[str, ...], Sequence[Row | None]]]
    confident: bool
    choices: Sequence[str]

    @property
    def intervals(self) -> str:
        """Return what the cells' intervals are."""
        return OF_POPULATION if self.confident else OF_NOISE

    @property
    def has_intervals(self) -> bool:
        """Return whether any cell has one."""
        return any(self.interval(cell) for _, cells in self.lines for cell in cells)

    def interval(self, cell: Row | None) -> Interval | None:
        """Return the interval of a cell."""
        if cell is None:
            return None
        return cell.confidence if self.confident else cell.noise

    def said(self, cell: Row | None) -> str:
        """Return the interval of a cell in words; empty where it has none."""
        interval = self.interval(cell)
        if interval is None:
            return ""
        low, high = (within(end, interval) for end in interval)
        return marked("%(low)s to %(high)s", low=low, high=high)

    @property
    def largest(self) -> float:
        """Return the largest number; 0 where none is above it."""
        numbers = [
            each.estimate for _, cells in self.lines for each in cells if each and _is_number(each)
        ]
        return max([0.0, *map(float, numbers)])

    def sorted_by(self, column: int) -> Pivot:
        """Return the table with its rows by a column of numbers, counted from 1.

        A negative one has the largest number first. What is no number comes last, and rows of
        equal numbers stay in their order. Without such a column the table is as it was.
        """
        if not 0 < abs(column) <= len(self.heads):
            return self
        sign = -1 if column < 0 else 1

        def place(line: tuple[tuple[str, ...], Sequence[Row | None]]) -> tuple[bool, float]:
            cell = line[1][abs(column) - 1]
            if cell is None or not isinstance(cell.estimate, Real):
                return True, 0.0
            return False, sign * float(cell.estimate)

        return replace(self, lines=sorted(self.lines, key=place))

    def first(self, most: int) -> Iterator[tuple[Sequence[tuple[str, int]], Sequence[Row | None]]]:
        """Yield rows with their names and how many rows each spans; 0 is below an equal one."""
        names = [own for own, _ in self.lines[:most]]
        for at, (own, cells) in enumerate(self.lines[:most]):
            last = len(own) - 1
            yield (
                [(each, _run(names, at, n) if n < last else 1) for n, each in enumerate(own)],
                cells,
            )


def heat(cell: Row | None, largest: float) -> int:
    """Return a step from 0 to :data:`HEATS`: a number's part of the largest one."""
    if cell is None or not _is_number(cell) or not largest:
        return 0
    return round(HEATS * max(0.0, float(cell.estimate)) / largest)


def _is_number(cell: Row | None) -> bool:
    return cell is not None and isinstance(cell.estimate, Real)


def _run(names: Sequence[tuple[str, ...]], at: int, depth: int) -> int:
    """Return how many rows from one on have its first names; 0 where the one above has them."""
    first = names[at][: depth + 1]
    if at and names[at - 1][: depth + 1] == first:
        return 0
    return sum(1 for _ in takewhile(lambda each: each[: depth + 1] == first, names[at:]))


def pivots_of(
    rows: Sequence[Row],
    columns: Mapping[str, Mapping[str, Any]],
    across: str | None = None,
    said: str = "",
) -> tuple[Pivot, ...]:
    """Return the tables of an answer: one for each statistic whose numbers have groups.

    Parameters
    ----------
    rows
        The numbers of the answer.
    columns
        The declared facts of its columns: units, and labels of values.
    across
        The dimension that shall be across, an empty text for none. Without it, it is the last one
        of at most :data:`MOST_ACROSS` values; a table that has no such dimension goes without.
    said
        Which records the numbers are about, and how much each counts: the titles say it.
    """
    found = []
    for _, part in groupby(rows, key=lambda row: row.key.part):
        like = list(part)
        if on_curves := [row for row in like if row.key.at is not None]:
            others = [row for row in like if row.key.at is None]
            of_groups = [row for row in others if row.key.labels]
            tables = [of_groups, [row for row in others if not row.key.labels], on_curves]
        else:
            like = [row for row in like if row.key.measure != "fit"]
            grouped = any(row.key.labels or row.key.kind in _MATRICES for row in like)
            tables = [like] if grouped else []
        found += [_pivot(each, columns, across, said) for each in tables if each]
    return tuple(found)


def _pivot(
    rows: Sequence[Row],
    columns: Mapping[str, Mapping[str, Any]],
    across: str | None,
    said: str,
) -> Pivot:
    labels = labels_of(columns)
    names = _numbers(rows, columns)
    paths = [_path(row.key, names[at], labels) for at, row in enumerate(rows)]
    values = {each: dict.fromkeys(path.get(each, "") for path in paths) for each in _all(paths)}
    several = [each for each in values if len(values[each]) > 1] or [next(reversed(values))]
    if across is None and rows[0].key.at is not None:
        across = NUMBER  # a life table
    over = _across(several, {each: len(values[each]) for each in several}, across)
    down = [each for each in several if each != over]
    cells: dict[tuple[str, ...], dict[str, Row]] = {}
    for row, path in zip(rows, paths, strict=True):
        own = tuple(path.get(each, "") for each in down)
        cells.setdefault(own, {})[path.get(over, "")] = row
    place = {each: {value: at for at, value in enumerate(values[each])} for each in down}
    heads = [*values[over]] if over else [""]
    short = title = _title(rows, columns, varied=NUMBER in several or COLUMN in several)
    fixed = [f"{each}={next(iter(values[each]))}" for each in values if each not in several]
    fixed = [each for each in fixed if not each.startswith((f"{NUMBER}=", f"{COLUMN}="))]
    if fixed:
        title = Phrase("%(title)s (%(fixed)s)", {"title": title, "fixed": ", ".join(fixed)})
    return Pivot(
        title=with_narrowed(title, said),
        down=down,
        across=over,
        heads=heads if over else [with_narrowed(short, said)],
        lines=[
            (own, [cells[own].get(head) for head in heads])
            for own in sorted(
                cells, key=lambda own: [place[n][v] for n, v in zip(down, own, strict=True)]
            )
        ],
        confident=any(row.confidence for row in rows),
        choices=tuple(several) if len(several) > 1 and WITH not in several else (),
    )


def _all(paths: Sequence[Path]) -> Sequence[str]:
    return list(dict.fromkeys(each for path in paths for each in path))


def _across(several: Sequence[str], sizes: Mapping[str, int], wanted: str | None) -> str:
    """Return the dimension that is across, an empty text for none."""
    if wanted is not None and (wanted in several or not wanted):
        return wanted if len(several) > 1 else ""
    fit = [each for each in several if sizes[each] <= MOST_ACROSS]
    if len(several) < 2 or not fit:
        return ""
    groups = [each for each in fit if each != NUMBER]
    return groups[-1] if len(several) > 2 or NUMBER not in fit else NUMBER


def _path(key: Key, name: str, labels: Labels) -> Path:
    groups = {column: label(column, value, labels) for column, value in key.labels.items()}
    if key.at is not None:
        number, _, place = name.rpartition(" at ")
        return {**groups, key.subject: place, NUMBER: Phrase(number)}
    path = dict(zip((COLUMN, WITH), key.terms, strict=False)) if _is_entry(key) else {NUMBER: name}
    return path | groups


def _is_entry(key: Key) -> bool:
    return key.kind in _MATRICES and len(key.terms) == 2


def _numbers(rows: Sequence[Row], columns: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what each number is called among the numbers of its group."""
    return [statistic_of(row.key) if row.key.mixed else _term(row.key, columns) for row in rows]


def _term(key: Key, columns: Mapping[str, Mapping[str, Any]]) -> str:
    if key.measure == "level":
        return joined([words(key.kind), key.terms[0]], " ")
    name = own_term(key) if key.terms else words(key.measure or key.kind)
    unit = columns.get(key.terms[0], {}).get("unit_of_measure") if len(key.terms) == 1 else None
    return in_unit(name, unit) if key.measure != "coefficient" else name


def _title(rows: Sequence[Row], columns: Mapping[str, Mapping[str, Any]], *, varied: bool) -> str:
    """Return what a table's numbers are, with their unit and the conditions of their part."""
    key = rows[0].key
    if varied:
        title = words(statistic(key) if not key.mixed else key.kind)
        title = of(title, key.subject) if key.measure == "level" else title
    else:
        unit = columns.get(key.terms[0], {}).get("unit_of_measure") if key.terms else None
        title = in_unit(statistic_of(key), unit if key.measure != "coefficient" else None)
    return of_part(title, key).capitalized()


def in_unit(text: Phrase, unit: str | None) -> Phrase:
    """Return what a number is with its unit, if it has one and does not end with it anyway."""
    if not unit or text.endswith((f"({unit})", f"[{unit}]")):
        return text
    return Phrase("%(text)s [%(unit)s]", {"text": text, "unit": unit})


# The same tables as files


def as_csv(pivots: Sequence[Pivot]) -> str:
    """Return tables as CSV with all digits, a line without cells between two of them.

    The heads of columns name their numbers: a line above them would be read as the header.
    """
    return "\r\n".join(csv_text(*_raw_table(each, _with_title(each))) for each in pivots)


def _with_title(pivot: Pivot) -> list[str]:
    """Return the heads of columns with the title in front; of one column it is the title anyway."""
    if not pivot.across:
        return [*pivot.heads]
    return [f"{pivot.title}, {head}" for head in _said_heads(pivot)]


def _said_heads(pivot: Pivot) -> list[str]:
    """Return the heads of columns with the group that they are values of."""
    prefix = f"{pivot.across}: " if pivot.across not in ("", NUMBER, WITH, COLUMN) else ""
    return [f"{prefix}{each}" for each in pivot.heads]


def _raw_table(pivot: Pivot, heads: Sequence[str]) -> tuple[list[str], list[list[object]]]:
    """Return a table's heads and rows with the ends of intervals in cells of their own."""
    ends = ("low", "high") if pivot.has_intervals else ()
    header = [*pivot.down]
    for head in heads:
        header += [head, *(f"{head}, {pivot.intervals}, {end}" for end in ends)]
    rows = [
        [*names, *(value for cell in cells for value in _raw(pivot, cell, len(ends)))]
        for names, cells in pivot.lines
    ]
    return header, rows


def _raw(pivot: Pivot, cell: Row | None, ends: int) -> Iterator[object]:
    if cell is None or cell.estimate is None:
        yield ""
    else:
        yield cell.estimate if cell.at_most is None else cell.shown
    yield from (pivot.interval(cell) or ("", ""))[:ends]


def as_markdown(pivots: Sequence[Pivot]) -> str:
    """Return tables as Markdown of GitHub's kind, which pandoc and Quarto read as well."""
    return "\n".join(map(_markdown_table, pivots))


def _markdown_table(pivot: Pivot) -> str:
    caption, header, *lines = _written(pivot, IN_MARKDOWN)
    dashes = ["---"] * len(pivot.down) + ["---:"] * len(pivot.heads)
    return "".join(
        [*caption, "\n\n", *(f"| {' | '.join(each)} |\n" for each in (header, dashes, *lines))]
    )


def as_latex(pivots: Sequence[Pivot]) -> str:
    """Return tables as LaTeX that needs no package."""
    return "\n".join(map(_latex_table, pivots))


def _latex_table(pivot: Pivot) -> str:
    (caption,), *lines = _written(pivot, IN_LATEX)
    header, *rest = (" & ".join(each) + r" \\" for each in lines)
    columns = "l" * len(pivot.down) + "r" * len(pivot.heads)
    return "\n".join([
        r"\begin{table}", rf"\caption{{{caption}}}", rf"\begin{{tabular}}{{{columns}}}",
        r"\hline", header, r"\hline", *rest, r"\hline", r"\end{tabular}", r"\end{table}", "",
    ])  # fmt: skip


IN_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$",
        "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "\n": " ", "\r": " ",
        "≤": r"$\leq$", "−": "$-$", "×": r"$\times$",  # what pdfLaTeX has no letter for
        "[": "{[}",  # after the end of a line it would begin an option
    }
)  # fmt: skip
IN_MARKDOWN = str.maketrans({each: f"\\{each}" for each in "\\`*_[]<>#|~"} | {"\n": " ", "\r": " "})


def _written(pivot: Pivot, escaped: Mapping[int, str]) -> list[list[str]]:
    """Return a table's caption, header and rows with what is special in a language escaped."""
    shown = f"; in parentheses the {pivot.intervals}" if pivot.has_intervals else ""
    header = [*pivot.down, *_said_heads(pivot)]
    lines = [[*own, *(_both(pivot, cell) for cell in cells)] for own, cells in pivot.lines]
    return [
        [text.translate(escaped) for text in each]
        for each in ([f"{pivot.title}{shown}"], header, *lines)
    ]


def as_word(pivots: Sequence[Pivot]) -> bytes:
    """Return tables as a Word document."""
    written = [_written(pivot, {}) for pivot in pivots]
    return word_document([(heads, rows, note) for (note,), heads, *rows in written])


def as_excel(pivots: Sequence[Pivot]) -> bytes:
    """Return tables as an Excel workbook, a sheet each with all digits, and one of their titles."""
    return workbook(
        [_raw_table(each, _said_heads(each)) for each in pivots], [each.title for each in pivots]
    )


def _text(write: Callable[[Sequence[Pivot]], str]) -> Callable[[Sequence[Pivot]], bytes]:
    return lambda pivots: write(pivots).encode()


FILES: Mapping[str, tuple[str, Callable[[Sequence[Pivot]], bytes]]] = {
    "csv": ("text/csv; charset=utf-8", _text(as_csv)),
    "xlsx": (EXCEL, as_excel),
    "md": ("text/markdown; charset=utf-8", _text(as_markdown)),
    "tex": ("application/x-tex; charset=utf-8", _text(as_latex)),
    "docx": (WORD, as_word),
}
"""The files of tables: by how their names end, their media type and what writes them."""


def _both(pivot: Pivot, cell: Row | None) -> str:
    if cell is None:
        return ""
    said = pivot.said(cell)
    return f"{cell.shown} ({said})" if said else cell.shown
