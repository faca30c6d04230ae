"""Leases: who draws a release, what the dead left, and who may take it over."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import Portion, ReleaseRecord
from tests.app.ledgers import Ledger, Place, opened

LONG_MS, SHORT_MS = 60_000, 50


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with opened(place) as ledger:
        yield ledger


def charged(ledger: Ledger, idem: str, worker: str | None = None) -> ReleaseRecord:
    return ledger.debit(idem, worker=worker)


def beat(ledger: Ledger, worker: str, lease_ms: int = LONG_MS) -> None:
    ledger.store.write(lambda u: u.workers.beat(worker, lease_ms=lease_ms))


def claim(ledger: Ledger, worker: str) -> ReleaseRecord | None:
    return ledger.store.write(lambda u: u.releases.claim(worker))


def hand_back(ledger: Ledger, release: ReleaseRecord, worker: str) -> None:
    ledger.store.write(lambda u: u.releases.hand_back(release.id, worker=worker))


def test_the_queue_is_claimed_once_and_in_order(ledger: Ledger) -> None:
    beat(ledger, "one")
    beat(ledger, "two")
    queued = [charged(ledger, idem) for idem in "abc"]
    claims = [claim(ledger, worker) for worker in ("one", "two", "one", "two")]
    assert [each and (each.id, each.worker, each.attempts) for each in claims] == [
        (queued[0].id, "one", 1),
        (queued[1].id, "two", 1),
        (queued[2].id, "one", 1),
        None,
    ]


def test_what_a_living_worker_draws_is_its_own(ledger: Ledger) -> None:
    beat(ledger, "one")
    charged(ledger, "a", "one")
    beat(ledger, "two")
    assert claim(ledger, "two") is None


def test_what_a_dead_worker_left_is_taken_over(ledger: Ledger) -> None:
    beat(ledger, "one", SHORT_MS)
    left = charged(ledger, "a", "one")
    gone = charged(ledger, "b", "never there")
    time.sleep(2 * SHORT_MS / 1000)
    beat(ledger, "two")
    taken = [claim(ledger, "two") for _ in range(3)]
    assert [each and (each.id, each.worker, each.attempts) for each in taken] == [
        (left.id, "two", 2),
        (gone.id, "two", 2),
        None,
    ]


def test_a_beat_makes_a_lease_longer(ledger: Ledger) -> None:
    beat(ledger, "one", SHORT_MS)
    charged(ledger, "a", "one")
    beat(ledger, "one")
    time.sleep(2 * SHORT_MS / 1000)
    assert claim(ledger, "two") is None


def test_the_third_death_is_the_last(ledger: Ledger) -> None:
    left = charged(ledger, "a", "dead 1")
    for attempt, worker in ((2, "dead 2"), (3, "dead 3")):
        taken = claim(ledger, worker)
        assert taken is not None
        assert (taken.attempts, taken.state) == (attempt, ReleaseState.DEBITED)
    void = claim(ledger, "four")
    assert void is not None
    assert (void.id, void.state, void.attempts) == (left.id, ReleaseState.VOID, 3)
    assert claim(ledger, "four") is None
    assert ledger.balance() == (1000, 1, 0)
    assert ledger.store.verify().ok


def test_a_draw_that_was_stopped_goes_back_without_an_attempt(ledger: Ledger) -> None:
    beat(ledger, "one")
    charged(ledger, "a")
    for _ in range(5):
        taken = claim(ledger, "one")
        assert taken is not None
        assert taken.attempts == 1
        hand_back(ledger, taken, "one")


def test_only_its_worker_hands_a_release_back(ledger: Ledger) -> None:
    beat(ledger, "one")
    taken = charged(ledger, "a", "one")
    hand_back(ledger, taken, "two")
    assert claim(ledger, "two") is None


def test_a_final_release_is_not_claimed_and_not_handed_back(ledger: Ledger) -> None:
    left = charged(ledger, "a", "dead")
    ledger.store.write(lambda u: u.releases.finish(left.id, b"{}"))
    hand_back(ledger, left, "dead")
    assert claim(ledger, "one") is None
    with ledger.store.reading() as r:
        kept = r.releases.get(left.id)
    assert kept is not None
    assert (kept.state, kept.worker) == (ReleaseState.RELEASED, "dead")


def test_a_late_result_is_kept_once(ledger: Ledger) -> None:
    """A process that was thought dead may finish first; the one that took over then has not."""
    left = charged(ledger, "a", "paused")
    assert claim(ledger, "two") is not None
    ledger.store.write(lambda u: u.releases.finish(left.id, b"first"))
    with pytest.raises(Problem, match="release-void"):
        ledger.store.write(lambda u: u.releases.finish(left.id, b"second"))


def test_a_worker_that_ends_leaves_its_work_at_once(ledger: Ledger) -> None:
    beat(ledger, "one")
    charged(ledger, "a", "one")
    ledger.store.write(lambda u: u.workers.end("one"))
    assert claim(ledger, "two") is not None


def test_alone_everybody_else_is_dead(ledger: Ledger) -> None:
    beat(ledger, "one")
    charged(ledger, "a", "one")
    ledger.store.write(lambda u: u.workers.alone("two"))
    mine = charged(ledger, "b", "two")
    taken = [claim(ledger, "two") for _ in range(2)]
    assert taken[0] is not None
    assert taken[0].attempts == 2
    assert taken[1] is None
    assert claim(ledger, "one") is None
    with ledger.store.reading() as r:
        assert r.releases.get(mine.id) == mine


def test_an_upload_belongs_to_a_living_worker(ledger: Ledger) -> None:
    beat(ledger, "one")
    beat(ledger, "two")

    def take(worker: str) -> bool:
        return ledger.store.write(lambda u: u.uploads.take_over("ds_a", worker=worker))

    def end(worker: str) -> bool:
        return ledger.store.write(lambda u: u.uploads.end("ds_a", worker=worker))

    ledger.store.write(lambda u: u.uploads.begin("ds_a", worker="one"))
    assert (take("two"), end("two"), take("one")) == (False, False, True)
    with ledger.store.reading() as reader:
        assert reader.uploads.left("two") == ()
        assert [each.worker for each in reader.uploads.left("one")] == ["one"]
        assert reader.uploads.left("one") == reader.uploads.under_way()
    ledger.store.write(lambda u: u.workers.end("one"))
    with ledger.store.reading() as reader:
        assert [each.dataset for each in reader.uploads.left("two")] == ["ds_a"]
    assert (take("two"), end("one"), end("two"), end("two")) == (True, False, True, False)
    assert not take("two")


def test_a_key_s_minute_is_given_out_in_portions(place: Place) -> None:
    with opened(place) as ledger:

        def take(key: str, wanted: int) -> Portion:
            return ledger.store.write(lambda u: u.rates.take(key, wanted=wanted, most=10))

        assert take("a", 4) == (4, 60_000)
        assert [take("a", 4).requests for _ in range(3)] == [4, 2, 0]
        assert 0 < take("a", 4).left_ms <= 60_000
        assert take("b", 99).requests == 10
        ledger.store.write(lambda u: u.connection.exec_driver_sql("UPDATE rate SET ends_at_ms = 1"))
        assert take("a", 4) == (4, 60_000)
        assert ledger.store.verify().ok
