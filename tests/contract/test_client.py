"""The Python client against a service: one release for one question, and answers as tables."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import polars as pl
import pytest

from app.client import AsyncDesk, Dataset, ProblemError, ReleaseDesk
from mechanisms.catalog import STATISTICS
from mechanisms.statistics.designs.scaling import is_slope
from tests.app.test_client_values import ZONES, around_changes
from tests.contract.examples import with_examples
from tests.contract.service import ADMIN_KEY, ROWS, Service, make_key, spent, upload
from tests.contract.service import spec as about


@pytest.fixture(scope="module")
def key(admin: httpx.Client) -> str:
    return str(make_key(admin, "analyst")["secret"])


@pytest.fixture(scope="module")
def desk(service: Service, key: str) -> Iterator[ReleaseDesk]:
    with ReleaseDesk(service.url, key) as found:
        yield found


@pytest.fixture
def wages(desk: ReleaseDesk, curator: httpx.Client) -> Dataset:
    return desk.dataset(upload(curator, budget={"epsilon": "100"})["name"])


@pytest.fixture(scope="module")
def rich(desk: ReleaseDesk, curator: httpx.Client) -> Dataset:
    """Return a data set with a budget for every question."""
    return desk.dataset(upload(curator, budget={"epsilon": "100"})["name"])


def test_a_cell_run_twice_is_one_release(wages: Dataset, curator: httpx.Client) -> None:
    first, second = (wages.mean("income", epsilon=0.5, by=["region"]) for _ in range(2))
    assert first.body == second.body
    assert spent(curator, wages.id) == "0.5"
    again = wages.mean("income", epsilon=0.5, by=["region"], fresh=True)
    assert again.id != first.id
    assert spent(curator, wages.id) == "1"
    assert wages.budget_left().epsilon.spent == "1"


@pytest.mark.parametrize("zone", ZONES)
def test_an_instant_comes_back_as_the_instant_it_was(
    service: Service, zone: str, curator: httpx.Client
) -> None:
    instants = around_changes(zone)
    # Fewer than 20 different rows are not compared with other people's.
    instants += [instants[-1] + timedelta(hours=more) for more in range(1, 13)]
    frame = pl.DataFrame({"at": pl.Series(instants, dtype=pl.Datetime("us", time_zone=zone))})
    ends = {"type": "datetime", "lower": "2024-01-01T00:00Z", "upper": "2025-01-01T00:00Z"}
    spec = {
        "name": f"instants in {zone}", "adjacency": "replace_one", "columns": {"at": ends},
        "budget": {"epsilon": "100000"}, "max_rows": 100,
    }  # fmt: skip
    with ReleaseDesk(service.url, curator.headers["Authorization"].split()[1]) as desk:
        people = desk.upload(frame, spec)
        for place in (0, 3, 4, 5, len(instants) - 1):
            where = {"column": "at", "op": ">=", "value": instants[place]}
            counted = people.count(where=where, epsilon=1000).value
            assert counted["count"] == len(instants) - place, instants[place]
        alone = {"column": "at", "op": "in", "value": instants[2:7]}
        assert people.count(where=alone, epsilon=1000).value["count"] == 5


def test_a_file_may_be_its_content_or_opened(service: Service) -> None:
    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        for file in (ROWS.encode(), io.BytesIO(ROWS.encode())):
            assert desk.upload(file, about()).rows == ROWS.count("\n") - 1


def test_another_person_s_question_is_another_release(
    service: Service, wages: Dataset, admin: httpx.Client
) -> None:
    mine = wages.mean("income", epsilon="0.5")
    with ReleaseDesk(service.url, make_key(admin, "analyst")["secret"]) as desk:
        theirs = desk.dataset(wages.id).mean("income", epsilon="0.5")
    assert (mine.id != theirs.id, mine.value != theirs.value) == (True, True)


def test_a_new_secret_of_a_person_finds_their_releases(
    service: Service, curator: httpx.Client, admin: httpx.Client
) -> None:
    dataset = str(upload(curator)["id"])
    first = make_key(admin, "analyst")
    body = {"name": "a new secret", "role": "analyst", "person": first["person"]}
    second = admin.post("/v1/keys", json=body).json()
    found = []
    for key in (first, second):
        with ReleaseDesk(service.url, key["secret"]) as desk:
            found.append(desk.dataset(dataset).mean("income", epsilon="0.5").body)
    assert found[0] == found[1]
    assert spent(curator, dataset) == "0.5"


def test_a_refusal_is_not_remembered(wages: Dataset, curator: httpx.Client) -> None:
    with pytest.raises(ProblemError, match="budget-exceeded"):
        wages.count(epsilon=101, where=[{"column": "owner", "op": "==", "value": True}])
    grant = {"epsilon": "100", "reason": "more"}
    assert curator.post(f"/v1/datasets/{wages.id}/grants", json=grant).is_success
    counted = wages.count(epsilon=101, where=[{"column": "owner", "op": "==", "value": True}])
    assert counted.status == "released"


def test_a_name_is_that_of_the_data_set_which_has_it_now(
    desk: ReleaseDesk, curator: httpx.Client
) -> None:
    earlier = upload(curator)
    name, id = earlier["name"], earlier["id"]
    assert curator.post(f"/v1/datasets/{id}/archive").is_success
    with pytest.raises(ProblemError, match="not-found"):
        desk.dataset(name)
    later = upload(curator, name=name)
    assert desk.dataset(name).id == later["id"]
    kept = desk.dataset(id)
    assert (kept.name, kept.status) == (name, "archived"), "it is found by its id"


NORTH = [{"column": "region", "op": "==", "value": "north"}]
BOTH = ["income", "food"]
ASKED: list[dict[str, Any]] = [
    {"kind": "count", "where": NORTH},
    {"kind": "histogram", "columns": ["region", "owner"]},
    {"kind": "covariance", "columns": BOTH},
    {"kind": "geometric_median", "columns": BOTH},
    {"kind": "logistic_regression", "target": "owner", "features": ["income"]},
    {
        "kind": "stack",
        "parts": [
            {"statistic": {"kind": "moments", "columns": BOTH}},
            {"statistic": {"kind": "quantile", "column": "food", "levels": [0.5]}, "share": 2},
        ],
    },
]


@pytest.mark.parametrize("statistic", with_examples(ASKED), ids=lambda body: str(body["kind"]))
def test_every_answer_is_a_table(rich: Dataset, statistic: dict[str, Any]) -> None:
    release, preview = rich.release(statistic, epsilon="1"), rich.preview(statistic, epsilon="1")
    rows, estimated = release.rows(), preview.rows()
    assert [row["term"] for row in estimated] == [row["term"] for row in rows[: len(estimated)]]
    # ratios and the numbers of a fit come last, and no preview has them, nor any of a test's
    assert estimated or statistic["kind"] == "test"
    further = [row for row in rows[len(estimated) :] if estimated]
    ratios = [row for row in further if row.get("statistic", "").endswith(" ratio")]
    assert all(row["std_error"] is not None for row in further if row not in ratios)
    slopes = [row["term"] for row in estimated if is_slope(row["term"])]
    assert [row["term"] for row in ratios] == (
        slopes if STATISTICS[statistic["kind"]].ratios else []
    )
    assert all(row["expected_error"] >= 0 for row in estimated)
    assert rows
    for row in rows:
        assert row["term"]
        # what is at the edge of what is possible cannot be said, and says so
        assert isinstance(row["value"], int | float) or row["note"]
        if row["noise"] is not None:
            assert row["noise_low"] <= row["noise_high"]
    assert any(row["noise"] is not None for row in rows) == (release.noise is not None)


def test_groups_are_rows(rich: Dataset) -> None:
    rows = rich.mean("income", "food", epsilon="1", by=["region", "owner"]).rows()
    assert [(row["region"], row["owner"], row["term"]) for row in rows] == [
        (region, owner, term)
        for region in ("north", "south")
        for owner in ("false", "true")
        for term in ("income", "food")
    ]
    assert all(row["noise"] > 0 for row in rows)


def test_the_asynchronous_desk_does_the_same(service: Service, wages: Dataset, key: str) -> None:
    async def both() -> list[str]:
        async with AsyncDesk(service.url, key) as desk:
            theirs = await desk.dataset(wages.name)
            asked = (theirs.mean(column, epsilon="0.5") for column in ("income", "food"))
            return [each.id for each in await asyncio.gather(*asked)]

    assert asyncio.run(both()) == [wages.mean(c, epsilon="0.5").id for c in ("income", "food")]
