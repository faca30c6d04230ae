"""What a dictionary says of columns, whatever it is written in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
