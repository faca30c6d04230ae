"""What the command line says when something is wrong, read as an operator reads it."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from app.cli.refusals import unknown_settings
from app.client import ProblemError, ReleaseDesk
from app.domain.problems import PROBLEMS
from app.places import open_store
from app.settings import Settings
from tests.e2e.commands import program
from tests.tiers import in_one

REFUSED = 1


STARTED = (sys.executable, "-m", "app.cli")


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> tuple[str]:
    """Return a program that does what the command does, without loading it again."""
    made = tmp_path_factory.mktemp("bin") / "release-desk"
    made.write_text(program())
    made.chmod(0o755)
    return (str(made),)


def command(
    *words: str, data_dir: Path, by: Sequence[str] = STARTED, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, over a data directory."""
    return subprocess.run(
        [*by, *words],
        env={**os.environ, "RELEASE_DESK_DATA_DIR": str(data_dir), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Check that a command refused in one line that holds these parts, before anything was made."""
    assert done.returncode == REFUSED, done.stdout + done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert "first admin key" not in done.stdout


@pytest.fixture
def taken() -> Iterator[int]:
    """Return a port that somebody listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield int(other.getsockname()[1])


def test_a_port_in_use(tmp_path: Path, taken: int, forked: tuple[str]) -> None:
    done = command("serve", "--port", str(taken), by=forked, data_dir=tmp_path / "data")
    assert_one_sentence(done, f"port {taken} of 127.0.0.1 is in use", "--port")
    assert not (tmp_path / "data").exists(), "nothing is made"
    shown = command("demo", "--once", "--port", str(taken), by=forked, data_dir=tmp_path / "data")
    assert_one_sentence(shown, f"port {taken} of 127.0.0.1 is in use")


def test_an_address_that_is_not_of_this_machine(tmp_path: Path) -> None:
    done = command("serve", "--host", "192.0.2.1", data_dir=tmp_path / "data")
    assert_one_sentence(done, "192.0.2.1", "--host")


def test_a_directory_that_cannot_be_written_to(tmp_path: Path, forked: tuple[str]) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "data"):
        done = command("serve", "--port", "0", by=forked, data_dir=place)
        assert_one_sentence(done, str(place), "is a file", "RELEASE_DESK_DATA_DIR")
    done = command("serve", "--port", "0", by=forked, data_dir=Path("/proc/release-desk"))
    assert_one_sentence(done, "/proc/release-desk", "cannot be written to")


def test_the_anchor_s_directory_is_looked_at_too(tmp_path: Path, forked: tuple[str]) -> None:
    (tmp_path / "file").touch()
    anchor = {"RELEASE_DESK_ANCHOR_DIR": str(tmp_path / "file")}
    done = command("serve", "--port", "0", by=forked, data_dir=tmp_path / "data", **anchor)
    assert_one_sentence(done, "the anchor's directory", "RELEASE_DESK_ANCHOR_DIR")


def test_the_demo_s_own_directory(tmp_path: Path, forked: tuple[str]) -> None:
    (tmp_path / "file").touch()
    place = str(tmp_path / "file" / "demo")
    done = command("demo", "--once", "--data-dir", place, by=forked, data_dir=tmp_path)
    assert_one_sentence(done, place, "--data-dir")


def test_a_full_disk(tmp_path: Path) -> None:
    """A process that may not write a long file meets what a full disk answers."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        done = command("serve", "--port", "0", data_dir=tmp_path / "data")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert_one_sentence(done, "there is no room left", str(tmp_path / "data"))
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    "words", [("serve", "--port", "0"), ("migrate",), ("worker",)], ids=" ".join
)
def test_a_misspelt_setting_is_named_with_the_real_one(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = command(*words, data_dir=tmp_path / "data", RELEASE_DESK_ANCHR_DIR="secret")
    assert_one_sentence(done, "RELEASE_DESK_ANCHR_DIR", "is it RELEASE_DESK_ANCHOR_DIR?")
    assert "secret" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_name_that_is_like_no_setting_is_mentioned(tmp_path: Path, forked: tuple[str]) -> None:
    open_store(Settings(data_dir=tmp_path / "data")).close()
    done = command("migrate", by=forked, data_dir=tmp_path / "data", RELEASE_DESK_QX="1")
    assert done.returncode == 0
    assert done.stderr == "RELEASE_DESK_QX is not a setting, and is not read\n"


@in_one("name", sorted(Settings.model_fields))
def test_every_setting_is_known_and_a_slip_in_it_is_caught(name: str) -> None:
    real = f"RELEASE_DESK_{name.upper()}"
    assert unknown_settings([real, f"{real}_FILE"]) == {}
    slip = real[:-3] + real[-2:]
    assert unknown_settings([slip]) == {slip: real}


def test_what_others_set_is_left_alone() -> None:
    theirs = ["HOME", "RELEASE_DESK_URL", "RELEASE_DESK_KEY", "RELEASE_DESK_SERVICE_HOST"]
    theirs += ["RELEASE_DESK_PORT", "RELEASE_DESK_PORT_8000_TCP_ADDR"]
    assert unknown_settings(theirs) == {}


def _refusing(code: str, monkeypatch: pytest.MonkeyPatch, **extras: object) -> str:
    """Return what a command prints of a refusal."""
    kind = PROBLEMS[code]
    body = {"code": code, "detail": "So it is.", "remedy": kind.remedy, **extras}

    def refused(self: ReleaseDesk, *_: object, **__: object) -> None:
        raise ProblemError.from_response(httpx.Response(kind.status, json=body))

    monkeypatch.setattr(ReleaseDesk, "datasets", refused)
    done = CliRunner().invoke(main, ["datasets", "list"])
    assert done.exit_code == REFUSED
    return done.stderr


def test_a_refusal_comes_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    said = _refusing("forbidden", monkeypatch)
    assert said == "refused: 403 forbidden: So it is.\nAsk a curator or an admin.\n"


def test_faults_are_listed_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [{"field": "epsilon", "message": "is required"}, {"field": "norm", "message": "is no"}]
    said = _refusing("invalid-request", monkeypatch, errors=errors)
    assert said.splitlines()[1:3] == ["  epsilon: is required", "  norm: is no"]
    rows = [
        {
            "reason": "is missing", "count": 1203, "rows": [3, 4],
            "columns": [{"column": "age", "count": 1202, "rows": [3, 4]},
                        {"column": "sex", "count": 1, "rows": [9]}],
        },
        {"reason": "has no header", "count": 1, "rows": [], "columns": [], "file": 2},
    ]  # fmt: skip
    said = _refusing("invalid-upload", monkeypatch, problems=rows)
    assert said.splitlines()[1:3] == [
        "  column age, rows 3, 4 and 1,200 more; column sex, row 9: is missing",
        "  file 2, the file: has no header",
    ]


def test_the_client_s_error_says_what_to_do() -> None:
    body = {"code": "forbidden", "detail": "So it is.", "remedy": "Ask an admin."}
    problem = ProblemError.from_response(httpx.Response(403, json=body))
    assert str(problem) == "403 forbidden: So it is. Ask an admin."
    assert (problem.remedy, problem.extras) == ("Ask an admin.", {})


@pytest.mark.parametrize(
    ("url", "tried"),
    [("127.0.0.1:8000", "http://127.0.0.1:8000"), ("desk.example.org", "https://desk.example.org")],
)
def test_an_address_without_a_scheme_is_named_with_one_that_works(url: str, tried: str) -> None:
    done = CliRunner().invoke(main, ["datasets", "list", "--url", url, "--key", "k"])
    assert done.exit_code == 2
    assert f"Try {tried}." in done.output
    assert "RELEASE_DESK_URL" in done.output


def test_who_has_no_key_is_pointed_to_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELEASE_DESK_KEY", raising=False)

    def refused(*_: object, **__: object) -> None:
        body = {"code": "unauthorized", "detail": "no key", "remedy": "a remedy"}
        raise ProblemError(status=401, body=body)

    monkeypatch.setattr(ReleaseDesk, "datasets", refused)
    done = CliRunner().invoke(main, ["datasets", "list"])
    assert done.exit_code == REFUSED
    assert "Set RELEASE_DESK_KEY to your API key, or give it with --key." in done.output
    with_key = CliRunner().invoke(main, ["datasets", "list", "--key", "wrong"])
    assert "RELEASE_DESK_KEY" not in with_key.output
    assert "a remedy" in with_key.output
