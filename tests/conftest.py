"""The order of the test files, which cases are wide, and where the tests write.

The longest files come first, so that no core ends long after the others. How long each file takes
is kept in ``durations.json`` next to this file. Refresh it, on a quiet machine, with
``make test-all ARGS=--record-durations``.

Cases that take long, and whose siblings take the same way through the code, are marked ``wide``,
which ``wide_cases.json`` does too. They are left to ``make test-wide``, and slow ones to
``make test-all``.

``make coverage`` runs the files of ``traced.json``, and traced they take twice the time. What the
list names next to a file is left out: it takes long, and no branch that two others do not take.

With ``--in-memory`` all that the tests write is in memory, where there is enough of it. Thousands
of commits are flushed, and each would wait for the disk; that they are flushed is proved otherwise
(``tests/app/test_flushes.py``).
"""

from __future__ import annotations

import gc
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

DURATIONS = Path(__file__).parent / "durations.json"
WIDE_CASES: dict[str, dict[str, list[str]]] = json.loads(
    Path(__file__).with_name("wide_cases.json").read_text("utf-8")
)
TRACED: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("traced.json").read_text("utf-8")
)
ON_POSTGRESQL = "postgres"
"""What a traced file leaves out: its cases on PostgreSQL, or a function's that is named before."""
MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 1 << 32

Made = pytest.Item | pytest.Collector | list[pytest.Item | pytest.Collector] | None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that keeps how long each file took."""
    parser.addoption(
        "--record-durations",
        action="store_true",
        help="write the seconds that each file took to tests/durations.json",
    )

    parser.addoption(
        "--in-memory",
        action="store_true",
        help="keep what the tests write in memory, where there is enough of it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose where all workers write, and listen where all their reports arrive."""
    if hasattr(config, "workerinput"):
        collect_another_folder_first(config)
        return
    if config.getoption("--in-memory") and holds_files(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it is looked for again
    if config.getoption("--record-durations"):
        config.pluginmanager.register(Recorder())


def collect_another_folder_first(config: pytest.Config) -> None:
    """Have each worker begin elsewhere: what one has compiled is there for the others."""
    if config.args != config.getini("testpaths"):
        return
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    tops = [Path(*path.relative_to(config.rootpath).parts[:2]).as_posix() for path in files]
    own: dict[str, Any] = vars(config)["workerinput"]
    first = len(tops) * int(own["workerid"].removeprefix("gw")) // own["workercount"]
    config.args = list(dict.fromkeys([*tops[tops.index(tops[first]) :], *tops]))


def holds_files(directory: Path) -> bool:
    """Return whether there is room in a directory for all that the tests write and run."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    roomy = found.f_bavail * found.f_frsize >= _ENOUGH_BYTES
    return roomy and not found.f_flag & os.ST_NOEXEC and os.access(directory, os.W_OK)


def longest_first(files: list[str], seconds: dict[str, float]) -> list[str]:
    """Return files by falling duration; one that no one has timed yet comes first."""
    return sorted(files, key=lambda name: (-seconds.get(name, float("inf")), name))


def pytest_collection() -> None:
    """Look for no garbage meanwhile: nearly all that is made then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not among thousands of tests and modules each time."""
    gc.freeze()
    gc.enable()


WHOLLY_SLOW = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)
PARTLY_SLOW = re.compile(r"\bmark\.slow\b|^from tests\.[\w.]*\btest_", re.MULTILINE)
"""What a file with a slow test says: the mark, or another file of tests, whose cases it takes."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file of which no test is wanted: to import some takes seconds."""
    if not fnmatch(collection_path.name, "test_*.py"):
        return None
    name = os.path.relpath(collection_path, config.rootpath)
    return has_none_of(config.option.markexpr, collection_path, TRACED.get(name)) or None


def has_none_of(wanted: str, path: Path, left_out: list[str] | None) -> bool:
    """Return whether a file has none of the tests wanted; told what is not traced, if any is."""
    if wanted.startswith("traced"):
        return left_out is None
    if "not traced" in wanted and left_out == []:
        return True
    text = path.read_text("utf-8")
    if "not slow" in wanted:
        return WHOLLY_SLOW.search(text) is not None
    if re.search(r"(?<!not )\btimed\b", wanted):
        return "mark.timed" not in text
    return wanted.startswith("slow") and PARTLY_SLOW.search(text) is None


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str
) -> Generator[None, Made, Made]:
    """Mark a function's wide cases; one that it does not have is refused."""
    found = yield
    wanted = WIDE_CASES.get(file_of(collector.nodeid), {}).get(name)
    if wanted and isinstance(found, list):
        mark_wide([each for each in found if isinstance(each, pytest.Function)], wanted)
    return found


def mark_wide(cases: Sequence[pytest.Function], wanted: Sequence[str]) -> None:
    """Mark those of a function's cases that are wanted, which must not be all that it has."""
    by_id = {each.callspec.id: each for each in cases}
    if not set(wanted) < set(by_id):
        name = cases[0].nodeid.split("[")[0] if cases else ""
        raise pytest.UsageError(f"wide_cases.json has other cases than {name}, or all of them")
    for case in wanted:
        by_id[case].add_marker(pytest.mark.wide)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what ``make coverage`` runs."""
    on_postgresql = item.get_closest_marker("postgres") is not None
    if is_traced(item.nodeid, on_postgresql=on_postgresql):
        item.add_marker(pytest.mark.traced)


def is_traced(nodeid: str, *, on_postgresql: bool) -> bool:
    """Return whether a test is of a traced file, and is not left out."""
    left_out = TRACED.get(file_of(nodeid))
    if left_out is None:
        return False
    function = nodeid.partition("[")[0].rpartition("::")[2]
    names = {function}
    if on_postgresql:
        names |= {ON_POSTGRESQL, f"{function} {ON_POSTGRESQL}"}
    return names.isdisjoint(left_out)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files in order; the tests of one file keep theirs, and each has a name of its own."""
    require_own_ids([item.nodeid for item in items])
    require_said({item.path for item in items if item.get_closest_marker("slow")})
    seconds = json.loads(DURATIONS.read_text("utf-8"))
    files = list(dict.fromkeys(file_of(item.nodeid) for item in items))
    place = {name: at for at, name in enumerate(longest_first(files, seconds))}
    items.sort(key=lambda item: place[file_of(item.nodeid)])


def require_own_ids(ids: list[str]) -> None:
    """Refuse tests of one id: where several processes share the tests, only the first would run."""
    shared = [name for name, times in Counter(ids).items() if times > 1]
    if shared:
        raise pytest.UsageError(f"several tests have one id: {', '.join(shared)}")


def require_said(slow: Iterable[Path]) -> None:
    """Refuse a file of slow tests that does not say so: a run of slow tests would leave it out."""
    silent = [path.name for path in slow if not PARTLY_SLOW.search(path.read_text("utf-8"))]
    if silent:
        raise pytest.UsageError(f"these have slow tests and do not say so: {', '.join(silent)}")


def file_of(nodeid: str) -> str:
    """Return the file of a test, as ``durations.json`` names it."""
    return nodeid.split("::", maxsplit=1)[0]


class Recorder:
    """Adds up what the files take, and writes it at the end; what was not run keeps its time."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test's set-up, its call or its end."""
        self._seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write what has been counted."""
        kept = json.loads(DURATIONS.read_text("utf-8"))
        kept |= {name: round(seconds, 1) for name, seconds in self._seconds.items()}
        there = {name: kept[name] for name in sorted(kept) if Path(name).exists()}
        DURATIONS.write_text(json.dumps(there, indent=1) + "\n", "utf-8")
