"""Uploads: what is taken in, and what is refused without a cell being repeated."""

from __future__ import annotations

import gzip
import io
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openpyxl
import polars as pl
import pytest
from click.testing import CliRunner

from app.cli import main
from tests.contract.service import (
    COLUMNS,
    ROWS,
    Service,
    assert_problem,
    make_key,
    running,
    send_upload,
    spec,
    upload,
)
from tests.tiers import in_one, wide

CELL = "sentinel7719283746"
HEADER = "income,food,region,owner\n"


def test_the_answer_holds_the_public_facts(curator: httpx.Client) -> None:
    body = spec(name="engel " + CELL, description="Households.\nBelgium", max_rows=None)
    answer = send_upload(curator, ROWS, body)
    assert answer.status_code == 201
    found = answer.json()
    assert answer.headers["location"] == f"/v1/datasets/{found['id']}"
    assert (found["rows"], found["max_rows"], found["status"]) == (40, None, "active")
    assert found["columns"]["income"] == {
        "type": "number", "lower": 0, "upper": 100, "missing": "reject",
    }  # fmt: skip
    assert found["budget"]["epsilon"] == {
        "total": "10", "spent": "0", "reserved": "0", "remaining": "10",
    }  # fmt: skip
    assert found["policy"] == {
        "review": "never",
        "max_epsilon_per_release": None,
        "allowed": None,
        "reviewers": 1,
    }
    report = found.pop("report")
    assert (report["rows"], report["rows_dropped"], report["warnings"]) == (40, 0, [])
    assert curator.get(f"/v1/datasets/{found['id']}").json() == found


def test_only_the_answer_to_the_upload_says_how_the_file_was_read(curator: httpx.Client) -> None:
    fill = {"missing": 7, "na": ["NA", "-99"], "unreadable": "missing"}
    body = spec(columns=_columns(upper=1, **fill), name="answered once")
    found = send_upload(curator, "income\n" + "-99\n0.5\n13\nfour\n14\n15\n" * 7, body).json()
    assert found["report"]["columns"]["income"] == {
        "values": 28, "filled": 14, "unreadable": 7, "clamped_low": 0, "clamped_high": 21,
        "other": 0, "missing": 0, "like_thousands": 0, "future": 0,
    }  # fmt: skip
    ((warning),) = found["report"]["warnings"]
    assert warning["column"] == "income"
    assert warning["message"].startswith("21 of 28 values lie outside the bounds")
    assert found["columns"]["income"]["na"] == ["NA", "-99"]
    # sent again, it is refused like any other upload of a name that is taken
    again = send_upload(curator, "income\n1\n", body)
    assert "report" not in assert_problem(again, 409, "name-taken")
    for place in (f"/v1/datasets/{found['id']}", "/v1/datasets"):
        assert "clamped" not in curator.get(place).text
    assert "clamped" not in curator.get(f"/v1/datasets/{found['id']}/ledger").text


def test_markers_of_the_set_are_those_of_every_column_without_its_own(
    curator: httpx.Client,
) -> None:
    columns = _columns(missing=0) | {
        "food": {"type": "number", "lower": 0, "upper": 50, "missing": 0, "na": []}
    }
    rows = "income,food\n" + "NA,1\n2,3\n" * 10
    found = send_upload(curator, rows, spec(columns=columns, na=["NA"])).json()
    assert found["report"]["columns"]["income"]["filled"] == 10
    assert "na" not in found["columns"]["food"]
    refused = send_upload(curator, "income,food\n1,NA\n", spec(columns=columns, na=["NA"]))
    problems = assert_problem(refused, 422, "invalid-upload")["problems"]
    place = {"column": "food", "count": 1, "rows": [1]}
    assert problems == [{"reason": "not a number", "count": 1, "rows": [1], "columns": [place]}]


def test_all_mistakes_of_a_spec_are_told_at_once(curator: httpx.Client) -> None:
    columns = {
        "income": {"type": "number", "lower": 9, "upper": 1, "missing": "drop"},
        "region": {"type": "category", "values": ["a", "a"], "colour": "red"},
        "owner": {"type": "boolean", "missing": 3},
        "food": {"type": "number", "lower": 5, "upper": 1},
    }
    body = spec(columns=columns, adjacency="add_remove", nme="x")
    del body["budget"]
    problem = assert_problem(send_upload(curator, ROWS, body), 422, "invalid-request")
    places = [error["field"] for error in problem["errors"]]
    assert sorted(places) == [
        "spec", "spec.budget", "spec.columns[0].lower", "spec.columns[1]",
        "spec.columns[2].missing", "spec.columns[3].lower", "spec.max_rows",
    ]  # fmt: skip
    del columns["region"], columns["owner"]
    problem = assert_problem(send_upload(curator, ROWS, spec(columns=columns)), 422)
    places = [error["field"] for error in problem["errors"]]
    assert places == ["spec.columns[0].lower", "spec.columns[1].lower"]


def test_rows_are_private_under_add_remove(curator: httpx.Client) -> None:
    found = upload(curator, adjacency="add_remove", max_rows=1000)
    assert (found["rows"], found["max_rows"]) == (None, 1000)


def _parquet() -> bytes:
    frame = pl.read_csv(io.StringIO(ROWS))
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("rows", [ROWS.encode(), gzip.compress(ROWS.encode(), mtime=0), _parquet()])
def test_three_formats_are_read(curator: httpx.Client, rows: bytes) -> None:
    assert upload(curator, rows)["rows"] == 40


def test_parts_may_come_in_any_order(curator: httpx.Client) -> None:
    files = {"spec": (None, json.dumps(spec())), "file": ("rows.csv", ROWS)}
    assert curator.post("/v1/datasets", files=files).status_code == 201


BAD_FILES: dict[str, bytes] = {
    "empty": b"",
    "ragged": (HEADER + f"1,1,north,true,{CELL}\n").encode(),
    "short row": (HEADER + "1,1\n").encode(),
    "binary": bytes(range(256)) * 40,
    "wrong encoding": (HEADER + "1,1,n\xf6rth,true\n").encode("latin-1"),
    "utf-16": (HEADER + "1,1,north,true\n").encode("utf-16"),
    "NUL": (HEADER + f"1,1,nor\x00{CELL},true\n").encode(),
    "huge cell": (HEADER + f"1,1,{'x' * 3_000_000},true\n").encode(),
    "text in a number": (HEADER + f"{CELL},1,north,true\n").encode(),
    "nan": (HEADER + "nan,1,north,true\n").encode(),
    "missing": (HEADER + ",1,north,true\n").encode(),
    "unknown category": (HEADER + f"1,1,{CELL},true\n").encode(),
    "unknown boolean": (HEADER + f"1,1,north,{CELL}\n").encode(),
    "missing column": f"income,food,region\n1,1,{CELL}\n".encode(),
    "column twice": f"income,income,food,region,owner\n1,{CELL},1,north,true\n".encode(),
    "truncated gzip": gzip.compress(ROWS.encode(), mtime=0)[:-9],
    "lying parquet": b"PAR1" + b"\x00" * 500 + b"PAR1",
    "truncated parquet": _parquet()[:-40],
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused(curator: httpx.Client, name: str) -> None:
    body = spec()
    answer = send_upload(curator, BAD_FILES[name], body)
    problem = assert_problem(answer, 422, "invalid-upload")
    assert CELL not in answer.text
    assert problem["problems"]
    assert {"reason", "count", "rows", "columns"} == set(problem["problems"][0])
    # nothing is left behind: the name is free and a sound file is taken
    assert send_upload(curator, ROWS, body).status_code == 201


def test_troubles_name_rows_and_columns(curator: httpx.Client) -> None:
    answer = send_upload(curator, HEADER + f"1,1,north,true\n2,{CELL},north,true\n", spec())
    problems = assert_problem(answer, 422, "invalid-upload")["problems"]
    (kind,) = problems
    assert (kind["rows"], kind["columns"][0]["column"]) == ([2], "food")


@pytest.mark.parametrize("rows", [0, 1])
def test_no_row_and_one_row_are_data_sets(curator: httpx.Client, rows: int) -> None:
    assert upload(curator, HEADER + "1,1,north,true\n" * rows)["rows"] == rows


def _columns(**changes: Any) -> dict[str, Any]:
    return {"income": {"type": "number", "lower": 0, "upper": 100, **changes}}


BAD_SPECS: dict[str, Any] = {
    "not JSON": "{",
    "array": "[]",
    "unknown field": spec(**{CELL: 1}),
    "no name": {key: value for key, value in spec().items() if key != "name"},
    "empty name": spec(name=""),
    "long name": spec(name="x" * 101),
    "control character": spec(name="a\x07b"),
    "no adjacency": {key: value for key, value in spec().items() if key != "adjacency"},
    "unknown adjacency": spec(adjacency=CELL),
    "no max_rows": spec(adjacency="add_remove"),
    "zero max_rows": spec(adjacency="add_remove", max_rows=0),
    "no columns": spec(columns={}),
    "unknown type": spec(columns={"income": {"type": CELL}}),
    "unknown column field": spec(columns=_columns(unit=CELL)),
    "swapped bounds": spec(columns=_columns(lower=100, upper=0)),
    "equal bounds": spec(columns=_columns(lower=1, upper=1)),
    "close bounds": spec(columns=_columns(lower=0, upper=5e-324)),
    "infinite bound": json.dumps(spec()).replace('"upper": 100', '"upper": 1e999'),
    "NaN bound": json.dumps(spec()).replace('"upper": 100', '"upper": NaN'),
    "huge bound": spec(columns=_columns(upper=1e300)),
    "text bound": spec(columns=_columns(upper=CELL)),
    "no bound": spec(columns={"income": {"type": "number", "lower": 0}}),
    "duplicate column": json.dumps(spec()).replace('"food"', '"income"'),
    "no values": spec(columns={"region": {"type": "category", "values": []}}),
    "values twice": spec(columns={"region": {"type": "category", "values": [CELL, CELL]}}),
    "number values": spec(columns={"region": {"type": "category", "values": [1]}}),
    "unknown fill": spec(
        columns={"region": {"type": "category", "values": ["a"], "missing": CELL}}
    ),
    "drop under replace_one": spec(columns=_columns(missing="drop")),
    "no budget": {key: value for key, value in spec().items() if key != "budget"},
    "zero budget": spec(budget={"epsilon": "0"}),
    "negative budget": spec(budget={"epsilon": -1}),
    "huge budget": spec(budget={"epsilon": "1e10"}),
    "text budget": spec(budget={"epsilon": CELL}),
    "NaN budget": json.dumps(spec()).replace('"10"', "NaN"),
    "unknown account": spec(account="acc_" + "0" * 32),
    "the system's account": spec(account="0"),
    "unknown review": spec(policy={"review": CELL}),
    "review of nothing": spec(policy={"review": "above:0"}),
    "review above a text": spec(policy={"review": f"above:{CELL}"}),
    "review by number": spec(policy={"review": 0.5}),
    "unknown kind": spec(policy={"allowed": [CELL]}),
    "bad cap": spec(policy={"max_epsilon_per_release": "0"}),
}


@in_one("name", BAD_SPECS)
def test_bad_specs_are_refused(curator: httpx.Client, name: str) -> None:
    answer = send_upload(curator, ROWS, BAD_SPECS[name])
    problem = assert_problem(answer, 422, "invalid-request")
    assert CELL not in answer.text
    assert problem["errors"][0]["field"]


def test_a_bad_review_policy_is_refused_in_clear_words(curator: httpx.Client) -> None:
    answer = send_upload(curator, ROWS, spec(policy={"review": "sometimes"}))
    assert "must be never, always or above:" in assert_problem(answer, 422)["detail"]


def test_a_taken_name_is_refused(curator: httpx.Client) -> None:
    name = upload(curator)["name"]
    assert_problem(send_upload(curator, ROWS, spec(name=name)), 409, "name-taken")


def test_an_account_is_shared(curator: httpx.Client) -> None:
    first = upload(curator, budget={"epsilon": "3"})
    second = upload(curator, budget=None, account=first["account"])
    assert second["account"] == first["account"]
    assert second["budget"]["epsilon"]["total"] == "3"


def test_only_an_admin_overrides_overlap(admin: httpx.Client, curator: httpx.Client) -> None:
    override = {"reason": "another wave of the survey"}
    assert_problem(send_upload(curator, ROWS, spec(overlap=override)), 403, "forbidden")
    assert send_upload(admin, ROWS, spec(overlap=override)).status_code == 201


MALFORMED = [
    ("multipart/form-data; boundary=b", b"", 400),
    ("multipart/form-data; boundary=b", b"--x\r\n", 400),
    ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="spec"', 400),
    ("multipart/form-data", b"--b--\r\n", 400),
    ("multipart/form-data; boundary=b", b"--b--\r\n", 422),
    ("text/json", b"{}", 415),
    ("", b"", 415),
]


@pytest.mark.parametrize(("kind", "body", "status"), MALFORMED)
def test_malformed_multipart_is_refused(
    curator: httpx.Client, kind: str, body: bytes, status: int
) -> None:
    answer = curator.post("/v1/datasets", content=body, headers={"Content-Type": kind})
    assert answer.status_code in (status, 400), answer.text
    assert_problem(answer, answer.status_code)


@pytest.mark.parametrize(
    "files",
    [
        {"file": ("rows.csv", ROWS)},
        {"spec": (None, "{}")},
        {"file": ("rows.csv", ROWS), "spec": (None, "{}"), CELL: (None, "1")},
    ],
)
def test_missing_and_unknown_parts_are_refused(curator: httpx.Client, files: Any) -> None:
    answer = curator.post("/v1/datasets", files=files)
    assert_problem(answer, 422, "invalid-request")
    assert CELL not in answer.text


def test_limits_are_kept(tmp_path: Any) -> None:
    with (
        running(
            tmp_path / "data", max_upload_bytes=2000, max_upload_rows=30, max_columns=3
        ) as small,
        small.client() as admin,
    ):
        three = {name: COLUMNS[name] for name in ("income", "food", "region")}
        large = assert_problem(send_upload(admin, "x" * 3000, spec(columns=three)), 413)
        assert large["limit"] == "max_upload_bytes"
        assert_problem(send_upload(admin, ROWS, spec(columns=three)), 413, "too-large")
        assert_problem(send_upload(admin, ROWS, spec()), 422, "invalid-request")
        within = "".join(ROWS.splitlines(keepends=True)[:31])
        assert send_upload(admin, within, spec(columns=three)).status_code == 201
    assert [
        path.name for path in (tmp_path / "data").iterdir() if path.name.startswith("tmp")
    ] == []


def test_archiving_erases_rows_and_keeps_the_rest(
    service: Service, admin: httpx.Client, curator: httpx.Client
) -> None:
    from tests.contract.service import ask

    found = upload(curator)
    dataset = found["id"]
    released = ask(curator, dataset, key="before")
    rows = service.data_dir / "datasets" / dataset
    assert rows.is_dir()
    archived = curator.post(f"/v1/datasets/{dataset}/archive")
    assert (archived.status_code, archived.json()["status"]) == (200, "archived")
    assert not rows.exists()
    assert_problem(ask(curator, dataset), 409, "dataset-archived")
    body = {"statistic": {"kind": "mean", "columns": ["income"]}, "epsilon": "0.1"}
    preview = curator.post(f"/v1/datasets/{dataset}/previews", json=body)
    assert_problem(preview, 409, "dataset-archived")
    assert ask(curator, dataset, key="before").content == released.content
    assert curator.get(f"/v1/releases/{released.json()['id']}").content == released.content
    assert len(curator.get(f"/v1/datasets/{dataset}/ledger").json()["items"]) == 2
    assert curator.post(f"/v1/datasets/{dataset}/archive").status_code == 200
    with service.client(make_key(admin, "analyst")["secret"]) as analyst:
        assert analyst.get(f"/v1/datasets/{dataset}").json()["status"] == "archived"


@pytest.mark.slow
def test_a_client_that_leaves_while_the_file_is_read_leaves_nothing(
    service: Service, curator: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    known = len(curator.get("/v1/datasets").json()["items"])
    number = {"x": {"type": "number", "lower": 0, "upper": 2}}
    sent = httpx.Request(
        "POST",
        f"{service.url}/v1/datasets",
        headers=curator.headers,
        files={
            "file": ("f", b"x\n" + b"1\n" * 6_000_000),
            "spec": (None, json.dumps(spec(columns=number))),
        },
    )
    body = sent.read()
    lines = [f"{name}: {value}" for name, value in sent.headers.items()]
    head = "\r\n".join(("POST /v1/datasets HTTP/1.1", *lines, "", ""))
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: list(service.data_dir.glob("staging/*/part-*")))
    until(lambda: not list(service.data_dir.glob("staging/*")))
    assert len(curator.get("/v1/datasets").json()["items"]) == known
    assert not [each for each in caplog.records if each.getMessage() == "request failed"]


def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_client_that_leaves_half_way_leaves_nothing(
    service: Service, curator: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    names = {path.name for path in service.data_dir.iterdir()}
    head = (
        "POST /v1/datasets HTTP/1.1\r\nHost: h\r\n"
        f"Authorization: {curator.headers['authorization']}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n1,2,3\r\n'
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode())
        time.sleep(0.2)
    time.sleep(0.2)
    assert curator.get("/readyz").status_code == 200
    assert {path.name for path in service.data_dir.iterdir()} == names
    assert not [each for each in caplog.records if each.getMessage() == "request failed"]


def _workbook() -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for line in (
        ("Bericht",),
        ("Löhne",),
        ("Löhne",),
        ("Größe", "Ort"),
        (7.5, "Köln"),
        (200, "Köln"),
    ):
        book.active.append(line)
    book.save(file)
    return file.getvalue()


WAGES = 'Bericht über Löhne\n"Stand:\nheute"\nGröße;Ort\n7,5;Köln\n200;Köln\n'
DIALECT: dict[str, Any] = {"delimiter": ";", "decimal": ",", "skip_rows": 3}
WRITTEN: dict[str, tuple[bytes, dict[str, Any]]] = {
    **{
        name: (WAGES.encode(name), {**DIALECT, "encoding": declared})
        for name, declared in (
            ("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("windows-1252", "windows-1252"),
            ("iso-8859-1", "iso-8859-1"), ("utf-16", "utf-16"), ("utf-16-be", "utf-16"),
        )
    },
    "packed": (
        gzip.compress(WAGES.encode("windows-1252")), {**DIALECT, "encoding": "windows-1252"},
    ),
    "a workbook": (_workbook(), {"skip_rows": 3}),
    "another encoding": (WAGES.encode("windows-1252"), {**DIALECT, "encoding": "utf-8"}),
    "no encoding": (WAGES.encode("utf-16"), DIALECT),
    "no title lines": (WAGES.encode(), {**DIALECT, "skip_rows": 0}),
    "all lines": (WAGES.encode(), {**DIALECT, "skip_rows": 6}),
    "more lines than there are": (WAGES.encode(), {**DIALECT, "skip_rows": 100}),
    "another delimiter": (
        WAGES.encode("utf-16"), {**DIALECT, "encoding": "utf-16", "delimiter": ","},
    ),
    "no such encoding": (WAGES.encode(), {**DIALECT, "encoding": "latin-9"}),
    "too many title lines": (WAGES.encode(), {**DIALECT, "skip_rows": 101}),
    "a workbook without title lines": (_workbook(), {}),
}  # fmt: skip
"""Files, and what specs say of how they are written, rightly and wrongly."""


FEW = ("windows-1252", "utf-16", "another encoding", "no title lines")
"""The others in wide runs."""


@pytest.mark.parametrize("written", [*FEW, *wide(*(each for each in WRITTEN if each not in FEW))])
def test_a_file_is_checked_here_and_at_the_service_with_one_report(
    curator: httpx.Client, tmp_path: Path, written: str
) -> None:
    """By ``datasets check``, which sends nothing, and by ``check=true``, however it is written."""
    content, dialect = WRITTEN[written]
    columns = {
        "size": {"type": "number", "lower": 0, "upper": 100, "source": "Größe"},
        "town": {"type": "category", "values": ["Köln"], "source": "Ort"},
    }
    body = {
        "name": f"written {written}", "adjacency": "replace_one", "columns": columns,
        "budget": {"epsilon": "1"}, **dialect,
    }  # fmt: skip
    file, declared = tmp_path / "wages.csv", tmp_path / "spec.json"
    file.write_bytes(content)
    declared.write_text(json.dumps(body), "utf-8")
    files = {"file": ("wages.csv", content), "spec": (None, json.dumps(body))}
    there = curator.post("/v1/datasets", params={"check": "true"}, files=files)
    here = CliRunner().invoke(main, ["datasets", "check", str(file), str(declared), "--json"])
    if there.status_code == 200:
        assert json.loads(here.stdout) == there.json()["report"]
        assert there.json()["report"]["rows"] == 2
        assert there.json()["report"]["columns"]["size"]["clamped_high"] == 1
        return
    assert there.status_code == 422
    assert here.exit_code == 1
    answered = there.json()
    said = [each["reason"] for each in answered.get("problems", ())]
    said += [each["message"].rstrip(".") for each in answered.get("errors", ())]
    assert said
    assert all(each in here.stderr for each in said)
