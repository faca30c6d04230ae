"""Text in other encodings than UTF-8: turned into UTF-8 as it is read, or named.

A file's encoding cannot be determined with certainty. A text that is not what the spec declares
is refused, and the refusal names the encoding that its bytes look like: byte order marks and NUL
bytes say UTF-16, bytes that are UTF-8 say so themselves, and of one byte a character the one that
has all of its bytes is named.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Protocol

from app.domain.datasets import Encoding
from app.uploads.trouble import UnreadableError

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
    way_out = (
        'save the file as UTF-8, or declare its "encoding"'
        if likely is None or likely == declared
        else f'it looks like {likely}: declare "encoding": "{likely}"'
    )
    return f"is not {_NAMES[declared]} text; {way_out}"


_NAMES: Mapping[Encoding, str] = {
    "utf-8": "UTF-8",
    "windows-1252": "windows-1252",
    "iso-8859-1": "iso-8859-1",
    "utf-16": "UTF-16",
}


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
            raise UnreadableError(f"the file {other_encoding(self._encoding, content)}")
        try:
            return self._decoder.decode(content, not content).encode()
        except UnicodeError:  # lone surrogates cannot be encoded
            raise UnreadableError(f"the file {other_encoding(self._encoding, content)}") from None

    def _begin(self, content: bytes) -> None:
        """Look at the first bytes, where a mark or the first letters of a header say much."""
        self._begun = True
        likely = likely_encoding(content)
        one_byte = self._encoding != "utf-16"
        if likely == "utf-16" if one_byte else likely != "utf-16" and len(content) > 0:
            raise UnreadableError(f"the file {other_encoding(self._encoding, content)}")
        if one_byte and content.startswith(_UTF_8_MARK):
            raise UnreadableError(f"the file {other_encoding(self._encoding, content)}")
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
            raise UnreadableError(
                f'the file is UTF-8 text, not {self._encoding}: declare "encoding": "utf-8"'
            )
