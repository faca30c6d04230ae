"""Comparing releases at the desk: one table, one chart and files of their numbers."""

from __future__ import annotations

import csv
import io
import random
from typing import Any

import httpx
import pytest

from tests.contract.service import Service, ask, settled, upload
from tests.desk.browsing import Browsing, person

COLUMNS = {
    "income": {"type": "number", "lower": 0, "upper": 100, "unit_of_measure": "EUR"},
    "sex": {"type": "category", "values": ["f", "m"], "labels": {"f": "women", "m": "men"}},
    "region": {"type": "category", "values": ["north", "south"]},
}


def rows(seed: int) -> str:
    """Return rows of people of their own, who have no other data set."""
    chance = random.Random(seed)
    lines = [
        f"{chance.uniform(0, 100):.4f},{chance.choice('fm')},{chance.choice(('north', 'south'))}"
        for _ in range(600)
    ]
    return "\n".join(["income,sex,region", *lines, ""])


MEAN = {"kind": "mean", "columns": ["income"]}
WOMEN = {"where": [{"column": "sex", "op": "==", "value": "f"}]}


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    budget = {"epsilon": "1000"}
    return str(upload(admin, rows(81), columns=COLUMNS, name="wave one", budget=budget)["id"])


def released(admin: httpx.Client, dataset: str, statistic: object, epsilon: str = "5") -> str:
    return str(settled(admin, ask(admin, dataset, statistic, epsilon=epsilon)).json()["id"])


def value(admin: httpx.Client, release: str) -> float:
    return float(admin.get(f"/v1/releases/{release}").json()["value"]["income"])


def test_releases_of_one_statistic_are_chosen_and_shown_next_to_one_another(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    one = released(admin, dataset, MEAN)
    women = released(admin, dataset, {**MEAN, **WOMEN})
    other = upload(admin, rows(82), columns=COLUMNS, name="wave two")["id"]
    later = released(admin, other, MEAN)
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
    assert heads[:4] == [
        "release", "wave one, all records", "wave one, where sex is f", "wave two, all records",
    ] or {"wave one, all records", "wave two, all records"} <= {*heads}  # fmt: skip
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
