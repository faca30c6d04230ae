"""A desk in use: data sets, people, and a release in every state that a page shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.contract.service import ADMIN_KEY, Service, ask, make_key, settled, upload

LONG = "A survey with a very long name of households, their rooms and what they eat, " + "2025" * 5
ENGEL = Path(__file__).parents[2] / "app" / "demo_data" / "engel.csv"
_COLUMNS: Mapping[str, Any] = {
    "income": {"type": "number", "lower": 0, "upper": 5000, "unit_of_measure": "francs a year"},
    "foodexp": {"type": "number", "lower": 0, "upper": 2500, "unit_of_measure": "francs a year"},
}
_MEAN: Mapping[str, Any] = {"kind": "mean", "columns": ["income", "foodexp"]}
_LINE: Mapping[str, Any] = {
    "kind": "linear_regression", "target": "foodexp", "features": ["income"],
}  # fmt: skip
_MEDIAN: Mapping[str, Any] = {"kind": "quantile", "column": "income", "levels": [0.5]}
ASKED = (
    "statistic=linear_regression&target=foodexp&features=income&wanted=epsilon&epsilon=0.5"
    "&act=preview"
)


@dataclass(frozen=True)
class Desk:
    """The keys of its people by name, and the addresses of its pages by what they show."""

    keys: Mapping[str, str]
    pages: Mapping[str, str]


def furnish(service: Service) -> Desk:
    """Upload, ask, review and publish."""
    with service.client() as admin:
        names = {"Ada Lovelace": "analyst", "Grace Hopper": "curator", "Mary Cartwright": "curator"}
        made = {name: make_key(admin, role, name) for name, role in names.items()}
        keys = {name: str(key["secret"]) for name, key in made.items()}
        revocation = f"/desk/keys/{made['Mary Cartwright']['id']}/revocation"
        with (
            service.client(keys["Grace Hopper"]) as grace,
            service.client(keys["Ada Lovelace"]) as ada,
        ):
            pages = {**_pages(grace, ada), "revocation": revocation}
            return Desk({"admin": ADMIN_KEY, **keys}, pages)


def _pages(curator: httpx.Client, analyst: httpx.Client) -> Mapping[str, str]:
    old = upload(curator, name=LONG, adjacency="add_remove", max_rows=100)["id"]
    assert curator.post(f"/v1/datasets/{old}/archive").status_code < 300
    dataset = upload(
        curator,
        ENGEL.read_bytes(),
        name="Belgian households, 1857",
        description="235 working-class households; income and what they spent on food.",
        columns=_COLUMNS,
        budget={"epsilon": "3"},
        policy={"review": "above:0.5"},
    )["id"]
    public = _released(analyst, dataset, _LINE, "Figure 2 of the yearly report")
    gone = _released(analyst, dataset, _MEDIAN, "A first look")
    other = _released(analyst, dataset, _LINE, "At a tenth", epsilon="0.1")
    for release in (public, gone):
        _publish(curator, release)
    note = {"note": "Asked of the wrong column; see the figure of the yearly report."}
    withdrawn = curator.post(f"/v1/releases/{gone}/publication/withdrawal", json=note)
    assert withdrawn.status_code == 200, withdrawn.text
    reserved = [
        _waiting(analyst, dataset, question)
        for question in (_MEAN, _LINE, {**_MEDIAN, "levels": [0.1, 0.9]})
    ]
    _decide(curator, reserved[1], "request_changes", "Half of this price would do.")
    _decide(curator, reserved[2], "reject", "The protocol asks for no extremes.")
    comment = curator.post(f"/v1/releases/{reserved[1]}/comments", json={"text": "See the sheet."})
    assert comment.status_code == 201, comment.text
    grant = {"epsilon": "1", "reason": "The second year of the study"}
    assert curator.post(f"/v1/datasets/{dataset}/grants", json=grant).status_code < 300
    here, grown = f"/desk/datasets/{dataset}", f"/desk/datasets/{_grown(curator)}"
    return {
        "versions": grown, "add-rows": f"{grown}/versions",
        "home": "/desk", "audit": "/desk/audit", "data-set": here, "edit": f"{here}/edit",
        "ask": f"{here}/ask", "preview": f"{here}/ask?{ASKED}",
        "grant": f"{here}/grants", "caps": f"{here}/caps", "access": f"{here}/access",
        "archive": f"{here}/archive", "archived": f"/desk/datasets/{old}",
        "derive": f"/desk/releases/{public}/derive",
        "comparison": f"/desk/releases/{public}/comparison/{other}",
        "release": f"/desk/releases/{public}", "waiting": f"/desk/releases/{reserved[0]}",
        "changes": f"/desk/reviews/{reserved[1]}",
        "revision": f"/desk/reviews/{reserved[1]}/revision",
        "rejected": f"/desk/releases/{reserved[2]}",
        "review": f"/desk/reviews/{reserved[0]}",
        "plan": f"/desk/study-plans/{_planned(analyst, dataset)}",
        "plan-changes": f"/desk/study-plans/{_changing(curator, analyst, dataset)}",
        "public": f"/public/releases/{public}", "tombstone": f"/public/releases/{gone}",
        "certificate": f"/public/releases/{public}/certificate",
    }  # fmt: skip


def _planned(analyst: httpx.Client, dataset: str) -> str:
    """Return a study plan that waits for its review."""
    questions = [{"statistic": each, "epsilon": "0.6"} for each in (_MEAN, _LINE)]
    body = {"dataset": dataset, "name": "Tables 1 and 2", "questions": questions}
    made = analyst.post("/v1/study-plans", json=body)
    assert made.status_code == 201, made.text
    plan = str(made.json()["id"])
    assert analyst.post(f"/v1/study-plans/{plan}/request").status_code == 200
    return plan


def _changing(curator: httpx.Client, analyst: httpx.Client, dataset: str) -> str:
    """Return a study plan whose reviewers want changes for the second time."""
    plan = _planned(analyst, dataset)
    place = f"/v1/study-plans/{plan}"
    for reason, epsilon in (("Half of this price would do.", "0.55"), ("Still less.", "0.52")):
        body = {"decision": "request_changes", "reason": reason}
        tag = {"If-Match": curator.get(place).headers["ETag"]}
        assert curator.post(f"{place}/decision", json=body, headers=tag).status_code == 200
        questions = [{"statistic": each, "epsilon": epsilon} for each in (_MEAN, _LINE)]
        edited = {"name": "Tables 1 and 2", "questions": questions}
        assert analyst.put(place, json=edited).status_code == 200
        comment = {"text": f"Would {epsilon} be right for the first table?"}
        assert analyst.post(f"{place}/comments", json=comment).status_code == 201
        if reason != "Still less.":
            assert analyst.post(f"{place}/request").status_code == 200
    return plan


def _grown(curator: httpx.Client) -> str:
    """Return the third version of a data set with a long name."""
    column = {"wage": {"type": "integer", "lower": 0, "upper": 10_000}}
    dataset = upload(curator, _wages(0), name=f"{LONG[:90]}, again", columns=column)["id"]
    for part, name in ((1, "Wages, the second year"), (2, f"{LONG[:80]}, and once again")):
        files = {
            "spec": (None, json.dumps({"name": name}), "application/json"),
            "file": ("wages.csv", _wages(part), "text/csv"),
        }
        made = curator.post(f"/v1/datasets/{dataset}/versions", files=files)
        assert made.status_code == 201, made.text
        dataset = made.json()["id"]
    return str(dataset)


def _wages(part: int) -> bytes:
    return b"wage\n" + b"".join(b"%d\n" % (1000 * part + 7 * at) for at in range(100))


def _released(
    analyst: httpx.Client, dataset: str, question: Any, purpose: str, epsilon: str = "0.5"
) -> str:
    answer = settled(analyst, ask(analyst, dataset, question, epsilon=epsilon, purpose=purpose))
    assert answer.json()["status"] == "released", answer.text
    return str(answer.json()["id"])


def _waiting(analyst: httpx.Client, dataset: str, question: Any) -> str:
    answer = ask(analyst, dataset, question, epsilon="0.6", purpose="Table 3, by the end of May")
    assert answer.json()["status"] == "awaiting_review", answer.text
    return str(answer.json()["id"])


def _publish(curator: httpx.Client, release: str) -> None:
    reason = {"reason": "For the yearly report"}
    path, seen = f"/v1/releases/{release}/publication", {"If-Match": "*"}
    answer = curator.post(path, json=reason, headers=seen)
    assert answer.status_code == 201, answer.text


def _decide(curator: httpx.Client, release: str, decision: str, reason: str) -> None:
    seen = {"If-Match": curator.get(f"/v1/releases/{release}").headers["etag"]}
    body = json.dumps({"decision": decision, "reason": reason})
    headers = {**seen, "Content-Type": "application/json"}
    answer = curator.post(f"/v1/releases/{release}/decision", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
