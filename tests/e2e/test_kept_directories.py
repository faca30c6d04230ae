"""A data directory of an earlier version opens, verifies, answers as it did, and goes on.

What is kept, and how it was made: ``tests/fixtures/version_0_1/make.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from tests.e2e.live import LiveServer
from tests.fixtures.version_0_1 import make as kept
from tests.fixtures.version_0_1 import unpack

pytestmark = pytest.mark.wide

LASTING = ("code", "status", "outcome", "release")
"""Of a refused request, what stays."""
FOREVER = {"RELEASE_DESK_REVIEW_DAYS": "36500"}


@dataclass(frozen=True)
class Desk:
    """The kept directory under the present code, and what its diary says of it."""

    server: LiveServer
    keys: dict[str, str]
    undrawn: list[str]
    asked: list[dict[str, Any]]
    read: dict[str, Any]

    def send(self, who: str, method: str, path: str, **options: Any) -> httpx.Response:
        with self.server.client(self.keys[who]) as client:
            return client.request(method, path, **options)

    def ask_again(self, asked: dict[str, Any]) -> httpx.Response:
        """Send a request of the diary under its key."""
        headers = {"Idempotency-Key": asked["key"]} if asked["key"] else {}
        return self.send(asked["who"], "POST", asked["path"], json=asked["body"], headers=headers)

    def settled(self, release: str) -> dict[str, Any]:
        """Return a release once it is drawn."""
        limit = time.monotonic() + 120
        while (shown := self.show(release))["status"] == "running":
            assert time.monotonic() < limit
            time.sleep(0.1)
        return shown

    def show(self, release: str) -> dict[str, Any]:
        return dict(self.send("admin", "GET", f"/v1/releases/{release}").json())

    def dataset(self, name: str) -> str:
        listed = self.read["/v1/datasets"]["items"]
        return str(next(item["id"] for item in listed if item["name"] == name))

    def under(self, word: str) -> list[dict[str, Any]]:
        """Return the diary's requests whose key begins with a word."""
        return [asked for asked in self.asked if (asked["key"] or "").startswith(f"{word} ")]


def serve(data: Path) -> LiveServer:
    return LiveServer(data, RELEASE_DESK_BOOTSTRAP_KEY=kept.ADMIN_KEY, **FOREVER)


def alike(one: Any, other: Any) -> bool:
    """Return whether two JSON texts are one, up to the rounding of floats."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(one) is type(other) and one == other


def as_then(now: Any, was: Any) -> Any:
    """Return an answer without the members that it has gained since."""
    if isinstance(now, dict) and isinstance(was, dict):
        return {name: as_then(now[name], was[name]) for name in was if name in now}
    if isinstance(now, list) and isinstance(was, list) and len(now) == len(was):
        return [as_then(one, other) for one, other in zip(now, was, strict=True)]
    return now


def audit(data: Path) -> None:
    """Have the command line verify the ledger against its anchor, and every stored file."""
    environment = {"RELEASE_DESK_DATA_DIR": str(data)}
    verified = CliRunner().invoke(main, ["audit", "verify", "--json"], env=environment)
    assert verified.exit_code == 0, verified.output
    found = json.loads(verified.stdout)
    assert found["ok"] is True
    assert found["anchor"] is not None
    hashed = CliRunner().invoke(main, ["audit", "data", "--processes", "1"], env=environment)
    assert hashed.exit_code == 0, hashed.output


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Serve a copy; what was left undrawn is drawn before the first test."""
    home = tmp_path_factory.mktemp("kept")
    unpack(home)
    diary = json.loads((home / "diary.json").read_text("utf-8"))
    diary["read"] = {page["path"]: page["body"] for page in diary["read"]}
    with serve(home / "data") as server:
        found = Desk(server, **diary)
        for release in found.undrawn:
            assert found.settled(release)["status"] == "released"
        yield found


def test_alike_is_alike_but_for_rounding() -> None:
    kept = {"value": [0.1 + 0.2, None], "exact": True}
    assert alike(kept, {"value": [0.3, None], "exact": True})
    for other in ({"value": [0.3001, None]}, {"value": [0.3, 0.0]}, {"value": [0.3]}):
        assert not alike(kept, {**other, "exact": True})
    assert not alike(kept, {**kept, "exact": 1})


def test_it_verifies(desk: Desk) -> None:
    audit(desk.server.data_dir)


def test_every_request_is_answered_as_it_was(desk: Desk) -> None:
    """Releases, and what waits or was refused; nothing is charged again.

    A derivation is computed anew: its last digits are those of the machine's linear algebra, and
    it may say more than it did.
    """
    before = desk.send("admin", "GET", f"/v1/datasets/{desk.dataset('pure')}/ledger").content
    kinds = set()
    for asked in desk.asked:
        if asked["path"].endswith("/grants") or asked in desk.under("undrawn"):
            continue
        again = desk.ask_again(asked)
        assert again.status_code == asked["status"]
        if asked["path"].endswith("/derivations"):
            was, now = json.loads(asked["content"]), again.json()
            assert alike(as_then(now, was), was), again.text
        elif again.status_code == 202:  # not stored yet, so that it may say more than it did
            was = json.loads(asked["content"])
            assert as_then(again.json(), was) == was
        elif again.status_code < 300:
            assert again.text == asked["content"]
        else:  # every refusal has an id of its own, and its words may be mended
            was, now = json.loads(asked["content"]), again.json()
            assert {name: now[name] for name in LASTING} == {name: was[name] for name in LASTING}
        kinds.add((asked["path"].rsplit("/")[-1], again.status_code))
    assert kinds == {
        ("releases", 201), ("releases", 202), ("releases", 409), ("derivations", 200)
    }  # fmt: skip
    after = desk.send("admin", "GET", f"/v1/datasets/{desk.dataset('pure')}/ledger").content
    assert after == before


def test_what_was_left_undrawn_is_drawn_at_the_cost_it_was_charged_for(desk: Desk) -> None:
    undrawn = desk.under("undrawn")
    assert [asked["status"] for asked in undrawn] == [202, 202]
    for asked in undrawn:
        answer = desk.ask_again(asked)
        assert answer.status_code == 201
        assert answer.json()["status"] == "released"
        assert answer.json()["id"] == json.loads(asked["content"])["id"]
        checked = desk.send("admin", "POST", "/v1/ledger/receipts", json=answer.json())
        assert checked.json()["entry"] is True


def test_budgets_ledgers_and_lists_say_what_they_said(desk: Desk) -> None:
    for path, body in desk.read.items():
        found = desk.send("admin", "GET", path).json()
        if path == "/v1/keys":
            for item in (*found["items"], *body["items"]):
                item.pop("last_used_at")
                assert item.pop("twins", []) == []  # later versions tell them
        if "/ledger?" in path:  # entries of that version say neither
            assert {(item.pop("key"), item.pop("role")) for item in found["items"]} == {
                (None, None)
            }
        if path.startswith("/v1/releases"):
            for page in (found, body):
                page["items"] = [it for it in page["items"] if it["id"] not in desk.undrawn]
        assert as_then(found, body) == body, path


def test_every_receipt_still_holds(desk: Desk) -> None:
    answers = [asked["content"] for asked in desk.asked if '"receipt":' in asked["content"]]
    assert len(answers) > 20
    for content in answers:
        headers = {"Content-Type": "application/json"}
        checked = desk.send(
            "admin", "POST", "/v1/ledger/receipts", content=content.encode(), headers=headers
        ).json()
        if json.loads(content)["status"] == "released":
            assert checked["ok"] is True, checked


def test_the_same_people_are_recognised(desk: Desk) -> None:
    """By the digests of their rows, of archived data too."""
    for first in (0, 1000, 2000):
        lines = kept.rows(first, 60).splitlines()
        shuffled = "\n".join([lines[0], *reversed(lines[1:])]) + "\n"
        spec = {"name": f"again {first}", "adjacency": "replace_one", "columns": kept.COLUMNS,
                "budget": {"epsilon": "1"}}  # fmt: skip
        files = {"file": ("rows.csv", shuffled), "spec": (None, json.dumps(spec))}
        refused = desk.send("cleo", "POST", "/v1/datasets", files=files)
        assert refused.status_code == 409, refused.text
        assert refused.json()["code"] == "overlapping-dataset"


def test_it_goes_on(desk: Desk) -> None:
    """What waits is decided on, new releases are charged, and the next start verifies."""
    waiting = [json.loads(asked["content"])["id"] for asked in desk.under("wait")]
    for release, decision in zip(waiting, ("approve", "reject"), strict=True):
        decided = desk.send(
            "cleo", "POST", f"/v1/releases/{release}/decision",
            json={"decision": decision, "reason": "at last"},
            headers={"If-Match": '"reserved"'},
        )  # fmt: skip
        assert decided.status_code == (202 if decision == "approve" else 200), decided.text
    assert desk.settled(waiting[0])["status"] == "released"
    assert desk.show(waiting[1])["status"] == "rejected"

    for name in ("pure", "zcdp"):
        path = f"/v1/datasets/{desk.dataset(name)}/releases"
        body = {"statistic": kept.MEAN, "epsilon": "0.1"}
        for who, epsilon, status in (("ann", "0.1", 201), ("cleo", "0.6", 409)):
            headers = {"Idempotency-Key": f"new {name} {who}"}
            asked = {**body, "epsilon": epsilon}
            answer = desk.send(who, "POST", path, json=asked, headers=headers)
            assert answer.status_code == status, answer.text
    gone = f"/v1/datasets/{desk.dataset('gone')}/releases"
    headers = {"Idempotency-Key": "of rows that are gone, again"}
    assert desk.send("ann", "POST", gone, json=body, headers=headers).status_code == 409

    assert desk.send("admin", "GET", "/v1/ledger/verification").json()["ok"] is True
    audit(desk.server.data_dir)
    desk.server.stop()
    desk.server.start()
    assert desk.send("admin", "GET", "/v1/ledger/verification").json()["ok"] is True
    first = desk.asked[0]
    assert desk.ask_again(first).text == first["content"]
