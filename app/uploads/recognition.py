"""What a file is, by its first bytes: its kind, its encoding, and the way out.

The first bytes decide, never a name. A file of another kind is refused in a sentence that names
it and says what to do, in uploads, in drafts and on the command line alike. Nothing of the file is
in that sentence.

*Encodings.* Text in other encodings than UTF-8 is turned into UTF-8 as it is read. A file's
encoding cannot be determined with certainty. A text that is not what the spec declares is refused,
and the refusal names the encoding that its bytes look like: byte order marks and NUL bytes say
UTF-16, bytes that are UTF-8 say so themselves, and of one byte a character the one that has all of
its bytes is named.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from app.domain.datasets import Encoding
from app.uploads.trouble import UnreadableError
from mechanisms.words import worded

LOOKED_AT = 1 << 16
"""The number of first bytes that identify a file's format."""
GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
ZIP = b"PK\x03\x04"
DELIMITERS = {
    ",": worded("a comma"), ";": worded("a semicolon"), "\t": worded("a tab"), "|": worded("a bar"),
}  # fmt: skip

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
        return worded(
            "the file is %(kinds)s, not CSV, Parquet or Excel: %(sentence)s",
            kinds=self.name, sentence=self.way_out,
        )  # fmt: skip


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
            return worded(
                'the header is separated by %(kinds)s: declare "delimiter": "%(sign)s"',
                kinds=name, sign=other if other != "\t" else "\\t",
            )  # fmt: skip
    return None


def _parted(line: str, delimiter: str) -> Iterable[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), ())]
    except csv.Error:
        return ()


_CODECS: Mapping[Encoding, str] = {
    "windows-1252": "cp1252",
    "iso-8859-1": "iso-8859-1",
    "utf-16": "utf-16",
}
_UTF_8_MARK = codecs.BOM_UTF8
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LOOKED_AT = 1 << 16
_CONTROLS = frozenset(range(0x80, 0xA0))


class Source(Protocol):
    """Bytes to read, at most ``size`` at a time; none at the end."""

    def read(self, size: int, /) -> bytes: ...


def likely_encoding(content: bytes) -> Encoding | None:
    """Return the encoding that some of a file looks like, None where nothing shows it.

    >>> [likely_encoding("Zoë".encode(name)) for name in ("utf-8", "cp1252", "utf-16")]
    ['utf-8', 'windows-1252', 'utf-16']
    """
    if content.startswith(_MARKS) or _every_other_is_nul(content[:_LOOKED_AT]):
        return "utf-16"
    if content.isascii():
        return None
    if content.startswith(_UTF_8_MARK) or _is_utf_8(content):
        return "utf-8"
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "iso-8859-1"
    # Where no byte distinguishes the two, the first one is by far the more frequent.
    return "windows-1252"


def _is_utf_8(content: bytes) -> bool:
    """Say whether bytes that are not all ASCII are UTF-8, but for a character cut at their end.

    Such an end alone says nothing: it may as well be a letter of one byte, the file's last.
    """
    try:
        return not codecs.getincrementaldecoder("utf-8")().decode(content).isascii()
    except UnicodeDecodeError:
        return False


def _every_other_is_nul(content: bytes) -> bool:
    """Say whether mostly the even bytes are NUL, or mostly the odd ones: letters in UTF-16."""
    even, odd = content[0::2].count(0), content[1::2].count(0)
    return 2 * abs(even - odd) > len(content) // 2 > 0


def other_encoding(declared: Encoding, content: bytes) -> str:
    """Return what is wrong with text that is not in the encoding that was declared."""
    likely = likely_encoding(content)
    if likely is None or likely == declared:
        return worded(
            'is not %(encoding)s text; save the file as UTF-8, or declare its "encoding"',
            encoding=_NAMES[declared],
        )
    return worded(
        'is not %(encoding)s text; it looks like %(likely)s: declare "encoding": "%(likely)s"',
        encoding=_NAMES[declared], likely=likely,
    )  # fmt: skip


_NAMES: Mapping[Encoding, str] = {
    "utf-8": "UTF-8",
    "windows-1252": "windows-1252",
    "iso-8859-1": "iso-8859-1",
    "utf-16": "UTF-16",
}


def of_content(sentence: str) -> str:
    """Return what is wrong with a file whose content is what is said of it."""
    return worded("the content of the file %(sentence)s", sentence=sentence)


def not_utf_8(content: bytes) -> str:
    """Return what is wrong with text that should be UTF-8."""
    return other_encoding("utf-8", content)


class Transcoded:
    """Reads a text in another encoding as UTF-8, in bounded memory.

    Parameters
    ----------
    source
        The bytes of the file.
    encoding
        What they are in; not UTF-8.
    """

    def __init__(self, source: Source, encoding: Encoding) -> None:
        self._source = source
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(_CODECS[encoding])()
        self._as_utf_8 = codecs.getincrementaldecoder("utf-8")()
        self._plain = True  # so far only ASCII
        self._may_be_utf_8 = encoding != "utf-16"
        self._begun = False
        self._left = b""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes of UTF-8; none at the end.

        Raises
        ------
        UnreadableError
            The text is not in the declared encoding.
        """
        while len(self._left) < size:
            content = self._source.read(size)
            self._left += self._decoded(content)
            if not content:
                break
        given, self._left = self._left[:size], self._left[size:]
        return given

    def _decoded(self, content: bytes) -> bytes:
        if not self._begun:
            self._begin(content)
        self._look(content)
        if self._encoding == "iso-8859-1" and not _CONTROLS.isdisjoint(content):
            # no text holds control characters of this kind, which are letters in windows-1252
            raise UnreadableError(of_content(other_encoding(self._encoding, content)))
        try:
            return self._decoder.decode(content, not content).encode()
        except UnicodeError:  # lone surrogates cannot be encoded
            raise UnreadableError(of_content(other_encoding(self._encoding, content))) from None

    def _begin(self, content: bytes) -> None:
        """Look at the first bytes, where a mark or the first letters of a header say much."""
        self._begun = True
        likely = likely_encoding(content)
        one_byte = self._encoding != "utf-16"
        if likely == "utf-16" if one_byte else likely != "utf-16" and len(content) > 0:
            raise UnreadableError(of_content(other_encoding(self._encoding, content)))
        if one_byte and content.startswith(_UTF_8_MARK):
            raise UnreadableError(of_content(other_encoding(self._encoding, content)))
        if not one_byte and not content.startswith(_MARKS):
            big = content[0::2].count(0) > content[1::2].count(0)
            name = "utf-16-be" if big else "utf-16-le"
            self._decoder = codecs.getincrementaldecoder(name)()

    def _look(self, content: bytes) -> None:
        """Notice a text that is UTF-8 from its beginning to its end, and not ASCII alone."""
        if not self._may_be_utf_8:
            return
        try:
            self._as_utf_8.decode(content, not content)
        except UnicodeDecodeError:
            self._may_be_utf_8 = False
            return
        self._plain = self._plain and content.isascii()
        if not content and not self._plain:
            encoding = self._encoding
            raise UnreadableError(
                f'the file is UTF-8 text, not {encoding}: declare "encoding": "utf-8"'
            )
