"""Sessions of browsers and forms that are sent twice, on both databases."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.domain.policies import Role
from app.domain.problems import Problem, invalid_request
from app.services.people import sessions as sessions_module
from app.services.people.keys import Caller, KeyService, NewKey
from app.services.people.sessions import IDLE_S, LONGEST_S, MOST_OF_A_KEY, SessionService
from app.store import Store
from tests.app.callers import register
from tests.app.ledgers import Place, opened, place_on, raw

SECRET = b"s" * 32
ADMIN = Caller(key="key_ada", person="ada", role=Role.ADMIN)


@dataclass
class Desk:
    """Sessions whose clock stands still until a test moves it."""

    store: Store
    keys: KeyService
    sessions: SessionService
    now_s: list[float]
    place: Place

    def key(self) -> NewKey:
        return asyncio.run(
            self.keys.create(name="bob", role=Role.ANALYST, expires=None, caller=ADMIN)
        )

    def wait(self, seconds: float) -> None:
        self.now_s[0] += seconds

    def seen(self, token: str) -> str | None:
        try:
            return asyncio.run(self.sessions.caller(token)).person
        except Problem as problem:
            return None if problem.code == "unauthorized" else problem.code
        finally:
            self.store.write(lambda work: None)  # what no one waited for is written before


@pytest.fixture
def desk(place: Place) -> Iterator[Desk]:
    with opened(place) as ledger:
        register(ledger.store, ADMIN)
        keys, now_s = KeyService(ledger.store), [1_000_000.0]
        sessions = SessionService(ledger.store, keys, secret=SECRET, clock=lambda: now_s[0])
        yield Desk(ledger.store, keys, sessions, now_s, place)


def test_a_session_ends_when_nothing_is_heard_of_it_and_after_a_day(desk: Desk) -> None:
    secret = desk.key().secret
    token = asyncio.run(desk.sessions.begin(f" {secret}\n"))
    person = desk.seen(token)
    assert person is not None
    assert desk.seen(secret) is None  # a key is no session
    for _ in range(LONGEST_S // (IDLE_S - 1)):
        desk.wait(IDLE_S - 1)
        assert desk.seen(token) == person
    desk.wait(IDLE_S - 1)
    assert desk.seen(token) is None
    other = asyncio.run(desk.sessions.begin(secret))
    desk.wait(IDLE_S)
    assert desk.seen(other) is None


def test_a_session_ends_with_its_key_and_with_signing_out(desk: Desk) -> None:
    key = desk.key()
    first, second = (asyncio.run(desk.sessions.begin(key.secret)) for _ in range(2))
    asyncio.run(desk.sessions.end(first))
    assert (desk.seen(first), desk.seen(second) is None) == (None, False)
    asyncio.run(desk.keys.revoke(key.record.id, caller=ADMIN))
    assert desk.seen(second) is None
    with pytest.raises(Problem, match="unauthorized"):
        asyncio.run(desk.sessions.begin(key.secret))
    with pytest.raises(Problem, match="unauthorized"):
        desk.keys.holder("key_nobody")


def test_a_key_has_so_many_sessions_and_no_more(desk: Desk) -> None:
    one, other = (desk.key().secret for _ in range(2))
    stays = asyncio.run(desk.sessions.begin(other))
    tokens = []
    for _ in range(MOST_OF_A_KEY + 2):
        desk.wait(1)
        tokens.append(asyncio.run(desk.sessions.begin(one)))
    seen = [desk.seen(token) is not None for token in tokens]
    assert seen == [False] * 2 + [True] * MOST_OF_A_KEY
    assert desk.seen(stays) is not None


def test_rows_written_or_edited_by_hand_sign_nobody_in(desk: Desk) -> None:
    key, other = desk.key(), desk.key()
    token = asyncio.run(desk.sessions.begin(key.secret))
    person = desk.seen(token)
    forged = f"{'x' * 43}.{other.record.id}.{int(desk.now_s[0])}"
    with raw(desk.place) as database:
        for made in (forged, "x" * 43):  # as sessions were stored before, and as they are now
            for digest in (hashlib.sha256(made.encode()), hmac.new(b"", made.encode(), "sha256")):
                row = (digest.hexdigest(), other.record.id, int(desk.now_s[0]), int(desk.now_s[0]))
                database.execute("INSERT INTO desk_session VALUES (?, ?, ?, ?)", row)
        database.execute("UPDATE desk_session SET key_id = ?", (other.record.id,))
    assert desk.seen(forged) is None
    assert desk.seen("x" * 43) is None
    assert desk.seen(token.replace(key.record.id, other.record.id)) is None
    assert desk.seen(token) == person, "who signed in is not read from the row"
    desk.wait(LONGEST_S)
    with raw(desk.place) as database:
        now = int(desk.now_s[0])
        database.execute("UPDATE desk_session SET began_at_s = ?, seen_at_s = ?", (now, now))
    assert desk.seen(token) is None, "nor when"


def test_an_edited_form_leads_to_no_other_site(desk: Desk) -> None:
    async def act() -> str:
        return "/desk/done"

    async def send() -> str:
        return await desk.sessions.once("form", caller=ADMIN, act=act)

    assert asyncio.run(send()) == "/desk/done"
    for elsewhere in ("https://example.org/", "//example.org", "/\\example.org", ""):
        with raw(desk.place) as database:
            database.execute("UPDATE desk_form SET location = ?", (elsewhere,))
        assert asyncio.run(send()) == "/desk"


def test_a_form_that_is_sent_many_times_at_once_acts_once(desk: Desk) -> None:
    done: list[str] = []

    async def act() -> str:
        await asyncio.sleep(0.05)
        done.append("granted")
        return f"/desk/{len(done)}"

    async def send(form: str, caller: Caller) -> list[str]:
        once = desk.sessions.once
        return await asyncio.gather(*(once(form, caller=caller, act=act) for _ in range(3)))

    assert asyncio.run(send("form 1", ADMIN)) == ["/desk/1"] * 3
    assert asyncio.run(send("form 1", ADMIN)) == ["/desk/1"] * 3  # after a reload, too
    other = Caller(key="key_bob", person="bob", role=Role.ANALYST)
    assert asyncio.run(send("form 1", other)) == ["/desk/2"] * 3  # somebody else's form
    assert len(done) == 2


@pytest.mark.postgres
def test_a_double_click_that_reaches_two_servers_acts_once(tmp_path: Path) -> None:
    done: list[str] = []

    async def act() -> str:
        await asyncio.sleep(0.05)
        done.append("granted")
        return f"/desk/{len(done)}"

    async def send(*desks: SessionService) -> list[str]:
        sent = [desk.once("form", caller=ADMIN, act=act) for desk in desks]
        return await asyncio.gather(*sent)

    with place_on("postgres", tmp_path) as place, opened(place) as ledger:
        register(ledger.store, ADMIN)
        ledger.store.share()
        with closing(place.open()) as other:
            both = (ledger.store, other)
            servers = [SessionService(each, KeyService(each), secret=SECRET) for each in both]
            assert asyncio.run(send(*servers)) == ["/desk/1"] * 2
            assert asyncio.run(send(*reversed(servers))) == ["/desk/1"] * 2
    assert done == ["granted"]


def test_a_form_that_was_refused_may_be_sent_again(desk: Desk) -> None:
    async def refuse() -> str:
        raise invalid_request("epsilon", "is too large")

    async def act() -> str:
        return "/desk/done"

    for _ in range(2):
        with pytest.raises(Problem, match="invalid-request"):
            asyncio.run(desk.sessions.once("form", caller=ADMIN, act=refuse))
    assert asyncio.run(desk.sessions.once("form", caller=ADMIN, act=act)) == "/desk/done"


def test_a_form_whose_act_was_cut_off_is_not_acted_on_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> str:
        raise OSError("a disk")

    monkeypatch.setattr(sessions_module, "_WAITS", 2)
    with pytest.raises(OSError, match="disk"):
        asyncio.run(desk.sessions.once("form", caller=ADMIN, act=fail))
    with pytest.raises(Problem, match="busy"):
        asyncio.run(desk.sessions.once("form", caller=ADMIN, act=fail))
