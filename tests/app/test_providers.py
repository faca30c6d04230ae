"""Signing in at a provider of identities that lies, is somebody else's, or is not there."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from app.domain.access import AccessList, Span
from app.domain.policies import Role
from app.domain.problems import Problem
from app.services.people.keys import Caller, KeyService
from app.services.people.sessions import SessionService
from app.settings import OidcProvider
from app.store import Store, UnitOfWork
from app.web.providers import FLOW_S, ProviderSignIn
from tests.app.callers import register
from tests.app.ledgers import opened, place_on

SECRET = b"s" * 32
ADMIN = Caller(key="key_root", person="root", role=Role.ADMIN)
BACK = "https://desk.example.org/desk/sign-in/uni/callback"
ISSUER = "https://id.example.org"
UNI = OidcProvider(
    id="uni", name="University", issuer=ISSUER, client_id="desk",
    client_secret="its secret of the desk",
    roles={"staff": "analyst", "data": "curator", "it": "admin"},
)  # type: ignore[arg-type]  # fmt: skip
KEY = RSAKey.generate_key(2048, {"kid": "one"}, private=True)


@dataclass
class World:
    """A provider, and a desk whose users it vouches for."""

    store: Store
    claims: dict[str, Any] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=lambda: {"alg": "RS256", "kid": "one"})
    signs: Any = field(default_factory=lambda: KEY)
    fails: str = ""
    now_s: float = 1_000_000.0
    asked: list[httpx.Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        register(self.store, ADMIN)
        self.keys = KeyService(self.store)
        self.sessions = SessionService(
            self.store, self.keys, secret=SECRET, clock=lambda: self.now_s
        )
        self.sign_in = self.desk()

    def desk(self) -> ProviderSignIn:
        return ProviderSignIn(
            [UNI], self.sessions, secret=SECRET, session_s=3_600,
            clock=lambda: self.now_s, transport=httpx.MockTransport(self.answer),
        )  # fmt: skip

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if self.fails and request.url.path.endswith(self.fails):
            return httpx.Response(500, text="down")
        match request.url.path:
            case "/.well-known/openid-configuration":
                names = {"authorization_endpoint": "auth", "token_endpoint": "token"}
                names |= {"jwks_uri": "keys", "userinfo_endpoint": "info"}
                found = {name: f"{ISSUER}/{end}" for name, end in names.items()}
                return httpx.Response(200, json={"issuer": ISSUER, **found})
            case "/keys":
                keys = KeySet([KEY]).as_dict(private=False)
                return httpx.Response(200, json=keys)
            case "/info":
                return httpx.Response(200, json=self.info)
        token = jwt.encode(self.header, self.claims, self.signs, algorithms=["RS256", "HS256"])
        return httpx.Response(
            200, json={"access_token": "a", "token_type": "Bearer", "id_token": token}
        )

    def state(self, **claims: Any) -> tuple[str, str, dict[str, list[str]]]:
        address, taken = asyncio.run(self.sign_in.begin("uni", back=BACK, wanted="/desk/audit"))
        said = parse_qs(urlsplit(address).query)
        self.claims = {
            "iss": ISSUER, "aud": "desk", "sub": "1", "exp": int(self.now_s) + 60,
            "nonce": said["nonce"][0], "email": "ada@example.org", "groups": ["data"], **claims,
        }  # fmt: skip
        return taken, said["state"][0], said

    def finish(self, taken: str, state: str) -> str:
        token, wanted = asyncio.run(
            self.sign_in.finish("uni", back=BACK, taken=taken, state=state, code="the code")
        )
        assert wanted == "/desk/audit"
        return token

    def signed_in(self, **claims: Any) -> Caller:
        taken, state, _ = self.state(**claims)
        return self.who(self.finish(taken, state))

    def who(self, token: str) -> Caller:
        return asyncio.run(self.sessions.caller(token))

    def refused(self, **claims: Any) -> Problem:
        with pytest.raises(Problem) as refusal:
            self.signed_in(**claims)
        return refusal.value


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with place_on("sqlite", tmp_path) as place, opened(place) as ledger:
        yield World(ledger.store)


def test_groups_say_the_role_and_the_session_has_an_end(world: World) -> None:
    taken, state, said = world.state(groups=["staff", "data", "else"])
    assert said["redirect_uri"] == [BACK]
    assert said["response_type"] == ["code"]
    token = world.finish(taken, state)
    ada = world.who(token)
    assert (ada.person, ada.role) == ("ada@example.org", Role.CURATOR)
    for _ in range(3):  # used all the time
        world.now_s += 1_199
        assert world.who(token) == ada
        world.store.write(lambda work: None)
    world.now_s += 3
    with pytest.raises(Problem):
        world.who(token)


def test_the_code_is_exchanged_with_the_verifier_of_its_challenge(world: World) -> None:
    taken, state, said = world.state()
    assert said["code_challenge_method"] == ["S256"]
    world.finish(taken, state)
    (exchange,) = (each for each in world.asked if each.url.path == "/token")
    sent = parse_qs(exchange.content.decode())
    digest = hashlib.sha256(sent["code_verifier"][0].encode()).digest()
    assert urlsafe_b64encode(digest).rstrip(b"=").decode() == said["code_challenge"][0]
    assert exchange.headers["authorization"].startswith("Basic ")


def test_one_person_has_a_key_for_each_role_and_sessions_of_one(world: World) -> None:
    taken, state, _ = world.state(groups=["data"])
    before = world.finish(taken, state)
    analyst = world.signed_in(groups=["staff"], email="ada@elsewhere.example.org")
    assert (analyst.person, analyst.role) == ("ada@example.org", Role.ANALYST)
    with pytest.raises(Problem):
        world.who(before)
    assert world.signed_in(groups=["data"]).key != analyst.key
    assert len(world.keys.list(Span(limit=9))) == 3


def test_who_has_left_every_group_is_out_and_whom_an_admin_ended_too(world: World) -> None:
    taken, state, _ = world.state()
    before = world.finish(taken, state)
    key = world.who(before).key
    assert "No group" in str(world.refused(groups=["guests"]).detail)
    with pytest.raises(Problem):
        world.who(before)
    asyncio.run(world.keys.revoke(key, caller=ADMIN))
    for groups in (["data"], ["it"]):
        assert "An admin has ended" in str(world.refused(groups=groups).detail)


def test_whom_an_admin_ended_an_admin_lets_in_again_with_another_key(world: World) -> None:
    first = world.signed_in()
    other = world.signed_in(groups=["staff"])
    for key in (first.key, other.key):
        asyncio.run(world.keys.revoke(key, caller=ADMIN))
    assert [each.barred for each in world.keys.list(Span(limit=9))] == [True, True, False]
    assert "An admin has ended" in str(world.refused().detail)
    for key in ("key_root", "key_0"):
        with pytest.raises(Problem, match="not-found"):
            asyncio.run(world.keys.allow_sign_in(key, caller=ADMIN))
    for _ in range(2):
        asyncio.run(world.keys.allow_sign_in(first.key, caller=ADMIN))
    assert not any(each.barred for each in world.keys.list(Span(limit=9)))
    again = world.signed_in(email="new@example.org")
    assert (again.person, again.role) == (first.person, first.role)
    assert again.key not in (first.key, other.key)
    assert world.signed_in().key == again.key
    with pytest.raises(Problem, match="unauthorized"):
        world.keys.holder(first.key)
    asyncio.run(world.keys.revoke(again.key, caller=ADMIN))
    assert "An admin has ended" in str(world.refused(groups=["staff"]).detail)
    asyncio.run(world.keys.allow_sign_in(again.key, caller=ADMIN))
    assert world.signed_in(groups=["staff"]).person == first.person
    assert world.store.verify().ok


def test_groups_of_the_provider_open_what_names_them(world: World) -> None:
    def open_account(work: UnitOfWork) -> str:
        account = work.accounts.open(total=1, principal="root", reason="a test").id
        access = AccessList(groups=("uni:secret study",))
        work.access.restrict(account, access, principal="root", reason="a test")
        return account

    account = world.store.write(open_account)
    world.keys.access.refresh()
    assert world.signed_in().hidden == {account}
    assert world.signed_in(groups=["data", "secret study", "x\n"]).hidden == frozenset()
    program = asyncio.run(
        world.keys.create(
            name="program", role=Role.ANALYST, expires=None, caller=ADMIN, person="ada@example.org"
        )
    )
    assert world.keys.authenticate(program.secret.encode()).hidden == frozenset()
    assert "No group" in str(world.refused(groups=["guests"]).detail)
    assert world.keys.authenticate(program.secret.encode()).hidden == {account}
    assert world.store.verify().ok


def test_nobody_takes_the_name_of_somebody_else(world: World) -> None:
    asyncio.run(
        world.keys.create(name="ada@example.org", role=Role.ANALYST, expires=None, caller=ADMIN)
    )
    assert world.refused().code == "name-confusable"
    assert world.signed_in(email="eve@example.org").person == "eve@example.org"
    assert world.refused(sub="2", email="eve@example.org").code == "name-confusable"
    assert world.refused(sub="2", email="еve@example.org").code == "name-confusable"


def test_no_text_that_anybody_knows_is_the_secret_of_such_a_key(world: World) -> None:
    key = world.signed_in().key
    for text in (json.dumps([ISSUER, "1", "curator"]), "1", "a", "the code"):
        with pytest.raises(Problem):
            world.keys.authenticate(text.encode())
    assert world.keys.get(key).name == "Sign-in: University"


LIES: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.example.org"},
    "for another service": {"aud": "other"},
    "one of several, for another": {"aud": ["desk", "other"], "azp": "other"},
    "over": {"exp": 1},
    "no end": {"exp": None},
    "an earlier sign-in": {"nonce": "of yesterday"},
    "no nonce": {"nonce": None},
    "no subject": {"sub": None},
    "no name": {"email": None},
    "a name that is not verified": {"email_verified": False},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_statement_that_is_not_for_this_sign_in_is_refused(world: World, lie: str) -> None:
    said = {name: value for name, value in LIES[lie].items() if value is not None}
    taken, state, _ = world.state(**said)
    for name, value in LIES[lie].items():
        if value is None:
            del world.claims[name]
    with pytest.raises(Problem) as refusal:
        world.finish(taken, state)
    assert refusal.value.code == "sign-in-failed"


def test_a_statement_that_another_has_signed_is_refused(world: World) -> None:
    world.signs = RSAKey.generate_key(2048, {"kid": "one"}, private=True)
    assert world.refused().code == "sign-in-failed"
    # By the client's secret, which is no proof of who the provider is.
    world.header, world.signs = (
        {"alg": "HS256", "kid": "one"},
        OctKey.import_key("its secret of the desk"),
    )
    assert world.refused().code == "sign-in-failed"


def test_what_another_browser_has_begun_is_not_ended_here(world: World) -> None:
    taken, state, _ = world.state()
    other, other_state, _ = world.state()
    for brought, said in ((taken, other_state), (other, state), ("", state), (taken[:-5], state)):
        with pytest.raises(Problem) as refusal:
            world.finish(brought, said)
        assert refusal.value.code == "sign-in-failed"
    world.now_s += FLOW_S + 1
    with pytest.raises(Problem):
        world.finish(other, other_state)


@pytest.mark.parametrize("fails", ["configuration", "token", "keys"])
def test_a_provider_that_is_down_is_reported_as_such(world: World, fails: str) -> None:
    world.fails = fails
    assert world.refused().code == "sign-in-failed"
    world.fails = ""
    assert world.signed_in().role is Role.CURATOR


def test_groups_may_come_from_the_provider_by_request(world: World) -> None:
    taken, state, _ = world.state()
    del world.claims["groups"]
    world.info = {"sub": "1", "groups": "it"}
    assert world.who(world.finish(taken, state)).role is Role.ADMIN
    taken, state, _ = world.state()
    del world.claims["groups"]
    world.info = {"sub": "somebody else", "groups": "it"}
    with pytest.raises(Problem):
        world.finish(taken, state)
