r"""The rows of a summary: read off the answer to a stack, and made to agree with one another.

*Agreement.* A group's records are counted several times: by its count c with variance v, and by the
cells of each category, h_1, ..., h_k with variance w each. Least squares of independent noise gives

    n = (c / v + sum_t H_t / (k_t w_t)) / (1 / v + sum_t 1 / (k_t w_t)),   H_t the sum of table t,
    h_i + (n - H) / k   for each cell of a table,

so the cells of every category add up to the same n (Gauss and Markov). They are rounded to whole
numbers that do so too, by largest remainders. A category whose missing values leave records out
is not made to agree: its shares are of the records that have a value.

*Intervals.* A mean's and a quartile's are confidence intervals of the release's own inference:
sampling error and privacy noise together. A standard deviation's and a count's are noise intervals:
of the records themselves. The noise of cells and shares is stated as it is before they agree, which
makes them nearer to the truth. A share's combines Wilson's interval (1927) with the interval of the
noise, and a difference's those of its two numbers, by

    L = d - sqrt((a - l_a)**2 + (u_b - b)**2),   U = d + sqrt((u_a - a)**2 + (b - l_b)**2)

(Zou & Donner 2008), for numbers whose errors are independent: of other records, with other noise.
Where counts of groups are drawn jointly, the noise of two groups is negatively correlated, by at
most one half, and the interval of a difference of shares is then up to 1.2 times too short in its
noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import floor, sqrt
from typing import Any, cast

from mechanisms.contract import (
    IN_CONFIDENCE,
    Edge,
    Inference,
    Json,
    Noise,
    Outcome,
    Statistic,
    Term,
)
from mechanisms.derivations import derive, parts_of
from mechanisms.domain import CategoryColumn, Column, Schema
from mechanisms.presentation import with_edges
from mechanisms.statistics.facts.readings import Released
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.stack import Stack
from mechanisms.statistics.std import Std

_NOTHING = 1e-6  # a standard deviation that is less leaves counts exact
_Z = 1.959964  # the 97.5% quantile of a normal variable
_QUARTILES = ("lower_quartile", "median", "upper_quartile")
_COMPARED = frozenset({"mean", "median", "share"})
"""Measures that have differences between groups."""
_METHOD_OF_SHARES = (
    "shares by Wilson's interval combined with that of the noise (Zou & Donner 2008), for rows "
    "drawn independently"
)

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One row: what it is of, and where its number is in the stack's answer.

    ``part`` is None where the number is public. ``path`` leads to it in the part's answer about one
    group; of a standard deviation or a share to what it is computed from.
    """

    group: int
    by: Mapping[str, str]
    column: str | None
    measure: str
    level: str | None = None
    part: int | None = None
    path: tuple[str | int, ...] = ()

    @property
    def labels(self) -> dict[str, object]:
        """Return the members of the row that say what it is."""
        return {
            "by": dict(self.by),
            "column": self.column,
            "measure": self.measure,
            "level": self.level,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A row's number, and what is known of its error."""

    value: float | None
    std: float | None = None
    noise: Interval | None = None
    confidence: Interval | None = None
    edge: str | None = None
    """Why it is no estimate, where it was clamped."""

    @property
    def interval(self) -> Interval | None:
        """Return the interval that the row shows."""
        return self.confidence or self.noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The rows of an answer in their order, and the pairs of rows that are compared.

    ``agreeing`` are the parts that count the same records as the count, and ``tables`` all parts
    that are histograms, with the number of their cells.
    """

    slots: tuple[Slot, ...]
    pairs: tuple[tuple[int, int], ...]
    groups: int
    grouped: bool
    known_rows: int | None
    count: int | None
    tables: Mapping[int, int]
    agreeing: frozenset[int] = field(default_factory=frozenset)

    @classmethod
    def of(
        cls,
        stack: Stack,
        measured: Sequence[tuple[str, str]],
        *,
        counted: Statistic,
        schema: Schema,
        labels: Sequence[Mapping[str, str]],
        columns: Mapping[str, Column],
        shows_count: bool,
        known_rows: int | None,
        differences: bool,
    ) -> Layout:
        """Return the rows of a stack whose parts have these measures of these columns.

        ``counted`` is a count of the same records, whether or not it is a part.
        """
        count = next((at for at, (each, _) in enumerate(measured) if each == "n"), None)
        slots: list[Slot] = []
        if shows_count:
            slots += _of_each(labels, column=None, measure="n", part=count, path=("count",))
        tables = {}
        for at, (each, name) in enumerate(measured):
            if each == "n":
                continue
            if each == "share":
                tables[at] = _cells(columns[name])
            for measure, level, path in _ROWS[each](name, columns[name]):
                slots += _of_each(
                    labels, column=name, measure=measure, level=level, part=at, path=path
                )
        base = _excluded(counted, schema)
        return cls(
            slots=tuple(slots),
            pairs=tuple(_pairs(slots)) if differences else (),
            groups=len(labels),
            grouped=bool(labels[0]),
            known_rows=known_rows,
            count=count,
            tables=tables,
            agreeing=frozenset(
                at for at in tables if _excluded(stack.parts[at].statistic, schema) == base
            ),
        )

    def in_group(self, tree: Any, group: int) -> Any:
        """Return the part of a tree that is about one group; None where there is no tree."""
        if tree is None or not self.grouped:
            return tree
        return tree["groups"][group]["value"]

    def tree(self, values: Sequence[object], contrasts: Sequence[object]) -> Json:
        """Return values as rows with their labels."""
        found: dict[str, object] = {
            "rows": [
                {**slot.labels, "value": value}
                for slot, value in zip(self.slots, values, strict=True)
            ]
        }
        if self.pairs:
            found["differences"] = [
                {**self._labels_of(pair), "value": value}
                for pair, value in zip(self.pairs, contrasts, strict=True)
            ]
        return found

    def _labels_of(self, pair: tuple[int, int]) -> dict[str, object]:
        one, other = (self.slots[at] for at in pair)
        return {**one.labels, "from": dict(other.by)}

    def previewed(self, noise: Noise, rows: int | None) -> Noise:
        """Return the law of the rows' noise before a draw, from that of the stack.

        A share's is that of its count over the records of a group, if all groups have as many of
        ``rows``. A standard deviation's and a difference's are not stated, nor a quartile's.
        """
        each = max((rows or 1) / self.groups, 1.0)

        def read(tree: Json, public: Any, over: Callable[[Any], Any]) -> Json:
            def number(slot: Slot) -> Any:
                if slot.part is None:
                    return public
                part = cast(Any, tree)["parts"][slot.part]
                found = _at(self.in_group(part, slot.group), slot.path or (_ABSENT,))
                return over(found) if slot.measure == "share" else found

            return self.tree([number(slot) for slot in self.slots], [None] * len(self.pairs))

        return Noise(
            std=read(noise.std, 0.0, lambda std: std / each),
            interval_95=read(
                noise.interval_95, [0.0, 0.0], lambda ends: [end / each for end in ends]
            ),
        )

    def of_errors(
        self, trees: Mapping[tuple[int, bool], Json | None], sizes: Sequence[float]
    ) -> Json:
        """Return the rows' expected errors; ``sizes`` are those of the groups."""

        def error(slot: Slot) -> float | None:
            if slot.part is None:
                return 0.0
            spread = slot.measure == "sd"
            tree = self.in_group(trees[slot.part, spread], slot.group)
            found = _at(tree, (str(slot.column),) if spread else slot.path)
            if slot.measure == "share" and found is not None:
                return min(float(found) / max(sizes[slot.group], 1.0), 1.0)
            return cast("float | None", found)

        errors = [error(slot) for slot in self.slots]
        both = [(errors[one], errors[other]) for one, other in self.pairs]
        return self.tree(
            errors, [None if a is None or b is None else sqrt(a * a + b * b) for a, b in both]
        )

    def of_ranges(self, trees: Mapping[tuple[int, bool], Json | None]) -> Json:
        """Return the possible ranges of the rows' numbers; None of a public number."""

        def ends(slot: Slot) -> Any:
            if slot.measure == "share":
                return [0.0, 1.0]
            if slot.part is None:
                return None
            spread = slot.measure == "sd"
            tree = self.in_group(trees[slot.part, spread], slot.group)
            return _at(tree, (str(slot.column),) if spread else slot.path)

        ranges = [ends(slot) for slot in self.slots]
        widths = [ranges[one] for one, _ in self.pairs]
        return self.tree(
            ranges,
            [None if each is None else [each[0] - each[1], each[1] - each[0]] for each in widths],
        )


def _of_each(labels: Sequence[Mapping[str, str]], **fields: Any) -> list[Slot]:
    return [Slot(group=at, by=by, **fields) for at, by in enumerate(labels)]


_Measured = Sequence[tuple[str, str | None, tuple[str | int, ...]]]
"""Of each number of a part: its measure, its level, and its path in the part's answer."""


def _rows_of_moments(name: str, _: Column) -> _Measured:
    return [("mean", None, ("means", name)), ("sd", None, ())]


def _rows_of_quartiles(_name: str, _: Column) -> _Measured:
    return [(measure, None, ("quantiles", at, "value")) for at, measure in enumerate(_QUARTILES)]


def _rows_of_cells(_name: str, column: Column) -> _Measured:
    return [
        (measure, level, ("cells", at, "count"))
        for at, level in _levels(column)
        for measure in ("count", "share")
    ]


_ROWS: Mapping[str, Callable[[str, Column], _Measured]] = {
    "mean_sd": _rows_of_moments,
    "median_iqr": _rows_of_quartiles,
    "share": _rows_of_cells,
}


def _levels(column: Column) -> Sequence[tuple[int, str]]:
    """Return the cells of a column that have rows: of a boolean the one of true."""
    if isinstance(column, CategoryColumn):
        return list(enumerate(column.values))
    return [(1, "true")]


def _cells(column: Column) -> int:
    return len(column.values) if isinstance(column, CategoryColumn) else 2


def _excluded(statistic: Any, schema: Schema) -> frozenset[str]:
    """Return the columns whose missing values leave records out of a part."""
    facts = viewed(statistic, schema).facts
    return frozenset(cast(Sequence[str], facts.get("excludes_missing", ())))


def _pairs(slots: Sequence[Slot]) -> Sequence[tuple[int, int]]:
    """Return the rows of the other groups, each with the same row of the first group."""
    first = {
        (slot.column, slot.measure, slot.level): at
        for at, slot in enumerate(slots)
        if slot.group == 0
    }
    return [
        (at, first[slot.column, slot.measure, slot.level])
        for at, slot in enumerate(slots)
        if slot.group and slot.measure in _COMPARED
    ]


_ABSENT = "absent"
"""A step of a path to a number that a part's answer does not have: it is computed."""


def _at(tree: Any, path: Sequence[str | int]) -> Any:
    """Return what is at a path; None where there is nothing."""
    for step in path:
        if tree is None or step == _ABSENT:
            return None
        tree = tree[step]
    return tree


# From a released stack to rows


def outcome(layout: Layout, released: Released, schema: Schema) -> Outcome:
    """Return the rows of a released stack, their noise and their inference."""
    parts = list(parts_of(released))
    read = _Read(layout=layout, parts=parts, schema=schema)
    numbers = [read.number(slot) for slot in layout.slots]
    contrasts = [difference(numbers[one], numbers[other]) for one, other in layout.pairs]
    value = layout.tree([each.value for each in numbers], [each.value for each in contrasts])
    _add_intervals(value, "rows", numbers)
    _add_intervals(value, "differences", contrasts)
    return Outcome(
        value=value,
        noise=Noise(
            std=layout.tree([each.std for each in numbers], [each.std for each in contrasts]),
            interval_95=layout.tree(
                [_listed(each.noise) for each in numbers],
                [_listed(each.noise) for each in contrasts],
            ),
        ),
        inference=_inference(layout, numbers, contrasts, read),
        edges=(*_edges("rows", numbers), *_edges("differences", contrasts)),
    )


def _edges(name: str, numbers: Sequence[Number]) -> Iterator[Edge]:
    for at, number in enumerate(numbers):
        if number.edge is not None:
            yield Edge(place=(name, at, "value"), reason=number.edge)


def _listed(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [*interval]


def _add_intervals(value: Json, name: str, numbers: Sequence[Number]) -> None:
    """Add to each row its interval, and what that is of."""
    listed = cast(Sequence[dict[str, object]], value.get(name, ()))
    for row, number in zip(listed, numbers, strict=False):
        row["interval"] = _listed(number.interval)
        row["interval_of"] = "population" if number.confidence else "data"


def difference(one: Number, other: Number) -> Number:
    """Return the difference of two independent numbers, with intervals (Zou & Donner 2008)."""
    if one.value is None or other.value is None:
        return Number(value=None)
    d = one.value - other.value
    both_std = one.std is not None and other.std is not None
    return Number(
        value=d,
        std=sqrt(cast(float, one.std) ** 2 + cast(float, other.std) ** 2) if both_std else None,
        noise=_combined(d, (one.value, one.noise), (other.value, other.noise)),
        confidence=_combined(d, (one.value, one.confidence), (other.value, other.confidence)),
        edge=one.edge or other.edge,
    )


def _combined(
    d: float, one: tuple[float, Interval | None], other: tuple[float, Interval | None]
) -> Interval | None:
    (a, of_a), (b, of_b) = one, other
    if of_a is None or of_b is None:
        return None
    low = sqrt((a - of_a[0]) ** 2 + (of_b[1] - b) ** 2)
    high = sqrt((of_a[1] - a) ** 2 + (b - of_b[0]) ** 2)
    return d - low, d + high


def _inference(
    layout: Layout, numbers: Sequence[Number], contrasts: Sequence[Number], read: _Read
) -> Inference | None:
    listed = [
        *((("rows", at, "value"), slot, each)
          for at, (slot, each) in enumerate(zip(layout.slots, numbers, strict=True))),
        *((("differences", at, "value"), layout.slots[pair[0]], each)
          for at, (pair, each) in enumerate(zip(layout.pairs, contrasts, strict=True))),
    ]  # fmt: skip
    terms = tuple(
        Term(
            term=slot.measure if slot.column is None else f"{slot.measure} of {slot.column}",
            estimate=each.value if each.edge is None else None,
            reason=None if each.edge is None else IN_CONFIDENCE,
            std_error=(each.confidence[1] - each.confidence[0]) / (2 * _Z),
            confidence_95=each.confidence,
            noise_95=each.noise,
            by=slot.by,
            place=place,
        )
        for place, slot, each in listed
        if each.confidence is not None
    )
    if not terms:
        return None
    return Inference(terms=terms, method="; ".join(read.methods), cost=read.cost)


@dataclass(slots=True, kw_only=True)
class _Read:
    """The numbers of a released stack, each part read once."""

    layout: Layout
    parts: Sequence[Released]
    schema: Schema
    _known: dict[tuple[int, type], Outcome] = field(default_factory=dict)
    _agreed: dict[int, Agreed] = field(default_factory=dict)

    @property
    def methods(self) -> Sequence[str]:
        """Return how the intervals were made, each once."""
        made = [part.inference for part in self.parts]
        made += [answer.inference for answer in self._known.values()]
        shares = [_METHOD_OF_SHARES] if self.layout.tables else []
        return [*dict.fromkeys([each.method for each in made if each is not None]), *shares]

    @property
    def cost(self) -> str:
        """Return what of epsilon the intervals cost."""
        costs = [part.inference.cost for part in self.parts if part.inference is not None]
        return " + ".join(costs) or "0"

    def number(self, slot: Slot) -> Number:
        """Return a row's number."""
        if slot.measure in ("n", "count", "share"):
            return self._counted(slot)
        part = self.parts[cast(int, slot.part)]
        if slot.measure == "mean":
            return self._derived(slot, Mean)
        if slot.measure == "sd":
            return self._derived(slot, Std)
        return self._of(slot, part, slot.path)

    def _derived(self, slot: Slot, kind: Any) -> Number:
        at = cast(int, slot.part)
        asked = cast(Any, self.parts[at].statistic)
        if (at, kind) not in self._known:
            wanted = kind(
                columns=asked.columns, derive=asked.derive, where=asked.where, by=asked.by
            )
            found = derive(wanted, self.parts[at], self.schema)
            if kind is Std:  # its interval for the population is several times as wide
                found = replace(found, inference=None)
            self._known[at, kind] = with_edges(found, wanted)
        return self._of(slot, self._known[at, kind], (str(slot.column),))

    def _of(self, slot: Slot, answer: Outcome | Released, path: Sequence[str | int]) -> Number:
        layout, group = self.layout, slot.group
        prefix = ("groups", group, "value") if layout.grouped else ()
        terms = () if answer.inference is None else answer.inference.terms
        term = next((each for each in terms if each.place == (*prefix, *path)), None)
        edges = answer.edges if isinstance(answer, Outcome) else ()
        edge = next((each.reason for each in edges if each.place == (*prefix, *path)), None)
        noise = answer.noise
        std, ends = (
            (None, None)
            if noise is None
            else (
                _at(layout.in_group(noise.std, group), path),
                _at(layout.in_group(noise.interval_95, group), path),
            )
        )
        return Number(
            value=float(_at(layout.in_group(answer.value, group), path)),
            std=std,
            noise=None if ends is None else (float(ends[0]), float(ends[1])),
            confidence=None if term is None else term.confidence_95,
            edge=edge,
        )

    # Counts and shares

    def _counted(self, slot: Slot) -> Number:
        found = self._agreement(slot.group)
        if slot.measure == "n":
            return _exactly(found.rows, found.std, found.half)
        at = cast(int, slot.part)
        cell = int(slot.path[1])
        table = found.tables[at]
        if slot.measure == "count":
            return _exactly(table.cells[cell], table.std, table.half)
        return table.share(cell, independent=self.schema.protects.rows == 1)

    def _agreement(self, group: int) -> Agreed:
        if group not in self._agreed:
            layout = self.layout
            counted = None
            if layout.count is not None:
                counted = self._laws(layout.count, group, ("count",))
            elif layout.known_rows is not None:
                counted = float(layout.known_rows), 0.0, 0.0
            tables = {
                at: [self._laws(at, group, ("cells", cell, "count")) for cell in range(cells)]
                for at, cells in layout.tables.items()
            }
            self._agreed[group] = agreed(counted, tables, layout.agreeing)
        return self._agreed[group]

    def _laws(self, at: int, group: int, path: Sequence[str | int]) -> Law:
        """Return a count, the standard deviation of its noise, and half its interval."""
        part, layout = self.parts[at], self.layout
        noise = cast(Noise, part.noise)
        low, high = _at(layout.in_group(noise.interval_95, group), path)
        return (
            float(_at(layout.in_group(part.value, group), path)),
            float(_at(layout.in_group(noise.std, group), path)),
            (high - low) / 2,
        )


def _exactly(value: float, std: float, half: float) -> Number:
    return Number(value=value, std=std, noise=(value - half, value + half))


# Agreement of counts

_WEIGHTS = 1 << 20
Law = tuple[float, float, float]
"""A count, the standard deviation of its noise, and half the width of its 95% interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The cells of a category in a group, and their total; ``std`` and ``half`` are of a cell."""

    cells: Sequence[float]
    std: float
    half: float
    total: float
    total_std: float
    total_half: float

    def share(self, cell: int, *, independent: bool) -> Number:
        """Return a cell's share of the total, which counts as 1 where it is less."""
        n = max(self.total, 1.0)
        p = self.cells[cell] / n if self.total >= 1 else min(max(self.cells[cell], 0.0), 1.0)
        std = sqrt(self.std**2 + (p * self.total_std) ** 2) / n
        half = sqrt(self.half**2 + (p * self.total_half) ** 2) / n
        confidence = None
        if independent:
            low, high = _wilson(min(max(p, 0.0), 1.0), n)
            spread = sqrt((max(p, 0.0) - low) ** 2 + half**2) if p > 0 else half
            above = sqrt((high - min(p, 1.0)) ** 2 + half**2)
            confidence = max(min(p, 1.0) - spread, 0.0), min(max(p, 0.0) + above, 1.0)
        return Number(value=p, std=std, noise=(p - half, p + half), confidence=confidence)


def _wilson(p: float, n: float) -> Interval:
    """Return Wilson's 95% interval of a share."""
    centre = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    reach = _Z * sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
    return centre - reach, centre + reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The records of a group, and its tables; ``std`` and ``half`` are of the records."""

    rows: float
    std: float
    half: float
    tables: Mapping[int, Table]


def agreed(
    counted: Law | None, tables: Mapping[int, Sequence[Law]], agreeing: frozenset[int]
) -> Agreed:
    """Return counts that agree with one another, by least squares, as whole numbers.

    Counts are added and compared as rationals: a tie is one on every machine.

    Parameters
    ----------
    counted
        The count of the group, with a standard deviation of 0 where it is public; None where it is
        not counted but by its tables.
    tables
        The cells of each category.
    agreeing
        The tables that are of all its records.
    """
    sums = [_summed(cells) for at, cells in tables.items() if at in agreeing]
    n, std, half = _mean_of([*([] if counted is None else [counted]), *sums])
    rows = float(round(n))
    found = {}
    for at, cells in tables.items():
        total, total_std, total_half = _summed(cells)
        numbers = [value for value, _, _ in cells]
        if at in agreeing:
            moved = (n - Fraction(total)) / len(cells)
            numbers = rounded([Fraction(value) + moved for value in numbers], int(rows))
            total, total_std, total_half = rows, std, half
        found[at] = Table(
            cells=numbers,
            std=cells[0][1],
            half=cells[0][2],
            total=total,
            total_std=total_std,
            total_half=total_half,
        )
    return Agreed(rows=rows, std=std, half=half, tables=found)


def _summed(cells: Sequence[Law]) -> Law:
    """Return the sum of independent counts of one law."""
    root = sqrt(len(cells))
    _, std, half = cells[0]
    return sum(value for value, _, _ in cells), root * std, root * half


def _mean_of(laws: Sequence[Law]) -> tuple[Fraction, float, float]:
    """Return the mean of independent counts by weights 1 / variance; (0, 0, 0) of none.

    Weights are whole parts of the largest, so that laws whose variances differ by an error of
    floats have the same.
    """
    if not laws:
        return Fraction(0), 0.0, 0.0
    exact = next((law for law in laws if law[1] <= _NOTHING), None)
    if exact is not None:
        return Fraction(exact[0]), exact[1], exact[2]
    least = min(std for _, std, _ in laws)
    weights = [max(round(_WEIGHTS * (least / std) ** 2), 1) for _, std, _ in laws]
    whole = sum(weights)
    shares = [weight / whole for weight in weights]
    value = sum(
        (weight * Fraction(law[0]) for weight, law in zip(weights, laws, strict=True)), Fraction(0)
    )
    variance = sum((share * law[1]) ** 2 for share, law in zip(shares, laws, strict=True))
    spread = sum((share * law[2]) ** 2 for share, law in zip(shares, laws, strict=True))
    return value / whole, sqrt(variance), sqrt(spread)


def rounded(numbers: Sequence[Fraction], total: int) -> list[float]:
    """Return whole numbers near these that add up to a total, by largest remainders.

    >>> rounded([Fraction(3, 2), Fraction(9, 4), Fraction(13, 4)], 7)
    [2.0, 2.0, 3.0]
    """
    whole = [floor(number) for number in numbers]
    order = sorted(range(len(numbers)), key=lambda at: whole[at] - numbers[at])
    missing = total - sum(whole)
    for turn in range(abs(missing)):
        at = order[turn % len(order)] if missing > 0 else order[-1 - turn % len(order)]
        whole[at] += 1 if missing > 0 else -1
    return [float(each) for each in whole]
