"""A question in words: what is asked of which columns and records, for people who decide on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import chain
from typing import Any

from app.services.plans.questions import Question
from app.tidy.names import condition, words
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


Say = Callable[[str], str]
"""What translates a text of English."""


def marked(text: str) -> str:
    """Return a text that catalogues of other languages must have."""
    return text


def asked(statistic: Mapping[str, Any], say: Say = str) -> str:
    """Return what a statistic is and of which columns, as words; ``say`` translates them.

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
    """
    if "parts" in statistic:
        return "; ".join(asked(part["statistic"], say) for part in statistic["parts"])
    text = say(_kind_of(statistic))
    if of := statistic.get("formula") or _several(_counted(statistic), say):
        linked = marked("%(kind)s %(columns)s") if _precedes(statistic) else _OF
        text = say(linked) % {"kind": text, "columns": of}
    if statistic.get("features") and not statistic.get("formula"):
        features = _several(statistic["features"], say)
        text = say(marked("%(text)s on %(columns)s")) % {"text": text, "columns": features}
    compared = [statistic["groups"]] if statistic.get("groups") else []
    if by := [*compared, *(statistic.get("by") or ())]:
        *first, last = map(_named, by)
        both = {"first": ", ".join(first), "last": last}
        groups = say(marked("%(first)s and %(last)s")) % both if first else last
        text = say(marked("%(text)s by %(columns)s")) % {"text": text, "columns": groups}
    return (
        say(marked("%(text)s, with conditions")) % {"text": text}
        if statistic.get("where")
        else text
    )


def _kind_of(statistic: Mapping[str, Any]) -> str:
    found = (called.get(str(statistic.get(name))) for name, called in _named_by(statistic).items())
    return next(filter(None, found), words(str(statistic["kind"])))


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


_OF = marked("%(kind)s of %(columns)s")


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


def _several(names: Sequence[object], say: Say = str) -> str:
    """Return names, of many the first."""
    more = len(names) - _MOST_NAMED
    first = ", ".join(map(_named, names[:_MOST_NAMED]))
    if more <= 0:
        return first
    return say(marked("%(first)s and %(count)s more")) % {"first": first, "count": more}


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


def in_words(question: Question) -> str:
    """Return a question as a sentence.

    Rare fields are written as ``name = value`` where they differ from their defaults.
    """
    statistic: Any = question.to_json()["statistic"]
    parts = [asked_in_full(statistic), f"for an epsilon of {question.epsilon}"]
    if question.mechanism != "auto":
        parts.append(f"drawn by {question.mechanism.replace('_', ' ')}")
    if question.norm != "auto":
        parts.append(f"in the {question.norm} norm")
    if question.inference is not None:
        parts.append(f"of which at most {question.inference} goes to standard errors")
    sentence = ", ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


def asked_in_full(statistic: Mapping[str, Any]) -> str:
    """Return what a statistic is, of which records too, so that nothing of it is left out.

    >>> where = [{"column": "sex", "op": "==", "value": "f"}]
    >>> asked_in_full({"kind": "sum", "columns": ["pay", "tax"], "where": where})
    'sum of pay, tax, where sex is f'
    """
    return ", ".join(_statistic(statistic))


def _statistic(statistic: Mapping[str, Any]) -> Iterator[str]:
    kind = _kind_of(statistic)
    if "parts" in statistic:
        parts = ("; ".join(_statistic(part["statistic"])) for part in statistic["parts"])
        yield f"{kind} of ({') and ('.join(parts)})"
        return
    groups = [_value(each) for each in statistic.get("by") or ()]
    yield f"{kind}{_subject(statistic)}" + (f" by {listed(groups)}" if groups else "")
    for each in statistic.get("where") or ():
        yield f"where {condition(each)}"
    for name, text in (statistic.get("derive") or {}).items():
        yield f"with {name} = {_value(text)}"
    for name, edges in (statistic.get("edges") or {}).items():
        yield f"edges of {name} = {_value(edges)}"
    usual = _defaults(str(statistic["kind"]))
    stated = _STATED | _named_by(statistic).keys()
    for name, value in statistic.items():
        if name not in stated and value not in (None, (), [], {}, usual.get(name)):
            yield f"{name.replace('_', ' ')} = {_value(value)}"


@cache
def _defaults(kind: str) -> Mapping[str, object]:
    """Return what fields of a statistic say where nothing is asked, as JSON has it."""
    made: Any = STATISTICS[kind]
    return {
        each.name: list(each.default) if isinstance(each.default, tuple) else each.default
        for each in fields(made)
    }


def _subject(statistic: Mapping[str, Any]) -> str:
    if statistic.get("formula"):
        return f" of {statistic['formula']}"
    counted, features = _counted(statistic), statistic.get("features")
    of = f"{' ' if _precedes(statistic) else ' of '}{_value(counted)}" if counted else ""
    return f"{of} on {_value(features)}" if features else of


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _part(value)
    if isinstance(value, Sequence):
        return ", ".join(map(_value, value))
    return str(value).removesuffix(".0")


def _part(part: Mapping[str, Any]) -> str:
    """Return a target, a feature, a group's bands or an expression, whole.

    >>> _part({"product": ["age", {"column": "sex", "reference": "m"}, {"log": "pay"}]})
    'age × sex relative to m × log(pay)'
    >>> _part({"column": "age", "edges": [0, 18]}), _part({"expr": "2 * x", "lower": 0, "upper": 4})
    ('age in bands of 0, 18', '2 * x from 0 to 4')
    >>> _part({"column": "age", "edges": {"step": 5}, "outside": "drop"})
    'age in bands of step 5 and no others'
    """
    if "product" in part:
        return " × ".join(map(_value, part["product"]))
    if "log" in part:
        return f"log({part['log']})"
    if not part.keys() & {"expr", "column", "step"}:  # numbers by name
        return ", ".join(f"{name} {_value(each)}" for name, each in part.items())
    if "step" in part:
        return f"step {_value(part['step'])}"
    name = str(part.get("expr") or part.get("column"))
    if "op" in part:
        return f"{name} {part['op']} {_value(part['value'])}"
    for member, spelled in (
        ("reference", "relative to"),
        ("edges", "in bands of"),
        ("lower", "from"),
    ):
        if part.get(member) is not None:
            name += f" {spelled} {_value(part[member])}"
    if part.get("outside") == "drop":
        name += " and no others"
    return f"{name} to {_value(part['upper'])}" if part.get("upper") is not None else name
