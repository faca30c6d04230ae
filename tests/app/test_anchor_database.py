"""The anchor in a second PostgreSQL database: several writers, restores, copies served beside."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL
from sqlalchemy.engine import make_url

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import (
    Debit,
    DirectoryLockedError,
    Finish,
    Standing,
    Store,
    StoreError,
    inspecting,
    reconciling,
)
from app.store.anchor import database as anchor_database
from app.store.anchor.database import DatabaseAnchor, DatabaseWitness
from app.store.anchor.standing import (
    Anchored,
    AnchorError,
    AnchorMismatchError,
    LedgerState,
    Step,
    judge,
)
from app.store.database import engines
from app.store.errors import UnsupportedDatabaseError
from app.store.ledger.entries import Move, Position
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, place_on
from tests.app.postgres import databases
from tests.app.test_anchor import at, state, step

pytestmark = pytest.mark.postgres

_NOTE_DURABILITY = """
CREATE TABLE written (durability text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO written VALUES (current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON anchor FOR EACH ROW EXECUTE FUNCTION note()
"""


@dataclass(frozen=True)
class Pair:
    """A ledger's database and its anchor's."""

    directory: Path
    url: str
    anchor_url: str

    def open(
        self,
        directory: Path | None = None,
        url: str | None = None,
        anchor: DatabaseAnchor | None = None,
    ) -> Store:
        store = Store.open(
            url or self.url,
            data_dir=directory or self.directory,
            anchor=anchor or DatabaseAnchor(self.anchor_url),
        )
        store.share()
        return store

    def ledger(self, store: Store) -> Ledger:
        account = store.write(
            lambda u: u.accounts.open(total=1000, principal=CURATOR, reason="budget")
        ).id
        dataset = store.write(
            lambda u: u.datasets.insert(
                name="people", account=account, spec="{}", rows=3, principal=CURATOR
            )
        ).id
        return Ledger(store, account, dataset, Place(self.directory, self.url))

    def copied(self) -> str:
        """Return the address of a copy of the ledger's database."""
        name, copy = make_url(self.url).database, databases().empty()
        databases().administer(f'DROP DATABASE "{copy}"')
        databases().administer(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        databases().administer(f'CREATE DATABASE "{copy}" TEMPLATE "{name}"')
        return databases().url(copy)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with place_on("postgres", tmp_path) as place:
        yield Pair(tmp_path, place.url, databases().url(databases().empty()))


@contextmanager
def closing(*stores: Store) -> Iterator[tuple[Store, ...]]:
    try:
        yield stores
    finally:
        for store in stores:
            store.close()


def charge(store: Store, ledger: Ledger, idem: str, amount: int = 1) -> str:
    debit = Debit(
        dataset=ledger.dataset, principal=ANALYST, idem=idem, amount=amount, request="{}", plan="{}"
    )
    return store.write(debit).record.id


def spent(store: Store, account: str) -> int:
    with store.reading() as r:
        found = r.accounts.get(account)
    assert found is not None
    return found.spent


def test_writers_share_an_anchor(pair: Pair) -> None:
    stores = [pair.open() for _ in range(3)]
    with closing(*stores):
        ledger = pair.ledger(stores[0])

        def work(number: int) -> None:
            for count in range(8):
                release = charge(stores[number], ledger, f"{number}-{count}")
                if count % 2:
                    other = stores[(number + 1) % 3]
                    other.write(Finish(release=release, result=b"{}"))
                elif count % 4:
                    stores[number].write(lambda u, r=release: u.releases.void(r))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [store.frozen for store in stores] == [None] * 3
        assert stores[0].anchored == "database"
        assert spent(stores[1], ledger.account) == 24
    store = pair.open()
    with closing(store):
        assert store.frozen is None
        assert store.verify().ok


def test_an_older_database_is_frozen_and_burned(pair: Pair) -> None:
    store = pair.open()
    ledger = pair.ledger(store)
    charge(store, ledger, "first", 10)
    store.close()
    old = pair.copied()
    store = pair.open()
    charge(store, ledger, "second", 15)
    charge(store, ledger, "third", 5)
    store.close()
    restored = pair.open(url=old)
    with closing(restored):
        assert restored.frozen is Standing.OLDER
        with pytest.raises(Problem, match="ledger-frozen"):
            charge(restored, ledger, "fourth")
    anchor = DatabaseAnchor(pair.anchor_url)
    with reconciling(old, data_dir=pair.directory, anchor=anchor) as reconciliation:
        assert reconciliation.findings().lost == {ledger.account: 20}
        reconciliation.apply()
    restored = pair.open(url=old)
    with closing(restored):
        assert restored.frozen is None
        assert spent(restored, ledger.account) == 30
        charge(restored, ledger, "fourth")
        assert restored.verify().ok
    again = pair.open(url=old)
    assert again.frozen is None
    again.close()


def test_what_a_dead_process_had_noted_is_burned_by_the_next(pair: Pair) -> None:
    dead, alive = pair.open(), pair.open()
    with closing(alive):
        ledger = pair.ledger(alive)
        waiting = charge(alive, ledger, "waiting", 2)

        def die(_: object) -> None:
            guard = dead._guard
            work = dead.writer._work
            guard.before_commit(work)
            guard.rolled_back = lambda: None  # type: ignore[method-assign]
            raise RuntimeError("as if killed before COMMIT")

        dead.writer.before_commit = die
        for task in (
            Debit(
                dataset=ledger.dataset,
                principal=ANALYST,
                idem="lost",
                amount=7,
                request="{}",
                plan="{}",
            ),
        ):
            with pytest.raises(RuntimeError, match="killed"):
                dead.write(task)
        assert spent(alive, ledger.account) == 2
        charge(alive, ledger, "next", 3)
        assert spent(alive, ledger.account) == 12, "2, the 7 that were lost, and 3"
        with pytest.raises(RuntimeError, match="killed"):
            dead.write(Finish(release=waiting, result=b"seen"))
        charge(alive, ledger, "after", 1)
        with alive.reading() as r:
            found = r.releases.get(waiting)
        assert found is not None
        assert (found.state, found.result) == (ReleaseState.RELEASED, b"seen")
        assert alive.verify().ok
    dead.close()
    store = pair.open()
    assert store.frozen is None
    store.close()


def test_a_copy_served_beside_stops_the_other(pair: Pair, tmp_path: Path) -> None:
    store = pair.open()
    ledger = pair.ledger(store)
    store.close()
    copy = pair.copied()
    ours, theirs = pair.open(), pair.open(tmp_path / "other", copy)
    with closing(ours, theirs):
        charge(ours, ledger, "ours")
        charge(ours, ledger, "ours too")
        for _ in range(2):
            with pytest.raises(Problem, match="ledger-frozen"):
                charge(theirs, ledger, "theirs")
        assert theirs.frozen is Standing.DIFFERENT
        charge(ours, ledger, "ours still")


class CutOff(DatabaseAnchor):
    """The anchor of a writer whose connection to the ledger is cut while its note is under way."""

    late: Callable[[], None] | None = None

    def begin(self, step: Step) -> None:
        def note() -> None:
            self.late = None
            DatabaseAnchor.begin(self, step)

        self.late = note
        raise RuntimeError("cut off")

    def arrive(self) -> None:
        if self.late is not None:
            self.late()


@pytest.mark.parametrize("while_read", [True, False])
def test_a_late_note_of_a_writer_that_was_cut_off_fails_one_transaction(
    pair: Pair, while_read: bool
) -> None:
    """It comes after the lock is free: another writer has read the anchor, or is at it."""
    gone = CutOff(pair.anchor_url)

    @dataclass(frozen=True)
    class Watched:
        told: Any

        @property
        def moved(self) -> Any:
            if while_read:
                gone.arrive()
            return self.told.moved

        def __getattr__(self, name: str) -> Any:
            return getattr(self.told, name)

    class Reading(DatabaseAnchor):
        def settle(self, evidence: Any) -> Step | None:
            found = super().settle(Watched(evidence))
            gone.arrive()
            return found

    alive, cut = (pair.open(anchor=anchor) for anchor in (Reading(pair.anchor_url), gone))
    with closing(alive, cut):
        ledger = pair.ledger(alive)
        charge(alive, ledger, "first", 2)
        with pytest.raises(RuntimeError, match="cut off"):
            charge(cut, ledger, "lost", 7)
        with pytest.raises(Problem, match="busy"):
            charge(alive, ledger, "second", 3)
        assert alive.frozen is None
        charge(alive, ledger, "second", 3)
        assert spent(alive, ledger.account) == 12, "2, the 7 that may have been answered, and 3"
        assert alive.verify().ok


def test_an_emptied_anchor_freezes(pair: Pair) -> None:
    store = pair.open()
    with closing(store):
        ledger = pair.ledger(store)
        with psycopg.connect(
            pair.anchor_url.replace("+psycopg", ""), autocommit=True
        ) as connection:
            connection.execute("DELETE FROM anchor")
        with pytest.raises(Problem, match="ledger-frozen"):
            charge(store, ledger, "one")
    store = pair.open()
    assert store.frozen is Standing.FORGOTTEN
    store.close()


def by_name(url: str) -> str:
    parsed = make_url(url)
    query = {"dbname": str(parsed.database)}
    return _written(parsed.set(database=None).update_query_dict(query))


def in_a_schema(url: str) -> str:
    return _written(make_url(url).update_query_dict({"options": "-csearch_path=elsewhere"}))


def through_two_hosts(url: str) -> str:
    parsed = make_url(url)
    socket = parsed.host or str(parsed.query["host"])
    hosts = {"host": f"{socket}-gone,{socket}"}
    return _written(parsed.set(host=None).update_query_dict(hosts))


def _written(url: URL) -> str:
    return url.render_as_string(hide_password=False)


@pytest.mark.parametrize("put", [str, by_name, in_a_schema, through_two_hosts])
def test_the_ledger_s_own_database_is_refused_whatever_its_address(
    pair: Pair, put: Callable[[str], str]
) -> None:
    """A restore would take the anchor back with the ledger."""
    if put is in_a_schema:
        with psycopg.connect(pair.url) as connection:
            connection.execute("CREATE SCHEMA elsewhere")
    own = replace(pair, anchor_url=put(pair.url))
    match = "the anchor needs another database than the ledger's"
    for _ in range(2):  # empty, and with a ledger in it
        with pytest.raises(UnsupportedDatabaseError, match=match):
            own.open()
    with (
        pytest.raises(UnsupportedDatabaseError, match=match),
        reconciling(pair.url, data_dir=pair.directory, anchor=DatabaseAnchor(own.anchor_url)),
    ):
        pass
    with inspecting(pair.url) as reader:
        found = reader.verify(witness=DatabaseAnchor(own.anchor_url).witness)
    assert (found.faults, found.anchored) == ((match,), None)
    with closing(pair.open()) as (store,):
        assert store.frozen is None
        assert store.verify().ok, "nothing has been left there"


def test_another_server_s_database_of_the_same_name_is_another(pair: Pair) -> None:
    other = databases.__wrapped__()
    name = make_url(pair.url).database
    other.administer(f'CREATE DATABASE "{name}"')
    elsewhere = replace(pair, anchor_url=other.url(name))
    with closing(elsewhere.open()) as (store,):
        charge(store, pair.ledger(store), "one")
        assert store.frozen is None
        assert store.verify().anchored is Standing.CURRENT


def test_an_anchor_that_cannot_be_reached_stops_writes(pair: Pair) -> None:
    with pytest.raises(StoreError, match="must be on PostgreSQL"):
        DatabaseAnchor("sqlite:///x")
    store = pair.open()
    with closing(store):
        ledger = pair.ledger(store)
        anchor = store._guard._anchor
        assert isinstance(anchor, DatabaseAnchor)
        there, anchor._info = anchor._info, "host=127.0.0.1 port=1 connect_timeout=1"
        anchor.close()
        with pytest.raises(AnchorError):
            charge(store, ledger, "one")
        anchor._info = there
        charge(store, ledger, "one")
        assert spent(store, ledger.account) == 1
        assert store.frozen is None


def test_an_anchor_that_does_not_answer_is_not_waited_for_long(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchor_database, "LONGEST_MS", 300)
    store = pair.open()
    with closing(store):
        ledger = pair.ledger(store)
        with psycopg.connect(pair.anchor_url) as other:
            other.execute("LOCK TABLE anchor IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(AnchorError):
                charge(store, ledger, "one")
            with pytest.raises(AnchorError):
                DatabaseAnchor(pair.anchor_url).witness.look()
        charge(store, ledger, "one")
        assert spent(store, ledger.account) == 1
        assert store.frozen is None


def test_every_connection_notices_that_its_server_is_gone(pair: Pair) -> None:
    """What the client library does on a silent network, as far as it can be asked here."""
    anchor = DatabaseAnchor(pair.anchor_url)
    anchor.read()
    assert anchor._connection is not None
    found = [anchor._connection.info.get_parameters()]
    anchor.close()
    for engine in (engines.writing_engine(pair.url), engines.reading_engine(pair.url)):
        with engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            found.append(driver.info.get_parameters())
        engine.dispose()
    names = [given.pop("application_name") for given in found]
    assert names == ["release-desk anchor", "release-desk", "release-desk"]
    for given in found:
        assert (
            given.items()
            >= {
                "connect_timeout": "10",
                "keepalives_idle": "15",
                "keepalives_interval": "5",
                "keepalives_count": "3",
                "tcp_user_timeout": "30000",
            }.items()
        )


def test_no_statement_of_an_anchor_takes_long(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer waits for it with the ledger's lock in its hands."""
    assert anchor_database.LONGEST_MS == 30_000
    monkeypatch.setattr(anchor_database, "LONGEST_MS", 200)
    anchor = DatabaseAnchor(pair.anchor_url)
    anchor.read()
    with psycopg.connect(pair.anchor_url) as other:
        other.execute("LOCK TABLE anchor IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(AnchorError, match="cannot be used") as refused:
            anchor.read()
        assert isinstance(refused.value.__cause__, psycopg.errors.QueryCanceled)
    anchor.close()


def test_all_that_an_anchor_writes_is_flushed_whatever_its_servers_default(pair: Pair) -> None:
    name = make_url(pair.anchor_url).database
    databases().administer(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    anchor = DatabaseAnchor(pair.anchor_url)
    with psycopg.connect(pair.anchor_url, autocommit=True) as watcher:
        assert watcher.execute("SHOW synchronous_commit").fetchone() == ("off",)
        assert anchor.read() is None
        watcher.execute(_NOTE_DURABILITY)
        anchor.start(state())
        anchor.begin(step(state()))
        anchor.undo()
        anchor.adopt(state())
        anchor.close()
        found = watcher.execute("SELECT durability FROM written").fetchall()
    assert found == [("on",)] * 4


def test_reconciling_needs_the_ledger_to_itself(pair: Pair) -> None:
    store = pair.open()
    anchor = DatabaseAnchor(pair.anchor_url)
    with (
        closing(store),
        pytest.raises(DirectoryLockedError, match="a server is running here"),
        reconciling(pair.url, data_dir=pair.directory, anchor=anchor),
    ):
        pass


# The anchor by itself: several processes at one


@dataclass(frozen=True)
class Told:
    """What a ledger in this state says of the time before a transaction."""

    state: LedgerState
    moved: Sequence[str] = ("a",)
    answered: frozenset[str] = frozenset()

    def positions(self, accounts: Sequence[str]) -> Mapping[str, Position]:
        return {name: found for name in accounts if (found := self.state.accounts.get(name))}

    def settled(self, releases: Sequence[str]) -> bool:
        return not self.answered.isdisjoint(releases)


@pytest.fixture
def process() -> Iterator[Callable[[], DatabaseAnchor]]:
    """Each call is another process at the same anchor."""
    url, anchors = databases().url(databases().empty()), list[DatabaseAnchor]()

    def another() -> DatabaseAnchor:
        anchors.append(DatabaseAnchor(url))
        return anchors[-1]

    yield another
    for anchor in anchors:
        anchor.close()


def test_a_transaction_is_known_before_and_after(process: Callable[[], DatabaseAnchor]) -> None:
    first = state(a=at(1))
    one, other = process(), process()
    assert one.read() is None
    one.start(first)
    assert one.read() == Anchored(first)
    assert one.settle(Told(first)) is None
    taken = step(first, 1, a=at(2, 5), b=at(1))
    one.begin(taken)
    assert other.read() == Anchored(first, taken)
    second = first.after(taken)
    assert other.settle(Told(second)) is None, "it has been committed"
    following = step(second, 2, a=at(3, 7))
    other.begin(following)
    known = process().read()
    assert known == Anchored(second, following)
    assert process().settle(Told(second)) == following, "it has been lost"
    # a process that starts goes on from what is there
    process().start(second)
    assert one.read() == known


def test_a_transaction_that_moved_nothing_is_known_by_its_results(
    process: Callable[[], DatabaseAnchor],
) -> None:
    """An earlier version noted those: it stored results without an entry."""
    first = state(a=at(1))
    process().start(first)
    stored = Step(moves={}, unfinished_change=-1, results={"rel_a": b"{}", "rel_b": None})
    writer = process()
    writer.settle(Told(first))
    writer.begin(stored)
    assert process().settle(Told(first, answered=frozenset({"rel_a"}))) is None
    assert process().settle(Told(first)) == stored, "it has been lost"


def test_results_that_an_earlier_version_lost_are_stored_again(pair: Pair) -> None:
    store = pair.open()
    ledger = pair.ledger(store)
    waiting = charge(store, ledger, "waiting", 2)
    store.close()
    noted = DatabaseAnchor(pair.anchor_url)
    known = noted.read()
    assert known is not None
    assert known.latest is not None
    noted.settle(Told(known.latest))
    noted.begin(Step(moves={}, unfinished_change=-1, results={waiting: b"seen"}))
    noted.close()
    with closing(pair.open()) as (again,):
        assert again.frozen is None
        with again.reading() as r:
            found = r.releases.get(waiting)
        assert found is not None
        assert (found.state, found.result) == (ReleaseState.RELEASED, b"seen")
        assert again.verify().ok


def test_an_undone_transaction_is_not_counted(process: Callable[[], DatabaseAnchor]) -> None:
    first = state(a=at(1))
    one, other = process(), process()
    one.start(first)
    one.settle(Told(first))
    one.begin(step(first, 1, a=at(2, 5)))
    one.undo()
    assert one.read() == Anchored(first)
    assert other.settle(Told(first)) is None
    taken = step(first, 1, a=at(2, 1))
    other.begin(taken)
    one.undo()  # is not its own any more
    assert one.read() == Anchored(first, taken)


def test_what_changes_nothing_is_not_noted(process: Callable[[], DatabaseAnchor]) -> None:
    first = state(a=at(1))
    one, other = process(), process()
    one.start(first)
    for anchor in (one, other):
        anchor.settle(Told(first))
    one.begin(Step(moves={}, unfinished_change=0))
    other.begin(step(first, a=at(2, 5)))  # no one has been here
    assert one.read() == Anchored(first, step(first, a=at(2, 5)))


def test_undoing_what_changed_nothing_leaves_the_one_before_it(
    process: Callable[[], DatabaseAnchor],
) -> None:
    """It has been committed: without its note an old copy would look like the newest state."""
    first = state(a=at(1))
    one = process()
    one.start(first)
    one.settle(Told(first))
    taken = step(first, 1, a=at(2, 5))
    one.begin(taken)
    second = first.after(taken)
    for _ in range(2):
        one.settle(Told(second))
        one.begin(Step(moves={}, unfinished_change=0))
        one.undo()
        assert process().read() == Anchored(first, taken)
    one.settle(Told(second))
    one.begin(step(second, 2, a=at(3, 7)))
    one.undo()
    assert process().read() == Anchored(second)


def test_a_transaction_from_somewhere_else_is_refused(
    process: Callable[[], DatabaseAnchor],
) -> None:
    first = state(a=at(1))
    one, other = process(), process()
    one.start(first)
    for anchor in (one, other):
        anchor.settle(Told(first))
    for wrong in (
        Move(at(1, 1), at(2, 2)),
        Move(None, at(1)),
        Move(replace(at(1), head="f" * 64), at(2)),
    ):
        with pytest.raises(AnchorMismatchError, match="account a"):
            one.begin(Step(moves={"a": wrong}, unfinished_change=0))
    one.begin(step(first, a=at(2, 5)))
    with pytest.raises(AnchorMismatchError, match="somebody else"):
        other.begin(step(first, a=at(2, 6)))
    assert one.read() == Anchored(first, step(first, a=at(2, 5)))


def test_a_reconciliation_holds_either_way(process: Callable[[], DatabaseAnchor]) -> None:
    first = state(a=at(1))
    one, other = process(), process()
    one.start(first)
    one.settle(Told(first))
    taken = step(first, a=at(2, 5))
    one.begin(taken)
    adopted = replace(first, epoch=2, accounts={"0": at(2), "a": at(2, 5)})
    process().adopt(adopted)
    known = other.read()
    assert known == Anchored(first, adopted)
    assert judge(known, adopted) is Standing.CURRENT
    assert judge(known, first.after(taken)).frozen, "it can be begun again after a crash"
    with pytest.raises(AnchorMismatchError, match="not been started from"):
        one.settle(Told(first.after(taken)))
    other.start(adopted)
    assert other.read() == Anchored(adopted)
    assert other.settle(Told(adopted)) is None


def test_a_reconciliation_without_an_anchor_makes_one(
    process: Callable[[], DatabaseAnchor],
) -> None:
    found = replace(state(a=at(4, 2)), epoch=2)
    one = process()
    one.adopt(found)
    assert one.read() == Anchored(None, found)
    assert judge(one.read(), state(a=at(4, 2))) is Standing.OLDER
    with pytest.raises(AnchorMismatchError, match="emptied"):
        one.settle(Told(found))
    one.start(found)
    assert one.read() == Anchored(found)


def test_between_two_looks_there_was_at_most_one_step() -> None:
    witness = DatabaseWitness("")
    first = state(a=at(1))
    one = step(first, a=at(2, 5))
    two = step(first.after(one), a=at(3, 7))
    noted, undone = Anchored(first, one), Anchored(first)
    followed = Anchored(first.after(one), two)
    assert witness.between(noted, noted) == [noted]
    assert witness.between(noted, followed) == [noted, followed]
    assert witness.between(noted, undone) == [noted, undone]
    assert witness.between(None, None) == [None]
    for before, after in ((undone, followed), (None, noted), (noted, None)):
        assert witness.between(before, after) is None, "there may have been others"
