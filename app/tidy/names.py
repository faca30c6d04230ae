"""Names of numbers, made of their keys and of nothing else: for pages, charts and tables.

A name is a :class:`Phrase`: in files and for programs it reads in English, and a page says it in
the language of its reader.

A category's values may have labels, which people see. Names on pages have them in place of the
values (:func:`label`), tables next to the values (:func:`grouping`).

The names and fields of statistics, for programs that do not know them, are generated: ``python -m
app.services.generated`` writes them from the classes of the statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypedDict

from app.tidy.keys import Key


class Phrase(str):
    """A text in English with values in it, and what it is made of.

    A value may be a phrase itself. One that is ``capital`` begins with a capital letter, in
    whatever language it is said.
    """

    __slots__ = ("capital", "text", "values")
    text: str
    values: Mapping[str, str]
    capital: bool

    def __new__(cls, text: str, values: Mapping[str, str] = MappingProxyType({})) -> Phrase:
        """Return the text with the values in their places."""
        made = super().__new__(cls, text % values if values else text)
        made.text, made.values, made.capital = text, values, False
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Return what a copy in another process is made of: the English text alone."""
        return str, (str(self),)

    def capitalized(self) -> Phrase:
        """Return the same with a capital letter first.

        >>> Phrase("mean of %(columns)s", {"columns": "ph"}).capitalized()
        'Mean of ph'
        """
        made = super().__new__(type(self), f"{self[:1].upper()}{self[1:]}")
        made.text, made.values, made.capital = self.text, self.values, True
        return made


def marked(text: str, /, **values: object) -> Phrase:
    """Return a text that pages show: catalogues must have it. Values have named places in it.

    >>> marked("Left: %(left)s.", left=5)
    'Left: 5.'
    """
    return Phrase(
        text, {name: each if isinstance(each, str) else str(each) for name, each in values.items()}
    )


def joined(parts: Iterable[str], between: str = ", ") -> Phrase:
    """Return several texts as one phrase, which has no words of its own.

    >>> joined(["count", marked("%(text)s by %(columns)s", text="mean", columns="sex")])
    'count, mean by sex'
    """
    named = {f"part{at}": part for at, part in enumerate(parts)}
    return Phrase(between.join(f"%({name})s" for name in named), named)


def all_of(names: Sequence[str], between: str = ", ") -> Phrase:
    """Return names with "and" before the last one.

    >>> all_of(["a", "b", "c"]), all_of(["a"])
    ('a, b and c', 'a')
    """
    if len(names) < 2:
        return joined(names)
    *before, last = names
    first = joined(before) if between == ", " else all_of(before, between)
    return marked("%(first)s and %(last)s", first=first, last=last)


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
_FIT = {"r_squared": marked("R squared"), "residual_variance": marked("residual variance")}
_OF_SEVERAL = {
    "count": "count", "mean": "mean", "product": "mean of products",
    "coefficient": "coefficient",
    "odds ratio": "odds ratio", "rate ratio": "rate ratio", "hazard ratio": "hazard ratio",
}  # fmt: skip
"""What numbers are of answers that have several statistics, by their measure."""


def words(kind: str) -> Phrase:
    """Return a kind of statistic as words.

    >>> words("linear_regression"), words("std")
    ('linear regression', 'standard deviation')
    """
    return Phrase(NAMES.get(kind, kind.replace("_", " ")))


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


def statistic_of(key: Key) -> Phrase:
    """Return a number with its statistic, for where several statistics are together.

    >>> statistic_of(Key(kind="std", terms=("age",)))
    'standard deviation of age'
    >>> statistic_of(Key(kind="quantile", measure="level", terms=("0.5",), subject="income"))
    'quantile 0.5 of income'
    """
    kind = words(key.measure or key.kind)
    if key.measure == "level":
        level = joined([words(key.kind), key.terms[0]], " ")
        return of(level, key.subject) if key.subject else level
    if not key.terms:
        return kind
    if key.measure in ("fit", "coefficient", "curve", "test"):
        return joined([words(key.kind), own_term(key)])
    if key.measure == "product":
        return of(words("mean"), " × ".join(key.terms))
    if key.kind in ON_DIAGONAL and len(set(key.terms)) == 1:
        return of(words(ON_DIAGONAL[key.kind]), key.terms[0])
    return of(kind, all_of(key.terms, " and "))


def of(kind: str, columns: str) -> Phrase:
    """Return a kind of number with what it is of.

    >>> of("mean", "age")
    'mean of age'
    """
    return marked("%(kind)s of %(columns)s", kind=kind, columns=columns)


def own_term(key: Key) -> Phrase:
    """Return which number it is within its statistic, for people.

    >>> own_term(Key(measure="fit", terms=("r_squared",)))
    'R squared'
    """
    own = term(key)
    return Phrase(own) if key.measure != "fit" else _FIT.get(own, Phrase(own))


_OPERATIONS = {
    "==": marked("%(column)s is %(value)s"),
    "=": marked("%(column)s is %(value)s"),
    "!=": marked("%(column)s is not %(value)s"),
    "in": marked("%(column)s is one of %(value)s"),
}
_BARE = {"present": marked("%(column)s is present"), "missing": marked("%(column)s is missing")}


def condition(asked: Mapping[str, Any]) -> Phrase:
    """Return a condition of a question in words.

    >>> condition({"column": "age", "op": "in", "value": [1, 2.0]})
    'age is one of 1, 2'
    >>> condition({"column": "age", "op": "present"}), condition({"column": "old", "value": True})
    ('age is present', 'old is yes')
    """
    operation, value, column = str(asked.get("op", "==")), asked.get("value"), asked["column"]
    if value is None:
        return Phrase(_BARE.get(operation, f"%(column)s is {operation}"), {"column": column})
    values = value if isinstance(value, list | tuple) else [value]
    said = joined(map(written, values))
    if operation not in _OPERATIONS:
        return joined([column, operation, said], " ")
    return Phrase(_OPERATIONS[operation], {"column": column, "value": said})


_YES, _NO = marked("yes"), marked("no")


def written(value: object) -> str:
    """Return a value of a question as people write it.

    >>> written(True), written(2.0), written("north")
    ('yes', '2', 'north')
    """
    if isinstance(value, bool):
        return _YES if value else _NO
    return value if isinstance(value, str) else str(value).removesuffix(".0")


def where(key: Key) -> Phrase:
    """Return the conditions of a number's part in a stack, in words; empty without any.

    >>> where(Key(where=[{"column": "age", "op": ">", "value": 5}, {"column": "n", "value": 1}]))
    'age > 5 and n is 1'
    """
    return all_of([*map(condition, key.where)], " and ")


def narrowed(asked: Mapping[str, Any]) -> Phrase:
    """Return which records a statistic is about and how much each counts; empty for all alike.

    >>> where = [{"column": "age", "op": ">", "value": 5}]
    >>> narrowed({"kind": "count", "where": where, "weights": "w"}), narrowed({"kind": "count"})
    ('where age > 5, weighted by w', '')
    """
    found = []
    if asked.get("where"):
        conditions = all_of([*map(condition, asked["where"])], " and ")
        found.append(marked("where %(condition)s", condition=conditions))
    if asked.get("weights"):
        found.append(marked("weighted by %(column)s", column=asked["weights"]))
    return joined(found)


def with_narrowed(text: str, said: str) -> str:
    """Return what numbers are with what :func:`narrowed` says of their records."""
    return Phrase("%(text)s, %(said)s", {"text": text, "said": said}) if said else text


def said_of(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what has to be shown with numbers of an answer, a sentence each; often nothing.

    That is which records they are about, how much each counts, how missing values count, and what
    an estimate is of where its name does not say it. ``answer`` has the members of a release, a
    derivation, a dry run or a preview.

    >>> said_of({"statistic": {"kind": "mean", "weights": "w"}, "about_missing": ["None is left."]})
    ('Weighted by w.', 'None is left.')
    """
    asked, details = answer.get("statistic") or {}, answer.get("details") or {}
    stack = [(at, part["statistic"]) for at, part in enumerate(asked.get("parts") or (), start=1)]
    drawn = [each.get("details") or {} for each in details.get("parts") or ()]
    return (
        *(Phrase("%(said)s.", {"said": each.capitalized()}) for each in [narrowed(asked)] if each),
        *(
            marked("Part %(part)s: %(said)s.", part=at, said=each)
            for at, part in stack
            for each in [narrowed(part)]
            if each
        ),
        *answer.get("about_missing", ()),
        *answer.get("about_weights", ()),
        *dict.fromkeys(each["estimates"] for each in (details, *drawn) if "estimates" in each),
    )


def of_part(text: Phrase, key: Key) -> Phrase:
    """Return a text with the conditions of a number's part, if it has any."""
    return (
        marked("%(text)s where %(conditions)s", text=text, conditions=where(key))
        if key.where
        else text
    )


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
    several = key.part is not None or key.mixed
    first = of_part(statistic_of(key), key) if several else own_term(key)
    inside = ", ".join(
        f"{column}={label(column, value, labels)}" for column, value in key.labels.items()
    )
    return Phrase("%(text)s (%(inside)s)", {"text": first, "inside": inside}) if inside else first


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
