"""Texts: sentences with values in them, lists of names, and when two texts are equal.

Lists are bounded, and the most similar names come first. Cells, their declarations and the values
of questions pass through the same functions, so equal texts have equal meanings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher

MOST_LISTED = 25  # all kinds of statistics; a sentence of more is no sentence
_LONGEST_COMPARED = 40  # the work grows with both lengths, and the caller chooses one
_MOST_COMPARED = 1_000
"""A refusal takes a few hundredths of a second at most, however many names there are."""
_SLIP = 0.75
_FEW = 2
"""Signs of an operation; there is too little in them to measure how alike they are."""
_ALIKE = 0.6  # SequenceMatcher's ratio, from 0 to 1


def closest_first(names: Sequence[str], written: str) -> list[str]:
    """Return names, the most similar to a given text first; the rest keep their order.

    What was written decides the order alone, and is not in the list unless it is a name.

    >>> closest_first(["epsilon", "norm", "mechanism"], "mecanism")
    ['mechanism', 'epsilon', 'norm']
    """
    first = _alike(names, written)
    return [*first, *(name for name in names if name not in set(first))]


def closest(names: Sequence[str], written: str) -> str | None:
    """Return the name that somebody probably meant, if there is one.

    >>> closest(["epsilon", "norm"], "epsilom"), closest(["epsilon", "norm"], "x")
    ('epsilon', None)
    """
    return next(iter(_alike(names, written)), None)


def no_column(names: Sequence[str], written: str) -> str:
    """Return the message for a name that is not a column, with the most similar names.

    What was written is repeated where it is much like a name, and so a slip; of anything else the
    place in the request says enough, and it might be a cell of a file.

    >>> no_column(["age", "bmi"], "agee")
    'agee is no column (did you mean age?); the columns are age and bmi'
    """
    there = listed(closest_first(list(names), written)) if names else "none"
    close = slip_of(names, written)
    if close is None:
        return worded("the data set has no such column; its columns are %(names)s", names=there)
    return worded(
        "%(name)s is no column (did you mean %(close)s?); the columns are %(names)s",
        name=written, close=close, names=there,
    )  # fmt: skip


def no_value(name: str, values: Sequence[str], written: object) -> str:
    """Return the message for a text that is not a value of a category.

    >>> no_value("sex", ["female", "male"], "femal")
    'femal is no value of sex (did you mean female?); its declared values are female and male'
    """
    text = written if isinstance(written, str) else ""
    there = listed(closest_first(list(values), text))
    close = slip_of(values, text)
    if close is None:
        return worded(
            "that is not a declared value of %(name)s; those are %(names)s", name=name, names=there
        )
    return worded(
        "%(value)s is no value of %(name)s (did you mean %(close)s?); its declared values are "
        "%(names)s",
        value=text, name=name, close=close, names=there,
    )  # fmt: skip


def unknown(what: str, names: Sequence[str], written: str) -> str:
    """Return the message for an unknown field, parameter or similar.

    >>> unknown("field", ["bound", "target"], "bounds")
    "unknown field 'bounds'; did you mean 'bound'? Known: bound and target"
    >>> unknown("field", ["bound", "target"], "x"), unknown("field", [], "x")
    ('unknown field; known: bound and target', 'unknown field; there are none here')
    """
    if not names:
        return worded("unknown %(kinds)s; there are none here", kinds=what)
    there = listed(closest_first(names, written))
    close = slip_of(names, written)
    if close is None:
        return worded("unknown %(kinds)s; known: %(names)s", kinds=what, names=there)
    return worded(
        "unknown %(kinds)s '%(name)s'; did you mean '%(close)s'? Known: %(names)s",
        kinds=what, name=written, close=close, names=there,
    )  # fmt: skip


def meant(names: Sequence[str], written: object) -> str:
    """Return the question which of the names was meant, to follow an error message.

    >>> meant(["mean", "median"], "maen"), meant(["<=", ">="], "=>"), meant(["mean"], "x")
    (" (did you mean 'mean'?)", " (did you mean '>='?)", '')
    """
    close = slip_of(names, written) if isinstance(written, str) else None
    return "" if close is None else " " + worded("(did you mean '%(close)s'?)", close=close)


def slip_of(names: Sequence[str], written: str) -> str | None:
    """Return the name that this is a typo of: one similar enough to be repeated.

    >>> slip_of(["age", "food"], "agee"), slip_of(["age", "food"], "income")
    ('age', None)
    """
    short = set(written) if 0 < len(written) <= _FEW else None
    for name in names[:_MOST_COMPARED] if short else ():
        if len(name) <= _FEW and set(name) == short:  # as => and =, of >= and ==
            return name
    close = closest(names, written)
    if close is None:
        return None
    matcher = SequenceMatcher(a=close.casefold(), b=written[:_LONGEST_COMPARED].casefold())
    return close if matcher.ratio() >= _SLIP else None


def _alike(names: Sequence[str], written: str) -> list[str]:
    """Return the names that are much like what was written, the closest first."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(written[:_LONGEST_COMPARED].casefold())
    maybe = []
    for name in names[:_MOST_COMPARED]:
        matcher.set_seq1(name[:_LONGEST_COMPARED].casefold())
        if matcher.quick_ratio() >= _ALIKE:  # an upper bound, and cheap
            maybe.append((matcher.quick_ratio(), name))
    alike = []
    # A full comparison is slow: only the most promising are compared so.
    for _, name in sorted(maybe, reverse=True)[:MOST_LISTED]:
        matcher.set_seq1(name[:_LONGEST_COMPARED].casefold())
        if (likeness := matcher.ratio()) >= _ALIKE:
            alike.append((-likeness, name))
    return [name for _, name in sorted(alike)]


def worded(text: str, **values: object) -> str:
    """Return a sentence with values in its named places.

    Answers and files have it in English. A catalogue of another language has the ``text``, by which
    a page finds the sentence again: so the text is written out where it is said.

    >>> worded("%(count)s rows are assumed.", count=12)
    '12 rows are assumed.'
    """
    return text % values if values else text


def listed(names: Sequence[str], *, last: str = "and") -> str:
    """Return names as a part of a sentence, at most 20 of them.

    >>> listed(["a", "b", "c"]), listed(["a", "b"], last="or"), listed(["a"])
    ('a, b and c', 'a or b', 'a')
    """
    if len(names) > MOST_LISTED:
        return f"{', '.join(names[:MOST_LISTED])} and {len(names) - MOST_LISTED} more"
    return f" {last} ".join([part for part in (", ".join(names[:-1]), *names[-1:]) if part])


def rounded(number: float, digits: int = 3) -> str:
    """Return a number for a sentence, to a few digits and without an exponent.

    >>> rounded(1.2345), rounded(1553.2), rounded(399.9, 2), rounded(0.0001234)
    ('1.23', '1,550', '400', '0.000123')
    """
    return f"{float(f'{number:.{digits}g}'):,.15g}"


WHITE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""White space of every kind: the characters that ``str.strip`` takes away."""

_WHOLE_FLOAT = re.compile(r"(-?[0-9]+)\.0*", re.ASCII)


def trimmed(text: str) -> str:
    """Return a text without white space around it, in Unicode's composed form (NFC).

    >>> trimmed(" north\\u00a0"), trimmed("cafe\\u0301") == "caf\\u00e9"
    ('north', True)
    """
    return unicodedata.normalize("NFC", text.strip(WHITE))


def whole(text: str) -> str:
    """Return the integer that a whole float is written for; any other text as it is.

    >>> whole("1.0"), whole("-2."), whole("1.50"), whole("v1.0"), whole("007")
    ('1', '-2', '1.50', 'v1.0', '007')
    """
    match = _WHOLE_FLOAT.fullmatch(text)
    return text if match is None else match[1]


def value_text(text: str, *, trim: bool) -> str:
    """Return the key that compares a category's cells and declared values."""
    return whole(trimmed(text) if trim else text)


def spelling(text: str) -> str:
    """Return the key that compares a boolean's cells and declared spellings.

    >>> spelling(" JA "), spelling("1.0")
    ('ja', '1')
    """
    return whole(trimmed(text).casefold())


def header_text(text: str) -> str:
    """Return the key that compares a file's headers and declared ones: all line ends are equal."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
