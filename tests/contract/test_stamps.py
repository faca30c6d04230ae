"""Time stamps of checkpoints: by an authority outside, which no one waits for."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from app.client import ReceiptError, check_page, check_stamp
from tests.app.authority import STAMPED_AT, Stamping, listening
from tests.contract.service import Service, ask, assert_problem, running, upload
from tests.contract.test_public_proof import in_proof, other_key


@dataclass(frozen=True)
class Stamped:
    """A service with an authority, and the document of what it has published."""

    service: Service
    authority: Stamping
    page: bytes
    keys: str


@pytest.fixture(scope="module")
def stamped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stamped]:
    data = tmp_path_factory.mktemp("stamped") / "data"
    with (
        listening(Stamping()) as authority,
        running(data, timestamp_url=authority.url) as service,
        service.client() as admin,
        service.client(None) as anybody,
    ):
        address = published(admin)
        page = anybody.get(address).content
        until = time.monotonic() + 60  # a busy machine may be slow
        while b'"stamp"' not in page and time.monotonic() < until:
            time.sleep(0.1)
            page = anybody.get(address).content
        yield Stamped(service, authority, page, anybody.get("/v1/ledger/public-keys").text)


def published(admin: httpx.Client) -> str:
    """Release and publish something, and return where its document is."""
    release = ask(admin, str(upload(admin)["id"])).json()["id"]
    made = admin.post(
        f"/v1/releases/{release}/publication", json={"reason": "for all"}, headers={"If-Match": "*"}
    )
    assert made.status_code == 201, made.text
    return f"/public/releases/{release}.json"


def test_a_page_says_when_it_was_there_at_the_latest(stamped: Stamped) -> None:
    found = check_page(stamped.page, stamped.keys, authority=stamped.authority.pem)
    assert found.stamped_at == STAMPED_AT
    alone = check_page(stamped.page, stamped.keys)
    assert alone.stamped_at is None, "nobody asked"
    assert alone.root == found.root


def test_the_stamp_is_shown_with_its_checkpoint(stamped: Stamped) -> None:
    with stamped.service.client(None) as anybody:
        size = int(json.loads(stamped.page)["proof"]["checkpoint"].split("\n")[1])
        stamp = anybody.get("/v1/log/stamp", params={"size": size})
        assert stamp.headers["content-type"] == "application/timestamp-reply"
        note = anybody.get("/v1/log/checkpoint", params={"size": size}).content
        assert check_stamp(stamp.content, note, stamped.authority.pem) == STAMPED_AT
        assert_problem(anybody.get("/v1/log/stamp", params={"size": 10**9}), 404, "not-found")
    assert sha256(note).digest() in stamped.authority.asked, "it has seen a hash"


def test_nothing_of_a_stamp_or_of_what_it_stamps_can_be_changed(stamped: Stamped) -> None:
    """A dozen bytes name versions and algorithms, which no signature covers and nothing reads."""
    proof = json.loads(stamped.page)["proof"]
    stamp, note = base64.b64decode(proof["stamp"]), proof["checkpoint"].encode()
    for place in range(len(note)):
        with pytest.raises(ReceiptError, match="not of this checkpoint"):
            check_stamp(stamp, flipped(note, place), stamped.authority.pem)
    unseen = [place for place in range(len(stamp)) if _holds(stamped, flipped(stamp, place), note)]
    assert len(unseen) < 16
    own = [stamp.index(sha256(note).digest()), stamp.index(b"20261121093000Z")]
    assert not {*range(own[0], own[0] + 32), *range(own[1], own[1] + 15)} & {*unseen}


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def _holds(stamped: Stamped, stamp: bytes, note: bytes) -> bool:
    try:
        check_stamp(stamp, note, stamped.authority.pem)
    except ReceiptError:
        return False
    return True


def test_no_byte_of_a_stamped_page_can_be_changed(stamped: Stamped) -> None:
    start = stamped.page.index(b'"stamp":"') + len(b'"stamp":"')
    for place in range(start, stamped.page.index(b'"', start)):
        with pytest.raises(ReceiptError):
            check_page(flipped(stamped.page, place), stamped.keys, authority=stamped.authority.pem)


@pytest.mark.parametrize(
    "change",
    [
        in_proof("stamp", lambda stamp: stamp[:400] + "A" + stamp[401:]),
        in_proof("stamp", lambda stamp: ""),
        in_proof("stamp", lambda stamp: "no base64"),
        in_proof("stamp", lambda stamp: 7),
        lambda members: members["proof"].pop("stamp"),
    ],
)
def test_whoever_signs_a_page_anew_has_no_stamp_for_it(stamped: Stamped, change: Any) -> None:
    changed, key = other_key(stamped.page, json.loads(stamped.keys), change)
    assert check_page(changed, key).stamped_at is None
    with pytest.raises(ReceiptError):
        check_page(changed, key, authority=stamped.authority.pem)


@pytest.mark.parametrize(
    ("pem", "reported"),
    [(Stamping().pem, "not by this authority"), (b"no certificate", "cannot be read")],
)
def test_only_the_authority_named_stamps(stamped: Stamped, pem: bytes, reported: str) -> None:
    with pytest.raises(ReceiptError, match=reported):
        check_page(stamped.page, stamped.keys, authority=pem)


def test_the_command_line_checks_the_stamp_offline(stamped: Stamped, tmp_path: Path) -> None:
    files = {
        "page.json": stamped.page,
        "keys.json": stamped.keys.encode(),
        "authority.pem": stamped.authority.pem,
        "other.pem": Stamping().pem,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    def check(*options: str) -> Any:
        named = [each if each[0] == "-" else str(tmp_path / each) for each in options]
        nowhere = ["--url", "http://127.0.0.1:9"]
        page = str(tmp_path / "page.json")
        return CliRunner().invoke(main, ["releases", "check", page, *named, *nowhere])

    known = ("--public-key", "keys.json")
    done = check(*known, "--authority", "authority.pem")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["stamped_at"] == STAMPED_AT
    failed = check(*known, "--authority", "other.pem")
    assert failed.exit_code != 0
    assert "not by this authority" in failed.output
    assert check("--authority", "authority.pem").exit_code == 2, "it takes the key"


def test_nothing_waits_for_an_authority_that_is_down(
    stamped: Stamped, caplog: pytest.LogCaptureFixture
) -> None:
    stamped.authority.down = True
    with (
        caplog.at_level(logging.WARNING),
        stamped.service.client() as admin,
        stamped.service.client(None) as anybody,
    ):
        page = anybody.get(published(admin)).content
        assert check_page(page, stamped.keys).root
        with pytest.raises(ReceiptError, match="no time stamp"):
            check_page(page, stamped.keys, authority=stamped.authority.pem)
        until = time.monotonic() + 60
        while "was not stamped" not in caplog.text and time.monotonic() < until:
            time.sleep(0.05)
    (reported, *_) = [each for each in caplog.records if "was not stamped" in each.message]
    assert vars(reported)["reason"] == "status 503"
