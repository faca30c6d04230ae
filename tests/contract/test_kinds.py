"""Whole numbers, dates, moments and other texts over HTTP: in, asked about, and out."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import httpx
import pytest

from tests.contract.service import ask, assert_problem, send_upload, settled, spec, upload

COLUMNS: dict[str, Any] = {
    "age": {"type": "integer", "lower": 0, "upper": 120, "label": "Age", "unit_of_measure": "y"},
    "admitted": {"type": "date", "lower": "2015-01-01", "upper": "2025-12-31"},
    "seen": {"type": "datetime", "lower": "2020-01-01", "upper": "2021-01-01T00:00:00Z"},
    "town": {"type": "category", "values": ["A", "B"], "other": "other", "missing": "other"},
}
CSV = "age;admitted;seen;town\n" + "".join(
    f"30;2018-03-01;2020-06-01T12:{i:02}:00Z;A\n70;2022-03-01;2020-06-02 12:{i:02};Z\n"
    for i in range(20)
)
SURE = "10000"


@pytest.fixture(scope="module")
def dataset(curator: httpx.Client) -> dict[str, Any]:
    """Return an uploaded data set of all kinds."""
    return upload(
        curator, CSV, columns=COLUMNS, delimiter=";", budget={"epsilon": "1000000"},
        derive={"late": 'admitted >= "2020-01-01"'},
    )  # fmt: skip


def test_the_public_facts_are_as_they_were_declared(dataset: dict[str, Any]) -> None:
    assert dataset["columns"]["age"] == {**COLUMNS["age"], "missing": "reject"}
    assert dataset["columns"]["admitted"] == {**COLUMNS["admitted"], "missing": "reject"}
    assert dataset["columns"]["seen"]["lower"] == "2020-01-01T00:00:00Z"
    assert dataset["columns"]["town"]["values"] == ["A", "B", "other"]
    assert dataset["columns"]["town"]["other"] == "other"
    assert dataset["report"]["columns"]["town"]["other"] == 20


@pytest.mark.wide
def test_a_quantile_of_whole_numbers_is_one(curator: httpx.Client, dataset: Any) -> None:
    question = {"kind": "quantile", "column": "age", "levels": [0.25, 0.75]}
    for mechanism in ("kng", "exponential"):
        found = ask(curator, dataset["id"], question, epsilon=SURE, mechanism=mechanism).json()
        assert [each["value"] for each in found["value"]["quantiles"]] == [30, 70]
        assert all(isinstance(each["value"], int) for each in found["value"]["quantiles"])
        assert found["grid"] == {"age": 1}
    rough = ask(curator, dataset["id"], question, epsilon="0.01").json()
    assert all(isinstance(each["value"], int) for each in rough["value"]["quantiles"])


def test_quantiles_and_means_of_dates_are_iso_texts(curator: httpx.Client, dataset: Any) -> None:
    question = {"kind": "quantile", "column": "admitted", "levels": [0.25]}
    found = ask(curator, dataset["id"], question, epsilon=SURE).json()
    assert found["value"]["quantiles"][0]["value"] == "2018-03-01"
    means = ask(
        curator, dataset["id"], {"kind": "mean", "columns": ["admitted", "seen", "age"]},
        epsilon=SURE,
    ).json()  # fmt: skip
    value, noise = means["value"], means["noise"]
    middle = date.fromisoformat(value["admitted"]) - date(2020, 2, 29)
    assert abs(middle.days) <= 2
    assert abs(datetime.fromisoformat(value["seen"]).timestamp() - 1591056000) < 7200
    assert abs(value["age"] - 50) < 1
    low, high = noise["interval_95"]["admitted"]
    assert low <= value["admitted"] <= high
    assert isinstance(noise["std"]["admitted"], float)


def test_a_mean_beyond_all_dates_is_the_last_or_the_first_one(
    curator: httpx.Client, dataset: Any
) -> None:
    """So much noise takes it there all but surely, and it has been paid for."""
    question = {"kind": "mean", "columns": ["admitted", "seen"]}
    answer = ask(curator, dataset["id"], question, epsilon="0.000000001")
    assert answer.status_code == 201, answer.text
    value, ends = answer.json()["value"], answer.json()["noise"]["interval_95"]
    reported = [date.fromisoformat(day) for day in (value["admitted"], *ends["admitted"])]
    assert reported[1] <= reported[0] <= reported[2]
    assert ends["seen"][0] <= value["seen"] <= ends["seen"][1]
    derived = curator.post(
        f"/v1/releases/{answer.json()['id']}/derivations",
        json={"statistic": {"kind": "mean", "columns": ["admitted"]}},
    )
    assert derived.json()["value"] == {"admitted": value["admitted"]}
    tried = curator.post(
        f"/v1/datasets/{dataset['id']}/dry-runs",
        json={"statistic": question, "epsilon": "0.000000001"},
    )
    assert tried.status_code == 200, tried.text


def test_groups_conditions_and_edges_take_iso_texts(curator: httpx.Client, dataset: Any) -> None:
    mean = {
        "kind": "mean", "columns": ["seen"],
        "where": [{"column": "admitted", "op": "<", "value": "2020-01-01"}],
    }  # fmt: skip
    found = ask(curator, dataset["id"], mean, epsilon=SURE).json()
    assert found["value"]["seen"].startswith("2020-06-01")
    by = [{"column": "admitted", "edges": ["2015-01-01", "2020-01-01", "2025-12-31"]}]
    groups = ask(
        curator, dataset["id"], {"kind": "mean", "columns": ["seen"], "by": by}, epsilon=SURE
    ).json()["value"]["groups"]
    assert [each["by"]["admitted"] for each in groups] == [
        "[2015-01-01,2020-01-01)", "[2020-01-01,2025-12-31]",
    ]  # fmt: skip
    assert [each["value"]["seen"][:10] for each in groups] == ["2020-06-01", "2020-06-02"]
    histogram = {
        "kind": "histogram", "columns": ["admitted"], "edges": {"admitted": by[0]["edges"]},
    }  # fmt: skip
    cells = ask(curator, dataset["id"], histogram, epsilon=SURE).json()["value"]["cells"]
    assert [round(each["count"]) for each in cells] == [20, 20]
    late = {"kind": "mean", "columns": ["late"]}
    assert ask(curator, dataset["id"], late, epsilon=SURE).json()["value"]["late"] == pytest.approx(
        0.5, abs=0.01
    )


def test_means_of_dates_are_derived_from_moments_and_from_means(
    curator: httpx.Client, dataset: Any
) -> None:
    for source in (
        {"kind": "moments", "columns": ["admitted", "age"]},
        {"kind": "mean", "columns": ["admitted", "age"]},
    ):
        answer = ask(curator, dataset["id"], source, epsilon=SURE)
        release = settled(curator, answer).json()["id"]
        derived = curator.post(
            f"/v1/releases/{release}/derivations",
            json={"statistic": {"kind": "mean", "columns": ["admitted"]}},
        )
        assert derived.status_code == 200, derived.text
        middle = date.fromisoformat(derived.json()["value"]["admitted"]) - date(2020, 2, 29)
        assert abs(middle.days) <= 2


def test_a_stack_holds_dates_too(curator: httpx.Client, dataset: Any) -> None:
    parts = [
        {"statistic": {"kind": "mean", "columns": ["admitted"]}},
        {"statistic": {"kind": "quantile", "column": "seen", "levels": [0.5]}},
    ]
    found = ask(curator, dataset["id"], {"kind": "stack", "parts": parts}, epsilon=SURE).json()
    first, second = found["value"]["parts"]
    assert "2020" in str(first)
    assert "2020-06" in str(second)


@pytest.mark.parametrize(
    ("statistic", "field"),
    [
        ({"kind": "count", "where": [{"column": "admitted", "op": ">", "value": 18000}]}, "where"),
        ({"kind": "count", "by": [{"column": "admitted", "edges": [17000, 18000, 19000]}]}, "by"),
        ({"kind": "count", "derive": {"late": "admitted > 18000"}}, "derive"),
        ({"kind": "count", "where": [{"column": "admitted", "op": ">", "value": "x"}]}, "where"),
        ({"kind": "count", "where": [{"column": "age", "op": ">", "value": "2020-01-01"}]}, "wh"),
        (
            {"kind": "histogram", "columns": ["admitted"], "edges": {"admitted": ["a", "b"]}},
            "edges",
        ),
        ({"kind": "histogram", "columns": ["age"], "edges": {"age": ["a", "b"]}}, "edges"),
    ],
)
def test_what_is_no_date_is_refused(
    curator: httpx.Client, dataset: Any, statistic: dict[str, Any], field: str
) -> None:
    answer = ask(curator, dataset["id"], statistic)
    problem = assert_problem(answer, 422, "invalid-request")
    assert field in problem["errors"][0]["field"]


def test_a_date_in_an_expression_is_an_iso_text(curator: httpx.Client) -> None:
    body = spec(columns=COLUMNS, delimiter=";", derive={"late": 'admitted > "soon"'})
    problem = assert_problem(send_upload(curator, CSV, body), 422, "invalid-request")
    assert "ISO 8601" in problem["errors"][0]["message"]
