"""The checker of circles, crowded folders and silent packages finds each where it is planted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import structure

ROOT = Path(__file__).parent.parent
SAYS = '"""What lives here."""\n'
SOUND = {
    "app/__init__.py": SAYS,
    "app/low/__init__.py": SAYS,
    "app/low/one.py": "",
    "app/high/__init__.py": SAYS,
    "app/high/two.py": "from app.low import one\n",
    "app/high/inner/__init__.py": SAYS,
    "app/high/inner/three.py": "from app.low.one import name\nimport app.high.two\n",
}


def found(root: Path, **changes: str) -> list[str]:
    """Return what is wrong with a sound package and the changes to it, by file name."""
    for name, text in {**SOUND, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return structure.faults(structure.modules_of(root, "app"))


def test_a_sound_package_passes(tmp_path: Path) -> None:
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    "way_back",
    [
        "import app.high.two\n",
        "from app.high import two\n",
        "def late() -> None:\n    from app.high.two import name\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from app.high import two\n",
    ],
)
def test_a_circle_of_modules_is_found(tmp_path: Path, way_back: str) -> None:
    first, second = found(tmp_path, **{"app/low/one.py": way_back})
    assert first.startswith("circle: app.")
    assert {"app.high.two", "app.low.one"} == set(first.removeprefix("circle: ").split(" -> "))
    assert "app.low.one imports app.high.two" in second


def test_a_circle_around_three_is_found(tmp_path: Path) -> None:
    changes = {
        "app/low/one.py": "import app.low.four\n",
        "app/low/four.py": "import app.low.five\n",
        "app/low/five.py": "import app.low.one\n",
    }
    (circle,) = found(tmp_path, **changes)
    assert circle.count("->") == 3


def test_a_circle_of_folders_alone_is_found(tmp_path: Path) -> None:
    changes = {"app/high/four.py": "", "app/low/five.py": "import app.high.four\n"}
    (circle,) = found(tmp_path, **changes)
    assert circle.startswith("circle: ")
    assert "app.low.five imports app.high.four" in circle


def test_a_package_and_its_own_may_speak_of_one_another(tmp_path: Path) -> None:
    assert found(tmp_path, **{"app/high/four.py": "import app.high.inner.three\n"}) == []


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    full = {f"app/low/more_{number}.py": "" for number in range(structure.MOST_MODULES - 1)}
    assert found(tmp_path, **full) == []
    assert found(tmp_path, **{"app/low/last.py": ""}) == ["crowded: app.low has 25 modules"]


@pytest.mark.parametrize("text", ["", "# no docstring\n", "x = 1\n"])
def test_a_package_that_says_nothing_is_found(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, **{"app/low/__init__.py": text}) == ["no docstring: app.low"]


def test_a_folder_without_a_package_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, **{"app/loose/six.py": ""}) == ["no docstring: app.loose"]


@pytest.mark.parametrize("package", ["app", "mechanisms"])
def test_the_house_is_sound(package: str) -> None:
    """No circle of files or folders, no crowded folder, and every package says what it is."""
    assert structure.faults(structure.modules_of(ROOT, package)) == []


MOST_FILES, MOST_SHORT = 520, 30
"""Files of the product, and those of them that are short: lower both when there are fewer."""


def _is_short(text: str) -> bool:
    """Return whether a file has fewer than 60 lines, and more than a docstring."""
    body = ast.parse(text).body
    return text.count("\n") < 60 and not (len(body) == 1 and isinstance(body[0], ast.Expr))


def test_the_house_has_few_files_and_seldom_short_ones() -> None:
    packages = ("app", "mechanisms", "migrations")
    texts = [path.read_text("utf-8") for each in packages for path in (ROOT / each).rglob("*.py")]
    assert len(texts) <= MOST_FILES, f"{len(texts)} files: merge what is read together"
    short = sum(map(_is_short, texts))
    assert short <= MOST_SHORT, f"{short} short files: a short one belongs to what uses it"
