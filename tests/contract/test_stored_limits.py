"""What a question may weigh, and what a person may have stored: refused before any charge."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import httpx

from tests.contract.service import (
    assert_problem,
    make_key,
    running,
    upload,
)

MOST = 60_000


def filtered(values: int) -> dict[str, Any]:
    """Return a count of 20 conditions of so many values each."""
    among = [round(7 * value / 1000, 3) for value in range(values)]
    where = [{"column": "income", "op": "in", "value": among}] * 20
    return {"statistic": {"kind": "count", "where": where}, "epsilon": "0.001"}


def ask(client: httpx.Client, dataset: str, key: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"Idempotency-Key": key}
    return client.post(f"/v1/datasets/{dataset}/releases", json=body, headers=headers)


def stored(data_dir: Path) -> int:
    """Return how many bytes of releases are in the database."""
    with sqlite3.connect(data_dir / "release-desk.db") as connection:
        (found,) = connection.execute(
            "SELECT sum(length(request) + length(plan) + coalesce(length(result), 0)) FROM release"
        ).fetchone()
    return int(found)


def test_a_question_has_a_bound_that_everyday_ones_never_meet(
    admin: httpx.Client, dataset: str
) -> None:
    spent = admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"]
    for path in ("releases", "previews", "dry-runs"):
        headers = {"Idempotency-Key": "a large one"}
        refused = admin.post(
            f"/v1/datasets/{dataset}/{path}", json=filtered(1_000), headers=headers
        )
        problem = assert_problem(refused, 413, "too-large")
        assert (problem["limit"], problem["maximum"]) == ("max_question_bytes", 65_536)
    assert admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"] == spent
    assert ask(admin, dataset, "a thousand values", filtered(50)).status_code == 201


def test_reserving_and_withdrawing_stores_no_more_than_a_day_s_bytes(tmp_path: Path) -> None:
    """Nor does a restart give any back."""

    def reserve_all(client: httpx.Client, begin: int) -> list[dict[str, Any]]:
        held: list[dict[str, Any]] = []
        while (answer := ask(client, dataset, f"{begin + len(held)}", body)).status_code == 202:
            held.append(answer.json())
            withdrawn = client.post(f"/v1/releases/{held[-1]['id']}/withdrawal")
            assert withdrawn.is_success, withdrawn.text
        problem = assert_problem(answer, 429, "too-much-stored")
        assert problem["limit"] == "max_stored_bytes_per_day"
        assert int(answer.headers["Retry-After"]) == problem["retry_after"] <= 86_401
        return held

    body, place = filtered(40), tmp_path / "data"
    with running(place, max_stored_bytes_per_day=MOST) as service, service.client() as admin:
        dataset = upload(admin, policy={"review": "always"})["id"]
        key = make_key(admin, "analyst")["secret"]
        with service.client(key) as analyst:
            held = reserve_all(analyst, 0)
            assert len(held) >= 3
            assert stored(place) <= MOST
            # what was asked before is found again, and the admin is somebody else
            again = ask(analyst, dataset, "0", body)
            assert_problem(again, 409, "release-closed")
            assert ask(admin, dataset, "mine", body).status_code == 202
    with running(place, max_stored_bytes_per_day=MOST) as service, service.client(key) as analyst:
        assert reserve_all(analyst, len(held)) == []
    with running(place, max_stored_bytes_per_day=0) as service, service.client(key) as analyst:
        for number in range(24):
            assert ask(analyst, dataset, f"any number {number}", body).status_code == 202
    assert stored(place) > MOST, "the twin without a limit stores more"
