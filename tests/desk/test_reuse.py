"""Released numbers used again at the desk: derived from, free, and compared."""

from __future__ import annotations

import csv
import io
import random
import time
from typing import Any

import httpx
import pytest

from app.services.releases import derivations
from tests.contract.service import Service, ask, settled, spent, upload
from tests.desk.browsing import Browsing, Page, person

COLUMNS = {
    "income": {"type": "number", "lower": 0, "upper": 100, "unit_of_measure": "EUR"},
    "food": {"type": "number", "lower": 0, "upper": 50},
    "sex": {"type": "category", "values": ["f", "m"], "labels": {"f": "women", "m": "men"}},
    "region": {"type": "category", "values": ["north", "south"]},
}
REGIONS = ("north", "south")
MOMENTS = {"kind": "moments", "columns": ["income", "food"]}
MEAN = {"kind": "mean", "columns": ["income"]}
WOMEN = {"where": [{"column": "sex", "op": "==", "value": "f"}]}


def rows(seed: int) -> str:
    """Return rows of people of their own, who have no other data set."""
    chance = random.Random(seed)
    lines = [
        f"{chance.uniform(0, 100):.4f},{chance.uniform(0, 50):.4f},{chance.choice('fm')},"
        f"{chance.choice(REGIONS)}"
        for _ in range(600)
    ]
    return "\n".join([",".join(COLUMNS), *lines, ""])


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    budget = {"epsilon": "1000"}
    return str(upload(admin, rows(71), columns=COLUMNS, name="wave one", budget=budget)["id"])


def released(admin: httpx.Client, dataset: str, statistic: object, epsilon: str = "20") -> str:
    return str(settled(admin, ask(admin, dataset, statistic, epsilon=epsilon)).json()["id"])


# Deriving


def derived(page: Page) -> str:
    (found,) = page.tree.xpath("//section[@aria-label='Derived numbers']")
    return " ".join(" ".join(found.itertext()).split())


def test_a_regression_is_derived_from_moments_and_costs_nothing(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    moments = released(admin, dataset, MOMENTS)
    before = spent(admin, dataset)
    form = chief.open(chief.open(f"/desk/releases/{moments}").links()["Derive"])
    assert form.heading == "Derive from a release of wave one"
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


def test_what_takes_long_says_how_far_it_is_and_is_shown_then(
    admin: httpx.Client, chief: Browsing, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mean = {"kind": "mean", "columns": ["income", "food"]}
    one, other = (released(admin, dataset, mean, epsilon) for epsilon in ("1", "4"))
    monkeypatch.setattr(derivations, "AT_ONCE_MS", 0.0)
    monkeypatch.setattr(derivations, "AGAIN_S", 0.0)
    form = chief.open(f"/desk/releases/{one}/derive")
    more: dict[str, Any] = {"with": [other]}
    shown = chief.send(form, "Derive", columns=["income"], **more)
    (progress,) = shown.tree.xpath("//section[@id='preview']//progress")
    assert progress.get("aria-label") == "Calculation progress"
    assert "goes on if you leave this page" in derived(shown)
    (again,) = shown.tree.xpath("//section[@id='preview']//p[@data-again]/a/@href")
    while chief.open(again).tree.xpath("//p[@data-again]"):
        time.sleep(0.05)
    assert "mean" in derived(chief.open(again)).lower()
    assert not chief.open(again).tree.xpath("//section[@id='preview']//progress")
    part = chief.client.get(f"{again}&part=preview")
    assert "data-again" not in part.text


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


def test_no_more_releases_are_combined_than_programs_may_name(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    mean = released(admin, dataset, MEAN, "7")
    many = "&".join(f"with=rel_{each}" for each in range(51))
    address = f"/desk/releases/{mean}/derive?columns=income&act=preview&{many}"
    page = chief.open(address, status=422)
    assert "names more than 50 releases" in page.text


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


# Comparing


def value(admin: httpx.Client, release: str) -> float:
    return float(admin.get(f"/v1/releases/{release}").json()["value"]["income"])


def test_releases_of_one_statistic_are_chosen_and_shown_next_to_one_another(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    one = released(admin, dataset, MEAN, "5")
    women = released(admin, dataset, {**MEAN, **WOMEN}, "5")
    other = upload(admin, rows(82), columns=COLUMNS, name="wave two")["id"]
    later = released(admin, other, MEAN, "5")
    total = released(admin, dataset, {"kind": "sum", "columns": ["income"]})
    form = chief.open(chief.open(f"/desk/releases/{one}").links()["Compare"])
    assert form.heading == "Compare releases of wave one"
    offered = form.tree.xpath("//input[@name='with']/@value")
    assert {women, later} <= {*offered}
    assert not {one, total} & {*offered}
    assert "wave one, mean of income, where sex is f, epsilon 5" in form.labels()
    others: dict[str, Any] = {"with": [women, later]}
    shown = chief.send(form, "Compare", **others)
    assert shown.path == f"/desk/releases/{one}/comparison/{women}.{later}"
    heads = [each.text_content() for each in shown.tree.xpath("//table[@class='pivot']//th")]
    assert {"wave one, all records", "wave one, where sex is f"} <= {*heads}
    assert "wave two, all records" in heads
    (picture,) = shown.tree.xpath("//svg[@role='img']")
    assert len(picture.xpath(".//circle")) == 3
    checked = shown.tree.xpath("//input[@name='with'][@checked]/@value")
    assert {*checked} == {women, later}
    files = chief.client.get(f"{shown.path}/pivot.csv")
    assert 'filename="comparison.csv"' in files.headers["content-disposition"]
    written = [cell for row in csv.reader(io.StringIO(files.text)) for cell in row]
    for each in (one, women, later):
        assert any(cell == str(value(admin, each)) for cell in written)
    drawn = chief.client.get(f"{shown.path}/chart.svg")
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert drawn.text.count("<circle") == 3
    views = admin.get("/v1/audit", params={"release": later}).json()["items"]
    assert {"read", "downloaded"} <= {each["how"] for each in views}


def test_groups_of_two_releases_have_a_column_each(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    grouped = {**MEAN, "by": ["region"]}
    one, other = (released(admin, dataset, grouped, epsilon) for epsilon in ("2", "8"))
    page = chief.open(f"/desk/releases/{one}/comparison/{other}")
    (table,) = page.tree.xpath("//table[@class='pivot']")
    lines = [[cell.text_content() for cell in line] for line in table.xpath(".//tr")]
    assert lines[1] == ["epsilon 2", "epsilon 8"]
    assert [line[0] for line in lines[2:]] == ["north", "south"]
    assert chief.open(f"{page.path}?across=region").tree.xpath("//th[normalize-space()='north']")


def test_the_same_question_twice_is_told_apart_by_its_id(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    median = {"kind": "quantile", "column": "income", "levels": [0.5]}
    one = released(admin, dataset, median, "1")
    again = ask(admin, dataset, median, epsilon="1")
    other = str(settled(admin, again).json()["id"])
    assert one != other
    page = chief.open(f"/desk/releases/{one}/comparison/{other}")
    assert one in page.text
    assert other in page.text


def test_what_cannot_be_compared_is_refused(
    service: Service, admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    one = released(admin, dataset, MEAN, "3")
    total = released(admin, dataset, {"kind": "sum", "columns": ["income"]}, "3")
    tables = released(
        admin, dataset, {"kind": "tables", "columns": ["sex", "region"], "margins": "all_two_way"}
    )
    assert "Compare" not in chief.open(f"/desk/releases/{tables}").links()
    chief.open(f"/desk/releases/{tables}/comparison", status=404)
    refused = chief.open(f"/desk/releases/{one}/comparison/{total}", status=422)
    assert "another statistic" in refused.text
    many = ".".join(released(admin, dataset, MEAN, f"3.{each}") for each in range(1, 7))
    refused = chief.open(f"/desk/releases/{one}/comparison/{many}", status=422)
    assert "more than 5 releases" in refused.text
    chief.open(f"/desk/releases/{one}/comparison/{total}/chart.svg", status=422)
    chief.open(f"/desk/releases/{one}/comparison/{one}/pivot.ods", status=404)
    with person(service, admin, "analyst") as somebody:
        somebody.open(f"/desk/releases/{one}/comparison", status=404)


def test_the_only_release_of_a_statistic_has_none_to_be_compared_with(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    alone = released(admin, dataset, {"kind": "geometric_median", "columns": ["income"]})
    page = chief.open(f"/desk/releases/{alone}/comparison")
    assert "There is no other release of this statistic." in page.text
