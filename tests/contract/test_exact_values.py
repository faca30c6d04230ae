"""What a file holds is what is compared, over HTTP: columns of every type, wider than any code."""

from __future__ import annotations

import io
from typing import Any

import httpx
import polars as pl
import pytest

from tests.contract.service import ask, upload

# At this epsilon noise rounds to nothing: what is answered is what was counted.
EPSILON = "1000"

WIDE = {
    "income": {"type": "integer", "lower": 0, "upper": 30_000_000},
    "balance": {"type": "number", "lower": -(10**6), "upper": 10**9},
    "tract": {"type": "integer", "lower": 0, "upper": 99_999_999_999},
    "large": {"type": "integer", "lower": 0, "upper": 9_007_199_254_740_999},
    "seen": {"type": "datetime", "lower": "1990-01-01", "upper": "2030-01-01"},
}
ROWS = (
    [(0, 0.0, 6_037_101_110, 9_007_199_254_740_993, "2020-01-01T00:00:00Z")] * 100
    + [(1, 0.4, 6_037_101_111, 9_007_199_254_740_992, "2020-01-01T00:00:01Z")] * 50
    + [(2, 0.6, 6_037_101_120, 9_007_199_254_740_994, "2020-01-01T00:00:02Z")] * 50
    + [(3, 1.0, 6_037_101_122, 0, "2020-01-01T00:01:00Z")] * 50
    + [(41_000, 41_000.5, 1, 1, "2029-12-31T23:59:59Z")] * 150
)


def csv_file() -> bytes:
    lines = [",".join(map(str, row)) for row in ROWS]
    return "\n".join([",".join(WIDE), *lines, ""]).encode()


def parquet_file() -> bytes:
    buffer = io.BytesIO()
    frame = pl.DataFrame(ROWS, schema=list(WIDE), orient="row")
    frame.with_columns(pl.col("seen").str.to_datetime("%+")).write_parquet(buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module", params=[csv_file, parquet_file])
def wide(request: pytest.FixtureRequest, admin: httpx.Client) -> str:
    made = upload(
        admin,
        request.param(),
        columns=WIDE,
        budget={"epsilon": "1000000"},
        policy={},
        derive={"poor": "income < 3"},
        overlap={"reason": "the same rows in two formats"},
    )
    return str(made["id"])


def value_of(client: httpx.Client, dataset: str, **statistic: Any) -> Any:
    answer = ask(client, dataset, statistic=statistic, epsilon=EPSILON)
    assert answer.status_code == 201, answer.text
    return answer.json()["value"]


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (("income", "==", 0), 100),
        (("income", ">", 0), 300),
        (("income", ">", 0.5), 300),
        (("income", "in", [1, 3]), 100),
        (("balance", "==", 0), 100),
        (("balance", ">", 0.5), 250),
        (("balance", "<=", 0.6), 200),
        (("tract", "==", 6_037_101_111), 50),
        (("large", "==", 9_007_199_254_740_993), 100),
        (("large", ">", 9_007_199_254_740_992), 150),
        (("seen", "==", "2020-01-01T00:00:01Z"), 50),
        (("seen", ">=", "2020-01-01T00:00:02Z"), 250),
        (("poor", "==", True), 200),
    ],
)
def test_a_condition_counts_exactly(
    curator: httpx.Client, wide: str, condition: tuple[str, str, Any], count: int
) -> None:
    where = [dict(zip(("column", "op", "value"), condition, strict=True))]
    assert value_of(curator, wide, kind="count", where=where) == {"count": count}


def test_columns_derived_in_a_question_compare_exactly(curator: httpx.Client, wide: str) -> None:
    derive = {"few": "income < 3", "same": "tract == 6037101111 or seen >= '2029-12-31'"}
    found = value_of(curator, wide, kind="mean", columns=["few", "same"], derive=derive)
    assert found == pytest.approx({"few": 0.5, "same": 0.5}, abs=1e-4)


def test_groups_and_cells_are_cut_exactly_and_say_what_they_hold(
    curator: httpx.Client, wide: str
) -> None:
    asked = {"columns": ["income"], "edges": {"income": [1, 2, 3, 4]}}
    cells = value_of(curator, wide, kind="histogram", **asked)["cells"]
    assert [(each["cell"]["income"], each["count"]) for each in cells] == [
        ("< 1", 100), ("[1,2)", 50), ("[2,3)", 50), ("[3,4)", 50), (">= 4", 150),
    ]  # fmt: skip
    inside = value_of(curator, wide, kind="histogram", outside="drop", **asked)["cells"]
    assert [(each["cell"]["income"], each["count"]) for each in inside] == [
        ("[1,2)", 50), ("[2,3)", 50), ("[3,4]", 50),
    ]  # fmt: skip
    bands = {"column": "seen", "edges": ["2020-01-01", "2020-01-01T00:00:02Z", "2025-01-01"]}
    groups = value_of(curator, wide, kind="count", by=[bands])["groups"]
    assert [each["value"]["count"] for each in groups] == [0, 150, 100, 150]
    assert groups[0]["by"]["seen"] == "< 2020-01-01T00:00:00Z"
    assert groups[-1]["by"]["seen"] == ">= 2025-01-01T00:00:00Z"
    dropped = value_of(curator, wide, kind="count", by=[bands | {"outside": "drop"}])["groups"]
    assert [each["value"]["count"] for each in dropped] == [150, 100]


def test_quantiles_of_whole_numbers_are_whole_numbers_that_occur(
    curator: httpx.Client, wide: str
) -> None:
    found = value_of(curator, wide, kind="quantile", column="income", levels=[0.3, 0.6])
    assert [each["value"] for each in found["quantiles"]] == [1, 3]
    found = value_of(curator, wide, kind="quantile", column="seen", levels=[0.3])
    assert found["quantiles"][0]["value"] == "2020-01-01T00:00:01Z"


def test_a_clipped_mean_has_its_bounds_in_the_details(curator: httpx.Client, wide: str) -> None:
    asked = {"kind": "mean", "columns": ["income"], "clip": "private"}
    answer = ask(curator, wide, statistic=asked, epsilon="2").json()
    assert answer["statistic"]["clip"] == "private"
    clip = answer["details"]["clip"]
    assert (clip["share"], clip["epsilon"], clip["records_beyond"]) == ("0.5", "1", 20)
    upper = clip["bounds"]["income"]["upper"]
    assert clip["bounds"]["income"]["lower"] == 0 < upper <= 30_000_000
    assert answer["guarantee"]["epsilon"] == "2"
    # at epsilon 1: Laplace, of one record that moves from one bound to the other
    assert answer["noise"]["std"]["income"] == pytest.approx(2**0.5 * upper / 400, rel=0.02)
    stated = {**asked, "clip": {"lower": 0, "upper": 10}}
    found = ask(curator, wide, statistic=stated, epsilon=EPSILON).json()
    assert found["value"]["income"] == pytest.approx((50 + 100 + 150 + 1500) / 400, abs=0.01)
    assert found["details"]["clip"]["bounds"] == {"income": {"lower": 0, "upper": 10}}
    groups = {**asked, "by": ["poor"]}
    grouped = ask(curator, wide, statistic=groups, epsilon="2").json()
    assert [len(each["bounds"]) for each in grouped["details"]["clip"]["groups"]] == [1, 1]
    crossed = {**asked, "clip": {"lower": 5, "upper": 1}}
    refused = ask(curator, wide, statistic=crossed, epsilon="2")
    assert refused.status_code in (400, 422)
    assert "lower must be below upper" in refused.text


def test_each_value_and_each_step_may_be_a_cell(curator: httpx.Client) -> None:
    columns = {"age": {"type": "integer", "lower": 1, "upper": 5}}
    rows = "age\n" + "".join(f"{1 + row % 5}\n" for row in range(25))
    made = upload(
        curator, rows, columns=columns, budget={"epsilon": "1000000"}, policy={}, derive={}
    )
    asked = {"kind": "histogram", "columns": ["age"]}
    cells = value_of(curator, made["id"], **asked, edges={"age": "values"})["cells"]
    assert [(each["cell"]["age"], each["count"]) for each in cells] == [
        ("1", 5), ("2", 5), ("3", 5), ("4", 5), ("5", 5),
    ]  # fmt: skip
    cells = value_of(curator, made["id"], **asked, edges={"age": {"step": 2}})["cells"]
    assert [(each["cell"]["age"], each["count"]) for each in cells] == [
        ("[1,3)", 10), ("[3,5)", 10), ("[5,5]", 5),
    ]  # fmt: skip
