"""The public pages: for anyone, complete, kept by caches, and no more than the answer."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from lxml import html

from tests.contract.service import Service, ask, running, settled, upload
from tests.desk.browsing import Browsing, Page, signed_out
from tests.speed import PATIENCE_S

AWKWARD = "</script><b>\"survey\" & 'more'"
PURPOSE = "</script><script>alert(1)</script>"
PLANTED = "86420.97531"
INVENTED = {"reason": "invented rows, too few to be compared with those of other tests"}
ROWS = f"income,food,region,owner\n{PLANTED},{PLANTED},north,true\n" + "40,20,south,false\n" * 30


def publish(admin: httpx.Client, release: str, reason: str = "for <b>all</b>") -> None:
    path, seen = f"/v1/releases/{release}/publication", {"If-Match": "*"}
    made = admin.post(path, json={"reason": reason}, headers=seen)
    assert made.status_code == 201, made.text


@pytest.fixture(scope="module")
def anybody(service: Service) -> Iterator[Browsing]:
    with signed_out(service) as browsing:
        yield browsing


@pytest.fixture(scope="module")
def answer(admin: httpx.Client) -> dict[str, Any]:
    """A public release with standard errors, of a data set whose name is awkward."""
    dataset = upload(admin, ROWS, name=AWKWARD, overlap=INVENTED)["id"]
    question = {"kind": "linear_regression", "target": "food", "features": ["income"]}
    more = {"purpose": PURPOSE, "inference": {"share": "1/2"}}
    asked = ask(admin, dataset, question, epsilon="0.5", **more)
    found: dict[str, Any] = settled(admin, asked).json()
    publish(admin, found["id"])
    return found


@pytest.fixture(scope="module")
def shown(anybody: Browsing, answer: dict[str, Any]) -> Page:
    return anybody.open(f"/public/releases/{answer['id']}")


def test_the_page_shows_every_number_as_a_table_and_a_chart(
    shown: Page, answer: dict[str, Any]
) -> None:
    rows = shown.tree.xpath("//section[@aria-labelledby='numbers']//tbody/tr")
    assert [row.xpath("string(th)") for row in rows][:2] == ["(intercept)", "income"]
    assert all(len(row.xpath("td")) == 6 for row in rows)
    (drawn,) = shown.tree.xpath("//*[local-name()='svg' and @role='img']")
    said = [row for row in rows if row.xpath("string(td)") != "cannot be said"]
    assert len(drawn.xpath(".//*[local-name()='circle']")) == len(said)
    assert len(drawn.xpath(".//*[local-name()='line' and @class='confidence']")) == len(rows)
    assert drawn.get("aria-label")


def test_pages_say_which_records_a_number_is_about(
    anybody: Browsing, chief: Browsing, admin: httpx.Client
) -> None:
    """Without its conditions a count, and its methods paragraph, would be about anyone."""
    dataset = upload(admin, overlap=INVENTED)["id"]
    where = [
        {"column": "region", "op": "==", "value": "north"},
        {"column": "income", "op": "in", "value": [40, 60]},
    ]
    cells = {"kind": "histogram", "columns": ["income", "food"], "where": where}
    cells["edges"] = {"income": [0, 50, 100], "food": [0, 25, 50]}
    said = "where region is north, where income is one of 40, 60"
    edges = "edges of income = 0, 50, 100", "edges of food = 0, 25, 50"
    confirmed = chief.open(
        f"/desk/datasets/{dataset}/ask?statistic=count&where+0+column=region&where+0+op=%3D%3D"
        "&where+0+value=north&wanted=epsilon&epsilon=0.1&act=release"
    )
    assert "count, where region is north" in confirmed.text
    release = ask(admin, dataset, cells, epsilon="0.1").json()["id"]
    publish(admin, release)
    address = f"/public/releases/{release}"
    for page in (
        chief.open(f"/desk/releases/{release}"),
        anybody.open(address),
        anybody.open(f"{address}/certificate"),
    ):
        assert said in page.text
        assert all(each in page.text for each in edges)
    methods = anybody.open(address).tree.xpath("string(//section[@aria-labelledby='methods'])")
    assert f"What was asked, in full: histogram of income, food, {said}" in methods


def test_numbers_have_the_digits_that_are_worth_reading(
    shown: Page, answer: dict[str, Any]
) -> None:
    """Three of the interval's half-width: an estimate of 6.0281 is not told as 6.028143."""
    low, high = answer["noise"]["interval_95"]["coefficients"]["income"]
    (row,) = shown.tree.xpath("//section[@aria-labelledby='numbers']//tr[th='income']")
    estimate = answer["value"]["coefficients"]["income"]
    reported = row.xpath("string(td[1])")
    half = (high - low) / 2
    assert abs(float(reported.replace(",", "")) - estimate) <= half / 100
    assert len(reported.partition("e")[0].strip("-").replace(".", "").lstrip("0")) < 6
    drawn = shown.tree.xpath(
        "//*[local-name()='svg' and @role='img']//*[local-name()='text']/text()"
    )
    assert not [each for each in drawn if "e+" in each or re.fullmatch(r"-?\d{4,}", each)]


def test_a_page_is_called_by_what_was_asked(anybody: Browsing, admin: httpx.Client) -> None:
    dataset = upload(admin)["id"]
    question = {"kind": "mean", "columns": ["food"], "by": ["region"]}
    release = settled(admin, ask(admin, dataset, question)).json()["id"]
    publish(admin, release)
    page = anybody.open(f"/public/releases/{release}")
    assert page.heading.startswith("Mean food by region in “data set")
    assert "We report the mean food by region of the data set" in page.text
    assert "Dots: the released numbers. Thick lines: 95% noise interval" in page.text
    assert "thin lines" not in page.text


def test_the_page_says_what_it_means_and_where_it_is_written(
    shown: Page, answer: dict[str, Any]
) -> None:
    assert AWKWARD in shown.heading
    for said in (
        answer["citation"],
        answer["guarantee"]["theorem"],
        answer["guarantee"]["adjacency"].replace("_", " "),
        answer["guarantee"]["protects"],
        "A noise interval says",
        "A confidence interval says",
        "Release Desk 0",
        "for <b>all</b>",
        answer["receipt"],
        "changes the probability of any result by at most a factor of",
        "0 to 100",
    ):
        assert said in shown.text, said
    links = shown.links()
    for name in ("Download CSV", "Download JSON", "Certificate", "BibTeX", "RIS", "CSL-JSON"):
        assert links[name].startswith(f"/public/releases/{answer['id']}"), name


def test_its_chart_is_a_file_that_runs_nothing(
    anybody: Browsing, shown: Page, answer: dict[str, Any]
) -> None:
    address = shown.links()["Download SVG"]
    assert address == f"/public/releases/{answer['id']}/chart.svg"
    found = anybody.client.get(address)
    assert found.status_code == 200
    assert found.headers["content-type"] == "image/svg+xml"
    for tag in ("<script", "<style", "style=", "href", "<b>"):
        assert tag not in found.text, tag
    picture = html.fromstring(found.content)
    assert picture.xpath("//*[local-name()='circle']")
    assert anybody.client.get("/public/releases/rel_0/chart.svg").status_code == 404


def test_nothing_on_it_runs_or_comes_from_elsewhere(shown: Page) -> None:
    policy = shown.answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not shown.tree.xpath("//*[@style]|//style|//@onclick|//b")
    kinds = [each.get("type") for each in shown.tree.xpath("//script[not(@src)]")]
    assert kinds == ["application/ld+json"]
    for address in shown.tree.xpath("//script/@src|//img/@src|//link[@rel='stylesheet']/@href"):
        assert address.startswith("/"), address


COLUMNS: dict[str, Any] = {
    "age": {"type": "integer", "lower": 0, "upper": 120, "label": "Age", "unit_of_measure": "y"},
    "admitted": {"type": "date", "lower": "2015-01-01", "upper": "2025-12-31"},
    "town": {"type": "category", "values": ["A", "B"]},
    "cured": {"type": "boolean"},
}
OF_EVERY_KIND = "age,admitted,town,cured\n" + "30,2018-03-01,A,true\n70,2022-03-01,B,false\n" * 20
TOLD = {
    "true, false": {"kind": "count", "where": [{"column": "cured", "op": "==", "value": True}]},
    "A, B": {"kind": "histogram", "columns": ["town"]},
    "2015-01-01 to 2025-12-31": {"kind": "mean", "columns": ["admitted"]},
    "age (Age) integer 0 to 120 y": {"kind": "covariance", "columns": ["age", "cured"]},
    "0 to 240": {"kind": "mean", "columns": ["twice"]},
    "mean of age (town=A)": {
        "kind": "stack",
        "parts": [
            {"statistic": {"kind": "quantile", "column": "age", "levels": [0.5]}, "share": 1},
            {"statistic": {"kind": "mean", "columns": ["age"], "by": ["town"]}, "share": 1},
        ],
    },
}


@pytest.fixture(scope="module")
def hospital(admin: httpx.Client) -> str:
    derive = {"twice": {"expr": "age * 2", "lower": 0, "upper": 240}}
    sent = upload(admin, OF_EVERY_KIND, columns=COLUMNS, derive=derive, overlap=INVENTED)
    return str(sent["id"])


@pytest.mark.parametrize("reported", TOLD)
def test_every_kind_of_column_and_number_has_a_page(
    anybody: Browsing, admin: httpx.Client, hospital: str, reported: str
) -> None:
    found = settled(admin, ask(admin, hospital, TOLD[reported])).json()
    publish(admin, found["id"])
    page = anybody.open(f"/public/releases/{found['id']}")
    assert reported in page.text
    assert page.tree.xpath("//section[@aria-labelledby='numbers']//tbody/tr")
    assert anybody.open(f"/public/releases/{found['id']}/certificate").heading


def test_groups_are_a_table_of_rows_and_columns_and_its_files(
    anybody: Browsing, admin: httpx.Client, hospital: str
) -> None:
    question = {"kind": "mean", "columns": ["age"], "by": ["town", "cured"]}
    release = settled(admin, ask(admin, hospital, question)).json()
    publish(admin, release["id"])
    page = anybody.open(f"/public/releases/{release['id']}")
    heads = [th.text_content() for th in page.tree.xpath("//table[@class='pivot']/thead//th")]
    assert heads == ["town", "cured", "false", "true"]
    other = anybody.send(page, "Arrange", across="town")
    heads = [th.text_content() for th in other.tree.xpath("//table[@class='pivot']/thead//th")]
    assert heads == ["cured", "town", "A", "B"]
    number = str(release["value"]["groups"][0]["value"]["age"])
    assert number in anybody.client.get(other.links()["Table as CSV"]).text
    for name, mark in (("Table as Markdown", "| cured | town: A"), ("Table as LaTeX", "\\hline")):
        address = other.links()[name]
        assert "?across=town" in address
        assert mark in anybody.client.get(address).text
    turned, order = other, []
    for _ in range(3):  # a head that is pressed sorts down, then up, then not at all
        turned = anybody.open(turned.links()["A"].partition("#")[0])
        assert "across=town" in str(turned.answer.url)
        order.append(turned.tree.xpath("string(//th[@aria-sort]/@aria-sort)"))
        cells = turned.tree.xpath("//table[@class='pivot']/tbody//td[1]")
        said = [cell.text != "cannot be said" for cell in cells]
        numbers = [float(cell.text) for cell, known in zip(cells, said, strict=True) if known]
        if order[-1]:
            assert numbers == sorted(numbers, reverse=order[-1] == "descending")
            assert said == sorted(said, reverse=True)
            assert "sort=" in turned.links()["Table as CSV"]
    assert order == ["descending", "ascending", ""]
    below = f"/public/releases/{release['id']}/pivot"
    assert anybody.client.get(f"{below}.exe").status_code == 404
    alone = settled(admin, ask(admin, hospital, {"kind": "mean", "columns": ["age"]})).json()
    publish(admin, alone["id"])
    assert anybody.client.get(f"/public/releases/{alone['id']}/pivot.csv").status_code == 404


def test_one_table_of_many_is_chosen_by_a_form(
    anybody: Browsing, admin: httpx.Client, hospital: str
) -> None:
    question = {
        "kind": "tables", "columns": ["town", "cured", "age"], "edges": {"age": [0, 50, 120]},
    }  # fmt: skip
    release = settled(admin, ask(admin, hospital, question)).json()
    publish(admin, release["id"])
    page = anybody.open(f"/public/releases/{release['id']}")
    shown = anybody.send(page, "Show table", rows="age", across="town")
    heads = [th.text_content() for th in shown.tree.xpath("//table[@class='pivot']/thead//th")]
    assert heads == ["age", "town", "A", "B"]
    (table,) = [t for t in release["value"]["tables"] if {*t["columns"]} == {"age", "town"}]
    counts = sorted(cell["count"] for cell in table["cells"])
    cells = shown.tree.xpath("//table[@class='pivot']/tbody//td")
    assert sorted(int(td.text_content()) for td in cells) == counts
    assert all("noise interval" in td.get("title") for td in cells)
    assert {td.get("class").split()[0] for td in cells} == {"num"}
    written = anybody.client.get(shown.links()["Table as CSV"]).text
    assert all(str(count) in written for count in counts)
    assert (
        "No table has age and smoker"
        in anybody.open(f"/public/releases/{release['id']}?rows=age&across=smoker&page=x").text
    )


def test_its_linked_data_can_be_read(shown: Page, answer: dict[str, Any]) -> None:
    (text,) = shown.tree.xpath("//script[@type='application/ld+json']/text()")
    assert not set("<>&") & set(text)
    reported = json.loads(text)
    assert reported["@type"] == "Dataset"
    assert AWKWARD in reported["name"]
    assert reported["url"].endswith(f"/public/releases/{answer['id']}")


def test_it_leads_programs_to_its_other_forms(
    anybody: Browsing, shown: Page, answer: dict[str, Any]
) -> None:
    header = shown.answer.headers["link"]
    links = re.findall(r'<([^>]+)>; rel="([\w-]+)"', header)
    assert {"cite-as", "type", "item", "describedby", "collection"} <= {rel for _, rel in links}
    own = [address for address, rel in links if rel in ("item", "describedby")]
    assert own
    for address in own:
        assert anybody.client.get(address).status_code == 200, address


@pytest.mark.parametrize("path", ["", "/releases/{}", "/releases/{}/certificate"])
def test_anybody_may_keep_it(anybody: Browsing, answer: dict[str, Any], path: str) -> None:
    address = "/public" + path.format(answer["id"])
    found = anybody.client.get(address)
    assert found.headers["cache-control"] == "public, max-age=0, s-maxage=60"
    assert "set-cookie" not in found.headers
    again = anybody.client.get(address, headers={"If-None-Match": found.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_it_is_the_same_for_who_is_signed_in(
    chief: Browsing, shown: Page, answer: dict[str, Any]
) -> None:
    seen = chief.open(f"/public/releases/{answer['id']}")
    assert seen.answer.content == shown.answer.content


def test_no_page_has_a_cell_or_what_the_answer_does_not(
    anybody: Browsing, admin: httpx.Client, answer: dict[str, Any]
) -> None:
    paths = ("", f"/releases/{answer['id']}", f"/releases/{answer['id']}/certificate")
    for path in paths:
        text = anybody.open(f"/public{path}").answer.text
        assert PLANTED[:9] not in text
        assert not re.search(r"\b(owner|south|north)\b", text), "columns that nobody asked about"
    private = ask(admin, answer["dataset"]).json()
    assert private["id"] not in anybody.open("/public").answer.text
    anybody.open(f"/public/releases/{private['id']}", status=404)


def test_a_certificate_fits_on_a_sheet(anybody: Browsing, answer: dict[str, Any]) -> None:
    page = anybody.open(f"/public/releases/{answer['id']}/certificate")
    assert page.heading == "Certificate of differential privacy"
    assert answer["guarantee"]["theorem"] in page.text
    assert not page.tree.xpath("//table")


def test_the_page_carries_the_proof_that_its_charge_is_in_the_log(
    tmp_path: Path,
) -> None:
    """As its JSON does."""
    with (
        running(tmp_path / "data", checkpoint_s=0.05) as service,
        service.client() as admin,
        signed_out(service) as reader,
    ):
        release = ask(admin, upload(admin)["id"]).json()["id"]
        publish(admin, release)
        address, until = f"/public/releases/{release}", time.monotonic() + PATIENCE_S
        while "proof" not in (reported := reader.client.get(f"{address}.json").json()):
            assert time.monotonic() < until
            time.sleep(0.05)
        page, proof = reader.open(address), reported["proof"]
        assert f"Leaf {proof['index']}, of " in page.text
        assert all(each in page.text for each in proof["path"])
        shown = page.tree.xpath("string(//details[summary='Inclusion proof']//pre)")
        assert shown == proof["checkpoint"]
        assert page.links()["without this service"] == "/docs/checking"
        certificate = reader.open(f"{address}/certificate")
        assert f"leaf {proof['index']} of the ledger's public log" in certificate.text


def test_a_withdrawn_release_is_a_tombstone(anybody: Browsing, admin: httpx.Client) -> None:
    release = ask(admin, upload(admin, overlap=INVENTED)["id"]).json()
    publish(admin, release["id"])
    address = f"/public/releases/{release['id']}"
    assert anybody.open(address).heading
    note = {"note": "the <b>wrong</b> year"}
    done = admin.post(f"/v1/releases/{release['id']}/publication/withdrawal", json=note)
    assert done.status_code == 200
    for path in (address, f"{address}/certificate"):
        page = anybody.open(path, status=410)
        assert page.heading == "This release was withdrawn"
        assert "the <b>wrong</b> year" in page.text
        assert "bootstrap" in page.text
        assert done.json()["withdrawn_at"][:10] in page.text
        assert page.answer.headers["cache-control"].startswith("public")
        assert str(release["value"]["income"]) not in page.answer.text
    assert release["id"] not in anybody.open("/public").answer.text


def test_a_search_for_more_than_anybody_means_is_a_search(anybody: Browsing) -> None:
    page = anybody.open("/public")
    found = anybody.send(page, "Search", q="lighthouse " * 100)
    assert found.heading == "Public releases"
    assert "Nothing that is public fits." in found.text


@pytest.mark.wide
def test_what_is_public_is_found_by_filling_in_a_form(
    anybody: Browsing, admin: httpx.Client
) -> None:
    dataset = upload(admin, name="Lighthouse keepers", overlap=INVENTED)["id"]
    for _ in range(26):
        publish(admin, ask(admin, dataset, epsilon="0.01").json()["id"])
    cells = {"kind": "histogram", "columns": ["region"]}
    other = ask(admin, dataset, cells, epsilon="0.01").json()["id"]
    publish(admin, other)
    page = anybody.open("/public")
    assert page.heading == "Public releases"
    assert {"Words", "Data set", "Statistic"} <= set(page.labels())
    found = anybody.send(page, "Search", dataset=dataset, statistic="histogram")
    assert found.tree.xpath("//tbody/tr/td[1]/a/@href") == [f"/public/releases/{other}"]
    many = anybody.send(page, "Search", q="lighthouse MEAN")
    assert len(many.tree.xpath("//tbody/tr")) == 25
    rest = anybody.open(many.links()["Next page"])
    assert len(rest.tree.xpath("//tbody/tr")) == 1
    assert rest.links()["First page"]
    before = anybody.open(rest.links()["Previous page"])
    titles = "//tbody/tr/td[1]/a/@href"
    assert before.tree.xpath(titles) == many.tree.xpath(titles), "the words are kept"
    oldest = anybody.open(many.links()["Published"])
    assert oldest.tree.xpath(titles)[0] == rest.tree.xpath(titles)[0]
    french = anybody.open("/public?q=lighthouse+mean&lang=fr")
    assert "Page précédente" in anybody.open(french.links()["Page suivante"]).links()
    none = anybody.send(page, "Search", q="nothing of the kind")
    assert "Nothing that is public fits." in none.text


def test_what_is_not_there_is_a_page_too(anybody: Browsing) -> None:
    for path in ("/public/releases/rel_none", "/public/releases/%00"):
        assert anybody.open(path, status=404).alerts()
    assert anybody.open("/public?before=x", status=404).alerts()


def test_a_release_with_gaussian_noise_says_what_it_promises(
    admin: httpx.Client, anybody: Browsing
) -> None:
    """It has no factor without exceptions: the account's delta is named next to it."""
    dataset = upload(admin, budget={"epsilon": "1", "delta": "1e-6"})["id"]
    mean = {"kind": "mean", "columns": ["income"]}
    release = ask(admin, dataset, mean, epsilon="0.1").json()["id"]
    publish(admin, release)
    for path in (f"/public/releases/{release}", f"/public/releases/{release}/certificate"):
        text = anybody.client.get(path).text
        assert "by at most a factor of 1.54, and 0.000001 more." in text
        assert "Rho is 0.005. This is zero-concentrated differential privacy" in text
        assert "no exceptions" not in text
    assert "rho 0.005" in anybody.client.get(f"/public/releases/{release}.svg").text
    registry = anybody.client.get(f"/public/datasets/{dataset}/registry.json").json()["deployment"]
    assert registry["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    assert registry["privacy_loss"]["privacy_parameters"] == {"rho": 0.005}
