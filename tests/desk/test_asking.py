"""Asking without script: every statistic's form, its preview, the step before, and the answer."""

from __future__ import annotations

import re
import time
from pathlib import Path

import httpx
import pytest
from lxml import html

from app.desk.questions import kinds
from app.desk.rendering import ident
from tests.contract.examples import with_examples
from tests.contract.service import Service, ask, running, settled, spent, upload
from tests.desk.browsing import Browsing, Page, confirmed, person, signed_out
from tests.tiers import wide

COLUMNS = {
    "income": {"type": "number", "lower": 0, "upper": 100},
    "food": {"type": "number", "lower": 0, "upper": 50},
    "region": {"type": "category", "values": ["north", "south"]},
    "owner": {"type": "boolean"},
}
FILLED: dict[str, dict[str, str | list[str]]] = {
    "count": {"where 0 column": "region", "where 0 op": "==", "where 0 value": "north"},
    "histogram": {"columns": ["income", "region"], "edges income": "0, 50, 100"},
    "tables": {
        "columns": ["income", "region"],
        "edges income": "0, 50, 100",
        "margins": "all_one_way",
        "raw": "yes",
    },
    "sum": {"columns": ["income"], "by": ["region"]},
    "mean": {"columns": ["income", "food"]},
    "variance": {"columns": ["income"]},
    "std": {"columns": ["income"], "derive": "twice = 2 * food"},
    "moments": {"columns": ["income", "food"]},
    "covariance": {"columns": ["income", "food"]},
    "correlation": {"columns": ["income", "food"]},
    "quantile": {"column": "income", "levels": "0.25, 0.5"},
    "linear_regression": {"target": "food", "features": ["income", "region"], "bound": "2"},
    "logistic_regression": {
        "target": "food",
        "target op": ">=",
        "target value": "25",
        "features": ["income"],
    },
    "quantile_regression": {"formula": "food ~ income", "tau": "0.5"},
    "geometric_median": {"columns": ["income", "food"]},
    "test": {"test": "rank_sum", "columns": ["income"], "groups": "region", "bins": "10"},
    "summary": {
        "columns": ["income", "owner"],
        "show": ["n", "mean_sd", "share"],
        "shares": "mean_sd = 2\nshare = 0.5",
        "differences": "yes",
        "by": ["region"],
    },
    "poisson_regression": {"target": "food", "features": ["income"], "offset": "owner"},
    "multinomial_regression": {"target": "region", "features": ["income"], "reference": "north"},
    "cox_regression": {
        "time": "income",
        "event": "owner",
        "features": ["food"],
        "ceiling": "3",
        "edges income": "step 25",
    },
    "kaplan_meier": {"time": "income", "event": "owner", "edges income": "step 25"},
    "roc": {
        "score": "food",
        "label": "rich",
        "derive": "rich = income > 50",
        "edges food": "0, 10, 20, 50",
    },
    "stack": {"question 0 columns": ["income"]},
}
FILLED |= {
    each["kind"]: {name: value for name, value in each.items() if name != "kind"}
    for each in with_examples([{"kind": kind} for kind in FILLED])[len(FILLED) :]
}


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    return str(upload(admin, columns=COLUMNS, name="asked at the desk <&>")["id"])


def form_of(browsing: Browsing, dataset: str, kind: str) -> Page:
    return browsing.open(f"/desk/datasets/{dataset}/ask?statistic={kind}")


def preview(page: Page) -> str:
    (found,) = page.tree.xpath("//section[@aria-label='Preview']")
    return " ".join(" ".join(found.itertext()).split())


def _fault(page: Page, field: str) -> str:
    (found,) = page.tree.xpath(f"//*[@id='{field}-fault']")
    return str(found.text_content())


@pytest.mark.parametrize("statistic", [None, "", "median of everything"])
def test_a_question_without_a_known_statistic_is_refused_at_it(
    analyst: Browsing, dataset: str, statistic: str | None
) -> None:
    """The form is shown again, of a statistic that there is."""
    fields = {"columns": "income", "epsilon": "0.5", "form_key": "key"}
    message = {} if statistic is None else {"statistic": statistic}
    answer = analyst.client.post(
        f"/desk/datasets/{dataset}/ask",
        data=fields | message,
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    assert answer.status_code == 422
    assert "Statistic: must be one of 'count'" in Page(answer).alerts()[0]
    assert Page(answer).form("Release").fields["epsilon"] == "0.5"


_QUICK = ("histogram", "mean")
"""What needs no simulation."""


def test_every_statistic_has_a_form() -> None:
    assert FILLED.keys() == dict(kinds()).keys()


@pytest.mark.parametrize("kind", [*_QUICK, *wide(*sorted(FILLED.keys() - {*_QUICK}))])
def test_a_statistic_can_be_previewed(analyst: Browsing, dataset: str, kind: str) -> None:
    page = form_of(analyst, dataset, kind)
    assert page.heading == "Ask asked at the desk <&>"
    shown = analyst.send(page, "Preview", epsilon="0.5", wanted="epsilon", **FILLED[kind])
    assert not shown.alerts()
    assert "epsilon 0.5" in preview(shown)
    assert "After this release" in preview(shown)
    # a p-value has no error: a test says what the noise takes of its power
    assert ("the power of" if kind == "test" else "Expected error") in preview(shown)


def test_a_preview_shows_its_curve_its_alternatives_and_the_output_space(
    analyst: Browsing, dataset: str
) -> None:
    """Each as a picture and in words or a table; the output space where it has two coordinates."""
    page = form_of(analyst, dataset, "mean")

    def shown(*columns: str) -> Page:
        return analyst.send(page, "Preview", epsilon="0.5", wanted="epsilon", columns=list(columns))

    def drawn(page: Page) -> set[str]:
        within = "//section[@aria-label='Preview']"
        heads = page.tree.xpath(f"{within}//figure/preceding-sibling::h3[1]")
        pictures = page.tree.xpath(f"{within}//figure[svg or *[name()='svg']]")
        assert len(heads) == len(pictures)
        return {str(head.text_content()) for head in heads}

    two, one = shown("income", "food"), shown("income")
    assert drawn(two) == {"Error by epsilon", "Alternatives", "Adjacent output space"}
    assert "Adjacent output space" not in drawn(one)
    rows = two.tree.xpath("//h3[.='Error by epsilon']/following-sibling::table[1]/tbody/tr")
    epsilons, errors = zip(
        *([float(cell.text_content().replace(",", "")) for cell in row] for row in rows),
        strict=True,
    )
    assert 0.5 in epsilons
    assert list(epsilons) == sorted(epsilons)
    assert list(errors) == sorted(errors, reverse=True)
    assert {"l1", "l2", "optimal"} == {
        str(cell.text_content()) for cell in two.tree.xpath("//td[@data-of='Norm']")
    }


def test_a_question_is_confirmed_paid_for_once_and_shown(
    service: Service, admin: httpx.Client
) -> None:
    own = str(upload(admin, columns=COLUMNS)["id"])
    with person(service, admin, "analyst") as somebody:
        page = form_of(somebody, own, "mean")
        confirm = somebody.send(
            page, "Release", columns=["income"], epsilon="0.5", wanted="epsilon",
            purpose="Table <1>,\nby May",
        )  # fmt: skip
        assert confirm.heading == "Release this?"
        assert "After this release 9.5" in confirm.text
        assert "mean of income" in confirm.text
        back = dict(somebody.open(confirm.links()["Back"]).form("Preview").form_values())
        assert (back["epsilon"], back["purpose"]) == ("0.5", "Table <1>,\nby May"), (
            "nothing is lost"
        )
        assert spent(admin, own) == "0"
        shown = somebody.send(confirm, "Release")
        again = somebody.send(confirm, "Release")
        assert shown.path == again.path
        assert spent(admin, own) == "0.5"
        changed = somebody.send(page, "Release", columns=["food"], epsilon="0.25", wanted="epsilon")
        assert "mean of food" in changed.text
        assert "You have asked this before" not in changed.text
        somebody.send(changed, "Release")
        assert spent(admin, own) == "0.75", "it is another question"
        assert shown.heading.startswith("Mean of data set")
        assert "Table <1>" in shown.text
        assert shown.tree.xpath("//table//th[normalize-space()='income']")
        assert shown.tree.xpath("//svg[@role='img']")
        release = shown.path.rsplit("/", 1)[1]
        message = somebody.client.get(f"{shown.path}/release.json").json()
        assert message == admin.get(f"/v1/releases/{release}").json()
        picture = somebody.client.get(f"{shown.path}/chart.svg")
        assert picture.headers["content-type"] == "image/svg+xml"
        assert "<circle" in picture.text
        table = somebody.client.get(f"{shown.path}/release.csv").text
        assert str(message["value"]["income"]) in table
        for language in ("python", "r", "notebook"):
            script = somebody.client.get(f"{shown.path}/script", params={"language": language})
            assert script.status_code == 200
            assert "/client/" in script.text
            assert "attachment" in script.headers["content-disposition"]
        assert release in somebody.open("/desk/releases").text
        assert release not in somebody.open("/desk/releases?status=rejected").text


def test_a_question_that_was_asked_before_is_not_paid_for_unawares(
    service: Service, admin: httpx.Client
) -> None:
    own = str(upload(admin, columns=COLUMNS)["id"])
    asked = {"columns": ["income"], "epsilon": "0.5", "wanted": "epsilon"}
    above = {"where 0 column": "food", "where 0 op": ">="}
    with person(service, admin, "analyst") as somebody:

        def confirm(value: str) -> Page:
            form = form_of(somebody, own, "mean")
            return somebody.send(form, "Release", **asked, **above, **{"where 0 value": value})

        first, unasked = confirm("20"), confirm("20.0")
        shown = somebody.send(first, "Release")
        # two pages at once, before either was paid for
        assert somebody.send(unasked, "Release").path == shown.path
        assert spent(admin, own) == "0.5"
        again = confirm("2e1")
        assert "You have asked this before" in again.text
        assert again.links()[shown.path.rsplit("/", 1)[1]] == shown.path
        assert somebody.send(again, "Release").path == shown.path
        assert spent(admin, own) == "0.5", "a new draw is asked for by its box alone"
        repeated = somebody.send(again, "Release", fresh="yes")
        assert repeated.path != shown.path
        assert somebody.send(again, "Release", fresh="yes").path == repeated.path, "a double click"
        assert spent(admin, own) == "1"


def test_accuracy_is_asked_for_first_and_finds_its_epsilon(analyst: Browsing, dataset: str) -> None:
    page = form_of(analyst, dataset, "mean")
    (first, second) = page.tree.xpath("//input[@type='radio']")
    assert (first.get("value"), second.get("value")) == ("accuracy", "epsilon")
    assert first.get("checked") is not None
    shown = analyst.send(page, "Preview", columns=["income"], accuracy="5")
    epsilon = shown.form("Preview").fields["epsilon"]
    assert 0 < float(epsilon) < 10
    assert f"epsilon {epsilon}" in preview(shown)


def test_what_is_wrong_is_said_at_its_field(analyst: Browsing, dataset: str) -> None:
    page = form_of(analyst, dataset, "quantile")
    wrong = analyst.send(
        page,
        "Preview",
        status=422,
        levels="0.5, two",
        epsilon="-1",
        wanted="epsilon",
    )
    said = {
        field: " ".join(wrong.tree.xpath(f"//*[@id='{field}-fault']")[0].text_content().split())
        for field in ("levels", "epsilon")
    }
    assert said == {"levels": "must be a number", "epsilon": "must be a positive decimal number"}
    assert wrong.form("Preview").fields["levels"] == "0.5, two"
    (field,) = wrong.tree.xpath("//input[@id='levels']")
    assert field.get("aria-invalid") == "true"
    assert "levels-fault" in field.get("aria-describedby").split()


def test_what_the_budget_does_not_hold_is_refused_with_its_remedy(
    analyst: Browsing, admin: httpx.Client
) -> None:
    own = str(upload(admin, columns=COLUMNS, budget={"epsilon": "1"})["id"])
    page = form_of(analyst, own, "mean")
    asked = {"columns": ["income"], "epsilon": "2", "wanted": "epsilon"}
    shown = analyst.send(page, "Preview", **asked)
    assert "Not enough is left" in preview(shown)
    badges = shown.tree.xpath("//section[@aria-label='Preview']//*[contains(@class, 'status')]")
    assert badges == [], "no verdict above a refusal"
    confirm = analyst.send(page, "Release", **asked)
    refused = analyst.send(confirm, "Release", status=409)
    assert refused.alerts()
    assert refused.form("Preview").fields["epsilon"] == "2"
    assert spent(admin, own) == "0"


def test_the_script_is_given_the_preview_alone(analyst: Browsing, dataset: str) -> None:
    address = f"/desk/datasets/{dataset}/ask"
    filled = {
        "part": "preview",
        "statistic": "mean",
        "columns": "income",
        "epsilon": "0.5",
        "act": "preview",
    }
    part = analyst.client.get(address, params=filled)
    assert part.status_code == 200
    assert "<html" not in part.text
    assert "After this release" in part.text
    assert (
        "must be a positive decimal number"
        in analyst.client.get(address, params={**filled, "epsilon": ""}).text
    )


def test_a_release_of_somebody_else_is_not_there(
    service: Service, admin: httpx.Client, analyst: Browsing, dataset: str
) -> None:
    with person(service, admin, "analyst") as other:
        confirm = other.send(
            form_of(other, dataset, "mean"), "Release",
            columns=["income"], epsilon="0.1", wanted="epsilon",
        )  # fmt: skip
        shown = other.send(confirm, "Release")
        for path in (shown.path, f"{shown.path}/release.json", f"{shown.path}/release.csv"):
            analyst.open(path, status=404)
            assert other.client.get(path).status_code == 200


def test_a_curator_publishes_and_withdraws(
    service: Service, curator: Browsing, analyst: Browsing, dataset: str
) -> None:
    filled = {"columns": ["income"], "epsilon": "0.1", "wanted": "epsilon"}
    confirm = analyst.send(form_of(analyst, dataset, "mean"), "Release", **filled)
    own = analyst.send(confirm, "Release")
    assert not own.tree.xpath("//button[normalize-space()='Publish']")
    public = f"/public/releases/{own.path.rsplit('/', 1)[1]}"
    shown = curator.open(own.path)
    with signed_out(service) as visitor:
        assert visitor.client.get(f"{public}.json").status_code == 404
        for wrong in (" ", "r" * 5_000):
            refused = curator.send(shown, "Publish", status=422, reason=wrong)
            assert _fault(refused, "reason")
        stale = curator.send(shown, "Publish", status=412, seen="another")
        assert stale.alerts()
        assert stale.heading == shown.heading
        asked = curator.send(shown, "Publish", reason="Table 2")
        assert asked.heading == "Publish this release?"
        assert visitor.client.get(f"{public}.json").status_code == 404
        for _ in range(2):
            published = curator.send(asked, "Publish", confirmed="yes")
        assert visitor.client.get(f"{public}.json").status_code == 200
        assert "its public page" in analyst.open(own.path).text
        refused = curator.send(published, "Withdraw publication", status=422, note=" ")
        assert _fault(refused, "note") == "is required"
        withdrawn = confirmed(curator, published, "Withdraw publication", note="Superseded")
        assert "It was withdrawn from the public: Superseded" in withdrawn.text
        assert visitor.client.get(f"{public}.json").status_code == 410


def test_what_waits_can_be_withdrawn(service: Service, admin: httpx.Client) -> None:
    own = str(upload(admin, columns=COLUMNS, policy={"review": "always"})["id"])
    with person(service, admin, "analyst") as somebody:
        confirm = somebody.send(
            form_of(somebody, own, "mean"), "Release",
            columns=["income"], epsilon="0.1", wanted="epsilon",
        )  # fmt: skip
        waiting = somebody.send(confirm, "Release")
        assert "A reviewer must approve it" in waiting.text
        reviewed = waiting.path.replace("releases", "reviews")
        assert reviewed in somebody.open("/desk").links().values()
        assert "never drawn" in waiting.text, "what happens is said beside the button"
        ended = somebody.send(waiting, "Withdraw")
        assert "withdrawn" in ended.text
        again = somebody.send(waiting, "Withdraw")
        assert again.path == ended.path


def test_a_question_can_be_tried_on_synthetic_rows(
    analyst: Browsing, admin: httpx.Client, dataset: str
) -> None:
    before = spent(admin, dataset)
    filled = {"columns": ["income"], "epsilon": "0.5", "wanted": "epsilon"}
    shown = analyst.send(form_of(analyst, dataset, "mean"), "Try on synthetic rows", **filled)
    (tried,) = shown.tree.xpath("//section[@aria-label='Dry run']")
    assert tried.xpath(".//th[normalize-space()='income']")
    assert "After this release" in preview(shown)
    assert spent(admin, dataset) == before


def test_an_answer_leaves_at_a_tick(tmp_path: Path) -> None:
    """What the desk answers to a paid question is held as the API holds it."""
    slot_ms = 400
    with (
        running(tmp_path / "data", response_slot_ms=slot_ms) as service,
        service.client() as admin,
        person(service, admin, "analyst") as somebody,
    ):
        own = str(upload(admin, columns=COLUMNS)["id"])
        filled = {"columns": ["income"], "epsilon": "0.5", "wanted": "epsilon"}
        confirm = somebody.send(form_of(somebody, own, "mean"), "Release", **filled)
        somebody.client.follow_redirects = False
        began = time.monotonic()
        somebody.send(confirm, "Release", status=303)
        assert time.monotonic() - began >= slot_ms / 1000


def test_all_that_is_wrong_is_told_at_once_by_the_names_that_fields_are_shown_with(
    analyst: Browsing, dataset: str
) -> None:
    page = form_of(analyst, dataset, "mean")
    wrong = analyst.send(page, "Preview", status=422)
    (message,) = wrong.alerts()
    assert "Columns: is required" in message
    assert "Margin of error (±): is required" in message
    assert message.endswith("Fix the highlighted fields.")
    ids = {each.get("id") for each in wrong.tree.xpath("//*[@id]")}
    links = wrong.tree.xpath("//*[@role='alert']//a/@href")
    assert len(links) == 2
    assert {link.removeprefix("#") for link in links} <= ids
    part = {"part": "preview", "act": "preview", "statistic": "mean", "columns": "income"}
    half = analyst.client.get(page.path, params={**part, "wanted": "accuracy", "accuracy": "x"})
    assert "Margin of error (±): must be a number." in half.text


@pytest.mark.parametrize(
    ("filled", "place", "said"),
    [
        (
            {"where 0 column": "region", "where 0 op": "==", "where 0 value": "west"},
            "where 0 value", "Condition 1 value: the value is not one that the category declares",
        ),
        ({"mechanism": "k_norm", "norm": "l7"}, "norm", "Norm: "),
        ({"inference": "two"}, "inference", "Share for standard errors: "),
    ],
)  # fmt: skip
def test_a_fault_among_the_rarer_fields_is_seen(
    analyst: Browsing, dataset: str, filled: dict[str, str], place: str, said: str
) -> None:
    asked = {"columns": ["income"], "epsilon": "0.1", "wanted": "epsilon", **filled}
    wrong = analyst.send(form_of(analyst, dataset, "mean"), "Preview", status=422, **asked)
    (message,) = wrong.alerts()
    assert said in message
    fault = wrong.tree.get_element_by_id(f"{ident(place)}-fault")
    assert all(around.get("open") is not None for around in fault.iterancestors("details"))


def test_what_is_chosen_among_the_rarer_fields_stays_in_sight(
    analyst: Browsing, dataset: str
) -> None:
    for filled in (FILLED["count"], {"mechanism": "k_norm"}, {}):
        asked = {"columns": ["income"], "epsilon": "0.1", "wanted": "epsilon", **filled}
        shown = analyst.send(form_of(analyst, dataset, "mean"), "Preview", **asked)
        (more,) = shown.tree.xpath("//details[.//select[@name='mechanism']]")
        assert (more.get("open") is not None) == bool(filled)


def test_what_is_too_dear_is_said_at_the_epsilon(analyst: Browsing, admin: httpx.Client) -> None:
    policy = {"max_epsilon_per_release": "0.5", "allowed": ["mean", "sum"]}
    own = str(upload(admin, columns=COLUMNS, budget={"epsilon": "0.3"}, policy=policy)["id"])
    page = form_of(analyst, own, "mean")
    for epsilon in ("0.4", "0.6"):
        asked = {"columns": ["income"], "epsilon": epsilon, "wanted": "epsilon"}
        found = analyst.client.get(
            page.path, params={"statistic": "mean", **asked, "act": "release"}
        )
        refused = Page(found)
        if found.status_code == 200:  # too little budget is refused when it is charged
            refused = analyst.send(refused, "Release", status=409)
        assert refused.tree.get_element_by_id("epsilon").get("aria-invalid") == "true"
        (message,) = refused.alerts()
        assert "Epsilon: " in message


def test_edges_are_asked_of_the_chosen_column_alone(analyst: Browsing, dataset: str) -> None:
    def edges(page: Page) -> set[str]:
        return {each for each in page.labels() if each in ("income edges", "food edges")}

    page = form_of(analyst, dataset, "kaplan_meier")
    hidden = page.tree.xpath("//div[@class='undecided']//label")
    assert {each.text_content() for each in hidden} == edges(page) == {"income edges", "food edges"}
    (time,) = page.tree.xpath("//select[@name='time']")
    assert time.get("data-reload") is not None
    chosen = analyst.send(page, "Preview", time="income", event="owner", epsilon="1")
    assert edges(chosen) == {"income edges"}
    assert not chosen.tree.xpath("//div[@class='undecided']")


_MEAN = {"columns": ["income"]}
_EDGED = {"columns": ["region", "income", "food"], "edges income": "0, 50, 100"}


@pytest.mark.parametrize(
    ("kind", "filled", "place"),
    [
        ("mean", {**_MEAN, "wanted": "accuracy", "accuracy": "1e999"}, "accuracy"),
        ("mean", {**_MEAN, "wanted": "accuracy", "accuracy": "nan"}, "accuracy"),
        ("quantile", {"levels": "0.5, 1e999"}, "levels"),
        ("quantile", {"levels": "9" * 500}, "levels"),
        (
            "linear_regression",
            {"target": "food", "features": ["income"], "bound": "1e999"},
            "bound",
        ),
        ("stack", {"question 0 columns": ["income"], "question 0 share": "x"}, "question 0 share"),
        ("stack", {}, "question 0 columns"),
        ("histogram", {**_EDGED, "edges food": ""}, "edges food"),
        ("histogram", {**_EDGED, "edges food": "5, 1"}, "edges food"),
        ("histogram", {**_EDGED, "edges food": "0, 1e999"}, "edges food"),
        ("histogram", {**_EDGED, "edges income": "x", "edges food": "0, 5"}, "edges income"),
        ("count", {}, "where"),
        (
            "count",
            {"where 1 column": "income", "where 1 op": ">", "where 1 value": "x"},
            "where 1 value",
        ),
    ],
)
def test_every_fault_is_at_its_field_and_the_alert_leads_there(
    analyst: Browsing, dataset: str, kind: str, filled: dict[str, str | list[str]], place: str
) -> None:
    asked = {"epsilon": "0.1", "wanted": "epsilon", **filled}
    wrong = analyst.send(form_of(analyst, dataset, kind), "Preview", status=422, **asked)
    (link,) = wrong.tree.xpath("//*[@role='alert']//a/@href")
    assert link == f"#{ident(place)}"
    assert wrong.tree.get_element_by_id(link.removeprefix("#")).get("aria-invalid") == "true"
    assert _fault(wrong, ident(place))


@pytest.mark.parametrize(
    ("filled", "place"),
    [
        ({"where 1 op": ">"}, "where 1 column"),
        ({"where 1 op": ">", "where 1 value": "5"}, "where 1 column"),
        ({"where 1 value": "5"}, "where 1 op"),
    ],
)
def test_a_condition_without_its_column_is_not_left_out(
    analyst: Browsing, dataset: str, filled: dict[str, str], place: str
) -> None:
    """What would be asked then, and paid for, is another question."""
    asked = {"columns": ["income"], "epsilon": "0.1", "wanted": "epsilon", **filled}
    wrong = analyst.send(form_of(analyst, dataset, "sum"), "Preview", status=422, **asked)
    assert _fault(wrong, ident(place))


def test_the_declared_weight_is_the_usual_choice_and_none_can_be_chosen(
    analyst: Browsing, admin: httpx.Client
) -> None:
    own = upload(admin, columns=COLUMNS, name="by design", design={"weight": "food"})["id"]
    assert "by default records count by food" in analyst.open(f"/desk/datasets/{own}").text
    page = form_of(analyst, own, "mean")
    options = page.tree.xpath("//select[@name='weights']/option")
    assert [each.text_content().strip() for each in options][:2] == [
        "by the declared weight, food", "each record counts once",
    ]  # fmt: skip
    for chosen, said in ((options[0], "food"), (options[1], None)):
        filled = {"columns": ["income"], "epsilon": "0.1", "wanted": "epsilon"}
        filled |= {"weights": chosen.get("value") or ""}
        confirm = analyst.send(form_of(analyst, own, "mean"), "Release", **filled)
        done = analyst.send(confirm, "Release")
        asked = admin.get(f"/v1/releases/{done.path.rsplit('/', 1)[1]}").json()["statistic"]
        assert asked["weights"] == said


# Persons with several rows, intervals, and advice

VISITS = "person,age,dose,ill\n" + "".join(
    f"p{at // 3},{20 + at % 60},{at % 10},{'true' if at % 4 else 'false'}\n" for at in range(900)
)


@pytest.fixture(scope="module")
def visits(admin: httpx.Client) -> str:
    wide = {"type": "number", "lower": 0, "upper": 10_000, "typical": {"mean": 5, "std": 3}}
    return str(
        upload(
            admin, VISITS, name="visits at the desk", adjacency="add_remove", max_rows=1000,
            unit={"column": "person", "max_rows": 3}, budget={"epsilon": "500"},
            columns={
                "age": {"type": "number", "lower": 0, "upper": 100}, "dose": wide,
                "ill": {"type": "boolean"},
            },
        )["id"]
    )  # fmt: skip


NO_ERRORS = {
    "en": "leave standard errors out, or ask the curator to choose “One row per person”",
    "de": "Lassen Sie die Standardfehler weg, oder bitten Sie einen Kurator um „Eine Zeile je",
    "fr": "renoncez aux erreurs standard, ou demandez à un curateur de choisir « Une ligne par",
}


def _in(browsing: Browsing, language: str, path: str) -> str:
    answer = browsing.client.get(path, headers={"Accept-Language": language})
    return " ".join(html.fromstring(answer.text).text_content().split())


@pytest.mark.parametrize("language", NO_ERRORS)
def test_a_regression_on_visits_says_what_to_do_about_standard_errors(
    service: Service, admin: httpx.Client, visits: str, language: str
) -> None:
    asked = "statistic=logistic_regression&target=ill&features=age&wanted=epsilon&epsilon=30"
    path = f"/desk/datasets/{visits}/ask?{asked}&inference=1/2&act=preview"
    with person(service, admin, "analyst") as browsing:
        shown = _in(browsing, language, path)
    assert NO_ERRORS[language] in shown
    assert "unit.reduce" not in shown


def test_its_coefficients_are_drawn_without_intervals_and_the_page_says_why(
    chief: Browsing, admin: httpx.Client, visits: str
) -> None:
    question = {"kind": "logistic_regression", "target": "ill", "features": ["age"]}
    answer = settled(admin, ask(admin, visits, question, epsilon="30")).json()
    page = chief.open(f"/desk/releases/{answer['id']}")
    marks = page.tree.xpath("//figure//*[local-name()='circle'][@class='mark']")
    assert len(marks) == 3, "the intercept, the slope and its odds ratio"
    assert "No interval is shown where the noise of a number depends on the data." in page.text
    assert NO_ERRORS["en"] in page.text
    mean = ask(admin, visits, {"kind": "mean", "columns": ["age"]}, epsilon="1").json()
    assert "No interval is shown" not in chief.open(f"/desk/releases/{mean['id']}").text


def test_a_summary_of_visits_has_intervals_of_all_its_numbers(
    chief: Browsing, admin: httpx.Client, visits: str
) -> None:
    question = {"kind": "summary", "columns": ["age"]}
    answer = settled(admin, ask(admin, visits, question, epsilon="60")).json()
    (table,) = chief.open(f"/desk/releases/{answer['id']}").tree.xpath(
        "//table[@class='printed']/tbody"
    )
    lines = [line.text_content() for line in table.xpath("tr")]
    assert [line[:8] for line in lines] == ["age, mea", "age, med"]
    assert all("[" in line for line in lines)


ADVICE = {
    "en": "times as wide as its typical standard deviation.",
    "de": "so weit wie die typische Standardabweichung.",
    "fr": "fois plus larges que son écart type habituel.",
}


@pytest.mark.parametrize("language", ADVICE)
def test_the_advice_to_clip_is_with_the_verdict(
    service: Service, admin: httpx.Client, visits: str, language: str
) -> None:
    asked = "statistic=mean&columns=dose&wanted=epsilon&epsilon=1"
    with person(service, admin, "analyst") as browsing:
        path = f"/desk/datasets/{visits}/ask?{asked}&act=preview"
        assert ADVICE[language] in _in(browsing, language, path)
        form = browsing.open(f"/desk/datasets/{visits}/ask?{asked}&clip=private&act=preview")
    assert ADVICE["en"] not in preview(form)


def test_a_quantile_has_an_interval_unless_it_is_cleared(
    analyst: Browsing, visits: str, dataset: str
) -> None:
    def share(statistic: str, rest: str = "") -> str:
        page = analyst.open(f"/desk/datasets/{dataset}/ask?statistic={statistic}{rest}")
        return str(page.form("Preview").fields["inference"])

    assert (share("quantile"), share("mean")) == ("1/4", "")
    assert share("quantile", "&before=mean&columns=income&inference=") == "1/4"
    assert share("mean", "&before=quantile&column=income&inference=1/4") == ""
    assert share("mean", "&before=quantile&column=income&inference=1/3") == "1/3"
    asked = "statistic=quantile&column=age&levels=0.5&wanted=epsilon&epsilon=30&inference=1/2"
    shown = analyst.open(f"/desk/datasets/{visits}/ask?{asked}&act=preview")
    assert "Expected error" in preview(shown), "persons may have several rows"
    few = "statistic=quantile&column=income&levels=0.5&wanted=epsilon&epsilon=0.01&inference="
    page = analyst.open(f"/desk/datasets/{dataset}/ask?{few}1/4&act=preview")
    assert "Intervals are left out: for the number of records assumed" in preview(page)
    assert "Expected error" in preview(page), "the numbers alone are shown"
    (enough,) = re.findall(r"about epsilon ([\d.]+) would do", preview(page))
    would = few.replace("epsilon=0.01", f"epsilon={enough}")
    shown = analyst.open(f"/desk/datasets/{dataset}/ask?{would}1/4&act=preview")
    assert "Intervals are left out" not in preview(shown), "a hint comes true"
    assert not analyst.send(page, "Release").form("Release").fields.get("inference")
    chosen = analyst.open(f"/desk/datasets/{dataset}/ask?{few}1/3&act=preview", status=422)
    assert "would say nothing" in _fault(chosen, "inference")
