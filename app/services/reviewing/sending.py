"""Sending notices: each is claimed, sent, and tried again with longer and longer pauses.

A claim is written before a notice is sent, so two server processes seldom send the same one, and a
process that dies in between has it sent again later: at least once, with an id to detect
duplicates.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import anyio
import anyio.to_thread

from app.domain.problems import Problem
from app.logs import describe
from app.services.releases.public_moments import PublicMoments
from app.services.reviewing.channels import Channel, NotTakenError
from app.services.reviewing.inbox import Notice, notice_of
from app.store import Store
from app.store.ledger.ids import text_of
from app.store.ledger.reviewing.notices import NoticeRecord

_LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 2.0
FIRST_PAUSE_S = 10
LONGEST_PAUSE_S = 3600
GIVEN_UP_AFTER = timedelta(days=7)
"""What could not be sent for so long is not sent any more; it stays in the inbox."""
_PAGE = 100


class SendingService:
    """Sends what is in the outbox on every channel that is set."""

    def __init__(self, store: Store, moments: PublicMoments, channels: Sequence[Channel]) -> None:
        self._store = store
        self._moments = moments
        self._channels = channels

    async def send_due(self, *, at: datetime | None = None) -> int:
        """Send what is due, and return how many arrived."""
        moment, arrived = at or datetime.now(UTC), 0
        for channel in self._channels:
            after = 0
            while due := await anyio.to_thread.run_sync(self._due, channel.name, moment, after):
                after = due[-1][0].number
                for record, notice in due:
                    if notice is not None:
                        arrived += await self._send(channel, record, notice, moment)
        return arrived

    def _due(
        self, channel: str, at: datetime, after: int
    ) -> Sequence[tuple[NoticeRecord, Notice | None]]:
        with self._store.reading() as reader:
            records = reader.notices.undelivered(
                channel,
                since=text_of(at - GIVEN_UP_AFTER),
                at=text_of(at),
                after=after,
                limit=_PAGE,
            )
            return [(each, notice_of(reader, each, self._moments)) for each in records]

    async def _send(
        self, channel: Channel, record: NoticeRecord, notice: Notice, at: datetime
    ) -> bool:
        """Send one notice, unless another process has claimed it."""
        pause_s = min(FIRST_PAUSE_S * 2 ** min(record.attempts, 16), LONGEST_PAUSE_S)
        again, now = text_of(at + timedelta(seconds=pause_s)), text_of(at)
        claimed = await self._store.awrite(
            lambda work: work.notices.claim(record.number, channel.name, at=now, next_at=again)
        )
        if not claimed:
            return False
        try:
            await anyio.to_thread.run_sync(channel.send, notice)
        except NotTakenError as error:
            _LOG.warning(
                "a notice was not taken",
                extra={"channel": channel.name, "notice": notice.id, "reason": str(error)},
            )
            return False
        await self._store.awrite(lambda work: work.notices.delivered(record.number, channel.name))
        return True

    async def keep_sending(self) -> None:
        """Send what is due, while somebody serves."""
        while self._channels:
            try:
                await self.send_due()
            except Problem as problem:  # busy, or frozen
                _LOG.info("notices not sent yet", extra={"code": problem.code})
            except Exception as error:
                _LOG.error("notices not sent yet", extra=describe(error))
            await anyio.sleep(LOOK_EVERY_S)
