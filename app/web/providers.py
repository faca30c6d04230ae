"""Signing in at an institution's provider of identities, by OpenID Connect or by a proxy.

A browser is sent to the provider and comes back with a code, which the service exchanges for a
signed statement of who the person is and which groups they are in (Authorization Code with PKCE).
The groups say the role, and lists of access may name them. What has to be compared when the browser
comes back (state, nonce and the verifier) is sealed in a cookie, so that any server process can end
what another has begun.

*A proxy* that signs people in itself says in headers who they are. It is believed only with a
secret in a header of its own, compared in constant time, and only where each of its headers came
once: of two, one would be a client's.

Who somebody is to the service then, and what their sessions are of, is
:mod:`app.services.people.sessions`'s to say.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote_plus

import httpx
from cryptography.fernet import Fernet, InvalidToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from app.domain.access import OF_PROVIDER
from app.domain.policies import Role
from app.domain.problems import Problem
from app.services.people.sessions import SIGN_IN_ROLES, Identity, SessionService
from app.settings import OidcProvider, SignInProxy
from mechanisms.words import worded

FLOW_S = 600
"""How long somebody may take to sign in at the provider, in seconds."""
_TIMEOUT_S = 10.0
_DISCOVERED_FOR_S = 3_600
_LONGEST_GROUP = 100
_MOST_GROUPS = 200
_LEEWAY_S = 60  # between the provider's clock and ours
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures by a public key: one by the client's secret could be made by anyone who has that."""
_PURPOSE = b"release-desk sign-in at providers"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """What a browser takes along to the provider and back, sealed."""

    provider: str
    state: str
    nonce: str
    verifier: str
    wanted: str


class ProviderSignIn:
    """Signs people in whom a provider vouches for.

    Parameters
    ----------
    providers
        The providers of the settings.
    sessions
        What begins sessions.
    secret
        A secret of all servers of a database, that is stored outside of it.
    session_s
        After how many seconds the provider is asked again.
    proxy
        The proxy of the settings, if there is one.
    transport
        What requests to providers go by; the network by default.
    """

    def __init__(
        self,
        providers: Sequence[OidcProvider],
        sessions: SessionService,
        *,
        secret: bytes,
        session_s: int,
        proxy: SignInProxy | None = None,
        clock: Callable[[], float] = time.time,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._providers = {each.id: each for each in providers}
        self._sessions = sessions
        own = hmac.digest(secret, _PURPOSE, hashlib.sha256)
        self._sealing = Fernet(base64.urlsafe_b64encode(own))
        self._session_s = session_s
        self._proxy = proxy
        self._clock = clock
        self._transport = transport
        self._discovered: dict[str, tuple[float, Mapping[str, Any]]] = {}

    @property
    def offered(self) -> Mapping[str, str]:
        """Return the names of the providers and of the proxy, by their ids."""
        found = {each.id: each.name for each in self._providers.values()}
        return found if self._proxy is None else {**found, self._proxy.id: self._proxy.name}

    def by_proxy(self, provider: str) -> bool:
        """Return whether an id is the proxy's."""
        return self._proxy is not None and self._proxy.id == provider

    async def of_proxy(self, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Return the token of a new session of whom the proxy names in a request's headers.

        Raises
        ------
        Problem
            ``sign-in-failed``, in the same words whatever of the headers is wrong or missing;
            ``name-confusable``: somebody else has the name that it gives.
        """
        if self._proxy is None:
            raise Problem("not-found")
        identity = _identity_of(self._proxy, headers)
        return await self._sessions.begin_for(identity, longest_s=self._session_s)

    async def begin(self, provider: str, *, back: str, wanted: str) -> tuple[str, str]:
        """Return where a browser goes to sign in, and what it takes along until it is ``back``.

        Raises
        ------
        Problem
            ``not-found``: there is no such provider; ``sign-in-failed``: it cannot be reached.
        """
        known = self._known(provider)
        flow = _Flow(
            provider=provider,
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            wanted=wanted,
        )
        async with self._client() as client:
            found = await self._discover(known, client)
        digest = hashlib.sha256(flow.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": known.client_id,
            "redirect_uri": back,
            "scope": known.scope,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        address = httpx.URL(found["authorization_endpoint"]).copy_merge_params(asked)
        sealed = self._sealing.encrypt_at_time(
            json.dumps(asdict(flow)).encode(), int(self._clock())
        )
        return str(address), sealed.decode()

    async def finish(
        self, provider: str, *, back: str, taken: str, state: str, code: str
    ) -> tuple[str, str]:
        """Return the token of a new session, and the address that was wanted at its beginning.

        Raises
        ------
        Problem
            ``not-found``; ``sign-in-failed``: what was begun is not this, or too long ago, the
            provider does not vouch for anyone, or its groups have no role here;
            ``name-confusable``: somebody else has the name that it gives.
        """
        known = self._known(provider)
        flow = self._unsealed(taken)
        same = hmac.compare_digest(flow.state.encode(), state.encode())
        if flow.provider != provider or not same or not code:
            raise _failed(worded("This sign-in was not begun in this browser. Begin again."))
        async with self._client() as client:
            sent = {"code": code, "code_verifier": flow.verifier, "redirect_uri": back}
            claims = await self._claims(known, client, flow, sent)
        identity = _identity_in(known, claims)
        token = await self._sessions.begin_for(identity, longest_s=self._session_s)
        return token, flow.wanted

    def _known(self, provider: str) -> OidcProvider:
        if provider not in self._providers:
            raise Problem("not-found")
        return self._providers[provider]

    def _unsealed(self, taken: str) -> _Flow:
        try:
            text = self._sealing.decrypt_at_time(taken, FLOW_S, int(self._clock()))
        except InvalidToken:
            raise _failed(
                worded("Signing in took too long, or began in another browser.")
            ) from None
        return _Flow(**json.loads(text))

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=_TIMEOUT_S, transport=self._transport)

    async def _discover(
        self, provider: OidcProvider, client: httpx.AsyncClient
    ) -> Mapping[str, Any]:
        """Return what a provider says of itself, asked for once an hour."""
        now = self._clock()
        at, found = self._discovered.get(provider.id, (0.0, {}))
        if not found or now - at > _DISCOVERED_FOR_S:
            address = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await _json_at(client, address)
            if found.get("issuer") != provider.issuer:
                raise _failed(
                    worded("%(provider)s says that it has another issuer.", provider=provider.name)
                )
            self._discovered[provider.id] = now, found
        return found

    async def _claims(
        self,
        provider: OidcProvider,
        client: httpx.AsyncClient,
        flow: _Flow,
        sent: Mapping[str, str],
    ) -> Mapping[str, Any]:
        """Return what a provider states of who has signed in, its signature verified."""
        found = await self._discover(provider, client)
        try:
            token = await _exchanged(provider, client, found["token_endpoint"], sent)
            keys = KeySet.import_key_set(await _json_at(client, found["jwks_uri"]))  # type: ignore[arg-type]
            claims: dict[str, Any] = jwt.decode(
                token["id_token"], keys, algorithms=_ALGORITHMS
            ).claims
            jwt.JWTClaimsRegistry(
                lambda: int(self._clock()),
                _LEEWAY_S,
                iss={"essential": True, "value": provider.issuer},
                sub={"essential": True},
                aud={"essential": True, "value": provider.client_id},
                exp={"essential": True},
                nonce={"essential": True, "value": flow.nonce},
            ).validate(claims)
        except (JoseError, httpx.HTTPError, ValueError, KeyError, TypeError):
            raise _failed(
                worded(
                    "%(provider)s did not confirm who you are. Begin again.", provider=provider.name
                )
            ) from None
        if claims.get("azp", provider.client_id) != provider.client_id:
            raise _failed(
                worded(
                    "%(provider)s signed somebody in for another service.", provider=provider.name
                )
            )
        if {provider.person_claim, provider.groups_claim} - claims.keys():
            bearer = {"Authorization": f"Bearer {token.get('access_token')}"}
            asked = found.get("userinfo_endpoint")
            more = await _json_at(client, asked, bearer) if isinstance(asked, str) else {}
            if more.get("sub") == claims["sub"]:
                claims = {**more, **claims}
        return claims


def _identity_in(provider: OidcProvider, claims: Mapping[str, Any]) -> Identity:
    name = claims.get(provider.person_claim)
    unverified = provider.person_claim == "email" and claims.get("email_verified") is False
    if not isinstance(name, str) or not name or unverified:
        raise _failed(
            worded(
                "%(provider)s gives no verified %(claim)s of yours.",
                provider=provider.name,
                claim=provider.person_claim,
            )
        )
    groups = claims.get(provider.groups_claim, ())
    found = {groups} if isinstance(groups, str) else set(map(str, groups))
    roles = {Role(role) for group, role in provider.roles.items() if group in found}
    return Identity(
        provider=provider.name,
        issuer=provider.issuer,
        subject=claims["sub"],
        name=name,
        role=next((each for each in SIGN_IN_ROLES if each in roles), None),
        groups=_named(provider.id, found),
    )


_LONGEST_HEADER = 8_000


def _identity_of(proxy: SignInProxy, headers: Sequence[tuple[bytes, bytes]]) -> Identity:
    """Return whom a proxy names, once its secret is right."""

    def sent(name: str) -> bytes:
        found = [value for each, value in headers if each == name.lower().encode()]
        return found[0] if len(found) == 1 else b""

    wanted = proxy.secret.get_secret_value().encode()
    known = hmac.compare_digest(
        hashlib.sha256(sent(proxy.secret_header)).digest(), hashlib.sha256(wanted).digest()
    )
    subject, name = _text(sent(proxy.subject_header)), _text(sent(proxy.name_header))
    if not (known and subject and name):
        raise _failed(worded("%(provider)s did not confirm who you are.", provider=proxy.name))
    given = {each.strip() for each in _text(sent(proxy.groups_header)).split(",")}
    roles = {Role(role) for group, role in proxy.roles.items() if group in given}
    return Identity(
        provider=proxy.name,
        issuer=f"proxy:{proxy.id}",  # no issuer of a provider's begins so
        subject=subject,
        name=name,
        role=next((each for each in SIGN_IN_ROLES if each in roles), None),
        groups=_named(proxy.id, given),
    )


def _text(value: bytes) -> str:
    """Return a header's text; empty where it is none that a person could be called by."""
    try:
        text = value.decode("utf-8").strip()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() and len(value) <= _LONGEST_HEADER else ""


def _named(provider: str, groups: Collection[str]) -> tuple[str, ...]:
    """Return a provider's or proxy's groups as access lists name them; the first of very many."""
    sound = (each for each in groups if each.isprintable() and 0 < len(each) <= _LONGEST_GROUP)
    return tuple(f"{provider}{OF_PROVIDER}{each}" for each in sorted(sound)[:_MOST_GROUPS])


async def _exchanged(
    provider: OidcProvider, client: httpx.AsyncClient, address: str, sent: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return the tokens that a provider gives for a code."""
    form = {"grant_type": "authorization_code", **sent}
    if provider.client_secret is None:
        answer = await client.post(address, data={**form, "client_id": provider.client_id})
    else:  # quoted before they are joined by a colon: RFC 6749, 2.3.1
        secret = quote_plus(provider.client_secret.get_secret_value())
        answer = await client.post(
            address, data=form, auth=(quote_plus(provider.client_id), secret)
        )
    return dict(answer.raise_for_status().json())


async def _json_at(
    client: httpx.AsyncClient, address: str, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the object that a provider has at an address.

    Raises
    ------
    Problem
        ``sign-in-failed``.
    """
    try:
        answer = await client.get(address, headers=headers)
        found = answer.raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        found = None
    if not isinstance(found, dict):
        raise _failed(worded("The provider cannot be reached, or does not answer as it should."))
    return found


def _failed(detail: str) -> Problem:
    return Problem("sign-in-failed", detail)
