"""``release-desk``, forked for every call from a process that has loaded it: that takes a second.

A call has words, a directory, an environment and standard streams of its own. How the command is
started is tested in :mod:`tests.e2e.test_cli` and :mod:`tests.e2e.test_packaging`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from fcntl import F_DUPFD, fcntl
from functools import cache

from tests.app.forked_hosts import LOADED, may_have_children

_MOST_BYTES = 1 << 18
_FREE = 100
"""No call has a descriptor from here on."""
_PROGRAM = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as way:
    way.connect({address!r})
    there = set(range({free})) - {{way.fileno()}}
    places = sorted(n for n in there if os.path.exists(f"/proc/self/fd/{{n}}"))
    told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), places])
    socket.send_fds(way, [told.encode()], places)
    sys.exit(int(way.recv(3) or 1))
"""


@cache
def program() -> str:
    """Return a program that does what the command does; this process has it forked."""
    address = f"\0release-desk-commands-{os.getpid()}"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address)
    listening.listen()
    LOADED.Process(target=_fork_to_order, args=(listening,), daemon=True).start()
    listening.close()
    return _PROGRAM.format(python=sys.executable, address=address, free=_FREE)


def _fork_to_order(listening: socket.socket) -> None:
    """Fork a process for every call."""
    may_have_children()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no one waits for what is forked
    while True:
        way, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _wait_for_call(way)
        way.close()


def _wait_for_call(way: socket.socket) -> None:
    """Have a call made, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told, given, _, _ = socket.recv_fds(way, _MOST_BYTES, _FREE)
    called = os.fork()
    if called == 0:
        way.close()
        _call(*json.loads(told), given)
    _, status = os.waitpid(called, 0)
    way.send(str(os.waitstatus_to_exitcode(status) % 256).encode())
    os._exit(0)


def _call(
    words: list[str],
    directory: str,
    environment: dict[str, str],
    places: Sequence[int],
    given: Sequence[int],
) -> None:
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for place, each in zip(places, [fcntl(each, F_DUPFD, _FREE) for each in given], strict=True):
        os.dup2(each, place)
    sys.stdin, sys.stdout, sys.stderr = (
        open(standard, "w" if standard else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
        for standard in range(3)
    )
    code = 1
    try:
        from app.cli import main

        main(words, prog_name="release-desk")
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
