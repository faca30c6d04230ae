"""What is wrong with an upload: rows and columns, and fixed words, never cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.domain.problems import Problem
from mechanisms.words import worded

# What an upload may cost the service at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one upload; the defaults are those of every service, but for its settings.

    Attributes
    ----------
    max_upload_bytes
        Size of the file as sent.
    max_expanded_bytes
        Size of a gzip file's content.
    max_compression_ratio
        How many times larger than the file its content may be; small contents
        (:data:`RATIO_FREE_BYTES`) may be anything.
    max_upload_rows
        Rows of data.
    max_file_columns
        Columns in the file, declared or not.
    max_record_bytes
        Size of one CSV record, hence of a cell, and of the header.
    chunk_bytes
        How much CSV is parsed at a time; what is stored does not depend on it.
    upload_memory_bytes
        Address space of the process that reads the file.
    upload_cpu_s
        Processor time of that process, in seconds.
    silence_s
        How long it may take for its next block of rows, in seconds.
    standstill_s
        How long none of its threads may have or want a processor or wait for a disk, in seconds.
    """

    max_upload_bytes: int = 1 << 32
    max_expanded_bytes: int = 1 << 36
    max_compression_ratio: int = 250
    max_upload_rows: int = 100_000_000
    max_file_columns: int = 10_000
    max_record_bytes: int = 1 << 20
    chunk_bytes: int = 1 << 23
    upload_memory_bytes: int = 1 << 31
    upload_cpu_s: int = 1_800
    silence_s: float = 300.0
    standstill_s: float = 10.0


RATIO_FREE_BYTES = 1 << 26  # a small table of equal rows is packed to next to nothing


# What is wrong with an upload: rows and columns, and fixed words, never cells

MAX_ROWS = 5
"""How many of a fault's rows are named in each column: the first ones."""

Places = NDArray[np.intp]

MISSING = worded("missing")
NOT_FINITE = worded("not a finite number")
NOT_A_NUMBER = worded("not a number")
NOT_WHOLE = worded("not a whole number")
NOT_A_DATE = worded(
    "not a date as in 2020-12-31; the column's format and timezone say how else dates are written"
)
NOT_A_DATETIME = worded(
    "not a date and time as in 2020-12-31T23:59:59Z; the column's format says how else "
    "they are written"
)
NOT_IN_FORMAT = worded("not written in one of the declared formats")
NOT_A_BOOLEAN = worded("not true, false, 1 or 0")
NOT_A_SPELLING = worded("not one of the declared spellings of true and false")
UNKNOWN_VALUE = worded("not one of the declared values")
TOO_FEW = worded("has too few cells for the header")
TOO_MANY = worded("has too many cells for the header")
OTHER_COLUMNS = worded("the file has other columns than the first one, or is of another kind")
OTHER_TYPE = worded("has another kind of type than in the first file: number, text, time or truth")
MORE_ROWS = worded("the file has more rows than the declared max_rows")
UNREADABLE = worded("the file cannot be read within the limits of memory and time, or is damaged")


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of fault in one column, or in none: how often, and the first rows.

    Rows count from 1 after the header; columns are declared names. What is wrong with a column or
    a file as a whole has no rows.
    """

    reason: str
    column: str | None = None
    rows: tuple[int, ...] = ()
    count: int = 1

    @classmethod
    def of(cls, reason: str, column: str | None, rows: Places, first_row: int) -> Trouble:
        """Return a fault of some rows, given by their places behind ``first_row``."""
        first = tuple((rows[:MAX_ROWS] + first_row).tolist())
        return cls(reason, column, first, len(rows))

    def merged(self, later: Trouble) -> Trouble:
        """Return this and the same fault of later rows."""
        rows = (*self.rows, *later.rows)[:MAX_ROWS]
        return replace(self, rows=rows, count=self.count + later.count)

    def places(self) -> dict[str, object]:
        """Return how often and where it is, JSON-ready."""
        return {"column": self.column, "count": self.count, "rows": list(self.rows)}


class UnreadableError(Exception):
    """Nothing more can be read from the upload; carries the trouble that ended it."""

    def __init__(self, reason: str, *, row: int | None = None) -> None:
        super().__init__(reason)
        self.trouble = Trouble(reason, None, () if row is None else (row,))


class Troubles:
    """What is wrong with a file: each kind of fault once, with its columns."""

    def __init__(self, troubles: Iterable[Trouble] = ()) -> None:
        self._found: dict[tuple[str, str | None], Trouble] = {}
        self.extend(troubles)

    def __bool__(self) -> bool:
        return bool(self._found)

    def extend(self, troubles: Iterable[Trouble]) -> None:
        """Add faults, those of earlier rows first."""
        for trouble in troubles:
            kind = (trouble.reason, trouble.column)
            known = self._found.get(kind)
            self._found[kind] = trouble if known is None else known.merged(trouble)

    def kinds(self) -> Sequence[Sequence[Trouble]]:
        """Return the faults by kind: those of the file first, then those of the first rows."""
        by_reason: dict[str, list[Trouble]] = {}
        for trouble in self._found.values():
            by_reason.setdefault(trouble.reason, []).append(trouble)
        for several in by_reason.values():
            several.sort(key=_first_row)
        return sorted(by_reason.values(), key=lambda several: _first_row(several[0]))

    def refusal(self, *, file: int | None = None) -> Problem:
        """Return the ``invalid-upload`` that lists what was found; ``file`` is which of several."""
        where = {} if file is None else {"file": file}
        kinds = self.kinds()
        which = (
            worded("The file does not fit its spec")
            if file is None
            else worded("File %(file)s of the source does not fit its spec", file=file)
        )
        many, each = worded("1 kind of fault"), worded("`problems` names each once")
        if len(kinds) > 1:
            many = worded("%(count)s kinds of faults", count=len(kinds))
        return Problem(
            "invalid-upload",
            f"{which}: {many}; {each}.",
            problems=[_told(several) | where for several in kinds],
        )


def _first_row(trouble: Trouble) -> int:
    return min(trouble.rows, default=0)


def _told(several: Sequence[Trouble]) -> dict[str, object]:
    """Return one kind of fault, JSON-ready."""
    return {
        "reason": several[0].reason,
        "count": sum(each.count for each in several),
        "rows": sorted({row for each in several for row in each.rows})[:MAX_ROWS],
        "columns": [each.places() for each in several if each.column is not None],
    }


def too_large(limit: str, maximum: int) -> Problem:
    """Return the ``too-large`` that names the limit an upload exceeded."""
    return Problem(
        "too-large", f"The upload is above {limit} ({maximum}).", limit=limit, maximum=maximum
    )
