"""Where notices are sent: a signed webhook, and mail.

*The webhook* is a POST of JSON with three headers, as the Standard Webhooks have them:
``webhook-id``, the same however often it is sent; ``webhook-timestamp``, seconds since 1970; and
``webhook-signature``, ``v1,`` and the base64 of HMAC-SHA256 under the secret, over id, timestamp
and body, joined by full stops. Any 2xx takes it.

*Mail* goes to who asked where their name is an address, and to the reviewers' address. Where the
service's public address is known, it leads to the page of the review.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import smtplib
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Protocol
from urllib.parse import unquote, urlsplit

from app.domain.notices import Audience
from app.services.posting import NotPostedError, post
from app.services.reviewing.inbox import Notice

_TIMEOUT_S = 10.0
_ADDRESS = re.compile(r"[^@\s<>,;\"]+@[^@\s<>,;\"]+", re.ASCII)


class NotTakenError(Exception):
    """A channel has not taken a notice; it is sent again."""


class Channel(Protocol):
    """What notices are sent on; its name is kept with how far each has come."""

    @property
    def name(self) -> str:
        """Return what it is called."""

    def send(self, notice: Notice) -> None:
        """Send a notice.

        Raises
        ------
        NotTakenError
            It was not taken.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A signed POST of each notice to one address."""

    url: str
    secret: str
    name: str = "webhook"

    def send(self, notice: Notice) -> None:
        """Post a notice."""
        body = _body(notice)
        sent_at = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": notice.id,
            "webhook-timestamp": sent_at,
            "webhook-signature": signature(self.secret, notice.id, sent_at, body),
        }
        try:
            post(self.url, body, headers)
        except NotPostedError as error:
            raise NotTakenError(str(error)) from None


def signature(secret: str, id: str, sent_at: str, body: bytes) -> str:
    """Return what ``webhook-signature`` holds."""
    signed = b".".join((id.encode(), sent_at.encode(), body))
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _body(notice: Notice) -> bytes:
    body = {
        "id": notice.id,
        "event": notice.event.value,
        "audience": notice.audience.value,
        "release": notice.release,
        "dataset": notice.dataset,
        "requested_by": notice.requester,
        "who": notice.who,
        "what": notice.what,
        "why": notice.why,
        "at": notice.at,
    }
    return json.dumps(body).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail for each notice, by one server: ``smtp://`` (STARTTLS where offered) or ``smtps://``.

    A user and a password in the URL are sent over TLS alone; both are percent-encoded there.
    """

    url: str = field(repr=False)
    sender: str
    reviewers: Sequence[str]
    public_url: str = ""
    name: str = "mail"

    def send(self, notice: Notice) -> None:
        """Mail a notice to whom it is for, if any of them has an address."""
        to = self._recipients(notice)
        if not to:
            return
        message = EmailMessage()
        # Names of data sets are in it, and no line may end in a header.
        message["Subject"] = " ".join(notice.what.split())[:200]
        message["From"] = self.sender
        message["To"] = ", ".join(to)
        message["Date"] = datetime.now(UTC)
        message["Auto-Submitted"] = "auto-generated"  # so that no absence notice answers it
        # the same in every try, so that a mail that came twice is recognised as one
        message["Message-ID"] = f"<{notice.id}@{self.sender.rpartition('@')[2]}>"
        message.set_content(
            f"{notice.what}.\n\n"
            + (f"{notice.why}\n\n" if notice.why else "")
            + f"Release {notice.release}, {notice.at}\n"
            + (f"{self.public_url}/desk/reviews/{notice.release}\n" if self.public_url else "")
        )
        try:
            self._hand_over(message)
        except (OSError, smtplib.SMTPException) as error:
            raise NotTakenError(type(error).__name__) from None

    def _recipients(self, notice: Notice) -> Sequence[str]:
        to: list[str] = []
        if notice.audience is not Audience.REVIEWERS and _ADDRESS.fullmatch(notice.requester):
            to.append(notice.requester)
        if notice.audience is not Audience.REQUESTER:
            to += self.reviewers
        return to

    def _hand_over(self, message: EmailMessage) -> None:
        parts = urlsplit(self.url)
        host, context = parts.hostname or "localhost", ssl.create_default_context()
        secure = parts.scheme == "smtps"
        port = parts.port or (465 if secure else 25)
        server = (
            smtplib.SMTP_SSL(host, port, timeout=_TIMEOUT_S, context=context)
            if secure
            else smtplib.SMTP(host, port, timeout=_TIMEOUT_S)
        )
        with server:
            server.ehlo_or_helo_if_needed()  # what is offered is not known before
            if not secure and server.has_extn("starttls"):
                server.starttls(context=context)
                secure = True
            if parts.username and parts.password:
                if not secure:
                    raise NotTakenError("no password is sent to a mail server without TLS")
                server.login(unquote(parts.username), unquote(parts.password))
            server.send_message(message)
