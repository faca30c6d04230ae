"""The container's steps without a container engine.

The wheel is built from what ``.dockerignore`` lets through, installed into an
empty environment, and run by another user on a tree no one may write to, with
the data directory alone writable. Dependencies are the test environment's own:
the hashes they are pinned by were checked when it was made.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import site
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deploy.recipes import ROOT, image, let_through
from tests.e2e.live import ADMIN_KEY, free_port, release_mean, upload

OTHER_USER = 65534

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True)
class Installed:
    """A wheel in an environment below ``root``, read-only but for nothing."""

    root: Path
    wheel: Path
    bin: Path


def interpreter() -> Path:
    """Return a Python of this version that any user may run, else the one of the tests."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    here = Path(sys.executable).resolve()
    for candidate in (
        here,
        Path(f"/usr/bin/python{version}"),
        Path(f"/usr/local/bin/python{version}"),
    ):
        if os.geteuid() != 0 or may_run(candidate):
            return candidate
    return here


def may_run(command: Path) -> bool:
    try:
        subprocess.run([command, "-c", ""], **as_user(OTHER_USER), check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def as_user(user: int | None) -> dict[str, Any]:
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def link(source: str, target: str) -> None:
    """Share a file with the tree, or copy it from another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    # Not below pytest's own directory, which no other user may enter.
    root = Path(tempfile.mkdtemp(prefix="release-desk-image-"))
    root.chmod(0o755)
    source, environment = root / "src", root / "opt"
    source.mkdir()
    for name in let_through():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, source / name)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(*pip, *build, "--wheel-dir", root / "dist", source)
    (wheel,) = (root / "dist").glob("*.whl")
    run(interpreter(), "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    into = ("--python", python, "install", "--quiet", "--no-deps", "--no-index", "--compile")
    run(*pip, *into, wheel)
    (own,) = environment.glob("lib/python*/site-packages")
    # Below the tree too, so that whoever may read the tree may read them. The editable install of
    # the tests' environment is not seen: such hooks are read in site directories only.
    (own / "dependencies.pth").write_text(f"{root / 'dependencies'}\n")
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222 | 0o444)
    # After that loop: linked files share their mode with the originals.
    shutil.copytree(site.getsitepackages()[0], root / "dependencies", copy_function=link)
    yield Installed(root, wheel, environment / "bin")
    for path in (root, *root.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(root)


class Served:
    """``release-desk serve`` of the installed wheel, as a user, over one data directory."""

    def __init__(self, installed: Installed, data: Path, user: int | None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = data.parent / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    installed.bin / "release-desk",
                    *("serve", "--host", "127.0.0.1", "--port", str(self.port)),
                ],
                cwd="/",
                env={
                    "PATH": f"{installed.bin}:/usr/bin:/bin",
                    "RELEASE_DESK_DATA_DIR": str(data),
                    "RELEASE_DESK_BOOTSTRAP_KEY": ADMIN_KEY,
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                stdout=log,
                stderr=log,
                **as_user(user),
            )
        self._await_ready()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5, verify=False).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        self.process.kill()
        raise AssertionError(self.log.read_text(errors="replace")[-3000:])

    def stop(self, sign: signal.Signals) -> int:
        self.process.send_signal(sign)
        return self.process.wait(30)


@pytest.fixture
def data() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="release-desk-volume-"))
    place.chmod(0o755)
    volume = place / "data"
    volume.mkdir(mode=0o700)
    yield volume
    shutil.rmtree(place)


def becomes_another() -> bool:
    """Return whether another user may run a Python of this version here."""
    return os.geteuid() == 0 and may_run(interpreter())


def exercise(installed: Installed, data: Path, user: int | None, *, once: bool) -> None:
    """Serve, upload, release, stop; and what is tried once: the health check, a second server."""
    served = Served(installed, data, user)
    try:
        with httpx.Client(
            base_url=served.url, headers={"Authorization": f"Bearer {ADMIN_KEY}"}, timeout=30
        ) as client:
            columns = {"age": {"type": "number", "lower": 0, "upper": 100}}
            dataset = upload(client, "age\n31\n45\n", columns)["id"]
            answer = release_mean(client, dataset, column="age", epsilon="1", key="packaged")
            assert answer.status_code == 201
            assert "<h1>Quickstart</h1>" in client.get("/docs/quickstart").text
            page = client.get("/desk", follow_redirects=True)
            assert page.status_code == 200
            shown = set(re.findall(r'(?:href|src)="(/desk/static/[^"]+)"', page.text))
            assert {address.rpartition(".")[2] for address in shown} >= {"css", "svg"}
            assert {client.get(address).status_code for address in shown} == {200}
        if once:
            assert health(served.port).returncode == 0
            assert_refused_next_to(installed, data)
    finally:
        code = served.stop(signal.SIGTERM)
    assert code == 0
    assert not once or health(served.port).returncode != 0
    assert (data / "release-desk.db").is_file()


def assert_refused_next_to(installed: Installed, data: Path) -> None:
    """A second server over the same data is refused in a sentence."""
    second = subprocess.run(
        [installed.bin / "release-desk", "serve", "--port", str(free_port())],
        env={"RELEASE_DESK_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert second.returncode == 1
    assert "another Release Desk server" in second.stderr
    assert "Traceback" not in second.stderr


def health(port: int) -> subprocess.CompletedProcess[str]:
    """Run the image's HEALTHCHECK against a port of this machine."""
    command = [part.replace(":8000", f":{port}") for part in image().health]
    assert command[0] == "python"
    return subprocess.run(
        [sys.executable, *command[1:]], capture_output=True, text=True, check=False
    )


def test_the_wheel_holds_what_runs_and_nothing_else(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = wheel.namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"app", "clients", "docs", "mechanisms", "migrations"}
    assert {f"clients/{each}" for each in ("python/pyproject.toml", "r/DESCRIPTION")} <= set(names)
    sources = {
        str(path.relative_to(ROOT))
        for top in tops - {"clients"}  # whose own tests are not installed
        for path in (ROOT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sources - set(names) == set(), "package data that the wheel leaves out"
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_every_template_sheet_and_picture_is_installed(installed: Installed) -> None:
    (own,) = installed.root.glob("opt/lib/python*/site-packages")
    others = [  # a compiled file has another name while it is written
        path
        for path in (ROOT / "app").rglob("*")
        if path.is_file() and path.suffix != ".py" and path.parent.name != "__pycache__"
    ]
    for path in others:
        assert (own / path.relative_to(ROOT)).read_bytes() == path.read_bytes()
    assert {path.suffix for path in others} >= {".css", ".html", ".js", ".svg", ".typed"}


def test_the_command_is_installed(installed: Installed) -> None:
    assert "release-desk, version" in run(installed.bin / "release-desk", "--version")


def test_another_user_on_a_read_only_tree(installed: Installed, data: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT RUN: becoming another user takes root; the next test runs as this one")
    if not becomes_another():
        pytest.skip("NOT RUN: no Python of this version that another user may run")
    os.chown(data, OTHER_USER, OTHER_USER)
    touch = ["touch", installed.root / "opt" / "written"]
    refused = subprocess.run(touch, **as_user(OTHER_USER), capture_output=True, check=False)
    assert refused.returncode != 0, "the tree is meant to be read-only for this user"
    exercise(installed, data, OTHER_USER, once=True)
    owners = {path.stat().st_uid for path in data.rglob("*")}
    assert owners == {OTHER_USER}


def test_the_tree_is_left_as_it_was(installed: Installed, data: Path) -> None:
    def listing() -> dict[Path, int]:
        return {path: path.lstat().st_mtime_ns for path in installed.root.rglob("*")}

    before = listing()
    exercise(installed, data, None, once=not becomes_another())
    assert listing() == before
