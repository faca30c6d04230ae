"""Whether an expression has a value in a record that lacks some.

*The rule.* A result computed from a missing cell is missing, except:

- ``c is missing`` is true or false in every record;
- ``and`` is false where one part is false, and ``or`` is true where one part is true, whatever the
  others are. So ``c is missing or c > 3`` always has a value.

These are the rules of SQL and R. A condition in ``where`` selects the records in which it is true,
so a comparison with a missing cell selects none, under ``not`` neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from mechanisms.expressions.comparisons import Mask
from mechanisms.expressions.evaluation import Rows
from mechanisms.expressions.tree import Node

_Outcome = bool | None
_VALUE: frozenset[_Outcome] = frozenset({True, False})
_SURE: frozenset[_Outcome] = frozenset({True})
_NONE: frozenset[_Outcome] = frozenset({None})
_OPPOSITE: Mapping[_Outcome, _Outcome] = {True: False, False: True, None: None}


def values_read(node: Node) -> tuple[str, ...]:
    """Return the columns whose values an expression reads: not those it only asks about."""
    if node.op == "missing":
        return ()
    own = (node.name,) if node.op == "column" else ()
    return tuple(dict.fromkeys([*own, *(name for arg in node.args for name in values_read(arg))]))


def asked_about(node: Node) -> tuple[str, ...]:
    """Return the columns that an expression tests with ``is missing``."""
    return tuple(dict.fromkeys(each.args[0].name for each in node.walk() if each.op == "missing"))


def is_strict(node: Node) -> bool:
    """Return whether one missing cell that is read always leaves the expression without a value."""
    return not any(each.op in ("and", "or") for each in node.walk())


def misses(node: Node, optional: Collection[str]) -> tuple[str, ...]:
    """Return the columns whose missing cells may leave an expression without a value.

    >>> from mechanisms.expressions.parsing import parse
    >>> misses(parse("log(income) + age"), {"income"})
    ('income',)
    >>> misses(parse("income is missing or income > 3"), {"income"})
    ()
    """
    read = [name for name in values_read(node) if name in optional]
    return tuple(name for name in read if None in _possible(node, name))


def has_value(node: Node, rows: Rows, optional: Collection[str]) -> Mask:
    """Return in which rows an expression has a value; one truth for all where it is the same.

    ``rows`` hold a mask for each optional column that has missing cells, and any code in those.
    """
    if node.op == "column":
        mask = rows.missing.get(node.name) if node.name in optional else None
        return np.asarray(True) if mask is None else ~mask
    if node.op == "missing" or not node.args:
        return np.asarray(True)
    known = [has_value(arg, rows, optional) for arg in node.args]
    found = _all(known)
    if node.op in ("and", "or") and not found.all():
        for arg, own in zip(node.args, known, strict=True):
            # One part that is known and decides is enough.
            truth = rows.truths(arg)
            found = found | (own & (truth if node.op == "or" else ~truth))
    return found


def _all(masks: list[Mask]) -> Mask:
    found = masks[0]
    for mask in masks[1:]:
        found = found & mask
    return found


def _possible(node: Node, lacking: str) -> frozenset[_Outcome]:
    """Return the possible values of an expression in a record that lacks a value of one column.

    A number is true or false here: only whether there is one matters.
    """
    if node.op == "missing":
        return _SURE if node.args[0].name == lacking else _VALUE
    if node.op == "column":
        return _NONE if node.name == lacking else _VALUE
    if not node.args:
        return _VALUE
    parts = [_possible(arg, lacking) for arg in node.args]
    if node.op == "not":
        return frozenset(_OPPOSITE[each] for each in parts[0])
    if node.op in ("and", "or"):
        return _joined(parts, decides=node.op == "or")
    found = _VALUE if all(part & _VALUE for part in parts) else frozenset()
    return found | _NONE if any(None in part for part in parts) else found


def _joined(parts: list[frozenset[_Outcome]], *, decides: bool) -> frozenset[_Outcome]:
    """Combine parts where one can decide, as a false one does in ``and``."""
    found: set[_Outcome] = set()
    if any(decides in part for part in parts):
        found.add(decides)
    if all((not decides) in part for part in parts):
        found.add(not decides)
    if all(part - {decides} for part in parts) and any(None in part for part in parts):
        found.add(None)
    return frozenset(found)
