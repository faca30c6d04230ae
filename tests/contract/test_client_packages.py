"""The clients' packages: served without a key, immutable by digest, and what scripts install."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.services.scripts import client_packages
from tests.contract.service import MEAN, Service, ask
from tests.tiers import in_one

ROOT = Path(__file__).parent.parent.parent
TEXTS = (
    "*.md",
    "*.py",
    "*.R",
    "*.Rd",
    "*.html",
    "*.js",
    "*.yaml",
    "*.yml",
    "Dockerfile",
    "Makefile",
)


@pytest.fixture(scope="module")
def served(anonymous: httpx.Client) -> dict[str, Any]:
    answer = anonymous.get("/client", headers={"Accept": "application/json"})
    assert answer.status_code == 200
    return {each["language"]: each for each in answer.json()["packages"]}


@pytest.mark.parametrize("language", ["python", "r"])
def test_a_package_is_immutable_by_its_digest(
    anonymous: httpx.Client, served: dict[str, Any], language: str
) -> None:
    found = served[language]
    answer = anonymous.get(found["address"])
    assert hashlib.sha256(answer.content).hexdigest() == found["sha256"]
    assert len(answer.content) == found["bytes"]
    assert "immutable" in answer.headers["cache-control"]
    assert "set-cookie" not in answer.headers
    again = anonymous.get(found["address"], headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert anonymous.get(f"/client/{found['name']}").content == answer.content
    assert "immutable" not in anonymous.get(f"/client/{found['name']}").headers["cache-control"]
    for wrong in (
        found["address"].replace(found["sha256"], "0" * 64),
        found["address"].replace(found["name"], "other-0.1.0.tar.gz"),
        f"/client/..%2f{found['name']}",
    ):
        assert anonymous.get(wrong).status_code == 404


def test_the_page_shows_the_same_commands(anonymous: httpx.Client, served: dict[str, Any]) -> None:
    page = anonymous.get("/client", headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    for found in served.values():
        assert found["sha256"] in page.text
        assert page.text.count(found["name"]) >= 3
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_each_package_is_a_function_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1e9)
    first = dict(client_packages())
    client_packages.cache_clear()
    assert client_packages() == first
    with tarfile.open(fileobj=io.BytesIO(client_packages()["r"].content)) as archive:
        assert {(each.mtime, each.uid, each.gid, each.mode) for each in archive} == {
            (0, 0, 0, 0o644)
        }
        packed = {each.name for each in archive}
    folder = ROOT / "clients" / "r"
    assert packed == {
        f"releasedesk/{path.relative_to(folder).as_posix()}"
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] in
        ("DESCRIPTION", "LICENSE", "NAMESPACE", "R", "man")
    }  # fmt: skip


def test_the_record_of_the_wheel_is_right() -> None:
    with zipfile.ZipFile(io.BytesIO(client_packages()["python"].content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (record,) = (name for name in files if name.endswith("/RECORD"))
    lines = [line.split(",") for line in files[record].decode().splitlines()]
    assert [name for name, _, _ in lines] == list(files)
    for name, digest, size in lines[:-1]:
        said = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode()
        assert (digest, size) == (f"sha256={said.rstrip('=')}", str(len(files[name])))
    assert lines[-1] == [record, "", ""]
    assert (
        files["release_desk_client-0.1.0.dist-info/licenses/LICENSE"]
        == (ROOT / "LICENSE").read_bytes()
    )


def test_pip_installs_what_a_script_names(
    curator: httpx.Client, dataset: str, service: Service, tmp_path: Path
) -> None:
    release = ask(curator, dataset).json()["id"]
    script = curator.get(f"/v1/releases/{release}/script").text
    address = re.search(r"# Needs: pip install '([^']+)'", script)[1]  # type: ignore[index]
    assert address.startswith(service.url)
    assert address.endswith(f"#sha256={client_packages()['python'].digest}")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    into = (*pip, "--no-index", "--no-deps", "--no-cache-dir", "--target", str(tmp_path / "here"))
    done = subprocess.run((*into, address), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    program = "import release_desk_client as client; print(client.__file__)"
    seen = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/",
        env={"PYTHONPATH": str(tmp_path / "here")},
    )  # fmt: skip
    assert str(tmp_path) in seen.stdout


def test_every_script_installs_from_this_service(
    curator: httpx.Client, dataset: str, served: dict[str, Any]
) -> None:
    release = ask(curator, dataset).json()["id"]
    for language in ("python", "r", "notebook"):
        asked = {"language": language}
        of_release = curator.get(f"/v1/releases/{release}/script", params=asked).text
        body = json.dumps({"statistic": MEAN, "epsilon": "1"})
        kind = {"Content-Type": "application/json"}
        of_question = curator.post(
            f"/v1/datasets/{dataset}/scripts", params=asked, content=body, headers=kind
        ).text
        commands = served["r" if language == "r" else "python"]["install"]
        for text in (of_release, of_question):
            words = (
                "\n".join(json.loads(text)["cells"][0]["source"])
                if language == "notebook"
                else text
            )
            assert all(command in words for command in commands)


def installs(text: str) -> list[str]:
    """Return each name that a text would have pip or R look up in an index."""
    found = []
    for command in re.findall(r"\bpip3? install\b([^`\n;)]*)", text):
        for word in command.split():
            name = re.split(r"[\[<>=~!]", word.strip("'\".,"))[0]
            if not re.search(r"^-|[/$*{]|\.(txt|lock)$|^\\\\?$", name):
                found.append(name)
            if re.search(r"[.'\"]$", word) and not word.startswith(("'", '"')):
                break
    for call in re.findall(r"install\.packages\((c\([^)]*\)|[^)\n]*)", text):
        found += [name for name in re.findall(r"\"([^\"\n]+)\"", call) if "/" not in name]
    return [name for name in found if name and name != "source" and "{" not in name]


@in_one(
    ("text", "names"),
    [
        ("# Needs: pip install release-desk-client", ["release-desk-client"]),
        ("Needs `pip install release-desk-client`.", ["release-desk-client"]),
        ("install 'it': pip install 'release-desk[files]'\"", ["release-desk"]),
        ("pip install --no-deps dist/release_desk-*.whl", []),
        ("pip install 'https://desk.example.org/client/x.whl#sha256=1'", []),
        ("needs pandas: pip install pandas. Without it, rows()", ["pandas"]),
        ('install.packages(c("httr2", "releasedesk"))', ["httr2", "releasedesk"]),
        ('install.packages("https://x/y.tar.gz", repos = NULL, type = "source")', []),
    ],
)
def test_names_to_install_are_found(text: str, names: list[str]) -> None:
    assert installs(text) == names


def test_no_text_installs_a_name_that_we_do_not_know() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    known = {*re.findall(r"^([a-z0-9._-]+)==", lock, re.MULTILINE), "pandas", "uv"}
    described = (ROOT / "clients" / "r" / "DESCRIPTION").read_text("utf-8")
    known |= set(re.findall(r"[A-Za-z][A-Za-z0-9.]+", described.partition("Imports:")[2]))
    known -= {"releasedesk", "release-desk", "release-desk-client"}
    folders = ("app", "clients", "deploy", "docs", "mechanisms", "migrations", "studies")
    paths = [path for kind in TEXTS for folder in folders for path in (ROOT / folder).rglob(kind)]
    paths += [path for kind in TEXTS for path in ROOT.glob(kind)]
    paths += [ROOT / "pyproject.toml", ROOT / "clients" / "python" / "pyproject.toml"]
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in paths
        for name in installs(path.read_text("utf-8"))
    }
    assert found, "nothing was read"
    assert {each for each in found if each[1].lower() not in known} == set()
