"""Who may see which data sets: the algebra of the entries, the service, and edits behind it."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.access import ACCESS_SET, GROUP_SET, GROUPS_GIVEN, Access, AccessList, note_of
from app.domain.policies import Role
from app.domain.problems import Problem
from app.services.people import keys
from app.services.people.access import AccessService
from app.services.people.keys import Caller, KeyService
from app.store import Store
from app.store.unit_of_work import Wanted
from tests.app.callers import register
from tests.app.ledgers import Place, opened
from tests.app.test_forgeries import edit, reopened

ADMIN = Caller(key="key_root", person="root", role=Role.ADMIN)
CLEO = Caller(key="key_cleo", person="cleo", role=Role.CURATOR)
ADA = Caller(key="key_ada", person="ada", role=Role.ANALYST)
EVE = Caller(key="key_eve", person="eve", role=Role.CURATOR)
EVERYONE = (ADMIN, CLEO, ADA, EVE)
NAMES = st.sampled_from(["ada", "bob", "cleo"])
GROUPS = st.sampled_from(["x", "y", "uni:z"])
ENTRIES = st.one_of(
    st.tuples(
        st.just(ACCESS_SET), st.sampled_from(["acc_1", "acc_2"]), st.none() | st.lists(NAMES),
        st.lists(GROUPS),
    ),
    st.tuples(st.just(GROUP_SET), st.sampled_from(["x", "y"]), st.lists(NAMES), st.just([])),
    st.tuples(st.just(GROUPS_GIVEN), NAMES, st.just([]), st.lists(st.just("uni:z"))),
)  # fmt: skip


def note(kind: str, subject: str, persons: list[str] | None, groups: list[str]) -> str:
    if kind == ACCESS_SET:
        access = None if persons is None else {"persons": persons, "groups": groups}
        return note_of(kind, account=subject, access=access)
    if kind == GROUP_SET:
        return note_of(kind, name=subject, persons=persons)
    return note_of(kind, person=subject, groups=groups)


@given(st.lists(ENTRIES, max_size=12))
def test_the_last_word_on_each_thing_counts(
    entries: list[tuple[str, str, list[str] | None, list[str]]],
) -> None:
    found = Access()
    for seq, entry in enumerate(entries, 1):
        found = found.after(seq, entry[0], note(*entry))
    last = {entry[:2]: entry[2:] for entry in entries}
    for person in ("ada", "bob", "cleo"):
        own = {
            subject
            for (kind, subject), (persons, _) in last.items()
            if kind == GROUP_SET and person in (persons or ())
        }
        own.update(last.get((GROUPS_GIVEN, person), ([], []))[1])
        hidden = {
            subject
            for (kind, subject), (persons, groups) in last.items()
            if kind == ACCESS_SET
            and persons is not None
            and person not in persons
            and not own & set(groups)
        }
        assert found.hidden_from(person) == hidden
    assert found.seq == len(entries)


def test_a_list_counts_at_once_in_every_process(place: Place) -> None:
    with opened(place) as ledger:
        register(ledger.store, *EVERYONE)
        keys = KeyService(ledger.store)
        other = KeyService(ledger.store) if ledger.store.shared else keys
        access = AccessService(ledger.store, keys, providers={"uni"})

        def hidden(caller: Caller) -> frozenset[str]:
            return asyncio.run(other.recognise(caller.key.encode())).hidden

        def restrict(listed: AccessList | None, by: Caller = ADMIN) -> None:
            asyncio.run(access.restrict(ledger.dataset, listed, "a test", caller=by))

        assert not any(map(hidden, EVERYONE))
        restrict(AccessList(("cleo",), ("uni:z",)))
        assert [bool(hidden(each)) for each in EVERYONE] == [False, False, True, True]
        asyncio.run(access.set_group("study", ["ada", "ada"], "a test", caller=ADMIN))
        restrict(AccessList(("cleo",), ("study",)), by=CLEO)
        assert [bool(hidden(each)) for each in EVERYONE] == [False, False, False, True]
        with pytest.raises(Problem, match="invalid-request"):
            restrict(AccessList(("ada",)), by=CLEO)
        asyncio.run(access.set_group("study", [], "a test", caller=ADMIN))
        assert hidden(ADA) == {ledger.account}
        ada = asyncio.run(other.recognise(ADA.key.encode()))
        for ids in ({"dataset": ledger.dataset}, {"dataset": "ds_0"}):
            with pytest.raises(Problem, match="not-found"):
                asyncio.run(keys.access.require(ada, ids))
        assert access.list_of(ledger.dataset) == AccessList(("cleo",), ("study",))
        restrict(None)
        assert not any(map(hidden, EVERYONE))
        assert ledger.store.verify(signed=True).ok
        with ledger.store.reading() as reader:
            made = reader.entries.of_system(ACCESS_SET)
            assert [entry.principal for entry in made] == ["root", "cleo", "root"]
            assert {entry.role for entry in made} == {"admin", "curator"}
            hides = Wanted(hidden=frozenset({ledger.account}))
            shown = reader.journal.page(hides, skip=0, limit=99)
            marks = (ledger.account, ledger.dataset)
            assert not [each for each in shown for mark in marks if mark in (each.note or "")]
            assert {each.account for each in shown} == {"0"}


def test_a_list_that_says_nothing_new_is_no_entry(place: Place) -> None:
    with opened(place) as ledger:
        register(ledger.store, *EVERYONE)
        access = AccessService(ledger.store, KeyService(ledger.store))
        for persons in (("ada", "cleo"), ("cleo", "ada", "ada")):
            listed = AccessList(persons)
            asyncio.run(access.restrict(ledger.dataset, listed, "a test", caller=ADMIN))
            asyncio.run(access.set_group("study", persons, "a test", caller=ADMIN))
        with ledger.store.reading() as reader:
            assert len(reader.entries.of_system(ACCESS_SET)) == 1
            assert len(reader.entries.of_system(GROUP_SET)) == 1


@pytest.mark.parametrize(
    ("kind", "role"),
    [(ACCESS_SET, "analyst"), (GROUP_SET, "curator"), (GROUPS_GIVEN, "curator")],
)
def test_the_database_refuses_an_entry_by_another_role(place: Place, kind: str, role: str) -> None:
    with opened(place) as ledger:
        register(ledger.store, *EVERYONE)
        by = {"analyst": ADA, "curator": CLEO}[role]
        with pytest.raises(Exception, match="in a role that allows it"):
            ledger.store.write(
                lambda work: work.by(by.acting).accounts.system_entry(
                    kind, principal=by.person, note="{}"
                )
            )


def test_an_edited_list_is_found(place: Place) -> None:
    with opened(place) as ledger:
        register(ledger.store, *EVERYONE)
        access = AccessService(ledger.store, KeyService(ledger.store))
        listed = AccessList(("cleo",))
        asyncio.run(access.restrict(ledger.dataset, listed, "a test", caller=ADMIN))
        (written,) = _notes(ledger.store)
        said = json.loads(written)
        said["access"]["persons"] = ["cleo", "eve"]
        assert ledger.store.verify().ok
    edit(place, f"UPDATE entry SET note = '{json.dumps(said)}' WHERE kind = '{ACCESS_SET}'")
    store = reopened(place)
    try:
        assert not store.verify().ok
    finally:
        store.close()


def _notes(store: Store) -> list[str]:
    with store.reading() as reader:
        return [entry.note or "" for entry in reader.entries.of_system(ACCESS_SET)]


def test_what_is_known_of_access_is_read_first_and_bounded(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "_MAX_CACHED", 1)
    with opened(place) as ledger:
        register(ledger.store, *EVERYONE)
        access = AccessService(ledger.store, KeyService(ledger.store), providers=set())
        asyncio.run(access.restrict(ledger.dataset, AccessList(("cleo",)), "a test", caller=ADMIN))
        known = keys.KnownAccess(ledger.store)
        for person in ("bob", "eve"):
            assert known.hidden_from(person, Role.ANALYST) == {ledger.account}
            assert known.account("dataset", ledger.dataset) == ledger.account
        assert keys.KnownAccess(ledger.store).now().lists
