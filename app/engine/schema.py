"""From a declaration to what the mechanisms understand.

*The stored form of a data set's sketches: names of files, writing and reading them.*

*Stored form.* ``sketch.json``: row count and category counts. ``gram.npy``: the
Gram matrix of (1, sum codes of number columns in declared order), as three arrays in numpy's
own format (:class:`Gram`). As JSON, a million integers take the interpreter to
themselves for as long as they are read. ``column-<i>.npy`` for the i-th number
column: the occupied cells of its grid ascending (int32), then their counts (the narrowest
unsigned type).
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain.columns import CategorySpec, ColumnSpec, InvalidSpecError, NumberSpec, refuse
from app.domain.datasets import ColumnsSpec, DerivedSpec
from app.domain.units import protected_by
from mechanisms.domain import (
    SUM_BITS,
    CategoryColumn,
    Column,
    Nested,
    NumberColumn,
    Schema,
    Typical,
    presence_of,
)
from mechanisms.expressions.derived import (
    Definition,
    DefinitionError,
    DerivedColumn,
    NamedError,
    derived_columns,
)
from mechanisms.privacy import Adjacency
from mechanisms.sketches import LIMB_BITS, Ordered

_MOST_FAULTS = 20
"""The most faults of derived columns that are reported: each takes another look at all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedColumn:
    """A column to derive, as a curator writes it."""

    expression: str
    lower: Fraction | None = None
    upper: Fraction | None = None


def column_of(spec: ColumnSpec | DerivedSpec) -> Column:
    """Return the mechanisms' view of one column; a boolean is a number in [0, 1]."""
    match spec:
        case DerivedSpec():
            return NumberColumn(spec.lower, spec.upper, boolean=spec.boolean)
        case NumberSpec():
            zone = spec.reading.timezone
            given = spec.typical
            stated = None if given is None else Typical(given.mean, given.std)
            return NumberColumn(spec.lower, spec.upper, kind=spec.kind, zone=zone, typical=stated)
        case CategorySpec():
            return CategoryColumn(spec.values, trim=spec.trim)
    return NumberColumn(Fraction(0), Fraction(1), boolean=True)


def schema_of(spec: ColumnsSpec, *, rows: int | None, zcdp: bool = False) -> Schema:
    """Return the public schema; ``rows`` is left out under add-remove, where it is private.

    ``zcdp`` says whether the account has a delta.
    """
    return Schema(
        columns={
            name: column_of(column) for name, column in {**spec.columns, **spec.derived}.items()
        },
        adjacency=spec.adjacency,
        # no plan may follow from a number that is private
        rows=rows if spec.adjacency is Adjacency.REPLACE_ONE else None,
        max_rows=spec.max_rows,
        protects=protected_by(spec.unit),
        optional=spec.optional,
        zcdp=zcdp,
        nested={level: _nested(spec, level, below) for level, below in spec.levels.items()},
        design=spec.design,
    )


def _nested(spec: ColumnsSpec, level: str, below: str) -> Nested:
    """Return how a level is made of the column below it."""
    column, above = spec.columns[below], spec.columns[level]
    assert isinstance(column, CategorySpec)
    assert isinstance(above, CategorySpec)
    assert column.within is not None
    places, of = {value: code for code, value in enumerate(above.values)}, dict(column.within.of)
    return Nested(below, (*(places[of[value]] for value in column.values), len(above.values)))


def presences_of(spec: ColumnsSpec) -> list[str]:
    """Return the names of the stored booleans that say which cells are there."""
    return [presence_of(name) for name in spec.stored if name in spec.optional]


def with_derived(
    spec: ColumnsSpec, wanted: Mapping[str, WantedColumn], *, wrong: Collection[str] = ()
) -> ColumnsSpec:
    """Return a declaration with columns that are derived from its others.

    What is made of columns that are ``wrong`` is left out.

    Raises
    ------
    InvalidSpecError
        Expressions that cannot be read or do not fit the columns; the place of one is
        ``derive.<name>`` and what of it is wrong.
    """
    definitions, faults = read_definitions(wanted)
    columns = _all_made(spec, definitions, {*wanted, *wrong} - {*definitions}, faults)
    made = {
        name: DerivedSpec(
            expression=str(column.tree),
            lower=column.column.lower,
            upper=column.column.upper,
            boolean=column.column.boolean,
            optional=bool(column.misses),
        )
        for name, column in columns.items()
    }
    return replace(spec, derived=made)


def read_definitions(
    wanted: Mapping[str, WantedColumn],
) -> tuple[dict[str, Definition], list[InvalidSpecError]]:
    """Return the definitions that can be read, and what is wrong with the others."""
    definitions, faults = {}, []
    for name, column in wanted.items():
        try:
            definitions[name] = Definition.read(
                column.expression, lower=column.lower, upper=column.upper
            )
        except DefinitionError as error:
            faults.append(InvalidSpecError(f"derive.{name}.{error.part}", error.detail))
    return definitions, faults


def _all_made(
    spec: ColumnsSpec,
    definitions: Mapping[str, Definition],
    wrong: set[str],
    faults: list[InvalidSpecError],
) -> Mapping[str, DerivedColumn]:
    """Return the derived columns, or raise all faults; those made of wrong ones are left out."""
    left, made = dict(definitions), dict[str, DerivedColumn]()
    while len(faults) < _MOST_FAULTS:
        # What is made of a wrong column is not faulted too: it may be right once that one is.
        while of_wrong := {name for name, each in left.items() if wrong & {*each.tree.columns}}:
            wrong |= of_wrong
            left = {name: each for name, each in left.items() if name not in wrong}
        try:
            made = dict(_made(spec, left))
            break
        except NamedError as error:
            faults.append(_told(error))
            wrong.add(error.name)
            del left[error.name]
    refuse(faults)
    return made


def derived_of(spec: ColumnsSpec) -> Mapping[str, DerivedColumn]:
    """Return how each derived column is computed, in an order in which that can be done."""
    definitions = {
        name: Definition.read(column.expression)
        if column.boolean
        else Definition.read(column.expression, lower=column.lower, upper=column.upper)
        for name, column in spec.derived.items()
    }
    return _derived(spec, definitions)


def _derived(
    spec: ColumnsSpec, definitions: Mapping[str, Definition]
) -> Mapping[str, DerivedColumn]:
    try:
        return _made(spec, definitions)
    except NamedError as error:
        raise _told(error) from None


def _made(spec: ColumnsSpec, definitions: Mapping[str, Definition]) -> Mapping[str, DerivedColumn]:
    columns = {name: column_of(column) for name, column in spec.own.items()}
    kept = spec.optional & columns.keys()
    return derived_columns(definitions, columns, may_miss=True, optional=kept)


def _told(error: NamedError) -> InvalidSpecError:
    place = ".".join(part for part in ("derive", error.name, error.part) if part)
    return InvalidSpecError(place, error.detail)


# The stored form of a data set's sketches: names of files, writing and reading them

SUMMARY = "sketch.json"
GRAM = "gram.npy"
_LIMB = (1 << LIMB_BITS) - 1
_WORD = (1 << SUM_BITS) - 1


class Gram:
    """A matrix of integers ``high * 2**68 + middle * 2**34 + low``, to which sums are added.

    ``low`` and ``middle`` are in [0, 2**34), ``high`` has a sign. Entries of n rows are within
    ``2**68 n``, so n may be anything that fits 62 bits. A million integers of Python would take
    six times the memory.
    """

    __slots__ = ("high", "low", "middle")

    def __init__(
        self, high: NDArray[np.int64], middle: NDArray[np.int64], low: NDArray[np.int64]
    ) -> None:
        self.high, self.middle, self.low = high, middle, low

    @classmethod
    def empty(cls, columns: int) -> Gram:
        """Return the matrix of no rows, with ``columns`` columns and 1."""
        high, middle, low = np.zeros((3, 1 + columns, 1 + columns), dtype=np.int64)
        return cls(high, middle, low)

    def add_limbs(self, sums: NDArray[np.int64]) -> None:
        """Add what :func:`mechanisms.sketches.limb_sums` makes of some rows."""
        low, mixed, high = sums
        self.low += low + ((mixed & _LIMB) << LIMB_BITS)
        self.middle += (mixed >> LIMB_BITS) + high
        self._carry()

    def add(self, other: Gram) -> None:
        """Add another matrix."""
        self.low += other.low
        self.middle += other.middle
        self.high += other.high
        self._carry()

    def _carry(self) -> None:
        self.middle += self.low >> SUM_BITS
        self.low &= _WORD
        self.high += self.middle >> SUM_BITS
        self.middle &= _WORD

    def some(self, places: Sequence[int]) -> list[list[int]]:
        """Return the rows and columns at these places, as Python integers."""
        picked = np.ix_(places, places)
        words = (each[picked].astype(object) for each in (self.high, self.middle, self.low))
        high, middle, low = words
        found: list[list[int]] = ((((high << SUM_BITS) + middle) << SUM_BITS) + low).tolist()
        return found

    @property
    def nbytes(self) -> int:
        """Return the memory it takes."""
        return self.high.nbytes + self.middle.nbytes + self.low.nbytes

    def to_bytes(self) -> bytes:
        """Return the stored form: the highest words in the narrowest signed type."""
        lowest, highest = int(self.high.min()), int(self.high.max())
        # Of a negative number numpy names a signed type, and -1 - highest needs as many bits.
        narrowest = np.min_scalar_type(min(lowest, -1 - highest))
        return _arrays_bytes(self.high.astype(narrowest), self.middle, self.low)


def read_gram(content: bytes) -> Gram:
    """Return the stored Gram matrix."""
    high, middle, low = _arrays_of(content, 3)
    return Gram(high.astype(np.int64), middle, low)


def number_columns(columns: Mapping[str, Column]) -> list[str]:
    """Return the names of the number (and boolean) columns, in declared order."""
    return [name for name, column in columns.items() if isinstance(column, NumberColumn)]


def column_file(index: int) -> str:
    """Return the name of the file with the i-th number column's counts."""
    return f"column-{index:05d}.npy"


def column_bytes(cells: NDArray[np.integer[Any]], counts: NDArray[np.integer[Any]]) -> bytes:
    """Return the stored form of a column's occupied cells, ascending, and their counts."""
    # Most counts are small: a column then takes a fraction of the space.
    narrowest = np.min_scalar_type(int(counts.max(initial=0)))
    return _arrays_bytes(cells.astype(np.int32, copy=False), counts.astype(narrowest))


def read_column(content: bytes) -> Ordered:
    """Return the inverse of :func:`column_bytes`."""
    cells, counts = _arrays_of(content, 2)
    return cells, counts.astype(np.int64)


def _arrays_bytes(*arrays: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    for array in arrays:
        np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _arrays_of(content: bytes, count: int) -> list[NDArray[Any]]:
    buffer = io.BytesIO(content)
    return [np.load(buffer, allow_pickle=False) for _ in range(count)]
