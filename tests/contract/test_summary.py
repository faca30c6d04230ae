"""Summaries and tests over HTTP and at the desk: rows, one charge, previews, the printed table."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

import httpx
import pytest

from app.client import ReleaseDesk
from app.tidy.keys import at
from app.tidy.office import WORD, word_document
from app.tidy.rows import rows_of
from tests.contract.service import (
    ADMIN_KEY,
    COLUMNS,
    Service,
    ask,
    assert_problem,
    settled,
    spent,
    upload,
)
from tests.desk.browsing import signed_in

TABLE: dict[str, Any] = {
    "kind": "summary",
    "columns": ["income", "owner"],
    "by": ["region"],
    "show": ["n", "mean_sd", "share"],
    "differences": True,
}


def test_one_charge_and_rows_that_agree(curator: httpx.Client, dataset: str) -> None:
    answer = ask(curator, dataset, TABLE, epsilon="2")
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert (body["mechanism"], body["norm"], body["epsilon"]) == ("composition", None, "2")
    rows = body["value"]["rows"]
    assert [row["by"] for row in rows[:2]] == [{"region": "north"}, {"region": "south"}]
    assert {row["measure"] for row in rows} == {"n", "mean", "sd", "count", "share"}
    assert {row["from"]["region"] for row in body["value"]["differences"]} == {"north"}
    assert len(body["noise"]["std"]["rows"]) == len(rows)
    assert body["inference"]["terms"]
    assert spent(curator, dataset) == "2"
    assert ask(curator, dataset, TABLE, epsilon="2", key="t").json()["value"]["rows"]


def test_a_preview_and_a_dry_run_have_the_same_rows(curator: httpx.Client, dataset: str) -> None:
    body = {"statistic": TABLE, "epsilon": "2"}
    preview = curator.post(f"/v1/datasets/{dataset}/previews", json=body)
    assert preview.status_code == 200, preview.text
    errors = preview.json()["expected_error"]["rows"]
    assert all(row["value"] > 0 for row in errors)
    run = curator.post(f"/v1/datasets/{dataset}/dry-runs", json=body)
    assert run.status_code == 200, run.text
    named = [{name: row[name] for name in ("by", "column", "measure")} for row in errors]
    assert named == [
        {name: row[name] for name in ("by", "column", "measure")}
        for row in run.json()["value"]["rows"]
    ]
    sought = curator.post(
        f"/v1/datasets/{dataset}/previews", json={"statistic": TABLE, "accuracy": 30}
    )
    assert sought.status_code == 200, sought.text
    assert float(sought.json()["accuracy"]["epsilon"]) > 0
    assert spent(curator, dataset) == "0"


def test_what_is_all_noise_cannot_be_said(curator: httpx.Client) -> None:
    """Under bounds up to ten million, incomes of 0 to 50 have a standard deviation of 0 or so."""
    wide = {**COLUMNS, "income": {"type": "number", "lower": 0, "upper": 10_000_000}}
    dataset = upload(curator, columns=wide)["id"]
    asked = {**TABLE, "columns": ["income"], "show": ["mean_sd", "median_iqr"]}
    for turn in range(20):
        body = ask(curator, dataset, asked, epsilon="0.2", key=f"turn {turn}").json()
        rows = body["value"]["rows"]
        clamped = [at for at, row in enumerate(rows) if row["measure"] == "sd" and not row["value"]]
        places = [tuple(each["place"]) for each in body.get("at_edge", ())]
        assert {("rows", at, "value") for at in clamped} <= set(places)
        assert all(
            rows[at]["measure"] in ("sd", "mean") for name, at, _ in places if name == "rows"
        )
        shown = rows_of(body)
        assert all(shown[at].shown == "cannot be said" for at in clamped)
        if clamped and any(name == "differences" for name, *_ in places):
            return
    raise AssertionError("no standard deviation was clamped, nor a mean that is compared")


def test_the_verdict_names_an_error_of_each_measure(curator: httpx.Client) -> None:
    dataset = upload(curator, budget={"epsilon": "100"})["id"]
    shown = ["n", "mean_sd", "median_iqr"]
    asked = {**TABLE, "columns": ["income"], "show": shown, "differences": False}
    body = {"statistic": asked, "epsilon": "90"}
    found = curator.post(f"/v1/datasets/{dataset}/previews", json=body)
    assert found.status_code == 200, found.text
    before = found.json()["usefulness"]
    assert before["verdict"] == "depends"
    assert "mean of income" in before["sentence"]
    assert "sd of income" in before["sentence"]
    after = ask(curator, dataset, asked, epsilon="90").json()["usefulness"]
    assert "next to the number's own size" in after["sentence"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"columns": ["absent"]}, "statistic.columns"),
        ({"show": ["mode"]}, "statistic.show[0]"),
        ({"shares": {"median_iqr": 2}}, "statistic.shares"),
        ({"by": []}, "statistic.by"),
    ],
)
def test_refusals_name_the_field(
    curator: httpx.Client, dataset: str, changes: dict[str, Any], field: str
) -> None:
    problem = assert_problem(ask(curator, dataset, {**TABLE, **changes}), 422, "invalid-request")
    assert [error["field"].removeprefix("body.") for error in problem["errors"]] == [field]


def test_a_policy_speaks_of_summaries(curator: httpx.Client) -> None:
    dataset = upload(curator, policy={"allowed": ["summary"]})["id"]
    assert ask(curator, dataset, TABLE).status_code == 201
    other = upload(curator, policy={"allowed": ["mean", "histogram", "count"]})["id"]
    assert_problem(ask(curator, other, TABLE), 422, "policy-refused")


def test_a_summary_is_no_part_of_a_stack(curator: httpx.Client, dataset: str) -> None:
    stack = {"kind": "stack", "parts": [{"statistic": TABLE}]}
    assert_problem(ask(curator, dataset, stack), 422, "invalid-request")


def test_the_client_prints_it_as_journals_do(
    service: Service, curator: httpx.Client, dataset: str
) -> None:
    key = curator.headers["authorization"].removeprefix("Bearer ")
    with ReleaseDesk(service.url, key) as desk:
        found = desk.dataset(dataset).summary(
            "income", "owner", by=["region"], show=["n", "mean_sd", "share"], epsilon="2"
        )
        mean = desk.dataset(dataset).mean("income", epsilon="0.1")
    text = found.to_table()
    assert re.match(r"Characteristic +north \(n = \d+\) +south \(n = -?\d+\)\n-+\n", text)
    assert "income, mean (SD)" in text
    assert "owner: true" in text
    assert found.to_table("markdown").startswith("| Characteristic | north (n = ")
    assert r"\begin{tabular}{lcc}" in found.to_table("latex")
    with pytest.raises(ValueError, match="text, markdown, latex"):
        found.to_table("docx")
    word = cells_of(found.to_word())
    assert word == cells_of(found.to_word())
    assert word[0][0] == "Characteristic"
    assert word[0][1].startswith("north (n = ")
    assert [row[0].strip() for row in word[1:]] == [
        line.split("|")[1].strip() for line in found.to_table("markdown").splitlines()[2:]
        if line.startswith("|")
    ]  # fmt: skip
    first = next(row for row in found.rows() if row["statistic"] == "mean")
    assert (first["region"], first["term"]) == ("north", "income")
    # one draw in some hundreds is clamped to a bound, and cannot be said
    if first["value"] is None:
        assert first["note"]
    else:
        assert first["confidence_low"] <= first["value"] <= first["confidence_high"]
    lines = mean.to_table("markdown").splitlines()
    assert lines[0] == "| Number | Value | 95% noise interval |"
    assert cells_of(mean.to_word())[1][0] == lines[2].split("|")[1].strip()
    assert lines[-1] == "Noise intervals are for these records: privacy noise alone."
    assert "interval" not in lines[2]


def cells_of(file: bytes) -> list[list[str]]:
    """Return the cells of the table in a Word document, row by row."""
    with ZipFile(BytesIO(file)) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "[Content_Types].xml"
        for name in archive.namelist():
            assert ElementTree.fromstring(archive.read(name)) is not None
        tree = ElementTree.fromstring(archive.read("word/document.xml"))
    word = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
    return [
        ["".join(cell.itertext()) for cell in row.iter(f"{word}tc")]
        for row in tree.iter(f"{word}tr")
    ]


def test_a_word_document_keeps_what_xml_would_not() -> None:
    rows = (("  a & b", "<1>"), ("\x01c", ""))
    assert cells_of(word_document([(("x", "y"), rows, "note")])) == [
        ["x", "y"], ["  a & b", "<1>"], ["c", ""]
    ]  # fmt: skip


def test_the_desk_shows_the_table_and_offers_files(
    service: Service, curator: httpx.Client, dataset: str
) -> None:
    release = ask(curator, dataset, TABLE, epsilon="2").json()
    other = ask(curator, dataset, epsilon="0.1").json()
    with signed_in(service, curator.headers["authorization"].removeprefix("Bearer ")) as browsing:
        page = browsing.open(f"/desk/releases/{release['id']}")
        (table,) = page.tree.xpath("//table[contains(@class, 'printed')]")
        heads = [" ".join(each.itertext()).strip() for each in table.xpath("./thead/tr/th")]
        assert heads[0] == "Characteristic"
        assert heads[1].startswith("north (n = ")
        assert heads[3] == "south − north"
        for ending, start in (("md", "| Characteristic"), ("tex", r"\begin{table}")):
            file = browsing.client.get(f"/desk/releases/{release['id']}/table.{ending}")
            assert file.text.startswith(start)
        file = browsing.client.get(f"/desk/releases/{release['id']}/table.docx")
        assert file.headers["content-type"] == WORD
        assert cells_of(file.content)[0] == heads
        assert page.tree.xpath("//a[contains(., 'Download Word')]")
        path = f"/desk/releases/{other['id']}"
        assert browsing.open(path).tree.xpath("//a[contains(., 'Download Word')]")
        file = browsing.client.get(f"{path}/table.docx")
        assert cells_of(file.content)[0] == ["Number", "Value", "95% noise interval"]


def test_the_table_has_labels_and_units_of_its_columns(
    service: Service, curator: httpx.Client
) -> None:
    columns = {**COLUMNS, "income": {**COLUMNS["income"], "label": "Pay", "unit_of_measure": "EUR"}}
    labelled = upload(curator, columns=columns)["id"]
    release = ask(curator, labelled, TABLE, epsilon="2").json()
    with signed_in(service, curator.headers["authorization"].removeprefix("Bearer ")) as browsing:
        page = browsing.open(f"/desk/releases/{release['id']}")
        rows = [text.strip() for text in page.tree.xpath("//table[@class='printed']//th/text()")]
        file = browsing.client.get(f"/desk/releases/{release['id']}/table.md").text
    assert "Pay (EUR), mean (SD)" in rows
    assert "| Pay (EUR), mean (SD) |" in file


# Tests of hypotheses

WELCH: dict[str, Any] = {
    "kind": "test",
    "test": "welch",
    "columns": ["income"],
    "groups": "owner",
}


def test_a_test_has_a_p_value_and_an_interval(curator: httpx.Client, dataset: str) -> None:
    answer = ask(curator, dataset, WELCH, epsilon="2")
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert 0 < body["value"]["p_value"] <= 1
    (term,) = body["inference"]["terms"]
    low, high = term["confidence_95"]
    assert low <= body["value"]["estimate"] == term["estimate"] <= high
    assert body["noise"] is None
    said = "The estimate is the mean of income where owner is true minus that where it is false."
    assert body["details"]["estimates"] == said, "which way round a difference is"
    assert spent(curator, dataset) == "2"


def test_one_release_of_moments_gives_tests_for_free(curator: httpx.Client, dataset: str) -> None:
    moments = {"kind": "moments", "columns": ["income", "food"], "by": ["owner"]}
    release = ask(curator, dataset, moments, epsilon="2").json()["id"]
    for asked in (WELCH, {**WELCH, "test": "t", "columns": ["food"]}):
        found = curator.post(f"/v1/releases/{release}/derivations", json={"statistic": asked})
        assert found.status_code == 200, found.text
        assert 0 < found.json()["value"]["p_value"] <= 1
    other = {"kind": "test", "test": "correlation", "columns": ["income", "food"]}
    refused = curator.post(f"/v1/releases/{release}/derivations", json={"statistic": other})
    assert_problem(refused, 422, "invalid-request")
    assert spent(curator, dataset) == "2"


def test_a_preview_says_what_is_left_of_the_power(curator: httpx.Client, dataset: str) -> None:
    body = {"statistic": WELCH, "epsilon": "0.1", "accuracy": 3}
    preview = curator.post(f"/v1/datasets/{dataset}/previews", json=body)
    assert preview.status_code == 200, preview.text
    found = preview.json()
    assert found["usefulness"]["verdict"] == "noise"
    assert "has the power of one with" in found["usefulness"]["sentence"]
    assert "the test needs" in found["usefulness"]["sentence"]
    assert found["accuracy"]["epsilon"] is None
    assert found["expected_error"] is None
    run = curator.post(
        f"/v1/datasets/{dataset}/dry-runs", json={"statistic": WELCH, "epsilon": "1"}
    )
    assert run.status_code == 200, run.text
    assert 0 < run.json()["value"]["p_value"] <= 1


CLEAR = {"pay": {"type": "number", "lower": 0, "upper": 100}, "hour": {"type": "number",
         "lower": 0, "upper": 24}, "left": {"type": "boolean"}, "site": {"type": "boolean"},
         "week": {"type": "boolean"}}  # fmt: skip
EARNED: dict[str, Any] = {"kind": "test", "test": "welch", "columns": ["pay"], "groups": "site"}
OF_TIME: dict[str, Any] = {
    "kind": "kaplan_meier", "time": "hour", "event": "left", "edges": {"hour": {"step": 6}},
    "by": ["site"],
}  # fmt: skip


@pytest.fixture(scope="module")
def clear(curator: httpx.Client) -> str:
    """Return a data set whose two sites differ beyond all chance."""
    rows = (
        f"{20 + 50 * (row % 2) + row % 7},{1 + 20 * (row % 2) + row % 3},true,{row % 2},"
        f"{row // 2 % 2}\n"
        for row in range(2000)
    )
    csv = "pay,hour,left,site,week\n" + "".join(rows)
    return str(upload(curator, csv, columns=CLEAR, budget={"epsilon": "1000"})["id"])


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        (EARNED, [["p_value"]]),
        ({**EARNED, "by": ["week"]}, [["groups", group, "value", "p_value"] for group in range(2)]),
        (OF_TIME, [["log_rank", "p_value"]]),
        ({"kind": "stack", "parts": [{"statistic": {"kind": "mean", "columns": ["pay"]}},
                                     {"statistic": OF_TIME}]},
         [["parts", 1, "log_rank", "p_value"]]),
    ],
    ids=["test", "groups", "log-rank", "stack"],
)  # fmt: skip
def test_a_p_value_that_no_simulation_reaches_is_an_upper_bound(
    curator: httpx.Client, clear: str, asked: dict[str, Any], places: list[list[str | int]]
) -> None:
    released = settled(curator, ask(curator, clear, asked, epsilon="10")).json()
    assert [each["place"] for each in released["at_most"]] == places
    assert [at(released["value"], each["place"]) for each in released["at_most"]] == [
        0.003 for _ in places
    ]
    assert released["at_most"][0]["reason"].startswith("At most this")


@pytest.mark.parametrize(
    ("language", "shown"), [("en", "≤ 0.003"), ("de", "≤ 0,003"), ("fr", "≤ 0,003")]
)
def test_the_desk_and_its_files_show_that_it_is_one(
    curator: httpx.Client, service: Service, clear: str, language: str, shown: str
) -> None:
    release = ask(curator, clear, {**EARNED, "by": ["week"]}, epsilon="10").json()["id"]
    with signed_in(service, ADMIN_KEY) as browsing:
        browsing.client.headers["Accept-Language"] = language
        page = browsing.open(f"/desk/releases/{release}").tree
        cells = [cell.text_content() for cell in page.xpath("//td[contains(@class, 'num')]")]
        assert cells.count(shown) == 4, "in the pivot table and in the list"
        said = {"en": "At most this", "de": "Höchstens", "fr": "Au plus"}[language]
        assert said in page.text_content()
        for ending in ("csv", "md"):
            file = browsing.open(f"/desk/releases/{release}/pivot.{ending}").answer.text
            assert file.count("≤ 0.003") == 2
        assert "At most this" in browsing.open(f"/desk/releases/{release}/release.csv").answer.text


def test_a_p_value_within_what_is_simulated_is_no_bound(curator: httpx.Client, clear: str) -> None:
    poor = ask(curator, clear, EARNED, epsilon="0.001").json()
    assert poor["value"]["p_value"] > 0.003
    assert "at_most" not in poor
