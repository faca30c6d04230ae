"""The documents are a test: every block of README.md and docs/ runs, page by page, in order.

Each page has a project directory and a live server of its own; ``tests.documents``
says how a page asks for something else. What a newcomer reads runs on one server too.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import PREFIX
from tests.documents import ROOT, Block, documents, tours
from tests.e2e.commands import program
from tests.e2e.live import ADMIN_KEY, LiveServer
from tests.e2e.r import has_r, installed
from tests.e2e.shells import Shells

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
PRINTED_URL = "http://127.0.0.1:8000"
SERVE = re.compile(r"(?:\w+=\S+ )*(?:make|docker|(?:\S*/)?release-desk (?:serve|worker|demo))\b")
"""What starts services or the container engine: not run, but looked at below."""


LANGUAGES = {"bash", "python", "r"}
READ_FIRST = "README.md"
"""What a newcomer runs: tried with every change, and the others with everything else."""
NEWCOMER = (READ_FIRST, "docs/tutorials/quickstart.md", "docs/tutorials/tutorial.md")
"""What a newcomer reads in one sitting, on one service."""


def checkout(place: Path) -> Path:
    """Return a directory that looks like the project's root and takes what commands write."""
    for name in ("app", "deploy", "docs"):
        (place / name).symlink_to(ROOT / name)
    command = place / ".venv" / "bin" / "release-desk"
    command.parent.mkdir(parents=True)
    command.write_text(program())
    command.chmod(0o755)
    return place


def environment(project: Path, url: str, **settings: str) -> dict[str, str]:
    """Return the environment of a reader of the README."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(PREFIX)},
        "PATH": f"{project}/.venv/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RELEASE_DESK_URL": url,
        "RELEASE_DESK_KEY": ADMIN_KEY,
        **settings,
    }


def runnable(block: Block, url: str) -> str:
    """Return what is run of a block: against this server, and without starting another one."""
    lines = []
    for line in block.text.replace(PRINTED_URL, url).splitlines():
        if block.language == "bash" and SERVE.match(line):
            continue
        lines.append(line)
        if line.endswith("> admin_key.txt"):
            lines.append(f"test $(wc -c < admin_key.txt) -ge 32; echo {ADMIN_KEY} > admin_key.txt")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[] if first == READ_FIRST else [pytest.mark.slow])
        for first in sorted(tours())
    ],
)
def test_every_block_runs(first: str, tmp_path: Path) -> None:
    run([block for page in tours()[first] for block in page.blocks], tmp_path)


@pytest.mark.slow
def test_a_newcomer_reads_on_with_one_service(tmp_path: Path) -> None:
    pages = documents()
    run([block for path in NEWCOMER for block in pages[path].blocks], tmp_path)


def run(blocks: list[Block], tmp_path: Path) -> None:
    """Run blocks in order, as a reader of their pages does, and compare what they print."""
    if not any(block.language in LANGUAGES and runnable(block, "") for block in blocks):
        return  # and no server is needed
    left_out, languages = set(), {block.language for block in blocks}
    in_r = "r" in languages and has_r("httr2", "jsonlite")
    settings = {"R_LIBS": str(installed())} if in_r else {}
    with (
        LiveServer(
            tmp_path / "data", RELEASE_DESK_SOURCE_ROOTS=f"file://{tmp_path}/people"
        ) as server,
        Shells(
            project := checkout(tmp_path), environment(project, server.url, **settings)
        ) as shells,
    ):
        printed = ""
        for block in blocks:
            where = f"{block.page}:{block.line}"
            if block.language == "r" and not in_r:
                left_out.add(block.page)
            elif block.language in LANGUAGES:
                try:
                    printed = shells.run(block.language, runnable(block, server.url))
                except AssertionError as failed:
                    raise AssertionError(f"{where} failed:\n{failed}") from None
            elif block.how == "printed" and block.language == "json":
                check_shape(json.loads(block.text), last_json(printed), where)
            elif block.how == "printed":
                check_lines(block.text, printed, where)
    if left_out:
        pytest.skip(f"R IS MISSING (or httr2): its blocks in {', '.join(left_out)} WERE NOT RUN")


def last_json(printed: str) -> Any:
    """Return the last JSON value of what was printed, which ends in one or several of them."""
    decoder = json.JSONDecoder()
    for start in re.finditer(r"^[\[{]", printed, re.MULTILINE):
        at, value = start.start(), None
        try:
            while rest := printed[at:].lstrip():
                value, length = decoder.raw_decode(rest)
                at = len(printed) - len(rest) + length
        except ValueError:
            continue
        return value
    raise AssertionError(f"no JSON at the end of what was printed:\n{printed[-2000:]}")


def check_shape(shown: Any, got: Any, where: str) -> None:
    """Check that all that is shown is there, of the same type; values may differ."""
    if isinstance(shown, dict):
        assert isinstance(got, dict), where
        for name, value in shown.items():
            assert name in got, f"{where}: no {name!r} among {sorted(got)}"
            check_shape(value, got[name], f"{where}: {name}")
    elif isinstance(shown, list):
        assert isinstance(got, list), where
        assert bool(shown) == bool(got), where
        for at, value in enumerate(shown):  # of a long list a page may show the first alone
            check_shape(value, got[at] if len(shown) == len(got) else got[0], where)
    elif isinstance(shown, bool):
        assert shown is got, where
    elif not (isinstance(shown, int | float) and isinstance(got, int | float)):
        assert type(shown) is type(got), f"{where}: {shown!r} is shown, {got!r} is answered"


def check_lines(shown: str, printed: str, where: str) -> None:
    """Check that each line that is shown was printed, in this order; numbers may differ."""
    at = 0
    for line in filter(None, shown.splitlines()):
        words = (".*".join(map(re.escape, part.split("..."))) for part in _NUMBER.split(line))
        found = re.compile(r"[-\d.]+(?:e-?\d+)?".join(words)).search(printed, at)
        assert found, f"{where}: {line!r} was not printed after this:\n{printed[at:]}"
        at = found.end()


def test_the_check_of_shapes_finds_what_is_not_there() -> None:
    printed = 'some words\n{"d": 1}{"a": [{"b": 1}], "c": null}\n'
    check_shape({"a": [{"b": 2.5}]}, last_json(printed), "here")
    for wrong in ({"d": 1}, {"a": [{"b": "1"}]}, {"a": []}, {"c": 0}, {"a": {"b": 1}}):
        with pytest.raises(AssertionError):
            check_shape(wrong, last_json(printed), "here")
    check_lines("age 3.5 ...\nx\n", "a\nage -7 of 9\nmore\nx\n", "here")
    for lines in ("x\nage 1\n", "ages\n", "age 1 up\n"):
        with pytest.raises(AssertionError):
            check_lines(lines, "a\nage -7 of 9\nmore\nx\n", "here")


def test_what_runs_elsewhere_is_run_there() -> None:
    for page in documents().values():
        if page.by is not None:
            assert page.path in (ROOT / page.by).read_text("utf-8"), page.by


def shell_lines() -> list[str]:
    pages = documents().values()
    blocks = (block for page in pages for block in page.blocks if block.language == "bash")
    return [line for block in blocks for line in block.text.splitlines()]


def test_make_commands_exist() -> None:
    lines = [line for line in shell_lines() if re.match(r"(?:\w+=\S+ )*make ", line)]
    lines += [
        found for page in documents().values() for found in re.findall(r"`(make [^`]*)`", page.text)
    ]
    targets = {word for line in lines for word in after_make(line)}
    assert {"demo", "test", "serve"} <= targets
    # -o: the environment is not to be made, or touched, by asking
    asked = ["make", "-n", "-o", ".venv/.ready", *sorted(targets)]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_continuous_integration_makes_what_the_readme_says() -> None:
    """And what the page on tests says of it."""
    made = {
        word
        for line in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
        if line.startswith("make ")
        for word in after_make(line.partition("||")[0])
    }
    commands = [line for line in shell_lines() if line.startswith("make test")]
    assert commands == ["make test"]
    assert made - {"--keep-going"} == {"check", "test", "coverage", "test-slow", "test-timed"}
    reported = re.search(
        r"^\.ci/run +(.*)$", documents()["docs/development/tests.md"].text, re.MULTILINE
    )
    assert reported is not None
    assert set(re.findall(r"make ([\w-]+)", reported[1])) == made - {"--keep-going"}


def after_make(line: str) -> list[str]:
    """Return what a ``make`` line makes, without variables."""
    words = shlex.split(line, comments=True)
    return [word for word in words[words.index("make") + 1 :] if "=" not in word]


def test_docker_commands_fit_the_files() -> None:
    lines = [line for line in shell_lines() if line.startswith("docker")]
    assert set(lines) == {
        "docker compose up",
        "docker compose --profile postgres up release-desk-postgres",
        "docker compose --profile tls --profile oidc up",
    }
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    assert [name for name in services if "profiles" not in services[name]] == ["release-desk"]
    named = {profile for each in services.values() for profile in each.get("profiles", ())}
    assert named >= {"tls", "oidc"}
    for name in ("release-desk", "release-desk-postgres"):
        assert services[name]["build"] == "."
        assert services[name]["ports"] == ["127.0.0.1:8000:8000"]
