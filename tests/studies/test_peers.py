"""The comparison with other libraries: what is measured, the page that tells it, and the pipe."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS

from mechanisms.accounting import total_units
from studies.peers import auditing, comparing, deltas, pairs, simple, synthetic, tables, urban
from studies.peers.asking import PYTHON, Peer, running
from studies.peers.cells import Call, Cell
from studies.peers.comparing import Row
from studies.peers.measures import Summary, proved_epsilon, ratio, stated_for, summary
from studies.peers.run import fresh, kept
from studies.peers.there import __main__ as there
from studies.peers.there import by_chain, by_microdata
from tests.documents import ROOT
from tests.tiers import in_one

PAGE = ROOT / "docs/research/peers.md"
ROW = Row(
    cell="toy",
    statistic="mean",
    adjacency="replace_one",
    rows=10,
    epsilon="1",
    method="ours",
    version="k_norm linf",
    stated_epsilon=1.0,
    true_epsilon=1.0,
    replicate_count=100,
    error_mean=1.0,
    error_median=1.0,
    error_se=0.1,
    ms=1.0,
    ms_from_rows=2.0,
    promise="holds",
    remark="",
)


def peer_row(**changes: object) -> Row:
    return replace(ROW, method="peer", version="1", **changes)  # type: ignore[arg-type]


def answering(name: str, *answers: list[list[float] | None]) -> Peer:
    """Return a peer that answers so."""
    lines = [json.dumps({"values": each, "ms": [1.0] * len(each)}) for each in answers]
    return Peer(name, "1", StringIO(), StringIO("\n".join(lines) + "\n"))


def cell_of(name: str) -> Cell:
    return next(cell for cell in simple.cells() if cell.name == name)


def test_a_summary_does_not_time_the_first_draw() -> None:
    found = summary([1.0, 2.0, 6.0], [100.0, 1.0, 3.0])
    assert (found.replicate_count, found.error_mean, found.error_median) == (3, 3.0, 2.0)
    assert found.error_se == pytest.approx(math.sqrt(7 / 3))
    assert found.ms == 2.0


def test_a_ratio_has_the_errors_of_both() -> None:
    one = Summary(replicate_count=9, error_mean=2.0, error_median=2.0, error_se=0.2, ms=1.0)
    found = ratio(one, replace(one, error_mean=4.0, error_se=0.8))
    assert found.value == 0.5
    assert found.se == pytest.approx(0.5 * math.hypot(0.1, 0.2))


@in_one("norm", [1.0, math.sqrt(7), 12.0, 100.0])
@in_one("wanted", [0.25, 1.0, 2.0])
def test_what_is_stated_to_diffprivlib_can_be_proved(norm: float, wanted: float) -> None:
    stated = stated_for(wanted, norm=norm, rows=1_000)
    assert wanted - 0.05 < proved_epsilon(stated, norm=norm, rows=1_000) <= wanted


def test_long_rows_break_what_diffprivlib_states() -> None:
    """By its code and by its proof: R where R^2 is due. The audits certify it."""
    assert proved_epsilon(1.0, norm=1.0, rows=100) < 1
    assert proved_epsilon(1.0, norm=12.0, rows=100) > 1.9
    assert proved_epsilon(1.0, norm=100.0, rows=100) > 3.8


def test_rows_are_read_as_they_were_written() -> None:
    rows = [ROW, peer_row(true_epsilon=None, error_mean=0.125)]
    assert tables.read(tables.written(rows), Row) == rows
    with pytest.raises(ValueError, match="columns"):
        tables.read("cell,statistic\nmean,mean\n", Row)


def test_only_equal_true_epsilons_are_compared() -> None:
    rows = [ROW, peer_row(), peer_row(true_epsilon=0.5), peer_row(true_epsilon=None)]
    assert len(list(tables.pairings(rows))) == 1


def test_who_errs_more_or_takes_longer_is_behind() -> None:
    (worse,) = tables.pairings([ROW, peer_row(error_mean=0.5)])
    assert worse.behind
    better = replace(ROW, method="ours, other", version="other", error_mean=0.5)
    (found,) = tables.pairings([ROW, better, peer_row(error_mean=0.9)])
    assert not found.behind  # within two standard errors
    assert found.error.value == pytest.approx(1 / 0.9)
    assert (found.best.value, found.best_method) == (pytest.approx(0.5 / 0.9), "other")
    (even,) = tables.pairings([ROW, peer_row()])
    assert not even.behind
    (slow,) = tables.pairings([ROW, peer_row(ms=0.5)])
    assert slow.behind
    (short,) = tables.pairings([ROW, peer_row(statistic="linear", error_mean=2.0)])
    assert short.short_of_gain
    assert not short.behind


def test_the_page_tells_what_its_rows_say() -> None:
    assert PAGE.read_text("utf-8") == fresh(PAGE), (
        "run: python -m studies.peers --page docs/research/peers.md"
    )


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no <!-- peers -->"):
        tables.rewritten("# Title\n", kept(PAGE))


def test_where_a_peer_is_ahead_the_page_says_why() -> None:
    found = [each for each in tables.pairings(kept(PAGE).rows) if each.behind or each.short_of_gain]
    assert found
    assert [each.row.method for each in found if not each.row.remark] == []


def test_each_peer_has_been_asked() -> None:
    found = kept(PAGE)
    named = {row.method.partition(",")[0] for row in found.rows}
    assert named == {"ours", "opendp", "diffprivlib", "tumult", "chain"}
    assert {each.method for each in found.audits if each.broken} >= {"diffprivlib"}
    assert not [each for each in found.audits if each.method == "ours" and each.broken]


def test_we_answer_a_cell() -> None:
    cell = cell_of("mean")
    (row,) = comparing.rows_of(replace(cell, ours=(cell.ours[0],), peers=()), {}, quick=True)
    assert row.method == "ours"
    assert 0.07 < row.error_mean < 0.13  # a Laplace variable of scale 100 / 1,000


def test_a_peer_answers_a_cell() -> None:
    cell = cell_of("mean")
    call = Call(peer="toy", stated=1.0, true=1.0, draws=8)
    peer = answering("toy", [[cell.truth[0] + 3.0]] * 8)
    row = comparing.theirs(cell, call, peer, quick=False)
    assert (row.method, row.error_mean, row.replicate_count) == ("toy", pytest.approx(3.0), 8)
    with pytest.raises(RuntimeError, match="refused"):
        comparing.theirs(cell, call, answering("toy", [[1.0]] * 7 + [None]), quick=False)


def test_a_peer_that_stops_is_reported() -> None:
    with pytest.raises(RuntimeError, match="stopped"):
        Peer("toy", "1", StringIO(), StringIO()).ask("mean", {}, {}, draws=1)


def test_an_audit_refutes_who_leaks_and_not_us() -> None:
    pair = next(each for each in pairs.pairs() if each.name == "mean of ten")
    pair = replace(pair, draws=2_000, calls=(pair.calls[0],))
    leak = answering("opendp", [[0.0]] * 2_000, [[0.1]] * 2_000)
    ours, theirs = auditing.audits(pair, {"opendp": leak}, quick=False)
    assert not ours.broken
    assert theirs.broken
    assert theirs.certified_epsilon > 4


def test_floats_next_to_a_number_are_told() -> None:
    assert pairs.on_grid([2**-10])
    assert not pairs.on_grid([2**-10 + 2**-60])
    assert not pairs.on_grid([0.5])
    assert not pairs.on_grid(None)


def test_overlap_is_the_share_that_two_intervals_have_in_common() -> None:
    assert urban.overlap((0.0, 2.0), (1.0, 3.0)) == 0.5
    assert urban.overlap((0.0, 4.0), (1.0, 2.0)) == 0.625
    assert urban.overlap((0.0, 1.0), (2.0, 3.0)) == -1.0
    assert urban.holds_zero((-1.0, 0.0))
    assert not urban.holds_zero((0.5, 1.0))


def test_the_confidential_fit_is_what_statsmodels_prints() -> None:
    rng = np.random.default_rng(7)
    design = np.column_stack([np.ones(60), rng.uniform(-1, 1, (60, 2))])
    target = design @ [0.1, 0.5, -0.2] + rng.normal(0, 0.3, 60)
    found, intervals = urban.confidential(design, target)
    fit = OLS(target, design).fit()
    assert found == pytest.approx(fit.params)
    assert np.array(intervals) == pytest.approx(fit.conf_int())


def test_the_peers_are_pinned_by_hashes() -> None:
    text = (ROOT / "studies" / "peers" / "requirements.lock").read_text("utf-8")
    pinned = re.findall(r"^([\w-]+)==.*(?:\n    --hash=sha256:[0-9a-f]{64}.*)+", text, re.MULTILINE)
    assert {"opendp", "diffprivlib", "tmlt-core", "scikit-learn"} <= set(pinned)
    assert len(pinned) == len(re.findall(r"^\w", text, re.MULTILINE))
    assert not re.findall(r"^-", text, re.MULTILINE)


DATA = {"x0": [-0.5, 0.0, 0.5, 1.0], "y": [-0.4, 0.1, 0.3, 0.9]}


@pytest.mark.parametrize(
    ("statistic", "settings"),
    [
        ("linear", {"bound": 1.0, "delta": 8.0, "epsilon": 1.0}),
        (
            "quantile_regression",
            {"bound": 1.0, "delta": 1.0, "epsilon": 1.0, "tau": 0.5, "begin": [0.0, 0.5]},
        ),
    ],
)
def test_a_chain_stays_within_its_bound(statistic: str, settings: dict[str, object]) -> None:
    drawn = [by_chain.make(statistic, DATA, settings)() for _ in range(5)]
    assert all(sum(map(abs, each)) <= 1 for each in drawn)
    assert len({tuple(each) for each in drawn}) == 5


def test_a_request_is_answered_with_times() -> None:
    settings = {"bounds": [0.0, 1.0], "levels": [0.5], "delta": 1.0, "epsilon": 1.0}
    request = {"statistic": "quantile", "data": {"x": [0.2, 0.4]}, "settings": settings, "draws": 3}
    found = there.answer("chain", request)
    assert len(found["values"]) == len(found["ms"]) == 3
    assert all(0 <= value <= 1 for (value,) in found["values"])


def test_draws_that_take_too_long_are_given_up() -> None:
    """Others are drawn by a new process: a run of all cells comes to its end."""
    data = {"x": [0.2, 0.4]}
    settings = {"bounds": [0.0, 1.0], "levels": [0.5], "delta": 1.0, "epsilon": 1.0}
    with running("chain", Path(sys.executable)) as chain:
        late = chain.ask("quantile", data, settings, draws=2, limit_s=0.001)
        assert late.values == [None, None]
        assert late.ms == [1.0, 1.0]
        answer = chain.ask("quantile", data, settings, draws=1)
        assert all(0 <= each <= 1 for each in answer.values[0] or [2.0])


@pytest.fixture(scope="module")
def peers() -> Iterator[dict[str, Peer]]:
    if not PYTHON.exists():
        pytest.skip("NOT RUN: no peer is asked, as `make peers` has not installed them")
    with ExitStack() as stack:
        yield {name: stack.enter_context(running(name)) for name in there.PACKAGES}


@pytest.mark.slow
def test_real_peers_answer_a_tiny_cell(peers: dict[str, Peer]) -> None:
    cell = cell_of("mean")
    cell = replace(cell, peers=tuple(replace(call, draws=200) for call in cell.peers))
    rows = {row.method: row for row in comparing.rows_of(cell, peers, quick=False)}
    assert set(rows) == {"ours", "opendp", "diffprivlib", "tumult"}
    assert all(0.05 < row.error_mean < 0.2 for row in rows.values())


# Regressions with a delta, and tables


def with_delta(method: str, error: float, **changes: object) -> deltas.WithDelta:
    row = deltas.WithDelta(
        cell="toy",
        rows=10,
        coefficients=2,
        epsilon="1",
        method=method,
        delta=1e-6,
        replicate_count=100,
        unanswered=0,
        error_mean=error,
        error_se=0.01,
        ms=1.0,
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def test_what_is_tuned_on_the_answer_is_compared_with_what_is_tuned_too() -> None:
    rows = [
        with_delta(deltas.OURS, 2.0),
        with_delta(deltas.PERTURBED, 1.5),
        with_delta(f"ours, {deltas.TUNED}", 0.5),
        with_delta("plain", 1.0),
        with_delta(f"plain, {deltas.TUNED}", 1.0),
        with_delta("elsewhere", 1.0, cell="other"),
        with_delta(deltas.OURS, 1.0, cell="other"),
    ]
    plain, tuned, other = deltas.against(rows)
    assert (plain.best.value, plain.auto.value, plain.best_errs_more) == (1.5, 2.0, True)
    assert (tuned.best.value, tuned.best_errs_more, tuned.errs_more) == (0.5, False, True)
    assert (other.best.value, other.errs_more) == (1.0, False)
    shown = "\n".join(deltas.lines(rows))
    assert "- `auto`: 1\n- the best of ours: 2\n" in shown
    assert "**toy, epsilon 1, plain**: `auto` 2.00" in shown


def test_an_epsilon_with_a_delta_is_spent_in_zcdp() -> None:
    found = deltas.epsilon_in_zcdp("1", 1e-6)
    rho = found.fraction**2 / 2
    assert rho * 10**12 <= total_units(Fraction(1), Fraction("1e-6"))
    assert (found.fraction + Fraction(2, 10**9)) ** 2 / 2 * 10**12 > total_units(
        Fraction(1), Fraction("1e-6")
    )


def test_a_draw_without_an_answer_counts_as_zeros() -> None:
    cell = next(iter(deltas.cells()))
    row = deltas.measured(cell, "silent", 1e-6, lambda: None, 3)
    assert row.unanswered == 3
    assert row.error_mean == pytest.approx(math.hypot(*cell.truth))


def file_of(rows: list[list[int]]) -> synthetic.File:
    codes = np.array(rows, dtype=np.int64)
    return synthetic.File(name="wages", rows=codes, tests=codes)


def test_margins_of_the_same_rows_do_not_differ_and_of_others_do() -> None:
    file = file_of([[0, 1, 2, 0], [3, 1, 2, 1], [0, 4, 5, 1], [50, 6, 7, 0]])
    assert file.mean_tv(file.margins(file.rows)) == 0
    other = file.rows.copy()
    other[:, 0] = 7
    assert file.mean_tv(file.margins(other)) == pytest.approx(0.5)  # three of six pairs


def test_a_classifier_learns_what_synthetic_rows_have() -> None:
    rng = np.random.default_rng(3)
    education = rng.integers(0, 7, 300)
    rows = np.column_stack(
        [rng.integers(0, 51, 300), education, rng.integers(0, 8, 300), education > 3]
    )
    file = file_of(rows.tolist())
    assert file.accuracy(file.rows) > 0.95
    wrong = file.rows.copy()
    wrong[:, 3] = 1 - wrong[:, 3]
    assert file.accuracy(wrong) < 0.2
    wrong[:, 3] = 1
    assert file.accuracy(wrong) == pytest.approx((education > 3).mean())


def synthesized(method: str, tv: float, accuracy: float | None) -> synthetic.Synthesized:
    return synthetic.Synthesized(
        data="acs",
        rows=10,
        columns=3,
        what=synthetic.ROWS,
        epsilon="1",
        delta=0.0,
        method=method,
        replicate_count=5,
        tv=tv,
        tv_se=0.001,
        accuracy=accuracy,
        accuracy_se=0.001,
        real_accuracy=0.9,
        ms=1.0,
    )


def test_the_best_of_ours_is_taken_for_margins_and_for_accuracy() -> None:
    first, second = synthetic.OURS
    rows = [
        synthesized(first, 0.1, 0.6),
        synthesized(second, 0.2, 0.8),
        synthesized("opendp, MST", 0.2, 0.7),
        synthesized("opendp, AIM", 0.1, 0.9),
    ]
    mst, aim = synthetic.against(rows)
    assert (mst.tv.value, mst.behind) == (0.5, False)
    assert mst.wrong is not None
    assert mst.wrong.value == pytest.approx(0.2 / 0.3)
    assert aim.behind
    shown = "\n".join(synthetic.lines(rows))
    assert "In 1 of 2 cells" in shown
    assert "**Ours is worse: acs, synthetic rows, epsilon 1, pure, opendp, AIM**" in shown


def test_a_peer_answers_with_rows_and_ours_with_tables() -> None:
    name = "acs"
    sizes = list(by_microdata.sizes(name).values())
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.integers(0, size, 60) for size in sizes])
    flat = rows.ravel().astype(float).tolist()
    peers = {
        synthetic.DATA: answering("microdata", [flat], [flat]),
        synthetic.MBI: answering("mbi", [flat], [flat]),
    }
    asked = (
        synthetic.Asked(data=name, what=synthetic.ROWS, algorithm="mst", draws=1, is_quick=True),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "ASKED", asked)
        patch.setattr(synthetic, "OWN_DRAWS", 8)
        found = list(synthetic.synthetic(peers, quick=True, only=name, epsilons=("1", "4")))
    theirs = [row for row in found if row.method not in synthetic.OURS]
    assert [(row.delta, row.tv, row.replicate_count) for row in theirs] == [
        (0.0, 0.0, 1),
        (1e-6, 0.0, 1),
    ]
    assert len(found) == 2 * 4
    assert all(0 < row.tv < 0.6 for row in found if row not in theirs)


def test_cells_of_microdata_are_closed_below() -> None:
    found = by_microdata.cells("acs", "income", [math.nan, -1.0, 0.0, 1.0, 90_000.0])
    assert found == [0, 0, 1, 2, 6]
    assert by_microdata.cells("adult", "country", ["?", "Mexico", "Atlantis"]) == [0, 2, 6]
    with pytest.raises(KeyError):
        by_microdata.cells("adult", "sex", ["Neither"])
    for name, columns in by_microdata.COLUMNS.items():
        assert set(by_microdata.sizes(name)) == set(columns)
        assert by_microdata.sizes(name)[by_microdata.TARGETS[name]] == 2


@pytest.mark.slow
def test_real_microdata_fit_their_cells(peers: dict[str, Peer]) -> None:
    for name, rows in {"acs": 1_500, "wages": 22_125, "adult": 32_561}.items():
        file = synthetic.read(name, peers[synthetic.DATA])
        assert len(file.rows) == rows
        assert (file.rows.min(axis=0) >= 0).all()
        assert (file.rows.max(axis=0) < list(file.sizes.values())).all()
