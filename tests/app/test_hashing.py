"""Hashing in pieces comes to the same."""

from __future__ import annotations

from hashlib import sha256

from app.domain.ledger import sha256_hex
from tests.tiers import in_one


@in_one("size", [0, 1, 2046, 2047, 2048, 4094, 4095, 32_768, 32_769, 100_000])
def test_pieces_have_the_hash_of_the_whole(size: int) -> None:
    content = bytes(number * 7 % 251 for number in range(size))
    assert sha256_hex(content) == sha256(content).hexdigest()
