"""The machine-checked lemmas are about the functions as they are, and Coq accepts them all."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from app.domain.ledger import Balance, EntryKind
from app.domain.problems import Problem
from mechanisms import accounting, privacy
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exponential import linear, quantile_regression
from mechanisms.geometry.histograms import HistogramBall
from mechanisms.geometry.joint_moments import JointMomentBall
from mechanisms.geometry.second_moments import SecondMomentBall
from mechanisms.knorm import integer_noise
from mechanisms.objectives import losses
from mechanisms.objectives.design import InterceptHullNorm
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.intervals import GridCodes, draw_scored_place
from mechanisms.statistics import quantile
from mechanisms.statistics.moments import Moments
from mechanisms.testing import seeded_randomness
from tests import lemmas as proofs
from tests.lemmas import PROOFS, Lemma, computed, digest_in, lemmas
from tests.tiers import in_one

FORBIDDEN = re.compile(
    r"\b(?:Admitted|admit|Abort|Axioms?|Parameters?|Conjecture|Declare|Unset|bypass_check)\b"
)
"""What would let a statement pass without its proof."""


def test_the_table_names_every_file_and_every_theorem() -> None:
    names = [f"{lemma.name}.v" for lemma in lemmas()]
    assert proofs.project() == names, "proofs/_CoqProject and proofs/lemmas.toml"
    assert sorted(path.name for path in PROOFS.glob("*.v")) == sorted(names)
    for lemma in lemmas():
        assert list(lemma.says) == lemma.theorems, f"the theorems of {lemma.name}, in their order"


@in_one("lemma", lemmas())
def test_nothing_is_taken_for_granted(lemma: Lemma) -> None:
    assert not FORBIDDEN.findall(lemma.source)
    assert lemma.axioms in proofs.AXIOMS


@in_one("lemma", lemmas())
def test_a_lemma_is_about_its_functions_as_they_are(lemma: Lemma) -> None:
    changed = proofs.stale(lemma.functions)
    assert not changed, (
        f"read proofs/{lemma.name}.v again: {', '.join(changed)} changed. If it still says what "
        f"they do, run: python -m tests.lemmas --looked-at {lemma.name}"
    )


WRITTEN = '''
class Purse:
    """What is left."""

    def after(self, amount: int) -> int:
        """Return what is left."""
        if amount > self.left:
            raise ValueError(f"only {self.left}")
        return self.left - amount  # never below zero
'''
REFORMATTED = """
import decimal
MOST = 3
class Purse:
    def after(
        self,
        amount: int,
    ) -> int:
        # in one line
        if (amount > self.left): raise ValueError(f'only {self.left}')
        return (self.left
            - amount)
"""


def test_formatting_and_words_do_not_change_a_digest_and_all_else_does() -> None:
    seen = digest_in(WRITTEN, "Purse.after")
    assert digest_in(REFORMATTED, "Purse.after") == seen
    for old, new in (
        ("amount >", "amount >="),
        ("- amount", "+ amount"),
        ("amount: int", "amount: float"),
    ):
        assert digest_in(WRITTEN.replace(old, new), "Purse.after") != seen


def test_a_name_that_is_gone_is_no_silent_match() -> None:
    with pytest.raises(LookupError, match="0 definitions"):
        digest_in(WRITTEN, "Purse.before")
    with pytest.raises(LookupError, match="no module"):
        proofs.digest("app.domain.purse:Purse.after")


def test_what_changed_is_named_until_somebody_has_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = proofs.TABLE.read_text("utf-8")
    lemma = lemmas()[0]
    name, seen = next(iter(lemma.functions.items()))
    old = {**lemma.functions, name: "0" * 16}
    assert proofs.stale(old) == {name: seen}
    table = tmp_path / "lemmas.toml"
    table.write_text(text.replace(f'"{name}" = "{seen}"', f'"{name}" = "{"0" * 16}"', 1), "utf-8")
    monkeypatch.setattr(proofs, "TABLE", table)
    lemmas.cache_clear()
    try:
        assert proofs.looked_at(lemma.name) == 1
    finally:
        lemmas.cache_clear()
    assert table.read_text("utf-8") == text


def after_a_step(total: int, spent: int, reserved: int, kind: int, amount: int) -> list[int]:
    """Return a balance after a step, or nothing; the last kind is the debit of what is reserved."""
    before, kinds = Balance(total, spent, reserved), list(EntryKind)
    try:
        taken = before.after(kinds[kind], amount) if kind < len(kinds) else before.approved(amount)
    except (Problem, ValueError):
        return []
    return [taken.total, taken.spent, taken.reserved]


def parts(*values: Fraction) -> list[int]:
    """Return fractions as Coq shows them: numerators and denominators, in turn."""
    return [number for value in values for number in value.as_integer_ratio()]


def units(numerator: int, denominator: int) -> list[int]:
    """Return the whole units that a part of a unit is charged as."""
    return [accounting.units(Fraction(numerator, denominator) * accounting.RHO_UNIT)]


def adjacency(replace: int) -> Adjacency:
    return Adjacency.REPLACE_ONE if replace else Adjacency.ADD_REMOVE


def deltas(twelfths: int, replace: int) -> list[int]:
    """Return Delta of a quantile and of a coordinate of a quantile regression."""
    tau, which = Fraction(twelfths, 12), adjacency(replace)
    return parts(quantile.gradient_sensitivity(tau, which), losses.gradient_sensitivity(tau, which))


def score(twelfths: int, coded: int, point: int) -> list[int]:
    """Return the score that a quantile of a few small numbers is drawn by, at one point."""
    return parts(_scores(twelfths, coded)[point])


@cache
def _scores(twelfths: int, coded: int) -> dict[int, Fraction]:
    """Return the scores of all points, which draws at a small rate soon have visited."""
    data = []
    while coded:
        coded, digit = divmod(coded, 4)
        data.append(digit - 1)
    codes, counts = np.unique(np.array(data, np.int32), return_counts=True)
    grid = GridCodes.count(codes, counts, low=0, high=2)
    seen: dict[int, Fraction] = {}
    randomness, rate = seeded_randomness(7), Fraction(1, 100)
    for _ in range(100):
        at, exponent = draw_scored_place(
            grid, level=Fraction(twelfths, 12), rate=rate, randomness=randomness
        )
        seen[at] = exponent / rate
    return seen


def joint_delta(replace: int, *twelfths: int) -> list[int]:
    """Return Delta of the joint score of one or two levels."""
    levels = [Fraction(level, 12) for level in twelfths if level]
    return parts(quantile.joint_sensitivity(levels, adjacency(replace)))


def hull_norm(weight: int, first: int, other: int) -> list[int]:
    """Return the norm of a change with an intercept; the weight is in twelfths."""
    change = (Fraction(first, 2), Fraction(other, 2))
    return parts(InterceptHullNorm(Fraction(weight, 12)).of(change))


def rates(replace: int, tenths: int, bound: int) -> list[int]:
    """Return the rates of the exponential mechanism: least squares, and the check loss at 1/4."""
    epsilon, wide, which = Fraction(tenths, 10), Fraction(bound), adjacency(replace)
    return parts(
        linear.loss_rate(epsilon, wide, which),
        quantile_regression.loss_rate(epsilon, Fraction(1, 4), wide, which),
    )


def in_histogram(one: int, two: int, three: int, size: int) -> list[int]:
    """Return whether the hulls of a histogram hold three cells: of all records, and of some."""
    balls = (HistogramBall(3, filtered=filtered) for filtered in (False, True))
    return [int(ball.contains((one, two, three), size)) for ball in balls]


def in_ball(ball: SecondMomentBall | JointMomentBall, size: int, *point: int) -> list[int]:
    """Return whether a ball of moments holds a point at this size."""
    return [int(ball.contains(point, size))]


def shares(tenths: int, *weights: int) -> list[int]:
    """Return the shares of epsilon in proportion to some numbers."""
    split = privacy.split(Epsilon(tenths * 10**8), [Fraction(weight) for weight in weights])
    return parts(*(share.fraction for share in split))


def part_of(tenths: int, rows: int) -> list[int]:
    """Return the epsilon of one row, of a person with so many."""
    return parts(privacy.part_of(Epsilon(tenths * 10**8), rows).fraction)


ANSWERS: dict[str, tuple[int, Callable[..., Sequence[int]]]] = {
    "Ledger.steps_table": (5, after_a_step),
    "Filter.units_table": (2, units),
    "CheckLoss.deltas_table": (2, deltas),
    "CheckLoss.scores_table": (3, score),
    "CheckLoss.hull_table": (3, hull_norm),
    "JointQuantiles.joint_table": (3, joint_delta),
    "Ratio.rates_table": (3, rates),
    "Balls.histogram_table": (4, in_histogram),
    "Moments.squares_table": (3, partial(in_ball, SecondMomentBall(1, ((0, 0),)))),
    "Moments.products_table": (4, partial(in_ball, SecondMomentBall(2, ((0, 1),)))),
    "Moments.counted_squares_table": (4, partial(in_ball, JointMomentBall(1, ((0, 0),)))),
    "Moments.counted_products_table": (5, partial(in_ball, JointMomentBall(2, ((0, 1),)))),
    "Composition.shares_table": (4, shares),
    "Groups.parts_table": (2, part_of),
}
"""What answers a row that Coq has computed, and how many of its numbers are what is asked."""


def test_every_table_is_compared() -> None:
    assert list(computed()) == list(ANSWERS)
    tables = [f"{lemma.name}.{table}" for lemma in lemmas() for table in lemma.tables]
    assert tables == list(ANSWERS)


@pytest.mark.parametrize("table", ANSWERS)
def test_the_program_computes_what_coq_computes(table: str) -> None:
    asked, answer = ANSWERS[table]
    rows = computed()[table]
    assert len(rows) > 20
    wrong = [row for row in rows if list(answer(*row[:asked])) != row[asked:]]
    assert not wrong


@in_one("adjacency", Adjacency)
@in_one("epsilon", [Fraction(1, 10), Fraction(1), Fraction(7, 3)])
def test_a_ring_loses_what_the_lemma_says(adjacency: Adjacency, epsilon: Fraction) -> None:
    """A hull's Delta is a whole number of rings, whose rate times that number is epsilon."""
    column = NumberColumn(Fraction(0), Fraction(10))
    rows = 9 if adjacency is Adjacency.REPLACE_ONE else None
    schema = Schema({"a": column, "b": column}, adjacency, rows=rows)
    space = Moments(columns=("a", "b")).additive(schema).space
    noise = integer_noise(space, "optimal", epsilon)
    rings, rest = divmod(space.unit * noise.refinement, noise.steps)
    assert rest == 0
    assert rings > 1
    assert noise.rate * noise.steps * rings == epsilon


def test_the_documents_say_every_lemma_as_the_table_does() -> None:
    page = (proofs.ROOT / "docs/explanation/proofs.md").read_text("utf-8")
    for lemma in lemmas():
        for theorem, words in lemma.says.items():
            assert f"| `{lemma.name}.{theorem}` | {words} |" in page


needs_coq = pytest.mark.skipif(
    not proofs.has_coq(), reason="there is no Coq here: NO LEMMA HAS BEEN CHECKED"
)


@pytest.mark.slow
@needs_coq
def test_coq_accepts_every_proof_and_computes_what_is_kept() -> None:
    assert proofs.faults(proofs.all_checked()) == []


WRONG = """
From Coq Require Import ZArith Lia.
Open Scope Z_scope.
Axiom free : forall spent total : Z, spent <= total.
Theorem never_overspends (spent total : Z) : spent <= total.
Proof. apply free. Qed.
Definition twice := (cons (cons 1 nil) nil).
"""


def only_wrong(place: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put one lemma in the place of all."""
    (place / "Wrong.v").write_text(text, "utf-8")
    (place / "_CoqProject").write_text("Wrong.v\n", "utf-8")
    wrong = Lemma("Wrong", {"never_overspends": ""}, "reals", {}, ("twice",))
    monkeypatch.setattr(proofs, "PROOFS", place)
    monkeypatch.setattr(proofs, "lemmas", lambda: (wrong,))


@pytest.mark.slow
@needs_coq
def test_what_is_taken_for_granted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_wrong(tmp_path, monkeypatch, WRONG)
    found = proofs.all_checked()
    assert "Wrong takes Wrong.free without a proof" in proofs.faults(found)
    assert found["Wrong"].tables == {"twice": [[1]]}


@pytest.mark.slow
@needs_coq
def test_what_does_not_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_wrong(tmp_path, monkeypatch, WRONG.replace("apply free", "lia"))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        proofs.all_checked()
    assert "Cannot find witness" in refused.value.output
