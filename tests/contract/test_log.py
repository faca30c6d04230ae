"""The public log over HTTP: anyone checks, and learns nothing but how many entries there are."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from app.client import ProblemError, ReceiptError, ReleaseDesk, check_checkpoint, check_growth
from tests.app.logs import is_consistent, root_of_path, signed
from tests.contract.service import Service, ask, assert_problem, running, upload


def test_a_stranger_follows_the_log(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", checkpoint_s=0.05) as service,
        service.client() as admin,
        service.client(None) as anybody,
    ):
        key = anybody.get("/v1/log/key").json()["keys"][0]
        assert key["kid"] == anybody.get("/v1/ledger/public-keys").json()["keys"][0]["kid"]
        first = anybody.get("/v1/log/checkpoint")
        assert first.headers["content-type"] == "text/plain; charset=utf-8"
        origin, before, old = signed(first.text, key["verifier"])
        assert origin == anybody.get("/v1/log/key").json()["origin"]
        dataset = str(upload(admin)["id"])
        assert ask(admin, dataset).status_code == 201
        until = time.monotonic() + 60  # a busy machine may be slow
        size, new = before, old
        while size < before + 4 and time.monotonic() < until:
            time.sleep(0.05)
            _, size, new = signed(anybody.get("/v1/log/checkpoint").text, key["verifier"])
        assert size >= before + 4, "account, data set, manifest and charge"
        grown = {"from": before, "to": size}
        proof = anybody.get("/v1/log/proof/consistency", params=grown).json()
        assert (proof["before"], proof["size"]) == (before, size)
        path = [bytes.fromhex(each) for each in proof["path"]]
        assert is_consistent(before, old, size, new, path)
        assert anybody.get("/v1/log/checkpoint", params={"size": before}).text == first.text
        for index in range(size):
            asked = {"index": index, "size": size}
            found = anybody.get("/v1/log/proof/inclusion", params=asked).json()
            path = [bytes.fromhex(each) for each in found["path"]]
            leaf = bytes.fromhex(found["leaf"])
            assert root_of_path(index, size, leaf, path) == new


@pytest.mark.parametrize(
    "asked",
    [
        "checkpoint?size=999999", "proof/inclusion?index=0&size=999999",
        "proof/consistency?from=1&to=999999",
    ],
)  # fmt: skip
def test_what_is_not_signed_is_not_found(anonymous: httpx.Client, asked: str) -> None:
    assert_problem(anonymous.get(f"/v1/log/{asked}"), 404, "not-found")


@pytest.mark.parametrize(
    "asked",
    [
        "checkpoint?size=0", "checkpoint?size=x", "proof/inclusion?index=1&size=1",
        "proof/inclusion?index=-1&size=1", "proof/inclusion?size=1", "proof/inclusion?index=0",
        "proof/consistency?from=2&to=1", "proof/consistency?from=0&to=1",
        "proof/consistency?from=1", "proof/consistency?to=1", "proof/inclusion?index=0&size=1e9",
        f"checkpoint?size={2**70}",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(anonymous: httpx.Client, asked: str) -> None:
    assert_problem(anonymous.get(f"/v1/log/{asked}"), 422, "invalid-request")


def published(curator: httpx.Client, analyst: httpx.Client, dataset: str) -> None:
    """Publish a release: its entries are in the log, and signed, when that is answered."""
    release = ask(analyst, dataset).json()["id"]
    made = curator.post(
        f"/v1/releases/{release}/publication", json={"reason": "for all"}, headers={"If-Match": "*"}
    )
    assert made.status_code == 201, made.text


def test_clients_check_that_the_log_has_only_grown(
    service: Service, curator: httpx.Client, analyst: httpx.Client, tmp_path: Path
) -> None:
    dataset = str(upload(curator)["id"])
    with ReleaseDesk(service.url) as desk:
        notes = []
        for _ in range(3):
            published(curator, analyst, dataset)
            notes.append(desk.checkpoint())
        keys = desk.public_keys()
        first, *_, last = (check_checkpoint(note, keys) for note in notes)
        assert desk.checkpoint(first.size) == notes[0]
        assert desk.check_log(notes[0], keys) == desk.check_log(notes[-1], keys) == last
        path = desk.consistency(first.size, last.size).path
        assert check_growth(notes[0], notes[-1], path, keys) == last
        with pytest.raises(ReceiptError, match="does not begin"):
            check_growth(notes[0], notes[-1], path[1:], keys)
        proof = desk.inclusion(0, last.size)
        steps = [bytes.fromhex(each) for each in proof.path]
        assert root_of_path(0, last.size, bytes.fromhex(proof.leaf), steps) == last.root
        with pytest.raises(ProblemError, match="not-found"):
            desk.stamp()

    def run(*words: str) -> str:
        done = CliRunner().invoke(main, ["log", *words, "--url", service.url])
        assert done.exit_code == 0, done.output
        return done.output

    (tmp_path / "kept.txt").write_text(run("checkpoint", "--size", str(first.size)), "utf-8")
    (tmp_path / "keys.json").write_bytes(keys)
    known = ("--public-key", str(tmp_path / "keys.json"))
    assert f"to {last.size} leaves" in run("check", str(tmp_path / "kept.txt"), *known)
    assert json.loads(run("inclusion", "0", str(last.size))) == proof.model_dump()
    assert json.loads(run("consistency", str(first.size), str(last.size)))["path"] == path
