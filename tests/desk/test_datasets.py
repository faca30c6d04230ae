"""Data sets at the desk: the list, the page of one, its budget, caps and its end."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import httpx
import pytest

from tests.contract.service import Service, ask, assert_problem, make_key, settled, upload
from tests.desk.browsing import Browsing, Page, confirmed, signed_in, signed_out

HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}"
LINKS = {
    "Grant": "grants", "Caps": "caps", "Access": "access", "Edit": "edit", "Archive": "archive",
}  # fmt: skip


def _open(browsing: Browsing, dataset: dict[str, object], rest: str = "") -> Page:
    return browsing.open(f"/desk/datasets/{dataset['id']}{rest}")


def _rows(page: Page) -> list[list[str]]:
    rows = page.tree.xpath("//tbody/tr")
    return [[each.text_content().strip() for each in row.xpath("td")] for row in rows]


def test_the_list_has_every_data_set_and_what_is_left(
    admin: httpx.Client, curator: Browsing, analyst: Browsing
) -> None:
    dataset = upload(admin, budget={"epsilon": "7.25"})
    page = curator.open("/desk/datasets")
    assert page.heading == "Data sets"
    assert page.links()[dataset["name"]] == f"/desk/datasets/{dataset['id']}"
    assert page.links()["New data set"] == "/desk/datasets/new"
    assert "7.25" in page.text
    assert "New data set" not in analyst.open("/desk/datasets").links()


def test_the_list_has_what_a_visitor_can_spend_once_for_each_account(
    service: Service, admin: httpx.Client, curator: Browsing
) -> None:
    first = upload(admin, budget={"epsilon": "6"})
    account = admin.get(f"/v1/datasets/{first['id']}").json()["account"]
    second = upload(admin, account=account, budget=None)
    key = make_key(admin, "analyst")
    cap = {"person": key["person"], "epsilon": "0.25", "reason": "a part of it"}
    assert admin.put(f"/v1/datasets/{first['id']}/caps", json=cap).is_success
    with signed_in(service, key["secret"]) as capped:
        own, shared, *_ = _rows(capped.open("/desk/datasets"))
    assert (own[0], own[-3:-1]) == (second["name"], ["0.25", "6"])
    assert (shared[0], shared[-2]) == (first["name"], f"shared with {second['name']}")
    assert _rows(curator.open("/desk/datasets"))[0][-3:-1] == ["6", "6"]


def test_the_list_is_filtered_by_name_and_status(admin: httpx.Client, curator: Browsing) -> None:
    word = f"Unusual{uuid4().hex}"
    kept, gone = (upload(admin, name=f"{word} {each} Größe") for each in ("kept", "gone"))
    assert admin.post(f"/v1/datasets/{gone['id']}/archive").is_success
    for filled, expected in (
        ({"q": f"größe {word.upper()}"}, [gone, kept]),
        ({"q": f"kept {word}"}, [kept]),
        ({"q": word, "status": "archived"}, [gone]),
        ({"q": word, "status": "active"}, [kept]),
    ):
        found = curator.open(f"/desk/datasets?{urlencode(filled)}")
        assert [row[0] for row in _rows(found)] == [each["name"] for each in expected]
        assert found.form("Show").fields["q"] == filled["q"]
    none = curator.send(curator.open("/desk/datasets"), "Show", q=f"{word} %")
    assert "No data set is like that." in none.text
    curator.open("/desk/datasets?status=none-of-these")


def test_the_list_goes_on(admin: httpx.Client, curator: Browsing) -> None:
    upload(admin)
    upload(admin)
    page = curator.open("/desk/datasets?before=2")  # the numbers begin with 1
    assert len(page.tree.xpath("//tbody/tr")) == 1
    assert page.links()["First page"] == "/desk/datasets"
    assert "There is no data set here." in curator.open("/desk/datasets?before=1").text
    curator.open("/desk/datasets?before=x", status=404)


def test_a_list_is_sorted_by_the_heads_of_its_columns(
    admin: httpx.Client, curator: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without script, with the filters, and both ways through its pages."""
    monkeypatch.setattr("app.desk.pages.datasets.ON_A_PAGE", 2)
    word = f"Sorted{uuid4().hex}"
    made = [upload(admin, name=f"{name} {word}")["name"] for name in "bcaed"]

    def shown(page: Page) -> list[str]:
        return [row[0] for row in _rows(page)]

    def order(page: Page) -> dict[str, str | None]:
        heads = page.tree.xpath("//main//table//th[a]")
        return {head.text_content(): head.get("aria-sort") for head in heads}

    page = curator.open(f"/desk/datasets?q={word}")
    assert (shown(page), order(page)) == (
        made[:2:-1], {"Name": None, "Uploaded": "descending"}
    )  # fmt: skip
    page = curator.open(page.links()["Name"])
    assert page.form("Show").fields["q"] == word
    assert order(page) == {"Name": "ascending", "Uploaded": None}
    assert "Previous page" not in page.links()
    seen = [shown(page)]
    while "Next page" in page.links():
        page = curator.open(page.links()["Next page"])
        seen.append(shown(page))
    assert seen == [[f"{name} {word}" for name in each] for each in ("ab", "cd", "e")]
    assert page.links()["First page"] == f"/desk/datasets?q={word}&sort=name"
    back = [shown(page)]
    while "Previous page" in page.links():
        page = curator.open(page.links()["Previous page"])
        back.append(shown(page))
    assert back == seen[::-1]
    assert "First page" not in page.links(), "it is the first page"
    page = curator.open(page.links()["Name"])
    assert shown(page) == [f"e {word}", f"d {word}"]
    assert order(page)["Name"] == "descending"
    kept = curator.send(page, "Show", q=f"a {word}")
    assert order(kept)["Name"] == "descending", "a filter keeps the order"
    page = curator.open(page.links()["Uploaded"])
    assert shown(page) == made[:2:-1]
    assert shown(curator.open(page.links()["Uploaded"])) == made[:2], "the oldest first"
    assert shown(curator.open(f"/desk/datasets?q={word}&sort=rows")) == made[:2:-1]


def test_names_are_sorted_as_people_sort_them(
    admin: httpx.Client, curator: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without regard to capitals and accents, numbers as numbers; alike names by their age."""
    monkeypatch.setattr("app.desk.pages.datasets.ON_A_PAGE", 2)
    word = f"Sorted{uuid4().hex}"
    wanted = ["apfel", "Ärzte", "Öl", "ol", "wave 2", "Wave 10", "Zebra"]
    for name in ("Zebra", "Wave 10", "Öl", "apfel", "wave 2", "Ärzte", "ol"):
        upload(admin, name=f"{word} {name}")
    page = curator.open(f"/desk/datasets?q={word}&sort=name")
    seen = [[row[0] for row in _rows(page)]]
    while "Next page" in page.links():
        page = curator.open(page.links()["Next page"])
        seen.append([row[0] for row in _rows(page)])
    assert [name for each in seen for name in each] == [f"{word} {name}" for name in wanted]
    while "Previous page" in page.links():
        page = curator.open(page.links()["Previous page"])
        assert [row[0] for row in _rows(page)] in seen
    assert [row[0] for row in _rows(page)] == seen[0]


def test_a_page_of_a_data_set_says_what_is_public_and_what_may_be_done(
    admin: httpx.Client, curator: Browsing, analyst: Browsing
) -> None:
    dataset = upload(admin, description="Of one town.", budget={"epsilon": "3"})
    ask(admin, dataset["id"], epsilon="0.5")
    page = _open(curator, dataset)
    assert page.heading == dataset["name"]
    links = page.links()
    assert links["Ask"] == f"/desk/datasets/{dataset['id']}/ask"
    for name, rest in LINKS.items():
        assert links[name] == f"/desk/datasets/{dataset['id']}/{rest}"
    assert "mean of income" in links
    assert "Of one town." in page.text
    (picture,) = page.tree.xpath("//*[@role='img' and contains(@aria-label, 'spent')]/@aria-label")
    assert picture == "Budget: 0.5 spent, 0 reserved and 2.5 left of epsilon 3"
    assert page.tree.xpath("//*[@role='img' and @aria-label='The budget over time, in epsilon']")
    assert "2 debit" in page.text
    shown = _open(analyst, dataset)
    assert not LINKS.keys() & shown.links().keys()
    assert "mean of income" not in shown.links(), "somebody else's release"
    assert "debit" not in shown.text
    assert "The budget over time" not in shown.answer.text
    analyst.open("/desk/datasets/ds_nobody", status=404)


@pytest.mark.parametrize("rest", LINKS.values())
def test_what_curators_do_is_not_for_analysts(
    admin: httpx.Client, analyst: Browsing, rest: str
) -> None:
    dataset = upload(admin)
    address = f"/desk/datasets/{dataset['id']}/{rest}"
    assert analyst.open(address, status=403).alerts()
    sent = analyst.client.post(address, data={"form_key": "x", "epsilon": "1", "reason": "mine"})
    assert sent.status_code == 403
    facts = admin.get(f"/v1/datasets/{dataset['id']}").json()
    assert (facts["status"], facts["budget"]["epsilon"]["total"]) == ("active", "10")


def test_a_row_count_that_is_private_is_on_no_page(admin: httpx.Client, curator: Browsing) -> None:
    rows = "income\n" + "1\n" * 7_919
    columns = {"income": {"type": "number", "lower": 0, "upper": 100}}
    dataset = upload(admin, rows, columns=columns, adjacency="add_remove", max_rows=100_000)
    for page in (_open(curator, dataset), curator.open("/desk/datasets")):
        assert "7,919" not in page.text
        # a number of its own, and not some digits of a random id
        assert re.search(r"(?<![\w-])7919(?![\w-])", page.answer.text) is None
    assert "private, declared to be at most 100,000" in _open(curator, dataset).text


def test_hostile_names_and_words_are_text(admin: httpx.Client, curator: Browsing) -> None:
    columns = {
        HOSTILE: {"type": "category", "values": [HOSTILE], "label": HOSTILE},
        "income": {"type": "number", "lower": 0, "upper": 100},
    }
    header = '"' + HOSTILE.replace('"', '""') + '"'
    dataset = upload(
        admin, f"{header},income\n{header},1\n" * 1 + f"{header},2\n" * 9,
        name=f"{HOSTILE} {uuid4()}", description=HOSTILE, columns=columns,
    )  # fmt: skip
    ask(admin, dataset["id"], {"kind": "histogram", "columns": [HOSTILE]})
    page = _open(curator, dataset)
    assert page.heading == dataset["name"]
    for shown in (page, curator.open("/desk/datasets"), curator.open("/desk")):
        assert not shown.tree.xpath("//script[not(@src)]")
        assert "49" not in shown.heading.replace(dataset["name"], "")


def total(admin: httpx.Client, dataset: dict[str, Any]) -> str:
    return str(admin.get(f"/v1/datasets/{dataset['id']}/budget").json()["epsilon"]["total"])


def test_a_grant_that_is_sent_twice_is_one(admin: httpx.Client, curator: Browsing) -> None:
    dataset = upload(admin, budget={"epsilon": "1"})
    page = curator.open(_open(curator, dataset).links()["Grant"])
    assert page.labels() == ["Epsilon", "Reason", "Ends"]
    for _ in range(2):  # a double click changes nothing
        asked = curator.send(page, "Grant", epsilon="0.5", reason="the board's decision")
        assert asked.heading == "Grant epsilon 0.5?"
        assert "rises from epsilon 1 to 1.5, 1.5 times as much" in asked.text
        assert asked.labels() == ["I understand that this cannot be undone"]
    curator.send(asked, "Grant", status=422)
    assert total(admin, dataset) == "1"
    for _ in range(2):  # nor does one of the last button, or the back button
        shown = curator.send(asked, "Grant", confirmed="yes")
        assert shown.heading == dataset["name"]
    assert "The grant is in the ledger." in shown.text
    assert total(admin, dataset) == "1.5"
    confirmed(curator, page, "Grant", epsilon="0.125", reason="back, and changed: not the same")
    assert total(admin, dataset) == "1.625"
    again = curator.open(page.path)
    confirmed(curator, again, "Grant", epsilon="0.25", reason="and some more", expires="2999-01-01")
    assert total(admin, dataset) == "1.875"


def test_a_large_grant_takes_its_amount_a_second_time(
    admin: httpx.Client, curator: Browsing
) -> None:
    """Above 10, or above twice the total; 1e3 is shown as the thousand that it is."""
    dataset = upload(admin, budget={"epsilon": "10"})
    page = curator.open(f"/desk/datasets/{dataset['id']}/grants")
    asked = curator.send(page, "Grant", epsilon="1e3", reason="The board decided on 3 May.")
    assert asked.heading == "Grant epsilon 1,000?"
    assert "from epsilon 10 to 1,010, 101 times as much" in asked.text
    for wrong in ("", "1e3", "100", "10,00", "a thousand"):
        refused = curator.send(asked, "Grant", status=422, confirmed="yes", again=wrong)
        assert "Epsilon again: type the amount a second time" in refused.alerts()[0]
    assert total(admin, dataset) == "10"
    curator.send(refused, "Grant", confirmed="yes", again="1,000")
    assert total(admin, dataset) == "1010"
    for before, epsilon, large in (("3", "6", False), ("3", "6.1", True), ("90", "10.1", True)):
        other = upload(admin, budget={"epsilon": before})
        page = curator.open(f"/desk/datasets/{other['id']}/grants")
        asked = curator.send(page, "Grant", epsilon=epsilon, reason="The board decided so.")
        assert ("Epsilon again" in asked.labels()) == large


def test_a_grant_is_confirmed_again_where_the_total_has_changed(
    admin: httpx.Client, curator: Browsing
) -> None:
    dataset = upload(admin, budget={"epsilon": "1"})
    page = curator.open(f"/desk/datasets/{dataset['id']}/grants")
    asked = curator.send(page, "Grant", epsilon="1", reason="The board decided so.")
    body = {"epsilon": "2", "reason": "another curator's"}
    admin.post(f"/v1/datasets/{dataset['id']}/grants", json=body).raise_for_status()
    reported = curator.send(asked, "Grant", status=422, confirmed="yes")
    assert "the total has changed" in reported.alerts()[0]
    assert "from epsilon 3 to 4" in reported.text
    assert not reported.tree.xpath("//input[@name='confirmed'][@checked]")
    curator.send(reported, "Grant", confirmed="yes")
    assert total(admin, dataset) == "4"


def test_a_grant_above_the_ceiling_is_refused(admin: httpx.Client, curator: Browsing) -> None:
    dataset = upload(admin)
    grant = {"epsilon": "1000.5", "reason": "a slip of the finger"}
    answer = admin.post(f"/v1/datasets/{dataset['id']}/grants", json=grant)
    problem = assert_problem(answer, 422, "grant-too-large")
    assert (problem["requested"], problem["maximum"]) == ("1000.5", "1000")
    page = curator.open(f"/desk/datasets/{dataset['id']}/grants")
    refused = curator.send(page, "Grant", status=422, **grant)
    assert "at most epsilon 1000" in refused.alerts()[0]
    assert total(admin, dataset) == "10"


def test_a_grant_is_refused_at_its_fields(admin: httpx.Client, curator: Browsing) -> None:
    dataset = upload(admin)
    page = curator.open(f"/desk/datasets/{dataset['id']}/grants")
    wrong = curator.send(page, "Grant", epsilon="much", expires="2001-01-01", status=422)
    faults = {each.get("id"): each.text for each in wrong.tree.xpath("//p[@class='fault']")}
    assert faults.keys() == {"epsilon-fault", "reason-fault", "expires-fault"}
    (epsilon,) = wrong.tree.xpath("//input[@id='epsilon']")
    assert epsilon.get("value") == "much"
    assert "epsilon-fault" in epsilon.get("aria-describedby")
    assert epsilon.get("aria-invalid") == "true"
    short = curator.send(wrong, "Grant", epsilon="1", reason="x", expires="", status=422)
    assert "must be a sentence" in short.alerts()[0]
    # and the same form may be sent again
    done = confirmed(curator, short, "Grant", reason="The board decided so.")
    assert "The grant is in the ledger." in done.text


def test_a_target_that_is_fixed_is_said_to_be(admin: httpx.Client, curator: Browsing) -> None:
    dataset = upload(admin, budget={"epsilon": "1", "delta": "0.000001"})
    page = curator.open(f"/desk/datasets/{dataset['id']}/grants")
    wrong = curator.send(page, "Grant", epsilon="1", reason="more of it", status=409)
    assert "fixed" in wrong.alerts()[0]
    assert "at its delta" in _open(curator, dataset).text


def test_a_cap_is_set_and_lifted(service: Service, admin: httpx.Client, curator: Browsing) -> None:
    key = make_key(admin, "analyst")
    dataset = upload(admin, budget={"epsilon": "5"})
    page = curator.open(_open(curator, dataset).links()["Caps"])
    assert "No one has a limit." in page.text
    shown = curator.send(page, "Set cap", person=key["person"], epsilon="0.5", reason="at first")
    assert _rows(shown) == [[key["person"], "0.5", "0"]]
    with signed_in(service, key["secret"]) as browsing:
        assert "You may use 0.5 at most" in _open(browsing, dataset).text
    wrong = curator.send(shown, "Set cap", person="no such person", reason="", status=422)
    assert len(wrong.tree.xpath("//p[@class='fault']")) == 2
    lifted = curator.send(
        shown, "Set cap", person=key["person"], lift="yes", epsilon="1", reason="enough"
    )
    assert "The limit is removed." in lifted.text
    assert _rows(lifted) == []


def test_words_and_policy_are_edited_and_bounds_are_not(
    admin: httpx.Client, curator: Browsing
) -> None:
    dataset = upload(admin, description="Of one town.", policy={"review": "above:0.5"})
    page = curator.open(_open(curator, dataset).links()["Edit"])
    form = page.form("Save")
    assert (form.fields["review"], form.fields["review_above"]) == ("above", "0.5")
    assert not any("lower" in name or "upper" in name for name in form.fields)
    nothing = curator.send(page, "Save", reason="for no reason", status=422)
    assert "no field was changed" in nothing.alerts()[0]
    wrong = curator.send(nothing, "Save", review_above="much", reason="", status=422)
    assert len(wrong.tree.xpath("//p[@class='fault']")) == 2
    shown = curator.send(
        wrong, "Save", reason="the board", description=HOSTILE, notices="Old.\nOf one town.",
        review="always", reviewers="2", allowed=["mean"], **{"label.0": "Yearly income"},
    )  # fmt: skip
    assert "The edit is in the ledger." in shown.text
    assert HOSTILE in shown.text
    facts = admin.get(f"/v1/datasets/{dataset['id']}").json()
    assert facts["notices"] == ["Old.", "Of one town."]
    assert facts["policy"] | {
        "review": "always", "reviewers": 2, "allowed": ["mean"],
    } == facts["policy"]  # fmt: skip
    assert facts["columns"]["income"]["label"] == "Yearly income"
    assert facts["columns"]["income"]["upper"] == 100


def test_all_that_is_wrong_with_an_edit_is_told_at_its_field(
    admin: httpx.Client, curator: Browsing
) -> None:
    page = curator.open(_open(curator, upload(admin)).links()["Edit"])
    long = "x" * 400
    wrong = curator.send(
        page, "Save", status=422, reason="the board", notices=f"Old.\n\n{long}",
        checklist=f"{long}\nIs it public?", **{"label.1": "food", "label.2": long},
    )  # fmt: skip
    (alert,) = wrong.alerts()
    assert "region label: must have at most 300 characters" in alert
    assert "Notices: line 3 must have" in alert
    assert "Checklist: line 1 must have" in alert
    for link in wrong.tree.xpath("//*[@role='alert']//a/@href"):
        assert wrong.tree.get_element_by_id(link.removeprefix("#")).get("aria-invalid") == "true"


def test_archiving_says_what_it_does_and_asks_first(admin: httpx.Client, curator: Browsing) -> None:
    dataset = upload(admin)
    settled(admin, ask(admin, dataset["id"]))
    page = curator.open(_open(curator, dataset).links()["Archive"])
    assert "Its rows are erased, for good." in page.text
    assert admin.get(f"/v1/datasets/{dataset['id']}").json()["status"] == "active"
    curator.send(page, "Archive", status=422)
    assert admin.get(f"/v1/datasets/{dataset['id']}").json()["status"] == "active"
    for _ in range(2):
        shown = curator.send(page, "Archive", confirmed="yes")
        assert "The data set is archived." in shown.text
    assert not {"Ask", "Archive"} & shown.links().keys()
    assert "mean of income" in shown.links()
    assert "It is archived already." in curator.open(page.path).text


@pytest.mark.wide
def test_many_releases_are_paged(admin: httpx.Client, curator: Browsing) -> None:
    dataset = upload(admin, budget={"epsilon": "100"})
    for _ in range(52):
        ask(admin, dataset["id"], epsilon="0.001")
    rows = "//section[@aria-labelledby='releases']//tbody/tr"
    page = _open(curator, dataset)
    assert len(page.tree.xpath(rows)) == 50
    rest = curator.open(page.links()["Next page"])
    assert len(rest.tree.xpath(rows)) == 2
    assert "Next page" not in rest.links()
    assert rest.links()["First page"] == f"{page.path}#releases"
    before = curator.open(rest.links()["Previous page"])
    assert before.tree.xpath(f"{rows}//a/@href") == page.tree.xpath(f"{rows}//a/@href")
    assert "Previous page" not in before.links()
    oldest = curator.open(page.links()["Asked"])
    assert len(oldest.tree.xpath("//th[@aria-sort='ascending'][.='Asked']")) == 1
    assert len(oldest.tree.xpath(rows)) == 50


def test_nobody_sees_a_data_set_without_signing_in(service: Service, admin: httpx.Client) -> None:
    dataset = upload(admin)
    with signed_out(service) as browsing:
        page = browsing.open(f"/desk/datasets/{dataset['id']}")
        assert page.path == "/desk/sign-in"
        assert dataset["name"] not in page.answer.text


def test_values_are_shown_by_their_labels_and_told_as_they_are(
    service: Service, admin: httpx.Client, curator: Browsing
) -> None:
    ward = {"type": "category", "values": ["1", "2", "3"],
            "labels": {"1": "Old Town", "2": "other", "3": "other"}}  # fmt: skip
    rows = "ward\n" + "1.0\n2.0\n3.0\n" * 20
    dataset = upload(admin, rows, columns={"ward": ward}, overlap={"reason": "invented rows"})["id"]
    asked = ask(admin, dataset, {"kind": "histogram", "columns": ["ward"]})
    release = settled(admin, asked).json()
    assert [each["cell"]["ward"] for each in release["value"]["cells"]] == ["1", "2", "3"]
    path = f"/v1/releases/{release['id']}/publication"
    made = admin.post(path, json={"reason": "for all"}, headers={"If-Match": "*"})
    assert made.status_code == 201
    with signed_out(service) as visitor:
        public = visitor.open(f"/public/releases/{release['id']}")
    for page in (public, curator.open(f"/desk/releases/{release['id']}")):
        for name in ("ward=Old Town", "ward=other (2)", "ward=other (3)"):
            assert name in page.text
    assert "1 (Old Town)" in curator.open(f"/desk/datasets/{dataset}").text
    assert (
        admin.get(f"/v1/datasets/{dataset}").json()["columns"]["ward"]["labels"] == ward["labels"]
    )


def test_a_curator_restricts_a_data_set_and_opens_it_again(
    service: Service, admin: httpx.Client, chief: Browsing, curator: Browsing
) -> None:
    dataset, made = upload(admin), make_key(admin, "analyst")
    person, group = made["person"], f"study {uuid4()}"
    groups = chief.open("/desk/groups")
    assert groups.heading == "Groups"
    saved = chief.send(
        groups, "Save group", name=group, persons=f"{person}\n\n", reason="the agreement"
    )
    assert saved.path == "/desk/groups"
    assert group in saved.text
    wrong = chief.send(saved, "Save group", name="uni:staff", persons="", reason="x", status=422)
    assert {each.get("id") for each in wrong.tree.xpath("//p[@class='fault']")} == {"name-fault"}
    page = _open(chief, dataset, "/access")
    assert page.labels() == ["Who may see it", "Persons", "Groups", "Reason"]
    refused = chief.send(
        page, "Save access", who="named", persons="no one", reason="the agreement", status=422
    )
    faults = {each.get("id") for each in refused.tree.xpath("//p[@class='fault']")}
    assert faults == {"persons-fault"}
    done = chief.send(page, "Save access", who="named", groups=group, reason="the agreement")
    assert "Only who is named sees the data set" in done.text
    assert group in done.form("Save access").fields["groups"]
    assert "Restricted: only named people" in _open(chief, dataset).text
    assert "access set" in chief.open("/desk/audit?kind=access_set").text
    curator.open(f"/desk/datasets/{dataset['id']}", status=404)
    assert dataset["name"] not in curator.open("/desk/datasets").text
    with signed_in(service, made["secret"]) as browsing:
        assert _open(browsing, dataset).heading == dataset["name"]
    opened = chief.send(done, "Save access", who="everyone", reason="over")
    assert "Everyone whose role allows it" in opened.text
    assert _open(curator, dataset).heading == dataset["name"]


def test_groups_are_for_admins(curator: Browsing) -> None:
    curator.open("/desk/groups", status=403)
