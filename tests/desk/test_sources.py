"""A new data set at the desk whose rows lie where the service can read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.domain.upload_reports import UploadProgress
from app.services.datasets.storing import note_name
from tests.contract.service import Service, make_key, running
from tests.desk.browsing import Browsing, Page, created, person, signed_in

NEW = "/desk/datasets/new"
LABEL = "Address of the data"
FILLED = {
    "columns.0.lower": "0", "columns.0.upper": "120", "columns.1.values": "2023\n2024",
    "epsilon": "3",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that the operator allows."""
    found = tmp_path_factory.mktemp("lying")
    for year in (2023, 2024):
        (found / f"year={year}").mkdir()
        rows = "".join(f"{20 + at * 7 % 60}.{year % 5}{at}\n" for at in range(30))
        (found / f"year={year}" / "rows.csv").write_text("age\n" + rows)
    return found


@pytest.fixture(scope="module")
def sourced(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("served") / "data"
    with running(data, source_roots=f"file://{folder}", max_source_files=2) as found:
        yield found


@pytest.fixture(scope="module")
def program(sourced: Service) -> Iterator[httpx.Client]:
    with sourced.client() as client:
        yield client


@pytest.fixture(scope="module")
def keeper(sourced: Service, program: httpx.Client) -> Iterator[Browsing]:
    with person(sourced, program, "curator") as browsing:
        yield browsing


def _fault(page: Page) -> str:
    (found,) = page.tree.xpath("//p[@id='source-fault']")
    return str(found.text)


def test_where_the_operator_allows_none_there_is_no_such_field(curator: Browsing) -> None:
    page = curator.open(NEW)
    assert LABEL not in page.labels()
    fields = dict(page.form("Upload").form_values()) | {"source": "file:///srv/x.csv"}
    sent = curator.client.post(f"{NEW}/check", data=fields, files={"file": ("", b"")})
    assert sent.status_code == 422
    assert "is off on this service" in Page(sent).alerts()[0]


def test_rows_are_taken_in_where_they_lie(
    keeper: Browsing, program: httpx.Client, folder: Path
) -> None:
    url = f"file://{folder}/*/rows.csv"
    name = f"people {uuid4()}"
    page = keeper.send(keeper.open(NEW), "Draft", source=url)
    assert LABEL in page.labels()
    assert {"age lower", "year values"} <= set(page.labels())
    assert page.form("Upload").fields["source"] == url
    filled = {**FILLED, "name": name}
    checked = keeper.send(page, "Check", **filled)
    assert "Nothing is wrong" in checked.text
    shown = created(keeper, checked)
    assert shown.heading == name
    assert "How the file was read" in shown.text
    facts = program.get(f"/v1/{shown.path.removeprefix('/desk/')}").json()
    assert facts["rows"] == 60
    assert facts["columns"]["year"]["values"] == ["2023", "2024"]


def test_only_one_s_own_readings_are_told(
    sourced: Service, program: httpx.Client, keeper: Browsing
) -> None:
    made = make_key(program, "curator")
    progress = UploadProgress(reading="mine", rows=7, read_bytes=10, total_bytes=None)
    directory = sourced.data_dir / "staging" / "ds_none-1"
    with signed_in(sourced, made["secret"]) as own:
        reported: list[dict[str, Any]] = []
        while not reported:  # the service clears away at times what belongs to no upload
            directory.mkdir(exist_ok=True)
            (directory / note_name(made["person"])).write_bytes(progress.to_json())
            reported = own.client.get("/desk/readings").json()
        assert reported == [asdict(progress)]
        assert keeper.client.get("/desk/readings").json() == []


def test_what_is_wrong_with_an_address_is_told_at_its_field(
    keeper: Browsing, folder: Path, tmp_path: Path
) -> None:
    page = keeper.send(keeper.open(NEW), "Draft", source=f"file://{folder}/year=2023/rows.csv")
    elsewhere = {**FILLED, "name": "", "source": f"file://{tmp_path}/rows.csv"}
    checked = keeper.send(page, "Check", status=422, **elsewhere)
    assert "root" in _fault(checked) or "allow" in _fault(checked)
    assert checked.tree.xpath("//p[@id='name-fault']"), "all mistakes at once"
    both = keeper.send(page, "Upload", file=("a.csv", b"age\n20\n"), status=422, name="both")
    assert "leave it empty" in _fault(both)
    for button in ("Draft", "Upload"):
        gone = {**FILLED, "name": f"x {uuid4()}", "source": f"file://{folder}/none.csv"}
        assert "no such file" in _fault(keeper.send(page, button, status=422, **gone))
    (folder / "year=2025").mkdir(exist_ok=True)
    (folder / "year=2025" / "rows.csv").write_text("age\n1\n")
    many = {**FILLED, "name": f"x {uuid4()}", "source": f"file://{folder}/*/rows.csv"}
    assert "max_source_files" in _fault(keeper.send(page, "Upload", status=413, **many))
    (folder / "year=2025" / "rows.csv").unlink()
