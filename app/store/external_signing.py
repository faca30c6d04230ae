"""A signing key that a program of the operator's holds, as in front of a hardware module.

The program is started by each process that signs, and stays. It writes one line first: its
Ed25519 public key. Then it answers each line that it reads, which holds what is to be signed,
with one line that holds the signature. All of them are base64url without padding. It ends when
there is nothing more to read. Nothing but digests and names comes to it: no released value.
"""

from __future__ import annotations

import base64
import binascii
import os
import select
import shlex
import subprocess
import threading
import time
from contextlib import suppress

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.domain.problems import SignerLostError
from app.store.errors import StoreError
from app.store.ledger.signing import (
    KeySource,
    ReceiptKey,
    SigningKey,
    base64url,
    thumbprint,
)

ANSWER_WITHIN_S = 10.0
"""How long the program may take for its first line, and for each signature."""
_LONGEST_LINE = 1024  # a signature has 64 bytes: a longer answer is none
_FAILURES = (SignerLostError, InvalidSignature, OSError, ValueError)


class ProgramKey:
    """A key of which only the public half is known here; any thread may sign.

    Parameters
    ----------
    command
        The program and its arguments, quoted as for a POSIX shell; no shell runs.
    public
        The public half, where it is known already: the program is started when it is to sign.

    Raises
    ------
    StoreError
        The program cannot be started, or shows no Ed25519 public key.
    """

    fresh = True
    """The ledger may learn of it: the operator has named it."""

    def __init__(self, command: str, *, public: str | None = None) -> None:
        self._words = shlex.split(command)
        self._lock = threading.Lock()
        self._program: subprocess.Popen[bytes] | None = None
        try:
            self.public = public or self._start()
            self._verifier = Ed25519PublicKey.from_public_bytes(_bytes_of(self.public))
        except (SignerLostError, OSError, ValueError) as error:
            self.close()
            raise StoreError(f"the signer command cannot be used: {error}") from None
        self.name = thumbprint(self.public)
        self.source = KeySource(public=self.public, command=command)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes, checked.

        Raises
        ------
        SignerLostError
            The program gives none, also after a restart.
        """
        with self._lock:
            try:
                # Once more after a restart of the program: it may have died, or answered a
                # question given up before.
                return self._signature(message)
            except _FAILURES:
                self._end()
            try:
                return self._signature(message)
            except _FAILURES:
                self._end()
                raise SignerLostError("the signer gives no signature") from None

    def close(self) -> None:
        """End the program."""
        with self._lock:
            self._end()

    def _signature(self, message: bytes) -> bytes:
        if self._program is None and self._start() != self.public:
            raise SignerLostError("the signer has another key now")
        signature = _bytes_of(self._ask(base64url(message).encode() + b"\n"))
        # Before anyone sees it: a module that signs something else would otherwise be
        # noticed by outside readers only.
        self._verifier.verify(signature, message)
        return signature

    def _start(self) -> str:
        try:
            self._program = subprocess.Popen(  # noqa: S603 - the operator's own words, no shell
                self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except (OSError, IndexError) as error:
            raise SignerLostError(f"it cannot be started: {error}") from None
        return self._ask(b"")

    def _ask(self, line: bytes) -> str:
        """Write a line to the program and return the next one that it writes."""
        program, until = self._program, time.monotonic() + ANSWER_WITHIN_S
        assert program is not None
        assert program.stdin is not None
        assert program.stdout is not None
        answered = bytearray()
        program.stdin.write(line)
        while not answered.endswith(b"\n"):
            # One end for the whole line: a program that writes byte by byte must not
            # hold the lock for ever.
            left = max(until - time.monotonic(), 0.0)
            if not select.select([program.stdout], [], [], left)[0]:
                raise SignerLostError("it does not answer")
            piece = os.read(program.stdout.fileno(), _LONGEST_LINE)
            answered += piece
            if not piece or len(answered) > _LONGEST_LINE:
                raise SignerLostError("it does not answer with a line")
        return answered[:-1].decode("ascii", "replace")

    def _end(self) -> None:
        program, self._program = self._program, None
        if program is None:
            return
        for stream in (program.stdin, program.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()
        # Killed, not asked: it may be stuck, and the next signature waits for the lock.
        program.kill()
        program.wait()


def key_of(source: KeySource) -> ReceiptKey:
    """Return the key that another process of ours named."""
    if source.command is not None:
        return ProgramKey(source.command, public=source.public)
    assert source.private is not None
    return SigningKey.of_bytes(source.private)


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("no base64url") from None
