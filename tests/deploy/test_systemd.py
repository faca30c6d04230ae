"""The systemd unit: systemd takes it, and what it names is there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.deploy.recipes import ROOT, image, options_of, settings_named

UNIT = ROOT / "deploy" / "systemd" / "release-desk.service"
SYSUSERS = ROOT / "deploy" / "systemd" / "release-desk.sysusers"
PAGE = (ROOT / "docs/operations/deployment.md").read_text("utf-8")
HARDENED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
    "SystemCallFilter": "@system-service",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "StateDirectoryMode": "0700",
}


def said(unit: str) -> dict[str, list[str]]:
    """Return the values of each directive, whatever its section."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in unit.splitlines():
        name, is_directive, value = line.partition("=")
        if is_directive and not line.startswith("#"):
            found[name].append(value)
    return found


def environment(unit: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in said(unit)["Environment"])


def verified(unit: str, folder: Path) -> str:
    """Return what systemd says against a unit whose program is this machine's."""
    program = Path(sys.executable).with_name("release-desk")
    copy = folder / UNIT.name
    copy.write_text(unit.replace("/opt/release-desk/bin/release-desk", str(program)), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False
    )
    reported = (done.stdout + done.stderr).splitlines()
    return "\n".join(line for line in reported if UNIT.name in line)


def test_systemd_takes_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT RUN: systemd-analyze is not here to verify the unit")
    unit = UNIT.read_text("utf-8")
    assert verified(unit, tmp_path) == ""
    assert "Restat" in verified(unit.replace("Restart=", "Restat="), tmp_path)


def test_it_starts_a_command_that_there_is() -> None:
    directives = said(UNIT.read_text("utf-8"))
    (start,) = directives["ExecStart"]
    program, *rest = shlex.split(start)
    assert program == f"{image().environment['PATH'].partition(':')[0]}/release-desk"
    assert options_of(["release-desk", *rest])["host"] == "127.0.0.1", "TLS is the proxy's"


def test_every_setting_is_one_and_every_place_is_made() -> None:
    unit = UNIT.read_text("utf-8")
    directives, given = said(unit), environment(unit)
    assert settings_named(given).keys() == given.keys()
    credentials = dict(each.split(":") for each in directives["LoadCredential"])
    read = {value.removeprefix("%d/") for value in given.values() if value.startswith("%d/")}
    assert read == credentials.keys() == {"bootstrap_key", "signing_key"}
    directories = {f"/var/lib/{name}" for name in directives["StateDirectory"][0].split()}
    places = {given[f"RELEASE_DESK_{each}_DIR"] for each in ("DATA", "ANCHOR")}
    assert places == directories, "nothing else may be written"


def test_it_bounds_what_it_may_do() -> None:
    directives = said(UNIT.read_text("utf-8"))
    assert {name: directives[name][0] for name in HARDENED} == HARDENED
    assert int(directives["LimitNOFILE"][0]) == 65_536
    assert int(directives["TimeoutStopSec"][0]) > 30, "charged releases are finished first"


def test_the_page_makes_what_the_unit_needs() -> None:
    directives = said(UNIT.read_text("utf-8"))
    for credential in directives["LoadCredential"]:
        assert f" {credential.partition(':')[2]}\n" in PAGE
    (settings,) = directives["EnvironmentFile"]
    assert f"`{settings.removeprefix('-')}`" in PAGE
    (user,) = re.findall(r"^u (\S+) ", SYSUSERS.read_text("utf-8"), re.MULTILINE)
    assert directives["User"] == directives["Group"] == [user]
    for file in (UNIT, SYSUSERS):
        assert str(file.relative_to(ROOT)) in PAGE


def test_a_command_of_the_page_finds_the_ledger_and_its_anchor() -> None:
    given = environment(UNIT.read_text("utf-8"))
    (command,) = re.findall(r"^runuser .*?[^\\]$", PAGE, re.MULTILINE | re.DOTALL)
    reported = shlex.split(command.replace("\\\n", " "))
    for name in ("RELEASE_DESK_DATA_DIR", "RELEASE_DESK_ANCHOR_DIR"):
        assert f"{name}={given[name]}" in reported
