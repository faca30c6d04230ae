"""The privacy audit over HTTP: a desk that keeps its promise passes, one that does not is flagged.

At this confidence a sound desk is flagged with a chance below 1e-9. Counts at four times epsilon
fall on the wrong side of one half in 1.8% of draws: their bound is then too low once in 1e11 times.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from app.cli.refusals import REFUSED
from tests.e2e.live import ADMIN_KEY, LiveServer
from tests.e2e.loud_desk import LoudDesk

pytestmark = pytest.mark.slow

SURE = str(1 - 1e-9)
OFFERS = ("--offers", "count/l1", "--offers", "tables/margins")
"""Noise on a number and on a table, each under both adjacencies."""
BOUNDED = ("--draws", "400", "--seconds", "200", "--confidence", SURE, "--epsilon", "1")
LIMITS = {
    "RELEASE_DESK_RATE_LIMIT_PER_MINUTE": "600",
    "RELEASE_DESK_MAX_STORED_BYTES_PER_DAY": str(2**20),
}
"""A person may store a few of the audit's releases only, so others must follow."""


def audited(url: str, directory: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Return how an audit ended, its report, and what it printed."""
    out = directory / "report"
    command = ["audit", "privacy", url, "--key", ADMIN_KEY, "--out", str(out), *words]
    done = CliRunner().invoke(main, command)
    assert out.with_suffix(".html").read_text().count("<tr") > 1, done.output
    return done.exit_code, json.loads(out.with_suffix(".json").read_text()), done.output


def nothing_is_left(client: httpx.Client) -> bool:
    """Return whether the audit's data sets are archived, and its keys revoked."""
    datasets = client.get("/v1/datasets", params={"limit": 100}).json()["items"]
    keys = client.get("/v1/keys", params={"limit": 100}).json()["items"]
    audit_keys = [key for key in keys if key["name"].startswith("privacy audit")]
    assert datasets
    assert audit_keys
    return all(each["status"] == "archived" for each in datasets) and all(
        key["revoked_at"] is not None for key in audit_keys
    )


def test_our_desk_passes_within_its_limits(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data", **LIMITS) as live, live.client() as client:
        code, report, printed = audited(live.url, tmp_path, *OFFERS, *BOUNDED)
        assert nothing_is_left(client)
        assert client.get("/v1/ledger/verification").json()["ok"]
        persons = {key["person"] for key in client.get("/v1/keys").json()["items"]}
    assert (code, report["ok"]) == (0, True), printed
    assert [each["draws"] for each in report["offers"]] == [400] * 4
    assert {each["verdict"] for each in report["offers"]} == {"not above its promise"}
    assert len(persons) > 5, "no key had stored enough"


def test_a_desk_that_draws_at_four_times_its_epsilon_is_flagged(tmp_path: Path) -> None:
    with LoudDesk(tmp_path / "data") as live, live.client() as client:
        code, report, printed = audited(live.url, tmp_path, *OFFERS, *BOUNDED)
        assert nothing_is_left(client)
    assert (code, report["ok"]) == (REFUSED, False), printed
    assert {each["verdict"] for each in report["offers"]} == {"FLAGGED"}
    assert "4 of 4 offers lose more than promised" in printed


@pytest.mark.wide
def test_who_is_no_admin_is_refused(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data") as live, live.client() as client:
        made = client.post("/v1/keys", json={"name": "a curator", "role": "curator"}).json()
        command = ["audit", "privacy", live.url, "--key", made["secret"], *OFFERS]
        refused = CliRunner().invoke(main, [*command, "--out", str(tmp_path / "report")])
        assert refused.exit_code == REFUSED
        assert "refused: 403" in refused.output
        datasets = client.get("/v1/datasets").json()["items"]
    assert all(each["status"] == "archived" for each in datasets)
