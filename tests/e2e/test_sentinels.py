"""Planted cells appear in no body, header, metric or log, and not in the database.

The data set carries values that nothing else in the test contains: an
outlier to be clamped, an exact number, a refused text, a refused category.
Every endpoint is asked, rightly and wrongly, and everything that came back
or was logged is searched.
"""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.services.publishing.citations import FORMS
from app.services.publishing.linked_data import EXPORTS
from tests.contract.service import COLUMNS
from tests.contract.test_releases import JOBS, STATISTICS
from tests.e2e.live import ADMIN_KEY, LiveServer, upload

pytestmark = pytest.mark.slow

OUTLIER = "86420.97531"
EXACT = "37.192837465"
TEXT = "SENTINELCELL"
CATEGORY = "sentinelville"
PLANTED = re.compile(rf"86420\.9753|(?<!\d:)37\.192837|{TEXT}|{CATEGORY}", re.IGNORECASE)
"""So many digits that no noise has them by chance, and not the seconds of a time."""
CLIENT = "sentinelclient"
"""What a client says where it may say anything: an address, a header, a wrong key, a name."""
SAID = re.compile(rf"{CLIENT}|{ADMIN_KEY}", re.IGNORECASE)

HEADER = "income,food,region,owner\n"
NOT_DECLARED = ",score,notes\n"
"""Columns that no one declares; who comes again is known by the numbers in them too."""
GOOD = (
    HEADER.replace("\n", NOT_DECLARED)
    + f"{OUTLIER},{EXACT},north,true,{OUTLIER},{TEXT}\n"
    + f"40,20,south,false,{EXACT},\n" * 30
)
LOGISTIC = {"kind": "logistic_regression", "target": "owner", "features": ["income", "food"]}
ASKED: list[dict[str, Any]] = [
    *({"statistic": each} for each in STATISTICS),
    {"statistic": LOGISTIC},
]
WRONG: list[dict[str, Any]] = [
    {"statistic": {"kind": "mean", "columns": ["absent"]}, "epsilon": "0.1"},
    {"statistic": {"kind": "mean", "columns": ["region"]}, "epsilon": "0.1"},
    {"statistic": {"kind": "mean", "columns": ["income"]}, "epsilon": "0"},
    {"statistic": {"kind": "mean", "columns": ["income"]}, "epsilon": "1e3"},
    {"statistic": {"kind": "nonsense"}, "epsilon": "0.1"},
]


def _finished(client: httpx.Client, release: str) -> httpx.Response:
    """Return a release once it is drawn."""
    while (answer := client.get(f"/v1/releases/{release}")).json()["status"] == "running":
        time.sleep(0.1)
    assert answer.json()["status"] == "released", answer.text
    return answer


def _ask_everything(client: httpx.Client, dataset: str) -> list[httpx.Response]:
    """Release every kind of statistic, ask every wrong question, read every page."""
    answers = []
    base = f"/v1/datasets/{dataset}"
    for number, asked in enumerate(ASKED):
        body = asked | {"epsilon": "0.01"}
        answers.append(client.post(f"{base}/previews", json=body))
        released = client.post(
            f"{base}/releases", json=body, headers={"Idempotency-Key": f"s-{number}"}
        )
        is_job = asked["statistic"]["kind"] in JOBS or asked.get("mechanism") == "kng"
        assert released.status_code == (202 if is_job else 201), released.text
        answers += [released, _finished(client, released.json()["id"])]
        answers += _publish(client, released.json()["id"])
    answers += _all_of_tables(client, dataset)
    for number, body in enumerate(WRONG):
        refused = client.post(
            f"{base}/releases", json=body, headers={"Idempotency-Key": f"w-{number}"}
        )
        assert 400 <= refused.status_code < 500, refused.text
        answers.append(refused)
    reads = ("", "/budget", "/ledger", *(f"/exports/{form}" for form in EXPORTS))
    answers += [client.get(f"/public/datasets/{dataset}/{form}.json") for form in EXPORTS]
    answers += [
        client.get(path) for path in ("/public", "/public/releases.json", "/public/feed.atom")
    ]
    answers += [client.get(base + path) for path in reads]
    pages = ("/v1/datasets", "/v1/releases", "/v1/ledger/verification", "/v1/catalog", "/readyz")
    answers += [client.get(path) for path in pages]
    return answers


def _all_of_tables(client: httpx.Client, dataset: str) -> list[httpx.Response]:
    """Release tables, and read whatever is made of them."""
    tables = {
        "kind": "tables", "columns": ["income", "food", "region", "owner"],
        "edges": {"income": [0, 50, 100], "food": [0, 25, 50]},
    }  # fmt: skip
    path, body = f"/v1/datasets/{dataset}/releases", {"statistic": tables, "epsilon": "0.1"}
    made = client.post(path, json=body, headers={"Idempotency-Key": "tables"})
    found = [made, _finished(client, made.json()["id"])]
    release = f"/v1/releases/{made.json()['id']}"
    few = {"kind": "histogram", "columns": ["region"]}
    found += [
        client.post(f"{release}/synthetic", json={"rows": 5000, "seed": 1}),
        client.get(f"{release}/synthetic", params={"rows": 5000, "seed": 1}),
        client.get(f"{release}/cells", params={"format": "csv"}),
        client.post(f"{release}/derivations", json={"statistic": few}),
    ]
    assert {answer.status_code for answer in found[1:]} == {200}, [each.text for each in found]
    return found


def _publish(client: httpx.Client, release: str) -> list[httpx.Response]:
    """Make a release public, and read it in every form as anyone may."""
    made = client.post(
        f"/v1/releases/{release}/publication", json={"reason": CLIENT}, headers={"If-Match": "*"}
    )
    assert made.status_code == 201, made.text
    paths = ["", "/certificate", *(f".{ending}" for ending in FORMS)]
    with httpx.Client(base_url=client.base_url) as anybody:
        answers = [anybody.get(f"/public/releases/{release}{path}") for path in paths]
    assert {answer.status_code for answer in answers} == {200}
    return [made, *answers]


def _review(client: httpx.Client, columns: dict[str, Any], **more: Any) -> list[httpx.Response]:
    """Have one release approved, one rejected, one withdrawn, and one decided on by its own."""
    dataset = upload(client, GOOD, columns, policy={"review": "always"}, **more)["id"]
    made = client.post("/v1/keys", json={"name": "a reviewer", "role": "curator"}).json()
    key = {"Authorization": f"Bearer {made['secret']}", "If-Match": '"reserved"'}
    answers, asked = [], []
    for number in range(4):
        body = {"statistic": STATISTICS[1], "epsilon": "0.01"}
        path, header = f"/v1/datasets/{dataset}/releases", {"Idempotency-Key": f"r-{number}"}
        answers.append(client.post(path, json=body, headers=header))
        asked.append(f"/v1/releases/{answers[-1].json()['id']}")
    approve, reject = ({"decision": each, "reason": CLIENT} for each in ("approve", "reject"))
    answers.append(client.post(f"{asked[0]}/decision", json=approve, headers=key))
    answers.append(client.post(f"{asked[1]}/decision", json=reject, headers=key))
    answers.append(client.post(f"{asked[2]}/withdrawal"))
    answers.append(client.post(f"{asked[3]}/decision", json=approve))
    assert [answer.status_code for answer in answers] == [202] * 5 + [200, 200, 428]
    answers.append(_finished(client, answers[0].json()["id"]))
    answers += [client.get(path) for path in asked[1:]]
    answers += [client.get("/v1/releases", params={"status": s}) for s in ("rejected", "wrong")]
    return [*answers, client.get(f"/v1/datasets/{dataset}/ledger")]


def _bad_uploads(client: httpx.Client) -> list[httpx.Response]:
    """Upload files that must be refused, each with a planted cell in the wrong place."""
    files = {
        "text in a number": HEADER + f"{TEXT},1,north,true\n",
        "unknown category": HEADER + f"1,1,{CATEGORY},true\n",
        "unknown boolean": HEADER + f"1,1,north,{TEXT}\n",
        "ragged": HEADER + f"1,1,north,true,{TEXT}\n",
        "quote left open": HEADER + f'1,1,"{CATEGORY},true\n',
        "beside columns not declared": HEADER.replace("\n", NOT_DECLARED)
        + f"1,1,north,{TEXT},{EXACT},{TEXT}\n",
        "missing column": f"income,food,region\n1,1,{CATEGORY}\n",
    }
    answers = []
    for name, csv in files.items():
        spec = {
            "name": name,
            "adjacency": "replace_one",
            "columns": COLUMNS,
            "budget": {"epsilon": "1"},
        }
        answer = client.post(
            "/v1/datasets", files={"file": ("f.csv", csv), "spec": (None, json.dumps(spec))}
        )
        assert answer.status_code == 422, (name, answer.text)
        answers.append(answer)
    return answers


def _account(client: httpx.Client, dataset: str) -> str:
    return str(client.get(f"/v1/datasets/{dataset}").json()["account"])


def _say_anything(client: httpx.Client, dataset: str) -> None:
    """Put the client's words wherever a request can hold some."""
    client.get(f"/{CLIENT}?{CLIENT}={CLIENT}")
    client.get(f"/v1/datasets/{CLIENT}", headers={"User-Agent": CLIENT, "X-Request-Id": CLIENT})
    client.get("/v1/datasets", headers={"Authorization": f"Bearer {CLIENT}"})
    client.get("/v1/datasets", params={"cursor": CLIENT, CLIENT: "1"})
    client.post("/v1/keys", json={"name": CLIENT, "role": "analyst"})
    client.post("/v1/keys", json={"name": CLIENT, "role": CLIENT})
    client.post("/v1/keys", content=CLIENT.encode(), headers={"Content-Type": CLIENT})
    body = {"statistic": {"kind": "mean", "columns": [CLIENT]}, "epsilon": CLIENT, CLIENT: CLIENT}
    path = f"/v1/datasets/{dataset}/releases"
    client.post(path, json=body, headers={"Idempotency-Key": CLIENT})
    client.post(path, content=b"{" + CLIENT.encode(), headers={"Content-Type": "application/json"})
    grant = {"epsilon": "1", "reason": CLIENT}
    assert client.post(f"/v1/datasets/{dataset}/grants", json=grant).status_code == 201
    with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as raw:
        raw.sendall(f"{CLIENT} {CLIENT}\r\n\r\n".encode())
        assert raw.recv(1 << 16).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_planted_cells_are_in_no_body_log_or_database(tmp_path: Path, adjacency: str) -> None:
    level = {"RELEASE_DESK_LOG_LEVEL": "debug"}
    with LiveServer(tmp_path / "data", **level) as server, server.client() as client:
        extra = {"max_rows": 1000} if adjacency == "add_remove" else {}
        dataset = upload(client, GOOD, COLUMNS, adjacency=adjacency, **extra)["id"]
        answers = _ask_everything(client, dataset) + _bad_uploads(client)
        answers += _review(
            client, COLUMNS, name="reviewed", account=_account(client, dataset),
            adjacency=adjacency, **extra,
        )  # fmt: skip
        _say_anything(client, dataset)
        metrics = client.get("/metrics")
        answers += [metrics, client.post(f"/v1/datasets/{dataset}/archive")]
        # nor does a file below the data directory keep the upload as it came
        for path in (path for path in server.data_dir.rglob("*") if path.is_file()):
            assert not re.search(f"{TEXT}|{CATEGORY}".encode(), path.read_bytes()), path.name
    assert metrics.status_code == 200
    assert not SAID.search(metrics.text)
    for answer in answers:
        text = answer.text + str(dict(answer.headers))
        assert not PLANTED.search(text), (answer.request.url.path, answer.status_code)
    log = server.log.read_text()
    assert '"event": "request"' in log
    assert not PLANTED.search(log)
    assert not SAID.search(log)
    for path in server.data_dir.rglob("*.db*"):
        assert not PLANTED.search(path.read_bytes().decode("latin-1")), path.name
