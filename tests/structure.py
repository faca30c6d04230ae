"""How the packages hang together: circles, crowded folders, and packages that say nothing.

    python -m tests.structure app mechanisms

A *circle* is a way back: modules (or folders) that import one another, however
far around. Between a package and a package inside it there is no arrow, since
the outer one's ``__init__`` may speak for the inner. Imports for type checkers
count as any other. Everything is read from the sources; nothing is imported.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

MOST_MODULES = 24
"""In one folder."""

Arrows = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Module:
    """A source file: its dotted name, its folder's, and what it holds."""

    name: str
    folder: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.name == self.folder


def modules_of(root: Path, *packages: str) -> dict[str, Module]:
    """Return every module of the packages by name."""
    found = {}
    for path in (path for package in packages for path in sorted((root / package).rglob("*.py"))):
        parts = path.relative_to(root).with_suffix("").parts
        folder = ".".join(parts[:-1])
        name = folder if parts[-1] == "__init__" else ".".join(parts)
        found[name] = Module(name, folder, ast.parse(path.read_text("utf-8")))
    return found


def _imported(module: Module, known: Mapping[str, Module]) -> frozenset[str]:
    names = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in whole}
    return frozenset(names & known.keys() - {module.name})


def between_modules(modules: Mapping[str, Module]) -> Arrows:
    """Return what each module imports."""
    return {name: _imported(module, modules) for name, module in modules.items()}


def across_folders(modules: Mapping[str, Module]) -> dict[tuple[str, str], str]:
    """Return, of two folders, how the first imports from the other; none inside the other."""
    ways = {}
    for name, targets in between_modules(modules).items():
        for target in sorted(targets):
            one, other = modules[name].folder, modules[target].folder
            if not (f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")):
                ways[one, other] = f"{name} imports {target}"
    return ways


def between_folders(modules: Mapping[str, Module]) -> Arrows:
    """Return from which other folders each folder imports."""
    arrows: dict[str, set[str]] = {module.folder: set() for module in modules.values()}
    for one, other in across_folders(modules):
        arrows[one].add(other)
    return {name: frozenset(targets) for name, targets in arrows.items()}


def circles(arrows: Arrows) -> list[list[str]]:
    """Return circles, one of each knot, each from a name back to itself."""
    found, left = [], dict(arrows)
    while True:
        try:
            TopologicalSorter({name: left[name] & left.keys() for name in left}).prepare()
        except CycleError as knot:
            circle = list(reversed(knot.args[1]))
            found.append(circle)
            del left[circle[0]]
        else:
            return found


def crowded(modules: Mapping[str, Module]) -> dict[str, int]:
    """Return folders of too many modules, ``__init__`` aside."""
    count = Counter(module.folder for module in modules.values() if not module.is_package)
    return {folder: many for folder, many in count.items() if many > MOST_MODULES}


def silent(modules: Mapping[str, Module]) -> list[str]:
    """Return folders that hold modules and whose ``__init__`` says nothing, or is not there."""
    speaking = {
        module.name
        for module in modules.values()
        if module.is_package and ast.get_docstring(module.tree)
    }
    return sorted({module.folder for module in modules.values()} - speaking)


def faults(modules: Mapping[str, Module]) -> list[str]:
    """Return everything that is wrong, a line each."""
    ways = across_folders(modules)
    folders = circles(between_folders(modules))
    return [
        *(f"circle: {' -> '.join(names)}" for names in circles(between_modules(modules))),
        *(f"circle: {'; '.join(ways[pair] for pair in pairwise(names))}" for names in folders),
        *(f"crowded: {folder} has {many} modules" for folder, many in crowded(modules).items()),
        *(f"no docstring: {folder}" for folder in silent(modules)),
    ]


def main() -> int:
    """Print what is wrong with the packages that are named."""
    modules = modules_of(Path.cwd(), *sys.argv[1:])
    found = faults(modules)
    said = "\n".join(found) or f"{len(modules)} modules: no circle, nothing crowded"
    sys.stdout.write(f"{said}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
