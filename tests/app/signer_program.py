"""A signer: a program that holds a key. Its argument is the directory that says how it behaves.

``key``: the private half. ``silent``: it does not answer. ``gone``: it ends at once.
``wrong``: it signs something else. ``once``: it signs one message and ends.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def say(content: bytes) -> None:
    sys.stdout.write(base64.urlsafe_b64encode(content).rstrip(b"=").decode() + "\n")
    sys.stdout.flush()


def main(directory: Path) -> None:
    def is_set(name: str) -> bool:
        return (directory / name).exists()

    if is_set("gone"):
        return
    key = Ed25519PrivateKey.from_private_bytes((directory / "key").read_bytes())
    say(key.public_key().public_bytes_raw())
    for line in sys.stdin:
        message = base64.urlsafe_b64decode(line.strip() + "==")
        if is_set("gone"):
            return
        if not is_set("silent"):
            say(key.sign(b"other" if is_set("wrong") else message))
        if is_set("once"):
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
