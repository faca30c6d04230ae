"""A public release is checked offline, and nothing of it can be changed unnoticed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.cli import main
from app.client import ReceiptError, check_page, check_receipt
from app.store import base64url
from tests.contract.service import ask, upload
from tests.tiers import in_one

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def page(curator: httpx.Client, analyst: httpx.Client, anonymous_page: httpx.Client) -> bytes:
    """The JSON of a public release."""
    dataset = upload(curator)["id"]
    for epsilon in ("0.01", "0.02", "0.03"):  # so that its leaf has neighbours
        ask(analyst, dataset, epsilon=epsilon)
    release = ask(analyst, dataset).json()["id"]
    made = curator.post(
        f"/v1/releases/{release}/publication", json={"reason": "for all"}, headers={"If-Match": "*"}
    )
    assert made.status_code == 201, made.text
    patience_s = time.monotonic() + 60
    while True:
        found = anonymous_page.get(f"/public/releases/{release}.json")
        assert found.status_code == 200
        # what other tests have made of late comes into the log before it
        if "proof" in found.json() or time.monotonic() > patience_s:
            break
        time.sleep(0.05)
    assert found.content == anonymous_page.get(f"/public/releases/{release}.json").content
    return found.content


@pytest.fixture(scope="module")
def anonymous_page(service: Any) -> Any:
    with service.client(None) as client:
        yield client


@pytest.fixture(scope="module")
def keys(anonymous_page: httpx.Client) -> dict[str, Any]:
    return dict(anonymous_page.get("/v1/ledger/public-keys").json())


def test_a_page_says_what_it_is_proved_to_be(
    page: bytes, keys: dict[str, Any], analyst: httpx.Client
) -> None:
    found = check_page(page, json.dumps(keys))
    members = json.loads(page)
    assert (found.release, found.ledger) == (members["id"], keys["ledger"])
    assert found.amount == 100_000_000, "nano-epsilon"
    assert found.log == f"release-desk/{keys['ledger']}/1"
    assert members["proof"]["checkpoint"].split("\n")[1] == str(found.size)
    stored = analyst.get(f"/v1/releases/{found.release}").content
    assert page.startswith(stored[:-1]), "the answer is in it, byte for byte"
    assert check_receipt(stored, json.dumps(keys)).seq == found.seq
    hidden = {"principal", "idem", "fingerprint", "note", "total_after", "spent_after", "prev"}
    assert not hidden & members["proof"]["entry"].keys()


def test_no_byte_of_a_page_can_be_changed(page: bytes, keys: dict[str, Any]) -> None:
    """Not one: there is no white space between its words. Behind it, white space means nothing."""
    key = keys["keys"][0]["x"]
    for white in (b" \n", b"\t\r", b"\f\v"):
        assert check_page(page + white, key) == check_page(page, key)
    for place, byte in enumerate(page):
        ends = place > len(page) - 100  # where letters have bits that stand for nothing
        for other in {byte ^ 1, byte ^ 2, byte ^ 4, byte ^ 8} if ends else {byte ^ 1}:
            changed = page[:place] + bytes([other]) + page[place + 1 :]
            with pytest.raises(ReceiptError):
                check_page(changed, key)


def other_key(page: bytes, keys: dict[str, Any], change: Change) -> tuple[bytes, str]:
    """Return a page that was changed and signed again, with keys that its signature is good for."""
    private = Ed25519PrivateKey.generate()
    public = base64url(private.public_key().public_bytes_raw())
    known = {**keys, "keys": [*keys["keys"], {**keys["keys"][0], "x": public, "kid": "other"}]}
    members = json.loads(page)
    del members["signature"]
    change(members)
    content = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    said = {"ledger": keys["ledger"], "release": members["id"], "page": sha256(content).hexdigest()}
    header, payload = (base64url(json.dumps(part).encode()) for part in ({"alg": "EdDSA"}, said))
    signature = base64url(private.sign(f"{header}.{payload}".encode()))
    token = f"{header}.{payload}.{signature}"
    return content[:-1] + f',"signature":"{token}"}}'.encode(), json.dumps(known)


def test_signed_anew_as_it_is_a_page_holds(page: bytes, keys: dict[str, Any]) -> None:
    assert check_page(*other_key(page, keys, lambda members: None)) == check_page(
        page, json.dumps(keys)
    )


def in_proof(name: str, value: Any) -> Change:
    return lambda members: members["proof"].update({name: value(members["proof"][name])})


def in_entry(name: str) -> Change:
    def change(members: dict[str, Any]) -> None:
        entry = members["proof"]["entry"]
        value = entry[name]
        entry[name] = value + 1 if isinstance(value, int) else f"{value[:-1]}x"

    return change


def one_leaf(members: dict[str, Any]) -> None:
    """Claim that the entry is the only leaf of a log."""
    members["proof"].update(path=[], index=0)


ENTRY = ("ledger", "account", "seq", "epoch", "kind", "release", "amount", "at", "hash", "hidden")


@in_one(
    "change",
    [
        lambda members: members["value"].update(income=1),
        lambda members: members.update(id="rel_other"),
        lambda members: members.pop("proof"),
        lambda members: members["proof"].pop("entry"),
        lambda members: members.pop("receipt"),
        in_proof("index", lambda index: index + 1),
        in_proof("index", lambda index: -1),
        in_proof("path", lambda path: path[1:]),
        in_proof("path", lambda path: [*path, path[0]]),
        in_proof("path", lambda path: [path[0][::-1], *path[1:]]),
        in_proof("checkpoint", lambda note: note.replace("/1\n", "/2\n")),
        in_proof("checkpoint", lambda note: note.replace("\n", "\n1", 1)),
        in_proof("checkpoint", lambda note: note[:-3]),
        in_proof("checkpoint", lambda note: ""),
        one_leaf,
        *map(in_entry, ENTRY),
    ],
)
def test_whoever_signs_a_changed_page_is_found_by_what_is_in_it(
    page: bytes, keys: dict[str, Any], change: Change
) -> None:
    changed, known = other_key(page, keys, change)
    with pytest.raises(ReceiptError):
        check_page(changed, known)


def test_the_command_line_checks_a_page_offline(
    page: bytes, keys: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "page.json").write_bytes(page)
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    nowhere = ["--url", "http://127.0.0.1:9"]
    key = ["--public-key", str(tmp_path / "keys.json")]
    command = ["releases", "check", str(tmp_path / "page.json"), *nowhere]
    done = CliRunner().invoke(main, [*command, *key])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["release"] == json.loads(page)["id"]
    assert CliRunner().invoke(main, command).exit_code == 2, "it takes the key"
    (tmp_path / "page.json").write_bytes(page.replace(b"released", b"releasee", 1))
    failed = CliRunner().invoke(main, [*command, *key])
    assert failed.exit_code != 0
    assert "edited" in failed.output
