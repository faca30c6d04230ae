"""Queries a peer over a pipe: one process of its environment, one line of JSON each way."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parent.parent.parent
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
"""What ``make peers`` installs from ``studies/peers/requirements.lock``."""
COMPILED_FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""JAX compiles a program for each draw's numbers, which takes longer than to run it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Draws, None where the peer refused, and the CPU time of each in milliseconds."""

    values: Sequence[Sequence[float] | None]
    ms: Sequence[float]


LIMIT_S = 900.0
"""CPU time in seconds that a draw of a peer may take; one that takes more is given up."""


@dataclass(slots=True)
class Peer:
    """A running peer; ``restarted`` starts it again after it has given up."""

    name: str
    version: str
    requests: IO[str]
    answers: IO[str]
    restarted: Callable[[], tuple[IO[str], IO[str]]] | None = None

    def ask(
        self,
        statistic: str,
        data: Mapping[str, Sequence[float]],
        settings: Mapping[str, object],
        *,
        draws: int,
        limit_s: float = LIMIT_S,
    ) -> Answer:
        """Return that many draws, each None where they take more than ``limit_s`` each.

        Raises
        ------
        RuntimeError
            The peer stopped; its messages are on standard error.
        """
        asked = {
            "statistic": statistic, "data": data, "settings": settings, "draws": draws,
            "limit_s": limit_s,
        }  # fmt: skip
        self.requests.write(json.dumps(asked) + "\n")
        self.requests.flush()
        reply = _line(self.answers, self.name)
        if reply.get("given_up") and self.restarted is not None:
            self.requests, self.answers = self.restarted()
            return Answer([None] * draws, [1000 * limit_s] * draws)
        return Answer(reply["values"], reply["ms"])


@contextmanager
def running(name: str, python: Path = PYTHON) -> Iterator[Peer]:
    """Start a peer, and end it afterwards."""
    with ExitStack() as stack:

        def start() -> tuple[IO[str], IO[str]]:
            process = stack.enter_context(_started(name, python))
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("a pipe is missing")
            stack.callback(process.stdin.close)
            return process.stdin, process.stdout

        def restarted() -> tuple[IO[str], IO[str]]:
            requests, answers = start()
            _line(answers, name)  # its version
            return requests, answers

        requests, answers = start()
        version = str(_line(answers, name)["version"])
        yield Peer(name, version, requests, answers, restarted)


def _started(name: str, python: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603
        [python, "-m", "studies.peers.there", name],
        cwd=ROOT,
        env={
            "XLA_FLAGS": COMPILED_FAST,
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(answers: IO[str], name: str) -> dict[str, Any]:
    text = answers.readline()
    if not text:
        raise RuntimeError(f"{name} stopped before it answered")
    reply: dict[str, Any] = json.loads(text)
    return reply
