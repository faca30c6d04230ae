"""Every page and file that shows a number says what became of missing cells."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import httpx
import pytest

from app.client.models import Release
from tests.contract.service import ask, upload
from tests.desk.browsing import Browsing

COLUMNS: dict[str, Any] = {
    "pay": {"type": "number", "lower": 0, "upper": 90, "missing": 0},
    "rent": {"type": "number", "lower": 0, "upper": 50, "missing": "keep"},
    "ward": {"type": "category", "values": ["a", "b"], "missing": "keep"},
}
INVENTED = {"reason": "invented rows, too few to be compared with those of other tests"}
ROWS = "pay,rent,ward\n" + ",20,a\n40,,\n60,30,b\n" * 20
QUESTION = {"kind": "mean", "columns": ["pay", "rent"]}
FILLED = "pay: missing values count as 0, its lower bound."
LEFT_OUT = "Records without a value of rent are left out."


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    policy = {"review": "above:1"}
    return str(upload(admin, ROWS, columns=COLUMNS, overlap=INVENTED, policy=policy)["id"])


@pytest.fixture(scope="module")
def release(admin: httpx.Client, dataset: str) -> str:
    return str(ask(admin, dataset, QUESTION, epsilon="0.5").json()["id"])


def require_said(text: str) -> None:
    assert FILLED in text
    assert LEFT_OUT in text


def test_pages_of_a_release_its_preview_and_its_data_set(
    chief: Browsing, dataset: str, release: str
) -> None:
    require_said(chief.open(f"/desk/releases/{release}").text)
    asked = "statistic=mean&columns=pay&columns=rent&wanted=epsilon&epsilon=0.5"
    preview = chief.open(f"/desk/datasets/{dataset}/ask?{asked}&act=preview")
    require_said(preview.text)
    assert "Missing values count as a bound: pay as 0, its lower bound." in preview.text
    shown = chief.open(f"/desk/datasets/{dataset}").text
    assert "missing values count as 0" in shown
    assert "an answer leaves out the records without a value" in shown
    (line,) = csv.DictReader(
        io.StringIO(chief.client.get(f"/desk/releases/{release}/release.csv").text)
    ).fieldnames[-1:]  # type: ignore[index]
    assert line == "note"


def test_a_preview_assumes_the_share_of_missing_cells_that_the_form_states(
    chief: Browsing, admin: httpx.Client, dataset: str
) -> None:
    """As over HTTP; what is no share, or not of such a column, is refused at its field."""
    label = "Assumed share of missing cells"
    asked = (
        f"/desk/datasets/{dataset}/ask?statistic=mean&columns=rent&wanted=epsilon&epsilon=0.5"
        "&act={act}&assume_missing={shares}"
    )
    page = chief.open(asked.format(act="preview", shares="rent+0.8"))
    assert label in page.labels()
    statistic = {"kind": "mean", "columns": ["rent"]}
    body = {"statistic": statistic, "epsilon": "0.5", "assume": {"missing": {"rent": 0.8}}}
    sent = admin.post(f"/v1/datasets/{dataset}/previews", json=body).json()
    assert sent["usefulness"]["sentence"] in page.text
    other = chief.open(asked.format(act="preview", shares=""))
    assert sent["usefulness"]["sentence"] not in other.text
    assert "state their assumed share in a preview" in other.text
    for act in ("try", "release"):
        assert not chief.open(asked.format(act=act, shares="rent+0.8")).alerts()
    for wrong in ("pay+0.2", "rent+2", "rent+much", "rent", "nothing+0.1"):
        refused = chief.open(asked.format(act="preview", shares=wrong), status=422)
        assert any(label in alert for alert in refused.alerts())


def test_the_desk_asks_whether_cells_are_missing(
    chief: Browsing, admin: httpx.Client, dataset: str
) -> None:
    page = chief.open(f"/desk/datasets/{dataset}/ask?statistic=histogram")
    assert "Missing values" in page.labels()
    asked = (
        "statistic=count&where+0+column=rent&where+0+op=missing&wanted=epsilon&epsilon=0.1"
        "&act=release"
    )
    confirmed = chief.open(f"/desk/datasets/{dataset}/ask?{asked}")
    assert "where rent is missing" in confirmed.text
    table = {"kind": "histogram", "columns": ["ward"], "missing": "cell"}
    made = ask(admin, dataset, table).json()["id"]
    assert "ward=missing" in chief.open(f"/desk/releases/{made}").text
    where = [{"column": "rent", "op": "present"}]
    made = ask(admin, dataset, {"kind": "count", "where": where}).json()["id"]
    assert "where rent is present" in chief.open(f"/desk/releases/{made}").text


def test_public_pages_and_files(admin: httpx.Client, chief: Browsing, release: str) -> None:
    path = f"/v1/releases/{release}/publication"
    made = admin.post(path, json={"reason": "for all"}, headers={"If-Match": "*"})
    assert made.status_code == 201, made.text
    address = f"/public/releases/{release}"
    page = chief.open(address)
    require_said(page.tree.xpath("string(//section[@aria-labelledby='numbers'])"))
    require_said(page.tree.xpath("string(//section[@aria-labelledby='methods'])"))
    require_said(chief.open(f"{address}/certificate").text)
    document = json.loads(chief.client.get(f"{address}.json").text)
    assert document["excludes_missing"] == ["rent"]
    assert document["fills"] == {"pay": 0}
    require_said(" ".join(document["about_missing"]))
    columns = document["data"]["columns"]
    assert (columns["pay"]["missing"], columns["rent"]["missing"]) == (0, "keep")
    for line in csv.DictReader(io.StringIO(chief.client.get(f"{address}.csv").text)):
        require_said(line["note"])
    require_said(chief.client.get(f"{address}.jsonld").text)


def test_the_review_sheet(admin: httpx.Client, chief: Browsing, dataset: str) -> None:
    made = ask(admin, dataset, QUESTION, epsilon="2", purpose="Table 1").json()["id"]
    require_said(chief.open(f"/desk/reviews/{made}").text)
    sheet = admin.get(f"/v1/releases/{made}/review").json()
    require_said(" ".join(sheet["about_missing"]))
    assert sheet["expected"]["usefulness"]["verdict"] != "good"
    waiting = admin.get(f"/v1/releases/{made}").json()
    require_said(" ".join(waiting["about_missing"]))


def test_the_client_shows_it_with_the_numbers(admin: httpx.Client, release: str) -> None:
    found = Release.model_validate(admin.get(f"/v1/releases/{release}").json())
    assert found.excludes_missing == ["rent"]
    assert found.fills == {"pay": 0}
    for text in (found.to_text(), found.summary(), found._repr_html_()):
        require_said(text)
