"""What a file is that is no table of ours, by its first bytes, and the way out.

The first bytes decide, never a name. A file of another kind is refused in a sentence that names
it and says what to do, in uploads, in drafts and on the command line alike. Nothing of the file is
in that sentence.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

LOOKED_AT = 1 << 16
"""The number of first bytes that identify a file's format."""
GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
ZIP = b"PK\x03\x04"
DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}

_AS_TABLE = "export the table that is in it, as CSV, Parquet or Excel (.xlsx), and send that"
_BY_PROGRAM = (
    "convert it on your machine: `release-desk datasets upload` reads it there, with "
    "`pip install pyreadstat`"
)


class Kind(NamedTuple):
    """A kind of file that is not read as it is: what it is called, and what to do."""

    name: str
    way_out: str

    @property
    def sentence(self) -> str:
        """Return what is wrong with such a file, and the way out."""
        return f"the file is {self.name}, not CSV, Parquet or Excel: {self.way_out}"


_IMAGE = Kind("an image", "send the numbers themselves; a picture of a table is not read")
_PACKED = Kind("an archive", "unpack it, and send the CSV, Parquet or Excel file in it")
_OLD_OFFICE = Kind(
    "an Excel workbook of before 2007 (.xls), or another old Office file",
    "save it as .xlsx or as CSV UTF-8",
)
_SPSS = Kind("an SPSS file", _BY_PROGRAM)
_STATA = Kind("a Stata file", _BY_PROGRAM)
_SAS = Kind("a SAS file", _BY_PROGRAM)
_STARTS: Sequence[tuple[bytes, Kind]] = (
    (b"%PDF", Kind("a PDF document", _AS_TABLE)),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLD_OFFICE),
    (b"\x89PNG\r\n\x1a\n", _IMAGE),
    (b"\xff\xd8\xff", _IMAGE),
    (b"GIF8", _IMAGE),
    (b"II*\x00", _IMAGE),
    (b"MM\x00*", _IMAGE),
    (b"BM", _IMAGE),
    (b"RIFF", _IMAGE),
    (b"7z\xbc\xaf\x27\x1c", _PACKED),
    (b"Rar!\x1a\x07", _PACKED),
    (b"BZh", _PACKED),
    (b"\xfd7zXZ\x00", _PACKED),
    (b"\x28\xb5\x2f\xfd", _PACKED),
    (b"PK\x05\x06", _PACKED),
    (b"$FL2", _SPSS),
    (b"$FL3", _SPSS),
    (b"<stata_dta>", _STATA),
    (b"HEADER RECORD*******", _SAS),
    (b"\x00" * 12 + b"\xc2\xea\x81\x60", _SAS),
    (b"RDX", Kind("R data (.RData)", "write the data frame with `write.csv`, or upload it from R")),
    (
        b"X\n\x00\x00\x00",
        Kind("R data (.rds)", "write the data frame with `write.csv`, or upload it from R"),
    ),
    (b"ARROW1", Kind("an Arrow or Feather file", "write it as Parquet")),
    (b"FEA1", Kind("an Arrow or Feather file", "write it as Parquet")),
    (b"SQLite format 3\x00", Kind("an SQLite database", "export the table as CSV")),
    (b"\x89HDF", Kind("an HDF5 file", "write the table as Parquet or CSV")),
)
_CONFIRMED = {
    b"BM": re.compile(rb"BM.{4}\x00{4}", re.DOTALL),
    b"RIFF": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
"""Letters that a header may begin with say nothing without what comes after them."""
_PATTERNS: Sequence[tuple[re.Pattern[bytes], Kind]] = (
    (re.compile(rb"[\x69-\x73][\x01\x02]\x01\x00", re.DOTALL), _STATA),
    (re.compile(rb".{257}ustar", re.DOTALL), _PACKED),
    (
        re.compile(
            rb"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body|table|meta)\b",
            re.IGNORECASE | re.DOTALL,
        ),
        Kind(
            "a web page (HTML)",
            "it may be a sign-in page in place of the download: save the table itself as CSV or "
            ".xlsx",
        ),
    ),
    (
        re.compile(rb"\s*<\?xml\b|\s*<codeBook\b"),
        Kind("an XML document", "export the table as CSV; a DDI codebook is a dictionary"),
    ),
    (
        re.compile(rb'\s*(?:\{\s*"|\[\s*[\[{])'),
        Kind("a JSON document", "export the table as CSV, with a line of column names"),
    ),
)
_IN_ZIPS = (
    (b"application/vnd.oasis.opendocument.spreadsheet", Kind(
        "an OpenDocument spreadsheet (.ods)", "save it as .xlsx or as CSV UTF-8")),
    (b"word/", Kind("a Word document", _AS_TABLE)),
    (b"ppt/", Kind("a PowerPoint file", _AS_TABLE)),
)  # fmt: skip
_ZIPPED = Kind("a ZIP archive", "unpack it, and send the CSV, Parquet or Excel file in it")


def is_workbook(start: bytes) -> bool:
    """Return whether a file begins as an Excel workbook (.xlsx) does."""
    return start.startswith(ZIP) and b"xl/" in start[:LOOKED_AT]


def recognised(start: bytes) -> Kind | None:
    """Return what kind of file it is that begins so, None for one that may be a table.

    >>> recognised(b"%PDF-1.7").name, recognised(b"age,income\\n"), recognised(b"BMI,age\\n")
    ('a PDF document', None, None)
    """
    start = start[:LOOKED_AT]
    if start.startswith(ZIP):
        if is_workbook(start):
            return None
        return next((kind for name, kind in _IN_ZIPS if name in start), _ZIPPED)
    for magic, kind in _STARTS:
        sure = _CONFIRMED.get(magic)
        if start.startswith(magic) and (sure is None or sure.match(start)):
            return kind
    text = start.removeprefix(b"\xef\xbb\xbf")
    return next((kind for pattern, kind in _PATTERNS if pattern.match(text)), None)


def other_delimiter(names: Sequence[str], delimiter: str, wanted: AbstractSet[str]) -> str | None:
    """Return what is wrong where another delimiter parts a header into the columns that are wanted.

    Parameters
    ----------
    names
        The header as the declared delimiter parts it.
    delimiter
        The declared one.
    wanted
        The texts of the declared columns' headers.
    """
    if len(wanted) < 1 or not wanted.isdisjoint(names):
        return None
    line = delimiter.join(names)
    for other, name in DELIMITERS.items():
        if other != delimiter and not wanted.isdisjoint(_parted(line, other)):
            return (
                f'the header is separated by {name}: declare "delimiter": '
                f'"{other if other != chr(9) else chr(92) + "t"}"'
            )
    return None


def _parted(line: str, delimiter: str) -> Iterable[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), ())]
    except csv.Error:
        return ()
