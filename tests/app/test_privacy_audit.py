"""The privacy audit: what its bounds certify, which verdicts follow, and what it leaves behind."""

from __future__ import annotations

import json
import math
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import CliRunner, Result
from pydantic import TypeAdapter
from scipy.stats import beta, binom, binomtest

from app.audit import Findings, Offer, Terms, as_html, as_json, as_text, running
from app.audit import keys as audit_keys
from app.audit.report import (
    COLUMNS,
    MAX_ROWS,
    Finding,
    Floats,
    Verdict,
    certified,
    offers_in,
    probe_of,
)
from app.cli import main
from app.cli.refusals import REFUSED
from app.client import AsyncDesk
from app.domain.datasets import parse_columns
from app.engine.schema import schema_of
from mechanisms.catalog import STATISTICS, calibrate, offers
from mechanisms.domain import Schema
from mechanisms.privacy import Adjacency, Epsilon
from tests.app.fake_desk import FakeDesk

SURE = 0.999999
COUNT = Offer("count", "k_norm", "l1", "replace_one")


def laplace(epsilon: float, *, draws: int = 600, width: int = 1, seed: int = 3) -> list[Floats]:
    """Return draws of two neighbours by the Laplace mechanism, the l1 sensitivity being 1."""
    random = np.random.default_rng(seed)
    shift = np.full(width, 1 / width)
    return [random.laplace(side * shift, 1 / epsilon, (draws, width)) for side in (1, 0)]


# Bounds


@pytest.mark.parametrize("width", [1, 3])
def test_a_sound_mechanism_is_never_above_and_a_loud_one_is(width: int) -> None:
    for seed in range(5):
        sound = certified(*laplace(1, width=width, seed=seed), confidence=SURE, offers=9)
        loud = certified(*laplace(4, width=width, seed=seed), confidence=SURE, offers=9)
        assert sound.epsilon <= 1 < loud.epsilon <= loud.reachable
        assert sound.counted == 400


def test_which_data_set_comes_first_does_not_matter() -> None:
    first, second = laplace(4)
    bounds = [
        certified(*pair, confidence=SURE, offers=1) for pair in ((first, second), (second, first))
    ]
    assert bounds[0].epsilon == pytest.approx(bounds[1].epsilon)
    assert bounds[0].hits == tuple(reversed(bounds[1].hits))


def test_what_chose_the_event_is_not_counted() -> None:
    """There is an event for any draws."""
    first, second = np.zeros((300, 1)), np.zeros((300, 1))
    first[:100] = 1
    found = certified(first, second, confidence=0.9, offers=1)
    assert (found.epsilon, found.counted, found.hits) == (0.0, 200, (0, 0))


def test_more_offers_and_more_confidence_certify_less() -> None:
    draws = laplace(4)
    one = certified(*draws, confidence=0.9, offers=1).epsilon
    many = certified(*draws, confidence=0.9, offers=100).epsilon
    surer = certified(*draws, confidence=SURE, offers=1).epsilon
    assert one > many > surer


def test_guesses_are_bound_by_clopper_and_pearson() -> None:
    """All of 50 and none of 50 are 100 right guesses: the bound is known in closed form."""
    first, second = np.ones((75, 1)), np.zeros((75, 1))
    found = certified(first, second, confidence=0.96, offers=10)
    lowest = (0.04 / 10) ** (1 / 100)
    assert found.epsilon == pytest.approx(math.log(lowest / (1 - lowest)))
    assert found.epsilon == found.reachable
    assert found.event == "number 1 > 0"


def test_a_rare_event_is_bound_as_a_ratio() -> None:
    """One draw in ten of one data set, and none of the other: most guesses are wrong."""
    first, second = np.zeros((750, 1)), np.zeros((750, 1))
    first[::10] = 1
    found = certified(first, second, confidence=0.96, offers=10)
    level = 0.04 / 10 / 4
    ratio = binomtest(50, 500).proportion_ci(1 - 2 * level).low / (1 - level ** (1 / 500))
    assert found.epsilon == pytest.approx(math.log(ratio))
    assert found.hits == (50, 0)


def test_no_two_laws_at_a_promise_are_guessed_better() -> None:
    """The exact chance of a false flag, for any two probabilities that the promise allows."""
    draws, level, odds = 40, 1e-3, math.e
    counts = np.arange(1, 2 * draws + 1)
    flags = beta.ppf(level, counts, 2 * draws - counts + 1) > odds / (1 + odds)
    worst = 0.0
    for unlikely in np.linspace(0.005, 0.9, 180):
        likely = min(odds * unlikely, 1 - (1 - unlikely) / odds)
        laws = (binom.pmf(range(draws + 1), draws, p) for p in (likely, 1 - unlikely))
        worst = max(worst, float(np.convolve(*laws)[1:][flags].sum()))
    assert level / 10 < worst <= level


def test_a_hundred_draws_flag_a_desk_at_four_times_its_epsilon() -> None:
    """Ratios alone need three times as many; chosen by half of them, these flag 29 of 40."""
    flagged = sum(
        certified(*laplace(4, draws=100, seed=seed), confidence=0.999, offers=60).epsilon > 1
        for seed in range(40)
    )
    assert flagged >= 36


@pytest.mark.parametrize("draws", [0, 2])
def test_without_three_draws_nothing_is_certified(draws: int) -> None:
    table = np.zeros((draws, 1))
    found = certified(table, table, confidence=0.9, offers=1)
    assert (found.epsilon, found.reachable) == (0.0, 0.0)


def test_answers_without_a_number_are_none() -> None:
    empty = np.zeros((4, 0))
    with pytest.raises(ValueError, match="no number"):
        certified(empty, empty, confidence=0.9, offers=1)


@pytest.mark.statistical
def test_a_mechanism_at_its_promise_is_rarely_flagged() -> None:
    """400 audits at 90%: more than 80 flagged have a chance below 1e-9 (binomial, 0.1)."""
    flagged = sum(
        certified(*laplace(1, draws=100, seed=seed), confidence=0.9, offers=1).epsilon > 1
        for seed in range(400)
    )
    assert flagged <= 80


# Offers and pairs


def facts(adjacency: Adjacency, rows: int, *, zcdp: bool) -> Schema:
    """Return the throw-away data sets' columns as the mechanisms know them."""
    spec = parse_columns(COLUMNS, adjacency=adjacency, max_rows=MAX_ROWS)
    return schema_of(spec, rows=rows, zcdp=zcdp)


def catalog() -> list[dict[str, object]]:
    return [
        {
            "statistic": offer.statistic,
            "mechanism": offer.mechanism,
            "norms": offer.norms,
            "adjacencies": offer.adjacencies,
            "accounting": offer.accounting,
        }
        for offer in offers()
    ]


def test_every_offer_of_the_catalog_has_a_pair_and_can_be_asked() -> None:
    for offer in offers_in(catalog(), ()):
        probe = probe_of(offer)
        assert probe is not None, f"give the class of {offer} a probe"
        question = TypeAdapter(STATISTICS[offer.statistic]).validate_python(probe.question)
        adjacency = Adjacency(offer.adjacency)
        rows = len(probe.pair.rows(offer.adjacency, 0))
        schema = facts(adjacency, rows, zcdp=offer.accounting == "zcdp")
        plan = calibrate(
            question, schema, Epsilon.parse("2"), mechanism=offer.mechanism, norm=offer.norm
        )
        assert str(plan.guarantee.epsilon) == "2"


def test_what_a_field_draws_in_another_way_is_an_offer_of_its_own() -> None:
    offers = offers_in(catalog(), ["histogram"])
    drawn = {str(each) for each in offers if each.variant}
    assert drawn == {
        f"histogram/{way}/{adjacency}/ranges"
        for way in ("k_norm/l1", "gaussian/auto")
        for adjacency in ("replace_one", "add_remove")
    }
    assert {str(each) for each in offers_in(catalog(), ["ranges"])} == drawn
    # the usual way is tried too, with another question
    for each in offers:
        probe = probe_of(each)
        assert probe is not None
        assert probe.question.get("ranges", False) == bool(each.variant)


def test_neighbours_differ_in_one_row() -> None:
    for offer in offers_in(catalog(), ()):
        probe = probe_of(offer)
        assert probe is not None
        first, second = (set(probe.pair.rows(offer.adjacency, side)) for side in range(2))
        assert len(first - second) == 1
        assert len(second - first) == (offer.adjacency == "replace_one")
        header, *lines = probe.pair.csv(offer.adjacency, 0).splitlines()
        assert header == ",".join(COLUMNS)
        assert len(lines) == len(probe.pair.rows(offer.adjacency, 0))


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [("count", True), ("k_norm", True), ("count/l1", True), ("count/l2", False), ("cou", False)],
)
def test_a_pattern_names_parts_of_an_offer(pattern: str, matches: bool) -> None:
    assert COUNT.matches(pattern) == matches


# Verdicts and reports


def findings(*found: Finding) -> Findings:
    return Findings(
        url="http://desk.example/<b>",
        began_at="2026-01-01T00:00:00+00:00",
        took_s=1.5,
        terms=Terms(epsilon="1"),
        offers=found,
    )


def finding(epsilon: float, *, draws: int = 600) -> Finding:
    bound = certified(*laplace(epsilon, draws=draws), confidence=0.999, offers=1)
    return Finding(COUNT, "1", draws, bound)


LOUD, SOUND, FEW = finding(4), finding(1), finding(1, draws=12)
UNKNOWN = Finding(COUNT, "1", note="there was no time to ask")


def test_verdicts() -> None:
    assert [each.verdict for each in (LOUD, SOUND, FEW, UNKNOWN)] == [
        Verdict.FLAGGED,
        Verdict.KEPT,
        Verdict.FEW,
        Verdict.UNKNOWN,
    ]


def test_the_report_as_json() -> None:
    told = json.loads(as_json(findings(LOUD, SOUND, FEW, UNKNOWN)))
    assert told["ok"] is False
    assert told["confidence"] == 0.999
    assert "Bonferroni" in told["correction"]
    loud, _, _, unknown = told["offers"]
    assert loud["promised_epsilon"] == "1" < str(loud["epsilon_at_least"])
    assert (loud["statistic"], loud["norm"], loud["verdict"]) == ("count", "l1", "FLAGGED")
    assert (loud["draws"], loud["counted"]) == (600, 400)
    assert unknown["epsilon_at_least"] is None
    assert unknown["note"] == "there was no time to ask"
    assert json.loads(as_json(findings(SOUND)))["ok"] is True


def test_the_report_as_text() -> None:
    header, *rows, _, last = as_text(findings(LOUD, SOUND, FEW, UNKNOWN))
    assert header.split()[:2] == ["offer", "promised"]
    assert [row.split()[0] for row in rows] == [str(COUNT)] * 4
    assert "1 of 4 offers lose more than promised" in last
    assert "Too few draws: 1. Not audited: 1." in last
    assert "No offer is above its promise" in list(as_text(findings(SOUND)))[-1]


class Page(HTMLParser):
    """Notes the tags, and whatever would be loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in {"src", "href"}]


def test_the_report_as_a_page_needs_nothing_else() -> None:
    text = as_html(findings(LOUD, SOUND, FEW, UNKNOWN))
    page = Page()
    page.feed(text)
    assert page.loaded == []
    assert "script" not in page.tags
    assert page.tags.count("tr") == 5
    assert "&lt;b&gt;" in text
    assert "FLAGGED" in text


# The whole of it, on an answering machine


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeDesk:
    """Return a desk that every client of an audit reaches."""
    fake = FakeDesk()
    line = partial(AsyncDesk, transport=httpx.MockTransport(fake))
    monkeypatch.setattr(audit_keys, "AsyncDesk", line)
    monkeypatch.chdir(tmp_path)
    return fake


def run(*words: str) -> Result:
    command = ("audit", "privacy", "http://desk", "--key", "k" * 40, *words)
    return CliRunner().invoke(main, command)


FAST = ("--offers", "count", "--offers", "stack", "--offers", "mode")
"""Without the job, which is waited for."""


def told(place: str = "privacy-audit.json") -> dict[str, dict[str, object]]:
    """Return what the report says of each offer, by its statistic."""
    return {each["statistic"]: each for each in json.loads(Path(place).read_text())["offers"]}


def test_a_sound_desk_passes_and_nothing_is_left_behind(desk: FakeDesk) -> None:
    done = run(*FAST, "--draws", "300", "--confidence", "0.999999", "--epsilon", "1")
    assert done.exit_code == 0, done.output
    found = told()
    assert found["count"]["verdict"] == found["stack"]["verdict"] == Verdict.KEPT
    assert (found["mode"]["verdict"], found["mode"]["draws"]) == (Verdict.UNKNOWN, 0)
    assert Path("privacy-audit.html").read_text().startswith("<!doctype html>")
    assert desk.datasets == {}
    assert desk.keys == set()
    assert desk.made_keys == 4
    # count and stack have the same pair
    assert [spec["budget"]["epsilon"] for spec in desk.specs] == ["600", "600"]
    assert all(spec["overlap"]["reason"] for spec in desk.specs)


def test_a_loud_desk_is_flagged(desk: FakeDesk) -> None:
    desk.louder = 8
    few = ("--draws", "300", "--confidence", "0.999999", "--epsilon", "1")
    done = run(*FAST, *few, "--out", "found/loud")
    assert done.exit_code == REFUSED, done.output
    found = told("found/loud.json")
    assert found["count"]["verdict"] == Verdict.FLAGGED
    assert "lose more than promised" in done.output
    assert (desk.datasets, desk.keys) == ({}, set())


def test_many_draws_come_in_one_release_unless_they_shall_not(desk: FakeDesk) -> None:
    run("--draws", "41", "--offers", "count")
    together = desk.releases
    run("--draws", "41", "--offers", "count", "--alone")
    assert (together, desk.releases - together) == (2 * 4, 2 * 41)


def test_jobs_are_waited_for(desk: FakeDesk) -> None:
    """They are short, as the desk has a lane for those; and several, so that none is free."""
    done = run("--draws", "21", "--offers", "kng")
    assert done.exit_code == 0, done.output
    assert told()["geometric_median"]["draws"] == 21
    assert desk.releases == 2 * (1 + 4)
    assert desk.most_running == 2 * 4


def test_every_offer_is_asked_once_before_one_has_its_fill(
    desk: FakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So jobs, which take longest, do not wait for all others."""
    monkeypatch.setattr(running, "_AT_ONCE", 1)
    assert run("--draws", "5").exit_code == 0
    assert "geometric_median" in desk.asked[:4]


def test_limits_of_a_person_are_waited_for_or_shared(desk: FakeDesk) -> None:
    desk.refusals = ["rate-limited", "too-much-stored", "too-many-jobs", "busy"]
    done = run("--draws", "40", "--offers", "count")
    assert done.exit_code == 0, done.output
    assert told()["count"]["draws"] == 40
    assert desk.made_keys == 5
    assert (desk.datasets, desk.keys) == ({}, set())


def test_a_refused_offer_says_so(desk: FakeDesk) -> None:
    desk.refusals = ["invalid-request"] * 2
    assert run("--draws", "40", "--offers", "count").exit_code == 0
    count = told()["count"]
    assert count["verdict"] == Verdict.UNKNOWN
    assert "invalid-request" in str(count["note"])


def test_no_time_is_no_verdict(desk: FakeDesk) -> None:
    assert run("--seconds", "1e-9").exit_code == 0
    assert told()["count"]["note"] == "there was no time to ask"


@pytest.mark.parametrize(
    "words", [("--offers", "nothing"), ("--epsilon", "much"), ("--epsilon", "0")]
)
def test_a_wrong_pattern_is_wrong_usage(desk: FakeDesk, words: tuple[str, str]) -> None:
    assert run(*words).exit_code == 2
    assert (desk.datasets, desk.keys) == ({}, set())
