"""The house rules that reading the sources can check; `make check` runs this file too."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from app.domain.problems import PROBLEMS

ROOT = Path(__file__).parent.parent
PACKAGES = ("app", "mechanisms")
STDLIB = sys.stdlib_module_names | {"__future__"}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the full name of everything a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def dotted(node: ast.AST) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def calls(path: Path, name: str) -> list[int]:
    """Return the lines that call ``name(...)`` or ``x.name(...)``."""
    text = path.read_text("utf-8")
    return [
        node.lineno
        for node in (ast.walk(ast.parse(text)) if name in text else ())
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr == name)
            or (isinstance(node.func, ast.Name) and node.func.id == name)
        )
    ]


def outside(found: frozenset[str], allowed: tuple[str, ...]) -> set[str]:
    return {
        name
        for name in found
        if name.split(".")[0] not in STDLIB
        and not any(name == prefix or name.startswith(f"{prefix}.") for prefix in allowed)
    }


def test_import_contracts_hold() -> None:
    # The script, not -m: it puts the working directory on the path, as `make check` does.
    script = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [script, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("mechanisms", ("mechanisms", "numpy", "scipy", "flint")),
        # Bounds and categories are the public domain itself; nothing else of numpy's world.
        (
            "app/domain",
            (
                "app.domain",
                "mechanisms.privacy",
                "mechanisms.domain",
                "mechanisms.domain",
                "mechanisms.words",  # files and questions trim a text by one rule
            ),
        ),
        ("app/tidy", ("app.tidy",)),
        ("app/client", ("app.client", "app.tidy", "cryptography", "httpx", "rfc3161_client")),
    ],
)
def test_imports_only(folder: str, allowed: tuple[str, ...]) -> None:
    strangers = {
        str(path.relative_to(ROOT)): outside(imports(path), allowed) for path in sources(folder)
    }
    assert {path: names for path, names in strangers.items() if names} == {}


def test_one_source_of_randomness() -> None:
    stand_in = {ROOT / "mechanisms" / "testing.py"}
    for path in set(sources(*PACKAGES)) - stand_in:
        names = imports(path) | {
            dotted(node)
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Attribute)
        }
        wrong = {
            name
            for name in names
            if re.match(r"(np|numpy|scipy\.stats|scipy)\.(random|qmc)\b|random(\.|$)", name)
        }
        assert not wrong, f"{path.relative_to(ROOT)} draws from {wrong}"
    streams = {"mechanisms.randomness", "mechanisms.testing", "mechanisms.estimates.synthetic"}
    made = {module_of(path) for path in sources(*PACKAGES) if calls(path, "Randomness")}
    assert made == streams, "who else makes a stream of bits?"
    for path in sources("mechanisms"):
        if any(name.split(".")[0] in {"secrets", "os"} for name in imports(path)):
            assert path.name in {"randomness.py", "testing.py"}, f"{path} reads the system's bits"


def test_one_commit() -> None:
    places = [
        module_of(path)
        for path in sources("app")
        for _ in (*calls(path, "commit"), *re.findall(r'"COMMIT"', path.read_text("utf-8")))
    ]
    assert len(places) == 1, f"commit() in {places}"
    assert places[0].startswith("app.store."), places


def test_select_only_in_the_store() -> None:
    for path in sources("app"):
        if module_of(path).startswith("app.store"):
            continue
        names = imports(path)
        assert not any(name.startswith(("sqlalchemy", "sqlite3", "alembic")) for name in names), (
            path
        )
        # Polars has a method of this name; a query is the bare function.
        bare = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "select"
        ]
        assert bare == [], path


def test_no_float_on_money() -> None:
    """Amounts are integers: no float literal, float() or true division where they are handled."""
    money = [
        *sources("app/domain"),
        *(ROOT / "app/store/ledger" / name for name in ("accounts.py", "entries.py")),
        ROOT / "app/store/database/tables.py",
        ROOT / "mechanisms/privacy.py",
    ]
    for path in money:
        if path.name in {"columns.py", "datasets.py", "overlap.py", "problems.py"}:
            continue  # bounds, shares of rows, waiting times
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Constant):
                assert not isinstance(node.value, float), f"float at {where}"
            if isinstance(node, ast.Name):
                assert node.id != "float", f"float at {where}"
    ledger = ast.parse((ROOT / "app/domain/ledger.py").read_text("utf-8"))
    assert not [node for node in ast.walk(ledger) if isinstance(node, ast.Div)]


def tracked() -> list[Path]:
    """Return the project's own text files: git's list where there is one."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return [ROOT / name for name in done.stdout.split("\0") if name]
    return [path for folder in (*PACKAGES, "migrations", "tests") for path in sources(folder)]


def test_no_machine_in_the_files() -> None:
    """No path of a developer's machine and no package index host is written down."""
    wrong = re.compile(
        r"/(?:work|root|home/\w+)/\w|(?:index|extra-index)-url|files\.python" + r"hosted|pypi\."
    )
    for path in tracked():
        if (
            not path.is_file()
            or path.suffix in {".csv", ".gz", ".parquet", ".png"}
            or path == Path(__file__)
        ):
            continue
        found = wrong.search(path.read_text("utf-8"))
        assert found is None, f"{path.relative_to(ROOT)}: {found.group() if found else ''}"


def test_nothing_is_left_undone() -> None:
    words = re.compile(r"\b(?:TO" + "DO|FIX" + r"ME|X{3})\b")
    for path in sources(*PACKAGES, "tests", "studies", "migrations"):
        found = words.search(path.read_text("utf-8"))
        assert found is None, f"{path.relative_to(ROOT)}: {found.group() if found else ''}"


def test_tests_are_the_same_in_every_process() -> None:
    """A parameter that holds the time would name its test differently on each core."""
    stamped = re.compile(r"gzip\.compress\((?!.*mtime=0)")
    written = [path for path in sources("tests") if stamped.search(path.read_text("utf-8"))]
    for path in written:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and dotted(node.func) == "pytest.mark.parametrize":
                text = ast.unparse(node)
                assert not stamped.search(text), f"{path.relative_to(ROOT)}:{node.lineno}"


CSV_WRITERS = {"csv.writer", "csv.DictWriter"}
CSV_METHODS = ("write_csv", "sink_csv", "to_csv")
SENT_ROWS = {
    ROOT / "app" / "client" / "values.py",
    ROOT / "studies" / "upload.py",
    ROOT / "studies" / "scale" / "rows.py",
}
"""They write files for a service to read, as the one call of the R client does: a data frame."""


def _dotted_names(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return {dotted(node) for node in nodes if isinstance(node, ast.Attribute)}


def test_csv_is_written_in_one_place() -> None:
    places = {
        path
        for path in set(sources(*PACKAGES, "studies", "clients")) - SENT_ROWS
        if any(calls(path, name) for name in CSV_METHODS)
        or not CSV_WRITERS.isdisjoint(imports(path) | _dotted_names(path))
    }
    assert places == {ROOT / "app" / "tidy" / "pivots.py"}, "its cells run in no spreadsheet"
    wrote = re.compile(r"\bwrite[._](?:csv2?|table|delim)\b")
    r_code = {
        path.name: len(wrote.findall(path.read_text("utf-8")))
        for path in (ROOT / "clients" / "r" / "R").glob("*.R")
    }
    assert {name: count for name, count in r_code.items() if count} == {"datasets.R": 1}, (
        "it is sent"
    )


def test_modules_are_short() -> None:
    for path in sources(*PACKAGES):
        lines = path.read_text("utf-8").count("\n")
        assert lines <= 700, f"{path.relative_to(ROOT)} has {lines} lines"


def test_every_problem_that_is_documented_occurs() -> None:
    """A code that nothing raises is a page that explains what never happens."""
    raised = set()
    for path in sources("app"):
        tree = ast.parse(path.read_text("utf-8"))
        calls_of = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
        firsts = (node.args[0] for node in calls_of if dotted(node.func) == "Problem")
        raised |= {first.value for first in firsts if isinstance(first, ast.Constant)}
    by_status = ast.walk(ast.parse((ROOT / "app/api/answers/problems.py").read_text("utf-8")))
    raised |= {node.value for node in by_status if isinstance(node, ast.Constant)}
    assert set(PROBLEMS) <= raised


def test_what_must_be_covered_is_there_and_nothing_is_excused() -> None:
    """A file that moved would drop out of `make coverage` in silence."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["coverage"]
    assert tool["run"]["branch"] is True
    assert tool["report"]["fail_under"] == 100
    assert "omit" not in tool["run"]
    for pattern in tool["run"]["include"]:
        assert list(ROOT.glob(pattern)), f"no file is {pattern}"
    for path in sources(*PACKAGES):
        assert "pragma: no" not in path.read_text("utf-8"), f"{path.name} excuses lines"


def test_runtime_needs_are_declared_and_locked() -> None:
    """Every third-party package that is imported is declared, and locked with hashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {re.split(r"[\[><=]", need)[0] for need in project["dependencies"]}
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    pinned = set(re.findall(r"^([a-z0-9-]+)==\S+ (?:; .*)?\\\n    --hash", lock, re.MULTILINE))
    assert declared <= pinned
    distribution = {
        "markdown_it": "markdown-it-py",
        "confusable_homoglyphs": "confusable-homoglyphs",
        "opentelemetry": "opentelemetry-sdk",
        "flint": "python-flint",
        "prometheus_client": "prometheus-client",
        "pydantic_settings": "pydantic-settings",
        "python_multipart": "python-multipart",
        "rfc3161_client": "rfc3161-client",
    }
    own = set(PACKAGES) | {"migrations"}
    extras = (need for needs in project["optional-dependencies"].values() for need in needs)
    declared |= {re.split(r"[\[><=]", need)[0] for need in extras}
    for path in sources(*PACKAGES, "migrations"):
        for name in imports(path):
            top = name.split(".")[0]
            if top in STDLIB or top in own:
                continue
            if top == "pydantic_core":  # pydantic pins the one version it works with
                continue
            assert distribution.get(top, top) in declared, f"{path.name} imports {top}"


def test_no_older_version_is_admitted_than_the_lock_has() -> None:
    """Older versions are not tested, and some have known advisories."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    needs = [*project["project"]["dependencies"], *(need for extra in extras for need in extra)]
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    for need in needs:
        found = re.match(r"([a-z0-9-]+)(?:\[\w+\])?>=([\w.]+)", need)
        assert found is not None, need
        locked = re.findall(rf"^{found[1]}==([\w.]+)", lock, re.MULTILINE)
        assert found[2] in locked, f"{need}: the lock has {locked}"


MOST_PRIVATE = 90
"""Reaches of the tests into private names. Lower it when there are fewer."""

PRIVATE = re.compile(rf"(?:{'|'.join(PACKAGES)})\.[\w.]*\._\w+$")


def private_names(path: Path) -> Iterator[str]:
    """Yield what a test names of others that begins with one underscore."""
    # of named tuples, of os, and of notebooks
    public = {"_replace", "_asdict", "_fields", "_exit", "_repr_html_"}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if not own and node.attr not in public:
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            yield from (alias.name for alias in node.names if alias.name.startswith("_"))
        elif isinstance(node, ast.Constant) and PRIVATE.match(str(node.value)):
            yield str(node.value)


def test_tests_reach_for_no_more_private_names() -> None:
    others = [path for path in sources("tests") if path != Path(__file__)]
    found = [name for path in others for name in private_names(path)]
    assert len(found) <= MOST_PRIVATE, sorted(found)


def test_a_private_name_is_seen_however_it_is_reached(tmp_path: Path) -> None:
    place = tmp_path / "test_it.py"
    place.write_text(
        "from app.store import _hidden\n"
        'patched = "app.store.store._time"\n'
        "def test(self, store): return store._writer, self._own, row._replace()\n",
        "utf-8",
    )
    assert sorted(private_names(place)) == ["_hidden", "app.store.store._time", "store._writer"]


WEB = ("fastapi", "starlette", "uvicorn")


def test_a_worker_loads_no_web_framework() -> None:
    script = f"import sys, app.worker\nprint(*sorted(set({WEB}) & set(sys.modules)))"
    command = [sys.executable, "-c", script]
    reported = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert reported.stdout.split() == []
