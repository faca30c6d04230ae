"""Notices that leave the house: a signed webhook and mail, to servers on this machine."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message
from email.policy import default
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.domain.reviews import Audience, Event
from app.services.build import Services
from app.services.releases.reviews import Decision
from app.services.reviewing import notices
from app.services.reviewing.notices import (
    Mail,
    Notice,
    NotTakenError,
    SendingService,
    Webhook,
    signature,
)
from app.settings import Settings
from app.store import Store
from tests.app.conftest import ON_BOTH
from tests.app.ledgers import Place, place_on
from tests.app.test_jobs import BOB, Fake, question
from tests.app.test_jobs import opened as serving
from tests.app.test_reviews import ADA, reviewed_dataset

SECRET = "a secret of the webhook's"
MAILED = Notice(
    number=1, id="ntf_1", event=Event.REJECTED, audience=Audience.BOTH, release="rel_1",
    dataset="ds_1", requester="bob@example.org", who="ada", what="ada has rejected a release",
    why="too dear\nfor a mean", at="2026-01-01T00:00:00Z", read=False,
)  # fmt: skip


class Hook:
    """A webhook's other end; it answers with these statuses in turn, the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self.posted: list[tuple[dict[str, str], bytes]] = []
        left = [*statuses]
        posted = self.posted

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posted.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook?from=desk"

    def __enter__(self) -> Hook:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.posted]


@contextmanager
def mail_server(
    *offers: bytes, heard: list[bytes] | None = None
) -> Iterator[tuple[str, list[tuple[list[str], Message]]]]:
    """An SMTP server that takes everything, and what it has taken: recipients and message.

    It says that it ``offers`` more, and can do none of that; ``heard`` are the words it was told.
    """
    taken: list[tuple[list[str], Message]] = []
    greeting = b"".join(b"250-%s\r\n" % each for each in (b"here", *offers)) + b"250 8BITMIME\r\n"
    answers = {b"EHLO": greeting, b"QUIT": b"221 bye\r\n", b"STARTTLS": b"454 not now\r\n"}
    words = [] if heard is None else heard

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            to: list[str] = []
            while line := self.rfile.readline().strip():
                word = line.split(b":")[0].split()[0].upper()
                words.append(word)
                if word == b"RCPT":
                    to.append(line.partition(b"<")[2].rstrip(b">").decode())
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    content = b""
                    while (part := self.rfile.readline()) != b".\r\n":
                        content += part
                    taken.append((to, message_from_bytes(content, policy=default)))
                    to = []
                self.wfile.write(answers.get(word, b"250 fine\r\n"))

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"smtp://127.0.0.1:{server.server_address[1]}", taken
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(params=ON_BOTH)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_on(request.param, tmp_path) as found:
        yield found


def hooked(store: Store, services: Services, hook: Hook) -> SendingService:
    return SendingService(store, services.releases.moments, [Webhook(url=hook.url, secret=SECRET)])


async def rejected(services: Services) -> str:
    dataset = await reviewed_dataset(services)
    asked = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
    await services.reviews.decide(
        asked.id, Decision.REJECT, "too dear", unchanged=lambda _: True, caller=ADA
    )
    return asked.id


def test_a_webhook_is_signed_and_names_who_what_and_why(place: Place) -> None:
    async def scenario() -> None:
        with Hook(204) as hook:
            async with serving(place, Fake()) as (store, services):
                release = await rejected(services)
                sends = hooked(store, services, hook)
                assert await sends.send_due() == 2
                assert await sends.send_due() == 0
        asked, decided = hook.bodies
        assert (asked["event"], asked["who"]) == ("asked", BOB.person)
        assert decided["event"] == "rejected"
        assert (decided["release"], decided["who"]) == (release, ADA.person)
        assert (decided["why"], decided["requested_by"]) == ("too dear", BOB.person)
        for headers, body in hook.posted:
            signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
            digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
            assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
            assert json.loads(body)["id"] == headers["webhook-id"]

    asyncio.run(scenario())


@pytest.mark.wide
def test_what_is_not_taken_is_sent_again_under_its_id(place: Place) -> None:
    async def scenario() -> None:
        with Hook(500, 204) as hook:
            async with serving(place, Fake()) as (store, services):
                await rejected(services)
                sends = hooked(store, services, hook)
                now = datetime.now(UTC)
                assert await sends.send_due(at=now) == 1
                assert await sends.send_due(at=now + timedelta(seconds=9)) == 0
                assert await sends.send_due(at=now + timedelta(seconds=11)) == 1
                assert await sends.send_due(at=now + timedelta(days=1)) == 0
        first, _, again = (headers["webhook-id"] for headers, _ in hook.posted)
        assert first == again

    asyncio.run(scenario())


@pytest.mark.wide
def test_pauses_grow_and_there_is_an_end(place: Place) -> None:
    async def scenario() -> None:
        with Hook(503) as hook:
            async with serving(place, Fake()) as (store, services):
                await services.releases.submit(
                    await reviewed_dataset(services), question(), idem="a", caller=BOB
                )
                sends = hooked(store, services, hook)
                at, tries = datetime.now(UTC), []
                for wait_s in (0, 11, 21, 39, 2, 81):
                    at += timedelta(seconds=wait_s)
                    assert await sends.send_due(at=at) == 0
                    tries.append(len(hook.posted))
                assert tries == [1, 2, 3, 3, 4, 5]
                at += timedelta(days=8)
                await sends.send_due(at=at)
                assert len(hook.posted) == 5

    asyncio.run(scenario())


@pytest.mark.wide
def test_two_processes_do_not_send_the_same(place: Place) -> None:
    async def scenario() -> None:
        with Hook(204) as hook:
            async with serving(place, Fake()) as (store, services):
                await rejected(services)
                both = [hooked(store, services, hook) for _ in range(2)]
                found = await asyncio.gather(*(each.send_due() for each in both))
                assert sum(found) == len(hook.posted) == 2

    asyncio.run(scenario())


def test_a_serving_process_sends_by_itself(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "LOOK_EVERY_S", 0.01)

    async def scenario() -> None:
        with Hook(204) as hook:
            async with serving(place, Fake()) as (store, services):
                sends = hooked(store, services, hook)
                keeping = asyncio.create_task(sends.keep_sending())
                await rejected(services)
                while len(hook.posted) < 2:
                    await asyncio.sleep(0.01)
                keeping.cancel()

    asyncio.run(scenario())


def test_mail_goes_to_who_asked_and_to_reviewers() -> None:
    with mail_server() as (url, taken):
        mail = Mail(
            url=url, sender="desk@example.org", reviewers=["r@example.org"],
            public_url="https://numbers.example.org",
        )  # fmt: skip
        mail.send(MAILED)
        mail.send(_changed(audience=Audience.REVIEWERS))
        mail.send(_changed(audience=Audience.REQUESTER))
        mail.send(_changed(requester="Bob", audience=Audience.REQUESTER))
    assert [to for to, _ in taken] == [
        ["bob@example.org", "r@example.org"], ["r@example.org"], ["bob@example.org"],
    ]  # fmt: skip
    _, message = taken[0]
    assert message["Subject"] == "ada has rejected a release"
    assert message["Message-ID"] == "<ntf_1@example.org>"
    sent_at = parsedate_to_datetime(message["Date"])
    assert abs(datetime.now(UTC) - sent_at) < timedelta(minutes=5)
    assert message["Auto-Submitted"] == "auto-generated"
    text = message.get_payload(decode=True)
    assert isinstance(text, bytes)
    assert "too dear\nfor a mean" in text.decode().replace("\r\n", "\n")
    assert "https://numbers.example.org/desk/reviews/rel_1" in text.decode()


def _changed(**changes: Any) -> Notice:
    return Notice(**{**{name: getattr(MAILED, name) for name in Notice.__slots__}, **changes})


@pytest.mark.parametrize("offers", [(), (b"STARTTLS",)])
def test_a_password_is_sent_over_tls_alone(offers: tuple[bytes, ...]) -> None:
    heard: list[bytes] = []
    with mail_server(*offers, b"AUTH PLAIN", heard=heard) as (url, taken):
        named = url.replace("//", "//desk:pass@")
        mail = Mail(url=named, sender="d@example.org", reviewers=["r@example.org"])
        assert "pass" not in repr(mail)
        with pytest.raises(NotTakenError):
            mail.send(MAILED)
    assert b"AUTH" not in heard
    assert heard[: 1 + len(offers)] == [b"EHLO", *offers]
    assert not taken


def test_nobody_there_is_not_taken() -> None:
    with mail_server() as (url, _):
        pass
    gone = Mail(url=url, sender="desk@example.org", reviewers=["r@example.org"])
    with pytest.raises(NotTakenError):
        gone.send(MAILED)
    with pytest.raises(NotTakenError):
        Webhook(url=url.replace("smtp", "http"), secret=SECRET).send(MAILED)


def test_a_signature_is_that_of_the_standard() -> None:
    """As `openssl dgst -sha256 -hmac` makes it of the same bytes."""
    made = signature("secret", "ntf_1", "1700000000", b"{}")
    assert made == "v1,5i4oT+nJZ17Qr6VTV3tAIliS97p6NpUlLJD0NJ2bCrI="


@pytest.mark.parametrize(
    "given",
    [{"webhook_url": "http://127.0.0.1/"}, {"smtp_url": "smtp://127.0.0.1"}, {"smtp_url": "x"}],
)
def test_half_a_channel_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"webhook_secret|smtp_sender|smtp_url"):
        Settings(**given)
