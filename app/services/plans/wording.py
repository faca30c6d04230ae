"""A question in words: what is asked of which columns and records, for people who decide on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import chain
from typing import Any

from app.services.plans.questions import Question
from app.tidy.names import Phrase, all_of, condition, joined, marked, of, words, written
from mechanisms.catalog import STATISTICS
from mechanisms.expressions.parsing import parse
from mechanisms.words import listed

_STATED = frozenset(
    {
        "kind", "columns", "column", "target", "features", "formula", "where", "by", "parts",
        "derive", "edges", "time", "event", "score", "label",
    }
)  # fmt: skip
_AMOUNT_AND_FLAG = ("time", "event", "score", "label")
"""The fields of a number column and a boolean one that are counted together."""
_NAMING = (
    "columns", "column", *_AMOUNT_AND_FLAG, "target", "features", "offset", "where", "by",
    "weights", "groups",
)  # fmt: skip
"""The fields that name columns; ``edges`` have those of ``columns``."""
_MOST_NAMED = 4


def asked(statistic: Mapping[str, Any]) -> Phrase:
    """Return what a statistic is and of which columns, as words.

    >>> asked({"kind": "mean", "columns": ["income", "food"], "where": [{"column": "age"}]})
    'mean of income, food, with conditions'
    >>> asked({"kind": "linear_regression", "target": "food", "features": ["income"]})
    'linear regression of food on income'
    >>> asked({"kind": "mean", "columns": ["income"], "by": ["sex", "region"]})
    'mean income by sex and region'
    >>> asked({"kind": "cox_regression", "time": "months", "event": "died", "features": ["age"]})
    'Cox regression of months, died on age'
    >>> asked({"kind": "test", "test": "welch", "columns": ["income"], "groups": "sex"})
    'Welch’s t test of income by sex'
    >>> asked({"kind": "count", "by": ["sex"], "weights": "w"})
    'count by sex, weighted'
    """
    if "parts" in statistic:
        return joined((asked(part["statistic"]) for part in statistic["parts"]), "; ")
    compared = [statistic["groups"]] if statistic.get("groups") else []
    text = _asked(
        statistic,
        of=statistic.get("formula") or _several(_counted(statistic)),
        features=_several(statistic.get("features") or ()),
        by=[_named(each) for each in (*compared, *(statistic.get("by") or ()))],
    )
    if statistic.get("weights"):
        text = marked("%(text)s, weighted", text=text)
    return marked("%(text)s, with conditions", text=text) if statistic.get("where") else text


def _asked(statistic: Mapping[str, Any], *, of: str, features: str, by: Sequence[str]) -> Phrase:
    """Return a kind of statistic with what it is of, on and by, as far as these are there."""
    text = _kind_of(statistic)
    if of and _precedes(statistic):
        text = marked("%(kind)s %(columns)s", kind=text, columns=of)
    elif of:
        text = marked("%(kind)s of %(columns)s", kind=text, columns=of)
    if features and not statistic.get("formula"):
        text = marked("%(text)s on %(columns)s", text=text, columns=features)
    return marked("%(text)s by %(columns)s", text=text, columns=all_of(by)) if by else text


def _kind_of(statistic: Mapping[str, Any]) -> Phrase:
    found = (called.get(str(statistic.get(name))) for name, called in _named_by(statistic).items())
    return Phrase(next(filter(None, found), words(str(statistic["kind"]))))


def _named_by(statistic: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
    kind = STATISTICS.get(str(statistic["kind"]))
    return {} if kind is None else kind.named_by


def _counted(statistic: Mapping[str, Any]) -> Sequence[object]:
    """Return what a statistic is of: its target, its columns, or its pair of an amount and a flag.

    >>> _counted({"kind": "roc", "score": "age", "label": "died"})
    ['age', 'died']
    """
    for name in ("target", "column"):
        if name in statistic:
            return [statistic[name]]
    pair = [statistic[name] for name in _AMOUNT_AND_FLAG if name in statistic]
    return statistic.get("columns") or pair


def _precedes(statistic: Mapping[str, Any]) -> bool:
    """Return whether a kind is before its columns without "of", as in "mean income by sex"."""
    asked = STATISTICS.get(str(statistic["kind"]))
    return asked is not None and asked.precedes_columns and bool(statistic.get("by"))


def kinds_in_words(kinds: Sequence[str]) -> str:
    """Return kinds of statistics as a part of a sentence, each once.

    >>> kinds_in_words(["mean", "histogram", "mean"])
    'mean and histogram'
    """
    return listed(list(map(words, dict.fromkeys(kinds))))


def _several(names: Sequence[object]) -> Phrase:
    """Return names, of many the first."""
    more = len(names) - _MOST_NAMED
    first = joined(map(_named, names[:_MOST_NAMED]))
    return first if more <= 0 else marked("%(first)s and %(count)s more", first=first, count=more)


def _named(part: object) -> str:
    """Return a column, a group's bands, a target or a feature in a word, as a coefficient has it.

    >>> _named({"product": ["age", {"column": "sex", "reference": "m"}, {"log": "income"}]})
    'age:sex:log(income)'
    """
    if not isinstance(part, Mapping):
        return str(part)
    if "product" in part:
        return ":".join(map(_named, part["product"]))
    return f"log({part['log']})" if "log" in part else str(part.get("expr") or part["column"])


def columns_named(statistic: Mapping[str, Any]) -> frozenset[str]:
    """Return the columns that a statistic is about, and no word of it that is only called so.

    >>> asked = {"kind": "mean", "columns": ["n"], "derive": {"n": "age / 2"}, "by": ["sex"]}
    >>> sorted(columns_named(asked | {"where": [{"column": "of", "op": "==", "value": "kind"}]}))
    ['age', 'n', 'of', 'sex']
    """
    parts = (columns_named(part["statistic"]) for part in statistic.get("parts") or ())
    derived = (
        parse(text if isinstance(text, str) else text["expr"]).columns
        for text in (statistic.get("derive") or {}).values()
    )
    own = (_columns(statistic.get(name)) for name in _NAMING)
    return frozenset(chain.from_iterable((*parts, *derived, *own)))


def _columns(part: Any) -> Iterator[str]:
    """Yield the columns in a field that names some: of itself, of conditions or of features."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for name in ("column", "log", "product"):
            yield from _columns(part.get(name))
        yield from parse(part["expr"]).columns if "expr" in part else ()
    else:
        for each in part or ():
            yield from _columns(each)


def in_words(question: Question) -> Phrase:
    """Return a question as a sentence.

    Rare fields are written as ``name = value`` where they differ from their defaults.
    """
    statistic: Any = question.to_json()["statistic"]
    parts = [
        asked_in_full(statistic),
        marked("for an epsilon of %(epsilon)s", epsilon=question.epsilon),
    ]
    if question.mechanism != "auto":
        parts.append(marked("drawn by %(mechanism)s", mechanism=words(question.mechanism)))
    if question.norm != "auto":
        parts.append(marked("in the %(norm)s norm", norm=question.norm))
    if question.inference is not None:
        share = question.inference
        parts.append(marked("of which at most %(share)s goes to standard errors", share=share))
    return Phrase("%(sentence)s.", {"sentence": joined(parts).capitalized()})


def asked_in_full(statistic: Mapping[str, Any]) -> Phrase:
    """Return what a statistic is, of which records too, so that nothing of it is left out.

    >>> where = [{"column": "sex", "op": "==", "value": "f"}]
    >>> asked_in_full({"kind": "sum", "columns": ["pay", "tax"], "where": where})
    'sum of pay, tax, where sex is f'
    """
    return joined(_statistic(statistic))


def _statistic(statistic: Mapping[str, Any]) -> Iterator[Phrase]:
    if "parts" in statistic:
        parts = [
            Phrase("(%(part)s)", {"part": joined(_statistic(part["statistic"]), "; ")})
            for part in statistic["parts"]
        ]
        yield of(_kind_of(statistic), all_of(parts, " and "))
        return
    yield _asked(
        statistic,
        of=statistic.get("formula") or _value(_counted(statistic)),
        features=_value(statistic.get("features") or ()),
        by=[_value(each) for each in statistic.get("by") or ()],
    )
    for each in statistic.get("where") or ():
        yield marked("where %(condition)s", condition=condition(each))
    for name, text in (statistic.get("derive") or {}).items():
        yield marked("with %(name)s = %(value)s", name=name, value=_value(text))
    for name, edges in (statistic.get("edges") or {}).items():
        yield marked("edges of %(column)s = %(value)s", column=name, value=_value(edges))
    usual = _defaults(str(statistic["kind"]))
    stated = _STATED | _named_by(statistic).keys()
    for name, value in statistic.items():
        if name not in stated and value not in (None, (), [], {}, usual.get(name)):
            yield joined([name.replace("_", " "), _value(value)], " = ")


@cache
def _defaults(kind: str) -> Mapping[str, object]:
    """Return what fields of a statistic say where nothing is asked, as JSON has it."""
    made: Any = STATISTICS[kind]
    return {
        each.name: list(each.default) if isinstance(each.default, tuple) else each.default
        for each in fields(made)
    }


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return _part(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return joined(map(_value, value))
    return written(value)


def _part(part: Mapping[str, Any]) -> Phrase:
    """Return a target, a feature, a group's bands or an expression, whole.

    >>> _part({"product": ["age", {"column": "sex", "reference": "m"}, {"log": "pay"}]})
    'age × sex relative to m × log(pay)'
    >>> _part({"column": "age", "edges": [0, 18]}), _part({"expr": "2 * x", "lower": 0, "upper": 4})
    ('age in bands of 0, 18', '2 * x from 0 to 4')
    >>> _part({"column": "age", "edges": {"step": 5}, "outside": "drop"})
    'age in bands of step 5 and no others'
    """
    if "product" in part:
        return joined(map(_value, part["product"]), " × ")
    if "log" in part:
        return Phrase(f"log({part['log']})")
    if "step" in part:
        return marked("step %(width)s", width=_value(part["step"]))
    if not part.keys() & {"expr", "column"}:  # numbers by name
        return joined(joined([name, _value(each)], " ") for name, each in part.items())
    name = str(part.get("expr") or part.get("column"))
    if "op" in part:
        return joined([name, str(part["op"]), _value(part["value"])], " ")
    return _within(name, part)


_WITHIN = {
    "reference": marked("%(name)s relative to %(value)s"),
    "edges": marked("%(name)s in bands of %(value)s"),
    "lower": marked("%(name)s from %(value)s"),
    "outside": marked("%(name)s and no others"),
    "upper": marked("%(name)s to %(value)s"),
}
"""What members of a column of a question say of it, in this order."""


def _within(name: str, part: Mapping[str, Any]) -> Phrase:
    said = Phrase(name)
    for member, text in _WITHIN.items():
        value = part.get(member)
        if value is not None and (member != "outside" or value == "drop"):
            said = Phrase(text, {"name": said, "value": _value(value)})
    return said
