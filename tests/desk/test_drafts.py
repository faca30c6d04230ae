"""What is filled in and not sent outlives its session, and what fits outlives its statistic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.service import Service, ask, make_key, upload
from tests.desk.browsing import Browsing, Page, signed_in


@pytest.fixture
def secret(admin: httpx.Client) -> str:
    return str(make_key(admin, "curator")["secret"])


@pytest.fixture
def somebody(service: Service, secret: str) -> Iterator[Browsing]:
    with signed_in(service, secret) as browsing:
        yield browsing


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    return str(upload(admin)["id"])


def filled(page: Page, button: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in page.form(button).form_values():
        found.setdefault(name, []).append(value)
    return found


def test_what_fits_stays_when_another_statistic_is_chosen(somebody: Browsing, dataset: str) -> None:
    """Without script, too: the choice is sent with all that is filled in."""
    path = f"/desk/datasets/{dataset}/ask"
    page = somebody.open(f"{path}?statistic=mean")
    typed: dict[str, Any] = {
        "columns": ["income", "food"], "by": ["region"], "epsilon": "0.25", "wanted": "epsilon",
        "purpose": "Table 1", "where 0 column": "income", "where 0 op": ">", "where 0 value": "5",
    }  # fmt: skip
    other = somebody.send(page, "Choose", statistic="quantile", **typed)
    kept = filled(other, "Preview")
    assert kept["statistic"] == ["quantile"]
    assert kept["column"] == ["income"], "the first of several columns"
    assert kept["by"] == ["region"]
    assert (kept["epsilon"], kept["wanted"], kept["purpose"]) == (
        ["0.25"], ["epsilon"], ["Table 1"]
    )  # fmt: skip
    assert kept["where 0 value"] == ["5"]
    line = somebody.send(other, "Choose", statistic="linear_regression")
    kept = filled(line, "Preview")
    assert kept["intercept"] == ["yes"], "what is usual, where the other form has no such field"
    cells = somebody.send(page, "Choose", statistic="histogram", **typed)
    assert filled(cells, "Preview")["columns"] == ["income", "food"]
    back = somebody.send(cells, "Choose", statistic="sum", columns=["region", "food"])
    assert filled(back, "Preview")["columns"] == ["food"], "a sum is of numbers"


def test_a_question_is_kept_for_its_person_until_it_is_sent(
    service: Service, somebody: Browsing, curator: Browsing, secret: str, dataset: str
) -> None:
    path = f"/desk/datasets/{dataset}/ask"
    somebody.open(f"{path}?statistic=mean&columns=food&wanted=epsilon&epsilon=0.125&purpose=why")
    assert "Continue the draft" not in curator.open(path).links()
    somebody.client.post("/desk/sign-out")
    with signed_in(service, secret) as again:
        begun = again.open(path)
        page = again.open(begun.links()["Continue the draft"])
        kept = filled(page, "Preview")
        assert (kept["columns"], kept["epsilon"], kept["purpose"]) == (["food"], ["0.125"], ["why"])
        again.send(begun, "Discard draft")
        assert "Continue the draft" not in again.open(path).links()
        again.open(f"{path}?statistic=mean&columns=food&wanted=epsilon&epsilon=0.125")
        asked = again.send(page, "Release", purpose="why")
        again.send(asked, "Release")
        assert "Continue the draft" not in again.open(path).links(), "it is sent"


def test_a_new_data_set_is_kept_without_its_file(
    service: Service, admin: httpx.Client, somebody: Browsing, secret: str
) -> None:
    new = "/desk/datasets/new"
    fields = {
        "form_key": "k" * 24, "name": "Towns <&>", "columns.0.name": "age",
        "columns.0.type": "integer", "columns.0.lower": "0", "columns.0.upper": "",
        "columns.0.values": "",
    }  # fmt: skip
    kept = somebody.client.post(
        f"{new}/keep", data=fields, files={"none": ("", b"")}, follow_redirects=False
    )
    assert kept.headers["location"] == f"{new}?draft=yes&done=draft_kept"
    with signed_in(service, str(make_key(admin, "curator")["secret"])) as other:
        assert "Continue where you stopped" not in other.open(new).links()
    somebody.client.post("/desk/sign-out")
    late = somebody.client.post(f"{new}/check", data=fields, follow_redirects=False)
    assert late.headers["location"] == "/desk/sign-in?next=/desk/datasets/new"
    with signed_in(service, secret) as again:
        begun = again.open(new)
        page = again.open(begun.links()["Continue where you stopped"])
        values = dict(page.form("Upload").form_values())
        assert (values["name"], values["columns.0.lower"]) == ("Towns <&>", "0")
        again.send(begun, "Discard it")
        assert "Continue where you stopped" not in again.open(new).links()


def test_an_empty_form_is_no_draft(somebody: Browsing, dataset: str, admin: httpx.Client) -> None:
    ask(admin, dataset)
    somebody.open(f"/desk/datasets/{dataset}/ask")
    somebody.open(f"/desk/datasets/{dataset}/ask?statistic=sum")
    assert "Continue the draft" not in somebody.open(f"/desk/datasets/{dataset}/ask").links()
