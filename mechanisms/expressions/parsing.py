"""Parses the text of an expression into a :class:`~mechanisms.expressions.tree.Node`.

Python's own parser reads a skeleton of the text, in which ASCII letters replace names and quoted
values at the same length; nothing is ever compiled or evaluated. The whitelist below accepts the
result node by node, and names are read from the text by their place.
``^`` and ``**`` are both powers. A name that is not a plain word is written in backticks.

Error messages for expressions, and the functions that are refused for reading other rows.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from mechanisms.expressions.tree import FUNCTIONS, Node, is_name_of_python
from mechanisms.words import closest_first, listed, no_column, slip_of, worded


class ExpressionError(ValueError):
    """An expression that cannot be read, or that does not fit the columns.

    Attributes
    ----------
    detail
        The error, which may name columns and functions, but no other part of the input.
    """

    def __init__(self, what: str, place: int | None = None) -> None:
        at = "" if place is None else " " + worded("(at character %(place)s)", place=place)
        self.detail = f"{what}{at}"
        super().__init__(self.detail)


_SUMMARIES = """average avg mean median mode sum prod total range mad sd std stdev var variance cor
corr cov n ncol nrow len length unique first last head tail"""
_PLACES = """rank order sort rev percentile quantile ntile cut qcut bins lag lead shift diff rolling
cumsum cumprod cummin cummax"""
_SCALES = """center centre demean scale standardise standardize normalise normalize zscore winsorise
winsorize poly bs ns cr cs cc te spline hinge"""
_CHANCE = "random rnorm runif sample shuffle"

OF_SEVERAL_ROWS = frozenset(" ".join((_SUMMARIES, _PLACES, _SCALES, _CHANCE)).split())
"""Functions whose value in one row depends on other rows: they read the data."""


def unknown_column(names: Sequence[str], written: str, place: int | None) -> ExpressionError:
    """Return the message for a name that is not a column."""
    return ExpressionError(no_column(names, written), place)


def unknown_function(names: Sequence[str], written: str, place: int) -> ExpressionError:
    """Return the message for a function that is not offered."""
    # np.mean and Mean ask for the same.
    known = written.casefold().rpartition(".")[2]
    if known in OF_SEVERAL_ROWS:
        return several_rows(known, place)
    there = listed(closest_first(list(names), written))
    close = slip_of(names, written)
    if close is None:
        said = worded("there is no such function; there are %(names)s", names=there)
        return ExpressionError(said, place)
    said = worded(
        "%(name)s is no function (did you mean %(close)s?); there are %(names)s",
        name=written, close=close, names=there,
    )  # fmt: skip
    return ExpressionError(said, place)


def with_hints(error: ExpressionError, text: str) -> ExpressionError:
    """Return the message for a text that cannot be parsed, with a suggestion."""
    hints = []
    if _DECIMAL_COMMA.search(text):
        hints.append(worded("decimals are written with a point, as in 3.5"))
    if name := _NAME_OF_SIGNS.search(text):
        hints.append(worded(
            "a name with signs or spaces stands in backticks, as in `%(name)s`", name=name.group(1)
        ))  # fmt: skip
    if not hints:
        return error
    return ExpressionError("; ".join([error.detail, *hints]))


_DECIMAL_COMMA = re.compile(r"(?<![\w(,.])\d+,\d+(?![\w,)])")
_NAME_OF_SIGNS = re.compile(
    r"(?<![`\"'\w])"
    r"([^\W\d]\w*(?:[ -]\w+)*(?: ?[\[{$€£%]| \()[^`\"'~+*:<>=]{0,40}?[\]})$€£%]+)(?!`)"
)


def several_rows(whose: str, place: int) -> ExpressionError:
    """Return the message for a function that reads other rows."""
    return ExpressionError(
        f"{whose} reads other rows than one, so it reads the data: a derived column is computed "
        "from one row alone. Write public numbers instead, as in (age - 40) / 10",
        place,
    )


# Parses the text of an expression into a :class:`~mechanisms.expressions.tree.Node`


LONGEST = 2_000
"""Characters of one expression."""
MOST_NODES = 500  # each is computed for every row
DEEPEST = 40  # far below where recursion ends
LARGEST = Fraction(10**100)
"""Magnitude of a number, and of any value."""

_TOKEN = re.compile(
    r"""(?P<quoted>"[^"\n]*"|'[^'\n]*')
    |(?P<name>`[^`\n]+`)
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<word>[^\W\d](?:\w|\.(?=\w))*)
    |(?P<power>\^)
    |(?P<space>\s+)
    |(?P<sign>\*\*|[-+*/(),\[\]{}<>=!&|%:])""",
    re.VERBOSE,
)
_COUNTS: Mapping[str, tuple[int, int]] = {
    "abs": (1, 1),
    "clip": (3, 3),
    "exp": (1, 1),
    "log": (1, 1),
    "log1p": (1, 1),
    "max": (2, 20),
    "min": (2, 20),
    "sqrt": (1, 1),
}
_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "^",
}
_COMPARED: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OFFERED = worded(
    "an expression holds columns, numbers, + - * / ^, comparisons, in, and, or, not, is missing, "
    "and %(kinds)s",
    kinds=", ".join(FUNCTIONS),
)


@lru_cache(maxsize=128)  # a question's are read for each of many plans
def parse(text: str) -> Node:
    """Read an expression, without checking that its columns exist.

    >>> str(parse("log( income+1 ) ** 2"))
    'log(income + 1)^2'
    >>> str(parse("18 <= age < 65 and sex in ['f', 'm']"))
    'age >= 18 and age < 65 and sex in ("f", "m")'

    Raises
    ------
    ExpressionError
        It is too long, or is anything but columns, numbers and the operations on offer.
    """
    try:
        return _parsed(text.strip())
    except ExpressionError as error:
        raise with_hints(error, text[:LONGEST]) from None


def _parsed(text: str) -> Node:
    if not text:
        raise ExpressionError("an expression is empty")
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression has at most {LONGEST} characters")
    skeleton, origin = _skeleton(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(skeleton, mode="eval")
    except SyntaxError as error:
        offset = min(max(error.offset or 1, 1), len(origin)) - 1
        raise ExpressionError(_unreadable(text), origin[offset] + 1) from None
    # Python's parser has limits of its own, which a text can meet before ours are counted.
    except (RecursionError, MemoryError, ValueError):
        raise _too_deep() from None
    node = _Reader(text, origin).read(tree.body, 1)
    # It is stored as its one text, which is read again.
    if len(str(node)) > LONGEST:
        raise ExpressionError(f"an expression has at most {LONGEST} characters, spelled out")
    return node


def _skeleton(text: str) -> tuple[str, list[int]]:
    """Return the text as Python may read it, and where in the text each of its characters is."""
    pieces: list[str] = []
    origin: list[int] = []
    end = 0
    while end < len(text):
        match = _TOKEN.match(text, end)
        if match is None:
            raise ExpressionError(_unreadable(text), end + 1)
        kind, found = match.lastgroup, match.group()
        after = text[match.end() : match.end() + 1]
        # Python would take the word before a quote for a prefix, as in r"...".
        if kind in ("word", "number") and (after in "\"'`" or after.isalnum()) and after:
            raise ExpressionError("something is missing between two names", match.end() + 1)
        pieces.append(_blank(str(kind), found))
        # a power is the only piece that grows
        origin += [end] * 2 if kind == "power" else range(end, match.end())
        end = match.end()
    # One more than there are characters: a node may end behind the last.
    return "".join(pieces), [*origin, len(text)]


def _blank(kind: str, found: str) -> str:
    if kind == "quoted":
        return f'"{"x" * (len(found) - 2)}"'
    if kind == "name" or (kind == "word" and (not _is_plain(found) or is_name_of_python(found))):
        return "_" * len(found)
    return {"power": "**", "space": " " * len(found)}.get(kind, found)


def _is_plain(word: str) -> bool:
    return word.isascii() and "." not in word


def _unreadable(text: str) -> str:
    if re.search(r"(?<![=<>!])=(?!=)", text):
        return worded("it is not an expression; values are compared by ==")
    if re.search(r"&|\||!(?!=)", text):
        return worded("it is not an expression; conditions are joined by and, or, not")
    return worded("it is not an expression here")


def _not_offered(place: int) -> ExpressionError:
    return ExpressionError(worded("that is not offered here: %(why)s", why=_OFFERED), place)


def _too_deep() -> ExpressionError:
    return ExpressionError(
        f"an expression has at most {MOST_NODES} parts, and {DEEPEST} inside one another"
    )


class _Reader:
    """Accepts a tree of Python's node by node."""

    def __init__(self, text: str, origin: list[int]) -> None:
        self._text = text
        self._origin = origin
        self._nodes = 0
        self._digits = 0
        self._forms: Mapping[type[ast.expr], Callable[..., Node]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._binary,
            ast.BoolOp: self._joined,
            ast.Compare: self._compared,
            ast.Call: self._called,
        }

    def read(self, node: ast.expr, depth: int) -> Node:
        """Return the meaning of a node, or refuse it."""
        self._nodes += 1
        if depth > DEEPEST or self._nodes > MOST_NODES:
            raise _too_deep()
        form = self._forms.get(type(node))
        if form is None:
            raise _not_offered(self._place(node))
        return form(node, depth + 1)

    def _place(self, node: ast.expr) -> int:
        # Python counts bytes, which are characters in the skeleton: it is ASCII.
        return self._origin[node.col_offset] + 1

    def _source(self, node: ast.expr) -> str:
        end = node.end_col_offset or node.col_offset
        return self._text[self._origin[node.col_offset] : self._origin[end]]

    def _constant(self, node: ast.Constant, _depth: int) -> Node:
        place, value = self._place(node), node.value
        if isinstance(value, bool):
            return Node("number", value=Fraction(int(value)), place=place)
        if isinstance(value, str):
            found = self._source(node)
            # Python joins values that stand side by side; the source then has quotes inside.
            if found[0] in found[1:-1]:
                raise ExpressionError("two values stand side by side", place)
            return Node("text", value=found[1:-1], place=place)
        if not isinstance(value, int | float):
            raise _not_offered(place)
        # From the text, since Python's parser has rounded it to a float. Exponents are no longer
        # than what can be written out: as a fraction 1e-999999999 takes gigabytes, and hours.
        written, _, power = self._source(node).lower().partition("e")
        if abs(int(power or 0)) > LONGEST:
            raise ExpressionError(f"an exponent is from -{LONGEST} to {LONGEST}", place)
        # All of them together, too: the one text has them written out, and is read again.
        self._digits += len(written) + abs(int(power or 0))
        if self._digits > LONGEST:
            raise ExpressionError(f"numbers written out have at most {LONGEST} digits", place)
        number = Fraction(self._source(node))
        if number > LARGEST:
            raise ExpressionError("a number is at most 1e100", place)
        return Node("number", value=number, place=place)

    def _name(self, node: ast.Name, _depth: int) -> Node:
        return Node("column", value=self._source(node).strip("`"), place=self._place(node))

    def _unary(self, node: ast.UnaryOp, depth: int) -> Node:
        inner, place = self.read(node.operand, depth), self._place(node)
        if isinstance(node.op, ast.UAdd):
            return inner
        if isinstance(node.op, ast.USub):
            return Node("negative", (inner,), place=place)
        if isinstance(node.op, ast.Not):
            return Node("not", (inner,), place=place)
        raise _not_offered(place)

    def _binary(self, node: ast.BinOp, depth: int) -> Node:
        op = _BINARY.get(type(node.op))
        if op is None:
            if isinstance(node.op, ast.BitAnd | ast.BitOr):
                raise ExpressionError("conditions are joined by and, or, not", self._place(node))
            raise _not_offered(self._place(node))
        pair = self.read(node.left, depth), self.read(node.right, depth)
        return Node(op, pair, place=self._place(node))

    def _joined(self, node: ast.BoolOp, depth: int) -> Node:
        op = "and" if isinstance(node.op, ast.And) else "or"
        return Node(
            op,
            _spliced(op, [self.read(value, depth) for value in node.values]),
            place=self._place(node),
        )

    def _compared(self, node: ast.Compare, depth: int) -> Node:
        found, left = [], node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            found.append(self._pair(left, op, right, depth, self._place(node)))
            left = right
        return found[0] if len(found) == 1 else Node("and", tuple(found), place=self._place(node))

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr, depth: int, place: int) -> Node:
        if isinstance(op, ast.In | ast.NotIn):
            node = Node("in", (self.read(left, depth), *self._items(right, depth)), place=place)
            return Node("not", (node,), place=place) if isinstance(op, ast.NotIn) else node
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Name) and self._source(right) == "missing"):
                raise ExpressionError('after "is" stands "missing"', self._place(right))
            node = Node("missing", (self.read(left, depth),), place=place)
            return Node("not", (node,), place=place) if isinstance(op, ast.IsNot) else node
        name, one, two = _COMPARED[type(op)], self.read(left, depth), self.read(right, depth)
        # The column first, so that both spellings are one text, and one question.
        if one.op in ("number", "text") and two.op not in ("number", "text"):
            name, one, two = _FLIPPED[name], two, one
        return Node(name, (one, two), place=place)

    def _items(self, node: ast.expr, depth: int) -> list[Node]:
        if not isinstance(node, ast.Tuple | ast.List | ast.Set) or not node.elts:
            if isinstance(node, ast.Constant | ast.UnaryOp):
                return [self.read(node, depth)]  # in ("f"), which Python reads as "f"
            raise ExpressionError('after "in" stands a list of values', self._place(node))
        return [self.read(item, depth) for item in node.elts]

    def _called(self, node: ast.Call, depth: int) -> Node:
        place = self._place(node)
        name = self._source(node.func) if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS:
            raise unknown_function(FUNCTIONS, name, place)
        if node.keywords:
            raise ExpressionError("values are given without names here", place)
        least, most = _COUNTS[name]
        # Elsewhere the max of one column is taken over its rows.
        if len(node.args) == 1 and least == 2:
            raise several_rows(worded("the %(name)s of one column", name=name), place)
        if not least <= len(node.args) <= most:
            wanted = f"{least}" if least == most else f"{least}–{most}"
            raise ExpressionError(f"{name} takes {wanted} values", place)
        return Node(name, tuple(self.read(arg, depth) for arg in node.args), place=place)


def _spliced(op: str, args: list[Node]) -> tuple[Node, ...]:
    """Return the joined parts, including those of an inner join of the same kind."""
    return tuple(each for arg in args for each in (arg.args if arg.op == op else (arg,)))
