"""Conditions as text: ``"age > 40 and sex in ['f', 'x']"`` in place of a list of comparisons."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from app.client.errors import ClientError

Condition = dict[str, object]

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in",
}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""The sign of the same comparison with its sides exchanged."""
_MISSING = "missing"
_HELP = (
    "Join comparisons of one column with values by `and`, as in \"age > 40 and sex in ['f', 'x']\" "
    'or "income is not missing"; everything else is a column of `derive`'
)


def conditions_in(text: str) -> list[Condition]:
    """Return the comparisons that a text joins by ``and``, as the contract has them.

    Values are numbers, texts in quotes, ``True`` and ``False``, or a list of these after ``in``.
    A name alone is a boolean column that is true. A column whose name is no Python name is compared
    in a dictionary: ``{"column": "net pay", "op": ">", "value": 100}``.

    >>> conditions_in("18 <= age < 65 and not retired")[1:]  # doctest: +NORMALIZE_WHITESPACE
    [{'column': 'age', 'op': '<', 'value': 65},
     {'column': 'retired', 'op': '==', 'value': False}]
    >>> conditions_in("income is not missing")
    [{'column': 'income', 'op': 'present'}]

    Raises
    ------
    ClientError
        The text is another expression.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ClientError(f"where: {text!r} is not a condition. {_HELP}.") from None
    return list(_comparisons(tree, text))


def _comparisons(node: ast.expr, text: str) -> Iterator[Condition]:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            for part in parts:
                yield from _comparisons(part, text)
        case ast.Compare(left=left, ops=signs, comparators=others):
            sides = [left, *others]
            for sign, one, other in zip(signs, sides, sides[1:], strict=False):
                yield _comparison(sign, one, other, text)
        case ast.Name(id=column):
            yield {"column": column, "op": "==", "value": True}
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=column)):
            yield {"column": column, "op": "==", "value": False}
        case _:
            raise _refusal(node, text)


def _comparison(sign: ast.cmpop, one: ast.expr, other: ast.expr, text: str) -> Condition:
    match one, sign, other:
        case ast.Name(id=column), ast.Is(), ast.Name(id="missing"):
            return {"column": column, "op": _MISSING}
        case ast.Name(id=column), ast.IsNot(), ast.Name(id="missing"):
            return {"column": column, "op": "present"}
        case ast.Name(id=column), _, _ if type(sign) in _SIGNS:
            return {"column": column, "op": _SIGNS[type(sign)], "value": _value(other, text)}
        case _, _, ast.Name(id=column) if _SIGNS.get(type(sign)) in _TURNED:
            turned = _TURNED[_SIGNS[type(sign)]]
            return {"column": column, "op": turned, "value": _value(one, text)}
    raise _refusal(one, text)


def _value(node: ast.expr, text: str) -> object:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        raise _refusal(node, text) from None
    if isinstance(value, list | tuple | set):
        return list(value)
    if isinstance(value, str | bool | int | float):
        return value
    raise _refusal(node, text)


def _refusal(node: ast.expr, text: str) -> ClientError:
    part = ast.get_source_segment(text.strip(), node)
    return ClientError(f"where: {part!r} is not a comparison of a column with a value. {_HELP}.")
