"""Deriving at the desk: statistics of released numbers, free, alone and of several releases."""

from __future__ import annotations

import csv
import io
import random
from typing import Any

import httpx
import pytest

from tests.contract.service import Service, ask, settled, spent, upload
from tests.desk.browsing import Browsing, Page, person

COLUMNS = {
    "income": {"type": "number", "lower": 0, "upper": 100, "unit_of_measure": "EUR"},
    "food": {"type": "number", "lower": 0, "upper": 50},
    "region": {"type": "category", "values": ["north", "south"]},
}


def rows(seed: int) -> str:
    """Return rows of people of their own, who have no other data set."""
    chance = random.Random(seed)
    lines = [
        f"{chance.uniform(0, 100):.4f},{chance.uniform(0, 50):.4f},{chance.choice(REGIONS)}"
        for _ in range(600)
    ]
    return "\n".join(["income,food,region", *lines, ""])


REGIONS = ("north", "south")
MOMENTS = {"kind": "moments", "columns": ["income", "food"]}


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    budget = {"epsilon": "1000"}
    return str(upload(admin, rows(71), columns=COLUMNS, name="derived from", budget=budget)["id"])


def released(admin: httpx.Client, dataset: str, statistic: object, epsilon: str = "20") -> str:
    return str(settled(admin, ask(admin, dataset, statistic, epsilon=epsilon)).json()["id"])


def derived(page: Page) -> str:
    (found,) = page.tree.xpath("//section[@aria-label='Derived numbers']")
    return " ".join(" ".join(found.itertext()).split())


def test_a_regression_is_derived_from_moments_and_costs_nothing(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    moments = released(admin, dataset, MOMENTS)
    before = spent(admin, dataset)
    form = chief.open(chief.open(f"/desk/releases/{moments}").links()["Derive"])
    assert form.heading == "Derive from a release of derived from"
    assert "moments of income, food, epsilon 20" in form.text
    assert "Price" not in form.text
    assert not form.tree.xpath("//*[@name='epsilon' or @name='purpose' or @name='mechanism']")
    other = chief.open(f"{form.path}?statistic=linear_regression&before=moments")
    asked: dict[str, Any] = {"target": "food", "features": ["income"], "bound": "2"}
    shown = chief.send(other, "Derive", **asked)
    assert not shown.alerts()
    body = {"statistic": {"kind": "linear_regression", **asked, "bound": 2}}
    answer = admin.post(f"/v1/releases/{moments}/derivations", json=body).json()
    slope = answer["value"]["coefficients"]["income"]
    assert f"{slope:.3f}"[:4] in derived(shown)
    assert "costs nothing" in derived(shown)
    file = chief.client.get(shown.links()["Download CSV"])
    assert 'filename="derived.csv"' in file.headers["content-disposition"]
    rows = {row["term"]: row["estimate"] for row in csv.DictReader(io.StringIO(file.text))}
    assert float(rows["income"]) == slope
    assert spent(admin, dataset) == before
    assert "derived" in views(admin, moments)
    part = chief.client.get(f"{shown.path}?{httpx.QueryParams(form_pairs(shown))}&part=preview")
    assert "<html" not in part.text
    assert "costs nothing" in part.text


def views(admin: httpx.Client, release: str) -> set[str]:
    """Return how a release has been seen."""
    found = admin.get("/v1/audit", params={"release": release}).json()["items"]
    return {each["how"] for each in found}


def form_pairs(page: Page) -> list[tuple[str, Any]]:
    kept = page.form("Derive").form_values()
    return [*((name, value) for name, value in kept if value), ("act", "preview")]


def test_several_releases_err_less_than_one(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    mean = {"kind": "mean", "columns": ["income"]}
    one = released(admin, dataset, mean, epsilon="1")
    other = released(admin, dataset, {**mean, "columns": ["income", "food"]}, epsilon="4")
    form = chief.open(f"/desk/releases/{one}/derive")
    assert "mean of income, food, epsilon 4" in form.labels()
    more: dict[str, Any] = {"with": [other]}
    shown = chief.send(form, "Derive", columns=["income"], **more)
    body = {"statistic": mean, "together_with": [other]}
    answer = admin.post(f"/v1/releases/{one}/derivations", json=body).json()
    low, high = answer["noise"]["interval_95"]["income"]
    assert f"{low:.2f}"[:4] in derived(shown)
    assert high - low < 20
    assert "[EUR]" in derived(shown) or "income" in derived(shown)


def test_what_the_numbers_do_not_determine_is_refused_with_what_they_do(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    mean = released(admin, dataset, {"kind": "mean", "columns": ["food"]})
    form = chief.open(f"/desk/releases/{mean}/derive?statistic=std&before=mean")
    shown = chief.send(form, "Derive", status=422, columns=["food"])
    (alert,) = shown.alerts()
    assert "from it can be derived: mean, sum of food" in alert
    part = chief.client.get(f"{shown.path}?{httpx.QueryParams(form_pairs(shown))}&part=preview")
    assert "can be derived: mean, sum of food" in part.text


def test_a_stack_is_derived_from_by_its_first_question(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    total = {"kind": "sum", "columns": ["income"]}
    parts = [{"statistic": total}, {"statistic": MOMENTS}]
    stack = released(admin, dataset, {"kind": "stack", "parts": parts})
    form = chief.open(f"/desk/releases/{stack}/derive")
    assert form.form("Derive").fields["statistic"] == "sum"
    assert "stack" not in form.tree.xpath("//select[@name='statistic']/option/@value")


def test_nobody_derives_from_what_is_not_theirs_or_not_there(
    service: Service, admin: httpx.Client, dataset: str
) -> None:
    mean = released(admin, dataset, {"kind": "mean", "columns": ["food"]}, epsilon="3")
    with person(service, admin, "analyst") as somebody:
        somebody.open(f"/desk/releases/{mean}/derive", status=404)
        somebody.open("/desk/releases/rel_0/derive", status=404)
    reviewed = upload(admin, rows(72), columns=COLUMNS, policy={"review": "always"})["id"]
    waiting = ask(admin, reviewed, MOMENTS, epsilon="0.1").json()["id"]
    assert admin.get(f"/v1/releases/{waiting}").json()["status"] == "awaiting_review"
    with person(service, admin, "curator") as somebody:
        somebody.open(f"/desk/releases/{waiting}/derive", status=404)


def test_a_curator_learns_nothing_of_releases_of_data_sets_that_are_hidden(
    service: Service, admin: httpx.Client, dataset: str
) -> None:
    """Naming one more release answers as naming none, though it is not the one in the path."""
    hidden = str(upload(admin, rows(73), columns=COLUMNS)["id"])
    secret = released(admin, hidden, {"kind": "mean", "columns": ["income"]}, epsilon="0.5")
    shown = released(admin, dataset, {"kind": "mean", "columns": ["income"]}, epsilon="2")
    body = {
        "access": {"persons": [], "groups": []},
        "reason": "Only for its own office, by contract",
    }
    restricted = admin.put(f"/v1/datasets/{hidden}/access", json=body)
    assert restricted.status_code == 200, restricted.text
    with person(service, admin, "curator") as somebody:
        for other in (secret, "rel_0"):
            page = somebody.client.get(f"/desk/releases/{shown}/comparison/{other}")
            assert page.status_code == 404
            address = f"/desk/releases/{shown}/derive?columns=income&with={other}&act=preview"
            refused = Page(somebody.client.get(address))
            assert "There is no such release." in refused.text


def test_who_may_not_ask_is_led_to_comparisons_alone(
    service: Service, admin: httpx.Client, dataset: str
) -> None:
    mean = released(admin, dataset, {"kind": "mean", "columns": ["food"]}, epsilon="6")
    with person(service, admin, "auditor") as somebody:
        links = somebody.open(f"/desk/releases/{mean}").links()
        assert "Compare" in links
        assert "Derive" not in links
        somebody.open(links["Compare"])
        somebody.open(f"/desk/releases/{mean}/derive", status=403)
