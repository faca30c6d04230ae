"""Answers as tables: every shape of value as tidy rows, frames, and what a notebook shows."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from matplotlib.figure import Figure

from app.client import (
    ClientError,
    MissingPackageError,
    Preview,
    ProblemError,
    Release,
    ReleaseDesk,
    check_receipt,
)
from app.client.datasets import Facts
from app.client.questions import Progress
from app.client.tables import Row, lines_of
from tests.tiers import in_one


def released(value: Any, *, std: Any = None, interval: Any = None, **members: Any) -> Release:
    noise = None if std is None else {"std": std, "interval_95": interval}
    body = {"id": "rel_1", "dataset": "ds_1", "status": "released", "epsilon": "1"}
    return Release.model_validate({**body, "value": value, "noise": noise, **members})


def without_noise(rows: list[Row]) -> list[Row]:
    for row in rows:
        assert [row.pop(name) for name in ("noise", "noise_low", "noise_high")] == [None] * 3
    return rows


def test_a_mean_has_a_row_for_each_column() -> None:
    release = released(
        {"age": 44.2, "income": 981},
        std={"age": 0.5, "income": 10.0},
        interval={"age": [43.2, 45.2], "income": [961, 1001]},
    )
    assert release.rows() == [
        {"term": "age", "value": 44.2, "noise": 0.5, "noise_low": 43.2, "noise_high": 45.2},
        {"term": "income", "value": 981, "noise": 10.0, "noise_low": 961, "noise_high": 1001},
    ]


def test_groups_come_first_and_one_row_each() -> None:
    def grouped(*each: Any) -> Any:
        labels = ({"sex": "f", "age": "[18,40)"}, {"sex": "m", "age": "[18,40)"})
        groups = zip(labels, each, strict=True)
        return {"groups": [{"by": by, "value": {"income": one}} for by, one in groups]}

    release = released(
        grouped(10.5, 20.5), std=grouped(1.0, 2.0), interval=grouped([9, 12], [17, 24])
    )
    first, second = release.rows()
    assert list(first) == ["sex", "age", "term", "value", "noise", "noise_low", "noise_high"]
    assert list(second.values()) == ["m", "[18,40)", "income", 20.5, 2.0, 17, 24]


@in_one(
    ("value", "expected"),
    [
        ({"count": 7}, [{"term": "count", "value": 7}]),
        (
            {"cells": [{"cell": {"region": "north"}, "count": 3}]},
            [{"region": "north", "term": "count", "value": 3}],
        ),
        (
            {"quantiles": [{"level": "0.5", "value": 4.5}]},
            [{"term": "level 0.5", "value": 4.5}],
        ),
        (
            {"coefficients": {"(intercept)": 1.5, "age:educ": None}},
            [{"term": "(intercept)", "value": 1.5}, {"term": "age:educ", "value": None}],
        ),
        (
            {"matrix": [[1, 0.25], [0.25, 1]]},
            [
                {"term": "x:x", "value": 1},
                {"term": "x:y", "value": 0.25},
                {"term": "y:y", "value": 1},
            ],
        ),
        (
            {"count": 9, "means": {"x": 1, "y": 2}, "second": [[1, 2], [2, 4]]},
            [
                {"statistic": "count", "term": "count", "value": 9},
                {"statistic": "mean", "term": "x", "value": 1},
                {"statistic": "mean", "term": "y", "value": 2},
                {"statistic": "mean of products", "term": "x:x", "value": 1},
                {"statistic": "mean of products", "term": "x:y", "value": 2},
                {"statistic": "mean of products", "term": "y:y", "value": 4},
            ],
        ),
        (
            {"later": {"shapes": [1, "2020-01-01"]}},
            [{"term": "0", "value": 1}, {"term": "1", "value": "2020-01-01"}],
        ),
        (
            {"groups": [{"by": {"value": "f", "part": True}, "value": {"term": 1}}]},
            [{"by value": "f", "by part": True, "term": "term", "value": 1}],
        ),
        (None, []),
    ],
)
def test_every_shape_has_rows(value: Any, expected: list[Row]) -> None:
    release = released(value, statistic={"kind": "any", "columns": ["x", "y"]})
    assert without_noise(release.rows()) == expected


def test_a_stack_s_parts_are_told_apart() -> None:
    parts = [{"matrix": [[1, 2], [2, 4]]}, {"income": 5}]
    matrix = {"kind": "covariance", "columns": ["a", "b"]}
    statistic = {"kind": "stack", "parts": [{"statistic": matrix}, {"statistic": {"kind": "mean"}}]}
    noise = {"parts": [None, {"income": 0.5}]}
    rows = released({"parts": parts}, std=noise, statistic=statistic).rows()
    assert [(row["part"], row["term"], row["value"], row["noise"]) for row in rows] == [
        (1, "a:a", 1, None), (1, "a:b", 2, None), (1, "b:b", 4, None), (2, "income", 5, 0.5),
    ]  # fmt: skip


def test_a_preview_tells_noise_and_expected_error_without_values() -> None:
    body = {"mechanism": "k_norm", "epsilon": "1", "statistic": {"kind": "mean"}}
    preview = Preview.model_validate(
        {
            **body,
            "noise": {"std": {"age": 2.0}, "interval_95": {"age": [-4, 4]}},
            "expected_error": {"age": 1.6},
        }
    )
    assert preview.rows() == [
        {"term": "age", "noise": 2.0, "noise_low": -4, "noise_high": 4, "expected_error": 1.6}
    ]
    assert Preview.model_validate({**body, "noise": None}).rows() == []


def test_lines_leave_out_measures_that_no_row_has() -> None:
    rows: list[Row] = [
        {"sex": None, "term": "age", "noise": None, "noise_low": None, "expected_error": 0.5},
        {"sex": None, "term": "pay", "noise": None, "noise_low": None, "expected_error": 2},
    ]
    assert [line.split() for line in lines_of(rows)] == [
        ["sex", "term", "expected_error"],
        ["age", "0.5"],
        ["pay", "2"],
    ]
    known = [*rows, {"sex": "f", "term": "tall", "noise": 0.0, "noise_low": None}]
    assert next(lines_of(known)).split() == ["sex", "term", "noise", "expected_error"]


def test_inference_stands_beside_its_coefficient() -> None:
    place = ["coefficients", "age"]
    terms = [{"term": "age", "place": place, "std_error": 0.5, "confidence_95": [1, 3]}]
    release = released({"coefficients": {"age": 2, "educ": 1}}, inference={"terms": terms})
    age, educ = release.rows()
    assert (age["std_error"], age["confidence_low"], age["confidence_high"]) == (0.5, 1, 3)
    assert educ["std_error"] is None


def test_members_that_are_not_known_are_kept() -> None:
    later = {"said": "by a newer service"}
    release = released({"age": 1}, later=later)
    assert release.later == later
    assert release.model_extra["later"] == later
    assert release.model_dump()["later"] == later
    with pytest.raises(AttributeError, match="latter"):
        _ = release.latter


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"id": "rel_1"}'])
def test_what_is_no_answer_of_a_desk_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(ClientError, match="Release Desk"):
        Release.model_validate_json(body)


def test_a_frame_has_the_labels_first() -> None:
    pandas = pytest.importorskip("pandas")
    groups = [{"by": {"sex": sex}, "value": {"income": each}} for sex, each in (("f", 1), ("m", 2))]
    frame = released({"groups": groups}).to_frame()
    assert list(frame.columns)[:3] == ["sex", "term", "value"]
    assert frame.set_index("sex")["value"].to_dict() == {"f": 1, "m": 2}
    empty = released(None).to_frame()
    assert isinstance(empty, pandas.DataFrame)
    assert len(empty) == 0


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let neither pandas nor cryptography be there."""
    found = importlib.import_module

    def import_module(name: str, package: str | None = None) -> ModuleType:
        if name in ("matplotlib.pyplot", "pandas"):
            raise ModuleNotFoundError(name)
        return found(name, package)

    monkeypatch.setattr(importlib, "import_module", import_module)
    monkeypatch.setitem(sys.modules, "app.client.signatures", None)


@pytest.mark.usefixtures("without")
def test_a_missing_package_is_named_with_a_way_round() -> None:
    release = released({"age": 1})
    with pytest.raises(MissingPackageError, match=r"pip install pandas.*rows\(\)"):
        release.to_frame()
    with pytest.raises(MissingPackageError, match=r"pip install matplotlib\. rows"):
        release.plot()
    with pytest.raises(MissingPackageError, match=r"pip install cryptography.*asks the service"):
        check_receipt(b'{"a":1,"receipt":"a.b.c"}', b"")


def test_numbers_are_drawn_with_their_intervals_on_one_axis() -> None:
    release = released(
        {"age": 1, "food": 3}, interval={"age": [0, 2], "food": [1, 5]}, std={"age": 1, "food": 2}
    )
    axes = release.plot(Figure().subplots())
    assert [each.get_text() for each in axes.get_yticklabels()] == ["age", "food"]
    spans = [[float(x) for x in line.get_xdata()] for line in axes.lines]
    assert spans == [[0, 2], [1], [1, 5], [3]]
    assert axes.get_xlabel() == "with 95% noise intervals"
    with pytest.raises(ClientError, match="no numbers to draw yet"):
        released(None).plot()


def test_a_test_is_drawn_against_the_value_of_its_hypothesis() -> None:
    value = {"statistic": 1.06, "p_value": 0.3, "estimate": 61.4}
    term = {"term": "estimate", "place": ["estimate"], "estimate": 61.4, "std_error": None,
            "confidence_95": [59.1, 63.7], "noise_95": None}  # fmt: skip
    inference = {"terms": [term], "fit": [], "method": "m", "cost": "0"}
    statistic = {"kind": "test", "test": "t", "columns": ["age"], "value": 50}
    answer = released(value, inference=inference, statistic=statistic)
    axes = answer.plot(Figure().subplots())
    spans = [[float(x) for x in line.get_xdata()] for line in axes.lines]
    assert spans == [[59.1, 63.7], [61.4], [50, 50]]


def test_ratios_are_drawn_in_place_of_their_coefficients_around_one() -> None:
    value = {"coefficients": {"(intercept)": -9.0, "age": 0.7}, "odds_ratios": {"age": 2.0}}
    term = {"term": "odds ratio of age", "place": ["odds_ratios", "age"], "estimate": 2.0,
            "std_error": 0.5, "confidence_95": [0.0, 1e300], "noise_95": None}  # fmt: skip
    fit = released(value, inference={"terms": [term], "fit": [], "method": "m", "cost": "0"})
    axes = fit.plot(Figure().subplots())
    assert [each.get_text() for each in axes.get_yticklabels()] == ["odds ratio of age"]
    assert axes.get_xscale() == "log"
    assert [*axes.lines[-1].get_xdata()] == [1, 1]
    assert [*axes.lines[0].get_xdata()] == [0.002, 2000]
    ratio = next(line for line in fit.summary().splitlines() if line.startswith("odds ratio age"))
    assert ratio.split()[3:5] == ["2", "0.5"]
    assert "4.00" not in ratio, "no ratio is tested against 0"


def test_survival_is_drawn_by_steps() -> None:
    points = [
        {"at": "1", "at_risk": 9, "survival": 0.9},
        {"at": "2", "at_risk": 5, "survival": 0.5},
    ]
    axes = released({"curve": points}).plot(Figure().subplots())
    (line,) = axes.lines
    assert [*map(float, line.get_xdata())] == [0, 1, 2]
    assert [*map(float, line.get_ydata())] == [1, 0.9, 0.5]
    assert axes.get_legend() is None


def test_rates_are_drawn_against_each_other() -> None:
    rates = [(0.2, 0.7), (0.6, 0.9)]
    points = [
        {"threshold": str(at), "false_positive": fp, "true_positive": tp}
        for at, (fp, tp) in enumerate(rates)
    ]
    axes = released({"curve": points}).plot(Figure().subplots())
    assert [*axes.lines[0].get_xdata()] == [0.2, 0.6]
    assert [*axes.lines[0].get_ydata()] == [0.7, 0.9]


def test_the_client_loads_no_package_that_it_can_do_without() -> None:
    program = "import sys, app.client; print({*sys.argv} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program, "cryptography", "matplotlib", "pandas", "rfc3161_client"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "set()\n"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == [], "nothing that a text could smuggle in"
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_running_job_is_told_of_in_a_notebook_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> str:
        with Progress() as progress:
            progress(released(None), 2.0)
        return capsys.readouterr().err

    assert told() == ""
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    clear = "\r\x1b[K"
    assert told() == f"{clear}rel_1 is running: 0 s, looking again in 2 s{clear}"


def test_an_upload_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(bytes(3_000_000))

    def told() -> list[str]:
        asked: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            assert len(request.read()) > 3_000_000
            asked.append(request)
            return httpx.Response(500, json={"code": "internal"})

        desk = ReleaseDesk("http://desk", "key", transport=httpx.MockTransport(answer))
        with desk, pytest.raises(ProblemError):
            desk.upload(file, {})
        assert asked[0].extensions["timeout"]["read"] == 86_400
        return capsys.readouterr().err.split("\r\x1b[K")

    assert told() == [""]
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    _, first, *_, last, end = told()
    assert re.fullmatch(r"rows\.csv: \[\.{20}\] 0 of 3 MB sent, 0 s", first)
    assert (last, end) == ("rows.csv is sent; the service reads it, 0 s", "")


class Drawings(HTMLParser):
    """The drawings of a page: each one's label, and where its marks are."""

    def __init__(self) -> None:
        super().__init__()
        self.labels: list[str] = []
        self.middles: list[float] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "svg":
            self.labels.append(str(found["aria-label"]))
        elif tag == "circle":
            self.middles.append(float(found["cx"] or "nan"))


def drawings(answer: Release | Preview) -> Drawings:
    found = Drawings()
    found.feed(answer._repr_html_())
    return found


def test_a_notebook_draws_each_number_with_its_bar() -> None:
    groups = [{"by": {"sex": each}, "value": {"age": age}} for each, age in (("f", 40), ("m", 50))]
    ends = [{"value": {"age": [30, 50]}}, {"value": {"age": [45, 55]}}]
    release = released({"groups": groups}, std={}, interval={"groups": ends})
    found = drawings(release)
    assert found.labels == ["40, between 30 and 50", "50, between 45 and 55"]
    assert found.middles == [pytest.approx(6 + 148 * each / 25, abs=0.1) for each in (10, 20)]
    assert "<th>95% noise</th>" in release._repr_html_()
    assert "<p>Scale of the bars: age 30 to 55.</p>" in release._repr_html_()


def test_each_name_has_a_scale_of_its_own_which_a_notebook_states() -> None:
    values = [{"age": 40, "pay": 900}, {"age": 50, "pay": 800}]
    groups = [{"by": {"sex": sex}, "value": each} for sex, each in zip("fm", values, strict=True)]
    ends = [{"value": {n: [v - 10, v + 10] for n, v in each.items()}} for each in values]
    page = released({"groups": groups}, std={}, interval={"groups": ends})._repr_html_()
    assert "Scale of the bars: age 30 to 60; pay 790 to 910." in page
    page = released(values[0], std={}, interval=ends[0]["value"])._repr_html_()
    assert "Scale of the bars: 30 to 910." in page


def test_inference_of_levels_in_groups_is_beside_its_number() -> None:
    def level(value: float) -> dict[str, object]:
        return {"quantiles": [{"level": "0.5", "value": value}]}

    groups = [{"by": {"sex": sex}, "value": level(value)} for sex, value in (("f", 2), ("m", 3))]
    terms = [
        {
            "term": "0.5",
            "place": ["groups", n, "value", "quantiles", 0, "value"],
            "by": {"sex": sex},
            "std_error": error,
            "confidence_95": [error, 9],
        }
        for sex, n, error in (("m", 1, 0.25), ("f", 0, 0.5))
    ]
    rows = released({"groups": groups}, inference={"terms": terms}).rows()
    assert [(row["sex"], row["term"]) for row in rows] == [("f", "level 0.5"), ("m", "level 0.5")]
    assert [(row["std_error"], row["confidence_low"]) for row in rows] == [(0.5, 0.5), (0.25, 0.25)]


def test_bars_of_inference_are_confidence_intervals() -> None:
    place = ["coefficients", "age"]
    terms = [{"term": "age", "place": place, "std_error": 1, "confidence_95": [0, 4]}]
    fit = {"coefficients": {"age": 2, "income": 3}}
    release = released(fit, inference={"terms": terms}, std={}, interval={})
    assert drawings(release).labels == ["2, between 0 and 4"]
    assert "<th>95% confidence</th>" in release._repr_html_()


def test_a_preview_s_bars_are_around_zero() -> None:
    noise = {"std": {"age": 1.0}, "interval_95": {"age": [-2.0, 2.0]}}
    preview = Preview.model_validate({"mechanism": "k_norm", "epsilon": "1", "noise": noise})
    assert drawings(preview).labels == ["0, between -2 and 2"]


@pytest.mark.parametrize("ends", [None, [1], ["<svg>", 3], [3, 1], [float("nan"), 9]])
def test_what_is_no_interval_has_no_bar(ends: Any) -> None:
    release = released({"age": 2}, std={"age": 1}, interval={"age": ends})
    assert "<svg" not in release._repr_html_()


HOSTILE = "<script>alert(1)</script>&\"'"
TABLE = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_a_notebook_shows_a_small_table_and_no_script() -> None:
    by = [{"by": {HOSTILE: f"{HOSTILE}{n}"}, "value": {HOSTILE: n / 3}} for n in range(40)]
    statistic = {"kind": HOSTILE}
    usefulness = {"verdict": "noise", "sentence": f"Mostly {HOSTILE}."}
    release = released(
        {"groups": by}, statistic=statistic, mechanism=HOSTILE, usefulness=usefulness
    )
    shown = Tags()
    shown.feed(release._repr_html_())
    assert shown.tags == {*TABLE, "p"}
    assert HOSTILE in shown.text
    assert f"Mostly {HOSTILE}." in shown.text
    assert "0.333333" in shown.text
    assert "and 10 more rows" in shown.text
    columns = {HOSTILE: {"type": "category", "values": [HOSTILE]}}
    facts = Facts(id="ds_1", name=HOSTILE, adjacency="x", status="active", columns=columns)
    shown = Tags()
    shown.feed(facts._repr_html_())
    assert shown.tags == TABLE
    assert shown.text.count("alert") == 3
