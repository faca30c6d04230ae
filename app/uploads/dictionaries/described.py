"""What a dictionary says of columns, whatever it is written in.

*What files of SPSS, Stata and SAS say of their columns: labels, value labels, missing codes.* The
metadata are those that ``pyreadstat`` returns. A file's values have been read by then with the
codes for missing values as missing cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

# What files of SPSS, Stata and SAS say of their columns: labels, value labels, missing codes

_MOST_CODES = 100  # of a range of codes for missing values
_SCALE = "scale"


def statistical_dictionary(meta: Any) -> Dictionary:
    """Return what the metadata of a file say.

    A column with labels for at least two of its values is a category, unless the file calls it a
    scale. Its other columns have the types of the file's cells.
    """
    labels = getattr(meta, "column_names_to_labels", None) or {}
    of_values = getattr(meta, "variable_value_labels", None) or {}
    measures = getattr(meta, "variable_measure", None) or {}
    columns = {
        name: _column(
            labels.get(name),
            of_values.get(name) or {},
            [*_missing_codes(meta, name)],
            measures.get(name),
        )
        for name in meta.column_names
    }
    return Dictionary(columns=columns, name=_one_line(getattr(meta, "file_label", None)))


def _one_line(text: str | None) -> str | None:
    return " ".join(text.split())[:100] or None if text else None


def _column(
    label: str | None, labels: Mapping[Any, str], missing: list[str], measure: str | None
) -> Described:
    named = {code_text(value): str(text) for value, text in labels.items()}
    kept = [each for each in named if each not in missing]
    category = len(kept) > 1 and measure != _SCALE
    notes = []
    if kept and not category:
        notes.append(
            "some of its values have labels in the file; where one stands for a missing value, put "
            "it into `na`"
        )
    return Described(
        type="category" if category else None,
        label=label,
        values=kept if category else (),
        labels=named if category else {},
        na=missing,
        notes=notes,
    ).tidied()


def _missing_codes(meta: Any, name: str) -> Iterator[str]:
    for each in (getattr(meta, "missing_ranges", None) or {}).get(name, ()):
        low, high = each["lo"], each["hi"]
        if low == high:
            yield code_text(low)
            continue
        first, last = number_in(low), number_in(high)
        if isinstance(first, int) and isinstance(last, int) and last - first < _MOST_CODES:
            yield from map(str, range(first, last + 1))
        else:  # an open range: those of its codes that have labels
            values = (getattr(meta, "variable_value_labels", None) or {}).get(name) or {}
            inside = (v for v in values if isinstance(v, int | float) and low <= v <= high)
            yield from map(code_text, inside)
    for letter in (getattr(meta, "missing_user_values", None) or {}).get(name, ()):
        yield f".{letter}" if str(letter).isalpha() else code_text(letter)


# What a dictionary says of columns, whatever it is written in

Number = int | float | str


class DictionaryError(Exception):
    """A dictionary cannot be read; its text is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What is said of one column, in the words of a spec; None and nothing where it is not said.

    ``lower`` and ``upper`` are ends of what the dictionary calls valid. ``reading`` are further
    members of the column, such as its ``format``.
    """

    type: str | None = None
    label: str | None = None
    values: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    na: Sequence[str] = ()
    unit: str | None = None
    lower: Number | None = None
    upper: Number | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def tidied(self) -> Described:
        """Return the same without what a spec would refuse: a code is missing or a value."""
        missing = {*self.na}
        values = [each for each in dict.fromkeys(self.values) if each not in missing]
        shortened = {each: " ".join(self.labels.get(each, "").split())[:200] for each in values}
        labels = {each: label for each, label in shortened.items() if label}
        label = None if self.label is None else " ".join(self.label.split())[:200] or None
        return replace(
            self,
            values=values,
            labels=labels,
            label=label,
            na=[*dict.fromkeys(filter(None, self.na))],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictionary:
    """What is said of a file: of its columns by their headers, and how it is written.

    ``dialect`` are members of a spec such as its ``delimiter``; ``style`` is the decimal mark and
    the thousands separator.
    """

    columns: Mapping[str, Described] = field(default_factory=dict)
    na: Sequence[str] = ()
    name: str | None = None
    description: str = ""
    dialect: Mapping[str, Any] = field(default_factory=dict)
    style: tuple[str, str | None] | None = None
    notes: Sequence[str] = ()

    def of(self, header: str) -> Described:
        """Return what is said of the column with a header, in any case if in no other way."""
        if (found := self.columns.get(header)) is not None:
            return found
        alike = [
            each for name, each in self.columns.items() if name.casefold() == header.casefold()
        ]
        return alike[0] if len(alike) == 1 else Described()

    def missing_from(self, headers: Iterable[str]) -> Iterator[str]:
        """Yield the columns that a file with these headers does not have."""
        there = {each.strip().casefold() for each in headers}
        return (name for name in self.columns if name.casefold() not in there)


_WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def number_in(value: object) -> int | float | None:
    """Return a number that a dictionary states as such or as text, None for anything else.

    >>> number_in("7.0"), number_in(".5"), number_in("many"), number_in(True)
    (7, 0.5, None, None)
    """
    if isinstance(value, bool):
        return None
    text = str(value).strip()
    if _WHOLE.fullmatch(text):
        return int(text.partition(".")[0])
    return float(text) if _DECIMAL.fullmatch(text) else None


def code_text(value: object) -> str:
    """Return a code as a file has it: 1.0 is 1, and true is true.

    >>> code_text(1.0), code_text(-9), code_text("a"), code_text(True)
    ('1', '-9', 'a', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
