"""Study plans: what several questions cost together, before the first of them is paid for."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner

from app.cli import main
from app.client import ReleaseDesk
from app.client.models import asked_in
from tests.contract.service import (
    ADMIN_KEY,
    MEAN,
    Service,
    assert_problem,
    make_key,
    upload,
)

COUNT = {"kind": "count", "where": [{"column": "owner", "op": "==", "value": True}]}
QUESTIONS: list[dict[str, Any]] = [
    {"statistic": MEAN, "epsilon": "0.5"},
    {"statistic": COUNT, "accuracy": 20},
    {"statistic": {**MEAN, "by": ["region"]}, "epsilon": "0.125"},
]


def plan(client: httpx.Client, dataset: str, questions: list[dict[str, Any]]) -> httpx.Response:
    return client.post(f"/v1/datasets/{dataset}/study-plans", json={"questions": questions})


def test_a_plan_is_its_previews_and_their_exact_sum(admin: httpx.Client, dataset: str) -> None:
    found = plan(admin, dataset, QUESTIONS).json()
    path = f"/v1/datasets/{dataset}/previews"
    assert found["questions"] == [admin.post(path, json=each).json() for each in QUESTIONS]
    prices = [Decimal(each["charge"]["amount"]) for each in found["questions"]]
    assert Decimal(found["charge"]["amount"]) == sum(prices)
    assert found["charge"]["unit"] == "epsilon"
    assert found["unpriced"] == []
    assert found["questions"][1]["accuracy"]["epsilon"] == found["questions"][1]["epsilon"]


def test_a_plan_charges_nothing_and_says_whether_there_is_enough(admin: httpx.Client) -> None:
    dataset = upload(admin, budget={"epsilon": "1"})["id"]
    mean = {"statistic": MEAN, "epsilon": "0.5"}
    enough = plan(admin, dataset, [mean, mean]).json()
    assert (enough["charge"]["amount"], enough["fits"]) == ("1", True)
    more = plan(admin, dataset, [mean, mean, {**mean, "epsilon": "0.000000001"}]).json()
    assert (more["charge"]["amount"], more["fits"]) == ("1.000000001", False)
    assert more["remaining"] == {"amount": "1", "unit": "epsilon"}
    budget = admin.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["epsilon"]["spent"] == budget["epsilon"]["reserved"] == "0"


def test_a_cap_is_what_is_left(service: Service, admin: httpx.Client) -> None:
    dataset, key = upload(admin)["id"], make_key(admin, "analyst")
    cap = {"person": key["person"], "epsilon": "0.4", "reason": "a test"}
    assert admin.put(f"/v1/datasets/{dataset}/caps", json=cap).status_code == 200
    with service.client(key["secret"]) as analyst:
        found = plan(analyst, dataset, QUESTIONS[:1]).json()
    assert (found["remaining"]["amount"], found["fits"]) == ("0.4", False)


def test_accounts_in_zcdp_add_up_in_rho(admin: httpx.Client) -> None:
    dataset = upload(admin, budget={"epsilon": "10", "delta": "1e-6"})["id"]
    mean = {"statistic": MEAN, "epsilon": "0.5"}
    found = plan(admin, dataset, [mean, mean]).json()
    assert found["charge"] == {"amount": "0.25", "unit": "rho"}
    assert found["fits"] is True


def test_a_refusal_names_the_question(admin: httpx.Client, dataset: str) -> None:
    for wrong, place in (
        ([QUESTIONS[0], {"statistic": MEAN}], "questions.1.epsilon"),
        (
            [{"statistic": {**MEAN, "columns": ["incom"]}, "epsilon": "1"}],
            "questions.0.statistic.columns",
        ),
    ):
        found = assert_problem(plan(admin, dataset, wrong), 422, "invalid-request")
        assert found["errors"][0]["field"].startswith(place), found
    assert_problem(plan(admin, dataset, []), 422, "invalid-request")
    assert_problem(plan(admin, dataset, 21 * QUESTIONS[:1]), 422, "invalid-request")


def test_the_client_and_the_command_line_show_a_plan(
    service: Service, dataset: str, tmp_path: Path
) -> None:
    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        found = desk.dataset(dataset).plan(QUESTIONS)
    assert found.fits
    assert [row["question"] for row in found.rows()] == [
        "mean of income", "count", "mean of income by region", "all",
    ]  # fmt: skip
    file = tmp_path / "study.json"
    file.write_text(json.dumps({"questions": QUESTIONS}))
    known = {"RELEASE_DESK_URL": service.url, "RELEASE_DESK_KEY": ADMIN_KEY}
    shown = CliRunner().invoke(main, ["releases", "plan", dataset, str(file)], env=known)
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines()[0].split() == ["question", "epsilon", "charge", "verdict"]
    assert shown.output.splitlines()[-1].startswith("all")
    wrong = CliRunner().invoke(main, ["releases", "plan", dataset, "-"], input="{}", env=known)
    assert wrong.exit_code == 2


def test_a_question_in_short() -> None:
    years = {"column": "age", "step": 10}
    assert asked_in({"kind": "mean", "columns": ["a"], "by": [years]}) == "mean of a by age"
    assert (
        asked_in({"kind": "linear_regression", "formula": "y ~ x"}) == "linear regression of y ~ x"
    )
