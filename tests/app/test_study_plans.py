"""Study plans in the ledger: their steps, draws that they allow, and what verification finds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from app.domain.access import Span
from app.domain.problems import Problem
from app.domain.reviews import Decision, PlanState, plan_key
from app.store import UnitOfWork, inspecting
from app.store.ledger.entries import SYSTEM
from app.store.ledger.reviewing.study_plans import PlanRecord
from tests.app.ledgers import (
    ANALYST,
    CURATOR,
    PLANNED,
    Ledger,
    Place,
    approved_plan,
    drafted,
    opened,
    planned_debit,
    raw,
    requested_plan,
    resent_plan,
    returned_plan,
)


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with opened(place, total=100) as ledger:
        yield ledger


def found(ledger: Ledger, plan: str) -> PlanRecord:
    with ledger.store.reading() as r:
        record = r.study_plans.get(plan)
    assert record is not None
    return record


def refused(code: str) -> pytest.RaisesExc[Problem]:
    return pytest.RaisesExc(Problem, check=lambda problem: problem.code == code)


def end(ledger: Ledger, plan: str, state: PlanState = PlanState.WITHDRAWN) -> None:
    ledger.store.write(lambda u: u.study_plans.end(plan, state, principal=ANALYST))


def test_a_plan_is_saved_edited_and_deleted(ledger: Ledger) -> None:
    plan = drafted(ledger)
    edited = ledger.store.write(
        lambda u: u.study_plans.edit(
            plan, name="another", purpose=None, questions=PLANNED[:1], most_bytes=10**6
        )
    )
    assert (edited.name, edited.purpose, edited.questions) == ("another", None, PLANNED[:1])
    ledger.store.write(lambda u: u.study_plans.delete(plan))
    with refused("not-found"):
        ledger.store.write(lambda u: u.study_plans.request(plan))
    assert ledger.store.verify().ok


def test_what_is_requested_stays(ledger: Ledger) -> None:
    plan = requested_plan(ledger)
    with refused("plan-not-draft"):
        ledger.store.write(lambda u: u.study_plans.request(plan))
    with refused("plan-not-draft"):
        ledger.store.write(lambda u: u.study_plans.delete(plan))
    end(ledger, plan)
    for state in (PlanState.WITHDRAWN, PlanState.EXPIRED):
        with refused("precondition"):
            end(ledger, plan, state)
    assert ledger.store.verify().ok


def test_a_question_is_charged_once_and_only_while_its_plan_is_approved(ledger: Ledger) -> None:
    plan = requested_plan(ledger)
    with refused("plan-not-approved"):
        planned_debit(ledger, plan)
    plan = approved_plan(ledger)
    first = planned_debit(ledger, plan)
    again = planned_debit(ledger, plan)
    assert (first.fresh, again.fresh, again.record.id) == (True, False, first.record.id)
    assert ledger.balance() == (100, PLANNED[0].amount, 0)
    end(ledger, plan)
    assert not planned_debit(ledger, plan).fresh
    with refused("plan-not-approved"):
        planned_debit(ledger, plan, 1)
    assert ledger.store.verify().ok


def test_an_approval_ends_by_itself(ledger: Ledger) -> None:
    plan = approved_plan(ledger, until="2001-01-01T00:00:00.000000Z")
    assert not found(ledger, plan).is_drawn_at("2001-01-01T00:00:00.000000Z")
    with refused("plan-not-approved"):
        planned_debit(ledger, plan)
    waiting = requested_plan(ledger)
    at = "2000-01-01T00:00:00.000000Z"
    assert ledger.store.write(lambda u: u.study_plans.expire(since=at, at=at)) == 0
    later = "2999-01-01T00:00:00.000000Z"
    assert ledger.store.write(lambda u: u.study_plans.expire(since=later, at=later)) == 2
    assert {found(ledger, each).state for each in (plan, waiting)} == {PlanState.EXPIRED}
    assert ledger.store.verify().ok


def test_a_rejection_and_an_approval_by_the_service(ledger: Ledger) -> None:
    one, two = requested_plan(ledger), requested_plan(ledger)
    ledger.store.write(lambda u: u.study_plans.reject(one, principal=CURATOR, reason="no"))
    ledger.store.write(
        lambda u: u.study_plans.approve(
            two, principal=SYSTEM, reason="not needed", expires_at="2999-01-01T00:00:00.000000Z"
        )
    )
    rejected, approved = found(ledger, one), found(ledger, two)
    assert (rejected.state, rejected.reason) == (PlanState.REJECTED, "no")
    assert (approved.state, approved.decided_by) == (PlanState.APPROVED, SYSTEM)
    assert ledger.store.verify().ok


def test_lists_hide_drafts_and_accounts(ledger: Ledger) -> None:
    draft, plan = drafted(ledger, "the draft"), requested_plan(ledger, "the plan")
    with ledger.store.reading() as r:

        def listed(person: str, *, overseer: bool, **more: Any) -> list[str]:
            page = r.study_plans.page(
                person=person, overseer=overseer, **{"span": Span(limit=9), **more}
            )
            return [each.id for each in page]

        before = Span(limit=9, before=found(ledger, plan).number)
        assert listed(ANALYST, overseer=False) == [plan, draft]
        assert listed(CURATOR, overseer=True) == [plan]
        assert listed(CURATOR, overseer=False) == []
        assert listed(ANALYST, overseer=False, states=[PlanState.DRAFT]) == [draft]
        assert listed(ANALYST, overseer=False, words=["plan"]) == [plan, draft]
        assert listed(ANALYST, overseer=False, words=["the", "draft"]) == [draft]
        assert listed(ANALYST, overseer=False, dataset="ds_none") == []
        assert listed(ANALYST, overseer=False, span=before) == [draft]
        by_name = Span(limit=9, by="name", ascending=True)
        assert listed(ANALYST, overseer=False, span=by_name) == [draft, plan]
        assert listed(CURATOR, overseer=True, hidden={ledger.account}) == []
        whose = r.study_plans.account_for
        assert whose(plan, person=CURATOR, overseer=True) == ledger.account
        assert whose(draft, person=CURATOR, overseer=True) is None
        inbox = r.notices.inbox(CURATOR, reviewer=True, span=Span(limit=9))
        assert [each.study_plan for each in inbox] == [plan]
        shown = r.notices.inbox(CURATOR, reviewer=True, span=Span(limit=9), hidden={ledger.account})
        assert shown == ()
    assert ledger.store.verify().ok


def test_a_conflict_is_reported_to_reviewers(ledger: Ledger) -> None:
    plan = requested_plan(ledger)

    def vote(person: str, decision: Decision) -> None:
        record = found(ledger, plan)
        ledger.store.write(
            lambda u: u.study_plans.vote(record, person=person, decision=decision, reason="so")
        )

    vote(CURATOR, Decision.APPROVE)
    vote("person_rev", Decision.REJECT)
    record = found(ledger, plan)
    ledger.store.write(lambda u: u.study_plans.show_conflict(record, actor="person_rev"))
    with ledger.store.reading() as r:
        assert [each.person for each in r.study_plans.votes_of(plan)] == [CURATOR, "person_rev"]
        assert r.notices.inbox(CURATOR, reviewer=True, span=Span(limit=1))[0].event == "conflict"
    assert ledger.store.verify().ok


def test_comments_on_a_plan_are_listed_newest_first(ledger: Ledger) -> None:
    plan = returned_plan(ledger)

    def say(unit: UnitOfWork, text: str) -> None:
        unit.comments.add(
            study_plan=plan, turn=1, person=CURATOR, private=False, text=text, most_bytes=None
        )

    for text in ("a smaller sample?", "or fewer groups?"):
        ledger.store.write(partial(say, text=text))
    with ledger.store.reading() as r:
        said = r.comments.page(before=None, limit=9)
        earlier = r.comments.page(before=said[0].number, limit=9)
    assert [each.text for each in said][:2] == ["or fewer groups?", "a smaller sample?"]
    assert earlier == said[1:]
    assert ledger.store.verify().ok


def test_a_returned_plan_is_edited_and_sent_again(ledger: Ledger) -> None:
    plan = returned_plan(ledger)
    sent = found(ledger, plan)
    assert (sent.decided_by, sent.reason, sent.turn) == (CURATOR, "less, please", 1)
    with refused("plan-not-draft"):
        ledger.store.write(lambda u: u.study_plans.delete(plan))
    edited = ledger.store.write(
        lambda u: u.study_plans.edit(plan, name="less", purpose=None, questions=PLANNED[:1])
    )
    # Only its owner has it as they have written it.
    assert (edited.name, edited.questions, edited.sent.unsent) == ("a study", PLANNED, None)
    assert (edited.written.name, edited.written.questions) == ("less", PLANNED[:1])
    assert ledger.store.verify().ok
    again = ledger.store.write(lambda u: u.study_plans.request(plan))
    assert (again.state, again.turn, again.unsent) == (PlanState.REQUESTED, 2, None)
    assert (again.name, again.purpose, again.questions) == ("less", None, PLANNED[:1])
    assert (again.decided_by, again.reason) == (None, None)
    with ledger.store.reading() as r:
        versions = r.study_plans.versions(again)
        inbox = r.notices.inbox(CURATOR, reviewer=True, span=Span(limit=9))
    assert [(each.version, each.amount) for each in versions] == [(1, 5), (2, 2)]
    assert [each.event for each in inbox] == ["revised", "changes_requested", "asked"]
    assert ledger.store.verify().ok


def test_an_answer_is_sent_with_the_plan_as_it_was(ledger: Ledger) -> None:
    plan = requested_plan(ledger)
    with refused("precondition"):
        ledger.store.write(lambda u: u.study_plans.give_turn_back(plan, answer="early"))
    ledger.store.write(
        lambda u: u.study_plans.request_changes(plan, principal=CURATOR, reason="why?")
    )
    made = ledger.store.write(lambda u: u.study_plans.give_turn_back(plan, answer="for a report"))
    assert (made.state, made.turn, made.questions) == (PlanState.REQUESTED, 2, PLANNED)
    with ledger.store.reading() as r:
        latest, *_ = r.notices.inbox(CURATOR, reviewer=True, span=Span(limit=9))
    assert (latest.event, latest.reason) == ("answered", "for a report")
    assert ledger.store.verify().ok
    ledger.store.write(
        lambda u: u.study_plans.request_changes(plan, principal=CURATOR, reason="still")
    )
    ledger.store.write(
        lambda u: u.study_plans.edit(plan, name="less", purpose=None, questions=PLANNED[:1])
    )
    with refused("precondition"):
        ledger.store.write(lambda u: u.study_plans.give_turn_back(plan, answer="and lost"))
    assert found(ledger, plan).written.name == "less"


def test_a_plan_is_sent_again_as_it_was_and_every_version_stays(ledger: Ledger) -> None:
    plan = returned_plan(ledger)
    for _ in range(3):
        ledger.store.write(lambda u: u.study_plans.request(plan))
        ledger.store.write(
            lambda u: u.study_plans.request_changes(plan, principal=CURATOR, reason="still")
        )
    with ledger.store.reading() as r:
        assert len(r.study_plans.versions(found(ledger, plan))) == 4
    end(ledger, plan)
    assert ledger.store.verify().ok


def test_a_returned_plan_is_not_drawn_and_expires(ledger: Ledger) -> None:
    plan = returned_plan(ledger)
    ledger.store.write(
        lambda u: u.study_plans.edit(plan, name="less", purpose=None, questions=PLANNED[:1])
    )
    with refused("plan-not-approved"):
        planned_debit(ledger, plan)
    later = "2999-01-01T00:00:00.000000Z"
    assert ledger.store.write(lambda u: u.study_plans.expire(since=later, at=later)) == 1
    ended = found(ledger, plan)
    assert (ended.state, ended.unsent, ended.questions) == (PlanState.EXPIRED, None, PLANNED)
    assert ledger.store.verify().ok


def test_votes_of_an_earlier_turn_do_not_count(ledger: Ledger) -> None:
    plan = resent_plan(ledger)
    record = found(ledger, plan)
    vote = ledger.store.write(
        lambda u: u.study_plans.vote(record, person=CURATOR, decision=Decision.APPROVE, reason="so")
    )
    assert vote.turn == 2
    ledger.store.write(
        lambda u: u.study_plans.approve(
            plan, principal=CURATOR, reason="so", expires_at="2999-01-01T00:00:00.000000Z"
        )
    )
    assert ledger.store.verify().ok
    # A draw of the version before, as code with a fault would make it.
    planned_debit(ledger, plan, 0)
    assert any("was not approved" in each for each in ledger.store.verify().mismatches)


EDITS = {
    "UPDATE study_plan SET questions = replace(questions, '2', '1')": "it has been edited",
    "UPDATE study_plan SET questions = '[{}]'": "it has been edited",
    "UPDATE entry SET fingerprint = 'x' WHERE kind = 'study_plan_approved'": "it has been edited",
    "UPDATE study_plan SET state = 'draft'": "the system account disagrees about it",
    "UPDATE plan_vote SET decision = 'reject'": "a vote on it has been edited",
    "DELETE FROM plan_vote": "its vote on a study plan is missing",
    "UPDATE plan_vote SET turn = 2": "a vote on it has been edited",
    "UPDATE plan_revision SET questions = replace(questions, '2', '1')": "it has been edited",
    "UPDATE plan_revision SET name = 'other'": "it has been edited",
    "UPDATE plan_revision SET turn = 7": "it has been edited",
    "UPDATE plan_revision SET requested_at = 'then'": "it has been edited",
    "DELETE FROM plan_revision": "it has been edited",
    "UPDATE study_plan SET turn = turn + 1": "it has been edited",
    "UPDATE study_plan SET reason = 'more'": "it has been edited",
}


@pytest.mark.parametrize(("edit", "fault"), EDITS.items())
def test_an_edited_plan_is_found(place: Place, edit: str, fault: str) -> None:
    with opened(place) as ledger:
        planned_debit(ledger, approved_plan(ledger))
        resent_plan(ledger)
    with raw(place, guarded=False) as db:
        db.execute(edit)
    with inspecting(place.url) as reader:
        assert any(each.endswith(fault) for each in reader.verify().mismatches)


def test_a_draw_that_no_plan_allowed_is_found(place: Place) -> None:
    """A charge under a plan's key from before its approval, as code with a fault would make it."""
    with opened(place) as ledger:
        plan = requested_plan(ledger)
        ledger.debit(plan_key(plan, 0), PLANNED[0].amount, request=PLANNED[0].request)
    with inspecting(place.url) as reader:
        assert any("was not approved" in each for each in reader.verify().mismatches)
