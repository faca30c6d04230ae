"""Which number is which: every number of an answer by a structured key.

An answer's ``value`` has one of a few shapes, which nest: groups, parts of a stack, tables, cells
of a histogram, quantiles, symmetric matrices, and objects of named numbers. This file is the only
one that knows them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from numbers import Real
from typing import Any, overload

MOST_LINES = 100_000
"""Cells in a file that is made at once, and lines of a page of cells."""

Place = tuple[str | int, ...]
"""A path in an answer's ``value``: names of members, and positions in lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Which number of an answer one is.

    Attributes
    ----------
    place
        Its path in ``value``; of a fit's number, which is not there, its name alone.
    kind
        The kind of the statistic that it belongs to; in a stack, of its part.
    part
        The position of its part in a stack, from 1; None where the answer is no stack.
    group, cell
        The labels of its group, and of its cell in a histogram, by column.
    measure
        What it is of ``terms``, where the kind does not say it: ``count``, ``mean``, ``fit``.
    terms
        The columns, the coefficient or the level that it is of; empty for a count.
    subject
        The column that a quantile is of; of a curve, what its places are.
    where
        The conditions of its part in a stack, as the question has them.
    at
        Where on a curve it is.
    mixed
        Whether the answer has numbers of several statistics, as moments have counts and means.
    tested
        The value that a hypothesis says its estimate has, where the question names one.
    """

    place: Place = ()
    kind: str = ""
    part: int | None = None
    group: Mapping[str, Any] = field(default_factory=dict)
    cell: Mapping[str, Any] = field(default_factory=dict)
    measure: str = ""
    terms: tuple[str, ...] = ()
    subject: str = ""
    where: Sequence[Mapping[str, Any]] = ()
    at: float | None = None
    mixed: bool = False
    tested: float = 0.0

    @property
    def labels(self) -> Mapping[str, Any]:
        """Return the labels of its group and cell together, by column."""
        return {**self.group, **self.cell}

    @property
    def is_ratio(self) -> bool:
        """Return whether it is a ratio, for which 1 means no effect: an axis is logarithmic."""
        return self.measure in _RATIOS.values()

    @property
    def reference(self) -> float:
        """Return the value that means no effect: of a ratio 1, of a test's estimate its own."""
        if self.is_ratio:
            return 1.0
        return self.tested if self.terms == (_ESTIMATE,) else 0.0

    def below(self, *steps: str | int, **changes: Any) -> Key:
        """Return the key of what is further down the same path."""
        return replace(self, place=(*self.place, *steps), **changes)


def keys_of(shape: object, statistic: object) -> Iterator[Key]:
    """Yield the key of every number, in the answer's order.

    Parameters
    ----------
    shape
        The answer's ``value``, or anything of the same shape, as an expected error.
    statistic
        The answer's ``statistic``: it names the columns of matrices and the kinds of parts.
    """
    return _walk(shape, statistic, _asked(statistic, Key()))


def fit_key(term: Mapping[str, Any], statistic: object) -> Key:
    """Return the key of a number of a fit, as R squared, which is not in ``value``."""
    name, place = str(term["term"]), tuple(term.get("place") or ())
    own, start = statistic, Key(group=term.get("by") or {})
    if place[:1] == ("parts",):
        own = at(statistic, ("parts", place[1], "statistic"))
        start = replace(start, part=int(place[1]) + 1, where=at(own, ("where",)) or ())
    found = _asked(own, start)
    return replace(found, place=place or ("fit", name), measure="fit", terms=(name,))


def at(part: Any, place: Sequence[str | int]) -> Any:
    """Return what is at a path, or None where there is nothing.

    A table may have one number in place of its cells: that of each.
    """
    for step in place:
        try:
            part = part[step]
        except (IndexError, KeyError, TypeError):
            return part.get(place[-1]) if step == "cells" and isinstance(part, Mapping) else None
    return part


def _asked(statistic: object, key: Key) -> Key:
    """Return a key that knows which statistic it is of."""
    kind, column = at(statistic, ("kind",)), at(statistic, ("column",))
    # Groups that are compared have a difference, of which the hypothesis is always 0.
    value = None if at(statistic, ("groups",)) else at(statistic, ("value",))
    tested = float(value) if isinstance(value, Real) else 0.0
    return replace(key, kind=str(kind or ""), subject=str(column or ""), tested=tested)


def _walk(part: object, statistic: object, here: Key) -> Iterator[Key]:
    # A number that the answer does not show has a key, too; a text is a date or a moment.
    if part is None or isinstance(part, Real | str):
        if here.place or part is not None:
            yield here
    elif isinstance(part, list):
        yield from _matrix(part, statistic, here)
    elif isinstance(part, Mapping):
        here = replace(here, mixed=here.mixed or any(_is_measure(*each) for each in part.items()))
        for name, inner in part.items():
            shaped = _SHAPES.get(name)
            if shaped is not None and isinstance(inner, list | StoredTables):
                for index, each in enumerate(inner):
                    yield from shaped(each, statistic, here.below(name, index))
            elif isinstance(inner, Mapping | list):  # means, coefficients, a matrix
                yield from _walk(
                    inner, statistic, here.below(name, measure=_MEASURES.get(name, ""))
                )
            else:
                yield from _walk(inner, statistic, _named(here, name, statistic))


def _is_measure(name: str, inner: object) -> bool:
    """Return whether an object has numbers of one of its statistics below this name."""
    return name in _MIXED and isinstance(inner, Mapping | list)


def _named(here: Key, name: str, statistic: object) -> Key:
    """Return the key of a number that its object calls so: a count, or after a column."""
    columns = (*(at(statistic, ("columns",)) or ()), at(statistic, ("column",)))
    if name == "count" and not here.measure and (here.mixed or name not in columns):
        return here.below(name, measure="count")
    if here.measure == "test":
        return here.below(name, terms=(f"{here.place[-1]} {name}".replace("_", " "),))
    return here.below(name, terms=(name,))


def _matrix(rows: Sequence[Any], statistic: object, here: Key) -> Iterator[Key]:
    """Yield the keys of a symmetric matrix's upper triangle, or of the entries of a list."""
    columns = at(statistic, ("columns",))
    named = isinstance(columns, list) and len(columns) == len(rows)
    names = [str(each) for each in (columns if named and columns else range(len(rows)))]
    for i, row in enumerate(rows):
        if isinstance(row, list):
            for j in range(i, len(row)):
                yield here.below(i, j, terms=(names[i], names[j]))
        else:
            yield from _walk(row, statistic, here.below(i, terms=(str(i),)))


def _group(part: Any, statistic: object, here: Key) -> Iterator[Key]:
    inside = here.below("value", group={**here.group, **part["by"]})
    yield from _walk(at(part, ("value",)), statistic, inside)


def _cell(part: Any, _: object, here: Key) -> Iterator[Key]:
    cell = {**here.cell, **part["cell"]}
    for name in ("count", "cumulative"):
        if name in part:
            yield here.below(name, measure=name, cell=cell)


def _table(part: Any, statistic: object, here: Key) -> Iterator[Key]:
    if "cells" not in part:  # one number for all cells
        yield here.below("count", measure="count", terms=tuple(part["columns"]))
        return
    for index, each in enumerate(part["cells"]):
        yield from _cell(each, statistic, here.below("cells", index))


def _quantile(part: Any, _: object, here: Key) -> Iterator[Key]:
    yield here.below("value", measure="level", terms=(str(part["level"]),))


def _row(part: Any, _: object, here: Key) -> Iterator[Key]:
    """Yield the key of a row of a summary; of a difference its group is both groups."""
    group, column, level = dict(part["by"]), part["column"], part["level"]
    if (other := part.get("from")) is not None:
        group = {name: f"{value} - {other[name]}" for name, value in group.items()}
    measure = str(part["measure"])
    yield here.below(
        "value",
        kind=(said := measure if other is None else f"difference in {measure}"),
        group={**here.group, **group},
        cell={} if level is None else {column: level},
        measure=said if level is not None or column is None else "",
        mixed=True,
        terms=() if level is not None or column is None else (str(column),),
    )


def _curve(part: Any, _: object, here: Key) -> Iterator[Key]:
    """Yield the keys of the numbers at a place of a curve: the first of them says where."""
    (axis, place), *rest = part.items()  # the place is a decimal text, as a level is
    for name, _number in rest:
        terms = (f"{name.replace('_', ' ')} at {place}",)
        yield here.below(name, measure="curve", terms=terms, subject=axis, at=float(place))


def _component(part: Any, _: object, here: Key) -> Iterator[Key]:
    """Yield the keys of a principal component: its variance and shares, then one a column."""
    cell = {**here.cell, "component": str(int(here.place[-1]) + 1)}
    for name, inner in part.items():
        said = _OF_COMPONENTS[name]
        own = here.below(name, kind=said, measure=said, cell=cell, mixed=True)
        if isinstance(inner, Mapping):
            yield from (own.below(column, terms=(column,)) for column in inner)
        else:
            yield own


_OF_COMPONENTS = {
    "variance": "variance",
    "share": "share",
    "cumulative": "cumulative share",
    "loadings": "loading",
    "scores": "score coefficient",
}
"""The numbers of a component by their members, and what each of them is."""


def _part(part: Any, statistic: object, here: Key) -> Iterator[Key]:
    index = int(here.place[-1])
    own = at(statistic, ("parts", index, "statistic"))
    where = at(own, ("where",)) or ()
    yield from _walk(part, own, replace(_asked(own, here), part=index + 1, where=where))


# The tables of a stored answer, read one by one


class StoredTable(Mapping[str, Any]):
    """A table of a stored answer, which is read when more than its columns are looked at."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    @cached_property
    def _members(self) -> Mapping[str, Any]:
        members: Mapping[str, Any] = json.loads(self._text)
        return members

    def __getitem__(self, name: str) -> Any:
        """Return a member; the columns without reading any cell."""
        if name == "columns" and "_members" not in vars(self):
            begin = len(_TABLE) - 1
            return json.loads(self._text[begin : self._text.index(b'],"') + 1])
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of its members."""
        return iter(self._members)

    def __len__(self) -> int:
        """Return the number of its members."""
        return len(self._members)

    @property
    def size(self) -> int:
        """Return the number of its cells."""
        return self._text.count(b'{"cell":{')


class StoredTables(Sequence[Mapping[str, Any]]):
    """The tables of a stored answer, each read when it is looked at.

    A million cells are 100 MB of JSON, and as objects ten times as much. In JSON without spaces a
    table begins with ``{"columns":[``, and the last is followed by ``],"rows":``: within a text
    there is no quotation mark without a backslash.
    """

    def __init__(self, content: bytes, begin: int) -> None:
        self.begin, self.end = begin, content.index(b'],"rows":', begin)
        self._content, self._starts = content, [begin]
        while (found := content.find(_TABLE, self._starts[-1] + 1, self.end)) >= 0:
            self._starts.append(found)
        self._starts.append(self.end + 1)
        self._last: tuple[int, StoredTable] | None = None

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self._starts) - 1

    @overload
    def __getitem__(self, place: int) -> StoredTable: ...
    @overload
    def __getitem__(self, place: slice) -> list[StoredTable]: ...
    def __getitem__(self, place: int | slice) -> StoredTable | list[StoredTable]:
        """Return a table, or several."""
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        at = range(len(self))[place]
        # numbers are looked at one after another: their table is read once
        if self._last is None or self._last[0] != at:
            own = self._content[self._starts[at] : self._starts[at + 1] - 1]
            self._last = at, StoredTable(own)
        return self._last[1]


_TABLE = b'{"columns":['
_LISTS: Sequence[tuple[str, ...]] = (("value",), ("noise", "std"), ("noise", "interval_95"))
"""Where an answer of tables has a list of them."""


def read_answer(content: bytes) -> dict[str, Any]:
    """Return the members of a stored answer; one of tables has :class:`StoredTables`."""
    lists: list[StoredTables] = []
    for path in _LISTS:
        mark = b'"%s":{"tables":[' % path[-1].encode()
        found = content.find(mark + _TABLE, lists[-1].end if lists else 0)
        if found < 0 or (not lists and content.find(b'"value":{"groups":', 0, found) >= 0):
            return dict(json.loads(content))
        lists.append(StoredTables(content, found + len(mark)))
    rest: list[bytes] = []
    end = 0
    for each in lists:
        rest, end = [*rest, content[end : each.begin]], each.end
    answer: dict[str, Any] = json.loads(b"".join([*rest, content[end:]]))
    for path, tables in zip(_LISTS, lists, strict=True):
        at(answer, path)["tables"] = tables
    return answer


def with_tables(answer: Mapping[str, Any], taken: slice) -> Mapping[str, Any]:
    """Return an answer of many tables with some of them."""
    noise = answer.get("noise")
    only = None if noise is None else {name: _some(part, taken) for name, part in noise.items()}
    return {**answer, "value": _some(answer["value"], taken), "noise": only}


def _some(part: Any, taken: slice) -> Any:
    tables = at(part, ("tables",))
    return {**part, "tables": tables[taken]} if tables is not None else part


def first_tables(answer: Mapping[str, Any], cells: int) -> Mapping[str, Any]:
    """Return an answer; of many stored tables with the first, of so many cells or a few more."""
    tables = at(answer, ("value", "tables"))
    if not isinstance(tables, StoredTables):
        return answer
    ends = accumulate(map(cells_in, tables))
    taken = next((place for place, end in enumerate(ends, 1) if end >= cells), len(tables))
    return with_tables(answer, slice(taken))


def is_long(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer has so many cells that a file of them is made page by page."""
    tables = at(answer, ("value", "tables"))
    return isinstance(tables, list | StoredTables) and sum(map(cells_in, tables)) > MOST_LINES


def cells_in(table: Mapping[str, Any]) -> int:
    """Return the number of cells of a table, without reading those of a stored one."""
    return table.size if isinstance(table, StoredTable) else len(table["cells"])


_Shaped = Callable[[Any, object, Key], Iterator[Key]]
_SHAPES: Mapping[str, _Shaped] = {
    "groups": _group, "parts": _part, "tables": _table, "cells": _cell, "quantiles": _quantile,
    "rows": _row, "differences": _row,
    "curve": _curve, "components": _component,
}  # fmt: skip
_RATIOS = {
    "odds_ratios": "odds ratio", "rate_ratios": "rate ratio", "hazard_ratios": "hazard ratio",
}  # fmt: skip
_ESTIMATE = "estimate"
_MIXED = {"means": "mean", "second": "product", **_RATIOS}
"""What objects of several statistics call theirs, and the measure that it is."""
_MEASURES = {
    **_MIXED,
    "coefficients": "coefficient",
    "log_rank": "test",
}
