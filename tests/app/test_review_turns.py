"""Turns, votes, versions and comments on the ledger itself, on both databases."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.domain.access import Span
from app.domain.ledger import EntryKind
from app.domain.problems import Problem
from app.domain.releases import GIVEN_BACK, TRANSITIONS, UNDECIDED, ReleaseState
from app.domain.reviews import Count, Decision, Difference, Event, Vote, differences, event_of
from app.services.plans.answers import status_of
from app.store import UnitOfWork, inspecting
from app.store.ledger.reviewing.votes import View
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, opened, raw, talked_about

STATES = tuple(ReleaseState)
ANSWER = b'{"id":"rel"}'


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with opened(place, total=100) as found:
        yield found


def reserved(ledger: Ledger, idem: str = "asked", amount: int = 30) -> str:
    return ledger.store.write(lambda u: ledger.reserve(u, idem, amount)).id


def revise(u: UnitOfWork, release: str, amount: int = 20, request: str = '{"less":1}') -> None:
    u.reviews.revise(release, amount=amount, request=request, plan='{"p":2}')


def end(state: ReleaseState) -> Callable[[UnitOfWork, str], object]:
    return lambda u, release: u.reviews.unreserve(release, state, principal=CURATOR, reason="no")


STEPS: dict[ReleaseState, Callable[[UnitOfWork, str], object]] = {
    ReleaseState.RESERVED: revise,
    ReleaseState.CHANGES_REQUESTED: lambda u, release: u.reviews.request_changes(
        release, principal=CURATOR, reason="why so much?"
    ),
    ReleaseState.DEBITED: lambda u, release: u.reviews.approve(release, principal=CURATOR),
    ReleaseState.RELEASED: lambda u, release: u.releases.finish(release, ANSWER),
    ReleaseState.VOID: lambda u, release: u.releases.void(release),
    **{state: end(state) for state in GIVEN_BACK},
}
"""What takes a release to each state."""

WAYS: dict[ReleaseState, tuple[ReleaseState, ...]] = {
    ReleaseState.RESERVED: (),
    ReleaseState.CHANGES_REQUESTED: (ReleaseState.CHANGES_REQUESTED,),
    ReleaseState.DEBITED: (ReleaseState.DEBITED,),
    ReleaseState.RELEASED: (ReleaseState.DEBITED, ReleaseState.RELEASED),
    ReleaseState.VOID: (ReleaseState.DEBITED, ReleaseState.VOID),
    **{state: (state,) for state in GIVEN_BACK},
}
"""How a release gets to each state from its beginning."""


def test_every_step_of_the_table_is_there_and_no_other(ledger: Ledger) -> None:
    """Each pair of states: the store takes the step exactly where the table has it."""
    write = ledger.store.write
    for before, after in itertools.product(STATES, STATES):
        release = reserved(ledger, f"{before} {after}", 1)
        for step in WAYS[before]:
            write(lambda u, s=step, r=release: STEPS[s](u, r))
        with ledger.store.reading() as r:
            found = r.releases.get(release)
        assert found is not None
        assert found.state is before
        if after not in TRANSITIONS[before]:
            with pytest.raises(Problem, match=r"precondition|release-void"):
                write(lambda u, s=after, r=release: STEPS[s](u, r))
            continue
        write(lambda u, s=after, r=release: STEPS[s](u, r))
        with ledger.store.reading() as r:
            found = r.releases.get(release)
        assert found is not None
        assert found.state is after
    assert ledger.store.verify().ok


def test_the_documented_states_are_those_of_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/reviews.md").read_text("utf-8")
    drawn = {(before, after) for before, after in re.findall(r"^    (\w+) --> (\w+)$", page, re.M)}
    assert drawn == {(one, other) for one, others in TRANSITIONS.items() for other in others}
    listed = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.M))
    assert listed == {state: status_of(state) for state in ReleaseState}


@pytest.mark.parametrize("before", UNDECIDED)
def test_an_end_that_is_none_is_refused(ledger: Ledger, before: ReleaseState) -> None:
    release = reserved(ledger)
    for step in WAYS[before]:
        ledger.store.write(lambda u, s=step: STEPS[s](u, release))
    with pytest.raises(ValueError, match="cannot end so"):
        ledger.store.write(
            lambda u: u.reviews.unreserve(
                release, ReleaseState.CHANGES_REQUESTED, principal=CURATOR, reason="no"
            )
        )


@pytest.mark.parametrize("amount", [10, 30, 100])
def test_a_revision_moves_what_is_set_aside(ledger: Ledger, amount: int) -> None:
    release = reserved(ledger)
    ledger.store.write(lambda u: STEPS[ReleaseState.CHANGES_REQUESTED](u, release))
    assert ledger.balance() == (100, 0, 30)
    ledger.store.write(lambda u: revise(u, release, amount))
    assert ledger.balance() == (100, 0, amount)
    with ledger.store.reading() as r:
        found = r.releases.get(release)
        assert found is not None
        entries = r.entries.list(ledger.account)
        first, last = r.reviews.versions(found)
    assert (found.state, found.version, found.turn) == (ReleaseState.RESERVED, 2, 2)
    assert (found.amount, found.request, found.plan) == (amount, '{"less":1}', '{"p":2}')
    assert [(each.kind, each.amount) for each in entries[-2:]] == [
        (EntryKind.UNRESERVE, 30), (EntryKind.RESERVE, amount)
    ]  # fmt: skip
    assert entries[-1].idem is None
    assert (first.version, first.request, first.amount) == (1, "{}", 30)
    assert (last.version, last.request, last.amount) == (2, '{"less":1}', amount)
    ledger.store.write(lambda u: u.reviews.approve(release, principal=CURATOR))
    assert ledger.balance() == (100, amount, 0)
    assert ledger.store.verify().ok


def test_a_revision_beyond_the_budget_changes_nothing(ledger: Ledger) -> None:
    release = reserved(ledger)
    reserved(ledger, "other", 40)
    ledger.store.write(lambda u: STEPS[ReleaseState.CHANGES_REQUESTED](u, release))
    with raw(ledger.place) as db:
        before = db.dump()
        with pytest.raises(Problem, match="budget-exceeded") as refused:
            ledger.store.write(lambda u: revise(u, release, 61))
        assert refused.value.remaining == 60
        assert db.dump() == before
    ledger.store.write(lambda u: revise(u, release, 60))
    assert ledger.balance() == (100, 0, 100)


def test_a_revision_is_held_to_its_persons_cap(ledger: Ledger) -> None:
    release = reserved(ledger)
    ledger.store.write(
        lambda u: u.accounts.set_cap(
            ledger.account, ANALYST, 45, principal=CURATOR, reason="a slice"
        )
    )
    ledger.store.write(lambda u: STEPS[ReleaseState.CHANGES_REQUESTED](u, release))
    with pytest.raises(Problem, match="budget-exceeded"):
        ledger.store.write(lambda u: revise(u, release, 46))
    ledger.store.write(lambda u: revise(u, release, 45))
    with ledger.store.reading() as r:
        cap = r.accounts.cap(ledger.account, ANALYST)
    assert cap is not None
    assert cap.used == 45
    assert ledger.store.verify().ok


def test_a_bound_on_what_is_stored_counts_versions_and_comments(ledger: Ledger) -> None:
    release = reserved(ledger)
    ledger.store.write(lambda u: STEPS[ReleaseState.CHANGES_REQUESTED](u, release))
    with pytest.raises(Problem, match="too-much-stored"):
        ledger.store.write(
            lambda u: u.reviews.revise(release, amount=1, request="{}", plan="{}", most_bytes=99)
        )

    def say(most: int) -> None:
        ledger.store.write(
            lambda u: u.comments.add(
                release, turn=1, person=ANALYST, private=False, text="x" * 60, most_bytes=most
            )
        )

    say(100)
    with pytest.raises(Problem, match="too-much-stored"):
        say(100)


def test_there_is_an_end_of_comments(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.ledger.reviewing.votes.MOST", 1)
    release = reserved(ledger)

    def say(u: UnitOfWork) -> None:
        u.comments.add(release, turn=1, person=CURATOR, private=False, text="and?", most_bytes=None)

    ledger.store.write(say)
    with pytest.raises(Problem, match="too-many-comments"):
        ledger.store.write(say)


def test_an_answer_gives_the_turn_back(ledger: Ledger) -> None:
    release = reserved(ledger)
    ledger.store.write(lambda u: STEPS[ReleaseState.CHANGES_REQUESTED](u, release))
    with ledger.store.reading() as r:
        assert [each.id for each in r.releases.list(state=ReleaseState.CHANGES_REQUESTED)] == [
            release
        ]
        assert r.releases.list(state=ReleaseState.RESERVED) == ()
        found = r.releases.get(release)
    assert found is not None
    assert found.reason == "why so much?"
    given = ledger.store.write(lambda u: u.reviews.give_turn_back(release, answer="because"))
    assert (given.state, given.turn, given.version, given.reason) == (
        ReleaseState.RESERVED, 2, 1, None
    )  # fmt: skip
    with ledger.store.reading() as r:
        assert [each.id for each in r.releases.list(state=ReleaseState.RESERVED)] == [release]
        assert r.releases.list(state=ReleaseState.CHANGES_REQUESTED) == ()
    assert ledger.store.verify().ok


def test_a_conflict_is_told_and_keeps_the_turn(ledger: Ledger) -> None:
    release = reserved(ledger)
    before, after = (
        ledger.store.write(
            lambda u, n=votes: u.reviews.show_conflict(release, votes=n, actor=CURATOR)
        )
        for votes in (1, 2)
    )
    assert (before.shown, after.shown) == (1, 2)
    assert (after.state, after.turn, after.version) == (ReleaseState.RESERVED, 1, 1)
    with ledger.store.reading() as r:
        reported = r.notices.inbox("person_bob", reviewer=True, span=Span(limit=9))
    assert [each.event for each in reported[:2]] == [Event.CONFLICT, Event.CONFLICT]
    assert ledger.store.verify().ok


def test_what_was_revised_and_rejected_keeps_its_last_reason(ledger: Ledger) -> None:
    release = reserved(ledger)
    for step in (ReleaseState.CHANGES_REQUESTED, ReleaseState.RESERVED, ReleaseState.REJECTED):
        ledger.store.write(lambda u, s=step: STEPS[s](u, release))
    with ledger.store.reading() as r:
        found = r.releases.get(release)
    assert found is not None
    assert (found.state, found.reason) == (ReleaseState.REJECTED, "no")
    assert ledger.balance() == (100, 0, 0)
    assert ledger.store.verify().ok


# What verification finds


EDITS = {
    "a vote has been edited": "UPDATE vote SET decision = 'reject'",
    "its vote is missing": "DELETE FROM vote",
    "an edit has been edited": "UPDATE dataset_edit SET fields = '{}'",
    "its edit is missing": "DELETE FROM dataset_edit",
    "a version of it has been edited": "UPDATE revision SET request = '[]'",
    "its versions are not those in the ledger": "UPDATE revision SET release = 'rel_other'",
    "its review is not the one in the ledger": "UPDATE review SET returned = 1",
}


@pytest.mark.parametrize("fault", EDITS)
def test_an_edited_review_is_found(place: Place, fault: str) -> None:
    with opened(place) as ledger:
        talked_about(ledger.store, reserved(ledger), ledger.dataset)
        assert ledger.store.verify().ok
    with raw(place, guarded=False) as db:
        db.execute(EDITS[fault])
    with inspecting(place.url) as reader:
        assert any(each.endswith(fault) for each in reader.verify().mismatches)


# Notices


def test_every_step_has_a_notice(ledger: Ledger) -> None:
    reported = []
    for before, after in itertools.product(UNDECIDED, STATES):
        if after not in TRANSITIONS[before]:
            continue
        release = reserved(ledger, f"{before} {after}", 1)
        for step in (*WAYS[before], after):
            ledger.store.write(lambda u, s=step, r=release: STEPS[s](u, r))
        with ledger.store.reading() as r:
            own = r.notices.inbox(ANALYST, reviewer=False, span=Span(limit=99))
            theirs = r.notices.inbox(CURATOR, reviewer=True, span=Span(limit=99))
        assert {each.id for each in own} == {each.id for each in theirs}
        events = [each.event for each in reversed(own) if each.release == release]
        assert events[0] is Event.ASKED
        assert event_of(before, after) in events
        reported += events
    assert {*reported} == {*Event} - {Event.ANSWERED, Event.COMMENTED, Event.CONFLICT, Event.VOID}


def test_an_inbox_has_pages_and_what_was_read(ledger: Ledger) -> None:
    releases = [reserved(ledger, f"{number}", 1) for number in range(3)]
    ledger.store.write(lambda u: end(ReleaseState.REJECTED)(u, releases[0]))
    with ledger.store.reading() as r:
        everything = r.notices.inbox(ANALYST, reviewer=False, span=Span(limit=9))
        rest = r.notices.inbox(
            ANALYST, reviewer=False, span=Span(before=everything[1].number, limit=9)
        )
        unread = r.notices.inbox(ANALYST, reviewer=False, span=Span(limit=9), unread=True)
        assert r.notices.inbox("person_bob", reviewer=False, span=Span(limit=9)) == ()
        numbers = r.notices.numbered([unread[0].id], ANALYST, reviewer=False)
        assert r.notices.numbered([unread[0].id], "person_bob", reviewer=False) == {}
    assert [*rest] == [*everything[2:]]
    # what somebody has done they know
    assert [each.event for each in unread] == [Event.REJECTED]
    for _ in range(2):
        ledger.store.write(lambda u: u.notices.mark_read([*numbers.values()], ANALYST))
    with ledger.store.reading() as r:
        assert r.notices.inbox(ANALYST, reviewer=False, span=Span(limit=9), unread=True) == ()


def test_a_notice_is_sent_until_it_has_arrived(ledger: Ledger) -> None:
    reserved(ledger)

    def left(at: str, channel: str = "webhook", since: str = "2") -> list[int]:
        with ledger.store.reading() as r:
            found = r.notices.undelivered(channel, since=since, at=at, after=0, limit=9)
        return [each.attempts for each in found]

    assert left("9") == [0]
    assert left("9", since="9") == []

    def claim(at: str, next_at: str) -> bool:
        return ledger.store.write(lambda u: u.notices.claim(1, "webhook", at=at, next_at=next_at))

    assert claim("3", "5")
    assert (left("4"), left("5"), left("4", "mail")) == ([], [1], [0])
    # somebody else is about to send it
    assert not claim("4", "9")
    assert claim("5", "6")
    ledger.store.write(lambda u: u.notices.delivered(1, "webhook"))
    assert left("9") == []
    assert not claim("9", "9")


def test_what_is_seen_is_noted_once_a_day(ledger: Ledger) -> None:
    releases = [reserved(ledger, f"{number}", 1) for number in range(2)]

    def look(release: str, at: str) -> None:
        seen = View(release=release, person=CURATOR, how="read", key="key", at=at)
        ledger.store.write(lambda u: u.views.note([seen, seen]))

    for at in ("2026-01-01T01", "2026-01-01T02", "2026-01-02T01"):
        look(releases[0], at)
    look(releases[1], "2026-01-02T02")
    with ledger.store.reading() as r:
        every = r.views.list(span=Span(limit=9))
        assert r.views.list(span=Span(before=every[0].number, limit=1)) == every[1:2]
        own = r.views.list(span=Span(limit=9), release=releases[0])
    assert [each.at for each in every] == ["2026-01-02T02", "2026-01-02T01", "2026-01-01T01"]
    assert [each.at for each in own] == ["2026-01-02T01", "2026-01-01T01"]


def test_what_a_sheet_asks_of_the_store(ledger: Ledger) -> None:
    with ledger.store.reading() as r:
        assert [each.id for each in r.datasets.of_account(ledger.account)] == [ledger.dataset]
        assert r.publications.public(["rel_none"]) == frozenset()


# Counting votes


def vote(person: str, decision: Decision, turn: int = 1) -> Vote:
    return Vote(turn=turn, person=person, decision=decision, reason=f"{person}!", at="now")


def test_two_votes_decide_and_neither_is_seen_before() -> None:
    for first, second in itertools.product(Decision, Decision):
        one = Count.of([vote("ada", first)], turn=1, needed=2)
        assert (one.complete, one.outcome, one.conflict) == (False, None, False)
        assert [len(one.seen_by(person)) for person in ("ada", "bea")] == [1, 0]
        assert one.may_vote("bea")
        two = Count.of([vote("ada", first), vote("bea", second)], turn=1, needed=2)
        assert two.complete
        assert two.outcome == (first if first is second else None)
        assert two.conflict is (first is not second)
        assert len(two.seen_by("bea")) == 2
        assert (two.may_vote("ada"), two.may_vote("cid")) == (True, False)
        assert two.reason == "ada!\n\nbea!"


def test_a_revised_vote_takes_the_place_of_the_former() -> None:
    votes = [vote("ada", Decision.REJECT), vote("bea", Decision.APPROVE)]
    agreed = Count.of([*votes, vote("ada", Decision.APPROVE)], turn=1, needed=2)
    assert agreed.outcome is Decision.APPROVE
    assert Count.of(votes, turn=2, needed=2).votes == ()
    # another reviewer, since one is enough now
    alone = Count.of(votes, turn=1, needed=1)
    assert (alone.outcome, alone.may_vote("cid")) == (Decision.APPROVE, True)


def test_versions_are_compared_member_by_member() -> None:
    before = {"epsilon": "1", "statistic": {"kind": "mean", "columns": ["a", "b"]}}
    after = {"epsilon": "0.5", "statistic": {"kind": "mean", "columns": ["a"]}, "norm": "l1"}
    assert [*differences(before, json.loads(json.dumps(after)))] == [
        Difference("epsilon", "1", "0.5"),
        Difference("statistic.columns", ["a", "b"], ["a"]),
        Difference("norm", None, "l1"),
    ]
    assert [*differences(before, before)] == []
