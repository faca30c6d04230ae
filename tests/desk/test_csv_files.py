"""Every address that answers a CSV file: a spreadsheet runs nothing of what curators named."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx

from app.tidy.pivots import FORMULA_STARTS
from tests.contract.service import ask, settled, upload
from tests.desk.browsing import Browsing

FORMULA = '=HYPERLINK("http://127.0.0.1/?"&A1,"click")'
VALUES = ["@SUM(A1)", "+north", "-south"]
COLUMNS: dict[str, Any] = {
    "income": {"type": "number", "lower": -100, "upper": 100},
    "-region": {"type": "category", "values": VALUES},
    "=region": {
        "type": "category",
        "values": ["1", "2"],
        "labels": {"1": FORMULA, "2": "@two"},
    },
    "=owner": {"type": "boolean", "true": ["=yes"], "false": ["-no"]},
}
ROWS = "income,-region,=region,=owner\n" + "".join(
    f"{n},{VALUES[n % 3]},{1 + n % 2},{('=yes', '-no')[n % 2]}\n" for n in range(-30, 30)
)
INVENTED = {"reason": "invented rows"}
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"kind": "mean", "columns": [FORMULA, "income"]},
    {"kind": "mean", "columns": ["income"], "by": ["-region"]},
    {"kind": "histogram", "columns": ["-region"]},
    {"kind": "linear_regression", "target": "income", "features": [FORMULA]},
    {
        "kind": "stack",
        "parts": [
            {
                "statistic": {
                    "kind": "mean",
                    "columns": ["income"],
                    "where": [{"column": "=owner", "op": "==", "value": True}],
                }
            },
            {"statistic": {"kind": "count", "by": ["=region"]}},
        ],
    },
)


def test_no_csv_file_runs_in_a_spreadsheet(admin: httpx.Client, chief: Browsing) -> None:
    derived = {FORMULA: "2 * income"}
    dataset = upload(admin, ROWS, columns=COLUMNS, derive=derived, overlap=INVENTED)["id"]
    addresses = [f"/v1/datasets/{dataset}/dry-runs/rows"]
    for question in QUESTIONS:
        release = settled(admin, ask(admin, dataset, question, epsilon="0.5")).json()["id"]
        path, seen = f"/v1/releases/{release}/publication", {"If-Match": "*"}
        assert admin.post(path, json={"reason": "for all"}, headers=seen).status_code == 201
        addresses += [f"/desk/releases/{release}/release.csv", f"/public/releases/{release}.csv"]
    tables = {"kind": "tables", "columns": ["-region", "=region", "=owner"]}
    release = settled(admin, ask(admin, dataset, tables, epsilon="5")).json()["id"]
    addresses += [
        f"/v1/releases/{release}/cells?format=csv", f"/desk/releases/{release}/synthetic/file"
    ]  # fmt: skip
    made = admin.post(f"/v1/releases/{release}/synthetic", json={"rows": 10_000, "seed": 0})
    assert made.content == chief.client.get(addresses[-1]).content
    texts = []
    for address in addresses:
        answer = (chief.client if address.startswith("/desk") else admin).get(address)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/csv")
        texts.append(answer.text)
        for row in csv.reader(io.StringIO(answer.text, newline="")):
            for cell in row:
                assert cell[:1] not in FORMULA_STARTS or float(cell), (address, cell)
    assert any(
        FORMULA in cell
        for text in texts
        for row in csv.reader([*text.splitlines()])
        for cell in row
    )
    assert any(f"'{value}" in text for text in texts for value in VALUES)


def test_no_other_address_answers_csv(admin: httpx.Client) -> None:
    paths = admin.get("/openapi.json").json()["paths"]
    reported = {path for path, verbs in paths.items() if "text/csv" in str(verbs)}
    assert reported == {
        "/v1/datasets/{dataset}/dry-runs/rows",
        "/v1/releases/{release}/cells",
        "/v1/releases/{release}/synthetic",
    }
