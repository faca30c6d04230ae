"""Sentences that sources say and mark by no word: statements of mechanisms, and refusals.

A mechanism writes its reason, its theorem and its units where it has them, as plain texts or as
texts with values in braces. Each is a text of the catalogues. It is found by the name of the field,
of the constant or of the function that has it, so a new one is found, too. An answer has the
finished sentence, and a page finds its text again (:func:`app.web.languages.localized`), a part at
a time: parts end where a colon, a semicolon or a full stop is.

A refusal is an exception of :data:`REFUSALS`, and its text is written where it is made, whole or
as an f-string. It is found by the name of what is called: the class, or a function that returns
one. Of other exceptions pages show nothing: they are errors of programs, of start-up or of the
command line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
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

REFUSALS = frozenset({
    "Problem", "BudgetExceededError", "InvalidStatisticError", "ExpressionError",
    "DefinitionError", "WorkloadError", "InvalidEpsilonError", "InvalidSpecError",
    "InvalidSourceError", "DictionaryError", "UnreadableError", "_RefusedError", "Trouble",
    "Kind",
})  # fmt: skip
"""Exceptions whose texts come to pages, and what they are made of: faults and kinds of files."""
_ENDS = re.compile(r"(?<=[.:;?!]) ")
_PLACE = re.compile(r"%\(\w+\)s")
_CONSTANT = re.compile(r"%\(_?[A-Z][A-Z_]*\)s[.;]? ?")
"""A value that is a constant is a text of its own."""
_WORD = re.compile(r"\b[a-z]{4,}\b")
_SENTENCE = re.compile(r"[A-Za-z,)\d] +\(?[a-z]")
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


def of_refusals(*folders: Path) -> dict[str, str]:
    """Return the texts of refusals in modules of folders, each with a module that has it."""
    trees = {
        path: ast.parse(path.read_text("utf-8"))
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
    }
    made = {path: {*_making(tree)} for path, tree in trees.items()}
    shared = {name for names in made.values() for name in names if not name.startswith("_")}
    constants = _constants(trees.values())
    found: dict[str, str] = {}
    for path, tree in trees.items():
        for said in _refused(tree, REFUSALS | shared | made[path], constants):
            text = said.removesuffix("%(close)s")  # "(did you mean ...?)" is a text of its own
            if _SENTENCE.search(_PLACE.sub("", text)):
                plain = text if _PLACE.search(text) else text.replace("%%", "%")
                found.setdefault(plain, path.name)
    return found


def _making(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions that return refusals."""
    for each in ast.walk(tree):
        returned = each.returns if isinstance(each, ast.FunctionDef) else None
        parts = () if returned is None else ast.walk(returned)
        if any(isinstance(part, ast.Name) and part.id in REFUSALS for part in parts):
            assert isinstance(each, ast.FunctionDef)
            yield each.name


def _constants(trees: Iterable[ast.Module]) -> dict[str, list[ast.expr]]:
    """Return the constants that modules share, by name."""
    found: dict[str, list[ast.expr]] = {}
    for tree in trees:
        for name, values in _assigned(tree.body).items():
            if name.isupper() and not name.startswith("_"):
                found.setdefault(name, []).extend(values)
    return found


def _refused(
    tree: ast.Module, names: Collection[str], constants: Mapping[str, list[ast.expr]]
) -> Iterator[str]:
    of_module = {**constants, **_assigned(tree.body)}
    for part in (tree, *(each for each in ast.walk(tree) if isinstance(each, _FUNCTION))):
        local = of_module | (_assigned(ast.walk(part)) if isinstance(part, _FUNCTION) else {})
        if isinstance(part, _FUNCTION) and part.name == "faults":
            # Each is a place and a text.
            for each in ast.walk(part):
                if isinstance(each, ast.Yield) and isinstance(each.value, ast.Tuple):
                    yield from texts_in(each.value.elts[-1])
        for call in _calls(part):
            if _called(call.func) in names:
                for each in (*call.args, *(given.value for given in call.keywords)):
                    # a name of the function or of the module is what it was set to
                    known = local.get(each.id, []) if isinstance(each, ast.Name) else [each]
                    for one in known:
                        yield from texts_in(one)


_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def _calls(part: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of a function, or those of a module that are in no function."""
    inner = [*ast.iter_child_nodes(part)]
    while inner:
        node = inner.pop()
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, _FUNCTION):
            inner.extend(ast.iter_child_nodes(node))


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return what names are set to, all of it."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else []
            for target, value in zip(node.targets[0].elts, values, strict=False):
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(value)
    return found


def _called(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        made = called.value.id if isinstance(called.value, ast.Name) else ""
        return made if made in REFUSALS else called.attr  # as in Trouble.of
    return called.id if isinstance(called, ast.Name) else ""


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
