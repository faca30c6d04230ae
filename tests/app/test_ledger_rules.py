"""The pure rules: budget arithmetic, the hash, release states, roles, policies."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from itertools import chain, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ledger import (
    GENESIS,
    MAX_TOTAL,
    Balance,
    Entry,
    EntryKind,
    chain_hash,
    digest_of,
    ledger_head,
)
from app.domain.policies import ENTRIES_BY, RULES, Acting, Ask, Policy, Right, Role, enforce
from app.domain.problems import BudgetExceededError, Problem
from app.domain.releases import (
    TRANSITIONS,
    UNDECIDED,
    ReleaseState,
    may_be_redrawn,
    request_fingerprint,
)
from app.store.database.rules import RULES as WRITTEN_RULES
from mechanisms.privacy import Epsilon

ENTRY = Entry(
    account="acc_1",
    seq=2,
    epoch=1,
    kind="debit",
    principal="ann",
    release="rel_1",
    idem="k",
    fingerprint="f",
    note=None,
    amount=5,
    total_after=10,
    spent_after=5,
    reserved_after=0,
    at="2026-01-01T00:00:00.000000Z",
    prev=GENESIS,
    key="key_1",
    role="analyst",
)


def test_balance_moves_by_kind() -> None:
    balance = Balance(0).after(EntryKind.OPEN, 10)
    assert balance.after(EntryKind.DEBIT, 10) == Balance(10, 10)
    assert balance.after(EntryKind.GRANT, 5) == Balance(15)
    assert balance.after(EntryKind.RESERVE, 4) == Balance(10, 0, 4)
    assert Balance(10, 1, 4).after(EntryKind.UNRESERVE, 4) == Balance(10, 1, 0)
    assert Balance(10, 6, 2).after(EntryKind.EXPIRE, 5) == Balance(8, 6, 2)
    assert Balance(10, 1, 2).after(EntryKind.EXPIRE, 5) == Balance(5, 1, 2)


@pytest.mark.parametrize("kind", [EntryKind.DEBIT, EntryKind.RESERVE])
def test_reserved_budget_cannot_be_spent_twice(kind: EntryKind) -> None:
    with pytest.raises(BudgetExceededError) as refused:
        Balance(3_000_000_000, 1_000_000_000, 1_500_000_000).after(kind, 500_000_001)
    assert refused.value.code == "budget-exceeded"
    assert (refused.value.requested, refused.value.remaining) == (500_000_001, 500_000_000)


@pytest.mark.parametrize("amount", [0, -1, 1.0, True, "1"])
def test_amounts_are_positive_integers(amount: object) -> None:
    with pytest.raises(ValueError, match="amount"):
        Balance(10).after(EntryKind.DEBIT, amount)  # type: ignore[arg-type]


def test_totals_stay_inside_64_bits() -> None:
    with pytest.raises(Problem) as refused:
        Balance(MAX_TOTAL).after(EntryKind.GRANT, 1)
    assert refused.value.code == "invalid-request"


@given(
    st.tuples(*[st.integers(0, 20)] * 3),
    st.tuples(*[st.integers(-2, 22)] * 3),
    st.sampled_from(EntryKind),
    st.integers(0, 20),
)
def test_what_may_follow_is_what_the_rule_gives(
    before: tuple[int, int, int], after: tuple[int, int, int], kind: EntryKind, amount: int
) -> None:
    total, spent, reserved = before
    start, end = Balance(total + spent + reserved, spent, reserved), Balance(*after)
    try:
        allowed = [start.after(kind, amount)]
    except (Problem, ValueError):
        allowed = []
    if kind is EntryKind.DEBIT and 0 < amount <= reserved:
        allowed.append(Balance(start.total, spent + amount, reserved - amount))
    allowed = [b for b in allowed if min(b.spent, b.reserved, b.remaining) >= 0]
    assert start.may_become(end, kind, amount) == (end in allowed)
    for reachable in allowed:
        assert start.may_become(reachable, kind, amount)


def test_only_what_is_reserved_can_be_approved() -> None:
    balance = Balance(10, 1, 4)
    assert balance.approved(4) == Balance(10, 5, 0)
    assert balance.may_become(Balance(10, 5, 0), "debit", 4)
    for amount in (5, 0, -1):
        with pytest.raises(ValueError, match=r"reserved|amount"):
            balance.approved(amount)
    assert not balance.may_become(Balance(10, 6, 0), "debit", 5)


def test_no_more_is_given_back_than_is_reserved() -> None:
    with pytest.raises(ValueError, match="reserved"):
        Balance(10, 1, 4).after(EntryKind.UNRESERVE, 5)
    assert not Balance(10, 1, 4).may_become(Balance(10, 1, -1), "unreserve", 5)


def test_other_kinds_move_nothing() -> None:
    assert Balance(0).may_become(Balance(0), "key_created", 0)
    assert not Balance(0).may_become(Balance(1), "key_created", 0)
    assert not Balance(5).may_become(Balance(5), "key_created", 1)


@pytest.mark.parametrize("name", [f.name for f in fields(Entry) if f.name != "hash"])
def test_every_column_is_hashed(name: str) -> None:
    value = getattr(ENTRY, name)
    other = value + 1 if isinstance(value, int) else f"{value}x"
    assert chain_hash(replace(ENTRY, **{name: other}), "L") != chain_hash(ENTRY, "L")


def test_the_hash_binds_types_and_lengths() -> None:
    assert chain_hash(ENTRY, "L") != chain_hash(ENTRY, "M")
    assert chain_hash(replace(ENTRY, note=""), "L") != chain_hash(ENTRY, "L")
    moved = replace(ENTRY, principal="annr", release="el_1")
    assert chain_hash(moved, "L") != chain_hash(ENTRY, "L")
    assert len({digest_of("1"), digest_of(1), digest_of(b"1"), digest_of("1", None)}) == 4
    assert ENTRY.sealed("L").hash == chain_hash(ENTRY, "L")


def test_the_head_does_not_depend_on_order() -> None:
    assert ledger_head(["b", "a"]) == ledger_head(["a", "b"]) != ledger_head(["a"])


def test_release_states_only_move_forward() -> None:
    """While no one has decided, the turn goes back and forth; from then on nothing comes back."""
    assert set(TRANSITIONS) == set(ReleaseState)
    reach = {state: set(TRANSITIONS[state]) for state in ReleaseState}
    for _ in ReleaseState:
        for later in reach.values():
            later.update(*(reach[state] for state in tuple(later)))
    assert {state for state in ReleaseState if state in reach[state]} == set(UNDECIDED)
    for state in set(ReleaseState) - set(UNDECIDED):
        assert not reach[state] & set(UNDECIDED)
    assert ReleaseState.RESERVED.may_become(ReleaseState.DEBITED)
    assert not ReleaseState.VOID.may_become(ReleaseState.RELEASED)


def test_three_attempts() -> None:
    assert [may_be_redrawn(attempts) for attempts in (1, 2, 3)] == [True, True, False]


def test_fingerprints_tell_requests_and_data_sets_apart() -> None:
    prints = {
        request_fingerprint(dataset=dataset, request=request)
        for dataset, request in (("a", "bc"), ("ab", "c"), ("a", "b"), ("a", "bc"))
    }
    assert len(prints) == 3


KINDS = [*chain.from_iterable(ENTRIES_BY.values()), "unreserve"]


def test_what_each_role_may() -> None:
    rights = {role.value: {right.value for right in Right if role.may(right)} for role in Role}
    assert rights == {
        "metrics": {"watch"},
        "auditor": {"read", "oversee", "see_all"},
        "analyst": {"read", "ask"},
        "reviewer": {"read", "oversee", "decide"},
        "curator": {"read", "ask", "oversee", "decide", "curate"},
        "admin": {right.value for right in Right},
    }


def test_each_role_makes_the_entries_of_its_rights_alone() -> None:
    made = {
        role.value: {kind for kind in (*KINDS, "grant") if Acting("key_1", role).may_make(kind)}
        for role in Role
    }
    assert made["auditor"] == made["metrics"] == set()
    assert made["reviewer"] == {*ENTRIES_BY[Right.DECIDE], "unreserve"}
    assert made["analyst"] == {*ENTRIES_BY[Right.ASK], "unreserve"}
    assert made["curator"] == {*KINDS, "grant"} - {*ENTRIES_BY[Right.ADMINISTER]}
    assert made["admin"] == {*KINDS, "grant"}


def test_policies_refuse_by_the_first_rule_that_objects() -> None:
    policy = Policy(allowed=("mean",), max_epsilon_per_release=Epsilon.parse("0.5"))
    enforce(policy, Ask(kinds=("mean",), epsilon=Epsilon.parse("0.5")))
    enforce(Policy(), Ask(kinds=("count", "mean"), epsilon=Epsilon.parse("9999")))
    for kinds, epsilon, rule in (
        (("mean", "count"), "9", "allowed"),
        (("mean",), "0.500000001", "max_epsilon_per_release"),
    ):
        with pytest.raises(Problem) as refused:
            enforce(policy, Ask(kinds=kinds, epsilon=Epsilon.parse(epsilon)))
        assert (refused.value.code, refused.value.extras["rule"]) == ("policy-refused", rule)
    assert [rule.name for rule in RULES] == ["allowed", "max_epsilon_per_release"]


def test_the_databases_rule_on_makers_is_the_ledgers() -> None:
    (rule,) = (each.holds for each in WRITTEN_RULES if each.name == "entry_made_by")
    assert rule is not None
    asked = "SELECT " + rule.replace("NEW.", ":")
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE api_key (id TEXT, role TEXT, person TEXT)")
        rows = [(f"key_{role.value}", role.value, "ada") for role in Role]
        database.executemany("INSERT INTO api_key VALUES (?, ?, ?)", rows)
        for role, kind in product(Role, (*KINDS, "grant", "dataset_created")):
            entry = {"key": f"key_{role.value}", "role": role.value, "kind": kind}
            (holds,) = database.execute(
                asked, {**entry, "principal": "ada", "idem": None}
            ).fetchone()
            assert bool(holds) is Acting(entry["key"], role.value).may_make(kind), entry
