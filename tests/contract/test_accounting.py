"""Accounts in zCDP over HTTP: their target, what releases cost, refusals, and attaching."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import httpx
import pytest

from tests.contract.service import MEAN, ask, assert_problem, send_upload, spec, upload

TARGET = {"epsilon": "1", "delta": "1e-6"}
QUANTILE = {"kind": "quantile", "column": "income", "levels": [0.5]}


def budget(client: httpx.Client, dataset: str) -> dict[str, object]:
    answer = client.get(f"/v1/datasets/{dataset}/budget")
    assert answer.status_code == 200
    return dict(answer.json())


def test_an_account_states_its_target_and_its_rho(admin: httpx.Client) -> None:
    made = upload(
        admin, budget={"epsilon": 1, "delta": 1e-6}
    )  # numbers are read as they are written
    found = made["budget"]
    assert found == {
        "epsilon": {"total": "1", "spent": "0", "reserved": "0", "remaining": "1"},
        "accounting": "zcdp",
        "delta": "0.000001",
        "rho": {"total": "0.024355970359", "spent": "0", "reserved": "0",
                "remaining": "0.024355970359"},
    }  # fmt: skip
    pure = upload(admin)["budget"]
    assert (pure["accounting"], pure["delta"], pure["rho"]) == ("pure", None, None)


def test_charges_are_sums_of_rho(admin: httpx.Client) -> None:
    """A K-norm draw costs epsilon^2 / 2, a gradient draw epsilon^2 / 8, exactly."""
    dataset = upload(admin, budget=TARGET)["id"]
    body = {"statistic": MEAN, "epsilon": "0.1", "mechanism": "k_norm"}
    preview = admin.post(f"/v1/datasets/{dataset}/previews", json=body).json()
    assert preview["charge"] == {"amount": "0.005", "unit": "rho"}
    assert preview["cost"] == "0.1"
    answer = ask(admin, dataset, MEAN, epsilon="0.1", mechanism="k_norm").json()
    assert answer["guarantee"]["definition"] == "pure epsilon-DP"
    assert "rho" not in answer["guarantee"]
    assert answer["guarantee"]["epsilon"] == "0.1"
    assert ask(admin, dataset, QUANTILE, epsilon="0.1").status_code == 201
    found = budget(admin, dataset)
    assert found["rho"]["spent"] == "0.00625"  # type: ignore[index]
    spent, left = (Fraction(found["epsilon"][key]) for key in ("spent", "remaining"))  # type: ignore[index]
    assert 0 < spent < Fraction("0.6")
    assert spent + left == 1
    entries = admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert [(entry["kind"], entry["amount"], entry["unit"]) for entry in entries] == [
        ("open", "0.024355970359", "rho"),
        ("debit", "0.005", "rho"),
        ("debit", "0.00125", "rho"),
    ]
    assert admin.get("/v1/ledger/verification").json()["ok"]


def test_noisy_sums_are_gaussian_and_cost_what_pure_ones_do(admin: httpx.Client) -> None:
    dataset = upload(admin, budget=TARGET)["id"]
    body = {"statistic": MEAN, "epsilon": "0.1"}
    preview = admin.post(f"/v1/datasets/{dataset}/previews", json=body).json()
    assert preview["mechanism"] == "gaussian"
    assert preview["charge"] == {"amount": "0.005", "unit": "rho"}
    assert "k_norm" in {each["mechanism"] for each in preview["alternatives"]}
    answers = [ask(admin, dataset, MEAN, epsilon="0.1").json()]
    answers.append(ask(admin, dataset, MEAN, epsilon="0.1", mechanism="gaussian").json())
    for answer in answers:
        assert (answer["mechanism"], answer["norm"]) == ("gaussian", None)
        promised = answer["guarantee"]
        assert (promised["definition"], promised["rho"]) == ("rho-zCDP", "0.005")
        assert promised["epsilon"] == "0.1"
    assert budget(admin, dataset)["rho"]["spent"] == "0.01"  # type: ignore[index]
    body = {"statistic": MEAN, "together_with": [answers[1]["id"]]}
    combined = admin.post(f"/v1/releases/{answers[0]['id']}/derivations", json=body).json()
    assert combined["guarantee"]["definition"] == "rho-zCDP"
    assert combined["guarantee"]["rho"] == "0.01"
    assert "Lemma 1.7" in combined["guarantee"]["theorem"]
    assert admin.get("/v1/ledger/verification").json()["ok"]


def test_an_account_without_a_delta_refuses_gaussian_noise(admin: httpx.Client) -> None:
    dataset = upload(admin)["id"]
    answer = ask(admin, dataset, MEAN, epsilon="0.1", mechanism="gaussian")
    problem = assert_problem(answer, 422, "invalid-request")
    (error,) = problem["errors"]  # type: ignore[misc]
    assert error["field"] == "mechanism"
    assert "accounts that have a delta" in error["message"]
    part = {"statistic": MEAN, "mechanism": "gaussian"}
    stack = ask(admin, dataset, {"kind": "stack", "parts": [part, part]}, epsilon="0.1")
    assert_problem(stack, 422, "invalid-request")
    assert ask(admin, dataset, MEAN, epsilon="0.1").json()["mechanism"] == "k_norm"
    assert budget(admin, dataset)["epsilon"]["spent"] == "0.1"  # type: ignore[index]
    lines = {(each["mechanism"], *each["accounting"]) for each in _catalog(admin)}
    assert ("gaussian", "zcdp") in lines
    assert ("k_norm", "pure", "zcdp") in lines


def _catalog(client: httpx.Client) -> list[dict[str, Any]]:
    return list(client.get("/v1/catalog").json()["items"])


@pytest.mark.wide
def test_many_small_releases_fit_where_epsilons_would_not(admin: httpx.Client) -> None:
    dataset = upload(admin, budget=TARGET)["id"]
    codes = [ask(admin, dataset, QUANTILE, epsilon="0.05").status_code for _ in range(79)]
    assert codes == [201] * 77 + [409] * 2  # 77 * 0.05**2 / 8 <= rho < 78 * 0.05**2 / 8
    assert 77 * Fraction("0.05") > 1


def test_a_refusal_speaks_of_epsilons(admin: httpx.Client) -> None:
    dataset = upload(admin, budget=TARGET)["id"]
    problem = assert_problem(ask(admin, dataset, epsilon="0.5"), 409, "budget-exceeded")
    assert problem["requested"] == "0.5"
    assert ask(admin, dataset, epsilon=problem["remaining"]).status_code == 201
    again = assert_problem(ask(admin, dataset, epsilon="0.01"), 409, "budget-exceeded")
    assert Fraction(again["remaining"]) < Fraction("0.0001")
    huge = assert_problem(ask(admin, dataset, epsilon="10000"), 409, "budget-exceeded")
    assert huge["requested"] == "10000"


@pytest.mark.parametrize("expires", [None, "2100-01-01T00:00:00Z"])
def test_a_target_is_never_raised(admin: httpx.Client, expires: str | None) -> None:
    """A proof about a target that was fixed in advance says nothing of one that follows answers."""
    dataset = upload(admin, budget=TARGET)["id"]
    before = budget(admin, dataset)
    grant = {"epsilon": "2", "reason": "the second round", "expires": expires}
    refused = admin.post(f"/v1/datasets/{dataset}/grants", json=grant)
    problem = assert_problem(refused, 409, "target-fixed")
    assert "Nothing was changed" in problem["detail"]
    assert budget(admin, dataset) == before
    entries = admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert [entry["kind"] for entry in entries] == ["open"]


def test_no_cap_lies_beyond_what_is_certified(admin: httpx.Client) -> None:
    """Conversions are certified up to 10,000."""
    dataset = upload(admin, budget={"epsilon": "9999", "delta": "1e-6"})["id"]
    before = budget(admin, dataset)
    body = {"epsilon": "10001", "person": "bootstrap", "reason": "too much"}
    answer = admin.put(f"/v1/datasets/{dataset}/caps", json=body)
    problem = assert_problem(answer, 422, "invalid-request")
    assert [error["field"] for error in problem["errors"]] == ["epsilon"]
    assert budget(admin, dataset) == before


def test_the_kind_is_fixed_when_the_account_is_opened(admin: httpx.Client) -> None:
    first = upload(admin, budget=TARGET)
    second = upload(admin, budget=None, account=first["account"])
    assert second["budget"]["accounting"] == "zcdp"
    assert ask(admin, second["id"], epsilon="0.1").status_code == 201
    assert budget(admin, first["id"])["rho"]["spent"] == "0.005"  # type: ignore[index]
    other = spec(account=first["account"], budget={"epsilon": "1", "delta": "1e-9"})
    assert_problem(send_upload(admin, body=other), 422, "invalid-request")
    pure = upload(admin)
    turned = spec(account=pure["account"], budget=TARGET)
    assert_problem(send_upload(admin, body=turned), 422, "invalid-request")


def test_an_upload_joins_an_account_of_its_own_adjacency_that_exists(admin: httpx.Client) -> None:
    first = upload(admin)
    joins = {"account": first["account"], "budget": None}
    other = spec(adjacency="add_remove", max_rows=1_000, **joins)
    reported = assert_problem(send_upload(admin, body=other), 422, "invalid-request")
    assert "must be replace_one" in str(reported["errors"])
    unknown = spec(**{**joins, "account": "acc_" + 32 * "0"})
    reported = assert_problem(send_upload(admin, body=unknown), 422, "invalid-request")
    assert "is not the account of a data set" in str(reported["errors"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": "1", "delta": "0"},
        {"epsilon": "1", "delta": "0.5"},
        {"epsilon": "1", "delta": "1e-31"},
        {"epsilon": "1", "delta": "-1e-6"},
        {"epsilon": "1", "delta": True},
        {"epsilon": "10001", "delta": "1e-6"},
    ],
)
def test_a_target_out_of_range_is_refused(admin: httpx.Client, wrong: dict[str, object]) -> None:
    assert_problem(send_upload(admin, body=spec(budget=wrong)), 422, "invalid-request")
