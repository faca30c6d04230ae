"""The licences of all packages that the service is shipped with, as their own metadata say.

``python -m tests.licences`` rewrites the table of ``docs/operations/licences.md``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, metadata

from packaging.requirements import Requirement

from tests.documents import ROOT

PAGE = ROOT / "docs/operations/licences.md"
TABLE = re.compile(r"(<!-- licences -->\n)(.*?)(\n<!-- /licences -->)", re.DOTALL)
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
}
"""What packages say in words that have no field for it."""

_LONG = 60


def locked() -> frozenset[str]:
    """Return the names of the packages that the lock pins, development tools included."""
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    return frozenset(
        _named(line.partition("==")[0]) for line in lines if re.match(r"[\w.-]+==", line)
    )


def shipped() -> list[str]:
    """Return the names of the packages that the service needs here, and of all that these need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, set[str]] = {}
    waiting = [Requirement(each) for each in project["dependencies"]]
    while waiting:
        wanted = waiting.pop()
        name, extras = _named(wanted.name), {"", *wanted.extras}
        if extras <= found.get(name, set()):
            continue
        found.setdefault(name, set()).update(extras)
        waiting += _needed(name, extras)
    return sorted(found)


def licence_of(name: str) -> str:
    """Return a package's licence."""
    about = metadata(name)
    reported = about.get("License-Expression") or about.get("License") or ""
    if (
        reported
        and len(reported) <= _LONG
        and "\n" not in reported
        and reported not in _CLASSIFIERS
    ):
        return reported
    classified = [each for each in about.get_all("Classifier") or () if each.startswith("License")]
    return " OR ".join(_CLASSIFIERS[_last(each)] for each in classified)


def table() -> str:
    """Return the table of the page."""
    rows = [f"| {name} | {licence_of(name)} |" for name in shipped()]
    return "\n".join(["| package | licence |", "| --- | --- |", *rows])


def _needed(name: str, extras: set[str]) -> Iterator[Requirement]:
    for each in distribution(name).requires or ():
        needed = Requirement(each)
        if needed.marker is None or any(needed.marker.evaluate({"extra": x}) for x in extras):
            yield needed


def _named(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _last(classifier: str) -> str:
    return classifier.rpartition("::")[2].strip()


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda found: found[1] + table() + found[3], PAGE.read_text("utf-8")))
