"""The longest test files begin first, every file has been timed, and wide cases are there."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import (
    DURATIONS,
    ON_POSTGRESQL,
    TRACED,
    WIDE_CASES,
    collect_another_folder_first,
    holds_files,
    is_traced,
    longest_first,
    mark_wide,
    require_own_ids,
    require_said,
)
from tests.tiers import in_groups, in_one

ROOT = Path(__file__).parent.parent


def test_the_longest_comes_first_and_a_new_one_before_all() -> None:
    seconds = {"short": 1.0, "long": 9.0}
    assert longest_first(["short", "long", "new"], seconds) == ["new", "long", "short"]


def test_each_worker_begins_in_another_folder_and_collects_all() -> None:
    def begun(worker: int, args: list[str]) -> list[str]:
        own = {"workerid": f"gw{worker}", "workercount": 3}
        config: Any = SimpleNamespace(
            args=args, rootpath=ROOT, workerinput=own, getini=lambda name: ["tests"]
        )
        collect_another_folder_first(config)
        return list(config.args)

    places = [begun(worker, ["tests"]) for worker in range(3)]
    assert len({each[0] for each in places}) == 3
    for each in places:
        assert sorted(each) == sorted(places[0])
        found = [file for place in each for file in [ROOT / place, *(ROOT / place).rglob("*")]]
        assert {*found} >= {*(ROOT / "tests").rglob("test_*.py")}
    assert begun(1, ["tests/app"]) == ["tests/app"]


def test_tests_of_one_id_are_refused() -> None:
    require_own_ids(["a.py::test[1]", "a.py::test[2]"])
    with pytest.raises(pytest.UsageError, match=r"one id: a\.py::test$"):
        require_own_ids(["a.py::test", "a.py::other", "a.py::test"])


def test_a_file_of_slow_tests_says_so(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    for said in ("@pytest.mark.slow", "x = [pytest.mark.slow]", "from tests.b.test_c import D"):
        file.write_text(f"import pytest\n{said}\n", "utf-8")
        require_said([file])
    file.write_text("slow = 1\nfrom tests.b.other import D\n", "utf-8")
    with pytest.raises(pytest.UsageError, match=r"say so: test_a\.py$"):
        require_said([file])


def test_files_lie_in_memory_only_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(*, free: int = 1 << 33, flags: int = 0) -> bool:
        seen = SimpleNamespace(f_bavail=free, f_frsize=1, f_flag=flags)
        monkeypatch.setattr(os, "statvfs", lambda path: seen)
        return holds_files(tmp_path)

    assert not holds_files(tmp_path / "nowhere")
    assert found()
    assert not found(free=1 << 31)
    assert not found(flags=os.ST_NOEXEC)


def test_every_file_has_a_duration_and_none_is_gone() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(json.loads(DURATIONS.read_text("utf-8"))) == files, (
        "run: make test-all ARGS=--record-durations"
    )


def test_wide_cases_are_of_functions_that_are_there() -> None:
    for file, functions in WIDE_CASES.items():
        text = (ROOT / file).read_text("utf-8")
        assert [name for name in functions if f"\ndef {name}(" not in text] == [], file


def test_every_file_has_a_test_that_continuous_integration_runs() -> None:
    """What is left to `make test-all` is more of the same, and no file of its own."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = str(path.relative_to(ROOT))
        assert runs_with_every_change(path.read_text("utf-8"), TRACED.get(name)), name


def test_a_file_of_further_cases_alone_is_found() -> None:
    wide = "@pytest.mark.wide\ndef test_a(): ...\n"
    served = "pytestmark = pytest.mark.postgres\n"
    slow = "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.slow)])\n"
    assert not runs_with_every_change(wide, [])
    assert runs_with_every_change(wide + "def test_b(): ...\n", None)
    assert not runs_with_every_change(served + "def test_b(): ...\n", [ON_POSTGRESQL])
    assert not runs_with_every_change(served + "def test_b(): ...\n", None)
    assert runs_with_every_change(served + "def test_b(): ...\n", [])
    assert runs_with_every_change(f"{served}{slow}def test_b(x): ...\n", None)


def runs_with_every_change(text: str, left_out: list[str] | None) -> bool:
    """Return whether `.ci/run` runs a test of a file; given what is not traced, if any is."""
    tree = ast.parse(text)
    served = re.search(r"^pytestmark = .*\bmark\.postgres\b", text, re.MULTILINE)
    slow = re.search(r"^pytestmark = .*\bmark\.slow\b", text, re.MULTILINE)
    traced = left_out is not None and ON_POSTGRESQL not in left_out
    for each in tree.body:
        if not isinstance(each, ast.FunctionDef) or not each.name.startswith("test_"):
            continue
        marks = [ast.unparse(mark) for mark in each.decorator_list]
        if {"pytest.mark.wide", "pytest.mark.long"} & {*marks}:
            continue
        if not served or slow or traced or any("pytest.mark.slow" in mark for mark in marks):
            return True
    return False


def test_what_coverage_leaves_out_is_there() -> None:
    """A file that was renamed would leave the traced ones in silence."""
    for file, left_out in TRACED.items():
        text = (ROOT / file).read_text("utf-8")
        functions = [name.split()[0] for name in left_out if name != ON_POSTGRESQL]
        assert [name for name in functions if f"\ndef {name}(" not in text] == [], file
        assert left_out == sorted(set(left_out), key=lambda name: (name != ON_POSTGRESQL, name))


def test_a_file_is_traced_but_for_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def traced(test: str) -> bool:
        return is_traced(test, on_postgresql="postgres" in test)

    monkeypatch.setitem(TRACED, "a.py", ["test_long", "test_both postgres"])
    monkeypatch.setitem(TRACED, "b.py", [ON_POSTGRESQL])
    assert traced("a.py::test[1]")
    assert traced("a.py::test[postgres-a::b]")
    assert traced("a.py::test_both[sqlite]")
    assert traced("b.py::test[sqlite]")
    assert not traced("a.py::test_both[postgres]")
    assert not traced("a.py::test_long")
    assert not traced("a.py::test_long[postgres]")
    assert not traced("b.py::test[postgres]")
    assert not traced("c.py::test[sqlite]")


def test_a_case_that_is_not_there_is_no_silent_match() -> None:
    marks: list[str] = []

    def case(name: str) -> Any:
        return SimpleNamespace(
            callspec=SimpleNamespace(id=name),
            nodeid=f"a.py::test[{name}]",
            add_marker=lambda mark: marks.append(f"{name} {mark.name}"),
        )

    cases = [case("quick"), case("long")]
    mark_wide(cases, ["long"])
    assert marks == ["long wide"]
    for wanted in (["gone"], ["long", "gone"], ["quick", "long"]):
        with pytest.raises(pytest.UsageError, match=r"other cases than a\.py::test, or all"):
            mark_wide(cases, wanted)


def test_cases_that_are_one_test_are_all_tried_and_named_when_they_fail() -> None:
    tried: list[int] = []

    def test_even(number: int, fixture: str) -> None:
        tried.append(number)
        assert fixture == "shared"
        assert number % 2 == 0

    def assert_named(run: Any, **given: Any) -> None:
        tried.clear()
        with pytest.raises(BaseExceptionGroup, match="2 of 4 cases") as found:
            run(fixture="shared", **given)
        assert tried == [2, 3, 4, 5]
        notes = [failure.__notes__ for failure in found.value.exceptions]
        assert notes == [["test_even: number=3"], ["test_even: number=5"]]

    assert_named(in_one("number", [2, 3, 4, 5])(test_even))
    grouped: Any = in_groups("number", lambda n: "few" if n < 6 else "many", [2, 3, 4, 5, 6])
    run = grouped(test_even)
    (mark,) = run.pytestmark
    assert [each.id for each in mark.args[1]] == ["few", "many"]
    assert_named(run, number=[2, 3, 4, 5])


def test_further_cases_of_a_group_are_wide() -> None:
    def test_any(number: int) -> None:
        del number

    run: Any = in_groups("number", str, [1, 2], further=[2])(test_any)
    (mark,) = run.pytestmark
    found = [(each.id, [one.name for one in each.marks]) for each in mark.args[1]]
    assert found == [("1", []), ("2", []), ("2-further", ["wide"])]
