"""Designs over HTTP: declared weights by default, and standard errors by the design."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest

from app.audit.report import certified
from app.services.releases.public_moments import tidy_csv
from mechanisms.catalog import STATISTICS
from tests.contract.service import ask, assert_problem, send_upload, settled, spec, upload

ROWS, REPLICATES = 600, 8
REP = [f"rep_{place}" for place in range(REPLICATES)]
COLUMNS: dict[str, Any] = {
    "income": {"type": "number", "lower": 0, "upper": 100},
    "owner": {"type": "boolean"},
    "w": {"type": "number", "lower": 0, "upper": 10},
    "region": {"type": "category", "values": ["a", "b", "c"]},
    **{name: {"type": "number", "lower": 0, "upper": 20} for name in REP},
}
DESIGN: dict[str, Any] = {"weight": "w", "replicates": REP}
MEAN: dict[str, Any] = {"kind": "mean", "columns": ["income"]}
ONCE = "Each record counts once: the weight that the data set declares, w, is not used."


def numbers() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    region = rng.integers(0, 3, ROWS)
    income = np.round(np.clip(rng.normal(30 + 15 * region, 12), 0, 100), 3)
    weight = np.round(rng.uniform(1, 4, ROWS) * (1 + region), 2).clip(0, 10)
    pairs = rng.integers(0, 2, (REPLICATES, ROWS // 2))
    halves = np.stack([pairs, 1 - pairs], axis=2).reshape(REPLICATES, ROWS)  # one of each two rows
    return {
        "income": income,
        "owner": (income > 45).astype(int),
        "w": weight,
        "region": np.array(["a", "b", "c"])[region],
        **{name: 2 * weight * half for name, half in zip(REP, halves, strict=True)},
    }


DATA = numbers()
FILE = "\n".join(
    [",".join(DATA), *(",".join(map(str, row)) for row in zip(*DATA.values(), strict=True)), ""]
)


def design_upload(client: httpx.Client, **changes: Any) -> Any:
    room: dict[str, Any] = {"columns": COLUMNS, "budget": {"epsilon": "10000000"}}
    overlap = {"reason": "the same rows, under several designs"}
    return upload(client, FILE, **{**room, "overlap": overlap, **changes})


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    made = design_upload(admin, design=DESIGN)
    assert made["design"] == {"weight": "w", "replicates": REP, "scale": 1 / REPLICATES}
    assert admin.get(f"/v1/datasets/{made['id']}").json()["design"] == made["design"]
    return str(made["id"])


def answer(client: httpx.Client, dataset: str, statistic: Any, **more: Any) -> dict[str, Any]:
    body = {"epsilon": "10000", **more}
    return dict(settled(client, ask(client, dataset, statistic, **body)).json())


def test_the_declared_weight_is_taken_unless_a_question_says_null(
    curator: httpx.Client, dataset: str
) -> None:
    weighted = answer(curator, dataset, MEAN)
    assert weighted["statistic"]["weights"] == "w"
    assert weighted["value"]["income"] == pytest.approx(
        np.average(DATA["income"], weights=DATA["w"]), abs=0.01
    )
    plain = answer(curator, dataset, {**MEAN, "weights": None})
    assert plain["statistic"]["weights"] is None
    assert plain["value"]["income"] == pytest.approx(DATA["income"].mean(), abs=0.01)
    other = answer(curator, dataset, {**MEAN, "weights": "rep_0"})
    assert other["statistic"]["weights"] == "rep_0"
    # what is read again says the same, and two spellings are one question
    url = weighted["id"]
    assert curator.get(f"/v1/releases/{url}").json()["statistic"]["weights"] == "w"
    named = ask(curator, dataset, {**MEAN, "weights": "w"}, epsilon="10000", key="spelled")
    again = ask(curator, dataset, MEAN, epsilon="10000", key="spelled")
    assert again.json()["id"] == named.json()["id"]
    reused = ask(curator, dataset, {**MEAN, "weights": None}, epsilon="10000", key="spelled")
    assert_problem(reused, 422, "idempotency-key-reused")


@pytest.mark.parametrize(
    "statistic",
    [
        {"kind": "count"},
        {"kind": "sum", "columns": ["income"]},
        {"kind": "histogram", "columns": ["region"]},
        {"kind": "std", "columns": ["income"]},
        {"kind": "quantile", "column": "income", "levels": [0.5]},
        {"kind": "tables", "columns": ["region", "owner"], "margins": "all_one_way"},
        {"kind": "covariance", "columns": ["income", "owner"]},
        {"kind": "correlation", "columns": ["income", "owner"]},
        {"kind": "roc", "score": "income", "label": "owner"},
        {"kind": "kaplan_meier", "time": "income", "event": "owner"},
    ],
    ids=lambda each: str(each["kind"]),
)
def test_every_kind_with_weights_takes_it(
    curator: httpx.Client, dataset: str, statistic: Any
) -> None:
    url = f"/v1/datasets/{dataset}/previews"
    shown = curator.post(url, json={"statistic": statistic, "epsilon": "1"}).json()
    assert shown["statistic"]["weights"] == "w"
    assert shown["details"]["weights"]["column"] == "w"
    assert "about_weights" not in shown
    asked = {"statistic": {**statistic, "weights": None}, "epsilon": "1"}
    plain = curator.post(url, json=asked)
    if statistic["kind"] == "count":  # of all rows, which are public here
        assert_problem(plain, 422, "invalid-request")
    else:
        assert plain.json()["statistic"]["weights"] is None
        assert "weights" not in plain.json()["details"]
        assert plain.json()["about_weights"] == [ONCE]


@pytest.mark.parametrize(
    "statistic",
    [
        {"kind": "summary", "columns": ["income"]},
        {"kind": "test", "test": "t", "columns": ["income"], "value": 30},
        {"kind": "moments", "columns": ["income", "owner"]},
        {"kind": "pca", "columns": ["income", "owner"]},
        {"kind": "geometric_median", "columns": ["income", "owner"]},
    ],
    ids=lambda each: str(each["kind"]),
)
def test_every_kind_without_weights_says_so(
    curator: httpx.Client, dataset: str, statistic: Any
) -> None:
    url = f"/v1/datasets/{dataset}/previews"
    shown = curator.post(url, json={"statistic": statistic, "epsilon": "1"}).json()
    assert shown["about_weights"] == [ONCE]


def test_every_field_of_weights_knows_null() -> None:
    said = {kind: each.__annotations__.get("weights") for kind, each in STATISTICS.items()}
    assert sum(each is not None for each in said.values()) > 12
    assert set(said.values()) == {None, "Weighing"}


def test_what_counts_records_once_says_so_everywhere(curator: httpx.Client, dataset: str) -> None:
    asked = {"kind": "moments", "columns": ["income", "owner"]}
    found = answer(curator, dataset, asked)
    assert found["about_weights"] == [ONCE]
    lines = tidy_csv(found).splitlines()
    assert all(ONCE in line for line in lines[1:])
    read = {"statistic": {"kind": "correlation", "columns": ["income", "owner"], "weights": None}}
    made = curator.post(f"/v1/releases/{found['id']}/derivations", json=read).json()
    assert made["about_weights"] == [ONCE]


def test_parts_of_a_stack_take_it_too(curator: httpx.Client, dataset: str) -> None:
    parts = [{"statistic": MEAN, "share": 1}, {"statistic": {**MEAN, "weights": None}, "share": 1}]
    found = answer(curator, dataset, {"kind": "stack", "parts": parts})
    weights = [
        part["statistic"].get("weights", "said nothing") for part in found["statistic"]["parts"]
    ]
    assert weights == ["w", None]
    (said,) = found["about_weights"]
    assert said.startswith("In the mean each record counts once:")


def test_a_refusal_of_the_declared_weight_says_how_to_go_without(
    curator: httpx.Client, dataset: str
) -> None:
    asked = {"kind": "tables", "columns": ["owner", "region", "rep_0"], "select": "auto"}
    refused = ask(curator, dataset, asked, epsilon="1")
    assert_problem(refused, 422, "invalid-request")
    assert any('write "weights": null' in each["message"] for each in refused.json()["errors"])


def test_without_a_design_null_says_nothing(curator: httpx.Client, admin: httpx.Client) -> None:
    dataset = design_upload(admin)
    assert "design" not in dataset
    found = answer(curator, dataset["id"], {**MEAN, "weights": None})
    assert "weights" not in found["statistic"]
    assert found["value"]["income"] == pytest.approx(DATA["income"].mean(), abs=0.01)


def _variance_of_means(replicates: Any) -> float:
    means = np.array([np.average(DATA["income"], weights=each) for each in replicates])
    return float(((means - means.mean()) ** 2).mean())


def test_standard_errors_are_by_the_replicates(curator: httpx.Client, dataset: str) -> None:
    found = answer(curator, dataset, MEAN, inference={"share": "1/2"})
    (term,) = found["inference"]["terms"]
    assert term["std_error"] == pytest.approx(
        _variance_of_means([DATA[r] for r in REP]) ** 0.5, rel=0.02
    )
    assert found["details"]["inference"]["variance"] == "replicates"
    assert found["details"]["inference"]["scale"] == f"1/{REPLICATES}"
    assert found["inference"]["method"].startswith("design-based")
    total = answer(
        curator, dataset, {"kind": "sum", "columns": ["owner"]}, inference={"share": "1/2"}
    )
    sums = np.array([DATA[r] @ DATA["owner"] for r in REP])
    assert total["inference"]["terms"][0]["std_error"] == pytest.approx(sums.std(), rel=0.02)
    some = {**MEAN, "where": [{"column": "region", "op": "==", "value": "b"}]}
    inside = answer(curator, dataset, some, inference={"share": "1/2"})
    chosen = DATA["region"] == "b"
    means = [np.average(DATA["income"][chosen], weights=DATA[r][chosen]) for r in REP]
    assert inside["inference"]["terms"][0]["std_error"] == pytest.approx(np.std(means), rel=0.03)
    grouped = answer(curator, dataset, {**MEAN, "by": ["region"]}, inference={"share": "1/2"})
    assert [each["by"]["region"] for each in grouped["inference"]["terms"]] == ["a", "b", "c"]
    assert grouped["inference"]["terms"][1]["std_error"] == pytest.approx(np.std(means), rel=0.03)


def test_what_noise_hides_cannot_be_said(curator: httpx.Client, dataset: str) -> None:
    """At so small an epsilon about half of the variances are not positive."""
    terms = []
    for _ in range(12):
        found = answer(curator, dataset, MEAN, epsilon="0.01", inference={"share": "1/2"})
        terms += found["inference"]["terms"]
    unknown = [each for each in terms if each["std_error"] is None]
    assert unknown
    assert all(each["confidence_95"] == [0, 100] for each in unknown)


def test_other_weights_have_no_standard_errors(curator: httpx.Client, dataset: str) -> None:
    asked = {**MEAN, "weights": "rep_1"}
    refused = ask(curator, dataset, asked, epsilon="1", inference={"share": "1/2"})
    assert_problem(refused, 422, "invalid-request")
    whole = answer(curator, dataset, {**MEAN, "weights": None}, inference={"share": "1/2"})
    assert whole["inference"]["cost"] == "0"


def test_replicates_may_have_scales_of_their_own(
    curator: httpx.Client, admin: httpx.Client
) -> None:
    scales = [0.5, 0.75, 0.5, 0.75, 0.5, 0.75, 0.5, 0.9]
    made = design_upload(admin, design={**DESIGN, "rscales": scales})
    assert made["design"] == {**DESIGN, "scale": 1, "rscales": scales}
    found = answer(curator, made["id"], MEAN, inference={"share": "1/2"})
    assert found["details"]["inference"]["rscales"] == scales
    means = np.array([np.average(DATA["income"], weights=DATA[name]) for name in REP])
    variance = float((np.array(scales) * (means - means.mean()) ** 2).sum())
    (term,) = found["inference"]["terms"]
    assert term["std_error"] == pytest.approx(variance**0.5, rel=0.05)


def test_strata_and_accounts_with_a_delta(curator: httpx.Client, admin: httpx.Client) -> None:
    design = {"weight": "w", "strata": "region"}
    budget = {"epsilon": "1000", "delta": "0.000001"}
    for adjacency in ({}, {"adjacency": "add_remove", "max_rows": 2000}):
        made = design_upload(admin, design=design, budget=budget, **adjacency)
        found = answer(curator, made["id"], MEAN, epsilon="30", inference={"share": "1/2"})
        assert found["mechanism"] == "gaussian"
        weight, income = DATA["w"], DATA["income"]
        z = weight * (income - np.average(income, weights=weight))
        parts = [z[DATA["region"] == name] for name in ("a", "b", "c")]
        variance = sum(len(each) * each.var(ddof=1) for each in parts) / weight.sum() ** 2
        (term,) = found["inference"]["terms"]
        assert term["std_error"] == pytest.approx(variance**0.5, rel=0.1)


@pytest.mark.parametrize(
    ("design", "place"),
    [
        ({"weight": "none"}, "design.weight"),
        ({"weight": "region"}, "design.weight"),
        ({"weight": "w", "strata": "income"}, "design.strata"),
        ({"weight": "w", "replicates": ["rep_0"]}, "design.replicates"),
        ({"weight": "w", "replicates": ["rep_0", "rep_0"]}, "design.replicates"),
        ({"weight": "w", "replicates": ["rep_0", "region"]}, "design.replicates[1]"),
        ({"weight": "w", "scale": 1}, "design.scale"),
        ({"weight": "w", "replicates": REP, "scale": 0}, "design.scale"),
        ({"weight": "w", "fay": 1}, "design"),
        ({"weight": "w", "rscales": [0.5]}, "design.rscales"),
        ({"weight": "w", "replicates": REP[:2], "rscales": [0.5]}, "design.rscales"),
        ({"weight": "w", "replicates": REP[:2], "rscales": [0.5, 0]}, "design.rscales[1]"),
        ({}, "design.weight"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_place(
    admin: httpx.Client, design: Any, place: str
) -> None:
    refused = send_upload(admin, FILE, spec(columns=COLUMNS, design=design))
    problem = assert_problem(refused, 422, "invalid-request")
    assert [each["field"] for each in problem["errors"]] == [f"spec.{place}"]


# People with several rows

PERSONS = "person,x,w,r0,r1\n" + "".join(
    f"sampled {place // 2},{place % 7},1,{2 * (place // 2 % 2)},{2 - 2 * (place // 2 % 2)}\n"
    for place in range(60)
)
OF_PERSONS: dict[str, Any] = {
    "adjacency": "add_remove",
    "max_rows": 100,
    "budget": {"epsilon": "100000"},
    "columns": {
        name: {"type": "number", "lower": 0, "upper": most}
        for name, most in {"x": 6, "w": 2, "r0": 4, "r1": 4}.items()
    },
    "design": {"weight": "w", "replicates": ["r0", "r1"]},
    "overlap": {"reason": "the same people, under several units"},
}
OF_X: dict[str, Any] = {"kind": "mean", "columns": ["x"]}


def test_people_with_several_rows_have_none_and_one_row_each_has(
    curator: httpx.Client, admin: httpx.Client
) -> None:
    several = upload(admin, PERSONS, unit={"column": "person", "max_rows": 2}, **OF_PERSONS)
    refused = ask(curator, several["id"], OF_X, epsilon="1", inference={"share": "1/2"})
    problem = assert_problem(refused, 422, "invalid-request")
    assert "One row per person" in str(problem)
    assert answer(curator, several["id"], OF_X)["value"]["x"] == pytest.approx(
        np.mean([place % 7 for place in range(60)]), abs=0.05
    )
    reduce = {"column": "person", "reduce": {"x": "mean"}}
    one = upload(admin, PERSONS, unit=reduce, **OF_PERSONS)
    found = answer(curator, one["id"], OF_X, inference={"share": "1/2"})
    x = np.array([place % 7 for place in range(60)]).reshape(-1, 2).mean(axis=1)
    halves = [x[np.arange(30) % 2 == half].mean() for half in (0, 1)]
    (term,) = found["inference"]["terms"]
    assert term["std_error"] == pytest.approx(np.std(halves), abs=0.01)


# An audit that believes nothing

FEW = "x,w,h,r0,r1\n" + "0,1,a,1,0\n0,1,b,0,1\n" * 3
ONE_MORE = "6,2,a,4,0\n"
DESIGNS: dict[str, dict[str, Any]] = {
    "replicates": {"weight": "w", "replicates": ["r0", "r1"], "rscales": [0.5, 2]},
    "strata": {"weight": "w", "strata": "h"},
}


@pytest.mark.slow
@pytest.mark.parametrize("delta", [None, "0.000001"], ids=["pure", "delta"])
@pytest.mark.parametrize("design", DESIGNS)
def test_draws_of_neighbours_do_not_certify_more_than_epsilon(
    curator: httpx.Client, admin: httpx.Client, design: str, delta: str | None
) -> None:
    """Numbers and standard errors of two data sets that differ in one person; and, as a control,
    of two that differ in twelve."""
    columns = {**OF_PERSONS["columns"], "h": {"type": "category", "values": ["a", "b"]}}
    budget = {"epsilon": "10000", **({} if delta is None else {"delta": delta})}
    shared = {**OF_PERSONS, "columns": columns, "budget": budget, "design": DESIGNS[design]}
    asked = {"kind": "sum", "columns": ["x"]}

    def drawn(rows: str) -> Any:
        made = upload(admin, rows, **shared)
        found = []
        for _ in range(250):
            each = answer(curator, made["id"], asked, epsilon="1", inference={"share": "1/2"})
            (term,) = each["inference"]["terms"]
            error = -1.0 if term["std_error"] is None else term["std_error"]
            found.append([each["value"]["x"], error, *term["confidence_95"]])
        return np.array(found)

    first, second, far = (drawn(FEW + ONE_MORE * many) for many in (0, 1, 12))
    certify: Any = partial(certified, confidence=1 - 1e-6, offers=1, pure=delta is None)
    assert certify(first, second).epsilon <= 1
    assert certify(first, far).epsilon > 1
