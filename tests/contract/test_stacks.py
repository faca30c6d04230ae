"""Stacks over HTTP: one charge, one answer with parts, policies and refusals part by part."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import httpx
import pytest

from tests.contract.service import MEAN, ask, assert_problem, send_upload, spec, spent, upload

HISTOGRAM: dict[str, Any] = {"kind": "histogram", "columns": ["region"]}
QUANTILE: dict[str, Any] = {"kind": "quantile", "column": "food", "levels": [0.25, 0.75]}


def stack(*parts: tuple[Any, Any]) -> dict[str, Any]:
    return {
        "kind": "stack",
        "parts": [{"statistic": statistic, "share": share} for statistic, share in parts],
    }


MIXED = stack((MEAN, 1), (HISTOGRAM, 0.5), (QUANTILE, 1.5))


def test_one_charge_and_one_answer_with_parts(curator: httpx.Client, dataset: str) -> None:
    answer = ask(curator, dataset, MIXED, epsilon="1")
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert (body["mechanism"], body["norm"], body["epsilon"]) == ("composition", None, "1")
    mean, histogram, quantile = body["value"]["parts"]
    assert list(mean) == ["income"]
    assert [cell["cell"] for cell in histogram["cells"]] == [
        {"region": "north"},
        {"region": "south"},
    ]
    assert [each["level"] for each in quantile["quantiles"]] == ["0.25", "0.75"]
    std, interval = (body["noise"][name]["parts"] for name in ("std", "interval_95"))
    assert list(std[0]) == ["income"]
    assert std[2] is None
    assert interval[2] is None
    low, high = interval[0]["income"]
    assert low <= mean["income"] <= high
    parts = body["details"]["parts"]
    assert [part["mechanism"] for part in parts] == ["k_norm", "k_norm", "kng"]
    shares = [Fraction(part["epsilon"]) for part in parts]
    assert shares == [Fraction(1, 3), Fraction(1, 6), Fraction(1, 2)]
    assert len(body["grid"]["parts"]) == 3
    assert "mean, histogram and quantile of" in body["citation"]
    assert spent(curator, dataset) == "1"


def test_the_same_stack_replays_and_another_is_refused(curator: httpx.Client, dataset: str) -> None:
    first = ask(curator, dataset, MIXED, key="stack")
    again = stack((MEAN, 1.0), (HISTOGRAM, 5e-1), (QUANTILE, 1.5))
    assert ask(curator, dataset, again, key="stack").content == first.content
    doubled = stack((MEAN, 2), (HISTOGRAM, 1), (QUANTILE, 3))
    assert ask(curator, dataset, doubled, key="stack").content == first.content, "the same shares"
    other = stack((MEAN, 2), (HISTOGRAM, 1), (QUANTILE, 4))
    assert_problem(ask(curator, dataset, other, key="stack"), 422, "idempotency-key-reused")
    assert spent(curator, dataset) == "0.1"


def test_a_preview_states_each_part_s_noise(analyst: httpx.Client, dataset: str) -> None:
    def preview(statistic: Any, **more: Any) -> Any:
        body = {"statistic": statistic, "epsilon": "1", **more}
        answer = analyst.post(f"/v1/datasets/{dataset}/previews", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    mixed = preview(MIXED, accuracy=2)
    assert mixed["cost"] == "1"
    alone = preview(MEAN)["noise"]["std"]["income"]
    # a third of epsilon: three times the noise
    assert mixed["noise"]["std"]["parts"][0]["income"] == pytest.approx(3 * alone, rel=1e-6)
    assert mixed["noise"]["std"]["parts"][2] is None
    assert mixed["accuracy"]["wanted"] == 2
    assert Fraction(mixed["accuracy"]["epsilon"]) > 10, "laws of counts and a simulated median"
    assert mixed["accuracy"]["estimate"] in ("simulated", "coarse")
    assert any(row["comparison"].startswith("parts[1]: ") for row in mixed["alternatives"])
    uneven = preview(stack((MEAN, 1), (HISTOGRAM, 1e-4)), accuracy=50)
    assert Fraction(uneven["accuracy"]["epsilon"]) > 100
    wanted = preview(stack((MEAN, 1), (MEAN, 3)), accuracy=5)["accuracy"]["epsilon"]
    assert Fraction(wanted) == pytest.approx(
        4 * Fraction(preview(MEAN, accuracy=5)["accuracy"]["epsilon"]), rel=2e-3
    )
    assert spent(analyst, dataset) == "0"


def test_parts_that_can_have_standard_errors_have_them(curator: httpx.Client, dataset: str) -> None:
    """At a share of their own epsilon; the others say why they have none."""
    body = ask(curator, dataset, MIXED, epsilon="9", inference={"share": "1/3"}).json()
    places = [term["place"] for term in body["inference"]["terms"]]
    assert places[:-2] == [["parts", 0, name] for name in body["value"]["parts"][0]]
    assert places[-2:] == [["parts", 2, "quantiles", at, "value"] for at in (0, 1)]
    assert Fraction(body["inference"]["cost"]) == Fraction(9, 6)
    for term, value in zip(
        body["inference"]["terms"][-2:], body["value"]["parts"][2]["quantiles"], strict=True
    ):
        low, high = term["confidence_95"]
        assert low <= value["value"] == term["estimate"] <= high
    facts = body["details"]["parts"]
    assert ["no_inference" in part for part in facts] == [False, True, False]
    assert spent(curator, dataset) == "9"
    answer = ask(curator, dataset, stack((HISTOGRAM, 1)), inference={"share": "1/3"})
    refused = assert_problem(answer, 422, "invalid-request")
    assert refused["errors"][0]["field"] == "inference"


def test_a_policy_judges_the_parts(curator: httpx.Client) -> None:
    dataset = upload(curator, policy={"allowed": ["mean", "histogram"]})["id"]
    assert ask(curator, dataset, stack((MEAN, 1), (HISTOGRAM, 1))).status_code == 201
    refused = assert_problem(ask(curator, dataset, MIXED), 422, "policy-refused")
    assert refused["rule"] == "allowed"
    assert spent(curator, dataset) == "0.1"


def test_a_policy_cannot_name_the_stack_itself(curator: httpx.Client) -> None:
    answer = send_upload(curator, body=spec(policy={"allowed": ["stack"]}))
    problem = assert_problem(answer, 422, "invalid-request")
    assert "stack" not in problem["errors"][0]["message"]


REFUSED: list[tuple[Any, str]] = [
    (stack(), "statistic.parts"),
    ({"kind": "stack"}, "statistic.parts"),
    (stack((stack((MEAN, 1)), 1)), "statistic.parts[0].statistic.kind"),
    (stack((MEAN, 1), (MEAN, 0)), "statistic.parts[1].share"),
    (stack((MEAN, "1")), "statistic.parts[0].share"),
    (stack((MEAN, True)), "statistic.parts[0].share"),
    (stack((MEAN, 0.12345678901)), "statistic.parts[0].share"),
    (stack((MEAN, 1), (HISTOGRAM | {"columns": []}, 1)), "statistic.parts[1].statistic.columns"),
    (stack((MEAN | {"more": 1}, 1)), "statistic.parts[0].statistic"),
    (stack(*[(MEAN, 1)] * 21), "statistic.parts"),
    (
        {"kind": "stack", "parts": [{"statistic": MEAN, "norm": "l0"}]},
        "statistic.parts[0].norm",
    ),
    (
        {"kind": "stack", "parts": [{"statistic": MEAN, "mechanism": "kng"}]},
        "statistic.parts[0].mechanism",
    ),
]


@pytest.mark.parametrize(("statistic", "field"), REFUSED, ids=[field for _, field in REFUSED])
def test_refusals_name_the_part(
    curator: httpx.Client, untouched: str, statistic: Any, field: str
) -> None:
    answer = ask(curator, untouched, statistic)
    problem = assert_problem(answer, 422, "invalid-request")
    assert problem["errors"][0]["field"] == field
    assert spent(curator, untouched) == "0"


def test_a_share_too_small_to_draw_is_refused(curator: httpx.Client, dataset: str) -> None:
    answer = ask(curator, dataset, stack((MEAN, 1e6), (MEAN, 1e-6)), epsilon="0.000001")
    problem = assert_problem(answer, 422, "invalid-request")
    assert problem["errors"][0]["field"] == "statistic.parts[1].share"


@pytest.mark.parametrize("more", [{"mechanism": "k_norm"}, {"norm": "l1"}])
def test_a_stack_has_no_mechanism_or_norm_of_its_own(
    curator: httpx.Client, dataset: str, more: Any
) -> None:
    problem = assert_problem(ask(curator, dataset, MIXED, **more), 422, "invalid-request")
    assert problem["errors"][0]["field"] == next(iter(more))
