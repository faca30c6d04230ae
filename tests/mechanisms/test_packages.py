"""The map of the package: what each folder says of itself, and that what it points at exists."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import mechanisms
from tests.tiers import in_one

NAMES = [
    "mechanisms",
    *sorted(info.name for info in pkgutil.walk_packages(mechanisms.__path__, "mechanisms.")),
]
PACKAGES = [name for name in NAMES if hasattr(importlib.import_module(name), "__path__")]
REFERENCE = re.compile(r":(?:mod|class|func|data):`~?(mechanisms(?:\.\w+)+)`")
SIBLING = re.compile(r":mod:`(\w+)`")


def found(path: str) -> bool:
    """Return whether a dotted path is a module, or what a module holds."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            place: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(place, part):
                return False
            place = getattr(place, part)
        return True
    return False


@in_one("name", PACKAGES)
def test_a_package_says_what_lives_there_and_what_may_come(name: str) -> None:
    text = importlib.import_module(name).__doc__ or ""
    assert len(text.splitlines()) > 3
    assert "May enter:" in text
    assert re.search(r"May\s+import:", text)


@in_one("name", NAMES)
def test_what_a_module_points_at_exists(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__file__ is not None
    text = Path(module.__file__).read_text("utf-8")
    for path in REFERENCE.findall(text):
        assert found(path), f"{name} points at {path}"
    parent = name if name in PACKAGES else name.rpartition(".")[0]
    for sibling in SIBLING.findall(module.__doc__ or ""):
        assert found(f"{parent}.{sibling}"), f"{name} points at {sibling}"


def test_a_reference_to_nothing_is_found_out() -> None:
    assert not found("mechanisms.nothing")
    assert not found("mechanisms.catalog.nothing")
    assert found("mechanisms.catalog.calibrate")
