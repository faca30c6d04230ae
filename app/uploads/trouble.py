"""What is wrong with an upload: rows and columns, and fixed words, never cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from app.domain.problems import Problem

MAX_LISTED = 20

MISSING = "missing"
NOT_FINITE = "not a finite number"
NOT_A_NUMBER = "not a number"
NOT_WHOLE = "not a whole number"
NOT_A_DATE = "not a date as in 2020-12-31"
NOT_A_DATETIME = "not a date and time as in 2020-12-31T23:59:59Z"
NOT_A_BOOLEAN = "not true, false, 1 or 0"
UNKNOWN_VALUE = "not one of the declared values"
OTHER_COLUMNS = "the file has other columns than the first one, or is of another kind"
OTHER_TYPE = "has another kind of type than in the first file: number, text, time or truth"
MORE_ROWS = "the file has more rows than the declared max_rows"
UNREADABLE = "the file cannot be read within the limits of memory and time, or is damaged"


class Trouble(NamedTuple):
    """One thing that is wrong. Rows count from 1 after the header; columns are declared names."""

    row: int | None
    column: str | None
    reason: str


class UnreadableError(Exception):
    """Nothing more can be read from the upload; carries the trouble that ended it."""

    def __init__(self, reason: str, *, row: int | None = None) -> None:
        super().__init__(reason)
        self.trouble = Trouble(row, None, reason)


@dataclass(slots=True)
class Troubles:
    """The first few things found wrong, in the order of rows."""

    found: list[Trouble] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.found)

    @property
    def full(self) -> bool:
        """Say whether more would not be listed anyway."""
        return len(self.found) >= MAX_LISTED

    def extend(self, troubles: Iterable[Trouble]) -> None:
        """Add as many as are still listed."""
        for trouble in troubles:
            if self.full:
                break
            self.found.append(trouble)

    def refusal(self, *, file: int | None = None) -> Problem:
        """Return the ``invalid-upload`` that lists what was found; ``file`` is which of several."""
        where = {} if file is None else {"file": file}
        which = "The file" if file is None else f"File {file} of the source"
        return Problem(
            "invalid-upload",
            f"{which} does not fit its spec; `problems` lists the first things found.",
            problems=[trouble._asdict() | where for trouble in self.found],
        )


def too_large(limit: str, maximum: int) -> Problem:
    """Return the ``too-large`` that names the limit an upload exceeded."""
    return Problem(
        "too-large", f"The upload is above {limit} ({maximum}).", limit=limit, maximum=maximum
    )
