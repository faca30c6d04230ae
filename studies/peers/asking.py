"""Queries a peer over a pipe: one process of its environment, one line of JSON each way."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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


@dataclass(frozen=True, slots=True)
class Peer:
    """A running peer."""

    name: str
    version: str
    requests: IO[str]
    answers: IO[str]

    def ask(
        self,
        statistic: str,
        data: Mapping[str, Sequence[float]],
        settings: Mapping[str, object],
        *,
        draws: int,
    ) -> Answer:
        """Return that many draws.

        Raises
        ------
        RuntimeError
            The peer stopped; its messages are on standard error.
        """
        asked = {"statistic": statistic, "data": data, "settings": settings, "draws": draws}
        self.requests.write(json.dumps(asked) + "\n")
        self.requests.flush()
        reply = _line(self.answers, self.name)
        return Answer(reply["values"], reply["ms"])


@contextmanager
def running(name: str, python: Path = PYTHON) -> Iterator[Peer]:
    """Start a peer, and end it afterwards."""
    with subprocess.Popen(  # noqa: S603
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
    ) as process:
        requests, answers = process.stdin, process.stdout
        if requests is None or answers is None:
            raise RuntimeError("a pipe is missing")
        try:
            yield Peer(name, str(_line(answers, name)["version"]), requests, answers)
        finally:
            requests.close()


def _line(answers: IO[str], name: str) -> dict[str, Any]:
    text = answers.readline()
    if not text:
        raise RuntimeError(f"{name} stopped before it answered")
    reply: dict[str, Any] = json.loads(text)
    return reply
