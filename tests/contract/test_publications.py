"""Publishing a release, reading it without a key in every form, and withdrawing it."""

from __future__ import annotations

import csv
import json
import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from io import StringIO
from itertools import accumulate
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from app.client import ReleaseDesk
from app.client.offline import check_receipt
from app.services.publishing.citations import FORMS
from app.services.publishing.linked_data import EXPORTS
from app.services.publishing.linked_data import FORMS as KINDS
from tests.contract.service import (
    MEAN,
    ROWS,
    Service,
    ask,
    assert_problem,
    make_key,
    running,
    settled,
    upload,
)

ATOM = "{http://www.w3.org/2005/Atom}"
AWKWARD = "a <b>\"&' }} {name} % $ # _ ~ ^ \\ ]]> data set"
MEANS = {"kind": "mean", "columns": ["income", "food"]}
REASON = {"reason": 'for <i>"all"</i> & ever'}


def publish(
    client: httpx.Client, release: str, seen: str | None = "*", **body: str
) -> httpx.Response:
    headers = {} if seen is None else {"If-Match": seen}
    path = f"/v1/releases/{release}/publication"
    return client.post(path, json=body or REASON, headers=headers)


def withdraw(client: httpx.Client, release: str, note: str = "the <b>wrong</b> year") -> Any:
    return client.post(f"/v1/releases/{release}/publication/withdrawal", json={"note": note})


@pytest.fixture(scope="module")
def awkward(curator: httpx.Client, analyst: httpx.Client) -> dict[str, Any]:
    """A release of a data set whose name means something in every format, made public."""
    dataset = upload(curator, name=AWKWARD, description="said of it")
    answer = ask(analyst, dataset["id"], MEANS, epsilon="0.5", purpose="a <script> of mine")
    made = publish(curator, answer.json()["id"])
    assert made.status_code == 201, made.text
    return {"answer": answer, "made": made, "id": answer.json()["id"], "dataset": dataset["id"]}


@pytest.fixture
def released(curator: httpx.Client, dataset: str) -> dict[str, Any]:
    return dict(ask(curator, dataset).json())


def test_what_has_been_published_says_who_why_and_where(
    curator: httpx.Client, analyst: httpx.Client, awkward: dict[str, Any]
) -> None:
    body = awkward["made"].json()
    assert awkward["made"].headers["location"] == body["address"]
    assert body["address"] == f"/public/releases/{awkward['id']}"
    assert (body["status"], body["reason"]) == ("published", REASON["reason"])
    assert body["withdrawn_by"] is body["withdrawn_at"] is body["note"] is None
    for client in (curator, analyst):
        shown = client.get(f"/v1/releases/{awkward['id']}/publication")
        assert shown.json() == body
    assert curator.get("/v1/ledger/verification").json()["ok"] is True


def test_a_curator_publishes_what_they_have_seen(
    curator: httpx.Client, analyst: httpx.Client, released: dict[str, Any]
) -> None:
    name = released["id"]
    assert_problem(publish(analyst, name), 403, "forbidden")
    assert_problem(publish(curator, name, None), 428, "precondition-missing")
    assert_problem(publish(curator, name, '"something else"'), 412, "precondition")
    assert_problem(curator.get(f"/v1/releases/{name}/publication"), 404, "not-found")
    tag = curator.get(f"/v1/releases/{name}").headers["etag"]
    assert publish(curator, name, f'"x", {tag}').status_code == 201


def test_saying_the_same_again_changes_nothing_and_another_is_told(
    admin: httpx.Client, curator: httpx.Client, released: dict[str, Any]
) -> None:
    name = released["id"]
    first = publish(curator, name)
    again = publish(curator, name)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert_problem(publish(admin, name), 409, "already-published")
    assert_problem(publish(curator, name, reason="another"), 409, "already-published")


def test_of_many_at_once_one_publishes(
    service: Service, admin: httpx.Client, released: dict[str, Any]
) -> None:
    keys = [make_key(admin, "curator")["secret"] for _ in range(4)]

    def act(key: str) -> int:
        with service.client(key) as client:
            return publish(client, released["id"], reason="mine").status_code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(act, keys)) == [201, 409, 409, 409]


def test_only_what_has_a_result_is_published(
    admin: httpx.Client, curator: httpx.Client, anonymous: httpx.Client
) -> None:
    dataset = upload(admin, policy={"review": "always"})["id"]
    waiting = ask(admin, dataset).json()["id"]
    assert_problem(publish(curator, waiting), 409, "not-released")
    assert admin.post(f"/v1/releases/{waiting}/withdrawal").status_code == 200
    assert_problem(publish(curator, waiting), 409, "not-released")
    assert_problem(anonymous.get(f"/public/releases/{waiting}.json"), 404, "not-found")


def test_a_withdrawal_is_for_good_and_leaves_a_tombstone(
    admin: httpx.Client,
    curator: httpx.Client,
    anonymous: httpx.Client,
    released: dict[str, Any],
) -> None:
    name = released["id"]
    assert_problem(withdraw(curator, name), 409, "not-published")
    publish(curator, name)
    assert anonymous.get(f"/public/releases/{name}.json").status_code == 200
    gone = withdraw(curator, name)
    assert gone.status_code == 200
    assert gone.json()["status"] == "withdrawn"
    assert withdraw(curator, name).json() == gone.json()
    assert_problem(withdraw(admin, name), 409, "publication-withdrawn")
    assert_problem(publish(curator, name), 409, "publication-withdrawn")
    for ending in FORMS:
        reported = assert_problem(
            anonymous.get(f"/public/releases/{name}.{ending}"), 410, "withdrawn"
        )
        assert reported["note"] == "the <b>wrong</b> year"
        assert reported["withdrawn_by"] == gone.json()["withdrawn_by"]
        assert reported["withdrawn_at"] == gone.json()["withdrawn_at"]
        assert "value" not in reported
    listed = anonymous.get("/public/releases.json", params={"q": name}).json()
    assert listed["items"] == []
    assert name not in anonymous.get("/public/feed.atom").text
    # its owner and curators still have it
    assert curator.get(f"/v1/releases/{name}").json() == released


@pytest.mark.parametrize("ending", FORMS)
def test_every_form_is_public_and_may_be_kept(
    anonymous: httpx.Client, awkward: dict[str, Any], ending: str
) -> None:
    path = f"/public/releases/{awkward['id']}.{ending}"
    found = anonymous.get(path)
    assert found.status_code == 200
    kind = {end: kind for end, kind, _ in KINDS}[ending]
    assert found.headers["content-type"].partition(";")[0] == kind
    assert found.headers["cache-control"].startswith("public")
    assert "set-cookie" not in found.headers
    assert f"/public/releases/{awkward['id']}>" in found.headers["link"]
    again = anonymous.get(path, headers={"If-None-Match": found.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == found.headers["etag"]
    assert anonymous.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_document_begins_with_the_signed_answer_and_names_its_entries(
    curator: httpx.Client, anonymous: httpx.Client, awkward: dict[str, Any]
) -> None:
    found = anonymous.get(f"/public/releases/{awkward['id']}.json")
    content, answer = found.content, awkward["answer"].content
    assert content.startswith(answer[:-1] + b',"publication":')
    keys = anonymous.get("/v1/ledger/public-keys").content
    assert check_receipt(content[: len(answer) - 1] + b"}", keys).release == awkward["id"]
    body = found.json()
    assert {name: body[name] for name in awkward["answer"].json()} == awkward["answer"].json()
    made = body["publication"]
    assert made["reason"] == REASON["reason"]
    assert made["seq"] == awkward["made"].json()["seq"]
    entries = curator.get(f"/v1/datasets/{awkward['dataset']}/ledger").json()["items"]
    assert made["ledger_entry"] == entries[made["ledger_seq"] - 1]["hash"]
    assert body["data"]["columns"] == {
        "income": {"type": "number", "lower": 0, "upper": 100},
        "food": {"type": "number", "lower": 0, "upper": 50},
    }, "of the columns asked about, and no others"


@pytest.mark.parametrize(
    ("statistic", "title"),
    [
        (
            {"kind": "count", "by": ["of", {"column": "age", "edges": [1, 50, 100]}]},
            "Count by of and age",
        ),
        (
            {
                "kind": "linear_regression", "bound": 2, "target": "age",
                "features": [{"column": "of", "reference": "value"}, {"expr": "pay / 2"}],
            },
            "Linear regression of age on of, pay/2",
        ),
        (
            {
                "kind": "logistic_regression", "bound": 2,
                "target": {"column": "age", "op": ">", "value": 50},
                "features": [{"product": [{"log": "pay"}, {"column": "of", "reference": "value"}]}],
            },
            "Logistic regression of age on log(pay):of",
        ),
        (
            {
                "kind": "mean", "columns": ["half"], "derive": {"half": "age * pay"},
                "where": [{"column": "of", "op": "==", "value": "mean"}],
            },
            "Mean of half, with conditions",
        ),
    ],
)  # fmt: skip
def test_a_question_of_any_form_has_pages_which_name_its_columns_and_no_others(
    curator: httpx.Client, anonymous: httpx.Client, statistic: dict[str, Any], title: str
) -> None:
    """Words of a question, its fields and the categories in it are often columns' names too."""
    numbers = ("age", "pay", "kind", "value", "mean", "column", "count", "op", "target", "features")
    columns: dict[str, Any] = {
        name: {"type": "number", "lower": 1, "upper": 100, "label": f"labelled {name}"}
        for name in numbers
    }
    columns["of"] = {"type": "category", "values": ["value", "mean"]}
    rows = f"{','.join(columns)}\n" + f"{'40,' * len(numbers)}mean\n" * 60
    dataset = upload(curator, rows, columns=columns)["id"]
    asked = ask(curator, dataset, statistic)
    assert asked.status_code in {201, 202}, asked.text
    name = settled(curator, asked).json()["id"]
    assert publish(curator, name).status_code == 201
    reported = anonymous.get(f"/public/releases/{name}.json").json()["data"]["columns"]
    assert set(reported) == (
        {"age", "of"} if statistic["kind"] == "count" else {"age", "pay", "of"}
    )
    forms = ["", "/certificate", *(f".{ending}" for ending in FORMS)]
    pages = [f"/public/releases/{name}{form}" for form in forms]
    pages += ["/public", "/public/releases.json", "/public/feed.atom"]
    pages += [f"/public/datasets/{dataset}/{form}.json" for form in EXPORTS]
    for page in pages:
        assert anonymous.get(page).status_code == 200, page
    feed = anonymous.get("/public/feed.atom").text
    assert f"{title} in" in feed, feed
    found = anonymous.get("/public/releases.json", params={"q": "labelled op"}).json()
    assert found["items"] == []


def test_nothing_of_other_columns_rows_or_budget_is_told(
    curator: httpx.Client, anonymous: httpx.Client
) -> None:
    columns = {
        "income": {"type": "number", "lower": 0, "upper": 100},
        "secretive": {"type": "category", "values": ["alpha", "omega"]},
    }
    rows = "income,secretive\n" + "40,alpha\n" * 37
    dataset = upload(curator, rows, columns=columns, budget={"epsilon": "7.123456789"})["id"]
    name = ask(curator, dataset, MEAN).json()["id"]
    publish(curator, name)
    texts = [anonymous.get(f"/public/releases/{name}.{ending}").text for ending in FORMS]
    texts += [anonymous.get(f"/public/datasets/{dataset}/{form}.json").text for form in EXPORTS]
    for text in texts:
        assert not re.search(r"secretive|alpha|omega|7\.12345678", text)


def test_the_csv_has_one_number_a_row(anonymous: httpx.Client, awkward: dict[str, Any]) -> None:
    text = anonymous.get(f"/public/releases/{awkward['id']}.csv").text
    rows = list(csv.DictReader(StringIO(text)))
    answer = awkward["answer"].json()
    assert [row["term"] for row in rows] == ["income", "food"]
    for row in rows:
        low, high = answer["noise"]["interval_95"][row["term"]]
        assert float(row["estimate"]) == answer["value"][row["term"]]
        assert (float(row["noise_low"]), float(row["noise_high"])) == (low, high)
        assert (row["confidence_low"], row["confidence_high"]) == ("", "")
        assert row["epsilon"] == "0.5"


def test_citations_hold_an_awkward_name(anonymous: httpx.Client, awkward: dict[str, Any]) -> None:
    path = f"/public/releases/{awkward['id']}"
    bib = anonymous.get(f"{path}.bib").text
    depths = [*accumulate((each == "{") - (each == "}") for each in bib)]
    assert 0 not in depths[depths.index(1) : -3], "BibTeX counts every brace, escaped or not"
    assert bib.endswith("\n}\n")
    assert depths[-1] == 0
    assert r"\textbraceleft{}name\textbraceright{} \% \$ \# \_" in bib
    ris = anonymous.get(f"{path}.ris").text
    assert all(re.match(r"[A-Z][A-Z0-9]  - ", line) for line in ris.splitlines())
    (item,) = anonymous.get(f"{path}.csl.json").json()
    assert AWKWARD in item["title"]
    assert item["URL"] == str(anonymous.base_url.join(path))
    said = anonymous.get(f"{path}.txt").text
    assert said.startswith(awkward["answer"].json()["citation"])


def test_pictures_and_feed_are_sound_xml(anonymous: httpx.Client, awkward: dict[str, Any]) -> None:
    badge = ElementTree.fromstring(anonymous.get(f"/public/releases/{awkward['id']}.svg").content)
    assert badge.get("aria-label") == "epsilon 0.5, pure DP"
    assert not [each for each in badge.iter() if {"style", "onload"} & set(each.attrib)]
    feed = ElementTree.fromstring(anonymous.get("/public/feed.atom").content)
    assert feed.tag == f"{ATOM}feed"
    for tag in ("id", "title", "updated"):
        assert feed.find(f"{ATOM}{tag}") is not None
        assert all(each.find(f"{ATOM}{tag}") is not None for each in feed.iter(f"{ATOM}entry"))
    titles = [str(each.findtext(f"{ATOM}title")) for each in feed.iter(f"{ATOM}entry")]
    assert any(AWKWARD in title for title in titles)


@pytest.mark.parametrize("host", ['x"><b>', "a b", "x;y", "x/../y?z#"])
def test_an_address_that_is_none_gets_into_no_form(
    anonymous: httpx.Client, awkward: dict[str, Any], host: str
) -> None:
    for path in (f"/public/releases/{awkward['id']}", "/public/feed.atom"):
        for ending in ("", ".bib", ".jsonld") if "releases" in path else ("",):
            found = anonymous.get(path + ending, headers={"Host": host})
            assert host not in found.text + str(found.headers)


def test_citations_and_feeds_name_the_address_that_people_know(tmp_path: Path) -> None:
    known = "https://numbers.example.org/desk"
    with running(tmp_path / "data", public_url=known) as service, service.client() as client:
        name = ask(client, upload(client)["id"]).json()["id"]
        publish(client, name)
        for ending in ("bib", "ris", "csl.json", "txt", "jsonld"):
            reported = client.get(f"/public/releases/{name}.{ending}").text
            assert f"{known}/public/releases/{name}" in reported, ending
        assert f"{known}/public/releases/{name}" in client.get("/public/feed.atom").text


def test_linked_data_describes_the_numbers(
    anonymous: httpx.Client, awkward: dict[str, Any]
) -> None:
    found = anonymous.get(f"/public/releases/{awkward['id']}.jsonld").json()
    assert (found["@context"], found["@type"]) == ("https://schema.org/", "Dataset")
    assert AWKWARD in found["name"]
    assert len(found["description"]) >= 50
    assert [each["name"] for each in found["variableMeasured"]] == ["income", "food"]
    for each in found["distribution"]:
        assert httpx.get(each["contentUrl"]).status_code == 200


def test_what_is_public_is_searched_in_pages(
    curator: httpx.Client, anonymous: httpx.Client
) -> None:
    dataset = upload(curator, name="Überlingen survey, wave 3")["id"]
    names = [ask(curator, dataset).json()["id"] for _ in range(3)]
    names.append(ask(curator, dataset, {"kind": "histogram", "columns": ["region"]}).json()["id"])
    for name in names:
        assert publish(curator, name).status_code == 201

    def searched(**params: str) -> list[str]:
        found = anonymous.get("/public/releases.json", params=params).json()
        return [each["release"] for each in found["items"]]

    assert searched(dataset=dataset) == names[::-1]
    assert searched(dataset=dataset, statistic="histogram") == [names[3]]
    assert searched(q="ÜBERLINGEN income") == names[2::-1]
    assert searched(q="überlingen nothing") == []
    assert searched(q="%berlingen") == []
    assert searched(q="\0") == searched()
    first = anonymous.get("/public/releases.json", params={"dataset": dataset, "limit": 3}).json()
    assert [each["release"] for each in first["items"]] == names[:0:-1]
    rest = {"dataset": dataset, "limit": "3", "cursor": first["next"]}
    assert searched(**rest) == names[:1]
    assert_problem(anonymous.get("/public/releases.json?cursor=x"), 422, "invalid-request")


@pytest.mark.parametrize("form", EXPORTS)
def test_a_data_set_is_exported_when_something_of_it_is_public(
    analyst: httpx.Client, anonymous: httpx.Client, awkward: dict[str, Any], dataset: str, form: str
) -> None:
    address = f"/public/datasets/{awkward['dataset']}/{form}.json"
    reported = anonymous.get(address)
    assert reported.status_code == 200
    assert reported.headers["cache-control"].startswith("public")
    keyed = analyst.get(f"/v1/datasets/{awkward['dataset']}/exports/{form}").json()
    assert keyed == reported.json()
    assert AWKWARD in json.dumps(keyed).encode().decode("unicode_escape")
    # a data set of which nothing is public is not told from none
    assert_problem(anonymous.get(f"/public/datasets/{dataset}/{form}.json"), 404, "not-found")
    assert analyst.get(f"/v1/datasets/{dataset}/exports/{form}").status_code == 200


def test_the_registry_s_record_fills_every_tier(
    anonymous: httpx.Client, awkward: dict[str, Any]
) -> None:
    found = anonymous.get(f"/public/datasets/{awkward['dataset']}/registry.json").json()
    record = found["deployment"]
    assert record.keys() == {
        "basic", "dp_variant", "privacy_loss", "deployment_model", "implementation",
        "administrative",
    }  # fmt: skip
    assert record["dp_variant"]["variant_name"] == "Pure DP"
    assert record["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5}
    assert record["administrative"]["tier"] == 3
    empty = [
        f"{part}.{name}"
        for part, reported in record.items()
        for name in reported
        if reported[name] == ""
    ]
    assert empty == ["basic.data_product_region", "basic.data_product_sector"]


def test_the_registry_is_told_how_an_account_s_costs_add_up(
    curator: httpx.Client, anonymous: httpx.Client
) -> None:
    budgets = {"epsilons": {"epsilon": "1"}, "rho": {"epsilon": "1", "delta": "1e-6"}}
    for unit, budget in budgets.items():
        dataset = str(upload(curator, budget=budget)["id"])
        publish(curator, ask(curator, dataset).json()["id"])
        found = anonymous.get(f"/public/datasets/{dataset}/registry.json").json()
        assert f"the {unit} of all" in found["deployment"]["implementation"]["composition"]


def test_croissant_describes_the_very_file(
    anonymous: httpx.Client, awkward: dict[str, Any]
) -> None:
    found = anonymous.get(f"/public/datasets/{awkward['dataset']}/croissant.json").json()
    assert found["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    required = ("@context", "name", "description", "license", "url", "creator", "datePublished")
    assert all(found[name] for name in required), "what Croissant 1.0 has to have"
    (file,), (table,) = found["distribution"], found["recordSet"]
    content = httpx.get(file["contentUrl"]).content
    assert sha256(content).hexdigest() == file["sha256"]
    columns = [each["source"]["extract"]["column"] for each in table["field"]]
    assert ",".join(columns) == content.decode().splitlines()[0]


def test_a_form_that_is_not_there_is_not_found(
    anonymous: httpx.Client, awkward: dict[str, Any]
) -> None:
    for path in (
        f"/public/releases/{awkward['id']}.exe",
        "/public/releases/rel_none.json",
        "/public/releases/%00.json",
        f"/public/datasets/{awkward['dataset']}/other.json",
        "/public/datasets/%00/registry.json",
    ):
        assert_problem(anonymous.get(path), 404, "not-found")


def test_rows_are_gone_and_what_is_public_stays(
    curator: httpx.Client, anonymous: httpx.Client
) -> None:
    dataset = upload(curator, ROWS)["id"]
    name = ask(curator, dataset).json()["id"]
    publish(curator, name)
    before = anonymous.get(f"/public/releases/{name}.json").content
    assert curator.post(f"/v1/datasets/{dataset}/archive").status_code == 200
    assert anonymous.get(f"/public/releases/{name}.json").content == before


def test_the_client_publishes_exports_and_withdraws(
    service: Service, admin: httpx.Client, dataset: str
) -> None:
    secret = make_key(admin, "curator")["secret"]
    with ReleaseDesk(service.url, secret) as desk:
        release = desk.release(dataset, MEAN, epsilon="0.1")
        made = desk.publish(release, reason="a table")
        assert desk.publish(release.id, reason="a table") == made
        assert httpx.get(f"{service.url}{made.address}.csv").text.startswith(
            "statistic,term,estimate"
        )
        assert desk.export(dataset, "datacite")["relatedIdentifiers"]
        gone = desk.unpublish(release, note="a mistake")
        assert (gone.status, gone.note) == ("withdrawn", "a mistake")
        assert desk.publication(release) == gone


def test_the_prompt_publishes_exports_and_withdraws(
    service: Service, admin: httpx.Client, dataset: str
) -> None:
    release = ask(admin, dataset).json()["id"]
    environment = {
        "RELEASE_DESK_URL": service.url,
        "RELEASE_DESK_KEY": make_key(admin, "curator")["secret"],
    }

    def run(*words: str) -> str:
        done = CliRunner().invoke(main, words, env=environment)
        assert done.exit_code == 0, done.output
        return done.output.strip()

    path = run("releases", "publish", release, "--reason", "a table", "--yes")
    assert httpx.get(f"{service.url}{path}.json").status_code == 200
    assert json.loads(run("datasets", "export", dataset, "registry"))["deployment"]
    assert run("releases", "unpublish", release, "--note", "a mistake", "--yes") == "withdrawn"
    assert json.loads(run("releases", "publication", release))["note"] == "a mistake"


@pytest.mark.slow
def test_an_export_ends_before_it_becomes_too_much(
    curator: httpx.Client, anonymous: httpx.Client
) -> None:
    """Anyone may ask for one, so what is read for it is bounded; the newest is in it."""
    values = [f"{number:04} {'x' * 120}" for number in range(4_000)]
    columns = {"place": {"type": "category", "values": values}}
    dataset = upload(curator, "place\n" + f"{values[7]}\n" * 30, columns=columns)["id"]
    names = []
    for _ in range(4):
        asked = ask(curator, dataset, {"kind": "histogram", "columns": ["place"]})
        names.append(settled(curator, asked).json()["id"])
        publish(curator, names[-1])
    reported = anonymous.get(f"/public/datasets/{dataset}/datacite.json").json()
    parts = [
        each["relatedIdentifier"].rpartition("/")[2] for each in reported["relatedIdentifiers"]
    ]
    assert 1 <= len(parts) < 4
    assert parts == names[::-1][: len(parts)]
