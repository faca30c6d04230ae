"""A summary as the table that journals print: a column for each group, a row for each measure.

    characteristic | drug (n = 250)                       | placebo (n = 250)
    age, mean (SD) | 50.3 (12.1) [95% CI 49.1 to 51.5]    | ...
    sex: f         | 130 (52.0%) [95% CI 45.6% to 58.3%]  | ...

A table is text alone, and is written for a terminal, as Markdown, as LaTeX and as a Word document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from app.tidy.names import NO_LABELS, Labels, label
from app.tidy.pivots import IN_LATEX, IN_MARKDOWN
from app.tidy.rows import Interval, number, within

KIND = "summary"
FIRST = "Characteristic"
_NOTE = (
    "SD: standard deviation. Intervals in brackets are 95% confidence intervals, sampling error "
    "and privacy noise together."
)
_NONE = "–"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed table: its heads, its rows, whose first cell says what they are, and a note."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = _NOTE

    def text(self) -> str:
        """Return the table for a terminal."""
        lines = [self.heads, *self.rows]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.heads))]
        written = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        rule = "-" * max(map(len, written))
        return "\n".join([written[0], rule, *written[1:], rule, self.note, ""])

    def markdown(self) -> str:
        """Return the table as Markdown."""
        heads, *lines = self._translated(IN_MARKDOWN)
        rows = [heads, ["---"] * len(heads), *lines]
        table = "".join(f"| {' | '.join(line)} |\n" for line in rows)
        return f"{table}\n{self.note}\n"

    def latex(self) -> str:
        """Return the table as LaTeX that needs no package."""
        heads, *lines = (" & ".join(line) + r" \\" for line in self._translated(IN_LATEX))
        columns = "l" + "c" * (len(self.heads) - 1)
        return "\n".join([
            r"\begin{table}", rf"\begin{{tabular}}{{{columns}}}", r"\hline", heads, r"\hline",
            *lines, r"\hline", r"\end{tabular}", rf"\par {self.note}", r"\end{table}", "",
        ])  # fmt: skip

    def word(self) -> bytes:
        """Return the table as a Word document (.docx)."""
        return document(self.heads, self.rows, self.note)

    def _translated(self, escaped: Mapping[int, str]) -> list[list[str]]:
        return [[cell.translate(escaped) for cell in line] for line in (self.heads, *self.rows)]


def printed(answer: Mapping[str, Any]) -> Printed | None:
    """Return the table of a released summary; None for any other answer."""
    asked, value = answer.get("statistic") or {}, answer.get("value")
    if asked.get("kind") != KIND or not value:
        return None
    labels: Labels = answer.get("labels") or NO_LABELS
    rows: Sequence[Row] = value["rows"]
    contrasts: Sequence[Row] = value.get("differences") or ()
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
    return Printed(
        heads=(FIRST, *(_head(each, counted.get(each)) for each in groups), *pairs),
        rows=tuple(_lines(cells, [*groups, *pairs], labels)),
    )


def _group(row: Row, labels: Labels) -> str:
    return ", ".join(label(name, value, labels) for name, value in row["by"].items()) or "All"


def _pair(row: Row, labels: Labels) -> str:
    return f"{_group(row, labels)} − {_group({'by': row['from']}, labels)}"


def _head(group: str, counted: Row | None) -> str:
    return group if counted is None else f"{group} (n = {number(counted['value'])})"


def _lines(
    cells: Mapping[tuple[Any, ...], Mapping[str, Row]], names: Sequence[str], labels: Labels
) -> Sequence[tuple[str, ...]]:
    found = []
    for (column, measure, level), own in cells.items():
        write = _WRITTEN.get(measure)
        if write is None:  # it is in the cell of another measure
            continue
        called, of = write
        head = (
            f"{column}, {called}" if level is None else f"{column}: {label(column, level, labels)}"
        )
        partner = {name: cells.get((column, of, level), {}).get(name) for name in names}
        quartiles = [
            cells.get((column, each, level), {}) for each in ("lower_quartile", "upper_quartile")
        ]
        found.append(
            (head, *(_cell(measure, own.get(name), partner[name],
                           [each.get(name) for each in quartiles]) for name in names))
        )  # fmt: skip
    return found


_WRITTEN: Mapping[str, tuple[str, str]] = {
    "mean": ("mean (SD)", "sd"),
    "median": ("median (quartiles)", "median"),
    "share": ("", "count"),
}
"""Measures that have a row: what it is called, and the measure that is in its cells too."""


def _cell(measure: str, row: Row | None, other: Row | None, quartiles: Sequence[Row | None]) -> str:
    if row is None or row["value"] is None:
        return _NONE
    interval = _interval(row)
    percent = measure == "share"
    text = _percent(row["value"]) if percent else within(row["value"], interval)
    if percent and other is not None:
        text = f"{number(other['value'])} ({text})"
    elif measure == "mean" and other is not None:
        text = f"{text} ({within(other['value'], _interval(other))})"
    elif measure == "median" and None not in quartiles:
        ends = [within(each["value"], interval) for each in quartiles if each is not None]
        text = f"{text} ({ends[0]} to {ends[1]})"
    if interval is None:
        return text
    low, high = (
        [_percent(end) for end in interval]
        if percent
        else [within(end, interval) for end in interval]
    )
    return f"{text} [{low} to {high}]"


def _interval(row: Row) -> Interval | None:
    ends = row.get("interval")
    return None if ends is None else (ends[0], ends[1])


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


# A Word document: the least of Office Open XML that a .docx file needs (ECMA-376). The same table
# has the same bytes: members of the archive have a fixed date.

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_BEGUN = (1980, 1, 1, 0, 0, 0)  # the earliest date that a ZIP file can state
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_OFFICE = "http://schemas.openxmlformats.org"
_TYPES = (
    f'{_HEAD}<Types xmlns="{_OFFICE}/package/2006/content-types">'
    '<Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/word/document.xml" ContentType="{WORD}.main+xml"/></Types>'
)
_RELATIONS = (
    f'{_HEAD}<Relationships xmlns="{_OFFICE}/package/2006/relationships">'
    '<Relationship Id="rId1" '
    f'Type="{_OFFICE}/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)


def document(heads: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> bytes:
    """Return a Word file of a table with a rule above and below its heads and at its end."""
    last = len(rows) - 1
    lines = [_row(heads, top=True, bottom=True, bold=True)]
    lines += [_row(row, bottom=at == last) for at, row in enumerate(rows)]
    grid = "<w:gridCol/>" * len(heads)
    body = (
        f'<w:tbl><w:tblPr><w:tblW w:w="0" w:type="auto"/></w:tblPr><w:tblGrid>{grid}</w:tblGrid>'
        f"{''.join(lines)}</w:tbl>{_paragraph(note)}<w:sectPr/>"
    )
    written = (
        f'{_HEAD}<w:document xmlns:w="{_OFFICE}/wordprocessingml/2006/main">'
        f"<w:body>{body}</w:body></w:document>"
    )
    parts = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _RELATIONS,
        "word/document.xml": written,
    }
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        for name, text in parts.items():
            member = ZipInfo(name, date_time=_BEGUN)
            member.compress_type = ZIP_DEFLATED
            archive.writestr(member, text)
    return file.getvalue()


def _row(
    cells: Sequence[str], *, top: bool = False, bottom: bool = False, bold: bool = False
) -> str:
    rules = "".join(
        f'<w:{side} w:val="single" w:sz="6" w:space="0" w:color="auto"/>'
        for side, drawn in (("top", top), ("bottom", bottom))
        if drawn
    )
    borders = f"<w:tcBorders>{rules}</w:tcBorders>" if rules else ""
    return "".join(
        [
            "<w:tr>",
            *(
                f"<w:tc><w:tcPr>{borders}</w:tcPr>{_paragraph(cell, bold=bold)}</w:tc>"
                for cell in cells
            ),
            "</w:tr>",
        ]
    )


def _paragraph(text: str, *, bold: bool = False) -> str:
    style = "<w:rPr><w:b/></w:rPr>" if bold else ""
    # Indented rows begin with spaces, which XML would drop; control characters it does not have.
    plain = "".join(each for each in text if each >= " ")
    return f'<w:p><w:r>{style}<w:t xml:space="preserve">{escape(plain)}</w:t></w:r></w:p>'
