"""The README is a test: its commands run, its tables say what the code says.

Refresh the table of settings with ``python -m tests.e2e.test_readme``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import httpx
import pytest
import yaml

from app.cli import main
from app.settings import PREFIX, Settings
from tests.e2e.live import ADMIN_KEY, LiveServer

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text("utf-8")
RUNBOOK = README.split("\n## Running it\n")[1].split("\n## ")[0]
PRINTED_URL = "http://127.0.0.1:8000"
SETTINGS = re.compile(r"(<!-- settings -->\n)(.*?)(\n<!-- /settings -->)", re.DOTALL)
START = "RELEASE_DESK_BOOTSTRAP_KEY_FILE=admin_key.txt make serve"


def blocks(language: str) -> list[str]:
    """Return the tour's blocks; those of the runbook are run by ``test_runbook``."""
    tour = README.replace(RUNBOOK, "")
    return re.findall(rf"^```{language}\n(.*?)^```", tour, re.MULTILINE | re.DOTALL)


def test_every_block_has_a_language_that_is_run() -> None:
    assert set(re.findall(r"^```(\w+)$", README, re.MULTILINE)) == {"bash", "python"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("readme") / "data") as live:
        yield live


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that looks like the project's root and takes what commands write."""
    place = tmp_path_factory.mktemp("checkout")
    (place / "app").symlink_to(ROOT / "app")
    command = place / ".venv" / "bin" / "release-desk"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m app.cli "$@"\n')
    command.chmod(0o755)
    return place


def environment(server: LiveServer) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(PREFIX)},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RELEASE_DESK_URL": server.url,
        "RELEASE_DESK_KEY": ADMIN_KEY,
    }


def make_targets(line: str) -> list[str]:
    """Return what a ``make`` line makes, without variables."""
    words = shlex.split(line)
    return [word for word in words[words.index("make") + 1 :] if "=" not in word]


@pytest.fixture(scope="module")
def toured(server: LiveServer, project: Path) -> str:
    """Run every shell line in order, in one shell, and return what it printed."""
    shell = []
    for line in "".join(blocks("bash")).splitlines():
        words = line.split()
        if "make" in words or words[:1] == ["docker"]:
            continue  # checked apart, below
        shell.append(line.replace(PRINTED_URL, server.url))
        if line.endswith("> admin_key.txt"):
            shell.append(f"test $(wc -c < admin_key.txt) -ge 32; echo {ADMIN_KEY} > admin_key.txt")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(shell)],
        cwd=project,
        env=environment(server),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_tour_in_the_shell(toured: str, project: Path) -> None:
    first = (project / "first.json").read_text()
    assert '"status":"released"' in first
    assert first in toured
    assert '"ok":true' in toured.replace(" ", "")


def run_python(code: str, server: LiveServer, project: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=project,
        env=environment(server),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.usefixtures("toured")
def test_the_tour_in_python(server: LiveServer, project: Path) -> None:
    """Run the client's tour over the data set the shell has uploaded, then the library's."""
    with_service, without = blocks("python")
    printed = run_python(with_service, server, project).splitlines()
    assert [line.split()[0] for line in printed[:3]] == ["0.1", "0.5", "0.9"]
    assert "income" in printed[3]
    assert printed[4].startswith("budget-exceeded")
    assert "remaining" in printed[4]
    assert "age" in run_python(without, server, project)


def test_make_commands_exist() -> None:
    lines = [line for block in blocks("bash") for line in block.splitlines() if "make " in line]
    lines += re.findall(r"`(make [^`]*)`", README)
    assert START in "".join(blocks("bash"))
    for line in lines:
        for target in make_targets(line):
            # -o: the environment is not to be made, or touched, by asking
            done = subprocess.run(
                ["make", "-n", "-o", ".venv/.ready", target],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{line}: {done.stderr}"


def test_docker_commands_fit_the_files() -> None:
    lines = [
        line for block in blocks("bash") for line in block.splitlines() if line.startswith("docker")
    ]
    assert lines == [
        "docker compose up --build",
        "docker compose --profile postgres up --build release-desk-postgres",
    ]
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    assert [name for name in services if "profiles" not in services[name]] == ["release-desk"]
    for name in ("release-desk", "release-desk-postgres"):
        assert services[name]["build"] == "."
        assert services[name]["ports"] == ["127.0.0.1:8000:8000"]


def settings_table() -> str:
    """Return the rows of the settings table as the code has them."""
    rows = []
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{field.default}`"
        rows.append(f"| `{PREFIX}{name.upper()}` | {default} | {field.description} |")
    return "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *rows])


def test_the_settings_table_is_the_code_s() -> None:
    found = SETTINGS.search(README)
    assert found
    assert found[2] == settings_table(), "run: python -m tests.e2e.test_readme"


def test_the_command_line_it_names_exists() -> None:
    for text in re.findall(r"`release-desk ([a-z ]+)`", README):
        command: click.Command = main
        for word in text.split():
            assert isinstance(command, click.Group), text
            assert word in command.commands, text
            command = command.commands[word]


def test_the_mechanisms_table_is_the_catalog_s(server: LiveServer) -> None:
    section = README.split("## Mechanisms")[1].split("\n## ")[0]
    rows = [row.split("|")[1:3] for row in section.splitlines() if row.startswith("| `")]
    documented = {
        (kind, mechanism)
        for kinds, mechanism_cell in rows
        for kind in re.findall(r"`(\w+)`", kinds)
        for mechanism in re.findall(r"`(\w+)`", mechanism_cell)
    }
    offers = httpx.get(f"{server.url}/v1/catalog").json()["items"]
    assert documented == {(offer["statistic"], offer["mechanism"]) for offer in offers}


def test_the_places_it_names_are_there() -> None:
    section = README.split("## Where things are")[1].split("MIT licensed")[0]
    for name in re.findall(r"`([\w./]+)`", section):
        if "/" in name or "." in name:
            assert (ROOT / name).exists(), name


if __name__ == "__main__":
    (ROOT / "README.md").write_text(
        SETTINGS.sub(lambda found: f"{found[1]}{settings_table()}{found[3]}", README), "utf-8"
    )
