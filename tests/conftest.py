"""The order of the test files: the longest first, so that no core ends long after the others.

How long each file takes is kept in ``durations.json`` beside this file. Refresh it, on a quiet
machine, with ``make test-all ARGS=--record-durations``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

DURATIONS = Path(__file__).parent / "durations.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that keeps how long each file took."""
    parser.addoption(
        "--record-durations",
        action="store_true",
        help="write the seconds that each file took to tests/durations.json",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Listen to the reports where they all arrive: not in one of several workers."""
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


def longest_first(files: list[str], seconds: dict[str, float]) -> list[str]:
    """Return files by falling duration; one that nobody has timed yet comes first."""
    return sorted(files, key=lambda name: -seconds.get(name, float("inf")))


WHOLLY_SLOW = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file of slow tests where none is wanted: to import some takes seconds."""
    if "not slow" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return WHOLLY_SLOW.search(collection_path.read_text("utf-8")) is not None or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files in order; the tests of one file keep theirs, and each has a name of its own."""
    require_own_ids([item.nodeid for item in items])
    seconds = json.loads(DURATIONS.read_text("utf-8"))
    files = list(dict.fromkeys(file_of(item.nodeid) for item in items))
    place = {name: at for at, name in enumerate(longest_first(files, seconds))}
    items.sort(key=lambda item: place[file_of(item.nodeid)])


def require_own_ids(ids: list[str]) -> None:
    """Refuse tests of one id: where several processes share the tests, only the first would run."""
    shared = [name for name, times in Counter(ids).items() if times > 1]
    if shared:
        raise pytest.UsageError(f"several tests have one id: {', '.join(shared)}")


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
