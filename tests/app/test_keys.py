"""Keys without HTTP: what is looked up, what is remembered, and what a revocation ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from app.domain.access import Span
from app.domain.policies import Acting, Role
from app.domain.problems import Problem
from app.services.people import keys as keys_module
from app.services.people.keys import BOOTSTRAP_NAME, Caller, KeyService
from app.store import Reader, Store
from tests.app.callers import register
from tests.app.ledgers import Place, opened

ADMIN = Caller(key="key_ada", person="ada", role=Role.ADMIN)


def looked_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list that the thread of every reading will be entered in."""
    threads: list[int] = []
    reading = store.reading

    def noted() -> object:
        threads.append(threading.get_ident())
        return reading()

    monkeypatch.setattr(store, "reading", noted)
    return threads


def refused(action: Callable[[], object]) -> tuple[str, str | None]:
    with pytest.raises(Problem) as problem:
        action()
    return problem.value.code, problem.value.detail


async def make(keys: KeyService, count: int) -> list[tuple[str, bytes]]:
    made = [
        await keys.create(name=f"person {n}", role=Role.ANALYST, expires=None, caller=ADMIN)
        for n in range(count)
    ]
    return [(each.record.id, each.secret.encode()) for each in made]


@pytest.mark.parametrize("role", ["analyst", "owner"])
def test_an_entry_is_made_by_a_key_in_a_role_that_there_is(role: str) -> None:
    assert not Acting(None, role).may_make("debit")
    assert Acting("key_1", role).may_make("debit") is (role == "analyst")


def test_a_secret_of_an_impossible_length_is_refused_unseen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place) as ledger:
        keys, asked = KeyService(ledger.store), looked_up(ledger.store, monkeypatch)
        unknown = refused(lambda: keys.authenticate(b"x" * 1000))
        assert len(asked) == 1
        for secret in (b"", b"x" * 1001):
            assert refused(lambda s=secret: keys.authenticate(s)) == unknown
        assert len(asked) == 1


@pytest.mark.parametrize("person", ["system", "System"])
def test_the_services_own_name_is_nobodys(
    place: Place, monkeypatch: pytest.MonkeyPatch, person: str
) -> None:
    """Not even by a first key; what the service does by itself has this principal."""
    monkeypatch.setattr(keys_module, "BOOTSTRAP_NAME", person)
    with opened(place) as ledger:
        keys = KeyService(ledger.store)
        assert refused(lambda: keys.bootstrap("s" * 32))[0] == "invalid-request"
        with ledger.store.reading() as reader:
            assert reader.keys.count() == 0
        assert ledger.store.verify().ok


def test_a_server_of_several_looks_a_key_up_off_its_loop(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every time, since another server may have revoked it."""
    with opened(place) as ledger:
        register(ledger.store, ADMIN)
        keys, other = KeyService(ledger.store), KeyService(ledger.store)

        async def scenario() -> None:
            ((key, secret),) = await make(keys, 1)
            asked = looked_up(ledger.store, monkeypatch)
            for _ in range(3):
                assert (await keys.recognise(secret)).key == key
            loop = threading.get_ident()
            if ledger.store.shared:
                assert len(asked) == 3
                assert loop not in asked
                await other.revoke(key, caller=ADMIN)
            else:
                assert asked == [loop]
                await keys.revoke(key, caller=ADMIN)
            with pytest.raises(Problem, match="unauthorized"):
                await keys.recognise(secret)

        asyncio.run(scenario())


def test_a_key_is_found_by_its_id(place: Place) -> None:
    with opened(place) as ledger:
        register(ledger.store, ADMIN)
        keys = KeyService(ledger.store)
        (known, _), _ = asyncio.run(make(keys, 2))
        assert keys.get(known).id == known
        assert refused(lambda: keys.get("key_of_nobody"))[0] == "not-found"


def test_what_is_remembered_of_keys_is_bounded(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_module, "_MAX_CACHED", 2)

    def used(reader: Reader) -> int:
        return sum(key.used_at is not None for key in reader.keys.list())

    with opened(place) as ledger:
        register(ledger.store, ADMIN)
        keys = KeyService(ledger.store)

        async def scenario() -> None:
            made = await make(keys, 5)
            for key, secret in made * 2:
                assert keys.authenticate(secret).key == key
                assert max(len(keys._found), len(keys._noted)) <= 2
            await keys.revoke(made[0][0], caller=ADMIN)
            for key, secret in made[1:]:
                assert keys.authenticate(secret).key == key
            with pytest.raises(Problem, match="unauthorized"):
                keys.authenticate(made[0][1])

        asyncio.run(scenario())
        ledger.grant(1)  # comes after the notes
        with ledger.store.reading() as reader:
            assert used(reader) == 5


def test_the_first_key_is_made_once(place: Place) -> None:
    with opened(place) as ledger:
        keys = KeyService(ledger.store)
        made = keys.bootstrap(None)
        assert made is not None
        assert keys.authenticate(made.encode()) == Caller(
            key=keys.list(Span(limit=2))[0].record.id, person=BOOTSTRAP_NAME, role=Role.ADMIN
        )
        assert keys.bootstrap(None) is None
        given = "ключ из тридцати двух знаков и более"
        assert keys.bootstrap(given) is None
        assert keys.bootstrap(given) is None
        assert keys.authenticate(given.encode()).role is Role.ADMIN
        assert len(keys.list(Span(limit=9))) == 2
        with pytest.raises(Problem, match="unauthorized"):  # the one that was made up before
            keys.authenticate(made.encode())
        with pytest.raises(Problem, match="unauthorized"):
            keys.authenticate(b"guess")


def test_a_bootstrap_key_that_is_replaced_is_revoked_and_the_log_says_so(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = "first " * 10, "second " * 10
    with opened(place) as ledger:
        keys = KeyService(ledger.store)

        async def scenario() -> None:
            keys.bootstrap(first)
            old = keys.authenticate(first.encode())
            ada = await keys.create(name="ada", role=Role.ADMIN, expires=None, caller=old)
            keys.bootstrap(second)
            new = keys.authenticate(second.encode())
            with pytest.raises(Problem, match="unauthorized"):
                keys.authenticate(first.encode())
            assert keys.authenticate(ada.secret.encode()).role is Role.ADMIN
            keys.bootstrap(second)  # the next start
            keys.bootstrap(first)  # an old file that was put back
            with pytest.raises(Problem, match="unauthorized"):
                keys.authenticate(first.encode())
            own = [each for each in caplog.records if each.name == keys_module.__name__]
            lines = [(each.getMessage(), vars(each)["key"]) for each in own]
            assert lines == [
                ("a bootstrap key was made", old.key),
                ("a bootstrap key was replaced and is revoked", old.key),
                ("a bootstrap key was made", new.key),
                ("the bootstrap key of the settings is revoked, and opens nothing", old.key),
            ]

        asyncio.run(scenario())
        assert ledger.store.verify().ok


def test_a_revoked_bootstrap_key_stays_revoked(place: Place) -> None:
    with opened(place) as ledger:
        keys = KeyService(ledger.store)

        async def revoke() -> None:
            keys.bootstrap("s" * 32)
            caller = keys.authenticate(b"s" * 32)
            await keys.create(name="ada", role=Role.ADMIN, expires=None, caller=caller)
            await keys.revoke(caller.key, caller=caller)

        asyncio.run(revoke())
    store = place.open()
    try:
        keys = KeyService(store)
        assert keys.bootstrap("s" * 32) is None
        with pytest.raises(Problem, match="unauthorized"):
            keys.authenticate(b"s" * 32)
    finally:
        store.close()
