"""The last step of an upload: its report, what is to be confirmed, and "Create data set"."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from app.domain.upload_reports import ColumnCounts, UploadReport
from app.services.datasets import datasets
from app.services.datasets.drafts import MOST_OF_A_PERSON, doubts
from app.store.merkle_log import CHECKPOINT
from mechanisms.privacy import Epsilon
from tests.contract.service import ADMIN_KEY, Service, running
from tests.desk.browsing import Browsing, Page, person, signed_in

FILLED = {
    "epsilon": "3", "columns.0.type": "integer", "columns.0.lower": "0", "columns.0.upper": "99",
}  # fmt: skip
BUTTON = "Create data set"


def _rows() -> bytes:
    """Rows of new people each time: the server may know those of other tests."""
    seed = uuid4().int
    return b"age\n" + b"".join(b"%d\n" % (seed // 99**at % 99) for at in range(30))


def _sent(browsing: Browsing, rows: bytes | None = None, **filled: str) -> Page:
    file = ("people.csv", _rows() if rows is None else rows)
    page = browsing.send(browsing.open("/desk/datasets/new"), "Draft", file=file)
    filled = {**FILLED, "name": f"people {uuid4()}", **filled}
    return browsing.send(page, "Upload", file=file, **filled)  # type: ignore[arg-type]


def _id(page: Page) -> str:
    return page.path.split("/")[3]


@pytest.fixture
def other(service: Service, admin: httpx.Client) -> Iterator[Browsing]:
    with person(service, admin, "curator") as browsing:
        yield browsing


def test_nothing_is_final_before_it_is_confirmed(
    service: Service, admin: httpx.Client, curator: Browsing, other: Browsing
) -> None:
    name = f"people {uuid4()}"
    before = _entries(service)
    shown = _sent(curator, name=name)
    assert (shown.heading, shown.path) == (f"Create {name}?", f"/desk/datasets/{_id(shown)}/create")
    assert "30 rows were read" in shown.text
    assert not shown.tree.xpath("//input[@type='checkbox']"), "nothing is to be confirmed"
    assert admin.get(f"/v1/datasets/{_id(shown)}").status_code == 404
    assert _entries(service) == before
    other.open(shown.path, status=404)
    for path in ("/desk", "/desk/datasets"):
        listed = "//main//a[@href=$it]"
        assert curator.open(path).tree.xpath(listed, it=shown.path), "it is found again from here"
        assert not other.open(path).tree.xpath(listed, it=shown.path)
    action = shown.form(BUTTON).action
    assert "Nothing of it" not in other.send(shown, BUTTON, status=404).text
    assert shown.path == curator.open(shown.path).path, "a reload shows it again"
    made = curator.send(shown, BUTTON)
    assert (made.heading, made.path) == (name, f"/desk/datasets/{_id(shown)}")
    assert curator.send(shown, BUTTON).path == made.path, "a double click creates it once"
    assert curator.open(action).path == made.path
    assert not curator.open("/desk").tree.xpath("//main//a[@href=$it]", it=shown.path)
    assert admin.get(f"/v1/datasets/{_id(shown)}").json()["status"] == "active"
    assert not [*(service.data_dir / "waiting").glob(f"{_id(shown)}.*")]
    assert _entries(service) > before


def _entries(service: Service) -> int:
    """Count the ledger's entries but for checkpoints, which the server appends by itself."""
    with closing(sqlite3.connect(service.data_dir / "release-desk.db")) as connection:
        asked = "SELECT count(*) FROM entry WHERE kind != ?"
        return int(connection.execute(asked, (CHECKPOINT,)).fetchone()[0])


def test_what_is_odd_must_be_confirmed(curator: Browsing, admin: httpx.Client) -> None:
    rows = b"age\n" + b"".join(b"%d\n" % (100 + at) for at in range(3000))
    shown = _sent(curator, rows, epsilon="100000")
    assert "3000 of 3000 values of age lie outside the bounds" in shown.text
    assert "The budget is epsilon 100000." in shown.text
    refused = curator.send(shown, BUTTON, status=422)
    assert "tick it" in refused.alerts()[0]
    assert admin.get(f"/v1/datasets/{_id(shown)}").status_code == 404
    made = curator.send(refused, BUTTON, confirmed="yes")
    assert admin.get(f"/v1/datasets/{_id(made)}").json()["budget"]["epsilon"]["total"] == "100000"
    more = ("more.csv", b"age\n" + b"".join(b"%d\n" % (9000 + at) for at in range(40)))
    page = curator.send(curator.open(f"{made.path}/versions"), "Add rows", file=more)
    assert "40 of 40 values of age lie outside the bounds" in page.text
    assert curator.send(page, BUTTON, status=422).heading == page.heading
    grown = curator.send(page, BUTTON, confirmed="yes")
    assert admin.get(f"/v1/datasets/{_id(grown)}").json()["version"] == 2


def test_most_is_more_than_half_and_large_is_above_ten() -> None:
    report = UploadReport(columns={"a": ColumnCounts(values=10, clamped_low=3, clamped_high=2)})
    assert doubts(report, Epsilon.parse("10")) == []
    report.columns["a"].clamped_low += 1
    assert len(doubts(report, Epsilon.parse("10.000000001"))) == 2
    assert len(doubts(report, None)) == 1


def test_an_upload_that_waits_is_discarded_or_makes_room_or_expires(
    service: Service, curator: Browsing, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = _sent(curator)
    stored = service.data_dir / "datasets"
    assert (stored / _id(shown)).is_dir()
    assert curator.send(shown, "Discard upload").path == "/desk/datasets"
    assert not (stored / _id(shown)).exists()
    curator.open(shown.path, status=404)
    assert "The data set was not created" in curator.send(shown, BUTTON, status=404).text
    many = [_sent(curator) for _ in range(MOST_OF_A_PERSON + 1)]
    assert [(stored / _id(each)).is_dir() for each in many] == [False] + [True] * MOST_OF_A_PERSON
    assert curator.send(many[-1], BUTTON).path == f"/desk/datasets/{_id(many[-1])}"
    monkeypatch.setattr(datasets, "WAITS_S", 0)
    late = _late(curator)
    curator.open(late, status=404)
    assert admin.get("/v1/ledger/verification").json()["ok"] is True


def _late(curator: Browsing) -> str:
    """Return where an upload would wait whose time is over at once."""
    file = ("people.csv", _rows())
    page = curator.send(curator.open("/desk/datasets/new"), "Draft", file=file)
    filled = {**FILLED, "name": f"people {uuid4()}"}
    return curator.send(page, "Upload", file=file, status=404, **filled).path


def test_a_refused_upload_that_waited_is_gone(curator: Browsing, other: Browsing) -> None:
    name = f"people {uuid4()}"
    both = [_sent(each, name=name) for each in (curator, other)]
    curator.send(both[0], BUTTON)
    refused = other.send(both[1], BUTTON, status=409)
    assert "name" in refused.alerts()[0]
    other.open(both[1].path, status=404)


def test_what_waits_outlives_a_restart_until_its_time_is_over(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as service, signed_in(service, ADMIN_KEY) as browsing:
        kept, over = (_sent(browsing) for _ in range(2))
    (note,) = (data / "waiting").glob(f"{_id(over)}.*")
    dataset, _, owner = note.name.split(".")
    note.rename(note.with_name(f"{dataset}.1.{owner}"))
    with running(data) as service, signed_in(service, ADMIN_KEY) as browsing:
        assert not (data / "datasets" / _id(over)).exists()
        assert not [*(data / "lineage").glob(f"{_id(over)}.*")]
        assert [each.name.split(".")[0] for each in (data / "waiting").iterdir()] == [_id(kept)]
        made = browsing.send(browsing.open(kept.path), BUTTON)
        assert made.path == f"/desk/datasets/{_id(kept)}"
        with service.client() as admin:
            assert admin.get("/v1/ledger/verification").json()["ok"] is True
