"""Accounts, data sets, keys and releases: what is stored, listed and refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.domain.access import Span
from app.domain.ledger import SYSTEM_ACCOUNT, Balance, EntryKind
from app.domain.policies import Role
from app.domain.problems import Problem
from app.domain.releases import ReleaseState, request_fingerprint
from app.store import DatasetStatus, Store, UnitOfWork
from app.store.errors import LostUpdateError
from app.store.ledger.entries import Occasion
from app.store.ledger.records import now
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, opened


def code_of(problem: pytest.ExceptionInfo[Problem]) -> str:
    return problem.value.code


def test_an_account_records_why_it_was_opened_and_raised(place: Place) -> None:
    with opened(place, total=10) as ledger:
        ledger.grant(5)
        with ledger.store.reading() as r:
            opened_, granted = r.entries.list(ledger.account)
        assert (opened_.kind, opened_.amount, opened_.note) == ("open", 10, "first budget")
        assert (granted.kind, granted.amount, granted.total_after) == ("grant", 5, 15)
        assert (granted.principal, granted.note) == (CURATOR, "more")


@pytest.mark.parametrize("account", ["acc_unknown", SYSTEM_ACCOUNT])
def test_there_is_no_budget_where_there_is_no_account(place: Place, account: str) -> None:
    with opened(place) as ledger:

        def charge(u: UnitOfWork) -> object:
            return u.reviews.reserve(
                account=account, amount=1, dataset=ledger.dataset, principal=ANALYST,
                request="{}", plan="{}", idem="k",
            )  # fmt: skip

        def raise_total(u: UnitOfWork) -> object:
            return u.accounts.grant(account, 1, principal=CURATOR, reason="r")

        for write in (charge, raise_total):
            with pytest.raises(Problem) as refused:
                ledger.store.write(write)
            assert code_of(refused) == "not-found"
        with ledger.store.reading() as r, pytest.raises(Problem) as refused:
            r.accounts.balance("acc_unknown")
        assert code_of(refused) == "not-found"


def test_a_release_keeps_its_request_plan_and_result(place: Place) -> None:
    result = '{"value":\u2009"exactly these bytes"}'.encode()
    with opened(place) as ledger:
        debited = ledger.debit("k", 7, request='{"statistic":"mean"}')
        done = ledger.store.write(lambda u: u.releases.finish(debited.id, result))
        with ledger.store.reading() as r:
            found = r.releases.get(debited.id)
            entry = r.entries.list(ledger.account)[-1]
        assert found == done
        assert (done.state, done.result, done.attempts) == (ReleaseState.RELEASED, result, 1)
        assert (entry.kind, entry.amount, entry.release) == ("debit", 7, debited.id)
        assert (entry.seq, entry.principal, entry.idem) == (debited.seq, ANALYST, "k")
        expected = request_fingerprint(dataset=ledger.dataset, request='{"statistic":"mean"}')
        assert entry.fingerprint == debited.fingerprint == expected
        assert debited.finished_at is None
        assert done.finished_at is not None
        assert done.created_at < done.finished_at


def test_releases_are_listed_newest_first_and_paged(place: Place) -> None:
    with opened(place) as ledger:
        mine = [ledger.debit(f"k{n}").id for n in range(5)]
        other = ledger.debit("k", principal="person_bob").id
        with ledger.store.reading() as r:
            page = r.releases.list(principal=ANALYST, limit=3)
            rest = r.releases.list(principal=ANALYST, before=page[-1].number, limit=3)
            assert [x.id for x in (*page, *rest)] == mine[::-1]
            assert [x.id for x in r.releases.list()] == [other, *mine[::-1]]
            assert [x.id for x in r.releases.list(dataset=ledger.dataset, limit=1)] == [other]
            assert r.releases.list(dataset="ds_other") == ()
            assert r.releases.get("rel_unknown") is None
            assert r.accounts.spent_by(ledger.account, ANALYST) == 5
            assert r.accounts.spent_by(ledger.account, "person_cy") == 0


def test_a_name_belongs_to_one_data_set_until_that_is_archived(place: Place) -> None:
    with opened(place) as ledger:
        store, held = ledger.store, ledger.dataset
        for _ in range(2):
            with pytest.raises(Problem) as refused:
                store.write(lambda u: _named(u, ledger))
            assert code_of(refused) == "name-taken"
            store.write(lambda u, held=held: u.datasets.archive(held, principal=CURATOR))
            with store.reading() as r:
                assert r.datasets.by_name("people") is None, "nobody has it"
            held = store.write(lambda u: _named(u, ledger))
            with store.reading() as r:
                assert getattr(r.datasets.by_name("people"), "id", None) == held
        with store.reading() as r:
            assert [each.name for each in r.datasets.list()] == ["people"] * 3
            assert len(r.datasets.without_rows()) == 2
        assert store.verify().ok


def test_of_many_who_want_a_name_that_is_free_again_one_gets_it(place: Place) -> None:
    with opened(place) as ledger:
        ledger.store.write(lambda u: u.datasets.archive(ledger.dataset, principal=CURATOR))
        others = []
        if place.backend == "postgres":  # another process
            ledger.store.share()
            others.append(place.open())

        def named(store: Store) -> str:
            try:
                return store.write(lambda u: _named(u, ledger))
            except Problem as problem:
                return problem.code

        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(named, [ledger.store, *others] * 3))
        for store in others:
            store.close()
        with ledger.store.reading() as r:
            winner = getattr(r.datasets.by_name("people"), "id", None)
        assert sorted(found) == sorted([winner, *["name-taken"] * (len(found) - 1)])
        assert ledger.store.verify().ok


def _named(u: UnitOfWork, ledger: Ledger) -> str:
    return u.datasets.insert(
        name="people", account=ledger.account, spec="{}", rows=1, principal=CURATOR
    ).id


def test_of_many_who_extend_a_data_set_one_does(place: Place) -> None:
    """From several processes, where there may be: versions are a chain and no tree."""
    with opened(place) as ledger:
        others = []
        if place.backend == "postgres":
            ledger.store.share()
            others.append(place.open())
        with ledger.store.reading() as r:
            earlier = r.datasets.get(ledger.dataset)
        assert earlier is not None
        assert (earlier.version, earlier.extends, earlier.first) == (1, None, earlier.id)

        def extended(numbered: tuple[int, Store]) -> str:
            number, store = numbered
            try:
                return store.write(
                    lambda u: u.datasets.insert(
                        name=f"v{number}", account=ledger.account, spec="{}", rows=2,
                        principal=CURATOR, extends=earlier,
                    )
                ).id  # fmt: skip
            except Problem as problem:
                return f"{problem.code}, {problem.extras['newer']}"

        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(extended, enumerate([ledger.store, *others] * 3)))
        for store in others:
            store.close()
        with ledger.store.reading() as r:
            newest, oldest = r.datasets.versions(earlier.id)
            later = r.datasets.get(newest.id)
        assert later is not None
        assert (later.version, later.extends, later.first) == (2, earlier.id, earlier.id)
        assert (newest.version, newest.name, newest.rows) == (2, later.name, 2)
        assert (oldest.version, oldest.id) == (1, earlier.id)
        refusals = [f"newer-version, {newest.id}"] * (len(found) - 1)
        assert sorted(found) == sorted([newest.id, *refusals])
        assert ledger.store.verify().ok


def test_archiving_keeps_ledger_and_releases(place: Place) -> None:
    with opened(place) as ledger:
        release = ledger.release("k")
        archived = [
            ledger.store.write(lambda u: u.datasets.archive(ledger.dataset, principal=CURATOR))
            for _ in range(2)
        ]
        assert archived[0] == archived[1]
        assert archived[0].status is DatasetStatus.ARCHIVED
        assert archived[0].archived_at is not None
        with ledger.store.reading() as r:
            assert r.releases.get(release.id) == release
            system = r.entries.list(SYSTEM_ACCOUNT)
        kinds = [entry.kind for entry in system]
        assert kinds == [
            "open", "receipt_key", "account_opened", "dataset_created", "result",
            "dataset_archived",
        ]  # fmt: skip
        assert system[-1].note == ledger.dataset
        with pytest.raises(Problem) as refused:
            ledger.store.write(lambda u: u.datasets.archive("ds_unknown", principal=CURATOR))
        assert code_of(refused) == "not-found"


def test_data_sets_are_listed_and_found(place: Place) -> None:
    with opened(place) as ledger:
        added = [
            ledger.store.write(
                lambda u, n=n: u.datasets.insert(
                    name=f"d{n}",
                    account=ledger.account,
                    spec='{"n":1}',
                    rows=None,
                    principal=CURATOR,
                    id=f"ds_{n}",
                )
            )
            for n in range(3)
        ]
        assert [x.id for x in added] == ["ds_0", "ds_1", "ds_2"]
        assert (added[0].rows, added[0].spec) == (None, '{"n":1}')
        with ledger.store.reading() as r:
            page = r.datasets.list(limit=2)
            rest = r.datasets.list(before=page[-1].number)
            assert [x.name for x in (*page, *rest)] == ["d2", "d1", "d0", "people"]
            for most, names in ((1, ["d2"]), (2 * 1_031, ["d2", "d1"]), (10**6, ["d2", "d1"])):
                shown = r.datasets.page(span=Span(limit=2), most_bytes=most)
                assert ([x.name for x in shown.records], shown.more) == (names, True)
            last = r.datasets.page(span=Span(before=page[-1].number, limit=2), most_bytes=10**6)
            assert ([x.name for x in last.records], last.more) == (["d0", "people"], False)
            none = r.datasets.page(span=Span(before=rest[-1].number, limit=2), most_bytes=10**6)
            assert (none.records, none.more) == ((), False)

            def named(hidden: tuple[str, ...] = (), **asked: Any) -> list[str]:
                span = Span(**{"limit": 2, "by": "name", "ascending": True, **asked})
                shown = r.datasets.page(span=span, most_bytes=10**6, hidden=hidden)
                return [each.name for each in shown.records]

            at = {each.name: each.number for each in (*page, *rest)}
            assert named() == ["d0", "d1"]
            assert named(after=at["d1"]) == ["d2", "people"]
            assert named(before=at["d2"]) == ["d1", "d0"], "read backwards"
            assert named(ascending=False) == ["people", "d2"]
            assert named(ascending=False, before=at["d1"]) == ["d0"]
            # where a data set that is hidden comes among the others is hidden, too
            own = (page[0].account,)
            assert named(hidden=own) == named(hidden=own, after=at["d1"]) == []
            assert r.datasets.by_name("d1") == added[1] == r.datasets.get("ds_1")
            assert r.datasets.by_name("D1") is None


def test_keys_are_found_by_their_secret_and_revoked_once(place: Place) -> None:
    with opened(place) as ledger:
        key = ledger.store.write(
            lambda u: u.keys.insert(
                name="ann's laptop",
                role=Role.ANALYST,
                person=ANALYST,
                secret_hash="ab" * 32,
                expires_at=None,
                principal="person_ada",
            )
        )
        with ledger.store.reading() as r:
            assert r.keys.by_secret_hash("ab" * 32) == key == r.keys.get(key.id)
            assert r.keys.by_secret_hash("cd" * 32) is None
            assert (r.keys.count(), r.keys.list()) == (1, (key,))
            assert r.keys.list(Span(before=key.number, limit=9)) == ()
            assert r.keys.list(Span(by="name", limit=9)) == (key,)
        revoked = [
            ledger.store.write(lambda u: u.keys.revoke(key.id, principal="person_ada"))
            for _ in range(2)
        ]
        assert revoked[0] == revoked[1]
        assert revoked[0].revoked_at is not None
        with ledger.store.reading() as r:
            system = r.entries.list(SYSTEM_ACCOUNT)
        assert [e.kind for e in system if e.note == key.id] == ["key_created", "key_revoked"]
        with pytest.raises(Problem) as refused:
            ledger.store.write(lambda u: u.keys.revoke("key_unknown", principal="person_ada"))
        assert code_of(refused) == "not-found"


def test_a_secret_is_nowhere_in_a_system_entry(place: Place) -> None:
    """Only a digest over the key's public facts and its secret's hash is chained."""
    with opened(place) as ledger:
        ledger.store.write(
            lambda u: u.keys.insert(
                name="k",
                role=Role.ADMIN,
                person=ANALYST,
                secret_hash="ef" * 32,
                expires_at="2027-01-01T00:00:00Z",
                principal="person_ada",
            )
        )
        with ledger.store.reading() as r:
            assert "ef" * 32 not in repr(r.entries.list(SYSTEM_ACCOUNT))


def test_the_system_account_takes_entries_of_any_kind_but_money(place: Place) -> None:
    with opened(place) as ledger:
        entry = ledger.store.write(
            lambda u: u.accounts.system_entry(
                "policy_changed", principal=CURATOR, fingerprint="f" * 64, note=ledger.dataset
            )
        )
        assert (entry.account, entry.amount, entry.total_after) == (SYSTEM_ACCOUNT, 0, 0)
        assert ledger.store.verify().ok


def test_an_account_that_has_moved_on_is_not_moved_again(place: Place) -> None:
    """A chain that begins where the account was is refused by the update itself."""
    with opened(place) as ledger:

        def move_twice(u: UnitOfWork) -> None:
            stale = u.entries.chain(ledger.account, now())
            u.accounts.grant(ledger.account, 5, principal=CURATOR, reason="first")
            occasion = Occasion(principal=CURATOR, note="second")
            stale.add(EntryKind.GRANT, 7, stale.balance.after(EntryKind.GRANT, 7), occasion)
            u.entries.write(stale)

        with pytest.raises(LostUpdateError):
            ledger.store.write(move_twice)
        assert ledger.balance() == (1000, 0, 0)
        assert ledger.store.verify().ok


@pytest.mark.parametrize(
    "forged",
    [
        [(EntryKind.DEBIT, 1001, Balance(1000, 1001))],
        [(EntryKind.RESERVE, 1001, Balance(1000, 0, 1001))],
        [(EntryKind.DEBIT, 600, Balance(1000, 600)), (EntryKind.DEBIT, 401, Balance(1000, 1001))],
        [(EntryKind.GRANT, 5, Balance(1005)), (EntryKind.DEBIT, 1006, Balance(1005, 1006))],
    ],
    ids=["debit", "reserve", "debits", "grant"],
)
def test_the_update_that_charges_looks_at_the_budget_itself(
    place: Place, forged: list[tuple[EntryKind, int, Balance]]
) -> None:
    """A chain whose balances no one has computed: no constraint has to catch it."""
    with opened(place, total=1000) as ledger:

        def overspend(u: UnitOfWork) -> None:
            chain = u.entries.chain(ledger.account, now())
            for kind, amount, after in forged:
                occasion = Occasion(principal=ANALYST, release="rel", fingerprint="print")
                chain.add(kind, amount, after, occasion)
            u.entries.write(chain)

        with pytest.raises(LostUpdateError):
            ledger.store.write(overspend)
        assert ledger.balance() == (1000, 0, 0)
        assert ledger.store.verify().ok
