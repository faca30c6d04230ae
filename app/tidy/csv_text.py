"""CSV text that is data in every program: the one place where CSV files are written.

A spreadsheet runs a cell that begins like a formula, whether or not quotes surround it. A person
who chooses a column's name could so write a program into a file that somebody else opens. Such a
header or cell gets an apostrophe in front, which spreadsheets take for the mark of text. Numbers
stay numbers.

What is sent *to* the service goes through no such function: its rows are data, and stay as they
are.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable

FORMULA_STARTS = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""A cell that begins with one of these may be run; the last four are the full-width forms."""
_ROW_END = "\r\n"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def csv_text(
    header: Iterable[object],
    rows: Iterable[Iterable[object]],
    *,
    delimiter: str = ",",
    line_end: str = "\r\n",
) -> str:
    r"""Return a CSV file (RFC 4180) with a line of names, which no spreadsheet runs.

    Examples
    --------
    >>> csv_text(["=x", "n"], [["-1.5", -2], ["+a", None]], line_end="\n")
    "'=x,n\n-1.5,-2\n'+a,\n"
    """
    lines = _Lines(line_end)
    # With this end a cell that holds half of it is quoted, too.
    writer = csv.writer(lines, delimiter=delimiter, lineterminator=_ROW_END)
    writer.writerow(map(_inert, header))
    writer.writerows(map(_inert, row) for row in rows)
    return "".join(lines)


class _Lines(list[str]):
    """What a writer writes, line by line, with an end of its own."""

    def __init__(self, end: str) -> None:
        super().__init__()
        self._end = end

    def write(self, line: str) -> None:
        self.append(line.removesuffix(_ROW_END) + self._end)


def _inert(cell: object) -> object:
    """Return a cell, with an apostrophe in front of a text that a spreadsheet would run."""
    if isinstance(cell, str) and cell[:1] in FORMULA_STARTS and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
