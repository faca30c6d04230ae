"""Charts of curves, with the same axes for all groups.

A row of a curve knows where it is (:attr:`app.tidy.keys.Key.at`). Curves that fall in steps are
drawn by them, with their bands, a few groups in one panel: by their distance they are compared.
One of false and true positives has a panel of its own, with the intervals of both rates and the
diagonal of a score that predicts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from markupsafe import Markup

from app.desk.charts import Scale
from app.tidy.names import Labels, label, marked
from app.tidy.rows import Row

MOST = 12
"""More panels than this make an unreadable picture; the table next to it has all numbers."""
TOGETHER = 4
"""Curves in one panel, at most: as many as have colours and dashes of their own."""
_LEFT, _RIGHT, _TITLE, _HEIGHT, _BELOW = 12.0, 95.0, 22, 180, 48
_SAMPLE = 4.0  # percent of the width; of a line in the legend
_INK, _SOFT, _LINE, _MARK, _BAND = "#1c2126", "#566069", "#d5dadf", "#1d4f8c", "#b4cdea"
_STYLES = ((_MARK, ""), ("#a3480a", "7 4"), ("#1c6b3c", "2 3"), ("#6b3fa0", "9 3 2 3"))
_WIDTHS = {"axis": (_SOFT, 1.0), "tick": (_LINE, 1.0), "line": (_MARK, 2.0), "cap": (_INK, 1.0)}

Places = Sequence[tuple[float, Mapping[str, Row]]]
"""The rows at each place of a curve, by their name there."""


def of_groups(rows: Sequence[Row]) -> Mapping[tuple[object, ...], Places]:
    """Return the curves of an answer's rows, by the place of their group in it."""
    found: dict[tuple[object, ...], dict[float, dict[str, Row]]] = {}
    for row in rows:
        if row.key.at is not None and isinstance(row.estimate, int | float):
            *above, _, name = row.key.place
            found.setdefault(tuple(above), {}).setdefault(row.key.at, {})[str(name)] = row
    return {group: sorted(each.items()) for group, each in found.items()}


def drawn(
    rows: Sequence[Row], labels: Labels, say: Callable[[str], str], about: str = ""
) -> tuple[Sequence[Markup], int, str, int]:
    """Return the parts of the curves' picture, its height, its caption, and how many it shows.

    ``about`` says which records they are of, where that is to be said.
    """
    curves = [*of_groups(rows).values()]
    parts: list[Markup] = []
    rates = all("true_positive" in names for each in curves for _, names in each)
    ends = [at for each in curves for at, _ in each]
    across = Scale(0.0, 1.0, _LEFT, _RIGHT)
    if not rates:
        across = Scale(min(0.0, *ends), max(ends), _LEFT, _RIGHT)
    size = 1 if rates else TOGETHER
    panels = [curves[at : at + size] for at in range(0, len(curves), size)][:MOST]
    top = _TITLE if about else 0
    if about:
        parts.append(_text(0.0, _TITLE - 8, say(about)))
    for panel in panels:
        parts += _legend([_title(each, labels, say) for each in panel], top)
        top += _TITLE * len(panel) + _HEIGHT
        up = Scale(0.0, 1.0, top, top - _HEIGHT)
        parts += _axes(across, up)
        for style, places in enumerate(panel):
            parts += _rates(places, across, up) if rates else _steps(places, across, up, style)
        top += _BELOW
    shown = sum(len(names) for panel in panels for places in panel for _, names in places)
    said = (
        marked(
            "Dots: true against false positives at each threshold; bars: their 95% intervals, "
            "which hold at all thresholds together; grey line: a score that predicts nothing."
        )
        if rates
        else _STEPS[any(row.confidence for row in rows)]
    )
    return parts, top, said, shown


def _legend(names: Sequence[str], top: int) -> Iterator[Markup]:
    """Yield the name of each curve, with a piece of its line where there are several."""
    for style, name in enumerate(names):
        middle, several = top + _TITLE * style + 10, len(names) > 1
        if several:
            colour, dashes = _STYLES[style]
            yield Markup(
                '<line class="line curve-{}" x1="0%" y1="{}" x2="{}%" y2="{}" stroke="{}"'
                ' stroke-width="2" stroke-dasharray="{}"/>'
            ).format(style, middle, _SAMPLE, middle, colour, dashes)
        start = _SAMPLE + 1 if several else 0.0
        yield _text(start, middle + 4, name, weight=600)


def _title(places: Places, labels: Labels, say: Callable[[str], str]) -> str:
    """Return the group of a curve, or what it is."""
    row = next(iter(places[0][1].values()))
    groups = [f"{name}={label(name, value, labels)}" for name, value in row.key.labels.items()]
    if groups:
        return ", ".join(groups)
    return say(_TITLES["true_positive" in places[0][1]])


_TITLES = {True: marked("True against false positives"), False: marked("Survival")}
"""What a curve without groups is called, by whether it is one of rates."""


_STEPS = {
    True: marked("Line: survival; shaded: its 95% band, sampling and noise together."),
    False: marked("Line: survival."),
}
"""What a curve that falls in steps shows, by whether it has a band."""


def _steps(places: Places, across: Scale, up: Scale, style: int) -> Iterator[Markup]:
    """Yield a band and a line that fall at each place."""
    survival = [(at, names["survival"]) for at, names in places if "survival" in names]
    heights = [1.0, *(float(row.estimate) for _, row in survival)]
    x = [across.low, *(at for at, _ in survival)]
    line = [(across.at(at), up.at(height)) for at, height in _stairs(x, heights)]
    if any(row.confidence for _, row in survival):
        ends = [(1.0, 1.0), *(_ends(row) for _, row in survival)]
        low, high = (_stairs(x, each) for each in zip(*ends, strict=True))
        band = [*low, *reversed([*high])]
        corners = [(across.at(at), up.at(height)) for at, height in band]
        yield _shape("polygon", "band", corners, up, style)
    yield _shape("polyline", "line", line, up, style)


def _ends(row: Row) -> tuple[float, float]:
    low, high = row.confidence or (row.estimate, row.estimate)
    return float(low), float(high)


def _stairs(x: Sequence[float], heights: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Yield the corners of a line that stays where it is until the next place."""
    yield x[0], heights[0]
    for at, before, height in zip(x[1:], heights, heights[1:], strict=False):
        yield at, before
        yield at, height


def _rates(places: Places, across: Scale, up: Scale) -> Iterator[Markup]:
    """Yield the diagonal, the curve, and the intervals of both rates at each threshold."""
    yield _line(across.at(0), up.at(0), across.at(1), up.at(1), "axis")
    points = [(1.0, 1.0), (0.0, 0.0)]
    for _, names in places:
        x, y = names["false_positive"], names["true_positive"]
        points.insert(-1, (float(x.estimate), float(y.estimate)))
        (left, right), (low, high) = _ends(x), _ends(y)
        at, height = across.at(float(x.estimate)), up.at(float(y.estimate))
        yield _line(across.at(left), height, across.at(right), height, "cap")
        yield _line(at, up.at(low), at, up.at(high), "cap")
        yield Markup('<circle class="mark" cx="{}%" cy="{}" r="3" fill="{}"/>').format(
            at, height, _MARK
        )
    yield _shape("polyline", "line", [(across.at(x), up.at(y)) for x, y in points], up)


def _axes(across: Scale, up: Scale) -> Iterator[Markup]:
    for value, words in up.ticks(4):
        yield _line(across.start, up.at(value), across.end, up.at(value), "tick")
        yield _text(across.start - 1, up.at(value) + 4, words, "end")
    for value, words in across.ticks():
        yield _text(across.at(value), up.start + 16, words, "middle")
    yield _line(across.start, up.start, across.end, up.start, "axis")


def _shape(
    shape: str, kind: str, points: Sequence[tuple[float, float]], up: Scale, style: int = 0
) -> Markup:
    """Return a line or an area; only a picture that is stretched takes percents in points."""
    height, (colour, dashes) = round(up.start) + 1, _STYLES[style]
    if kind == "band":
        painted = (colour if style else _BAND, 0.2 if style else 0.6, "none", 0.0, "")
    else:
        painted = ("none", 1.0, colour, _WIDTHS[kind][1], dashes)
    return Markup(
        '<svg class="path" width="100%" height="{0}" viewBox="0 0 100 {0}"'
        ' preserveAspectRatio="none"><{1} class="{2} curve-{3}" points="{4}" fill="{5}"'
        ' fill-opacity="{6}" stroke="{7}" stroke-width="{8}" stroke-dasharray="{9}"'
        ' vector-effect="non-scaling-stroke"/></svg>'
    ).format(
        height,
        Markup(shape),  # noqa: S704
        kind,
        style,
        " ".join(f"{x},{y}" for x, y in points),
        *painted,
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup(
        '<line class="{}" x1="{}%" y1="{}" x2="{}%" y2="{}" stroke="{}" stroke-width="{}"/>'
    ).format(kind, x1, y1, x2, y2, *_WIDTHS[kind])


def _text(x: float, y: float, said: str, anchor: str = "start", *, weight: int = 400) -> Markup:
    return Markup(
        '<text x="{}%" y="{}" text-anchor="{}" fill="{}" font-weight="{}">{}</text>'
    ).format(x, y, anchor, _INK, weight, said)
