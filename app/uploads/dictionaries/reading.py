"""A dictionary as bytes: which of the kinds it is, by its first letter that is not white space."""

from __future__ import annotations

from app.uploads.dictionaries.codebooks import codebook
from app.uploads.dictionaries.described import Dictionary, DictionaryError
from app.uploads.dictionaries.json_schemas import json_dictionary
from app.uploads.recognition import recognised

MAX_DICTIONARY_BYTES = 1 << 26
KINDS = "a Frictionless table schema (JSON), CSVW metadata (JSON) or a DDI codebook (XML)"


def dictionary_in(content: bytes) -> Dictionary:
    """Return what a dictionary says.

    Raises
    ------
    DictionaryError
        It is of no known kind, or cannot be read.
    """
    if len(content) > MAX_DICTIONARY_BYTES:
        raise DictionaryError(f"the dictionary is larger than {MAX_DICTIONARY_BYTES} bytes")
    start = content.lstrip(b" \t\r\n\xef\xbb\xbf")
    if start.startswith(b"{"):
        return json_dictionary(content)
    if start.startswith(b"<") and not content.startswith(b"<stata_dta>"):
        return codebook(content.lstrip(b" \t\r\n"))
    kind = recognised(content)
    named = "" if kind is None else f"{kind.name}, and not "
    raise DictionaryError(
        f"the dictionary is {named or 'not '}{KINDS}; files of SPSS, Stata and SAS are "
        "dictionaries of their own on the command line: "
        "release-desk datasets draft FILE --dictionary FILE"
    )
