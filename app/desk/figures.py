"""Charts of an answer's numbers: panels of like numbers, one axis in each, a row for each number.

*Which numbers share an axis.* Those of one statistic in one unit, over all groups. Where no unit is
declared, numbers share an axis unless they differ in size by more than a factor of 20: a slope on
the axis of an intercept would be a dot at 0. Loadings of all columns share one axis, and so do
ratios, on a logarithmic one with a stronger line at 1. Counts, and shares of a variance, are bars
that begin at 0, other numbers dots.
Rows are below headings, made of all that distinguishes them but its last part.

*Colours.* No meaning depends on a colour. Elements carry the colours of the light theme as
attributes, for a picture that is downloaded; the style sheet of a page sets those of its theme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from textwrap import wrap
from typing import Any

from markupsafe import Markup

from app.desk import curves
from app.desk.charts import Scale
from app.tidy.keys import Key
from app.tidy.names import (
    Labels,
    Phrase,
    all_of,
    joined,
    label,
    labels_of,
    marked,
    of,
    own_term,
    statistic,
    statistic_of,
    where,
    with_narrowed,
    words,
)
from app.tidy.pivots import in_unit
from app.tidy.rows import CANNOT_BE_SAID, Row, with_intervals
from mechanisms.catalog import STATISTICS
from mechanisms.words import worded

MOST = 60
"""More rows than this make an unreadable picture; the table next to it has all."""
_PANELS = 12
_ALIKE = 20.0
"""How many times larger one number may be than another, of one axis and of no declared unit."""

_BARS = frozenset({"count", "share", "cumulative share"})
"""Measures that begin at 0."""
_OF_ONE_UNIT = frozenset({"loading"})
"""Measures whose numbers have no unit of their columns."""

Columns = Mapping[str, Mapping[str, Any]]
"""Declared facts of columns, as the service shows them."""
Say = Callable[[str], str]
"""What says a text in the language of a page."""
Path = Mapping[str, str]
"""What says which number one is, from the general to the particular, by what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart of numbers.

    Attributes
    ----------
    svg
        The picture, as wide as its page.
    alone
        The same picture as a file of its own, on white.
    caption
        What its marks are, in sentences.
    left_out
        How many numbers are in the table and not in the picture.
    """

    svg: Markup
    alone: Markup
    caption: str
    left_out: int


def figure(
    rows: Sequence[Row], name: str, columns: Columns, say: Say = str, said: str = ""
) -> Figure | None:
    """Return the chart of an answer's numbers, or None where none can be drawn.

    Parameters
    ----------
    rows
        The numbers.
    name
        The accessible name of the picture.
    columns
        The columns that the answer is about, with their units and the labels of their values.
    say
        What says its words in the language of a page; a file has them in English.
    said
        Which records the numbers are about, and how much each counts: the titles say it.
    """
    shown = [row for row in rows if ends_of(row) or row.note]
    charted = [*with_intervals(shown)]
    if curves.of_groups(shown):
        curve, tall, caption, count = curves.drawn(shown, labels_of(columns), say, said)
        return Figure(
            svg=_picture("100%", tall, name, curve),
            alone=_picture("720", tall, name, [_PAPER, *curve]),
            caption=caption,
            left_out=len(shown) - count,
        )
    panels = [_said(panel, say, said) for panel in _cut(_panels(charted, columns))]
    drawn = [line.row for panel in panels for line in panel.lines]
    if not any(map(ends_of, drawn)):
        return None
    height, parts = 0.0, list[Markup]()
    for panel in panels:
        own, height = _drawn(panel, height)
        parts += own
    return Figure(
        svg=_picture("100%", height, name, parts),
        alone=_picture("720", height, name, [_PAPER, *parts]),
        caption=_caption(drawn, bars={panel.bars for panel in panels}),
        left_out=len(shown) - len(drawn),
    )


_CAPTIONS = {
    "Bars and dots": marked("Bars and dots: the released numbers."),
    "Bars": marked("Bars: the released numbers."),
    "Dots": marked("Dots: the released numbers."),
}


def _caption(rows: Sequence[Row], *, bars: set[bool]) -> str:
    marks = "Bars and dots" if len(bars) > 1 else "Bars" if True in bars else "Dots"
    said: list[str] = [_CAPTIONS[marks]]
    if any(row.noise for row in rows):
        said.append(
            marked(
                "Thick lines: 95% noise interval (where the exact answer is, with 95% probability)."
            )
        )
    if any(row.confidence for row in rows):
        said.append(marked("Thin lines: 95% confidence interval, sampling and noise together."))
    if any(row.key.is_ratio for row in rows):
        said.append(marked("Ratios have a logarithmic axis: 1 means no effect."))
    for value in {row.key.reference for row in rows if not row.key.is_ratio} - {0.0}:
        said.append(
            worded("Strong line: the value of the hypothesis, %(value)s.", value=f"{value:g}")
        )
    return " ".join(said)


# Which numbers share an axis, and what their rows are called


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A row of a panel."""

    heading: str
    name: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """Numbers on one axis."""

    title: str
    lines: Sequence[_Line]
    unsaid: str = CANNOT_BE_SAID

    @property
    def bars(self) -> bool:
        """Return whether these are counts, or shares of a whole."""
        return self.lines[0].row.key.measure in _BARS

    @property
    def zero(self) -> bool:
        """Return whether the distance to 0 is what matters."""
        return self.bars or self.lines[0].row.key.measure in ("coefficient", *_OF_ONE_UNIT)

    @property
    def ratios(self) -> bool:
        """Return whether these are ratios, of which 1 means no effect."""
        return self.lines[0].row.key.is_ratio

    @property
    def reference(self) -> float:
        """Return the value that means no effect."""
        return self.lines[0].row.key.reference

    @property
    def dates(self) -> bool:
        """Return whether these are dates or moments."""
        return any(isinstance(line.row.estimate, str) for line in self.lines)


def _said(panel: _Panel, say: Say, said: str) -> _Panel:
    """Return a panel with its words in the language of a page, and which records it is about."""
    return _Panel(
        title=say(with_narrowed(panel.title, said)),
        unsaid=say(panel.unsaid),
        lines=[
            replace(line, heading=say(line.heading), name=say(line.name)) for line in panel.lines
        ],
    )


def _cut(panels: Iterable[_Panel]) -> Iterator[_Panel]:
    """Yield as many panels and rows as a picture has room for."""
    room = MOST
    for at, panel in enumerate(panels):
        if room and at < _PANELS:
            yield replace(panel, lines=panel.lines[:room])
            room -= min(room, len(panel.lines))


def _panels(rows: Sequence[Row], columns: Columns) -> list[_Panel]:
    """Return the panels of numbers, in the order of the first number of each."""
    found: dict[tuple[str, str, str | None], list[Row]] = {}
    for row in rows:
        found.setdefault(_quantity(row.key, columns), []).append(row)
    return [
        _panel(part, columns)
        for (*_, unit), like in found.items()
        for part in (_of_one_size(like) if unit is None else [like])
    ]


def _quantity(key: Key, columns: Columns) -> tuple[str, str, str | None]:
    """Return what a number is of, and its unit; None where that is not declared."""
    if key.measure == "count":
        return "count", "", ""
    if key.measure == "fit":  # R squared and a variance have nothing in common
        return statistic(key), " ".join(key.terms), ""
    if key.measure in _OF_ONE_UNIT or key.is_ratio:
        return statistic(key), key.measure, ""
    units = [_unit(columns.get(each, {})) for each in _named(key)]
    alike = key.measure != "coefficient" and None not in units
    return statistic(key), key.measure, " ".join(map(str, units)) if alike else None


def _unit(column: Mapping[str, Any]) -> str | None:
    """Return the unit of a column. Dates are of one unit, and never that of a number."""
    kind = column.get("type")
    return kind if kind in ("date", "datetime") else column.get("unit_of_measure")


def _named(key: Key) -> Sequence[str]:
    """Return the columns, or what else, that a number is of."""
    return (key.subject,) if key.measure == "level" else key.terms


def _of_one_size(rows: Sequence[Row]) -> list[list[Row]]:
    """Return numbers of no declared unit in parts of like sizes; a term stays in one part."""
    terms: dict[Sequence[str], list[Row]] = {}
    for row in rows:
        terms.setdefault(_named(row.key), []).append(row)
    sizes = {each: max(map(abs, _all_ends(terms[each])), default=0.0) for each in terms}
    part_of, part, least = dict[Sequence[str], int](), -1, 0.0
    for each in sorted(sizes, key=sizes.__getitem__):
        if part < 0 or sizes[each] > _ALIKE * least:
            part, least = part + 1, sizes[each]
        part_of[each] = part
    parts = list(dict.fromkeys(part_of[each] for each in terms))
    return [[row for row in rows if part_of[_named(row.key)] == part] for part in parts]


def _panel(rows: Sequence[Row], columns: Columns) -> _Panel:
    """Return numbers of one axis as rows that are called by what distinguishes them."""
    labels = labels_of(columns)
    paths = [_path(row.key, labels) for row in rows]
    steps = list(dict.fromkeys(step for path in paths for step in path))
    differ = [step for step in steps if len({path.get(step) for path in paths}) > 1]
    lines = [
        _Line(heading=joined(names[:-1], " · "), name=names[-1] if names else "", row=row)
        for path, row in zip(paths, rows, strict=True)
        for names in [[path[step] for step in differ if step in path]]
    ]
    if len({line.heading for line in lines}) == len(lines):  # each would have one row
        lines = [
            replace(line, heading="", name=joined(filter(None, (line.heading, line.name)), " · "))
            for line in lines
        ]
    first = {line.heading: at for at, line in reversed([*enumerate(lines)])}
    return _Panel(
        title=_title(rows[0].key, columns, paths[0], differ),
        lines=sorted(lines, key=lambda line: first[line.heading]),
    )


def _path(key: Key, labels: Labels) -> Path:
    path: dict[str, str] = {} if key.part is None else {_PART: where(key) or _ALL}
    if key.measure == "level" or (key.terms and key.measure != "count"):
        path[_TERM] = (
            own_term(key)
            if len(key.terms) == 1 and key.measure != "level"
            else all_of(key.terms, " and ")
        )
    return path | {
        column: f"{column}={value}" if value in _YES_NO else label(column, value, labels)
        for column, value in key.labels.items()
    }


_ALL = marked("all records")
_YES_NO = (True, False, "true", "false")
"""Values that say nothing without their column."""
_PART, _TERM = "\0part", "\0term"
"""Steps of a path that are no columns."""


def _title(key: Key, columns: Columns, path: Path, differ: Sequence[str]) -> str:
    """Return what the numbers of a panel are, their unit, and their groups."""
    named = _named(key)
    if key.measure == "count":
        title = words("count")
    elif _TERM not in differ:
        title = statistic_of(key)
    elif key.measure == "coefficient":
        title = marked("%(kind)s, coefficients", kind=words(key.kind))
    elif key.measure == "level":
        title = of(marked("quantiles"), key.subject)
    else:
        title = words(statistic(key))
    unit = columns.get(named[0], {}).get("unit_of_measure") if named else None
    asked = STATISTICS.get(statistic(key))
    if asked is not None and asked.in_unit_of_column:
        title = in_unit(title, unit)
    if by := [step for step in differ if step not in (_PART, _TERM)]:
        title = marked("%(text)s, by %(columns)s", text=title, columns=all_of(by, " and "))
    if fixed := [text for step, text in path.items() if step not in (*differ, _PART, _TERM)]:
        title = Phrase("%(text)s (%(inside)s)", {"text": title, "inside": joined(fixed)})
    return title.capitalized()


# What a chart has to have room for: numbers, and times as seconds


def ends_of(row: Row) -> list[float]:
    """Return every number and time of a row as numbers."""
    several = (row.estimate, *(row.noise or ()), *(row.confidence or ()))
    return [found for each in several if (found := _position(each)) is not None]


def _all_ends(rows: Iterable[Row]) -> list[float]:
    return [end for row in rows for end in ends_of(row)]


def _position(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    return None if value is None else float(value)


# The picture: positions from left to right in percent, from top to bottom in pixels

_INK, _SOFT, _LINE, _MARK, _BAR = "#1c2126", "#566069", "#d5dadf", "#1d4f8c", "#b4cdea"
_PAPER = Markup('<rect width="100%" height="100%" fill="#ffffff"/>')
_NARROW = 15
"""Names of at most this many letters are left of the marks, on a phone too; others above them."""
_GUTTER, _START, _STOP = 31.0, 4.0, 95.0
_TITLE, _ROW, _TALL_ROW, _AXIS, _GAP = 19, 24, 38, 20, 14
_LONGEST = 46
_FURTHEST = 1000.0
"""How many times the largest ratio, or what part of the smallest, an axis reaches at most."""
_BESIDES = 1.5
"""Zero is on an axis if it is within this many times the spread of the numbers."""


def _picture(width: str, height: float, name: str, parts: Iterable[Markup]) -> Markup:
    return Markup(
        '<svg class="chart" xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" role="img"'
        ' aria-label="{}" font-family="system-ui, sans-serif" font-size="12">{}</svg>'
    ).format(width, round(height), name, Markup("").join(parts))


def _drawn(panel: _Panel, top: float) -> tuple[list[Markup], float]:
    """Return a panel's parts, and how far down they go."""
    names = [line.name for line in panel.lines]
    narrow = max(map(len, names)) <= _NARROW
    scale = _scale(panel, _GUTTER if narrow and any(names) else _START)
    marks, y = list[Markup](), top
    for words_ in wrap(panel.title, _LONGEST) or [""]:
        marks.append(_text(0, y + 14, words_, kind="title"))
        y += _TITLE
    start = y
    for heading, lines in groupby(panel.lines, key=lambda line: line.heading):
        if heading:
            marks.append(_text(0, y + 16, _short(heading), kind="soft"))
            y += _ROW
        for line in lines:
            marks += _row(line, scale, y, above=not narrow, bars=panel.bars, unsaid=panel.unsaid)
            y += _ROW if narrow else _TALL_ROW
    return [*_axis(scale, panel, start, y + 2), *marks], y + 2 + _AXIS + _GAP


def _scale(panel: _Panel, start: float) -> Scale:
    """Return the axis of numbers: with 0 where there is one number, or 0 matters or is near.

    Of a test it is with the value of the hypothesis instead.
    """
    ends = _all_ends(line.row for line in panel.lines)
    if panel.ratios:
        return _scale_of_ratios(panel, ends, start)
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    none = panel.reference
    near = min(abs(low), abs(high)) <= _BESIDES * (high - low)
    if not panel.dates and (none or panel.zero or near or len(panel.lines) == 1):
        low, high = min(low, none), max(high, none)
    room = (high - low or abs(high) or 1.0) * 0.03
    return Scale(low if panel.bars and low == 0 else low - room, high + room, start, _STOP)


def _scale_of_ratios(panel: _Panel, ends: Sequence[float], start: float) -> Scale:
    """Return a logarithmic axis with 1; the ends of an interval that says nothing are beyond it."""
    numbers = [1.0, *(at for line in panel.lines if (at := _position(line.row.estimate)))]
    low = max(min(numbers) / _FURTHEST, min(1.0, *ends))
    high = min(max(numbers) * _FURTHEST, max(1.0, *ends))
    room = (high / low if high > low else 2.0) ** 0.03
    return Scale(low / room, high * room, start, _STOP, by_logarithm=True)


def _axis(scale: Scale, panel: _Panel, top: float, y: float) -> Iterator[Markup]:
    """Yield an axis with its numbers, lines up to the panel's top, and a stronger one at 0 or 1.

    That of a test is at the value of the hypothesis, which need not be a number of the axis.
    """
    none = panel.reference
    ticks = _days(scale) if panel.dates else scale.ticks()
    if none not in [value for value, _ in ticks] and none and not panel.ratios:
        yield _line(scale.at(none), top, scale.at(none), y, "zero")
    for value, label_ in ticks:
        kind = "zero" if value == none and not panel.dates else "tick"
        yield _line(scale.at(value), top, scale.at(value), y, kind)
        yield _text(scale.at(value), y + 14, label_, "middle", kind="soft")
    yield _line(scale.start, y, scale.end, y, "axis")


def _days(scale: Scale) -> list[tuple[float, str]]:
    """Return three times of an axis, as days."""
    several = [scale.low + (scale.high - scale.low) * part for part in (0.1, 0.5, 0.9)]
    return [(at, datetime.fromtimestamp(at, UTC).date().isoformat()) for at in several]


def _row(
    line: _Line, scale: Scale, top: float, *, above: bool, bars: bool, unsaid: str
) -> Iterator[Markup]:
    """Yield a number's name, its bar or dot, and its intervals."""
    y = top + (26 if above else 12)
    if line.name:
        yield _text(0, top + (14 if above else 16), _short(line.name))
    at = _position(line.row.estimate)
    if bars and at is not None:
        left, right = sorted((scale.at(0), scale.at(at)))
        yield Markup(
            '<rect class="count" x="{}%" y="{}" width="{}%" height="14" fill="{}" stroke="{}"/>'
        ).format(left, y - 7, round(right - left, 2), _BAR, _MARK)
    for kind, interval in (("noise", line.row.noise), ("confidence", line.row.confidence)):
        low, high = map(_position, interval or (None, None))
        if low is not None and high is not None:
            yield from _interval(scale.at(low), scale.at(high), y, kind)
    if at is None:
        over = line.row.noise or line.row.confidence  # a text on its interval cannot be read
        yield _text(scale.start, y - 5 if over else y + 4, unsaid, kind="soft")
    elif not bars:
        yield Markup('<circle class="mark" cx="{}%" cy="{}" r="4" fill="{}"/>').format(
            scale.at(at), y, _MARK
        )


def _interval(low: float, high: float, y: float, kind: str) -> Iterator[Markup]:
    yield _line(low, y, high, y, kind)
    if kind == "confidence":
        yield from (_line(x, y - 4, x, y + 4, "cap") for x in (low, high))


_STROKES = {
    "noise": (_INK, 5, 0.5), "confidence": (_INK, 1.5, 1), "cap": (_INK, 1.5, 1),
    "axis": (_SOFT, 1, 1), "tick": (_LINE, 1, 1), "zero": (_SOFT, 1, 1),
}  # fmt: skip


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    colour, width, opacity = _STROKES[kind]
    return Markup(
        '<line class="{}" x1="{}%" y1="{}" x2="{}%" y2="{}" stroke="{}" stroke-width="{}"'
        ' stroke-opacity="{}"/>'
    ).format(kind, x1, y1, x2, y2, colour, width, opacity)


def _text(x: float, y: float, said: str, anchor: str = "start", *, kind: str = "ink") -> Markup:
    colour, weight = _SOFT if kind == "soft" else _INK, 600 if kind == "title" else 400
    return Markup(
        '<text class="{}" x="{}%" y="{}" text-anchor="{}" fill="{}" font-weight="{}">{}</text>'
    ).format(kind, x, y, anchor, colour, weight, said)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
