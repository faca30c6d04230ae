"""How processes that are forked to order let the service go first."""

from __future__ import annotations

import os

import pytest

from app.engine.forking import give_way


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return what this process is given, which it does not get: there is no way back."""
    found: list[object] = []
    monkeypatch.setattr(os, "nice", found.append)
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, __: found.append(policy))
    return found


def test_what_may_wait_has_spare_time_and_all_else_a_lower_priority(taken: list[object]) -> None:
    give_way(spare=True)
    assert taken == [os.SCHED_IDLE]
    give_way(spare=False)
    assert taken == [os.SCHED_IDLE, 5]


def test_where_there_is_no_spare_time_to_be_had_it_is_a_lower_priority(
    taken: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    give_way(spare=True)
    monkeypatch.delattr(os, "sched_setscheduler")
    give_way(spare=True)
    assert taken == [5, 5]
