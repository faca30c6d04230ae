"""Missing cells over HTTP: what is kept is left out, what is filled in is named, all of it said."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.contract.service import ask, assert_problem, send_upload, settled, spec, upload

ROWS = 300
SURE = "10000"
COLUMNS: dict[str, Any] = {
    "income": {"type": "number", "lower": 0, "upper": 100, "missing": "keep"},
    "rent": {"type": "number", "lower": 0, "upper": 50, "missing": -7},
    "sex": {"type": "category", "values": ["f", "m"], "missing": "keep", "na": ["?"]},
    "seen": {"type": "date", "lower": "2020-01-01", "upper": "2021-01-01", "missing": "keep"},
    "owner": {"type": "boolean", "missing": "keep"},
    "age": {"type": "integer", "lower": 0, "upper": 120},
}
DERIVE = {
    "double": "2 * income",
    "lacks": "income is missing",
    "no_rent": "rent is missing",
    "after_rent": "income - rent",
}


class Truth:
    """The cells of some people, by column; None where a cell is missing."""

    def __init__(self, tag: str) -> None:
        draw = random.Random(tag)

        def column(share: float, value: Callable[[], Any]) -> list[Any]:
            return [None if draw.random() < share else value() for _ in range(ROWS)]

        self.income = column(0.3, lambda: round(draw.uniform(10, 90), 3))
        self.rent = column(0.25, lambda: round(draw.uniform(5, 45), 3))
        self.sex = column(0.2, lambda: draw.choice("fm"))
        self.seen = column(
            0.15, lambda: f"2020-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
        )
        self.owner = column(0.1, lambda: draw.random() < 0.5)
        self.age = column(0, lambda: draw.randint(0, 99))
        self.present = [each for each in self.income if each is not None]

    def file(self) -> str:
        """The rows as CSV; a category's missing cells have a marker or nothing."""
        sexes = [each or ("?" if row % 2 else "") for row, each in enumerate(self.sex)]
        cells = zip(self.income, self.rent, sexes, self.seen, self.owner, self.age, strict=True)
        lines = [",".join("" if cell is None else str(cell) for cell in row) for row in cells]
        return "\n".join(["income,rent,sex,seen,owner,age", *lines, ""])


TRUTHS = {name: Truth(name) for name in ("replace_one", "add_remove")}


OF_SOME = (
    "Records without a value of income are left out of the numbers that use it, and of no others."
)


@pytest.fixture(scope="module", params=[*TRUTHS])
def dataset(request: pytest.FixtureRequest, curator: httpx.Client) -> dict[str, Any]:
    return upload(
        curator,
        TRUTHS[request.param].file(),
        columns=COLUMNS,
        derive=DERIVE,
        adjacency=request.param,
        max_rows=1000 if request.param == "add_remove" else None,
        budget={"epsilon": "1000000"},
    )


@pytest.fixture
def truth(dataset: dict[str, Any]) -> Truth:
    return TRUTHS[dataset["adjacency"]]


def answered(client: httpx.Client, dataset: dict[str, Any], statistic: Any) -> dict[str, Any]:
    answer = settled(client, ask(client, dataset["id"], statistic, epsilon=SURE))
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


def preview(client: httpx.Client, dataset: dict[str, Any], statistic: Any) -> dict[str, Any]:
    answer = client.post(
        f"/v1/datasets/{dataset['id']}/previews", json={"statistic": statistic, "epsilon": "1"}
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_what_is_kept_is_counted_and_declared(dataset: dict[str, Any], truth: Truth) -> None:
    assert dataset["columns"]["income"]["missing"] == "keep"
    counts = dataset["report"]["columns"]
    assert counts["income"]["missing"] == truth.income.count(None)
    assert counts["sex"]["missing"] == truth.sex.count(None)
    assert (counts["rent"]["missing"], counts["rent"]["filled"]) == (0, truth.rent.count(None))
    assert dataset["report"]["rows_dropped"] == 0
    if dataset["adjacency"] == "replace_one":
        assert dataset["rows"] == ROWS


def test_an_answer_leaves_out_records_without_a_value_and_says_so(
    curator: httpx.Client, dataset: dict[str, Any], truth: Truth
) -> None:
    mean = {"kind": "mean", "columns": ["income"]}
    body = answered(curator, dataset, mean)
    assert body["value"]["income"] == pytest.approx(statistics.mean(truth.present), abs=0.1)
    said = ["Records without a value of income are left out."]
    for reported in (body, preview(curator, dataset, mean)):
        assert reported["excludes_missing"] == ["income"]
        assert reported["about_missing"] == said
        assert "fills" not in reported
    assert "private" in body["guarantee"]["reduction"] or dataset["adjacency"] == "add_remove"
    both = {"kind": "mean", "columns": ["age", "income"], "where": [
        {"column": "owner", "op": "==", "value": True}
    ]}  # fmt: skip
    whole = [i for i in range(ROWS) if truth.income[i] is not None and truth.owner[i]]
    body = answered(curator, dataset, both)
    assert body["value"]["age"] == pytest.approx(
        statistics.mean(truth.age[i] for i in whole), abs=0.1
    )
    assert body["excludes_missing"] == ["income", "owner"]
    own = {**both, "where": [], "missing": "available"}
    body = answered(curator, dataset, own)
    assert body["value"]["age"] == pytest.approx(statistics.mean(truth.age), abs=0.1)
    assert body["statistic"]["missing"] == "available"
    assert "number is about the records that have a value of it" in body["about_missing"][0]
    plain = answered(curator, dataset, {"kind": "mean", "columns": ["age"]})
    assert not plain.keys() & {"excludes_missing", "about_missing", "fills"}
    assert "missing" not in plain["statistic"]


def test_conditions_and_derived_columns_ask_for_missing_cells(
    curator: httpx.Client, dataset: dict[str, Any], truth: Truth
) -> None:
    def count(*where: Any, **more: Any) -> float:
        asked = {"kind": "count", "where": where, **more}
        return float(round(answered(curator, dataset, asked)["value"]["count"]))

    lacking = truth.income.count(None)
    assert count({"column": "income", "op": "present"}) == len(truth.present)
    assert count({"column": "income", "op": "missing"}) == lacking
    assert count({"column": "double", "op": "missing"}) == lacking
    assert count({"column": "income", "op": ">=", "value": 0}) == len(truth.present)
    assert count({"column": "sex", "op": "!=", "value": "f"}) == truth.sex.count("m")
    assert count({"column": "seen", "op": ">=", "value": "2020-01-01"}) == ROWS - truth.seen.count(
        None
    )
    assert count({"column": "lacks", "op": "==", "value": True}) == lacking
    assert count({"column": "no_rent", "op": "==", "value": True}) == truth.rent.count(None)
    derive = {"here": "double is not missing and age >= 0"}
    assert count({"column": "here", "op": "==", "value": True}, derive=derive) == len(truth.present)
    median = answered(curator, dataset, {"kind": "quantile", "column": "income", "levels": [0.5]})
    middle = statistics.median(truth.present)
    assert median["value"]["quantiles"][0]["value"] == pytest.approx(middle, abs=1.5)
    made = answered(curator, dataset, {"kind": "mean", "columns": ["double"]})
    assert made["value"]["double"] == pytest.approx(2 * statistics.mean(truth.present), abs=0.2)
    assert made["excludes_missing"] == ["double"]
    fit = {"kind": "linear_regression", "formula": "age ~ income + sex"}
    answer = ask(curator, dataset["id"], fit, epsilon="100", mechanism="functional")
    assert sorted(settled(curator, answer).json()["excludes_missing"]) == ["income", "sex"]


def test_a_category_may_count_its_missing_cells(
    curator: httpx.Client, dataset: dict[str, Any], truth: Truth
) -> None:
    table = {"kind": "histogram", "columns": ["sex"]}
    counts = [truth.sex.count("f"), truth.sex.count("m"), truth.sex.count(None)]
    body = answered(curator, dataset, table)
    assert [round(cell["count"]) for cell in body["value"]["cells"]] == counts[:2]
    assert body["excludes_missing"] == ["sex"]
    body = answered(curator, dataset, {**table, "missing": "cell"})
    assert [round(cell["count"]) for cell in body["value"]["cells"]] == counts
    assert body["value"]["cells"][2]["cell"] == {"sex": "missing"}
    assert "excludes_missing" not in body
    by = {"kind": "mean", "columns": ["age"], "by": ["sex"], "missing": "cell"}
    groups = answered(curator, dataset, by)["value"]["groups"]
    assert [group["by"]["sex"] for group in groups] == ["f", "m", "missing"]
    crossed = {"kind": "histogram", "columns": ["owner", "sex"], "missing": "cell"}
    body = answered(curator, dataset, crossed)
    assert len(body["value"]["cells"]) == 6
    assert body["excludes_missing"] == ["owner"]


def test_a_fill_is_named_wherever_it_is_used_and_warned_of_at_a_bound(
    curator: httpx.Client, dataset: dict[str, Any], truth: Truth
) -> None:
    said = "rent: missing values count as 0, its lower bound."
    for statistic in (
        {"kind": "mean", "columns": ["rent"]},
        {"kind": "mean", "columns": ["age"], "where": [{"column": "rent", "op": "<", "value": 9}]},
        {"kind": "mean", "columns": ["it"], "derive": {"it": "rent + age"}},
        {"kind": "count", "by": [{"column": "rent", "edges": [0, 10, 50]}]},
        {"kind": "mean", "columns": ["after_rent"]},
    ):
        # what is below the bounds is clamped, a fill too: it is named as it is stored
        for reported in (
            answered(curator, dataset, statistic),
            preview(curator, dataset, statistic),
        ):
            assert reported["fills"] == {"rent": 0}
            assert said in reported["about_missing"]
            assert reported["usefulness"]["verdict"] != "good"
            assert "rent as 0, its lower bound" in reported["usefulness"]["sentence"]
    dry = curator.post(
        f"/v1/datasets/{dataset['id']}/dry-runs",
        json={"statistic": {"kind": "mean", "columns": ["rent"]}, "epsilon": "1"},
    ).json()
    assert said in dry["about_missing"]
    # only whether there is one is asked: no fill is used
    body = answered(curator, dataset, {"kind": "mean", "columns": ["no_rent"]})
    assert "about_missing" not in body
    parts = [
        {"statistic": {"kind": "mean", "columns": [name]}} for name in ("rent", "income", "age")
    ]
    body = answered(curator, dataset, {"kind": "stack", "parts": parts})
    assert body["excludes_missing"] == ["income"]
    assert body["about_missing"] == [OF_SOME, said]
    both = [parts[1], {"statistic": {"kind": "std", "columns": ["income"]}}]
    body = answered(curator, dataset, {"kind": "stack", "parts": both})
    assert body["about_missing"] == ["Records without a value of income are left out."]
    # a table's rows are of all records, but those of a column that has missing values
    body = answered(curator, dataset, {"kind": "summary", "columns": ["income", "age"]})
    assert body["about_missing"] == [OF_SOME]
    moments = answered(curator, dataset, {"kind": "moments", "columns": ["rent", "income"]})
    derived = curator.post(
        f"/v1/releases/{moments['id']}/derivations",
        json={"statistic": {"kind": "mean", "columns": ["rent", "income"]}},
    ).json()
    assert derived["excludes_missing"] == ["income"]
    assert said in derived["about_missing"]


def test_rows_that_come_later_keep_their_missing_cells(curator: httpx.Client) -> None:
    first, more = Truth("first"), Truth("more")
    reported = upload(
        curator, first.file(), columns=COLUMNS, derive=DERIVE, budget={"epsilon": "1000000"}
    )
    later = curator.post(
        f"/v1/datasets/{reported['id']}/versions",
        files={"file": ("rows.csv", more.file()), "spec": (None, "{}")},
    )
    assert later.status_code == 201, later.text
    for name in ("income", "sex"):
        where = [{"column": name, "op": "missing"}]
        body = answered(curator, later.json(), {"kind": "count", "where": where})
        lacking = [*getattr(first, name), *getattr(more, name)].count(None)
        assert round(body["value"]["count"]) == lacking
    table = {"kind": "histogram", "columns": ["sex"], "missing": "cell"}
    cells = answered(curator, later.json(), table)["value"]["cells"]
    assert [round(cell["count"]) for cell in cells] == [
        [*first.sex, *more.sex].count(each) for each in ("f", "m", None)
    ]


def test_what_people_lack_is_what_none_of_their_rows_has(curator: httpx.Client) -> None:
    columns = {
        name: {"type": "number", "lower": 1, "upper": 100, "missing": "keep"}
        for name in ("total", "mean", "first", "last", "least")
    }
    cells = [(1, ""), (1, 4), (1, 6), (2, ""), (2, ""), (3, 9), (3, "")]
    others = range(4, 250)  # so many that they may be compared with other people's data
    cells += [(who, "") for who in others]
    text = "who,total,mean,first,last,least\n" + "".join(
        f"lacking-{who},{cell},{cell},{cell},{cell},{cell}\n" for who, cell in cells
    )
    body = upload(
        curator,
        text,
        columns=columns,
        adjacency="add_remove",
        max_rows=1000,
        budget={"epsilon": "1000000"},
        unit={
            "column": "who",
            "reduce": {"total": "sum", "mean": "mean", "first": "first", "least": "min"},
        },
    )
    assert body["report"]["columns"]["total"] == {
        "values": 2, "filled": 0, "unreadable": 0, "clamped_low": 0, "clamped_high": 0,
        "other": 0, "missing": 1 + len(others), "like_thousands": 0, "future": 0,
    }  # fmt: skip
    wanted = {"total": [10, 9], "mean": [5, 9], "first": [4, 9], "last": [6, 9], "least": [4, 9]}
    for name, values in wanted.items():
        found = answered(curator, body, {"kind": "mean", "columns": [name]})
        assert found["value"][name] == pytest.approx(statistics.mean(values), abs=0.1), name


@pytest.mark.parametrize(
    ("statistic", "place"),
    [
        ({"kind": "count", "where": [{"column": "age", "op": "missing"}]}, "where[0]"),
        ({"kind": "count", "where": [{"column": "income", "op": "present", "value": 1}]}, "where"),
        ({"kind": "moments", "columns": ["age", "income"], "missing": "available"}, "missing"),
        ({"kind": "histogram", "columns": ["owner"], "missing": "cell"}, "missing"),
        ({"kind": "mean", "columns": ["income"], "missing": "impute"}, "missing"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_its_place(
    curator: httpx.Client, dataset: dict[str, Any], statistic: Any, place: str
) -> None:
    body = assert_problem(ask(curator, dataset["id"], statistic), 422, "invalid-request")
    assert any(place in each["field"] for each in body["errors"]), body


def test_a_column_keeps_rejects_drops_or_fills(curator: httpx.Client) -> None:
    columns = {"income": {"type": "number", "lower": 0, "upper": 1, "missing": "kept"}}
    body = assert_problem(send_upload(curator, "income\n1\n", spec(columns=columns)), 422)
    assert "keep" in str(body)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_count_of_missing_values_is_judged_by_what_was_counted(
    curator: httpx.Client, adjacency: str
) -> None:
    truth = Truth(f"counted under {adjacency}")
    rows = {"max_rows": 1000} if adjacency == "add_remove" else {}
    dataset = upload(
        curator, truth.file(), columns=COLUMNS, derive=DERIVE, adjacency=adjacency,
        budget={"epsilon": "1000000"}, **rows,
    )  # fmt: skip
    asked = {"kind": "count", "where": [{"column": "income", "op": "missing"}]}
    before = preview(curator, dataset, asked)["usefulness"]
    assert before["verdict"] == "depends", before
    assert "Nothing is stated of income" in before["sentence"]
    after = answered(curator, dataset, asked)
    assert after["value"]["count"] > 20
    assert after["usefulness"]["verdict"] == "good", after["usefulness"]
    stated = {"missing": {"income": 0.4}}
    url = f"/v1/datasets/{dataset['id']}/previews"
    body = {"statistic": asked, "epsilon": "50", "assume": stated}
    assert curator.post(url, json=body).json()["usefulness"]["verdict"] == "good"
