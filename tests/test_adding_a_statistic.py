"""The guide of docs/development/adding-a-statistic.md: one class and one line are enough.

A program registers two further statistics with one line, and walks through all that knows
statistics. And no other module names kinds: what it would say of one is a fact of its class.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.services.generated import sources
from mechanisms.catalog import STATISTICS
from mechanisms.statistics.registry import SINGLE_STATISTICS
from tests.tiers import in_one

ROOT = Path(__file__).parents[1]
WALK = "from tests.further.statistics import register; register(); import tests.further.walk"
WORDS = frozenset({"count", "mean", "sum", "std", "tables", "variance", "moments"})
"""Kinds that are also words of column specifications and of answers."""
CLASSES = frozenset(each.__name__ for each in SINGLE_STATISTICS.values())
MAY_IMPORT = (
    "mechanisms/kng/", "mechanisms/exponential/", "mechanisms/perturbation/",
    "mechanisms/functional/", "mechanisms/gaussian/", "mechanisms/inference/",
    "mechanisms/statistics/", "mechanisms/analysis/",
)  # fmt: skip
"""Mechanisms: each lists the classes that it draws, or has standard errors for, in one table. And
statistics and analyses, which are made of others."""
GENERATED = frozenset(sources())
REGISTRY = "mechanisms/statistics/registry.py"
OWN = {
    "mechanisms/" + each.__module__.removeprefix("mechanisms.").replace(".", "/") + ".py"
    for each in STATISTICS.values()
}


@pytest.mark.slow
def test_a_registered_statistic_is_known_everywhere() -> None:
    found = subprocess.run(
        [sys.executable, "-c", WALK], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


def test_the_generated_sources_are_up_to_date() -> None:
    for path, text in sources().items():
        written = (ROOT / path).read_text("utf-8")
        assert written == text, "run python -m app.services.generated"


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules that may name no kind."""
    for package in ("app", "mechanisms"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name not in OWN | GENERATED and name != REGISTRY:
                yield name, ast.parse(path.read_text("utf-8"))


def named_in(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield the places of a module where kinds or their classes decide something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and decides(node):
            yield f"{name}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Set | ast.MatchValue):
            held = node.elts if isinstance(node, ast.Set) else [node.value]
            if any(kind_of(each) for each in held):
                yield f"{name}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Dict):
            if any(kind_of(key) for key in node.keys if key is not None):
                yield f"{name}:{node.lineno}: a table of kinds"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            classes = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            if CLASSES & classes:
                yield f"{name}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.MatchClass) and ast.unparse(node.cls) in CLASSES:
            yield f"{name}:{node.lineno}: {ast.unparse(node.cls)}"
        elif isinstance(node, ast.ImportFrom) and not name.startswith(MAY_IMPORT):
            from_statistics = (node.module or "").startswith("mechanisms.statistics")
            taken = CLASSES & {alias.name for alias in node.names}
            if from_statistics and taken:
                yield f"{name}:{node.lineno}: imports {', '.join(sorted(taken))}"


def decides(node: ast.Compare) -> bool:
    """Return whether a comparison is with a kind: of any name, or with a word, of a kind's."""
    sides = [node.left, *node.comparators]
    each = [part for side in sides for part in getattr(side, "elts", [side])]
    about = " ".join(ast.unparse(side) for side in sides)
    words = any(isinstance(part, ast.Constant) and part.value in WORDS for part in each)
    return any(map(kind_of, each)) or (words and (".kind" in about or "'kind'" in about))


def kind_of(node: ast.expr) -> bool:
    """Return whether this is the name of a kind that is no common word."""
    return isinstance(node, ast.Constant) and node.value in SINGLE_STATISTICS.keys() - WORDS


def test_no_other_module_names_kinds() -> None:
    found = [place for name, tree in modules() for place in named_in(name, tree)]
    assert not found, "\n".join(["make it a fact of the class:", *found])


@in_one(
    "text",
    [
        'if statistic.kind == "mean": pass',
        'if kind in ("quantile", "histogram"): pass',
        'KINDS = frozenset({"histogram", "quantile"})',
        'RANGES = {"quantile": 1}',
        "if isinstance(statistic, Count | Histogram): pass",
        "from mechanisms.statistics.mean import Mean",
        'match kind:\n    case "quantile": pass',
        "match statistic:\n    case Mean(): pass",
    ],
)
def test_a_named_kind_is_found(text: str) -> None:
    assert [*named_in("app/desk/somewhere.py", ast.parse(text))]
