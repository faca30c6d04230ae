"""The image, built and run: by its user, on a read-only root, and not larger than it need be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.deploy.building import Builder, Entered, NotBuiltHereError, files_of, missing
from tests.deploy.recipes import image
from tests.e2e.live import free_port, release_mean, upload

MOST_BYTES = 550_000_000
# Debian's packages and those of the lock are fetched, and the demo is run.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

LOADED = """
import ctypes, importlib, json, pathlib, pkgutil, app
place = pathlib.Path(app.__file__).parent.parent
libraries = sorted(place.rglob("*.so*"))
for library in libraries:
    ctypes.CDLL(str(library))
names, lacking = [], {}
for top in ("app", "mechanisms"):
    package = importlib.import_module(top)
    names += [each.name for each in pkgutil.walk_packages(package.__path__, f"{top}.")]
for name in names:
    if not name.endswith("__main__"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            lacking[name] = error.name.partition(".")[0]
from babel import Locale
from app.web.languages import LANGUAGES
for each in LANGUAGES:
    Locale.parse(each)
print(json.dumps([len(libraries), len(names), lacking]))
"""
EXTRA = {"app.api.traces": "opentelemetry"}
"""What needs a package that only a build with `EXTRAS` has."""


@dataclass(frozen=True)
class Built:
    """The image's root, and what the image says of itself."""

    root: Path
    said: Any


@pytest.fixture(scope="module")
def built() -> Iterator[Built]:
    home = Path(tempfile.mkdtemp(prefix="release-desk-built-"))
    home.chmod(0o755)
    builder = Builder(home)
    lacking = missing(home)
    try:
        if lacking is not None:
            pytest.skip(f"NOT RUN: the image is neither built nor run: {lacking}")
        try:
            said = builder.build()
        except NotBuiltHereError as error:
            pytest.skip(f"NOT RUN: the image is neither built nor run: {error}")
        yield Built(builder.mounted(), said)
    finally:
        builder.remove()


@pytest.fixture
def entered(built: Built) -> Iterator[Entered]:
    """Enter the image with fresh volumes, which the image's user owns as they were made for it."""
    with tempfile.TemporaryDirectory(prefix="release-desk-volumes-") as volumes:
        Path(volumes).chmod(0o755)
        for place in built.said["Volumes"]:
            volume = Path(volumes) / place.lstrip("/")
            volume.mkdir(mode=0o700)
            owner = (built.root / place.lstrip("/")).stat()
            os.chown(volume, owner.st_uid, owner.st_gid)
        yield Entered(built.root, Path(volumes), built.said["User"], built.said["Env"])


def test_the_image_says_what_its_recipe_says(built: Built) -> None:
    recipe = image()
    assert built.said["User"] == recipe.user
    assert built.said["Entrypoint"] == recipe.entrypoint
    assert built.said["Cmd"] == recipe.command
    assert built.said["Volumes"].keys() == set(recipe.volumes)
    assert built.said["Healthcheck"]["Test"] == ["CMD", *recipe.health]
    reported = dict(each.split("=", 1) for each in built.said["Env"])
    assert reported == recipe.environment, "nothing of the build's environment has come along"


def test_the_image_is_small_and_holds_what_runs(built: Built) -> None:
    sizes = {each.lstat().st_ino: each.lstat().st_size for each in files_of(built.root)}
    assert sum(sizes.values()) < MOST_BYTES, f"{sum(sizes.values()):,} bytes"
    own = built.root / "opt" / "release-desk"
    (packages,) = own.glob("lib/python*/site-packages")
    assert not list(packages.glob("pip*")), "who could install something, later?"
    assert not [path for path in packages.rglob("tests") if path.is_dir()]
    assert list(packages.glob("app/__pycache__/main.*.pyc")), "none can be written later"
    for place in ("usr/share/doc", "usr/share/man", "var/lib/apt/lists", "var/cache"):
        assert not [*files_of(built.root / place)], place


def test_every_library_and_every_module_loads(entered: Entered) -> None:
    done = entered.run("python", "-c", LOADED)
    assert done.returncode == 0, done.stderr[-2000:]
    libraries, modules, lacking = json.loads(done.stdout)
    assert libraries > 100
    assert modules > 300
    assert lacking == EXTRA


def test_nothing_but_the_volumes_can_be_written(entered: Entered) -> None:
    places = ["/", "/etc", "/opt/release-desk", "/opt/release-desk/bin", "/usr/lib", "/var/tmp"]
    for place in places:
        assert entered.run("touch", f"{place}/written").returncode != 0, place
    for place in ("/data", "/anchor", "/tmp"):
        assert entered.run("touch", f"{place}/written").returncode == 0, place
    assert entered.run("id", "-u").stdout == f"{entered.user.partition(':')[0]}\n"
    granted = entered.run("cat", "/proc/self/status").stdout
    assert re.search(r"^CapEff:\s*0+$", granted, re.MULTILINE)


def test_it_serves_a_release_and_stops(entered: Entered, tmp_path: Path) -> None:
    recipe, port = image(), free_port()

    def here(command: list[str]) -> list[str]:
        at = str(recipe.ports[0]), str(port)
        return [part.replace("0.0.0.0", "127.0.0.1").replace(*at) for part in command]

    key = "a-first-key-of-more-than-32-characters"
    secret = entered.volumes / "data" / "key"
    secret.write_text(key)
    secret.chmod(0o644)
    start = here([*recipe.entrypoint, *recipe.command])
    with (tmp_path / "log").open("wb") as log:
        desk = subprocess.Popen(
            entered.command("RELEASE_DESK_BOOTSTRAP_KEY_FILE=/data/key", *start),
            stdout=log,
            stderr=log,
        )
    try:
        await_health(
            f"http://127.0.0.1:{port}", entered, here(recipe.health), desk, tmp_path / "log"
        )
        everybody = [desk.pid, *(each.pid for each in psutil.Process(desk.pid).children(True))]
        assert {psutil.Process(pid).uids().real for pid in everybody} == {10_001}
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
        ) as client:
            columns = {"age": {"type": "number", "lower": 0, "upper": 100}}
            dataset = upload(client, "age\n31\n45\n", columns)["id"]
            answer = release_mean(client, dataset, column="age", epsilon="1", key="in-the-image")
            assert answer.status_code == 201, answer.text
            assert "<h1>Quickstart</h1>" in client.get("/docs/quickstart").text
            assert client.get("/desk", follow_redirects=True).status_code == 200
    finally:
        desk.terminate()
        code = desk.wait(60)
    assert code == 0, (tmp_path / "log").read_text(errors="replace")[-2000:]
    assert (entered.volumes / "data" / "release-desk.db").is_file()
    assert list((entered.volumes / "anchor").iterdir())


def await_health(
    url: str, entered: Entered, health: list[str], desk: subprocess.Popen[bytes], log: Path
) -> None:
    """Wait until the image's own check of its health passes; it is tried when something answers."""
    deadline = time.monotonic() + 120
    while not answers(url) or entered.run(*health).returncode != 0:
        assert desk.poll() is None, log.read_text(errors="replace")[-2000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.2)


def answers(url: str) -> bool:
    """Return whether the service is ready, without starting a Python in the image to ask."""
    try:
        return httpx.get(f"{url}/readyz", timeout=4, verify=False).status_code == 200
    except httpx.TransportError:
        return False
