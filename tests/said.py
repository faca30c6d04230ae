"""Sentences that sources say and mark by no word: what mechanisms state of their answers.

A mechanism writes its reason, its theorem and its units where it has them, as plain texts or as
texts with values in braces. Each is a text of the catalogues. It is found by the name of the field,
of the constant or of the function that has it, so a new one is found, too. An answer has the
finished sentence, and a page finds its text again (:func:`app.web.languages.localized`), a part at
a time: parts end where a colon, a semicolon or a full stop is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FIELDS = frozenset({
    "reason", "theorem", "sensitivity_unit", "unit", "unit_name", "comparison", "method",
    "protects", "words", "model",
})  # fmt: skip
"""Fields of plans, guarantees and inferences whose texts pages show."""
CONSTANTS = re.compile(
    r"_?[A-Z_]*(THEOREM|METHOD|REASON|UNIT|REDUCTION|BY_|ROWS|NOISE|MODEL)[A-Z_]*"
)
FUNCTIONS = re.compile(
    r"_?(\w+_)?(reason|unit|theorem|compared?|because|method)(_\w+)?|__call__|name"
)
"""Functions that return such texts."""

_ENDS = re.compile(r"(?<=[.:;?!]) ")
_PLACE = re.compile(r"%\(\w+\)s")
_CONSTANT = re.compile(r"%\(_?[A-Z][A-Z_]*\)s[.;]? ?")
"""A value that is a constant is a text of its own."""
_WORD = re.compile(r"\b[a-z]{4,}\b")
_SPOKEN = re.compile(r"[a-z]{2,} [a-z]|, [A-Z]?[a-z]+ ")


def of_mechanisms(folder: Path) -> dict[str, str]:
    """Return the sentences that modules of a folder state, each with a module that has it."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        for text in _stated(ast.parse(path.read_text("utf-8"))):
            parts = _ENDS.split(_CONSTANT.sub("", text))
            for part in parts:
                words = _PLACE.sub("", part)
                inside = len(parts) > 1 or words != part
                if _SPOKEN.search(words) or (inside and _WORD.search(words)):
                    part = part.rstrip(";:")  # noqa: PLW2901 - a page adds it
                    said = part if _PLACE.search(part) else part.replace("%%", "%")
                    found.setdefault(said, path.name)
    return found


def _stated(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in FIELDS:
            yield from texts_in(node.value)
        elif isinstance(node, ast.Call) and _is_said(node.func):
            yield from (text for each in node.args for text in texts_in(each))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            if node.value and any(
                isinstance(each, ast.Name) and (each.id in FIELDS or CONSTANTS.fullmatch(each.id))
                for each in names
            ):
                yield from texts_in(node.value)
        elif isinstance(node, ast.FunctionDef) and FUNCTIONS.fullmatch(node.name):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return | ast.Assign) and inner.value is not None:
                    yield from texts_in(inner.value)


def _is_said(called: ast.expr) -> bool:
    return isinstance(called, ast.Name) and FUNCTIONS.fullmatch(called.id) is not None


def texts_in(node: ast.expr) -> Iterator[str]:
    """Yield the texts of an expression: plain ones, and those with values, as named places."""
    if isinstance(node, ast.JoinedStr):
        yield text_of(node)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif not isinstance(node, ast.Call | ast.Lambda):
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                yield from texts_in(each)


def text_of(node: ast.JoinedStr) -> str:
    """Return the text of an f-string: each value has a named place in it.

    >>> text_of(ast.parse("f'{a.name} has {len(b)} rows'", mode="eval").body)
    '%(name)s has %(value1)s rows'
    """
    said, unnamed = "", 0
    for each in node.values:
        if isinstance(each, ast.FormattedValue):
            name = _name(each.value)
            unnamed += name is None
            said += f"%({name or f'value{unnamed}'})s"
        elif isinstance(each, ast.Constant):
            said += str(each.value).replace("%", "%%")
    return said


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None
