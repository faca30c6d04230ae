"""Every example in a docstring says what really comes out."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

from tests.tiers import in_one

ROOT = Path(__file__).parent.parent
SHOWN = sorted(
    str(path.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__")
    for folder in ("app", "mechanisms", "studies")
    for path in (ROOT / folder).rglob("*.py")
    if any(">>> " in line and "+SKIP" not in line for line in path.read_text("utf-8").splitlines())
)


@in_one("module", SHOWN)
def test_an_example_says_what_comes_out(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted
    assert not found.failed


def test_a_wrong_example_is_found() -> None:
    """Must fail: an example that says something else."""
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    runner = doctest.DocTestRunner(verbose=False)
    assert runner.run(wrong, out=lambda text: None).failed == 1
