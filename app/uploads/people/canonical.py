r"""The one text that a person's id has, however it is written.

Every reader of ids uses :func:`canonical_ids`: of CSV, Parquet and sources, and of each version of
a data set. Equal texts are one person.

*All ids.* Characters without width are removed: Unicode's format and control characters, and
variation selectors. A line break is a line feed. The text is normalised to NFC, and white space of
any kind is trimmed from both ends.

*Numbers.* An id that reads as a decimal number is that number: ``7``, ``+7``, ``7.0``, ``7e0`` and
digits of other scripts are one id. Signs between groups of three digits do not count. What is
read depends on the spec alone, never on other rows:

=============  ================================================================================
``id``         what is read as a number
=============  ================================================================================
None           numbers without leading zeros; all else is text, so ``007`` is not ``7``
``"number"``   all numbers, so ``007`` is ``7``; other ids are refused
``"text"``     nothing
=============  ================================================================================

*Refusals.* From 2**53 on several whole numbers have the same float, so the ids of two people may
have become one before the file was written. Such floats are refused, as are numbers in scientific
notation of that size, or cut to 15 digits as R does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.units import IdKind, UnitSpec

Mask = NDArray[np.bool_]

INEXACT = (
    "a number of 2^53 or more as a float or in scientific notation, in which different ids look "
    "alike: write ids with all digits, in Parquet as integers or texts; or declare "
    '"id": "text" in the unit if these texts are no numbers'
)
NOT_NUMERIC = (
    'not a number, as "id": "number" of the unit requires; without it ids may be numbers and texts'
)

_SIGNIFICANT = 15
"""Digits that R, and Excel, write of a number at most."""
_MOST_ZEROS = 40  # a fraction of more has an exponent
# Both say of a text that it is canonical as it is: nothing there can be read as another number.
_PLAIN_TEXT = (
    r"^(?:0|[1-9][0-9]*"  # a whole number
    r"|0[0-9]+"  # leading zeros
    r"|(?:[!-~][ -~]*)?[A-DF-Za-df-z_/:#](?:[ -~]*[!-~])?"  # a letter that is in no number
    r"|[!-~]*[0-9]-[!-~]+)$"
)
_PLAIN_NUMBER = r"^(?:0|[1-9][0-9]*)$"
_WHOLE = r"^[ \t]*\+?([1-9][0-9]*)(?:\.0*)?[ \t]*$"
_PADDED_WHOLE = r"^[ \t]*\+?0*([1-9][0-9]*)(?:\.0*)?[ \t]*$"
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_MARKS = ",.'\u2019 "
_SPACES = str.maketrans(dict.fromkeys("\u00a0\u2007\u2009\u202f", " "))
_SIGNS = {"\u2212": "-", "\uff0d": "-", "\uff0b": "+", "\uff0e": ".", "\uff0c": ",",
          "\uff25": "E", "\uff45": "e"}  # fmt: skip
# format and control characters but tab and line feed, a joiner, and variation selectors
_INVISIBLE = (
    r"[\p{Cf}\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\x{34f}\x{fe00}-\x{fe0f}\x{e0100}-\x{e01ef}]"
)
_NO_NUMBER = r"[\p{L}--[eE\x{ff25}\x{ff45}]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRule:
    """How a spec has ids read: what is a number, and which decimal mark numbers have."""

    kind: IdKind | None = None
    decimal: str = "."

    @classmethod
    def of(cls, unit: UnitSpec) -> IdRule:
        """Return the rule of a unit."""
        return cls(kind=unit.id, decimal=unit.decimal)


class Canonical(NamedTuple):
    """Canonical texts, empty where no id is, and the rows that are refused, by reason."""

    texts: pl.Series
    refused: Mapping[str, Mask]


def canonical_ids(cells: pl.Series, rule: IdRule, na: frozenset[str] = frozenset()) -> Canonical:
    """Return the canonical texts of ids, which are texts, numbers or null.

    Ids in ``na``, which are canonical texts, name no one; see :func:`canonical_markers`.
    """
    refused: dict[str, Mask] = {}
    if cells.dtype.is_float():
        cells, inexact = _of_floats(cells)
        if inexact.any():
            refused[INEXACT] = inexact
    elif cells.dtype != pl.String:
        cells = cells.cast(pl.String)
        rule = IdRule(kind=rule.kind)  # whatever decimal mark text files have
    texts = cells.fill_null("")
    is_plain = _PLAIN_NUMBER if rule.kind == "number" else _PLAIN_TEXT
    left = ~texts.str.contains(is_plain)
    if rule.kind != "text" and left.any():
        whole = _PADDED_WHOLE if rule.kind == "number" else _WHOLE
        if rule.decimal == ".":
            texts = texts.str.replace(whole, "$1")
            left = ~texts.str.contains(is_plain)
    if left.any():
        different = texts.filter(left).unique()
        read, why = _read(different, rule, na)
        for reason in {*why.values()}:
            those = [different[place] for place, each in why.items() if each == reason]
            mask = texts.is_in(those).to_numpy()
            refused[reason] = refused[reason] | mask if reason in refused else mask
        texts = texts.replace(different, read)
    if na:
        marked = texts.is_in(sorted(na))
        if marked.any():
            texts = texts.zip_with(~marked, pl.repeat("", len(texts), eager=True))
    return Canonical(texts, refused)


def _read(
    texts: pl.Series, rule: IdRule, na: frozenset[str]
) -> tuple[pl.Series, Mapping[int, str]]:
    """Return the canonical texts of different ids, and why some places are refused."""
    lines = texts.str.replace_all("\r\n?", "\n").str.replace_all(_INVISIBLE, "")
    cleaned = lines.str.normalize("NFC").str.strip_chars()
    if rule.kind == "text":
        return cleaned, {}
    why: dict[int, str] = {}
    found = cleaned.to_list()
    may_be_number = pl.Series([rule.kind == "number"]) | ~cleaned.str.contains(_NO_NUMBER)
    for place in may_be_number.arg_true().to_list():
        found[place], reason = _canonical(found[place], rule, na)
        if reason is not None:
            why[place] = reason
    return pl.Series(found, dtype=pl.String), why


def canonical_markers(markers: tuple[str, ...], rule: IdRule) -> frozenset[str]:
    """Return the markers of what is missing as canonical texts."""
    return frozenset(canonical_id(each, rule)[0] for each in markers)


def canonical_id(
    text: str, rule: IdRule, na: frozenset[str] = frozenset()
) -> tuple[str, str | None]:
    """Return the canonical text of one id, and why it is refused, if it is.

    >>> canonical_id(" 1e+05 ", IdRule()), canonical_id("007", IdRule())
    (('100000', None), ('007', None))
    >>> canonical_id("007", IdRule(kind="number")), canonical_id("7.0", IdRule(kind="text"))
    (('7', None), ('7.0', None))
    """
    read, why = _read(pl.Series([text]), rule, na)
    return read.item(), why.get(0)


def _canonical(cleaned: str, rule: IdRule, na: frozenset[str]) -> tuple[str, str | None]:
    """Return an id as a number where it is one, and why it is refused, if it is."""
    if cleaned in na or not cleaned:
        return cleaned, None
    found = _number(cleaned, rule)
    if found is None:
        return cleaned, NOT_NUMERIC if rule.kind == "number" else None
    number, inexact = found
    return number, INEXACT if inexact and number not in na else None


def _number(text: str, rule: IdRule) -> tuple[str, bool] | None:
    """Return the canonical text of a number, and whether it may stand for several; else None."""
    spelt = "".join(map(_plain_character, text.translate(_SPACES)))
    for mark in _MARKS.replace(rule.decimal, ""):
        decimal = re.escape(rule.decimal)
        groups = rf"[+-]?[0-9]{{1,3}}(?:{re.escape(mark)}[0-9]{{3}})+(?:{decimal}[0-9]*)?"
        if re.fullmatch(groups, spelt):
            spelt = spelt.replace(mark, "")
            break
    match = _NUMBER.fullmatch(spelt.replace(rule.decimal, "."))
    if match is None:
        return None
    sign, whole, part, power = match[1], match[2], match[3] or "", match[4]
    if not whole and not part:
        return None
    if rule.kind is None and len(whole) > 1 and whole[0] == "0":
        return None
    digits = (whole + part).lstrip("0")
    if not digits:
        return "0", False
    if power is not None and len(power) > 6:  # an exponent that no program writes
        return text, True
    exponent = int(power or 0) - len(part)
    stripped = digits.rstrip("0")
    exponent += len(digits) - len(stripped)
    return sign.replace("+", "") + _written(stripped, exponent), power is not None and _is_inexact(
        stripped, exponent
    )


def _is_inexact(digits: str, exponent: int) -> bool:
    """Say whether a number in scientific notation may stand for several."""
    size = len(digits) + exponent
    if size > len(str(2**53)):
        return True
    cut = len(digits) >= _SIGNIFICANT and size > _SIGNIFICANT
    return cut or (exponent >= 0 and int(digits) * 10**exponent >= 2**53)


def _written(digits: str, exponent: int) -> str:
    """Return a number of these digits, which neither begin nor end with 0, without an exponent."""
    if exponent >= 0:
        return digits + "0" * exponent if exponent <= 400 else f"{digits}e{exponent}"
    point = len(digits) + exponent
    if point > 0:
        return f"{digits[:point]}.{digits[point:]}"
    return f"0.{'0' * -point}{digits}" if -point <= _MOST_ZEROS else f"{digits}e{exponent}"


def _plain_character(character: str) -> str:
    if character.isascii():
        return character
    digit = unicodedata.decimal(character, None)
    return _SIGNS.get(character, character) if digit is None else str(digit)


def _of_floats(cells: pl.Series) -> tuple[pl.Series, Mask]:
    """Return floats as texts, whole ones with all digits, and which may stand for several ids."""
    exact = 2.0**24 if cells.dtype == pl.Float32 else 2.0**53
    numbers = cells.fill_nan(None)
    inexact = (numbers.abs() >= exact).fill_null(value=False).to_numpy()
    if inexact.any():
        nothing = pl.repeat(None, len(cells), dtype=cells.dtype, eager=True)
        numbers = numbers.zip_with(pl.Series(~inexact), nothing)
    integers = numbers.cast(pl.Int64, strict=False)
    whole = (integers.cast(pl.Float64) == numbers.cast(pl.Float64)).fill_null(value=False)
    frame = pl.DataFrame({"whole": whole, "integers": integers, "numbers": numbers})
    written = pl.when("whole").then(pl.col("integers").cast(pl.String))
    texts = frame.select(written.otherwise(pl.col("numbers").cast(pl.String)).alias("texts"))
    return texts["texts"], inexact
