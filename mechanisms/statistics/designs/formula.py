"""Formulas of Wilkinson and Rogers, as R reads them, into target, features and intercept.

    log(income) ~ age + C(sex, ref=male) + age:educ - 1

``+`` adds terms and ``-`` takes them away, ``:`` is an interaction, ``a*b`` is ``a + b + a:b``,
``(a + b)^2`` all products of up to two, ``a/b`` is ``a + a:b``. ``1`` is the intercept, which is
there unless ``- 1`` or ``+ 0`` takes it away. Terms come by the number of their factors. ``I()``
holds an expression, and so do ``log()`` and the other functions of one row. ``C(x, ref=level)`` (or
``factor``, ``relevel``) names a category's reference level; which columns are categories says the
data set. ``offset()`` holds a column or an expression whose coefficient is 1. Nothing here knows a
column: a formula is the same request, whatever it is asked of.

Source: Wilkinson and Rogers (1973), Symbolic description of factorial models; R's ``formula``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from mechanisms.contract import InvalidStatisticError
from mechanisms.expressions.parsing import (
    LONGEST,
    ExpressionError,
    parse,
    unknown_function,
    with_hints,
)
from mechanisms.expressions.tree import FUNCTIONS, Node, coefficient_name, quoted_name
from mechanisms.statistics.designs.boxes import MAX_COEFFICIENTS
from mechanisms.statistics.designs.features import Category, Expression, Factor, Feature, Product
from mechanisms.words import listed

MOST_TERMS = MAX_COEFFICIENTS
_CATEGORY = ("C", "factor", "as.factor", "relevel")
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<name>`[^`\n]+`|[^\W\d](?:\w|\.(?=\w))*)
    |(?P<number>[0-9]+)
    |(?P<sign>\*\*|[-+*/:^()])""",
    re.VERBOSE,
)
_OFFSET = re.compile(r"offset\s*\(")
_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]+`")
_REFERENCE = re.compile(
    r"""\s*(?P<column>`[^`\n]+`|[^\W\d][\w.]*)\s*
    (?:,\s*(?:(?:contr\.)?[Tt]reatment\()?\s*(?:(?:ref|reference|base)\s*=\s*)?
    (?P<level>"[^"\n]*"|'[^'\n]*'|[\w.+-]+)\s*\)?\s*)?""",
    re.VERBOSE,
)

Term = tuple[Factor, ...]
Terms = dict[frozenset[Factor], Term]
_INTERCEPT: Term = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """What a formula asks for. The target is a column's name, or an ``expression`` so named.

    So is the offset, None without one; ``definitions`` has the expressions by name.
    """

    target: str
    definitions: Mapping[str, str]
    offset: str | None
    features: tuple[Feature, ...]
    intercept: bool


def read_formula(text: str) -> Formula:
    """Read a formula.

    >>> found = read_formula("y ~ a * C(b, ref=low) - 1")
    >>> found.intercept, found.features[0], found.features[1].reference, len(found.features)
    (False, 'a', 'low', 3)

    Raises
    ------
    InvalidStatisticError
        It is no formula, or holds what reads the data or is not offered.
    """
    if len(text) > LONGEST:
        raise _refused(f"a formula has at most {LONGEST} characters")
    left, tilde, _ = text.partition("~")
    if not tilde or not left.strip():
        raise _refused("a formula is target ~ features, as in income ~ age + sex")
    if re.match(r"\s*C\s*\(", left):
        raise _refused("C() makes a feature of a column: the target is the column, as in y ~ x")
    try:
        # I() says "read this as arithmetic", and a target is read so anyhow.
        target = parse(re.sub(r"^\s*I(?=\s*\()", " ", left))
    except ExpressionError as error:
        raise _refused(error.detail) from None
    try:
        parser = _Parser(text, len(left) + 1)
        terms = parser.terms()
    except InvalidStatisticError as error:
        detail = with_hints(ExpressionError(error.detail), text[len(left) :]).detail
        raise InvalidStatisticError(detail, field_name="formula") from None
    named = [target, *([] if parser.offset is None else [parser.offset])]
    return Formula(
        target=coefficient_name(target),
        definitions={coefficient_name(each): str(each) for each in named if each.op != "column"},
        offset=None if parser.offset is None else coefficient_name(parser.offset),
        features=tuple(
            term[0] if len(term) == 1 else Product(product=term)
            for term in sorted(terms.values(), key=len)
            if term != _INTERCEPT
        ),
        intercept=frozenset() in terms,
    )


def _refused(what: str, place: int | None = None) -> InvalidStatisticError:
    return InvalidStatisticError(ExpressionError(what, place).detail, field_name="formula")


def _joined(*models: Iterable[Term]) -> Terms:
    found: Terms = {}
    for model in models:
        for term in model:
            found.setdefault(frozenset(term), term)
    return found


def _crossed(one: Terms, two: Terms) -> Terms:
    _require_unlike(one, two)
    if len(one) * len(two) > MOST_TERMS**2:
        raise _refused(f"a formula makes at most {MOST_TERMS} terms")
    pairs = product(one.values(), two.values())
    found = _joined(tuple(dict.fromkeys((*left, *right))) for left, right in pairs)
    if len(found) > MOST_TERMS:
        raise _refused(f"a formula makes at most {MOST_TERMS} terms")
    return found


def _require_unlike(one: Terms, two: Terms) -> None:
    """Refuse a term that is crossed with itself alone: that is the term again, and no square."""
    if len(one) == len(two) == 1 and one.keys() == two.keys():
        (term,) = one.values()
        raise _crossed_with_itself(term)


def _crossed_with_itself(term: Term) -> InvalidStatisticError:
    term_said = _term_text(term)
    if len(term) == 1 and not isinstance(term[0], Category):
        return _refused(
            f"{term_said} crossed with itself is {term_said} again, as in R; for its square write "
            f'I({term_said}^2), or derive a column, as in "derive": {{"squared": "{term_said}^2"}}'
        )
    return _refused(f"{term_said} crossed with itself is {term_said} again, as in R; write it once")


def _term_text(term: Term) -> str:
    return ":".join(map(_factor_text, term))


def _factor_text(factor: Factor) -> str:
    if isinstance(factor, str):
        return quoted_name(factor)
    return factor.expr if isinstance(factor, Expression) else str(getattr(factor, "column", ""))


class _Parser:
    """Reads the right side of a formula, from a place in the text on."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._at = start
        self._depth = 0
        self.offset: Node | None = None
        self._skip()

    def terms(self) -> Terms:
        """Return the terms of the whole right side."""
        found = self._sum(_joined([_INTERCEPT]), whole=True)
        if self._at < len(self._text):
            raise self._unexpected()
        return found

    def _skip(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self._at)
        return match.group() if match and match.lastgroup in ("sign", "number") else ""

    def _take(self, *signs: str) -> str:
        """Take one of these signs if it is next."""
        found = self._peek()
        if found not in signs:
            return ""
        self._at += len(found)
        self._skip()
        return found

    def _unexpected(self) -> InvalidStatisticError:
        place = self._at + 1
        rest = self._text[self._at :]
        if rest.startswith("."):
            return _refused(
                "a dot would be every column; name those you mean, one with a dot in its name as "
                "in `a.b`",
                place,
            )
        if rest.startswith(("|", "%")):
            return _refused("a formula has + - : * / ^ and ( ) only", place)
        return _refused("the formula cannot be read here", place)

    def _sum(self, found: Terms, *, whole: bool) -> Terms:
        sign = self._take("+", "-") or "+"
        while sign:
            place = self._at
            if (number := self._peek()).isdigit():
                if number not in ("0", "1") or not whole:
                    raise _refused(
                        "a number in a formula is 1 or 0, the intercept; write I(2 * age)",
                        place + 1,
                    )
                self._take(number)
                wanted = (number == "1") == (sign == "+")
                found = _joined([_INTERCEPT], found.values()) if wanted else _without(found, [()])
            elif whole and _OFFSET.match(self._text, self._at):
                self._take_offset(sign)
            else:
                item = self._product()
                if sign == "+":
                    found = _joined(found.values(), item.values())
                else:
                    self._require_there(found, item, place)
                    found = _without(found, item.values())
            sign = self._take("+", "-")
        if len(found) > MOST_TERMS:
            raise _refused(f"a formula makes at most {MOST_TERMS} terms")
        return found

    def _take_offset(self, sign: str) -> None:
        """Take an offset, which is a term of its own."""
        place = self._at + 1
        if sign != "+" or self.offset is not None:
            raise _refused("a formula has one offset, and adds it", place)
        self._at += len("offset")
        self._skip()
        try:
            self.offset = parse(self._within_brackets())
        except ExpressionError as error:
            raise InvalidStatisticError(error.detail, field_name="formula") from None

    def _require_there(self, found: Terms, taken: Terms, place: int) -> None:
        """Refuse to take away a term that is not there: its name is probably another."""
        for key, term in taken.items():
            if key not in found:
                name = _term_text(term)
                names = listed([_term_text(each) for each in found.values() if each]) or "none"
                raise _refused(
                    f"{name} is taken away and is no term before; the terms there are {names}",
                    place + 1,
                )

    def _product(self) -> Terms:
        found = self._interaction()
        while sign := self._take("*", "/"):
            other = self._interaction()
            if sign == "*":
                found = _joined(found.values(), other.values(), _crossed(found, other).values())
            else:
                every = tuple(dict.fromkeys(each for term in found.values() for each in term))
                within = _crossed(_joined([every]), other)
                found = _joined(found.values(), within.values())
        return found

    def _interaction(self) -> Terms:
        found = self._power()
        while self._take(":"):
            found = _crossed(found, self._power())
        return found

    def _power(self) -> Terms:
        base = found = self._factor()
        while self._take("^", "**"):
            number = self._peek()
            # Cut to three digits: that is enough to be above 10, and no long integer is read.
            behind = self._text[self._at + len(number) :]
            if not (number.isdigit() and 1 <= int(number[:3]) <= 10) or behind.startswith("."):
                raise _refused(
                    "a power of terms is a whole number; a power of numbers stands in I(), as in "
                    "I(age^2)",
                    self._at + 1,
                )
            self._take(number)
            if int(number) > 1:
                _require_unlike(base, base)
            for _ in range(int(number) - 1):
                found = _joined(found.values(), _crossed(found, base).values())
            # A second power stands on the first: (a + b)^2^2 is of up to four.
            base = found
        return found

    def _factor(self) -> Terms:
        if self._take("("):
            self._depth += 1
            if self._depth > 20:
                raise self._unexpected()
            found = self._sum({}, whole=False)
            if not self._take(")"):
                raise self._unexpected()
            self._depth -= 1
            return found
        match = _TOKEN.match(self._text, self._at)
        if match is None or match.lastgroup != "name":
            raise self._unexpected()
        place, name = self._at, match.group()
        self._at = match.end()
        self._skip()
        if self._peek() == "(" and not name.startswith("`"):
            made: Factor = _called(name, self._within_brackets(), place + 1)
        else:
            made = name.strip("`")
        return _joined([(made,)])

    def _within_brackets(self) -> str:
        """Take what stands in brackets, quoted texts as they are."""
        start, depth = self._at + 1, 0
        while self._at < len(self._text):
            quoted = _QUOTED.match(self._text, self._at)
            if quoted:
                self._at = quoted.end()
                continue
            depth += {"(": 1, ")": -1}.get(self._text[self._at], 0)
            self._at += 1
            if depth == 0:
                inside = self._text[start : self._at - 1]
                self._skip()
                return inside
        raise _refused("a bracket is not closed", start)


def _without(found: Terms, taken: Iterable[Term]) -> Terms:
    gone = {frozenset(term) for term in taken}
    return {key: term for key, term in found.items() if key not in gone}


def _called(name: str, inside: str, place: int) -> Factor:
    """Return the factor that a function makes."""
    if name == "offset":
        raise _refused("an offset is a term of its own, as in y ~ x + offset(log(days))", place)
    if name in _CATEGORY:
        match = _REFERENCE.fullmatch(inside)
        if match is None:
            raise _refused(f"{name} takes a column, and ref= a declared value", place)
        level = match["level"]
        if level is not None and level[0] in "\"'":
            level = level[1:-1]
        return Category(column=match["column"].strip("`"), reference=level)
    try:
        if name == "I":
            node = parse(inside)
        elif name in FUNCTIONS:
            node = parse(f"{name}({inside})")
        else:
            raise unknown_function(("C", "I", *FUNCTIONS), name, place)
    except ExpressionError as error:
        raise InvalidStatisticError(error.detail, field_name="formula") from None
    return node.name if node.op == "column" else Expression(expr=str(node))
