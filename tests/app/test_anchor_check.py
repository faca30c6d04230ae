"""Verification against the anchor: what chains and sums cannot show; next to a server too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection

from app.store import FileAnchor, Standing, Store, Verification, Witness, inspecting
from app.store.anchor.database import DatabaseAnchor, DatabaseWitness
from app.store.anchor.file import LOG_NAME, FileWitness
from app.store.anchor.standing import AnchorError, LedgerState, standing_to
from tests.app.conftest import ON_BOTH
from tests.app.ledgers import CURATOR, Ledger, Place, place_on, raw, unguarded
from tests.app.postgres import databases
from tests.app.test_anchor import at, state, step

UNANSWER = (
    """UPDATE release SET state = 'debited', result = NULL, result_hash = NULL,
    finished_at = NULL WHERE number = 3""",
    "DELETE FROM leaf WHERE release = 3",
    "DELETE FROM entry WHERE account = '0' AND seq = (SELECT seq FROM account WHERE id = '0')",
    """UPDATE account SET seq = seq - 1, head = (SELECT e.hash FROM entry AS e
    WHERE e.account = '0' AND e.seq = account.seq - 1) WHERE id = '0'""",
)
"""The last result was never stored, and no entry seals it."""
LACKS = "the anchor: it lacks what the anchor knows of"


@dataclass(frozen=True)
class Anchored:
    """A place whose ledger is kept to an anchor, on either database."""

    place: Place
    anchor: Callable[[], FileAnchor | DatabaseAnchor]
    witness: Witness

    def open(self) -> Store:
        return Store.open(self.place.url, data_dir=self.place.directory, anchor=self.anchor())

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        with closing(self.open()) as store:
            write = store.write
            account = write(
                lambda u: u.accounts.open(total=10**6, principal=CURATOR, reason="budget")
            ).id
            dataset = write(
                lambda u: u.datasets.insert(
                    name="people", account=account, spec="{}", rows=3, principal=CURATOR
                )
            ).id
            yield Ledger(store, account, dataset, self.place)

    def check(self, witness: Witness | None = None) -> Verification:
        with inspecting(self.place.url) as reader:
            return reader.verify(witness=witness or self.witness)


@pytest.fixture(params=ON_BOTH)
def anchored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Anchored]:
    with place_on(request.param, tmp_path) as place:
        if request.param == "sqlite":
            yield Anchored(
                place,
                lambda: FileAnchor(tmp_path / "anchor"),
                FileWitness(tmp_path / "anchor"),
            )
        else:
            url = databases().url(databases().empty())
            anchor = DatabaseAnchor(url)
            yield Anchored(place, lambda: DatabaseAnchor(url), anchor.witness)


def take_out_a_result(place: Place) -> None:
    if place.backend == "sqlite":
        with raw(place, guarded=False) as connection:
            for statement in UNANSWER:
                connection.execute(statement)
    else:
        with psycopg.connect(place.url) as connection, unguarded(connection):
            for statement in UNANSWER:
                connection.execute(statement)


def test_a_result_that_was_taken_out_again_is_found(anchored: Anchored) -> None:
    """With all that belongs to it, so that nothing else of the ledger contradicts it."""
    with anchored.ledger() as ledger:
        for number in range(3):
            ledger.release(f"k{number}")
        ledger.debit("later")
        assert ledger.store.verify().anchored is Standing.CURRENT
    assert anchored.check().faults == ()
    assert anchored.check().anchored is Standing.CURRENT
    take_out_a_result(anchored.place)
    with inspecting(anchored.place.url) as reader:
        assert reader.verify().faults == ()
    assert anchored.check().faults == (LACKS,)
    assert anchored.check().anchored is Standing.OLDER
    with closing(anchored.open()) as store:
        assert store.frozen is Standing.OLDER


def test_a_running_server_finds_it_as_well(anchored: Anchored) -> None:
    with anchored.ledger() as ledger:
        for number in range(3):
            ledger.release(f"k{number}")
        ledger.debit("later")
        take_out_a_result(anchored.place)
        assert ledger.store.verify().faults == (LACKS,)


def test_a_server_that_goes_on_is_where_its_anchor_says(anchored: Anchored) -> None:
    """However the two are read: one is always ahead of the other."""
    with anchored.ledger() as ledger:
        stop = threading.Event()

        def release() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                ledger.release(f"{threading.get_ident()} {number}")

        threads = [threading.Thread(target=release) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            with inspecting(anchored.place.url) as reader:
                found = [standing_to(reader.connection, anchored.witness) for _ in range(30)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert {*found} <= {Standing.CURRENT, Standing.BEHIND, None}
        assert len([each for each in found if each is not None]) > 5
        assert ledger.store.verify().faults == ()


def test_a_transaction_that_failed_at_its_commit_is_no_fault(anchored: Anchored) -> None:
    with anchored.ledger() as ledger:
        ledger.release("one")

        def fail(unit: Any) -> None:
            ledger_of = unit.accounts.grant(
                ledger.account, 1, principal=CURATOR, reason="never comes"
            )
            raise RuntimeError(ledger_of)

        with pytest.raises(RuntimeError):
            ledger.store.write(fail)
        assert anchored.check().anchored in (Standing.CURRENT, Standing.BEHIND)
        ledger.release("two")
        assert anchored.check().faults == ()


def test_no_anchor_at_all_is_a_fault_once_something_has_happened(anchored: Anchored) -> None:
    with anchored.ledger() as ledger:
        ledger.release("one")
    forget(anchored)
    assert "the anchor: there is no anchor for it" in anchored.check().faults


def forget(anchored: Anchored) -> None:
    if isinstance(anchored.witness, FileWitness):
        (anchored.place.directory / "anchor" / LOG_NAME).unlink()
        return
    assert isinstance(anchored.witness, DatabaseWitness)
    with psycopg.connect(anchored.witness._info, autocommit=True) as connection:
        connection.execute("DELETE FROM anchor")
        assert anchored.witness.look() is None
        connection.execute("DROP TABLE anchor")


class Moving:
    """A witness that can never say what the anchor has been."""

    def require_apart(self, ledger: Connection) -> None:
        pass

    def look(self) -> int:
        return 0

    def between(self, before: int, after: int) -> None:
        del before, after


class Unreadable(Moving):
    """A witness that sees nothing."""

    def look(self) -> int:
        raise AnchorError("no permission")


@pytest.mark.parametrize("witness", [Moving(), Unreadable()])
def test_an_anchor_that_cannot_be_compared_is_no_fault(
    anchored: Anchored, witness: Witness
) -> None:
    with anchored.ledger() as ledger:
        ledger.release("one")
    found = anchored.check(witness)
    assert (found.faults, found.anchored) == ((), None)


def test_an_anchor_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / LOG_NAME).mkdir()
    with pytest.raises(AnchorError, match="cannot be read"):
        FileWitness(tmp_path).look()
    with pytest.raises(AnchorError, match="cannot be used"):
        DatabaseWitness(f"host={tmp_path} connect_timeout=1").look()


def test_the_file_s_witness_knows_every_state_in_between(tmp_path: Path) -> None:
    witness, anchor = FileWitness(tmp_path), FileAnchor(tmp_path)
    first: LedgerState = state(a=at(1))
    anchor.start(first)
    nothing = witness.look()
    anchor.begin(step(first, 1, a=at(2, 5)))
    one = first.after(step(first, 1, a=at(2, 5)))
    looked = witness.look()
    assert witness.between(nothing, looked) is None
    assert [seen(each) for each in witness.between(looked, looked) or ()] == [(first, one)]
    lost = step(one, 1, a=at(3, 6))
    anchor.begin(lost)
    anchor.undo()
    two = one.after(step(one, -1, a=at(3, 9)))
    anchor.begin(step(one, -1, a=at(3, 9)))
    known = witness.between(looked, witness.look()) or ()
    assert [seen(each) for each in known] == [(first, one), (one, one.after(lost)), (one, two)]
    anchor.start(two)
    anchor.begin(step(two, 1, a=at(4, 10)))
    assert witness.between(looked, witness.look()) is None
    anchor.close()


def seen(known: Any) -> tuple[LedgerState, LedgerState]:
    return known.state, known.latest
