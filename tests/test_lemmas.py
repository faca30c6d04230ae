"""The machine-checked lemmas are about the functions as they are, and Coq accepts them all."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from app.domain.ledger import Balance, EntryKind
from app.domain.problems import Problem
from tests import lemmas as proofs
from tests.lemmas import PROOFS, Lemma, computed, digest_in, lemmas

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


@pytest.mark.parametrize("lemma", lemmas(), ids=lambda lemma: lemma.name)
def test_nothing_is_taken_for_granted(lemma: Lemma) -> None:
    assert not FORBIDDEN.findall(lemma.source)
    assert lemma.axioms in proofs.AXIOMS


@pytest.mark.parametrize("lemma", lemmas(), ids=lambda lemma: lemma.name)
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


ANSWERS: dict[str, tuple[int, Callable[..., Sequence[int]]]] = {
    "Ledger.steps_table": (5, after_a_step),
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


def test_the_documents_say_every_lemma_as_the_table_does() -> None:
    page = (proofs.ROOT / "docs" / "proofs.md").read_text("utf-8")
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
