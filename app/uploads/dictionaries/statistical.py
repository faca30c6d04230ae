"""What files of SPSS, Stata and SAS say of their columns: labels, value labels, missing codes.

The metadata are those that ``pyreadstat`` returns. A file's values have been read by then with the
codes for missing values as missing cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.uploads.dictionaries.described import Described, Dictionary, code_text, number_in

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
