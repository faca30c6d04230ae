"""Where the anchor of an SQLite ledger is: what is told of it, and what finds it there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr

from app.cli import main
from app.client import ReleaseDesk
from app.places import open_store, shares_device
from app.settings import Settings
from app.store.anchor.file import LOG_NAME
from tests.contract.service import ADMIN_KEY, ask, running, upload

CURRENT = "matches"
OUTSIDE, INSIDE = "directory", "inside the data directory"
MISSING = "there is no anchor for it"


def unchanged(tmp_path: Path) -> None:
    pass


def only_inside(tmp_path: Path) -> None:
    """As where the directory above cannot be written to."""
    (tmp_path / "data" / "anchor").mkdir(parents=True)


def linked(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data" / "kept")


def linked_data(tmp_path: Path) -> None:
    """The directory's own name is the link, and what is next to its target is outside."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")


PLACES = [
    pytest.param(unchanged, None, ("data-anchor", OUTSIDE), id="beside"),
    pytest.param(only_inside, None, ("data/anchor", INSIDE), id="inside"),
    pytest.param(unchanged, "elsewhere/deep", ("elsewhere/deep", OUTSIDE), id="named"),
    pytest.param(unchanged, "data-too", ("data-too", OUTSIDE), id="named alike"),
    pytest.param(unchanged, "data/deep/anchor", ("data/deep/anchor", INSIDE), id="named inside"),
    pytest.param(unchanged, "data", ("data", INSIDE), id="named itself"),
    pytest.param(unchanged, "x/../data/anchor", ("data/anchor", INSIDE), id="named in a detour"),
    pytest.param(linked, "link", ("data/kept", INSIDE), id="a link inside"),
    pytest.param(linked_data, "disk/anchor", ("disk/anchor", INSIDE), id="inside a link's target"),
]


@pytest.mark.parametrize(("prepare", "named", "expected"), PLACES)
def test_the_anchor_is_where_the_settings_say_and_readyz_says_what_that_is(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    prepare: Callable[[Path], None],
    named: str | None,
    expected: tuple[str, str],
) -> None:
    place, told = expected
    prepare(tmp_path)
    (tmp_path / "x").mkdir()
    settings = {} if named is None else {"anchor_dir": tmp_path / named}
    with running(tmp_path / "data", **settings) as service, service.client() as admin:
        assert httpx.get(f"{service.url}/readyz").json() == {
            "status": "ready", "anchor": told, "anchor_shares_device": True,
            "replica": "off",
        }  # fmt: skip
        assert ask(admin, upload(admin)["id"]).status_code == 201
        assert [found.parent for found in tmp_path.rglob(LOG_NAME)] == [tmp_path / place]
        found = admin.get("/v1/ledger/verification").json()
        assert (found["ok"], found["anchor"], found["faults"]) == (True, CURRENT, [])
    assert said(verify(tmp_path / "data", **settings)) == (0, CURRENT)
    warned = [line.message for line in caplog.records if "goes back in time" in line.message]
    assert len(warned) == (told == INSIDE)
    close = [line.message for line in caplog.records if "share a disk" in line.message]
    assert len(close) == 1


def test_an_anchor_on_another_disk_is_told_from_one_beside_the_data(tmp_path: Path) -> None:
    """Of a directory that is still to be made, the one that it will be in decides."""
    data = tmp_path / "data" / "here"
    assert shares_device(Settings(data_dir=data))
    assert shares_device(Settings(data_dir=data, anchor_dir=tmp_path / "other" / "anchor"))
    assert not shares_device(Settings(data_dir=data, anchor_dir=Path("/proc/anchor")))
    elsewhere = Settings(data_dir=data, database_url=SecretStr("postgresql://nowhere/ledger"))
    assert not shares_device(elsewhere)


@pytest.mark.wide
def test_verification_tells_of_an_anchor_on_the_ledgers_disk(tmp_path: Path) -> None:
    data = tmp_path / "data"
    released(data)
    environment = {"RELEASE_DESK_DATA_DIR": str(data)}
    shown = CliRunner(env=environment).invoke(main, ["audit", "verify"]).stdout
    assert "the anchor is on the ledger's own disk" in shown
    told = CliRunner(env=environment).invoke(main, ["audit", "verify", "--json"]).stdout
    assert json.loads(told)["anchor_shares_device"] is True


def verify(data_dir: Path, anchor_dir: Path | None = None, **more: str) -> Result:
    environment: Mapping[str, Any] = {
        "RELEASE_DESK_DATA_DIR": str(data_dir),
        "RELEASE_DESK_ANCHOR_DIR": None if anchor_dir is None else str(anchor_dir),
    }
    return CliRunner(env={**environment, **more}).invoke(main, ["audit", "verify", "--json"])


def said(result: Result) -> tuple[int, str | None]:
    return result.exit_code, json.loads(result.stdout)["anchor"]


def released(data_dir: Path, **settings: Any) -> None:
    with running(data_dir, **settings) as service, service.client() as admin:
        assert ask(admin, upload(admin)["id"]).status_code == 201


def test_a_served_ledger_without_its_anchor_s_directory_is_a_fault(tmp_path: Path) -> None:
    """Whoever puts an older database back may as well remove what would tell."""
    data = tmp_path / "data"
    released(data)
    assert said(verify(data)) == (0, CURRENT)
    shutil.rmtree(tmp_path / "data-anchor")
    found = verify(data)
    assert said(found) == (1, MISSING)
    assert json.loads(found.stdout)["faults"] == [f"the anchor: {MISSING}"]
    assert not (tmp_path / "data-anchor").exists(), "looking must not make anything"


def test_an_anchor_that_is_named_must_be_there(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    released(data, anchor_dir=elsewhere)
    assert said(verify(data, elsewhere)) == (0, CURRENT)
    assert said(verify(data, tmp_path / "another")) == (1, MISSING)
    assert said(verify(data)) == (1, MISSING), "the setting has been lost"


@pytest.mark.wide
def test_a_backup_has_no_anchor_and_is_verified_alone(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other machine"
    released(data)
    backup = other / "backup" / "release-desk.db"
    backup.parent.mkdir(parents=True)
    environment = {"RELEASE_DESK_DATA_DIR": str(data)}
    made = CliRunner(env=environment).invoke(main, ["backup", str(backup)])
    assert made.exit_code == 0, made.output
    assert said(verify(backup.parent)) == (0, None)
    elsewhere = {"RELEASE_DESK_DATABASE_URL": f"sqlite:///{backup}"}
    assert said(verify(other / "nothing", **elsewhere)) == (0, None)
    told = CliRunner(env={"RELEASE_DESK_DATA_DIR": str(backup.parent)}).invoke(
        main, ["audit", "verify"]
    )
    assert "the anchor: not compared" in told.stdout
    assert [file.name for file in backup.parent.iterdir()] == [backup.name]
    # once a service has had it, it must have one
    open_store(Settings(data_dir=backup.parent)).close()
    assert said(verify(backup.parent)) == (1, MISSING)


def test_verification_says_when_there_was_nothing_to_compare_with(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "data-anchor" / LOG_NAME
    with running(data) as service, service.client() as admin:
        assert ask(admin, upload(admin)["id"]).status_code == 201
        log.rename(tmp_path / "aside")
        log.mkdir()  # cannot be read
        found = admin.get("/v1/ledger/verification").json()
        assert (found["ok"], found["anchor"]) == (True, None)
        log.rmdir()
        (tmp_path / "aside").rename(log)
        with ReleaseDesk(service.url, ADMIN_KEY) as desk:
            assert desk.verification().anchor == CURRENT
        shutil.rmtree(tmp_path / "data-anchor")
        found = admin.get("/v1/ledger/verification").json()
        assert (found["ok"], found["anchor"]) == (False, MISSING)
