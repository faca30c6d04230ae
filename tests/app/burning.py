"""Processes that use up time as ordered; forked to order (:mod:`app.processes.program`)."""

from __future__ import annotations

import json
import os
import time
from multiprocessing.connection import Connection

from app.processes.channel import Message, send


def work(channel: int) -> None:
    """Use up processor time, tell policy, priority and process id, and sleep; in seconds."""
    with Connection(channel) as reported:
        burning, asleep = json.loads(reported.recv_bytes())
        until = time.thread_time() + burning
        while time.thread_time() < until:
            pass
        how = [os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), os.getpid()]
        send(reported, Message.OUTCOME, json.dumps(how).encode())
        time.sleep(asleep)
