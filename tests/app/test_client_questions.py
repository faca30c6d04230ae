"""Questions in Python: conditions as text, and keywords that are the fields of the contract."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx
import pytest

from app.client import ClientError, Dataset, Release, ReleaseDesk
from app.client.questions import Fields, conditions_in, question, several
from mechanisms.catalog import STATISTICS
from tests.tiers import in_one

OPENAPI = json.loads((Path(__file__).parents[1] / "contract/openapi.json").read_text("utf-8"))
MEMBERS = {
    schema["properties"]["kind"]["const"]: schema["properties"].keys() - {"kind"}
    for schema in OPENAPI["components"]["schemas"].values()
    if "const" in schema.get("properties", {}).get("kind", {})
}
FACTS = {"id": "ds_1", "name": "wages", "adjacency": "replace_one", "status": "active",
         "columns": {"age": {"type": "number"}}, "rows": 9}  # fmt: skip
RELEASE = {
    "id": "rel_1", "dataset": "ds_1", "status": "released", "epsilon": "0.5",
    "statistic": {"kind": "mean", "columns": ["age"]}, "mechanism": "k_norm",
    "value": {"age": 40.5},
}  # fmt: skip

TEXTS: dict[str, list[dict[str, Any]]] = {
    "age > 40": [{"column": "age", "op": ">", "value": 40}],
    " 40 < age ": [{"column": "age", "op": ">", "value": 40}],
    "18 <= age < 65.5": [
        {"column": "age", "op": ">=", "value": 18},
        {"column": "age", "op": "<", "value": 65.5},
    ],
    "sex == 'f' and region in ('north', 'south')": [
        {"column": "sex", "op": "==", "value": "f"},
        {"column": "region", "op": "in", "value": ["north", "south"]},
    ],
    "balance != -3 and (owner and not retired)": [
        {"column": "balance", "op": "!=", "value": -3},
        {"column": "owner", "op": "==", "value": True},
        {"column": "retired", "op": "==", "value": False},
    ],
    "income is missing and day >= '2020-03-08'": [
        {"column": "income", "op": "missing"},
        {"column": "day", "op": ">=", "value": "2020-03-08"},
    ],
    "income is not missing": [{"column": "income", "op": "present"}],
    "owner == True": [{"column": "owner", "op": "==", "value": True}],
}
OTHERS = [
    "", "age >", "age > 40 or sex == 'f'", "age + 1 > 40", "age > income", "not (age > 40)",
    "3 in age", "age > f(3)", "__import__('os')", "age > 1j", "age is None", "(lambda: 1)()",
    "(" * 500, "age > b'x'",
]  # fmt: skip


@in_one("text", TEXTS)
def test_a_text_is_a_list_of_comparisons(text: str) -> None:
    asked = {"kind": "count", "where": text}
    assert conditions_in(text) == TEXTS[text]
    assert question(asked, 1)["statistic"] == {"kind": "count", "where": TEXTS[text]}
    parts = [{"statistic": {"kind": "count", "where": [text, {"column": "a", "op": "present"}]}}]
    sent: Any = question({"kind": "stack", "parts": parts}, 1)["statistic"]
    (part,) = sent["parts"]
    assert part["statistic"]["where"] == [*TEXTS[text], {"column": "a", "op": "present"}]


@in_one("text", OTHERS)
def test_another_expression_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(ClientError, match=r"Join comparisons .* by `and`"):
        conditions_in(text)


@in_one("kind", sorted(STATISTICS))
def test_the_keywords_of_a_method_are_the_fields_of_its_statistic(kind: str) -> None:
    method: Any = inspect.getattr_static(Dataset, kind)
    own = set(inspect.signature(method.steps).parameters)
    (keywords,) = get_args(get_type_hints(method.steps)["fields"])
    named = own | set(get_type_hints(keywords))
    assert MEMBERS[kind] <= named, "every field can be given"
    options = {"mechanism", "norm", "inference", "purpose", "fresh", "idempotency_key", "wait",
               "on_wait", "epsilon", "self", "fields", "shares"}  # fmt: skip
    assert named - MEMBERS[kind] <= options, "and no other"
    assert MEMBERS[kind] <= set(get_type_hints(Fields))


def test_an_answer_a_data_set_and_a_desk_read_well() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=RELEASE if "releases" in request.url.path else FACTS)

    desk = ReleaseDesk("http://desk", "k" * 40, transport=httpx.MockTransport(answer))
    wages = desk.dataset("wages")
    found = wages.mean("age", epsilon=0.5, where="age >= 18")
    assert repr(desk) == "<ReleaseDesk http://desk>", "and never the key"
    assert repr(wages) == "<Dataset 'wages' (ds_1): replace_one, 9 rows, 1 columns, active>"
    assert repr(found) == "<Release rel_1: mean, k_norm, released, epsilon 0.5: age 40.5>"
    by_sex = {"groups": [{"by": {"sex": "f"}, "value": {"age": 41}}]}
    assert repr(Release.model_validate({**RELEASE, "value": by_sex})).endswith(": f age 41>")
    frame = found.to_polars()
    assert frame.columns[:2] == ["term", "value"]
    assert frame.row(0)[:2] == ("age", 40.5)


def test_a_share_of_epsilon_stands_for_an_inference_in_every_question() -> None:
    mean = {"kind": "mean", "columns": ["income"]}
    asked: dict[str, Any] = {"statistic": mean, "epsilon": 1, "inference": "1/3"}
    body = question(asked["statistic"], 1, inference="1/3", purpose="a table")
    assert body["inference"] == {"share": "1/3"}
    assert body["purpose"] == "a table"
    assert several([asked]) == [question(asked["statistic"], 1, inference={"share": "1/3"})]
