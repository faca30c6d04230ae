"""Processes that use or wait for time as told; forked to order (:mod:`app.engine.forking`)."""

from __future__ import annotations

import json
import os
import time
from multiprocessing.connection import Connection

from app.engine.forking import Message, send


def work(channel: int) -> None:
    """Sleep, then use up processor time, both in seconds; tell the policy and the priority."""
    with Connection(channel) as told:
        asleep, burning = json.loads(told.recv_bytes())
        time.sleep(asleep)
        until = time.thread_time() + burning
        while time.thread_time() < until:
            pass
        how = [os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)]
        send(told, Message.OUTCOME, json.dumps(how).encode())
