"""What reading an upload came to: counts for the person who uploaded it alone.

They are counts over private rows. The sender of the file gets them in the answer to the upload;
they are not stored. While the service reads the file, it also shows them its progress.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from mechanisms.words import worded


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadProgress:
    """How far an upload is: rows read, and bytes of how many; None while that is not known.

    ``reading`` is the text by which its sender knows it.
    """

    reading: str
    rows: int
    read_bytes: int
    total_bytes: int | None

    def to_json(self) -> bytes:
        """Return what is noted in a file."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, noted: bytes) -> UploadProgress:
        """Return the inverse of :meth:`to_json`."""
        return cls(**json.loads(noted))


@dataclass(slots=True)
class ColumnCounts:
    """How many cells of one column met each fate.

    ``values`` had a value; of those, ``clamped_low`` and ``clamped_high`` lay outside the
    bounds, and ``other`` were texts that no list has. ``filled`` took the public fill value, and
    ``missing`` stay without one; ``unreadable`` were taken as missing though they held something.
    ``like_thousands`` look like ``12.345`` in a column where every cell with a point does.
    ``future`` are dates after the day of the upload, where years have two digits.
    """

    values: int = 0
    filled: int = 0
    unreadable: int = 0
    clamped_low: int = 0
    clamped_high: int = 0
    other: int = 0
    missing: int = 0
    like_thousands: int = 0
    future: int = 0

    def warning(self) -> str | None:
        """Return what is probably wrong with the declaration, if anything is."""
        if self.like_thousands:
            return worded(
                "every number with a point (%(count)s of them) has three digits after it, as "
                "12.345, and was read as a decimal; if points separate thousands, declare "
                '"thousands": "." and "decimal": ","',
                count=self.like_thousands,
            )
        if self.future:
            return worded(
                "%(count)s dates are in the future: years of two digits are read as 1970 to 2069. "
                "Those of birth are most likely 100 years earlier: write years with four digits "
                "in the file",
                count=self.future,
            )
        clamped = self.clamped_low + self.clamped_high
        if 2 * clamped > self.values:
            sides = [("lower", self.clamped_low), ("upper", self.clamped_high)]
            bounds = " and ".join(name for name, count in sides if count)
            return worded(
                "%(count)s of %(all)s values lie outside the bounds and were moved to the nearest; "
                "look at %(names)s, and at the column's unit",
                count=clamped, all=self.values, names=bounds,
            )  # fmt: skip
        if self.filled > self.values:
            return worded(
                "%(count)s cells were filled in, more than the %(all)s with a value",
                count=self.filled, all=self.values,
            )  # fmt: skip
        return None


@dataclass(slots=True)
class PeopleCounts:
    """Whose the rows are, where one person may have several.

    ``people`` have an id, half of them ``median_rows`` rows or fewer, and one ``most_rows``.
    ``rows_without_id`` are people of their own. ``rows_left_out`` were more than a person may have.
    """

    people: int = 0
    median_rows: int = 0
    most_rows: int = 0
    rows_without_id: int = 0
    rows_left_out: int = 0


@dataclass(slots=True)
class UploadReport:
    """The counts of an upload; ``rows`` are those read, ``rows_dropped`` those left out.

    ``people`` are counted where the spec has a unit.
    """

    rows: int = 0
    rows_dropped: int = 0
    columns: dict[str, ColumnCounts] = field(default_factory=dict)
    people: PeopleCounts | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the counts, ready for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any], names: Iterable[str]) -> UploadReport:
        """Return the inverse of :meth:`to_json`, for columns of these names.

        Raises
        ------
        ValueError, KeyError, TypeError
            It is something else.
        """
        members = [each.name for each in fields(ColumnCounts)]
        columns = {
            name: ColumnCounts(*(_count(stored["columns"][name][each]) for each in members))
            for name in names
        }
        rows, dropped, people = stored["rows"], stored["rows_dropped"], stored["people"]
        return cls(
            _count(rows),
            _count(dropped),
            columns,
            None if people is None else PeopleCounts(**{n: _count(x) for n, x in people.items()}),
        )

    def warnings(self) -> Iterator[tuple[str, str]]:
        """Yield columns whose declaration is probably wrong, and why."""
        for name, counts in self.columns.items():
            if (warning := counts.warning()) is not None:
                yield name, warning


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("not a count")
    return value
