"""Receipts: what they sign, who can check them, and what becomes of a swapped key."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from pydantic import SecretStr

from app.client import ReceiptError, check_receipt
from app.domain.ledger import Entry, chain_hash
from app.domain.problems import Problem
from app.places import open_store
from app.services.releases.receipts import Finding, LongAnswer, Receipts, sent_answer
from app.settings import Settings
from app.store import ReleaseRecord, StoreError, base64url, key_of
from app.store.ledger import signing as signing_module
from app.store.ledger.signing import (
    KEY_NAME,
    RECEIPT_KEY,
    SigningKey,
    read_token,
    split,
    thumbprint,
)
from tests.app.ledgers import Ledger, Place, opened, raw

ANSWER = b'{"id":"rel_1","value":{"receipt":1.50,"caf\xc3\xa9":[1,2]}}'


def signed(ledger: Ledger, idem: str = "one") -> tuple[ReleaseRecord, bytes]:
    """Charge, sign and store one answer."""
    record = ledger.debit(idem)
    content = Receipts(ledger.store).attach(record, ANSWER)
    return ledger.store.write(lambda u: u.releases.finish(record.id, content)), content


def check(ledger: Ledger, content: bytes) -> Finding:
    return Receipts(ledger.store).check(sent_answer(json.loads(content), content))


def alone(content: bytes) -> bytes:
    return json.dumps({"receipt": json.loads(content)["receipt"]}).encode()


def test_a_signed_answer_holds_everywhere(place: Place) -> None:
    with opened(place) as ledger:
        record, content = signed(ledger)
        found = check(ledger, content)
        assert (found.ok, found.sent) == (True, True)
        assert check(ledger, b" " + content + b"\n").ok
        only = check(ledger, alone(content))
        assert (only.ok, only.sent, only.receipt) == (True, None, found.receipt)
        offline = check_receipt(content, ledger.store.key.public)
        assert found.receipt is not None
        assert offline.model_dump() == {
            "ledger": ledger.store.identity.id,
            "epoch": 1,
            "account": ledger.account,
            "seq": record.seq,
            "entry": record.entry_hash,
            "release": record.id,
            "answer": found.receipt.answer,
        }
        with ledger.store.reading() as r:
            (entry,) = r.entries.list(ledger.account, after=record.seq - 1, limit=1)
        assert (entry.hash, entry.release) == (record.entry_hash, record.id)
    assert list(json.loads(content)) == ["id", "value", "receipt"]
    assert split(content)[0] == ANSWER


def test_the_public_key_is_read_in_every_usual_form(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        _, content = signed(ledger)
        key = ledger.store.key
    public = Ed25519PrivateKey.generate().public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    padded = base64.urlsafe_b64decode(key.public + "=")
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": key.public, "kid": key.name}
    other = {**jwk, "x": base64url(public.public_bytes_raw())}
    for good in (
        key.public,
        f" {key.public}\n".encode(),
        json.dumps({"ledger": "l", "keys": [other, jwk]}),
        Ed25519PublicKey.from_public_bytes(padded).public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        ),
    ):
        assert check_receipt(content, good).seq == 2
    for wrong in (pem, json.dumps({"keys": [other]}), other["x"]):
        with pytest.raises(ReceiptError, match="not signed by this key"):
            check_receipt(content, wrong)
    for unreadable in ("", "x", "{}", "{", '{"keys": [1]}', "-----BEGIN", '{"keys": [{"x": 1}]}'):
        with pytest.raises(ReceiptError, match="cannot be read"):
            check_receipt(content, unreadable)


@pytest.mark.parametrize(
    ("edit", "offline", "sent"),
    [
        (lambda c: c.replace(b"1.50", b"1.51"), "edited", False),
        (lambda c: c.replace(b"1.50", b"1.5"), "edited", False),
        (lambda c: c.replace(b":", b": ", 1), "edited", False),
        (lambda c: json.dumps(json.loads(c), indent=1).encode(), "no receipt", False),
    ],
)
def test_an_edited_answer_is_told_from_the_signed_one(
    place: Place, edit: Callable[[bytes], bytes], offline: str, sent: bool
) -> None:
    with opened(place) as ledger:
        _, content = signed(ledger)
        found = check(ledger, edit(content))
        assert (found.ok, found.signature, found.sent) == (False, True, sent)
        assert (found.entry, found.stored) == (True, True), "the ledger has the signed one"
        with pytest.raises(ReceiptError, match=offline):
            check_receipt(edit(content), ledger.store.key.public)


def test_one_answer_s_receipt_does_not_fit_another(place: Place) -> None:
    with opened(place) as ledger:
        (_, one), (_, two) = signed(ledger, "one"), signed(ledger, "two")
        tail = two[len(split(two)[0]) - 1 :]
        assert check(ledger, one[: len(split(one)[0]) - 1] + tail).ok, "equal answers"
        other = ANSWER.replace(b"1.50", b"7")[:-1] + tail
        assert check(ledger, other).sent is False


def test_forged_tokens_tell_nothing(place: Place, tmp_path: Path) -> None:
    with opened(place) as ledger, opened(tmp_path / "foreign") as foreign:
        _, content = signed(ledger)
        _, theirs = signed(foreign)
        token = json.loads(content)["receipt"]
        header, payload, signature = token.split(".")
        forged = json.loads(base64.urlsafe_b64decode(payload + "=="))
        forged["seq"] += 1
        changed = base64url(json.dumps(forged, separators=(",", ":")).encode())
        bare = base64url(json.dumps({"alg": "none"}).encode())
        for bad in (
            "", ".", "..", "...", "none", "a.b.c", token[:-1], token + "A", "é" + token,
            f"{header}.{changed}.{signature}", f"{bare}.{payload}.",
            f"{bare}.{payload}.{signature}",
            f"{header}.{payload}.{signature[:-4]}AAAA", json.loads(theirs)["receipt"],
            base64url(b"[]") + "." + payload + "." + signature,
        ):  # fmt: skip
            sent = sent_answer({"receipt": bad}, b"")
            assert Receipts(ledger.store).check(sent) == Finding(signature=False), bad
        for absent in ({}, {"receipt": None}, {"receipt": 3}):
            with pytest.raises(Problem, match="invalid-request"):
                sent_answer(absent, b"")


@pytest.mark.parametrize("size", [1, 7, 1_000, 5_000, 40_000])
def test_an_answer_that_is_hashed_as_it_comes_is_the_same(tmp_path: Path, size: int) -> None:
    with opened(tmp_path) as ledger:
        record = ledger.debit("one")
        # white space wherever the end that is kept may begin
        answer = json.dumps({"value": " " * 10_000, "other": list(range(1_000))}).encode()
        content = Receipts(ledger.store).attach(record, answer)
        for sent in (content, content + b"\n"):
            long = LongAnswer()
            for start in range(0, len(sent), size):
                long.add(sent[start : start + size])
            assert long.sent() == sent_answer(json.loads(sent), sent)
    for other in (answer, content[:-1], b""):
        long = LongAnswer()
        long.add(other)
        with pytest.raises(Problem, match="invalid-request"):
            long.sent()


def test_a_signed_token_of_another_shape_is_no_receipt(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        key = ledger.store.key
        header = base64url(json.dumps({"kid": key.name}).encode())
        for payload in (b"", b"[]", b"{}", b"\xff", b"[" * 100_000):
            signed_part = f"{header}.{base64url(payload)}"
            token = f"{signed_part}.{base64url(key.sign(signed_part.encode()))}"
            assert read_token(token, {key.name: key.public}) is None


def edited_result(ledger: Ledger, record: ReleaseRecord) -> None:
    with raw(ledger.place, guarded=False) as connection:
        connection.execute("UPDATE release SET result = ? WHERE id = ?", (b"{}", record.id))


def lost_release(ledger: Ledger, record: ReleaseRecord) -> None:
    with raw(ledger.place, guarded=False) as connection:
        connection.execute("DELETE FROM release WHERE id = ?", (record.id,))


def lost_entry(ledger: Ledger, record: ReleaseRecord) -> None:
    with raw(ledger.place, guarded=False) as connection:
        connection.execute("DELETE FROM entry WHERE release = ?", (record.id,))


def edited_entry(ledger: Ledger, record: ReleaseRecord) -> None:
    with raw(ledger.place, guarded=False) as connection:
        connection.execute("UPDATE entry SET amount = 7 WHERE release = ?", (record.id,))


def rewritten_entry(ledger: Ledger, record: ReleaseRecord) -> None:
    """Edit an entry and give it the hash that then fits."""
    with ledger.store.reading() as r:
        (entry,) = r.entries.list(ledger.account, after=record.seq - 1, limit=1)
    columns: dict[str, Any] = {name: getattr(entry, name) for name in entry.__slots__}
    columns["principal"] = "person_else"
    fitting = chain_hash(Entry(**columns), ledger.store.identity.id)
    with raw(ledger.place, guarded=False) as connection:
        connection.execute(
            "UPDATE entry SET principal = 'person_else', hash = ? WHERE release = ?",
            (fitting, record.id),
        )


@pytest.mark.parametrize(
    ("damage", "entry", "stored"),
    [
        (edited_result, True, False),
        (lost_release, True, False),
        (lost_entry, False, True),
        (edited_entry, False, True),
        (rewritten_entry, False, True),
    ],
)
def test_a_receipt_outlives_an_edited_ledger(
    place: Place,
    damage: Callable[[Ledger, ReleaseRecord], None],
    entry: bool,
    stored: bool,
) -> None:
    with opened(place) as ledger:
        record, content = signed(ledger)
        damage(ledger, record)
        found = check(ledger, content)
        assert (found.ok, found.signature, found.sent) == (False, True, True)
        assert (found.entry, found.stored) == (entry, stored)
        assert found.forgotten is False, "no reconciliation accounts for it"


def test_an_unfinished_release_has_no_stored_answer(place: Place) -> None:
    with opened(place) as ledger:
        content = Receipts(ledger.store).attach(ledger.debit("one"), ANSWER)
        assert (check(ledger, content).entry, check(ledger, content).stored) == (True, False)


# The key


def test_the_key_is_made_once_and_is_its_owner_s(place: Place) -> None:
    with opened(place) as ledger:
        first, name = ledger.store.key.public, ledger.store.key.name
        (shown,) = Receipts(ledger.store).keys
    assert (shown.public, shown.name) == (first, name)
    assert stat.S_IMODE((place.directory / KEY_NAME).stat().st_mode) == 0o600
    with closing(place.open()) as store:
        assert store.key.public == first
        assert store.verify().ok
    assert {path.name for path in place.directory.glob("receipts*")} == {KEY_NAME}


def test_a_swapped_key_is_refused(place: Place, tmp_path: Path) -> None:
    with opened(place), opened(tmp_path / "other"):
        pass
    (place.directory / KEY_NAME).write_bytes((tmp_path / "other" / KEY_NAME).read_bytes())
    with pytest.raises(StoreError, match="not the signing key that the ledger has recorded"):
        place.open()


def test_a_removed_key_is_replaced_and_its_receipts_stay_valid(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(place) as ledger:
        _, old = signed(ledger)
    (place.directory / KEY_NAME).unlink()
    with closing(place.open()) as store:
        assert "new signing key" in caplog.text
        receipts = Receipts(store)
        assert receipts.keys[0].public == store.key.public
        assert len({key.name for key in receipts.keys}) == 2
        assert receipts.check(sent_answer(json.loads(old), old)).ok
        assert store.verify().ok


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEY_NAME).write_bytes(content)
    with pytest.raises(StoreError, match="no Ed25519 key"):
        SigningKey.of(tmp_path)


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be used"):
        SigningKey.of(tmp_path / "absent")


def test_two_that_make_the_key_at_once_use_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loser of the race finds the winner's file where it wants to put its own."""
    monkeypatch.setattr(Path, "exists", lambda _: False)
    winner, loser = SigningKey.of(tmp_path), SigningKey.of(tmp_path)
    assert (winner.fresh, loser.fresh) == (True, False)
    assert loser.public == winner.public
    assert signing_module.KEY_NAME == KEY_NAME


def settings_with(place: Place, key: str) -> Settings:
    return Settings(data_dir=place.directory, database_url=place.url, signing_key=SecretStr(key))


def test_the_key_may_lie_elsewhere(place: Place, tmp_path: Path) -> None:
    """The ledger learns of it, and the data directory never holds it."""
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with opened(place):
        pass
    (place.directory / KEY_NAME).unlink()
    for _ in range(2):
        with closing(open_store(settings_with(place, pem))) as store:
            assert store.key.public == base64url(private.public_key().public_bytes_raw())
            assert store.verify(signed=True).ok
            with store.reading() as reader:
                known = [entry.note for entry in reader.entries.of_system(RECEIPT_KEY)]
            assert known[-1] == store.key.public
            assert len(known) == 2
    assert not (place.directory / KEY_NAME).exists()


def test_what_is_given_as_a_key_must_be_one(place: Place) -> None:
    with pytest.raises(StoreError, match="the signing key in the settings is no Ed25519 key"):
        open_store(settings_with(place, "no key"))


def test_the_thumbprint_is_that_of_rfc_8037() -> None:
    """RFC 8037, appendix A.3."""
    public = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert thumbprint(public) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_a_key_handed_to_another_process_is_the_same_one(tmp_path: Path) -> None:
    key = SigningKey.of(tmp_path)
    handed = key_of(key.source)
    assert (handed.name, handed.public, handed.fresh) == (key.name, key.public, False)
    assert handed.sign(b"what is signed") == key.sign(b"what is signed")
