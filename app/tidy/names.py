"""Names of numbers, made of their keys and of nothing else: for pages, charts and tables.

A category's values may have labels, which people see. Names on pages have them in place of the
values (:func:`label`), tables next to the values (:func:`grouping`).

The names and fields of statistics, for programs that do not know them, are generated: ``python -m
app.services.generated`` writes them from the classes of the statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from app.tidy.keys import Key

NAMES: Mapping[str, str] = {
    "std": "standard deviation",
    "poisson_regression": "Poisson regression",
    "cox_regression": "Cox regression",
    "kaplan_meier": "Kaplan-Meier curve",
    "roc": "ROC curve",
    "pca": "principal components",
}
"""Names of kinds that are not their kind in words."""

ON_DIAGONAL: Mapping[str, str] = {"covariance": "variance"}
"""The kind of a matrix's entries of a column with itself, where that has a name of its own."""


class OwnFields(TypedDict, total=False):
    """Fields that have no type in :mod:`app.client.questions`; the service says what they are."""

    bins: object
    ceiling: object
    components: object
    differences: object
    event: object
    groups: object
    hierarchy: object
    known: object
    label: object
    margins: object
    offset: object
    ranges: object
    raw: object
    reference: object
    scaled: object
    score: object
    scores: object
    select: object
    select_share: object
    shares: object
    show: object
    test: object
    time: object
    value: object


# Names of numbers, made of their keys and of nothing else: for pages, charts and tables


Labels = Mapping[str, Mapping[str, str]]
"""By column, what a value of it is called: display only, never a key."""

NO_LABELS: Labels = {}
_FIT = {"r_squared": "R squared", "residual_variance": "residual variance"}
_OF_SEVERAL = {
    "count": "count", "mean": "mean", "product": "mean of products",
    "coefficient": "coefficient",
    "odds ratio": "odds ratio", "rate ratio": "rate ratio", "hazard ratio": "hazard ratio",
}  # fmt: skip
"""What numbers are of answers that have several statistics, by their measure."""


def words(kind: str) -> str:
    """Return a kind of statistic as words.

    >>> words("linear_regression"), words("std")
    ('linear regression', 'standard deviation')
    """
    return NAMES.get(kind, kind.replace("_", " "))


def statistic(key: Key) -> str:
    """Return which statistic a number is, as tables have it: its kind, or of several its own.

    >>> moment = Key(kind="moments", measure="mean", mixed=True)
    >>> statistic(Key(kind="std")), statistic(moment)
    ('std', 'mean')
    """
    return _OF_SEVERAL.get(key.measure, key.kind) if key.mixed else key.kind


def term(key: Key) -> str:
    """Return which number it is within its statistic and group, short and stable.

    >>> term(Key(terms=("a", "b"))), term(Key(measure="level", terms=("0.25",)))
    ('a:b', 'level 0.25')
    """
    if key.measure == "level":
        return f"level {key.terms[0]}"
    return ":".join(key.terms) or key.measure or key.kind


def statistic_of(key: Key) -> str:
    """Return a number with its statistic, for where several statistics are together.

    >>> statistic_of(Key(kind="std", terms=("age",)))
    'standard deviation of age'
    >>> statistic_of(Key(kind="quantile", measure="level", terms=("0.5",), subject="income"))
    'quantile 0.5 of income'
    """
    if key.measure == "level":
        return f"{words(key.kind)} {key.terms[0]}" + (f" of {key.subject}" if key.subject else "")
    if not key.terms:
        return key.measure or words(key.kind)
    if key.measure in ("fit", "coefficient", "curve", "test"):
        own = key.terms[0]
        return f"{words(key.kind)}, {_FIT.get(own, own) if key.measure == 'fit' else own}"
    if key.measure == "product":
        return f"mean of {' × '.join(key.terms)}"
    if key.kind in ON_DIAGONAL and len(set(key.terms)) == 1:
        return f"{words(ON_DIAGONAL[key.kind])} of {key.terms[0]}"
    return f"{words(key.measure or key.kind)} of {' and '.join(key.terms)}"


_OPERATIONS = {"==": "is", "=": "is", "!=": "is not", "in": "is one of"}


def condition(asked: Mapping[str, Any]) -> str:
    """Return a condition of a question in words.

    >>> condition({"column": "age", "op": "in", "value": [1, 2.0]})
    'age is one of 1, 2'
    >>> condition({"column": "age", "op": "present"}), condition({"column": "old", "value": True})
    ('age is present', 'old is yes')
    """
    operation, value = str(asked.get("op", "==")), asked.get("value")
    if value is None:
        return f"{asked['column']} is {operation}"
    values = value if isinstance(value, list | tuple) else [value]
    said = ", ".join(map(_written, values))
    return f"{asked['column']} {_OPERATIONS.get(operation, operation)} {said}"


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else str(value).removesuffix(".0")


def where(key: Key) -> str:
    """Return the conditions of a number's part in a stack, in words; empty without any.

    >>> where(Key(where=[{"column": "age", "op": ">", "value": 5}, {"column": "n", "value": 1}]))
    'age > 5 and n is 1'
    """
    return " and ".join(map(condition, key.where))


def name(key: Key, labels: Labels = NO_LABELS) -> str:
    """Return a number's name in a line: which it is, then its group.

    >>> name(Key(measure="count", cell={"region": "north"}))
    'count (region=north)'
    >>> name(Key(kind="mean", terms=("age",), part=2, group={"sex": "M"}), {"sex": {"M": "men"}})
    'mean of age (sex=men)'
    >>> name(Key(kind="count", part=1, where=[{"column": "age", "op": ">", "value": 5}]))
    'count where age > 5'
    >>> name(Key(kind="moments", terms=("age",), measure="mean", mixed=True))
    'mean of age'
    """
    if key.part is not None or key.mixed:  # several statistics
        first = statistic_of(key) + (f" where {where(key)}" if key.where else "")
    else:
        own = term(key)
        first = _FIT.get(own, own) if key.measure == "fit" else own
    inside = ", ".join(
        f"{column}={label(column, value, labels)}" for column, value in key.labels.items()
    )
    return f"{first} ({inside})" if inside else first


def label(column: str, value: Any, labels: Labels = NO_LABELS) -> str:
    """Return what a value of a group or cell is called on pages and in tables."""
    return labels.get(column, {}).get(str(value), str(value))


def labels_of(columns: Mapping[str, Mapping[str, Any]]) -> Labels:
    """Return what values are called, given columns as the service declares them.

    Where two values of a column have one label, each is shown with its value.

    >>> labels_of({"sex": {"labels": {"1": "women", "2": "men", "8": "?", "9": "?"}}})["sex"]
    {'1': 'women', '2': 'men', '8': '? (8)', '9': '? (9)'}
    """
    return {
        name: {
            value: f"{text} ({value})" if list(labels.values()).count(text) > 1 else text
            for value, text in labels.items()
        }
        for name, column in columns.items()
        if (labels := column.get("labels"))
    }


def titles_of(columns: Mapping[str, Mapping[str, Any]]) -> Mapping[str, str]:
    """Return what columns are called in tables for readers, by their short names.

    Where two columns have one label, each is shown with its name.

    >>> titles_of({"a": {"label": "Age", "unit_of_measure": "years"}, "b": {}})
    {'a': 'Age (years)', 'b': 'b'}
    """
    labels = [column.get("label") for column in columns.values()]
    found = dict[str, str]()
    for name, column in columns.items():
        text = column.get("label") or name
        shared = text != name and labels.count(text) > 1
        unit = column.get("unit_of_measure")
        inside = ", ".join(filter(None, (name if shared else None, unit)))
        found[name] = f"{text} ({inside})" if inside else text
    return found


@dataclass(frozen=True, slots=True)
class Grouping:
    """The columns of a table that say of which group or cell a number is.

    ``columns`` are the group columns by name with the names that they have in the table.
    ``labelled`` are those whose values have labels, with the names of the labels' columns.
    """

    columns: Mapping[str, str]
    labelled: Mapping[str, str]
    labels: Labels

    @property
    def names(self) -> Sequence[str]:
        """Return the names of all these columns in a table, in order."""
        return [
            name
            for column, own in self.columns.items()
            for name in (own, *filter(None, [self.labelled.get(column)]))
        ]

    def cells(self, key: Key) -> dict[str, Any]:
        """Return the cells of a number's row, by the names of their columns."""
        found: dict[str, Any] = {}
        for column, value in key.labels.items():
            found[self.columns[column]] = value
            if column in self.labelled:
                found[self.labelled[column]] = self.labels[column].get(str(value))
        return found


def grouping(keys: Sequence[Key], taken: frozenset[str], labels: Labels = NO_LABELS) -> Grouping:
    """Return the columns that a table needs for the groups and cells of numbers.

    A column that is called like another column of the table is called ``by`` and its name. A
    column whose values have labels is followed by one with them.

    >>> found = grouping([Key(group={"sex": "f", "term": 1})], frozenset({"term"}))
    >>> found.names
    ['sex', 'by term']
    >>> found = grouping([Key(group={"sex": "f"})], frozenset(), {"sex": {"f": "women"}})
    >>> found.cells(Key(group={"sex": "f"}))
    {'sex': 'f', 'sex label': 'women'}
    """
    ordered = dict.fromkeys(column for key in keys for column in key.labels)
    columns = {column: f"by {column}" if column in taken else column for column in ordered}
    used, labelled = {*taken, *columns.values()}, dict[str, str]()
    for column in ordered:
        if column in labels:
            own = f"{columns[column]} label"
            while own in used:
                own = f"by {own}"
            labelled[column] = own
            used.add(own)
    return Grouping(columns, labelled, labels)
