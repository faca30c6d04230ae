"""Every bad request gets a clear 4xx before anything is charged, and nothing is echoed."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from mechanisms.catalog import STATISTICS
from tests.contract.service import (
    MEAN,
    ask,
    assert_problem,
    send_raw,
    send_upload,
    spec,
    spent,
)
from tests.tiers import in_one

SENTINEL = "sentinel8402957361"

BAD_EPSILONS = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1", "0", "-0", "0.0", "true", "null", "[]", "{}",
    '"abc"', '""', '" 1"', '"1 "', '"1_0"', '"+1"', '"-1"', '"0"', '"NaN"', '"inf"', '"1e400"',
    '"1e99"', '"٣"', '"0x1"', '"1,5"', "0.1000000001", '"0.1000000001"', '"1e-10"', "1e-10",
    "10000.000000001", '"10001"', '"' + "9" * 41 + '"', "9" * 5000, f'"{SENTINEL}"',
]  # fmt: skip


@pytest.mark.parametrize("epsilon", BAD_EPSILONS, ids=lambda text: text[:20])
def test_bad_epsilons_are_refused(analyst: httpx.Client, untouched: str, epsilon: str) -> None:
    body = '{"statistic":' + json.dumps(MEAN) + ',"epsilon":' + epsilon + "}"
    answer = send_raw(analyst, f"/v1/datasets/{untouched}/releases", body.encode())
    problem = assert_problem(answer, 422, "invalid-request")
    assert problem["errors"][0]["field"] in ("epsilon", "body")
    assert SENTINEL not in answer.text
    assert spent(analyst, untouched) == "0"


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ("0.1", "0.1"), ('"0.1"', "0.1"), ("1e-9", "0.000000001"), ("0.3", "0.3"),
        ('"0.500"', "0.5"), ("2", "2"), ("0.000000007", "0.000000007"), ("1E-2", "0.01"),
        ("1.000000000000", "1"), ("0.123456789", "0.123456789"),
    ],
)  # fmt: skip
def test_epsilons_are_read_exactly(
    analyst: httpx.Client, dataset: str, written: str, exact: str
) -> None:
    body = '{"statistic":' + json.dumps(MEAN) + ',"epsilon":' + written + "}"
    answer = send_raw(analyst, f"/v1/datasets/{dataset}/releases", body.encode())
    assert answer.status_code == 201, answer.text
    assert answer.json()["epsilon"] == exact
    assert spent(analyst, dataset) == exact


BAD_STATISTICS: list[Any] = [
    None,
    "mean",
    [],
    {},
    {"kind": None},
    {"kind": SENTINEL},
    {"kind": "mean"},
    {"kind": "mean", "columns": []},
    {"kind": "mean", "columns": "income"},
    {"kind": "mean", "columns": [SENTINEL]},
    {"kind": "mean", "columns": ["region"]},
    {"kind": "mean", "columns": ["income", "income"]},
    {"kind": "mean", "columns": [1]},
    {"kind": "mean", "columns": ["income"], SENTINEL: 1},
    {"kind": "count"},
    {"kind": "count", "where": [{"column": SENTINEL, "op": "==", "value": 1}]},
    {"kind": "count", "where": [{"column": "income", "op": SENTINEL, "value": 1}]},
    {"kind": "count", "where": [{"column": "region", "op": "==", "value": SENTINEL}]},
    {"kind": "histogram", "columns": ["income"]},
    {"kind": "histogram", "columns": ["income"], "edges": {"income": [0]}},
    {"kind": "histogram", "columns": ["income"], "edges": {"income": [0, 0]}},
    {"kind": "histogram", "columns": ["income"], "edges": {"income": [10, 0]}},
    {"kind": "histogram", "columns": ["income"], "edges": {SENTINEL: [0, 1]}},
    {"kind": "quantile", "column": "income", "levels": []},
    {"kind": "quantile", "column": "income", "levels": [0]},
    {"kind": "quantile", "column": "income", "levels": [1]},
    {"kind": "quantile", "column": "income", "levels": [0.5, 0.5]},
    {"kind": "quantile", "column": "income", "levels": ["0.5"]},
    {"kind": "quantile", "column": "income", "levels": [True]},
    {"kind": "quantile", "column": "region", "levels": [0.5]},
    {"kind": "linear_regression", "target": "food", "features": ["food"]},
    {"kind": "linear_regression", "target": "food", "features": ["income", "food"]},
    {"kind": "linear_regression", "target": "food", "features": ["income"], "bound": 0},
    {"kind": "linear_regression", "target": "food", "features": ["income"], "bound": -1},
    {"kind": "linear_regression", "target": "food", "features": ["income"], "ridge": -1},
    {"kind": "linear_regression", "target": "food", "features": ["income"], "ridge": 1e308},
    {"kind": "linear_regression", "target": SENTINEL, "features": ["income"]},
    {"kind": "logistic_regression", "target": "owner", "features": ["owner"]},
    {"kind": "logistic_regression", "target": "food", "features": ["income"]},
    {"kind": "logistic_regression", "target": "owner", "features": ["income"], "q": 2},
    {"kind": "logistic_regression", "target": "owner", "features": ["income"], "q": SENTINEL},
]


@in_one("statistic", BAD_STATISTICS)
@in_one("call", ["releases", "previews"])
def test_bad_statistics_are_refused(
    analyst: httpx.Client, untouched: str, statistic: Any, call: str
) -> None:
    answer = analyst.post(
        f"/v1/datasets/{untouched}/{call}",
        json={"statistic": statistic, "epsilon": "1"},
        headers={"Idempotency-Key": "bad"},
    )
    problem = assert_problem(answer, 422, "invalid-request")
    assert problem["errors"][0]["field"].startswith("statistic")
    assert SENTINEL not in answer.text
    assert spent(analyst, untouched) == "0"


def test_an_unknown_kind_is_told_the_known_ones(analyst: httpx.Client, untouched: str) -> None:
    problem = assert_problem(ask(analyst, untouched, {"kind": "mode"}), 422)
    error = problem["errors"][0]
    assert error["field"] == "statistic.kind"
    offers = analyst.get("/v1/catalog").json()["items"]
    assert {"count", "mean", "quantile"} <= {offer["statistic"] for offer in offers}
    for offer in offers:
        assert f"'{offer['statistic']}'" in error["message"]


BAD_BODIES = [
    b"", b"{", b"[]", b"null", b"1", b'"text"', b"\xff\xfe", b"\x00", b"{}",
    b'{"epsilon":1,"epsilon":1}', b"[" * 100_000, b'{"a":' * 50_000,
    b'{"statistic":{"kind":"quantile","column":"x","levels":[1%s]},"epsilon":1}' % (b"0" * 309),
    b'{"statistic":{"kind":"mean","columns":["\\ud800"]},"epsilon":1}',
    b'{"statistic":{"kind":"mean","columns":["in\\u0000come"]},"epsilon":1}',
    b'{"statistic":{"kind":"mean","columns":["income"]},"epsilon":1,"mechanism":"magic"}',
    b'{"statistic":{"kind":"mean","columns":["income"]},"epsilon":1,"norm":"l3"}',
    b'{"statistic":{"kind":"mean","columns":["income"]},"epsilon":1,"norm":null}',
    b'{"statistic":{"kind":"mean","columns":["income"]},"epsilon":1,"seed":1}',
    b'{"statistic":{"kind":"mean","columns":["income"]},"epsilon":1,"mechanism":"functional"}',
    b'{"statistic":{"kind":"mean","columns":["income"]},"epsilon":1,"mechanism":"kng"}',
    b'{"statistic":{"kind":"quantile","column":"income","levels":[1e400]},"epsilon":1}',
    b'{"statistic":{"kind":"quantile","column":"income","levels":[NaN]},"epsilon":1}',
]  # fmt: skip


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body)[:60])
def test_bad_bodies_are_refused(analyst: httpx.Client, untouched: str, body: bytes) -> None:
    answer = send_raw(analyst, f"/v1/datasets/{untouched}/releases", body)
    assert_problem(answer, 422, "invalid-request")
    assert spent(analyst, untouched) == "0"


def test_another_content_type_is_refused(analyst: httpx.Client, untouched: str) -> None:
    answer = analyst.post(f"/v1/datasets/{untouched}/releases", data={"epsilon": "1"})
    assert_problem(answer, 415, "unsupported-media-type")


def test_a_body_above_the_limit_is_refused(analyst: httpx.Client, untouched: str) -> None:
    answer = send_raw(analyst, f"/v1/datasets/{untouched}/releases", b" " * (2**20 + 1))
    problem = assert_problem(answer, 413, "too-large")
    assert problem["limit"] == "max_request_bytes"


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_the_idempotency_key_is_required(analyst: httpx.Client, untouched: str, key: str) -> None:
    answer = analyst.post(
        f"/v1/datasets/{untouched}/releases",
        json={"statistic": MEAN, "epsilon": "1"},
        headers={"Idempotency-Key": key} if key else {},
    )
    assert_problem(answer, 400, "idempotency-key-missing")
    assert spent(analyst, untouched) == "0"


@pytest.mark.parametrize(
    "body",
    [
        {}, {"epsilon": "1"}, {"reason": "more"}, {"epsilon": "0", "reason": "more"},
        {"epsilon": "1", "reason": ""}, {"epsilon": "1e10", "reason": "more"},
        {"epsilon": "1", "reason": "a\x00b"}, {"epsilon": "1", "reason": "x" * 2001},
        {"epsilon": "1", "reason": "more", SENTINEL: 1}, {"epsilon": SENTINEL, "reason": "more"},
    ],
)  # fmt: skip
def test_bad_grants_are_refused(curator: httpx.Client, untouched: str, body: Any) -> None:
    answer = curator.post(f"/v1/datasets/{untouched}/grants", json=body)
    assert_problem(answer, 422, "invalid-request")
    assert SENTINEL not in answer.text
    left = curator.get(f"/v1/datasets/{untouched}/budget").json()["epsilon"]
    assert left["total"] == "10"


@pytest.mark.parametrize(
    "body",
    [
        {}, {"name": "a"}, {"name": "a", "role": SENTINEL}, {"name": "", "role": "analyst"},
        {"name": "x" * 101, "role": "analyst"}, {"name": "a\nb", "role": "analyst"},
        {"name": "a", "role": "analyst", "expires": SENTINEL},
        {"name": "a", "role": "analyst", "expires": "2001-01-01T00:00:00Z"},
        {"name": "a", "role": "analyst", "expires": "2090-01-01T00:00:00"},
        {"name": "a", "role": "analyst", "expires": 5}, {"name": 1, "role": "analyst"},
        {"name": "a", "role": "analyst", "secret": SENTINEL},
    ],
)  # fmt: skip
def test_bad_keys_are_refused(admin: httpx.Client, body: Any) -> None:
    answer = admin.post("/v1/keys", json=body)
    assert_problem(answer, 422, "invalid-request")
    assert SENTINEL not in answer.text


def message(answer: httpx.Response, field: str) -> str:
    """Return what the one entry of a refusal says, which is about this field."""
    (entry,) = assert_problem(answer, 422, "invalid-request")["errors"]
    assert entry["field"] == field
    return str(entry["message"])


def test_an_unknown_field_is_told_the_fields_that_exist(
    analyst: httpx.Client, untouched: str
) -> None:
    body = {"statistic": MEAN, "epsilon": "0.1", "mecanism": SENTINEL}
    answer = analyst.post(f"/v1/datasets/{untouched}/previews", json=body)
    reported = message(answer, "body")
    assert "Known: mechanism, " in reported, "the closest comes first"
    assert all(name in reported for name in ("statistic", "epsilon", "norm"))
    assert SENTINEL not in answer.text


def test_an_unknown_field_of_a_statistic_is_told_those_of_its_kind(
    analyst: httpx.Client, untouched: str
) -> None:
    body = {"statistic": {**MEAN, "kinds": [SENTINEL]}, "epsilon": "0.1"}
    answer = analyst.post(f"/v1/datasets/{untouched}/previews", json=body)
    assert "Known: kind, by, clip, columns, derive, missing, weights and where" in message(
        answer, "statistic"
    )
    assert SENTINEL not in answer.text


def test_a_misspelt_field_that_is_required_is_one_fault(
    analyst: httpx.Client, untouched: str
) -> None:
    path = f"/v1/datasets/{untouched}/previews"
    question = {"kind": "mean", "colums": ["income"]}
    answer = analyst.post(path, json={"statistic": question, "epsilon": "0.1"})
    assert "Known: columns, by, clip, derive, kind, missing, weights and where" in message(
        answer, "statistic"
    )
    answer = analyst.post(path, json={"statistic": MEAN, "epsilom": "0.1"})
    assert "Known: epsilon, " in message(answer, "body")
    # nothing like it: what is missing is named next to it
    answer = analyst.post(path, json={"statistic": {"kind": "mean", "x": 1}, "epsilon": "0.1"})
    errors = assert_problem(answer, 422, "invalid-request")["errors"]
    assert {each["field"] for each in errors} == {"statistic", "statistic.columns"}


def test_a_wrong_column_is_told_the_public_columns(analyst: httpx.Client, untouched: str) -> None:
    body = {"statistic": {"kind": "mean", "columns": ["Income" + SENTINEL]}, "epsilon": "0.1"}
    answer = analyst.post(f"/v1/datasets/{untouched}/previews", json=body)
    reported = message(answer, "statistic.columns")
    assert "no such column; its columns are " in reported
    assert "income" in reported
    assert SENTINEL not in answer.text


def test_a_category_where_numbers_are_needed_is_told_what_else_to_do(
    analyst: httpx.Client, untouched: str
) -> None:
    body = {"statistic": {"kind": "mean", "columns": ["income", "region"]}, "epsilon": "0.1"}
    reported = message(
        analyst.post(f"/v1/datasets/{untouched}/previews", json=body), "statistic.columns"
    )
    assert "these are categories: region" in reported
    assert '"histogram"' in reported
    assert '"op": "=="' in reported
    assert "the share of one is the mean of a derived column" in reported


@pytest.mark.parametrize(("target", "words"), [("region", "== "), ("income", ">= ")])
def test_a_formula_s_target_is_told_how_to_be_true_or_false(
    analyst: httpx.Client, untouched: str, target: str, words: str
) -> None:
    regression = {"kind": "logistic_regression", "formula": f"{target} ~ income"}
    body = {"statistic": regression, "epsilon": "0.1"}
    reported = message(
        analyst.post(f"/v1/datasets/{untouched}/previews", json=body), "statistic.target"
    )
    written = re.search(r"or in a formula (\(.*\)) ~", reported)
    assert written is not None
    assert words in written[1]


def test_one_fault_is_one_entry(analyst: httpx.Client, untouched: str) -> None:
    """Validators find one mistake once for each form that a value may have."""
    body = {"statistic": {"kind": "quantile", "column": "income", "levels": "x"}, "epsilon": "0.1"}
    message(analyst.post(f"/v1/datasets/{untouched}/previews", json=body), "statistic.levels")


LOGISTIC = {"kind": "logistic_regression", "features": ["income"]}
TOLD: list[tuple[dict[str, Any], str, tuple[str, ...]]] = [
    (
        {**LOGISTIC, "target": {"column": "food", "op": SENTINEL, "value": 1}},
        "target.op",
        ("must be one of '==', '!='",),
    ),
    ({**LOGISTIC, "target": 5}, "target", ("must be text or an object",)),
    ({**LOGISTIC, "q": SENTINEL, "target": "owner"}, "q", ("must be a number or 'auto'",)),
    (
        {**LOGISTIC, "target": "food"},
        "target",
        ("food is a number", "a threshold", '"op": ">="'),
    ),
    ({**LOGISTIC, "target": "region"}, "target", ("region is a category", '"op": "=="')),
    (
        {"kind": "count", "where": [{"column": "owner", "op": "==", "value": None}]},
        "where[0].value",
        ("== needs a value to compare owner with",),
    ),
    (
        {"kind": "count", "where": [{"column": "region", "op": "==", "value": "North" + SENTINEL}]},
        "where[0]",
        ("those are north and south",),
    ),
    (
        {
            "kind": "count",
            "where": [
                {"column": "owner", "op": "==", "value": True},
                {"column": "income", "op": ">", "value": 83729.5},
            ],
        },
        "where[1]",
        ("the bounds 0 to 100 of income",),
    ),
    (
        {"kind": "count", "where": [{"column": "region", "op": "<", "value": "north"}]},
        "where[0]",
        ("region is a category", "==, != or in"),
    ),
    (
        {
            "kind": "linear_regression", "target": "income", "features": ["food"],
            "loss": "squared", "threshold": 5,
        },
        "threshold",
        ("a threshold is Huber's",),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("statistic", "place", "parts"), TOLD, ids=lambda part: str(part)[:60])
def test_a_fault_is_one_entry_that_says_what_to_do(
    analyst: httpx.Client, untouched: str, statistic: dict[str, Any], place: str, parts: tuple[str]
) -> None:
    """A validator finds one mistake once for each form that a value may have."""
    body = {"statistic": statistic, "epsilon": "0.1"}
    answer = analyst.post(f"/v1/datasets/{untouched}/previews", json=body)
    reported = message(answer, f"statistic.{place}")
    for part in parts:
        assert part in reported
    assert SENTINEL not in answer.text


def test_an_unknown_parameter_is_told_those_that_exist(analyst: httpx.Client) -> None:
    reported = message(analyst.get("/v1/releases", params={"limt": "3"}), "query")
    assert "Known: limit" in reported


def test_a_fault_of_a_declared_column_names_it(curator: httpx.Client) -> None:
    columns = {f"c{place}": {"type": "boolean"} for place in range(17)}
    columns["income"] = {"type": "number", "lower": 5, "upper": "many"}
    problem = assert_problem(
        send_upload(curator, b"income\n1\n", spec(columns=columns)), 422, "invalid-request"
    )
    (entry,) = problem["errors"]
    assert "columns" in entry["field"]
    assert "income" in entry["field"] + entry["message"]


def test_a_number_where_an_object_is_needed_is_told_its_fields(curator: httpx.Client) -> None:
    answer = send_upload(curator, b"age\n1\n2\n", spec(budget="10"))
    assert message(answer, "spec.budget") == "must be an object; known fields: delta and epsilon"


def test_a_declared_column_that_contradicts_itself_is_named(curator: httpx.Client) -> None:
    """Its form is sound, so it is the domain that refuses it."""
    columns = {f"c{place}": {"type": "boolean"} for place in range(17)}
    columns["income"] = {"type": "number", "lower": 5, "upper": 1}
    answer = send_upload(curator, b"income\n1\n", spec(columns=columns))
    reported = message(answer, "spec.columns[17].lower")
    assert reported == 'lower must be below upper (column "income")'


def test_columns_units_and_expressions_are_all_told_of_at_once(curator: httpx.Client) -> None:
    """What is made of a wrong column is not reported: it is not known what it would be."""
    number = {"type": "number", "lower": 0, "upper": 9}
    answer = send_upload(
        curator,
        b"income,age\n1,2\n",
        spec(
            columns={"income": {**number, "upper": -1}, "age": number},
            derive={"a": "log(age)", "i": "log(income)", "n": "age + nothing"},
            unit={"column": "person"},
        ),
    )
    problem = assert_problem(answer, 422, "invalid-request")
    reported = {entry["field"]: entry["message"] for entry in problem["errors"]}
    assert reported.keys() == {
        "spec.columns[0].lower", "spec.derive[0]", "spec.derive[2]", "spec.unit",
        "spec.unit.max_rows",
    }  # fmt: skip
    assert "log of 0" in reported["spec.derive[0]"]
    sound = spec(columns={"age": number}, derive={"a": "log(age)"}, unit={"column": "person"})
    problem = assert_problem(send_upload(curator, b"age\n2\n", sound), 422, "invalid-request")
    places = {entry["field"] for entry in problem["errors"]}
    assert places == {"spec.derive[0]", "spec.unit", "spec.unit.max_rows"}


def test_text_that_is_no_json_says_where(analyst: httpx.Client, untouched: str) -> None:
    answer = send_raw(analyst, f"/v1/datasets/{untouched}/previews", b'{\n "epsilon": }')
    assert "line 2, column 13" in message(answer, "body")


def test_a_refusal_says_what_to_do(analyst: httpx.Client) -> None:
    problem = assert_problem(analyst.get("/v1/datasets/ds_nothing"), 404, "not-found")
    assert (
        problem["remedy"]
        == analyst.get(problem["type"], headers={"Accept": "application/json"}).json()["remedy"]
    )


ASKED = {"statistic": {"kind": "mean", "columns": ["income"]}, "epsilon": "1"}
ABOVE = {"column": "income", "op": ">=", "value": 1}
COUNTED = {"kind": "histogram", "columns": ["income"], "edges": {"income": {"stp": 5}}}
FITTED = {"kind": "linear_regression", "target": "income", "features": [{"colum": "food"}]}
MEANT: list[tuple[dict[str, Any], str]] = [
    ({"statistic": {"kind": "meen", "columns": ["income"]}}, "(did you mean 'mean'?)"),
    (
        {"statistic": {"kind": "stack", "parts": [{"statistic": {"kind": "maen"}}]}},
        "(did you mean 'mean'?)",
    ),
    (
        {"statistic": {**LOGISTIC, "target": "owner", "bounds": 1}},
        "unknown field 'bounds'; did you mean 'bound'?",
    ),
    (
        {"statistic": {**ASKED["statistic"], "colums": []}},  # type: ignore[dict-item]
        "unknown field 'colums'; did you mean 'columns'?",
    ),
    ({"statistic": {"kind": "count", "where": [{**ABOVE, "op": "=>"}]}}, "did you mean '>='?"),
    ({"statistic": {"kind": "count", "where": [{**ABOVE, "op": "="}]}}, "did you mean '=='?"),
    (
        {"statistic": {"kind": "count", "where": [{"column": "income", "op": "preset"}]}},
        "did you mean 'present'?",
    ),
    (
        {"statistic": {"kind": "count", "where": [{**ABOVE, "column": "incme"}]}},
        "did you mean income?",
    ),
    ({"statistic": COUNTED}, "unknown field 'stp'; did you mean 'step'?"),
    (
        {"statistic": {**COUNTED, "edges": {"incme": [0, 50, 100]}}},
        "not counted (did you mean 'income'?)",
    ),
    ({"statistic": FITTED}, "(did you mean 'column'?)"),
    ({"mechanism": "k_nrm"}, "(did you mean 'k_norm'?)"),
    ({"norm": "l_1"}, "(did you mean 'l1'?)"),
    ({"epsilom": "1"}, "unknown field 'epsilom'; did you mean 'epsilon'?"),
    ({"assume": {"row": 5}}, "unknown field 'row'; did you mean 'rows'?"),
    ({"assume": {"population": "typcal"}}, "(did you mean 'typical'?)"),
    ({"assume": {"population": {"income": {"meen": 1, "std": 1}}}}, "did you mean 'mean'?"),
]


@pytest.mark.parametrize(("changed", "words"), MEANT, ids=lambda case: str(case)[:60])
def test_the_nearest_name_is_offered(
    analyst: httpx.Client, untouched: str, changed: dict[str, Any], words: str
) -> None:
    answer = analyst.post(f"/v1/datasets/{untouched}/previews", json={**ASKED, **changed})
    reported = [each["message"] for each in assert_problem(answer, 422)["errors"]]
    assert any(words in each for each in reported), reported
    assert len(reported) == 1, "one mistake is one entry"


@pytest.mark.parametrize("kind", sorted(STATISTICS))
def test_a_field_too_much_is_reported_with_those_that_exist(
    analyst: httpx.Client, untouched: str, kind: str
) -> None:
    """A kind may have a field of its own name, as ``test`` has: both are in its location."""
    asked = {**STATISTICS[kind].example, "colunms": ["income"]}
    answer = analyst.post(f"/v1/datasets/{untouched}/previews", json={**ASKED, "statistic": asked})
    first = assert_problem(answer, 422)["errors"][0]
    assert first["field"] == "statistic"
    assert "known: " in first["message"].casefold()
    assert "kind" in first["message"]


def test_what_is_no_slip_is_not_repeated(analyst: httpx.Client, untouched: str) -> None:
    for changed in ({SENTINEL: 1}, {"mechanism": SENTINEL}, {"assume": {SENTINEL: 1}}):
        answer = analyst.post(f"/v1/datasets/{untouched}/previews", json={**ASKED, **changed})
        assert SENTINEL not in answer.text
        assert "did you mean" not in answer.text
    reported = message(analyst.get("/v1/datasets?limt=3"), "query")
    assert reported.startswith("unknown parameter 'limt'; did you mean 'limit'?")
