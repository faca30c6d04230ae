"""The public domain of a data set: columns, bounds, and the representations of a cell.

Everything here is public. A curator declares bounds; they are never computed from
the rows. A value outside is clamped.

*Conventions.* The cell of a number column has four representations, each a function of that cell
alone:

- its *value*, clamped and otherwise exactly as it was read: an integer of up to 64 bits for whole
  kinds (numbers, days, seconds), else a binary64. Values are stored, and whatever is compared
  (conditions, edges, expressions) is compared by value;
- its *code*, which regressions read row by row: ``rint(F (x - M) / H)`` with bounds [L, U],
  midpoint M, half-width H and ``F = 2**CODE_BITS``, so every code lies in [-F, F];
- its *sum code*, for sums and sums of products alone, an integer a in [-S, S], ``S = 2**SUM_BITS``,
  that stands for ``M + s a``, s the ``sum_step``. Of a whole column of at most ``EXACT_WIDTH`` it
  stands for the value itself: ``a = k (2 x - L - U)`` with ``k = floor(S / (U - L))`` and
  ``s = 1 / (2 k)``, so sums of whole numbers are exact. Else ``a = rint((x - M) / s)`` with
  ``s = H / S``, off by ``sum_error`` at most. ``s S`` is H, or larger by less than one part in
  500 where sums are exact: a public constant, and the noise is calibrated to it;
- its *cell on the grid* (:class:`mechanisms.grids.Grid`), for sketches and quantiles: at most
  2**21 of them.

A boolean column is a number column with values 0 and 1. A category column's value, code and cell
are the index into its closed list of values.

*Missing cells.* In a column that the schema names as ``optional`` a record may have no value. Data
hold one column more for it, :func:`presence_of`, a boolean: whether the record has a value. Where
it has none, a number's value is any in its bounds, and a category's index is the one after its
values. No statistic reads them: :func:`mechanisms.statistics.questions.complete` leaves such
records out.

Dates and times as numbers, and back: days, or seconds, since the start of 1970 (UTC).

>>> text_of("date", number_of("date", "1970-01-11") + 1)
'1970-01-12'
>>> text_of("datetime", number_of("datetime", "2020-02-29T12:30+01:00"))
'2020-02-29T11:30:00Z'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from mechanisms.grids import PIECE, Grid, grid_of
from mechanisms.privacy import ONE_ROW, Adjacency, Protected
from mechanisms.words import value_text

TimeKind = Literal["date", "datetime"]

TEXT = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?)?$"
)
"""A date, and after it a time of day with its offset from UTC, if any."""

SECONDS_PER_DAY = 86_400
_FORM = re.compile(TEXT, re.ASCII)
_NO_ZONES = frozenset({"Factory", "localtime", "posixrules"})
"""Other names in a system's folder of zones: they differ between machines."""
UNITS: Mapping[TimeKind, str] = {"date": "days", "datetime": "seconds"}
"""The units of the numbers."""

_START = date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date.min - _START).days, (date.max - _START).days
_KINDS: Mapping[str, TimeKind] = {"date": "date", "datetime": "datetime"}


def time_kind(kind: str) -> TimeKind | None:
    """Return which of both a kind of column is, None for any other."""
    return _KINDS.get(kind)


@lru_cache(maxsize=1024)
def zone_named(name: str) -> tzinfo | None:
    """Return an IANA time zone, or None where there is none of this name."""
    if name in _NO_ZONES or name.startswith(("posix/", "right/")):
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # not a name, a folder, not found
        return None


def instant_of(local: datetime, zone: tzinfo) -> int:
    """Return the seconds since 1970 (UTC) of a local time, which has no zone, in whole seconds.

    A local time that occurs twice, as clocks go back, is the first of both. One that clocks skip
    is read with the offset before the change.

    >>> berlin = zone_named("Europe/Berlin")
    >>> [text_of("datetime", instant_of(datetime(*day), berlin))
    ...  for day in [(2024, 3, 31, 2, 30), (2024, 10, 27, 2, 30)]]
    ['2024-03-31T01:30:00Z', '2024-10-27T00:30:00Z']
    """
    moment = local.replace(tzinfo=zone, fold=0)
    ahead = moment.utcoffset() or timedelta()
    return int((local - ahead - datetime.combine(_START, time())) // timedelta(seconds=1))


def number_of(kind: TimeKind, text: str, zone: str | None = None) -> Fraction:
    """Return the days of a date, or the seconds of a moment.

    A moment without an offset is local time of the ``zone``, see :func:`instant_of`; None is UTC.

    >>> text_of("datetime", number_of("datetime", "2024-03-09T20:30", "America/New_York"))
    '2024-03-10T01:30:00Z'

    The midnight that begins a day of the zone is that date.

    >>> number_of("date", "1970-01-11T00:00Z"), number_of("date", "1970-01-11T00:00", "Asia/Tokyo")
    (Fraction(10, 1), Fraction(10, 1))

    Raises
    ------
    ValueError
        The text is no such thing.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError("not an ISO 8601 date or time")
    days = (date.fromisoformat(form[1]) - _START).days
    if kind == "date" and form[2] is not None:
        return _day_begun(number_of("datetime", text, zone), zone)
    if kind == "date":
        return Fraction(days)
    # The pattern lets 99:99 pass; the constructor does not.
    clock = time(int(form[2] or 0), int(form[3] or 0), int(form[4] or 0))
    fraction = Fraction(form[5] or 0)
    if form[6] is None and zone is not None:
        place = zone_named(zone)
        if place is None:
            raise ValueError("not a time zone")
        return instant_of(datetime.combine(date.fromisoformat(form[1]), clock), place) + fraction
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second - offset_s(form[6] or "Z")
    return days * SECONDS_PER_DAY + seconds + fraction


def _day_begun(seconds: Fraction, zone: str | None) -> Fraction:
    """Return the date that a midnight of a zone begins."""
    place = UTC if zone is None else zone_named(zone)
    local = datetime.fromtimestamp(0, UTC) + timedelta(seconds=int(seconds))
    local = local.astimezone(place)
    if seconds.denominator != 1 or local.time() != time():
        raise ValueError("neither a date nor the midnight that begins one")
    return Fraction((local.date() - _START).days)


def offset_s(text: str) -> int:
    """Return the seconds by which clocks are ahead of UTC: of ``Z``, ``+01:00`` or ``+0100``."""
    if text in "Zz":
        return 0
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours >= 24 or minutes >= 60:
        raise ValueError("not an offset")
    return (-1 if text[0] == "-" else 1) * (hours * 60 + minutes) * 60


def text_of(kind: TimeKind, number: Fraction | float) -> str:
    """Return the nearest date, or second, as ISO 8601: of the years 1 to 9999.

    A mean with much noise may lie beyond them, and so may the ends of its interval.

    >>> text_of("date", 1e12), text_of("datetime", -1e12)
    ('9999-12-31', '0001-01-01T00:00:00Z')
    """
    days = 1 if kind == "date" else SECONDS_PER_DAY
    whole = min(max(round(number), _FIRST_DAY * days), (_LAST_DAY + 1) * days - 1)
    if kind == "date":
        return (_START + timedelta(days=whole)).isoformat()
    moment = datetime.combine(_START, time(), UTC) + timedelta(seconds=whole)
    return moment.isoformat().replace("+00:00", "Z")


# The public domain of a data set: columns, bounds, and the representations of a cell


CODE_BITS = 20  # products of two codes then sum exactly in floats, 2**13 at a time
CODE_MAX = 1 << CODE_BITS

SUM_BITS = 34  # two limbs of 17 bits: see mechanisms.sketches
SUM_MAX = 1 << SUM_BITS
EXACT_WIDTH = 1 << 25
"""Whole columns up to this width are summed exactly, with noise that is larger by 2**-9 at most."""

NumberKind = Literal["number", "integer", "date", "datetime"]

_PRESENCE = "\tis present"
"""What follows a column's name. No name holds a tab, as names are printable."""

EXACT_ROWS = 1 << (53 - 2 * CODE_BITS)
"""This many products of two codes sum to an exact integer in ``float64``, in any order."""

_WHOLE_FLOATS = 1 << 53
_INT32 = np.iinfo(np.int32)

Values = NDArray[Any]
"""Values of a column: int32, int64 or float64, see :attr:`NumberColumn.dtype`."""

_EXACT, _CELL, _SUMMED = "\0exact ", "\0cell ", "\0sum "


def exact(name: str) -> str:
    """Return the name under which blocks of rows hold a column's values; codes have its own."""
    return _EXACT + name


def celled(name: str) -> str:
    """Return the name under which blocks of rows hold the cells of a number column."""
    return _CELL + name


def summed(name: str) -> str:
    """Return the name under which blocks of rows hold the sum codes of a number column."""
    return _SUMMED + name


def column_named(name: str) -> str:
    """Return the column that an array of a block is made of."""
    return name.removeprefix(_EXACT).removeprefix(_CELL).removeprefix(_SUMMED)


@dataclass(frozen=True, slots=True)
class SumScale:
    """The values of a number column's sum codes, in its units: see the conventions.

    Attributes
    ----------
    factor
        k, by which twice a whole number is multiplied; 0 where sums are not exact.
    step, half_width
        s, and s S.
    reach
        The sum code of the upper bound; that of the lower bound is its negative.
    error
        By how much a sum code's value differs from the cell's at most.
    """

    factor: int
    step: Fraction
    half_width: Fraction
    reach: int
    error: Fraction


@lru_cache(maxsize=4096)
def _sum_scale(lower: Fraction, upper: Fraction, whole: bool) -> SumScale:
    width, none = upper - lower, Fraction(0)
    if whole and width <= EXACT_WIDTH:
        factor = SUM_MAX // int(width)
        half_width = Fraction(SUM_MAX, 2 * factor)
        return SumScale(factor, Fraction(1, 2 * factor), half_width, factor * int(width), none)
    step = width / (2 * SUM_MAX)
    # Half a step, and the rounding of at most five operations on floats of sizes |M| and H.
    floats = none if whole else abs(lower + upper) / 2
    off = step / 2 + (floats + 3 * width / 2) / 2**52
    # Both lie within the bounds, so no more than a width apart.
    return SumScale(0, step, width / 2, SUM_MAX, min(off, width))


@dataclass(frozen=True, slots=True)
class Typical:
    """Where a column's values usually lie, and how far apart, as its curator states publicly."""

    mean: Fraction
    std: Fraction


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A bounded number; ``boolean`` marks a 0/1 column with bounds [0, 1].

    All kinds but ``number`` hold whole numbers, between whole bounds. ``zone`` is the time zone
    of public texts without an offset that moments are compared with; None is UTC. ``typical`` is
    stated of it, or None.
    """

    lower: Fraction
    upper: Fraction
    boolean: bool = False
    kind: NumberKind = "number"
    zone: str | None = None
    typical: Typical | None = None

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError("lower must be below upper")

    @property
    def whole(self) -> bool:
        """Return whether every cell is a whole number."""
        return self.kind != "number"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of its values: the integer that holds its bounds, or binary64."""
        if not (self.whole or self.boolean):
            return np.dtype(np.float64)
        narrow = _INT32.min <= self.lower and self.upper <= _INT32.max
        return np.dtype(np.int32 if narrow else np.int64)

    @property
    def beyond_floats(self) -> bool:
        """Return whether it holds integers that binary64 does not distinguish."""
        return self.whole and max(abs(self.lower), abs(self.upper)) > _WHOLE_FLOATS

    @property
    def grid(self) -> Grid:
        """Return its grid: what sketches count in, and what quantiles are drawn on."""
        return grid_of(self.lower, self.upper, self.whole or self.boolean)

    @property
    def timed(self) -> TimeKind | None:
        """Return whether it holds dates or moments, and which."""
        return time_kind(self.kind)

    def number_of(self, value: object) -> int | float | None:
        """Return the meaning of a public value: ISO text in a column of times, else a number."""
        if self.timed is not None:
            if not isinstance(value, str):
                return None
            try:
                number = number_of(self.timed, value, self.zone)
            except ValueError:
                return None
            return int(number) if number.denominator == 1 else float(number)
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        return value if plain else None  # type: ignore[return-value]

    @property
    def midpoint(self) -> Fraction:
        """Return M, the centre of the bounds, in the column's units."""
        return (self.lower + self.upper) / 2

    @property
    def half_width(self) -> Fraction:
        """Return H, half the width of the bounds, in the column's units."""
        return (self.upper - self.lower) / 2

    @property
    def step(self) -> Fraction:
        """Return H / F, the width of one code, in the column's units."""
        return self.half_width / CODE_MAX

    @property
    def sum_scale(self) -> SumScale:
        """Return the values of its sum codes."""
        return _sum_scale(self.lower, self.upper, self.whole or self.boolean)

    @property
    def sum_step(self) -> Fraction:
        """Return s, what one step of a sum code is worth, in the column's units."""
        return self.sum_scale.step

    @property
    def sum_half_width(self) -> Fraction:
        """Return s S, what the largest sum code is worth: H, or a little more."""
        return self.sum_scale.half_width

    @property
    def sum_reach(self) -> int:
        """Return the sum code of the upper bound; that of the lower bound is its negative."""
        return self.sum_scale.reach

    @property
    def sum_error(self) -> Fraction:
        """Return by how much a sum code's value differs from the cell's at most; often 0."""
        return self.sum_scale.error

    def sum_codes(self, values: Values) -> NDArray[np.int64]:
        """Return the sum codes of values within the bounds."""
        if not (self.whole or self.boolean):
            return self._scaled(values, SUM_MAX, np.dtype(np.int64))
        factor, low = self.sum_scale.factor, int(self.lower)
        if factor:
            found = values.astype(np.int64)
            found -= low
            found *= 2 * factor
            found -= factor * (int(self.upper) - low)
            return found
        # Distances from the lower bound fit 64 bits without a sign, as differences of 64 bits do.
        above = values.astype(np.int64).view(np.uint64) - np.uint64(low % (1 << 64))
        scaled = above.astype(np.float64) * float(2 * SUM_MAX / (self.upper - self.lower))
        return np.asarray(np.rint(scaled).astype(np.int64) - SUM_MAX)

    @property
    def extent(self) -> Fraction:
        """Return max(|L|, |U|), what a column is divided by when there is no intercept."""
        return max(abs(self.lower), abs(self.upper))

    def shown(self, number: float) -> str:
        """Return a number of the column's as people write it."""
        return f"{number:.9g}" if self.timed is None else text_of(self.timed, number)

    def clamped(self, values: NDArray[np.float64] | NDArray[np.int64]) -> Values:
        """Return finite or infinite values (not NaN) as they are stored: within the bounds.

        In a column of whole numbers others count as the nearest whole one.
        """
        if self.dtype == np.float64:
            # Rounding keeps order: within the bounds as decimals is within them as floats.
            return np.clip(values, float(self.lower), float(self.upper)).astype(np.float64)
        low, high = int(self.lower), int(self.upper)
        if values.dtype.kind != "f":
            return np.clip(values, low, high).astype(self.dtype)
        # A float of 2**63 is no 64-bit integer: the comparison comes before the cast.
        inside = (values > low) & (values < high)
        whole = np.rint(np.where(inside, values, 0.0)).astype(np.int64)
        return np.where(inside, whole, np.where(values <= low, low, high)).astype(self.dtype)

    def encode(self, values: Values) -> NDArray[np.int32]:
        """Clamp finite or infinite values (not NaN) and return their int32 codes."""
        return self._scaled(values, CODE_MAX, np.dtype(np.int32))

    def _scaled(self, values: Values, most: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return ``rint(most (x - M) / H)`` of clamped values."""
        found = np.empty(len(values), dtype=dtype)
        middle, scale = float(self.midpoint), most / float(self.half_width)
        for start in range(0, len(values), PIECE):
            part = slice(start, start + PIECE)
            with np.errstate(over="ignore"):  # an overflow is an infinity, which is clamped
                scaled = values[part] - middle
                scaled *= scale
            np.clip(scaled, -most, most, out=scaled)
            found[part] = np.rint(scaled, out=scaled)
        return found

    def encode_one(self, value: float) -> int:
        """Return the code of one public value, by the same rounding as the data's."""
        return int(self.encode(np.array([value], dtype=np.float64))[0])

    def values_of(self, codes: NDArray[np.int32]) -> Values:
        """Return values that have these codes, for rows that are known by codes alone."""
        values: NDArray[np.float64] = float(self.midpoint) + codes * np.float64(self.step)
        return self.clamped(np.rint(values) if self.dtype != np.float64 else values)

    def decode(self, code: Fraction | int) -> Fraction:
        """Return the value, in the column's units, that a (fractional) code stands for."""
        return self.midpoint + code * self.step


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """A closed list of values; a record's code is its index.

    With ``trim`` texts are compared without white space around them and in Unicode's composed form.
    """

    values: tuple[str, ...]
    trim: bool = True

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise ValueError("category values must be distinct and not empty")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of its values, which are places in the list."""
        return np.dtype(np.int32)

    def places_of(self, texts: Sequence[object]) -> list[int | None]:
        """Return which value each text is, read as cells are; None where it is none.

        Texts and values may be thousands: each is looked up, and not searched for.

        >>> CategoryColumn(("north", "1")).places_of([" north", "North", 1])
        [0, None, None]
        """
        places, trim = _places(self.values, self.trim), self.trim
        return [
            places.get(value_text(each, trim=trim)) if isinstance(each, str) else None
            for each in texts
        ]

    def value_of(self, text: str) -> str | None:
        """Return the declared value that a text is, read as cells are; None where it is none."""
        (place,) = self.places_of([text])
        return None if place is None else self.values[place]


@lru_cache(maxsize=256)
def _places(values: tuple[str, ...], trim: bool) -> Mapping[str, int]:
    return {value_text(value, trim=trim): place for place, value in enumerate(values)}


Column = NumberColumn | CategoryColumn


_PRESENT = NumberColumn(Fraction(0), Fraction(1), boolean=True)


def coded(column: Column, values: Values) -> NDArray[np.int32]:
    """Return the codes of values."""
    if isinstance(column, NumberColumn):
        return column.encode(values)
    return values.astype(np.int32, copy=False)


def array_of(name: str, column: Column, values: Values) -> Values:
    """Return the content of a block under a column's name: values, cells, sum codes or codes."""
    if name.startswith(_EXACT):
        return values
    if name.startswith(_CELL) and isinstance(column, NumberColumn):
        return column.grid.cells(values)
    if name.startswith(_SUMMED) and isinstance(column, NumberColumn):
        return column.sum_codes(values)
    return coded(column, values)


def presence_of(name: str) -> str:
    """Return the name of the stored boolean that says whether a record has a value of a column."""
    return name + _PRESENCE


def is_presence(name: str) -> bool:
    """Return whether this is the name of such a boolean."""
    return name.endswith(_PRESENCE)


def presence_values(missing: NDArray[np.bool_] | None, rows: int) -> NDArray[np.int32]:
    """Return the values of such a boolean, from which cells are missing; None: no cell is."""
    if missing is None:
        return np.ones(rows, dtype=np.int32)
    return (~missing).astype(np.int32)


def facts_of(columns: Mapping[str, Column], name: str) -> Column:
    """Return the facts of a column that data hold, be it one of presence."""
    return _PRESENT if is_presence(name) else columns[name]


def with_missing_cell(column: CategoryColumn) -> CategoryColumn:
    """Return a category with one value more, for records that have none.

    >>> with_missing_cell(CategoryColumn(("f", "m"))).values
    ('f', 'm', 'missing')
    """
    label = "missing"
    while label in column.values:
        label = f"({label})"
    return replace(column, values=(*column.values, label))


@dataclass(frozen=True, slots=True)
class Factors:
    """A column as a product: a text that says what the rest is, where columns have these values.

    ``levels`` holds pairs of a category or boolean and the code of its value. Where one of them has
    another value the column is 0. The rest is empty where it is 1.
    """

    levels: tuple[tuple[str, int], ...]
    rest: str


@dataclass(frozen=True, slots=True)
class Nested:
    """What the values of a category, ``source``, belong to: a level above it, made when it is read.

    ``codes`` holds the level's code of each of the source's values, and behind them the number of
    the level's values, the code of a record without one.
    """

    source: str
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How the records were sampled, as their curator declares publicly.

    ``weight`` is the column by which each counts. ``strata`` is a category, and ``replicates`` are
    columns of weights by which the variance of sampling is estimated, times ``scale``, and each
    times its own of ``rscales``: 1 where none are declared (:mod:`mechanisms.inference.design`).
    """

    weight: str
    strata: str | None = None
    replicates: tuple[str, ...] = ()
    scale: Fraction | None = None
    rscales: tuple[Fraction, ...] = ()

    @property
    def factor(self) -> Fraction:
        """Return the scale of the replicates: one by their number where nothing is declared."""
        usual = Fraction(1) if self.rscales else Fraction(1, len(self.replicates))
        return usual if self.scale is None else self.scale


PART_ASSUMED = 2
"""Where only a bound on the rows is public, the bound over this is assumed, and half is considered.

So they are between a quarter of the bound and all of it: a factor of 2 to either side."""
NARROW, CENTRE = 0.2 / 12**0.5, 0.15
"""Deviation and mean of a narrow number column, in widths of its bounds, as amounts often have."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The public facts a mechanism may depend on.

    ``rows`` is the public row count under replace-one and None under
    add-remove, where only ``max_rows``, a declared bound, is public.
    ``selected`` says that a mechanism is given a part of the rows only, chosen row by row
    (:mod:`mechanisms.filtered`). Under replace-one that part may then have one record replaced,
    added or removed, and ``rows`` is but a bound on how many there are.
    ``protects`` says how many rows one person may have (:mod:`mechanisms.people`).
    ``optional`` names the columns in which a record may have no value.
    ``factors`` says which derived columns are products of indicators, and of what.
    ``nested`` says which columns are levels above others, by name; they are not stored.
    ``zcdp`` says that the account is kept in zCDP (:mod:`mechanisms.accounting`), so that a release
    need not be pure.
    ``design`` says how the records were sampled, where that is declared.
    """

    columns: Mapping[str, Column]
    adjacency: Adjacency
    rows: int | None
    max_rows: int | None = None
    selected: bool = False
    protects: Protected = ONE_ROW
    optional: frozenset[str] = frozenset()
    factors: Mapping[str, Factors] = field(default_factory=dict)
    zcdp: bool = False
    nested: Mapping[str, Nested] = field(default_factory=dict)
    design: Design | None = None

    @property
    def as_stored(self) -> Mapping[str, Column]:
        """Return the columns as data hold them: an optional category with its missing cell."""
        return {
            name: with_missing_cell(column)
            if name in self.optional and isinstance(column, CategoryColumn)
            else column
            for name, column in self.columns.items()
            if name not in self.nested
        }

    @property
    def known_rows(self) -> int | None:
        """Return the row count where it is public, else None."""
        public = self.adjacency is Adjacency.REPLACE_ONE and not self.selected
        return self.rows if public else None

    @property
    def row_bound(self) -> int:
        """Return the public upper bound on the row count that grids and costs may use."""
        bound = self.rows if self.adjacency is Adjacency.REPLACE_ONE else self.max_rows
        if bound is None:
            raise ValueError("the schema lacks its public row count or bound")
        return bound

    @property
    def considered_rows(self) -> tuple[int, int]:
        """Return as few rows as are considered, and as many as are assumed; at least one.

        That is their number where it is public, else a quarter of the bound and half of it.
        """
        if self.known_rows is not None:
            return max(self.known_rows, 1), max(self.known_rows, 1)
        assumed = -(-self.row_bound // PART_ASSUMED)
        return max(assumed // PART_ASSUMED, 1), max(assumed, 1)
