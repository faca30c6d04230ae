"""Estimates before anything is paid: previews and releases say what an answer is worth."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from mechanisms.catalog import STATISTICS as REGISTRY
from tests.contract.service import ROWS, ask, assert_problem, send_raw, settled, upload
from tests.contract.test_releases import STATISTICS
from tests.tiers import wide

HEAD = ROWS.splitlines()[0] + "\n"
ADJACENCIES: dict[str, dict[str, Any]] = {
    "replace_one": {},
    "add_remove": {"adjacency": "add_remove", "max_rows": 1000},
}
SENTINELS = "99,1,north,true\n1,49,south,true\n" * 20
KINDS = {each["kind"]: each for each in STATISTICS}
MEAN = {"kind": "mean", "columns": ["income"]}


def preview(client: httpx.Client, dataset: str, statistic: Any, **more: Any) -> dict[str, Any]:
    body = {"statistic": statistic, "epsilon": "0.5", **more}
    answer = client.post(f"/v1/datasets/{dataset}/previews", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def skeleton(part: Any) -> Any:
    """Return a value's shape: every number is one.

    Rows of a summary show their intervals next to their numbers; errors are of the numbers alone.
    """
    if isinstance(part, dict):
        own = {key: inner for key, inner in part.items() if key not in ("interval", "interval_of")}
        return {key: skeleton(inner) for key, inner in own.items()}
    if isinstance(part, list):
        return [skeleton(inner) for inner in part]
    return part if isinstance(part, str) else 0


@pytest.fixture(scope="module")
def twins(curator: httpx.Client) -> dict[str, list[str]]:
    """Return pairs of data sets with the same public facts and other rows."""
    pairs: dict[str, list[str]] = {}
    for name, more in ADJACENCIES.items():
        other = HEAD + (SENTINELS if name == "replace_one" else SENTINELS * 9)
        made = [upload(curator, rows, budget={"epsilon": "1000"}, **more) for rows in (ROWS, other)]
        pairs[name] = [str(each["id"]) for each in made]
    return pairs


def test_a_preview_assumes_no_more_rows_than_there_may_be(
    curator: httpx.Client, twins: dict[str, list[str]]
) -> None:
    """Of more rows than can be, noise would seem smaller than it is, and than its own error."""
    some = {**MEAN, "where": [{"column": "owner", "op": "==", "value": True}]}
    for adjacency, question, most in (("add_remove", MEAN, 1000), ("replace_one", some, 40)):
        dataset = twins[adjacency][0]
        few, all_rows, more = (
            preview(curator, dataset, question, assume_rows=rows)
            for rows in (most // 2, most, 10**9)
        )
        assert all_rows["noise"] == more["noise"]
        assert all_rows["noise"]["std"]["income"] < few["noise"]["std"]["income"]
        assert more["assume"]["rows"] == most


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("adjacency", ["add_remove", *wide("replace_one")])
def test_a_preview_estimates_every_kind_and_no_row_changes_a_byte_of_it(
    curator: httpx.Client, twins: dict[str, list[str]], kind: str, adjacency: str
) -> None:
    seen = [preview(curator, each, KINDS[kind]) for each in twins[adjacency]]
    texts = [json.dumps({**each, "dataset": None}) for each in seen]
    assert texts[0] == texts[1]
    estimate = seen[0]
    assert estimate["usefulness"]["verdict"] in ("good", "weak", "noise", "depends")
    assert estimate["usefulness"]["sentence"]
    rows = {"replace_one": 40, "add_remove": 500}[adjacency]
    assert estimate["assume"] == {
        "rows": rows,
        "population": "uniform",
        "r_squared": 0.3,
        "coefficients": {},
    }
    released = settled(curator, ask(curator, twins[adjacency][0], KINDS[kind])).json()
    if kind == "test":  # no error of a p-value says what it is worth: the power does
        assert estimate["expected_error"] is None
        assert "has the power of one with" in estimate["usefulness"]["sentence"]
    else:
        drawn = {
            name: each for name, each in released["value"].items() if name != REGISTRY[kind].ratios
        }
        assert skeleton(estimate["expected_error"]) == skeleton(drawn)
    left_open = ["depends"] if released["noise"] is None else []
    assert released["usefulness"]["verdict"] in ("good", "weak", "noise", *left_open)
    assert released["assume"] == estimate["assume"]


def test_whoever_asks_cannot_choose_what_a_release_s_verdict_assumes(
    curator: httpx.Client, twins: dict[str, Any]
) -> None:
    """It is published with the numbers, so it is the same for all who ask."""
    dataset = twins["add_remove"][0]
    assert_problem(ask(curator, dataset, MEAN, assume={"rows": 10**6}), 422, "invalid-request")


@pytest.mark.wide
def test_assumptions_are_taken_and_echoed(curator: httpx.Client, twins: dict[str, Any]) -> None:
    dataset = twins["add_remove"][0]
    assume = {
        "rows": 200,
        "population": {"income": {"mean": 30, "std": 5}},
        "r_squared": 0.8,
        "coefficients": {"income": 0.4},
    }
    question = {"kind": "linear_regression", "target": "food", "features": ["income"]}
    given = preview(curator, dataset, question, assume=assume)
    assert given["assume"] == assume
    assert given["expected_error"] != preview(curator, dataset, question)["expected_error"]
    # the older field says how many rows, where that is all that is said
    assert preview(curator, dataset, MEAN, assume_rows=77)["assume"]["rows"] == 77
    few, many = (
        preview(curator, dataset, MEAN, assume={"rows": rows})["expected_error"]["income"]
        for rows in (20, 1000)
    )
    assert few > 10 * many
    assert (
        preview(curator, twins["replace_one"][0], MEAN, assume={"rows": 9})["assume"]["rows"] == 40
    )


@pytest.mark.parametrize(
    "assume",
    [
        {"rows": 0}, {"rows": 1.5}, {"rows": "7"}, {"population": "normal"}, {"seed": 1},
        {"population": {"income": {"mean": 1, "std": 0}}}, {"population": {"income": {"mean": 1}}},
        {"population": {"nothing": {"mean": 1, "std": 1}}}, {"r_squared": 1}, {"r_squared": -0.1},
        {"population": {"region": {"mean": 1, "std": 1}}}, {"coefficients": {"nothing": 1}},
        {"coefficients": {"income": 1e301}}, [],
    ],
    ids=str,
)  # fmt: skip
def test_bad_assumptions_are_refused(analyst: httpx.Client, untouched: str, assume: Any) -> None:
    body = json.dumps({"statistic": MEAN, "epsilon": "1", "assume": assume})
    answer = send_raw(analyst, f"/v1/datasets/{untouched}/previews", body.encode())
    assert_problem(answer, 422, "invalid-request")


@pytest.mark.parametrize(("epsilon", "verdict"), [("10", "good"), ("0.0001", "noise")])
def test_the_verdict_is_in_preview_and_release(
    curator: httpx.Client, twins: dict[str, list[str]], epsilon: str, verdict: str
) -> None:
    share = {"kind": "mean", "columns": ["owner"]}  # of a share 0 to 1 is a natural scale
    dataset = twins["replace_one"][0]
    estimate = preview(curator, dataset, share, epsilon=epsilon)["usefulness"]
    released = ask(curator, dataset, share, epsilon=epsilon).json()
    assert estimate["verdict"] == verdict
    assert released["usefulness"] == estimate, "of a mean the released number says no more"
    again = ask(curator, dataset, share, epsilon=epsilon).json()  # its text is remembered
    assert again["id"] != released["id"]
    assert (again["usefulness"], again["assume"]) == (estimate, released["assume"])


def test_how_wide_bounds_are_is_no_scale(
    curator: httpx.Client, twins: dict[str, list[str]]
) -> None:
    """A verdict needs a wanted accuracy, typical values or the released number."""
    dataset = twins["replace_one"][0]
    bare = preview(curator, dataset, MEAN, epsilon="10")
    assert bare["usefulness"]["verdict"] == "depends"
    assert "how large a difference matters" in bare["usefulness"]["sentence"]
    error = bare["expected_error"]["income"]
    for accuracy, verdict in ((10 * error, "good"), (error, "noise")):
        wanted = preview(curator, dataset, MEAN, epsilon="10", accuracy=accuracy)["usefulness"]
        assert wanted["verdict"] == verdict, wanted
    body = {"statistic": MEAN, "accuracy": error}
    at_that = curator.post(f"/v1/datasets/{dataset}/previews", json=body).json()
    assert at_that["usefulness"]["verdict"] == "good"
    assume = {"population": {"income": {"mean": 30, "std": 100 * error}}}
    assert preview(curator, dataset, MEAN, epsilon="10", assume=assume)["usefulness"][
        "verdict"
    ] == ("good")
    released = ask(curator, dataset, MEAN, epsilon="10").json()["usefulness"]
    assert released["verdict"] in ("good", "weak", "noise")
    assert "of what was released" in released["sentence"]


def test_a_release_is_judged_by_its_numbers_too(
    curator: httpx.Client, twins: dict[str, list[str]]
) -> None:
    # no one is like that, so the number is noise, however good it would be of somebody
    nobody = {"kind": "count", "where": [{"column": "income", "op": ">=", "value": 90}]}
    dataset = twins["add_remove"][0]
    assert preview(curator, dataset, nobody, epsilon="1")["usefulness"]["verdict"] != "noise"
    answers = [ask(curator, dataset, nobody, epsilon="1").json() for _ in range(14)]
    near = [each for each in answers if abs(each["value"]["count"]) < 1.5]
    assert all(each["usefulness"]["verdict"] == "noise" for each in near)
    assert near, "none of 14 is within 1 once in seven billion runs: each is with a chance of 0.8"


@pytest.mark.wide
def test_what_auto_stands_for_in_a_preview_is_drawn_at_once_and_by_a_job(
    curator: httpx.Client, analyst: httpx.Client
) -> None:
    question = {"kind": "linear_regression", "target": "food", "features": ["income"]}
    for policy in ("never", "always"):
        dataset = upload(curator, policy={"review": policy})["id"]
        estimate = preview(analyst, dataset, question)
        asked = ask(analyst, dataset, question, epsilon="0.5")
        if policy == "always":
            decision = {"decision": "approve", "reason": "as planned"}
            path, tag = f"/v1/releases/{asked.json()['id']}", {"If-Match": asked.headers["etag"]}
            assert curator.post(f"{path}/decision", json=decision, headers=tag).status_code == 202
            asked = settled(analyst, analyst.get(path))
        released = asked.json()
        assert released["status"] == "released"
        for member in ("mechanism", "norm", "reason"):
            assert released[member] == estimate[member]
        assert "; functional errs" in estimate["reason"] or "; objective" in estimate["reason"]


def test_whoever_reviews_a_release_sees_what_it_is_worth(
    curator: httpx.Client, admin: httpx.Client, service: Any
) -> None:
    dataset = upload(curator, policy={"review": "always"})["id"]
    asked = ask(curator, dataset, MEAN, epsilon="0.5").json()
    assert asked["status"] == "awaiting_review"
    assert asked["usefulness"] == preview(curator, dataset, MEAN)["usefulness"]


PATIENTS = {
    "stay": {"type": "number", "lower": 0, "upper": 90, "typical": {"mean": 30, "std": 20}},
    "well": {"type": "boolean"},
    "ward": {"type": "category", "values": ["large", "small"]},
}
CURVE = {"kind": "kaplan_meier", "time": "stay", "event": "well"}
RATES = {"kind": "roc", "score": "stay", "label": "well", "edges": {"stay": {"step": 15}}}
BY_WARD = {"by": ["ward"]}
THIRD = {"inference": {"share": "1/3"}}


@pytest.fixture(scope="module")
def wards(curator: httpx.Client) -> str:
    """Return a data set of two wards, one of which has a fiftieth of the patients."""
    rows = (
        f"{(37 * row) % 900 / 10},{'true' if row % 3 else 'false'},"
        f"{'large' if row % 50 else 'small'}\n"
        for row in range(1500)
    )
    csv = "stay,well,ward\n" + "".join(rows)
    return str(upload(curator, csv, columns=PATIENTS, budget={"epsilon": "10000"})["id"])


@pytest.mark.parametrize(
    ("statistic", "more"),
    [
        ({**CURVE, "edges": {"stay": {"step": 15}}, **BY_WARD}, {}),
        ({**CURVE, "edges": {"stay": {"step": 1}}, **BY_WARD}, {}),  # more than a plan keeps
        ({**RATES, **BY_WARD}, {}),
        ({"kind": "stack", "parts": [
            {"statistic": {**RATES, **BY_WARD}}, {"statistic": {**CURVE, **BY_WARD}}
        ]}, {}),
        ({"kind": "quantile", "column": "stay", "levels": [0.5],
          "where": [{"column": "ward", "op": "==", "value": "large"}]}, THIRD),
    ],
    ids=["curve", "long curve", "roc", "stack", "quantile"],
)  # fmt: skip
def test_a_release_settles_what_its_preview_says_it_depends_on(
    curator: httpx.Client, wards: str, statistic: Any, more: dict[str, Any]
) -> None:
    """The preview cannot know how large a ward is; the released numbers and their noise do."""
    open_ = preview(curator, wards, statistic, epsilon="8", **more)["usefulness"]
    assert (open_["verdict"], "private" in open_["sentence"]) == ("depends", True), open_
    asked = ask(curator, wards, statistic, epsilon="8", **more)
    released = settled(curator, asked).json()
    sure = released["usefulness"]
    assert (released["status"], sure["verdict"] == "depends") == ("released", False), sure
    assert "It depends on how many records" not in sure["sentence"]


def test_the_verdict_on_curves_is_that_of_the_group_with_the_most_noise(
    curator: httpx.Client, wards: str
) -> None:
    asked = {**CURVE, "edges": {"stay": {"step": 15}}, **BY_WARD}
    sure = ask(curator, wards, asked, epsilon="0.5").json()["usefulness"]
    assert sure["verdict"] == "noise"
    assert "ward = small" in sure["sentence"]
    large = {**asked, "by": [], "where": [{"column": "ward", "op": "==", "value": "large"}]}
    assert ask(curator, wards, large, epsilon="8").json()["usefulness"]["verdict"] == "good"


def test_where_neither_numbers_nor_noise_say_it_the_verdict_stays_open(
    curator: httpx.Client, wards: str
) -> None:
    """A quantile without inference says nothing of how many records it is of."""
    asked = {"kind": "quantile", "column": "stay", "levels": [0.5], **BY_WARD}
    released = ask(curator, wards, asked, epsilon="1").json()
    assert released["usefulness"]["verdict"] == "depends"
