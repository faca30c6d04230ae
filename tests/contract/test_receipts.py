"""Receipts over HTTP: on every answer, checked by the service and offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.client import ReleaseDesk, check_receipt
from tests.contract.service import (
    ADMIN_KEY,
    Service,
    ask,
    assert_problem,
    make_key,
    running,
    send_raw,
    upload,
)

PATH = "/v1/ledger/receipts"


def check(client: httpx.Client, content: bytes) -> dict[str, Any]:
    answer = send_raw(client, PATH, content)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_every_released_answer_ends_in_its_receipt(
    analyst: httpx.Client, anonymous: httpx.Client, dataset: str
) -> None:
    answer = ask(analyst, dataset, key="receipt")
    body = answer.json()
    assert list(body)[-1] == "receipt"
    keys = anonymous.get("/v1/ledger/public-keys")
    said = check_receipt(answer.content, keys.content)
    assert said.release == body["id"]
    shown = keys.json()
    assert shown["ledger"] == said.ledger
    assert {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig"}.items() <= (
        shown["keys"][0].items()
    )
    assert ask(analyst, dataset, key="receipt").content == answer.content
    assert analyst.get(answer.headers["location"]).content == answer.content


def test_the_service_judges_a_receipt(
    service: Service, admin: httpx.Client, curator: httpx.Client, dataset: str
) -> None:
    answer = ask(curator, dataset)
    receipt = answer.json()["receipt"]
    with service.client(make_key(admin, "analyst")["secret"]) as anybody:
        found = check(anybody, answer.content)
        assert {name: found[name] for name in found if name != "receipt"} == {
            "ok": True, "signature": True, "sent": True, "entry": True, "stored": True,
            "forgotten": False,
        }  # fmt: skip
        assert found["receipt"]["release"] == answer.json()["id"]
        alone = check(anybody, json.dumps({"receipt": receipt}).encode())
        assert (alone["ok"], alone["sent"]) == (True, None)
        edited = check(anybody, answer.content.replace(b'"released"', b'"running"', 1))
        assert (edited["ok"], edited["sent"], edited["stored"]) == (False, False, True)
        reformatted = check(anybody, json.dumps(answer.json(), indent=1).encode())
        assert (reformatted["ok"], reformatted["sent"]) == (False, False)
        forged = check(anybody, json.dumps({"receipt": receipt[:-8] + "AAAAAAAA"}).encode())
        assert forged == {
            "ok": False, "signature": False, "sent": None, "entry": None, "stored": None,
            "forgotten": None, "receipt": None,
        }  # fmt: skip
    entries = curator.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    charged = next(each for each in entries if each["hash"] == found["receipt"]["entry"])
    assert (charged["seq"], charged["release"]) == (found["receipt"]["seq"], answer.json()["id"])


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'"x"', b'{"receipt":1}', b'{"receipt":null}', b"x", b""]
)
def test_what_is_no_receipt_is_refused(analyst: httpx.Client, body: bytes) -> None:
    assert_problem(send_raw(analyst, PATH, body), 422, "invalid-request")


def test_a_receipt_needs_a_key_and_json(analyst: httpx.Client, anonymous: httpx.Client) -> None:
    assert_problem(send_raw(anonymous, PATH, b'{"receipt":"x"}'), 401, "unauthorized")
    plain = analyst.post(PATH, content=b"x", headers={"Content-Type": "text/plain"})
    assert_problem(plain, 415, "unsupported-media-type")
    big = json.dumps({"receipt": "x" * 2**20}).encode()
    assert_problem(send_raw(analyst, PATH, big), 422, "invalid-request")


@pytest.mark.wide
def test_long_answers_are_checked_too(tmp_path: Path) -> None:
    with running(tmp_path / "data", max_answer_bytes=2**21) as service, service.client() as admin:
        name, edges = "x" * 100, [float(number) for number in range(3_001)]
        columns = {name: {"type": "number", "lower": 0, "upper": 3_000}}
        dataset = str(upload(admin, f"{name}\n1\n", columns=columns)["id"])
        statistic = {"kind": "histogram", "columns": [name], "edges": {name: edges}}
        with ReleaseDesk(service.url, ADMIN_KEY) as desk:
            release = desk.release(dataset, statistic, epsilon="1")
            assert len(release.body) > 2**20
            found = desk.check_receipt(release)
            assert (found.ok, found.sent) == (True, True)
        edited = check(admin, release.body.replace(b'"released"', b'"running"', 1))
        assert (edited["ok"], edited["sent"], edited["stored"]) == (False, False, True)
        cut = send_raw(admin, PATH, release.body[:-4])
        assert_problem(cut, 422, "invalid-request")
        problem = assert_problem(send_raw(admin, PATH, b" " * 2**21 + release.body), 413)
        assert problem["limit"] == "max_answer_bytes"


def test_the_client_checks_too(service: Service, admin: httpx.Client, dataset: str) -> None:
    with ReleaseDesk(service.url, make_key(admin, "analyst")["secret"]) as desk:
        release = desk.release(dataset, {"kind": "mean", "columns": ["income"]}, epsilon="0.1")
        found = desk.check_receipt(release)
        assert found.ok
        assert check_receipt(release.body, desk.public_keys()) == found.receipt
        assert not desk.check_receipt(release.body.replace(b"income", b"outgo")).ok
