"""Every number of an answer's JSON is at the desk, on public pages, in the CSV and in data frames.

The answer is walked here by a rule of its own, so that what the shared path forgets is missed.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.client.models import Release
from app.tidy.keys import at
from app.tidy.printed import printed, printed_any
from app.tidy.rows import rows_of
from mechanisms.catalog import STATISTICS
from tests.contract.examples import with_examples
from tests.contract.service import ask, settled, upload
from tests.desk.browsing import Browsing
from tests.e2e.r import has_r, installed, run_r

COLUMNS: dict[str, Any] = {
    "income": {"type": "number", "lower": 0, "upper": 100},
    "count": {"type": "number", "lower": 0, "upper": 50},
    "born": {"type": "date", "lower": "1950-01-01", "upper": "2010-12-31"},
    "term": {
        "type": "category",
        "values": ["north", "south"],
        "labels": {"north": "the north", "south": "the south"},
    },
    "owner": {"type": "boolean"},
}
ROWS = "income,count,born,term,owner\n" + "".join(
    f"{n % 90 + n / 1000},{n % 45},19{60 + n % 30}-03-01,{('north', 'south')[n % 2]},"
    f"{('true', 'false')[n % 3 == 0]}\n"
    for n in range(300)
)
THIRD = {"inference": {"share": "1/3"}}
PAIR = {"columns": ["income", "count"]}
QUANTILE = {"kind": "quantile", "column": "income", "levels": [0.25, 0.5]}
LINE = {"kind": "linear_regression", "target": "count", "features": ["income"]}
LOGIT = {"kind": "logistic_regression", "target": "owner", "features": ["income"]}
PARTS = [
    {"kind": "mean", **PAIR, "by": ["term"]},
    {"kind": "std", **PAIR},
    {"kind": "histogram", "columns": ["term"]},
    {"kind": "quantile", "column": "born", "levels": [0.5]},
    {"kind": "moments", **PAIR},
    {"kind": "std", **PAIR, "where": [{"column": "owner", "op": "==", "value": True}]},
]
BY = {"by": ["term"]}
_OURS = {"food": "count", "region": "term"}


def _with_our_columns(fields: dict[str, Any]) -> dict[str, Any]:
    def ours(part: Any) -> Any:
        if isinstance(part, list):
            return [ours(each) for each in part]
        return _OURS.get(part, part) if isinstance(part, str) else part

    return {name: ours(part) for name, part in fields.items()}


QUESTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "count": ({"kind": "count", "where": [{"column": "income", "op": ">", "value": 5}]}, {}),
    "count by": ({"kind": "count", **BY}, {}),
    "sum by": ({"kind": "sum", **PAIR, **BY}, {}),
    "mean": ({"kind": "mean", "columns": ["income", "count", "born"]}, {}),
    "mean by": ({"kind": "mean", "columns": ["income", "born"], **BY}, {}),
    "variance": ({"kind": "variance", **PAIR}, {}),
    "std by": ({"kind": "std", **PAIR, **BY}, {}),
    "covariance by": ({"kind": "covariance", **PAIR, **BY}, {}),
    "correlation": ({"kind": "correlation", **PAIR}, {}),
    "moments by": ({"kind": "moments", **PAIR, **BY}, {}),
    "histogram by": ({"kind": "histogram", "columns": ["owner"], **BY}, {}),
    "quantile inferred": (QUANTILE, THIRD),
    "quantile by inferred": ({**QUANTILE, **BY}, THIRD),
    "quantile of a date inferred": ({**QUANTILE, "column": "born"}, THIRD),
    "line": (LINE, {}),
    "line inferred": (LINE, {**THIRD, "mechanism": "functional"}),
    "line by inferred": ({**LINE, **BY}, {**THIRD, "mechanism": "functional"}),
    "logit inferred": (LOGIT, THIRD),
    "quantile line": ({**LINE, "kind": "quantile_regression"}, {}),
    "geometric median": ({"kind": "geometric_median", **PAIR}, {}),
    "summary by": (
        {"kind": "summary", "columns": ["income", "owner"], **BY, "differences": True},
        {},
    ),
    "stack": ({"kind": "stack", "parts": [{"statistic": each} for each in PARTS]}, {}),
}
QUESTIONS |= {
    each["kind"]: (json.loads(json.dumps(each), object_hook=_with_our_columns), {})
    for each in with_examples([asked for asked, _ in QUESTIONS.values()])[len(QUESTIONS) :]
}


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    more = {"budget": {"epsilon": "1000"}, "overlap": {"reason": "invented rows"}}
    return str(upload(admin, ROWS, columns=COLUMNS, **more)["id"])


@pytest.fixture(scope="module")
def answer_to(admin: httpx.Client, dataset: str) -> Callable[[str], httpx.Response]:
    """Return what asks each question once."""

    @cache
    def asked(question: str) -> httpx.Response:
        statistic, more = QUESTIONS[question]
        return settled(admin, ask(admin, dataset, statistic, epsilon="4", **more))

    return asked


_LABELS = frozenset(
    {
        "time",
        "threshold",
        "by",
        "from",
        "cell",
        "level",
        "column",
        "columns",
        "measure",
        "interval_of",
    }
)


def leaves(part: Any) -> Iterator[Any]:
    """Yield the numbers and times of a part of an answer, and no label."""
    if isinstance(part, Mapping):
        for name, inner in part.items():
            if name not in _LABELS:
                yield from leaves(inner)
    elif isinstance(part, list):
        for each in part:
            yield from leaves(each)
    elif part is not None:
        yield part


def numbers_of(answer: Mapping[str, Any]) -> list[Any]:
    """Return what was paid for: values, noise intervals, confidence intervals and estimates."""
    inference = answer.get("inference") or {"terms": [], "fit": []}
    inferred = [
        (each["estimate"], each["std_error"], *each["confidence_95"], *(each["noise_95"] or ()))
        for each in inference["fit"]
    ]
    inferred += [(each["std_error"], *each["confidence_95"]) for each in inference["terms"]]
    noise = (answer["noise"] or {}).get("interval_95")
    found = [*leaves(answer["value"]), *leaves(noise), *(end for each in inferred for end in each)]
    return [each for each in found if each is not None]


def missing(numbers: list[Any], cells: set[str], *, close: float) -> list[Any]:
    """Return the numbers that no cell holds, to within a share of each."""
    reported = [float(cell) for cell in cells if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", cell)]

    def is_there(number: Any) -> bool:
        if isinstance(number, str):
            return number in cells
        return any(math.isclose(number, each, rel_tol=close) for each in reported)

    return [each for each in numbers if not is_there(each)]


def is_each_of_one_number(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether rows differ in what they say of their number, all measures apart."""
    keys = {tuple((name, row[name]) for name in row if name not in _MEASURED) for row in rows}
    return len(keys) == len(rows)


def cells_of_page(browsing: Browsing, path: str) -> set[str]:
    tables = browsing.open(path).tree.xpath("//table[.//th[normalize-space()='Number']]")
    assert len(tables) == 1
    texts = [cell.text_content().replace(",", "") for cell in tables[0].xpath(".//td")]
    return {each.strip().removeprefix("≤ ") for text in texts for each in text.split(" to ")}


def printed_cells(browsing: Browsing, path: str) -> list[list[str]]:
    (table,) = browsing.open(path).tree.xpath("//table[contains(@class, 'printed')]")
    return [[cell.text_content() for cell in row] for row in table.xpath("./tbody/tr")]


FEW = ("mean by", "moments by", "quantile by inferred", "line by inferred", "stack")
"""Those that have the most of what may be forgotten; the others in wide runs."""


@pytest.mark.parametrize(
    "question",
    [pytest.param(each, marks=[] if each in FEW else pytest.mark.wide) for each in QUESTIONS],
)
def test_every_number_is_in_every_form(
    admin: httpx.Client,
    chief: Browsing,
    answer_to: Callable[[str], httpx.Response],
    question: str,
) -> None:
    answer = answer_to(question).json()
    name, numbers = answer["id"], numbers_of(answer)
    if QUESTIONS[question][1]:
        assert answer["inference"]["terms"]
    seen = {"If-Match": "*"}
    path = f"/v1/releases/{name}/publication"
    assert admin.post(path, json={"reason": "for all"}, headers=seen).status_code == 201
    release = Release.model_validate(answer)
    frame = {str(cell) for row in release.rows() for cell in row.values()}
    assert is_each_of_one_number(release.rows())
    assert missing(numbers, frame, close=0) == []
    text = admin.get(f"/public/releases/{name}.csv").text
    lines = [*csv.DictReader(io.StringIO(text, newline=""))]
    assert len(lines) == len(release.rows())
    assert missing(numbers, {cell for line in lines for cell in line.values()}, close=0) == []
    assert is_each_of_one_number(lines)
    table = printed_any(answer)
    assert table is not None
    if printed(answer) is None:
        cells = {part for row in table.rows for cell in row for part in cell.split(" to ")}
        bare = {each.removeprefix("≤ ").replace(",", "") for each in cells}
        assert missing(numbers, bare, close=0.0051) == []
    for ending, said in (("md", table.markdown()), ("tex", table.latex())):
        assert chief.open(f"/desk/releases/{name}/table.{ending}").answer.text == said
    for page in (f"/desk/releases/{name}", f"/public/releases/{name}"):
        if (table := printed(answer)) is not None:  # has each number in the cell of its group
            assert printed_cells(chief, page) == [[*row] for row in table.rows]
            continue
        assert missing(numbers, cells_of_page(chief, page), close=0.0051) == []
        names = [row.text_content() for row in chief.open(page).tree.xpath(_ROWS)]
        assert len(set(names)) == len(names) == len(lines), "two rows of a page have one name"
    if "term" in str(answer["value"]):
        assert answer["labels"] == {"term": {"north": "the north", "south": "the south"}}
        assert {"the north", "the south"} <= frame
        assert {"the north", "the south"} <= {cell for line in lines for cell in line.values()}


def test_what_is_at_the_edge_of_what_is_possible_is_no_number_in_any_form(
    admin: httpx.Client, chief: Browsing, dataset: str
) -> None:
    kinds = ("mean", "variance", "std", "covariance", "correlation")
    parts = [{"statistic": {"kind": kind, **PAIR, **BY}} for kind in kinds]
    asked = {"kind": "stack", "parts": parts}
    answer = settled(admin, ask(admin, dataset, asked, epsilon="0.05")).json()
    name, edges = answer["id"], {tuple(each["place"]) for each in answer["at_edge"]}
    unsaid = {row.key.place for row in rows_of(answer) if row.note}
    assert unsaid, "nothing was tested"
    assert unsaid == {place for place in edges if not is_mirrored(place)}
    assert all(isinstance(at(answer["value"], place), float) for place in edges), "as it was drawn"
    release = Release.model_validate(answer)
    assert sum(row["value"] is None for row in release.rows()) == len(unsaid)
    assert release.to_text().count("cannot be said") == len(unsaid)
    path = f"/v1/releases/{name}/publication"
    published = admin.post(path, json={"reason": "for all"}, headers={"If-Match": "*"})
    assert published.status_code == 201
    text = admin.get(f"/public/releases/{name}.csv").text
    lines = [*csv.DictReader(io.StringIO(text, newline=""))]
    blank = [line for line in lines if line["estimate"] == ""]
    assert len(blank) == len(unsaid)
    assert all("Cannot be said" in line["note"] and line["noise_high"] for line in blank)
    for page in (f"/desk/releases/{name}", f"/public/releases/{name}"):
        cells = chief.open(page).tree.xpath(f"{_ROWS}/following-sibling::td[1]")
        assert [cell.text_content() for cell in cells].count("cannot be said") == len(unsaid)


def is_mirrored(place: tuple[Any, ...]) -> bool:
    """Return whether a number is below the diagonal of a symmetric matrix."""
    return "matrix" in place and place[-1] < place[-2]


# An answer as the R client has it once it has arrived, without a service.
R_FRAMES = """
library(releasedesk)
text <- function(cells) if (is.numeric(cells)) sprintf("%.17g", cells) else as.character(cells)
for (path in list.files(pattern = "[.]answer$")) {
  body <- readBin(path, "raw", file.size(path))
  kinds <- c("desk_release", "desk_numbers")
  frame <- as.data.frame(releasedesk:::answer_of(releasedesk:::from_json(body), kinds, NULL, body))
  frame[] <- lapply(frame, text)
  writeLines(jsonlite::toJSON(frame), sub("answer$", "frame", path), useBytes = TRUE)
}
"""


@pytest.mark.slow
def test_every_number_is_in_the_data_frame_of_r(
    answer_to: Callable[[str], httpx.Response], tmp_path: Path
) -> None:
    if not has_r("httr2", "jsonlite"):
        pytest.skip("R IS MISSING (or httr2, jsonlite): ITS DATA FRAMES WERE NOT READ")
    for question in QUESTIONS:
        (tmp_path / f"{question}.answer").write_bytes(answer_to(question).content)
    (tmp_path / "frames.R").write_text(R_FRAMES, "utf-8")
    run_r(tmp_path / "frames.R", installed(), {}, tmp_path)
    for question in QUESTIONS:
        answer = answer_to(question).json()
        rows = json.loads((tmp_path / f"{question}.frame").read_text("utf-8"))
        cells = {cell for row in rows for cell in row.values()}
        assert missing(numbers_of(answer), cells, close=0) == [], question
        assert len(rows) == len(Release.model_validate(answer).rows()), question
        assert is_each_of_one_number(rows), question
        if "term" in str(answer["value"]):
            assert {"the north", "the south"} <= cells, question


def test_every_kind_of_the_catalog_is_asked() -> None:
    asked = {statistic["kind"] for statistic, _ in QUESTIONS.values()}
    assert asked == {*STATISTICS}


_ROWS = "//table[.//th[normalize-space()='Number']]/tbody/tr/th"


_MEASURED = frozenset(
    {
        "estimate", "value", "noise", "noise_std", "noise_low", "noise_high", "std_error",
        "confidence_low", "confidence_high", "epsilon", "note",
        "noise.low", "noise.high", "std.error", "conf.low", "conf.high",
    }
)  # fmt: skip
"""What tables of any form say of a number: all other columns say which it is."""
