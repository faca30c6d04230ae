"""Synthetic rows at the desk: a file from the release's page, and a page about their quality."""

from __future__ import annotations

import csv
import io

import httpx
import pytest

from tests.contract.service import ask, settled, upload
from tests.desk.browsing import Browsing

COLUMNS = {
    "sex": {"type": "category", "values": ["f", "m"]},
    "owner": {"type": "boolean"},
    "age": {"type": "integer", "lower": 0, "upper": 99},
}
ROWS = "sex,owner,age\n" + "".join(
    f"{'fm'[row % 2]},{'true' if row % 4 else 'false'},{row % 99}\n" for row in range(400)
)
PAIRS = [["sex", "owner"], ["owner", "age"]]


@pytest.fixture(scope="module")
def release(admin: httpx.Client) -> str:
    dataset = upload(admin, ROWS, columns=COLUMNS, budget={"epsilon": "1000"})["id"]
    tables = {"kind": "tables", "columns": list(COLUMNS), "edges": {"age": [0, 40, 99]}}
    asked = ask(admin, dataset, {**tables, "margins": PAIRS}, epsilon="100")
    return str(settled(admin, asked).json()["id"])


def test_a_release_of_tables_offers_synthetic_rows(chief: Browsing, release: str) -> None:
    page = chief.open(f"/desk/releases/{release}")
    # the page has the form of the table browser, too
    ids = [each.get("id") for each in page.tree.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    form = page.form("Download synthetic rows")
    assert form.action == f"/desk/releases/{release}/synthetic/file"
    fields = {**dict(form.form_values()), "synthetic_rows": "120", "seed": "5"}
    file = chief.client.get(form.action, params=fields)
    assert file.headers["content-disposition"].endswith(f'{release}-synthetic-120-5.csv"')
    rows = list(csv.DictReader(io.StringIO(file.text)))
    assert len(rows) == 120
    assert rows[0].keys() == COLUMNS.keys()
    parquet = chief.client.get(form.action, params={**fields, "format": "parquet"})
    assert parquet.content.startswith(b"PAR1")
    assert page.links()["Quality of the rows"] == f"/desk/releases/{release}/synthetic"


def test_the_page_shows_both_and_what_is_not_known(chief: Browsing, release: str) -> None:
    text = chief.open(f"/desk/releases/{release}/synthetic?synthetic_rows=800&seed=5&table=1").text
    assert "owner × age: released and synthetic" in text
    assert "epsilon 100" in text
    assert "No released table has these pairs: sex × age" in text
    assert "age given owner" in text or "owner given age" in text
    first = chief.open(f"/desk/releases/{release}/synthetic").text
    assert "sex × owner: released and synthetic" in first
    assert " 0.00" in first
    assert "+0.00" not in first
    assert "-0.00" not in first


def test_what_is_not_there_or_too_much_is_refused(
    chief: Browsing, analyst: Browsing, admin: httpx.Client, release: str
) -> None:
    page = f"/desk/releases/{release}/synthetic"
    chief.open(f"{page}?table=2", status=404)
    for asked in (
        "synthetic_rows=0",
        "synthetic_rows=many",
        "seed=-1",
        f"synthetic_rows={'9' * 30}",
        "synthetic_rows=800000",
    ):
        chief.open(f"{page}?{asked}", status=422)
        chief.open(f"{page}/file?{asked}", status=422)
    chief.open(f"{page}/file?format=xml", status=422)
    analyst.open(page, status=404)
    analyst.open(f"{page}/file", status=404)
    dataset = admin.get(f"/v1/releases/{release}").json()["dataset"]
    mean = settled(admin, ask(admin, dataset, {"kind": "mean", "columns": ["age"]})).json()["id"]
    assert "Synthetic rows" not in chief.open(f"/desk/releases/{mean}").text
    chief.open(f"/desk/releases/{mean}/synthetic", status=422)


def test_tables_by_group_offer_rows_with_the_groups(chief: Browsing, admin: httpx.Client) -> None:
    overlap = {"reason": "the same rows, for groups"}
    more = {"columns": COLUMNS, "budget": {"epsilon": "1000"}, "overlap": overlap}
    dataset = upload(admin, ROWS, **more)["id"]
    tables = {"kind": "tables", "columns": ["owner", "age"], "edges": {"age": [0, 40, 99]}}
    asked = ask(admin, dataset, {**tables, "by": ["sex"]}, epsilon="100")
    found = settled(admin, asked).json()["id"]
    form = chief.open(f"/desk/releases/{found}").form("Download synthetic rows")
    file = chief.client.get(form.action, params=dict(form.form_values()))
    assert file.text.splitlines()[0] == "sex,owner,age"
    page = chief.open(f"/desk/releases/{found}/synthetic")
    assert "sex × owner × age" in page.text
