"""Who a person is in a data set where one person may have several rows: all of it public.

A column of the file identifies the person of a row. Of a person's rows at most ``max_rows`` are
kept, or ``reduce`` makes one row of all of them. Without such a declaration one row is one person.

*When an answer may leave: at moments that public facts alone decide.* How long an exact draw takes
says something about the noise drawn, and, for some statistics, about the data. So an answer waits
for a tick of a public clock. Times are milliseconds since 1970 in UTC; ticks are the multiples of
the slot, the same for every server process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from mechanisms.privacy import MOST_ROWS_OF_ONE, ONE_ROW, Adjacency, Protected
from mechanisms.words import worded

# When an answer may leave: at moments that public facts alone decide


@dataclass(frozen=True, slots=True)
class Schedule:
    """The moments ``start + wait``, ``start + 2 wait``, ``start + 4 wait``, ... of one answer.

    The first is the answer's public deadline. One that is not ready by then
    leaves at a later one, which reveals the time it took to a factor of two and
    no better. With ``wait`` 0 an answer leaves when it is ready.
    """

    start_ms: int
    wait_ms: int

    @property
    def deadline_ms(self) -> int:
        """Return the first of the moments."""
        return self.start_ms + self.wait_ms

    def first_from(self, moment_ms: int) -> int:
        """Return the first of the moments that is not before this one.

        >>> [Schedule(1000, 200).first_from(ready) for ready in (0, 1200, 1201, 1500, 1801)]
        [1200, 1200, 1400, 1800, 2600]
        """
        if self.wait_ms == 0:
            return moment_ms
        leaves = self.deadline_ms
        while leaves < moment_ms:
            leaves += leaves - self.start_ms
        return leaves


def response_schedule(*, arrived_ms: int, slot_ms: int) -> Schedule:
    """Return when the answer to a request may leave.

    Its deadline is the first tick that is at least one full slot after the
    arrival. The next tick would not do: how often a draw just misses it reveals
    how long draws take. Every later moment is a tick too.

    >>> response_schedule(arrived_ms=1001, slot_ms=100)
    Schedule(start_ms=1000, wait_ms=200)
    """
    if slot_ms == 0:
        return Schedule(arrived_ms, 0)
    next_tick = -(-arrived_ms // slot_ms) * slot_ms
    return Schedule(next_tick - slot_ms, 2 * slot_ms)


# Who a person is in a data set where one person may have several rows: all of it public

Reducer = Literal["sum", "mean", "min", "max", "count", "first", "last"]
REDUCERS: tuple[Reducer, ...] = get_args(Reducer)
IdKind = Literal["number", "text"]
OTHERWISE: Reducer = "last"
"""What becomes of a column that ``reduce`` does not name."""

_NOT_OFFERED: Mapping[str, frozenset[Reducer]] = {
    "boolean": frozenset({"sum", "mean", "count"}),
    "category": frozenset({"sum", "mean", "min", "max", "count"}),
    "date": frozenset({"sum", "count"}),
    "datetime": frozenset({"sum", "count"}),
}
"""What cannot be made of a column of this type; numbers can have all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSpec:
    """A person: the column of the file that names them, and what becomes of their rows.

    ``max_rows`` is None only with ``reduce``, which says by column what is made of a person's
    cells. ``na`` are missing ids. ``id`` says whether ids are numbers or texts,
    None that an id is a number where it reads as one without leading zeros. ``decimal`` is their
    decimal mark.
    """

    column: str
    max_rows: int | None
    reduce: Mapping[str, Reducer] | None = None
    na: tuple[str, ...] = ()
    id: IdKind | None = None
    decimal: str = "."

    @property
    def kept_rows(self) -> int:
        """Return how many rows of one person are stored at most."""
        return 1 if self.reduce is not None else (self.max_rows or 1)

    @property
    def counted(self) -> frozenset[str]:
        """Return the columns that count a person's rows; the file need not have them."""
        return frozenset(name for name, how in (self.reduce or {}).items() if how == "count")

    @property
    def protected(self) -> Protected:
        """Return whom releases protect."""
        if self.reduce is not None:
            return Protected(1, worded("one person, whose rows are reduced to one"))
        rows = self.kept_rows
        kept = (
            worded("one person, up to 1 row")
            if rows == 1
            else worded("one person, up to %(rows)s rows")
        )
        return Protected(rows, kept % {"rows": rows})

    def reducer(self, column: str) -> Reducer:
        """Return what is made of a person's cells in a column."""
        return (self.reduce or {}).get(column, OTHERWISE)

    def faults(self, kinds: Mapping[str, str], adjacency: Adjacency) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, each with its place: given the declared columns' types by name."""
        if adjacency is not Adjacency.ADD_REMOVE:
            yield "unit", "is offered under add_remove only: how many rows there are is private"
        if self.column in kinds:
            yield "unit.column", "must not be one of the columns: ids are never stored"
        if self.max_rows is None and self.reduce is None:
            yield "unit.max_rows", "is required, unless rows are reduced"
        if self.max_rows is not None and not 1 <= self.max_rows <= MOST_ROWS_OF_ONE:
            yield "unit.max_rows", f"must lie between 1 and {MOST_ROWS_OF_ONE}"
        for position, (name, how) in enumerate((self.reduce or {}).items()):
            place = f"unit.reduce[{position}]"
            if name not in kinds:
                yield place, f'"{name}" is none of the columns'
            elif how in _NOT_OFFERED.get(kinds[name], ()):
                kind = kinds[name]
                yield place, f'"{how}" is not offered for {name}, a {kind}'
        if self.counted >= kinds.keys():
            yield "unit.reduce", "one column at least must be of the file, and not a count of rows"


def protected_by(unit: UnitSpec | None) -> Protected:
    """Return whom releases of a data set protect."""
    return ONE_ROW if unit is None else unit.protected


def unit_json(unit: UnitSpec) -> dict[str, object]:
    """Return a unit as JSON-ready fields, as in the spec."""
    described: dict[str, object] = {"column": unit.column, "max_rows": unit.max_rows}
    if unit.reduce is not None:
        described["reduce"] = dict(unit.reduce)
    if unit.id is not None:
        described["id"] = unit.id
    if unit.decimal != ".":
        described["decimal"] = unit.decimal
    return {**described, "na": list(unit.na)} if unit.na else described


def parse_unit(fields: Mapping[str, object]) -> UnitSpec:
    """Return the inverse of :func:`unit_json`."""
    most, reduce, na = fields["max_rows"], fields.get("reduce"), fields.get("na")
    kind = fields.get("id")
    return UnitSpec(
        column=str(fields["column"]),
        max_rows=most if isinstance(most, int) else None,
        reduce=reduce if isinstance(reduce, dict) else None,
        na=tuple(map(_marker, na)) if isinstance(na, list | tuple) else (),
        id="number" if kind == "number" else "text" if kind == "text" else None,
        decimal=str(fields.get("decimal", ".")),
    )


def _marker(value: object) -> str:
    """Return a marker as ids spell it: a whole number has no point."""
    if isinstance(value, str):
        return value.strip()
    number = Fraction(str(value))
    return str(number.numerator) if number.denominator == 1 else str(value)
