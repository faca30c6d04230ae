"""Whoever has kept a checkpoint finds out, without the service, whether the log only grew."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from hashlib import sha256

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.client import ReceiptError, ReleaseDesk, check_checkpoint, check_growth
from app.domain.checkpoints import Checkpoint
from app.domain.ledger import consistency_path, root_over
from tests.tiers import in_one

KEY = Ed25519PrivateKey.generate()
PUBLIC = KEY.public_key().public_bytes_raw()
TEXT = base64.urlsafe_b64encode(PUBLIC).decode().rstrip("=")
LEAVES = [sha256(bytes([0, number])).digest() for number in range(33)]


def note(leaves: Sequence[bytes], *, log: str = "release-desk/ledger_1/1") -> str:
    found = Checkpoint(origin=log, size=len(leaves), root=root_over(leaves))
    return found.signed(PUBLIC, KEY.sign(found.body.encode()))


def path(before: int, size: int) -> list[str]:
    found = consistency_path(before, size, lambda first, until: root_over(LEAVES[first:until]))
    return [each.hex() for each in found]


@in_one("size", range(1, 34))
def test_a_log_that_grows_is_told_from_one_that_was_changed(size: int) -> None:
    for before in range(1, size + 1):
        earlier, later, steps = note(LEAVES[:before]), note(LEAVES[:size]), path(before, size)
        assert check_growth(earlier, later, steps, TEXT).size == size
        other = note([*LEAVES[: before - 1], b"x" * 32])
        for wrong in ((other, steps), (earlier, [*steps, "00" * 32]), (earlier, steps[:-1])):
            if wrong != (earlier, steps):
                with pytest.raises(ReceiptError, match="does not begin"):
                    check_growth(wrong[0], later, wrong[1], TEXT)


def test_a_log_does_not_shrink_and_is_no_other() -> None:
    with pytest.raises(ReceiptError, match="does not begin"):
        check_growth(note(LEAVES[:5]), note(LEAVES[:3]), path(3, 5), TEXT)
    with pytest.raises(ReceiptError, match="two logs"):
        check_growth(note(LEAVES[:3], log="release-desk/ledger_2/1"), note(LEAVES[:5]), [], TEXT)
    with pytest.raises(ReceiptError, match="cannot be read"):
        check_growth(note(LEAVES[:3]), note(LEAVES[:5]), ["no hash"], TEXT)


@pytest.mark.parametrize(
    ("newest", "said"),
    [(note(LEAVES[:3]), "does not begin"), (note(LEAVES[:3], log="release-desk/l/2"), "two logs")],
)
def test_a_log_that_has_shrunk_is_called_so_and_not_a_wrong_request(newest: str, said: str) -> None:
    """The service has no proof for these, and refuses to be asked for one."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/log/checkpoint":
            return httpx.Response(200, text=newest)
        return httpx.Response(422, json={"code": "invalid-request", "status": 422})

    with (
        ReleaseDesk("http://desk", transport=httpx.MockTransport(answer)) as desk,
        pytest.raises(ReceiptError, match=said),
    ):
        desk.check_log(note(LEAVES[:5]), TEXT)


@pytest.mark.parametrize("text", ["", "mine", "a\n\nb", "a\nb\nc\n\nd e f\n", "a\n1\n?\n\nd e f\n"])
def test_what_is_no_checkpoint_is_none(text: str) -> None:
    with pytest.raises(ReceiptError, match="no checkpoint"):
        check_checkpoint(text, TEXT)


def test_every_byte_of_a_checkpoint_is_signed() -> None:
    whole = note(LEAVES)
    found = check_checkpoint(whole, TEXT)
    assert (found.size, found.root) == (33, root_over(LEAVES))
    for place, letter in enumerate(whole[:-1]):
        changed = whole[:place] + ("A" if letter != "A" else "B") + whole[place + 1 :]
        try:
            same = check_checkpoint(changed, TEXT) == found
        except ReceiptError:
            continue
        assert same, "the key's short name, which nothing is told by"
