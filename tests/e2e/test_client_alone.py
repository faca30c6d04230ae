"""The client's own distribution: built from the tree, installed alone, used against a server.

It is installed with what it asks for and nothing else, from the package index that pip knows.
"""

from __future__ import annotations

import email
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.services.scripts import client_packages
from tests.e2e.live import ADMIN_KEY, LiveServer, upload

ROOT = Path(__file__).parent.parent.parent
CLIENT = ROOT / "clients" / "python"


def project(place: Path) -> dict[str, Any]:
    return dict(tomllib.loads((place / "pyproject.toml").read_text("utf-8"))["project"])


def names(needs: list[str]) -> set[str]:
    return {re.split(r"[\[><=]", need)[0] for need in needs}


def test_both_distributions_say_the_same() -> None:
    ours, whole = project(CLIENT), project(ROOT)
    for shared in ("version", "license", "requires-python"):
        assert ours[shared] == whole[shared]
    assert names(ours["dependencies"]) == {"httpx"}
    assert set(ours["dependencies"]) <= set(whole["dependencies"])


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, cwd="/", env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checkout(place: Path) -> Path:
    """Copy what the client is made of, without anything that an earlier build left."""
    made = shutil.ignore_patterns("build", "release_desk_client*", "LICENSE", "__pycache__")
    for name in ("LICENSE", "app/py.typed", "app/client", "app/tidy", "clients/python"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=made)
        else:
            shutil.copy2(ROOT / name, place / name)
    return place / "clients" / "python"


def built(folder: Path, kind: str, to: Path) -> subprocess.CompletedProcess[str]:
    """Build a `wheel` or an `sdist` as pip does without isolation, in its own process."""
    to.mkdir(exist_ok=True)
    program = f"from setuptools import build_meta as b; b.build_{kind}({str(to)!r})"
    command = (sys.executable, "-c", program)
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


def modules(wheel: Path) -> set[str]:
    """Return the files of the wheel's package, by their paths in it."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {Path(name) for name in archive.namelist()}
    ours = {path for path in inside if path.parts[0] == "release_desk_client"}
    return {path.relative_to("release_desk_client").as_posix() for path in ours}


def contents(wheel: bytes) -> dict[str, object]:
    """Return what a wheel installs; of what it says of itself, the fields in any order."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        found: dict[str, object] = {name: archive.read(name) for name in archive.namelist()}
    (about,) = {name.split("/")[0] for name in found if ".dist-info/" in name}
    metadata = email.message_from_bytes(found.pop(f"{about}/METADATA"))  # type: ignore[arg-type]
    found["fields"] = sorted(
        (name, re.sub(r"\s+", "", text))
        for name, text in metadata.items()
        if name not in ("Dynamic", "Metadata-Version")
    )
    found["readme"] = str(metadata.get_payload()).strip()
    for name in ("RECORD", "WHEEL", "top_level.txt"):
        found.pop(f"{about}/{name}", None)
    return found


def sources(folder: str, *, within: str) -> set[str]:
    """Return the paths of a package's modules, from the folder of another on."""
    found = (ROOT / "app" / folder).rglob("*.py")
    return {path.relative_to(ROOT / "app" / within).as_posix() for path in found}


SOURCES = sources("client", within="client") | sources("tidy", within="") | {"py.typed"}


def test_every_way_of_building_it_has_all_modules(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    for _ in range(2):  # once more over what the first build left
        done = built(folder, "wheel", tmp_path / "wheel")
        assert done.returncode == 0, done.stderr
        (wheel,) = (tmp_path / "wheel").iterdir()
        assert modules(wheel) == SOURCES
    assert contents(wheel.read_bytes()) == contents(client_packages()["python"].content)
    done = built(folder, "sdist", tmp_path / "sdist")
    assert done.returncode == 0, done.stderr
    (archive,) = (tmp_path / "sdist").iterdir()
    with tarfile.open(archive) as packed:
        for each in filter(tarfile.TarInfo.isfile, packed.getmembers()):
            (tmp_path / each.name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / each.name).write_bytes(packed.extractfile(each).read())  # type: ignore
    (unpacked,) = tmp_path.glob("release_desk_client-*")
    done = built(unpacked, "wheel", tmp_path / "second")
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "second").iterdir()
    assert modules(wheel) == SOURCES


def test_the_folder_alone_is_refused_rather_than_installed_empty(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout").rename(tmp_path / "alone")
    done = built(folder, "wheel", tmp_path / "wheel")
    assert done.returncode != 0
    assert "pip install ./clients/python" in done.stderr
    assert not [*(tmp_path / "wheel").iterdir()]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with the client's wheel and what it needs."""
    place = tmp_path_factory.mktemp("alone")
    checkout(place)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(*pip, *build, "--wheel-dir", place, place / "clients" / "python")
    (wheel,) = place.glob("*.whl")
    assert wheel.name.startswith("release_desk_client-")
    run(sys.executable, "-m", "venv", "--without-pip", place / "environment")
    found = place / "environment" / "bin" / "python"
    installed = subprocess.run(
        [*pip, "--python", found, "install", "--quiet", wheel],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    return found


SCRIPT = """
import asyncio, json, os
from release_desk_client import AsyncDesk, MissingPackageError, ReleaseDesk

url, key, name = os.environ["DESK"], os.environ["KEY"], os.environ["NAME"]
with ReleaseDesk(url, key) as desk:
    ages = desk.dataset(name)
    first, second = (ages.mean("age", epsilon=0.5, by=["sex"]) for _ in range(2))
    preview = ages.preview("mean", columns=["age"], epsilon="0.5")
    try:
        first.to_frame()
    except MissingPackageError as missing:
        sentence = str(missing)

async def again():
    async with AsyncDesk(url, key) as desk:
        ages = await desk.dataset(name)
        return (await ages.mean("age", epsilon=0.5, by=["sex"])).id

print(json.dumps({
    "ids": [first.id, second.id, asyncio.run(again())],
    "rows": first.rows(),
    "html": first._repr_html_() + preview._repr_html_() + ages._repr_html_(),
    "sentence": sentence,
}))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("served") / "data") as live:
        yield live


@pytest.mark.slow
def test_the_client_is_installed_and_used_alone(python: Path, server: LiveServer) -> None:
    with httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {ADMIN_KEY}"}, timeout=30
    ) as client:
        columns = {
            "age": {"type": "number", "lower": 0, "upper": 100},
            "sex": {"type": "category", "values": ["f", "m"]},
        }
        dataset = upload(client, "age,sex\n" + "31,f\n45,m\n" * 50, columns)
    where = {"DESK": server.url, "KEY": ADMIN_KEY, "NAME": dataset["name"]}
    reported = json.loads(run(python, "-c", SCRIPT, **where))
    assert len(set(reported["ids"])) == 1
    assert [(row["sex"], row["term"]) for row in reported["rows"]] == [("f", "age"), ("m", "age")]
    assert "<script" not in reported["html"]
    assert "pip install pandas" in reported["sentence"]


@pytest.mark.slow
def test_nothing_of_the_service_is_installed_with_it(python: Path) -> None:
    listed = run(sys.executable, "-m", "pip", "--python", python, "list", "--format", "json")
    found = {each["name"].lower().replace("_", "-") for each in json.loads(listed)}
    assert {"release-desk-client", "httpx"} <= found
    service = names(project(ROOT)["dependencies"]) - {"httpx", "anyio"}  # httpx needs anyio
    assert found.isdisjoint({*service, "release-desk", "pydantic-core"})
    typed = (
        "from importlib.resources import files; print(files('release_desk_client') / 'py.typed')"
    )
    assert Path(run(python, "-c", typed).strip()).is_file()
    missing = run(python, "-c", "import importlib.util as u; print(u.find_spec('app'))")
    assert missing.strip() == "None", "nothing is in the way of an analyst's own app"
