"""The kinds of refusals of uploads: of their files, and of whose rows they are.

*What reading an upload came to: counts for the person who uploaded it alone.* They are counts over
private rows. The sender of the file gets them in the answer to the upload; they are not stored.
While the service reads the file, it also shows them its progress.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from app.domain.problem_kind import ProblemKind

OF_FILES = (
    ProblemKind(
        "invalid-upload",
        422,
        "The uploaded file does not fit its spec",
        "The file could not be read as declared, or some cells are missing or unknown in a column "
        "that rejects them. Nothing was stored.",
        "Read `problems`, each kind of fault once: how often it is in which columns, and its first "
        "rows, counted from 1 after the header. `source` says which header is a column's. "
        "`missing`, `na`, `unreadable` and a category's `other` say in the spec what becomes of "
        "such cells.",
        {
            "problems": "list of {reason, count, rows, columns}, and file where there are several: "
            "columns is a list of {column, count, rows}, empty for a fault of whole rows or of the "
            "file, and rows are the first ones; cell values are never repeated"
        },
    ),
    ProblemKind(
        "source-unreadable",
        422,
        "The files of the source cannot be had",
        "No file lies where the source says, or the service cannot open one of them. Symbolic "
        "links are not followed. Nothing was stored.",
        "Check the address and who may read the files. An operator may look at them from the "
        "service's machine, as its user.",
    ),
    ProblemKind(
        "source-changed",
        409,
        "The source was written to while it was read",
        "A file of the source has changed, come or gone since the reading began, so what was read "
        "may be half of each. Nothing was stored.",
        "Wait until nothing writes to the source, or copy it, and register it again.",
    ),
)
OF_VERSIONS = (
    ProblemKind(
        "newer-version",
        409,
        "The data set has a newer version",
        "Rows are added to the newest version of a data set only, so that versions follow one "
        "another. Only the newest version can be deleted, since later ones have its rows. Nothing "
        "was changed.",
        "Extend the newest version, or delete that first. `newer` is one that is newer than yours.",
        {"newer": "a newer version"},
    ),
    ProblemKind(
        "dataset-has-releases",
        409,
        "The data set has releases",
        "A data set can be deleted or replaced until its first release, or until the first "
        "reservation for one. After that its people have been asked about. Nothing was changed.",
        "Archive it: that erases its rows, and keeps its account and releases. For a corrected "
        "file, upload a new data set with the same `account`.",
    ),
    ProblemKind(
        "not-extendable",
        409,
        "The data set cannot be extended",
        "Its `unit` makes one row of all rows of a person. With more rows that row would be "
        "another one, and the rows it is made of are not kept. Nothing was stored.",
        "Upload all rows, old and new, as a data set that shares the account.",
    ),
)
OF_LINEAGE = (
    ProblemKind(
        "overlapping-dataset",
        409,
        "The rows largely belong to an earlier data set",
        "The same people would get a second budget.",
        "Attach the upload to the earlier data set's account (`account` in the spec), or ask an "
        "admin to upload it with `overlap` and a reason, which the ledger keeps. Into a new "
        "version of the data set send the rows of new people only.",
        {
            "dataset": "the earlier data set",
            "account": "its account",
            "accounts": "instead, accounts that reconciliations have opened again, when only the "
            "row digests of a forgotten data set are known: it may be in any of them",
        },
    ),
    ProblemKind(
        "too-few-rows",
        409,
        "Too few rows to be compared with other people's data",
        "An answer could reveal whether single persons are in it. Nothing was compared or stored.",
        "Upload more rows, or ask an admin to upload it with `overlap` and a reason.",
        {"minimum": "how many different rows are compared with what others have uploaded"},
    ),
    ProblemKind(
        "too-many-overlaps",
        429,
        "Too many of your uploads overlapped other people's data",
        "Each such refusal reveals something about that data, so there are few in 24 hours.",
        "Wait as long as `Retry-After` says, or ask an admin to upload it with a reason.",
        {"maximum": "how many", "retry_after": "the same number of seconds as in `Retry-After`"},
    ),
    ProblemKind(
        "lineage-lost",
        503,
        "It is unknown whether these rows belong to an earlier data set",
        "The row digests of an earlier data set are missing or altered, so an upload cannot be "
        "compared with it. Nothing was stored.",
        "Ask the operator, who may have a backup of them. Attach the upload to one of `accounts` "
        "if its people are that account's; else an admin can upload with `overlap` and a reason.",
        {
            "dataset": "the earlier data set",
            "accounts": "instead, accounts that a reconciliation has opened again, of which "
            "the people are unknown until a data set is attached to them",
        },
        retry_after_s=60,
    ),
)


# What reading an upload came to: counts for the person who uploaded it alone


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
    """

    values: int = 0
    filled: int = 0
    unreadable: int = 0
    clamped_low: int = 0
    clamped_high: int = 0
    other: int = 0
    missing: int = 0
    like_thousands: int = 0

    def warning(self) -> str | None:
        """Return what is probably wrong with the declaration, if anything is."""
        if self.like_thousands:
            return (
                f"every number with a point ({self.like_thousands} of them) has three digits after "
                "it, as 12.345, and was read as a decimal; if points separate thousands, declare "
                '"thousands": "." and "decimal": ","'
            )
        clamped = self.clamped_low + self.clamped_high
        if 2 * clamped > self.values:
            sides = [("lower", self.clamped_low), ("upper", self.clamped_high)]
            bounds = " and ".join(name for name, count in sides if count)
            return (
                f"{clamped} of {self.values} values lie outside the bounds and were moved to the "
                f"nearest; look at {bounds}, and at the column's unit"
            )
        if self.filled > self.values:
            return f"{self.filled} cells were filled in, more than the {self.values} with a value"
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
