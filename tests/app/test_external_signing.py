"""A program of the operator's that signs: what it is asked, and what happens when it fails."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.domain.problems import SignerLostError
from app.places import open_store
from app.services.releases.receipts import Receipts, sent_answer
from app.settings import Settings
from app.store import Store, StoreError, external_signing
from app.store.external_signing import ProgramKey, key_of
from app.store.ledger.signing import KEY_NAME, RECEIPT_KEY, SigningKey
from tests.app import signer_program
from tests.app.ledgers import Place, opened


def command_of(directory: Path) -> str:
    return shlex.join([sys.executable, str(signer_program.__file__), str(directory)])


@pytest.fixture
def keeper(tmp_path: Path) -> Path:
    """Return the directory of a signer and of what it is told."""
    directory = tmp_path / "a signer's"
    directory.mkdir()
    (directory / "key").write_bytes(secrets.token_bytes(32))
    return directory


@pytest.fixture
def key(keeper: Path) -> Iterator[ProgramKey]:
    with closing(ProgramKey(command_of(keeper))) as found:
        yield found


def settings_with(place: Place, keeper: Path) -> Settings:
    return Settings(
        data_dir=place.directory, database_url=place.url, signer_command=command_of(keeper)
    )


def known_keys(store: Store) -> list[str | None]:
    with store.reading() as reader:
        return [entry.note for entry in reader.entries.of_system(RECEIPT_KEY)]


def test_it_signs_and_no_key_is_in_the_data_directory(place: Place, keeper: Path) -> None:
    with opened(place, key=ProgramKey(command_of(keeper))) as ledger:
        record = ledger.debit("one")
        content = Receipts(ledger.store).attach(record, b'{"id":"rel_1"}')
        ledger.store.write(lambda u: u.releases.finish(record.id, content))
    with closing(place.open(key=ProgramKey(command_of(keeper)))) as store:
        assert Receipts(store).check(sent_answer(json.loads(content), content)).ok
        assert store.verify(signed=True).ok
        assert known_keys(store) == [store.key.public]
    assert not (place.directory / KEY_NAME).exists()


def test_another_process_comes_to_the_same_key(key: ProgramKey, keeper: Path) -> None:
    (keeper / "gone").touch()
    with closing(key_of(key.source)) as other:  # it starts no program before it signs
        assert (other.name, other.public) == (key.name, key.public)
        (keeper / "gone").unlink()
        assert other.sign(b"a message") == key.sign(b"a message")


def test_one_that_ends_is_started_anew(key: ProgramKey, keeper: Path) -> None:
    (keeper / "once").touch()
    assert key.sign(b"one") == key.sign(b"one")
    assert key.sign(b"two") != key.sign(b"one")


@pytest.mark.parametrize("trouble", ["gone", "wrong", "silent"])
def test_what_is_no_signature_is_not_shown(
    key: ProgramKey, keeper: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = key.sign(b"a message")
    monkeypatch.setattr(external_signing, "ANSWER_WITHIN_S", 2.0)
    (keeper / trouble).touch()
    with pytest.raises(SignerLostError, match="gives no signature"):
        key.sign(b"a message")
    (keeper / trouble).unlink()
    assert key.sign(b"a message") == sound


def test_another_key_in_its_place_signs_nothing(key: ProgramKey, keeper: Path) -> None:
    (keeper / "key").write_bytes(secrets.token_bytes(32))
    (keeper / "once").touch()
    key.sign(b"by the first")
    with pytest.raises(SignerLostError):
        key.sign(b"by the second")


@pytest.mark.parametrize("command", ["", "/no/such/program", "true", "echo no-key", "echo '*'"])
def test_a_command_that_is_no_signer_is_refused(command: str) -> None:
    with pytest.raises(StoreError, match="the signer command cannot be used"):
        ProgramKey(command)


def test_there_is_one_key(place: Place, keeper: Path) -> None:
    both = settings_with(place, keeper).model_copy(update={"signing_key": SecretStr("a key")})
    with pytest.raises(StoreError, match="name a key each"):
        open_store(both)


def test_a_key_of_the_directory_gives_way_to_it(place: Place, keeper: Path) -> None:
    with opened(place) as ledger:
        before = ledger.store.key
        assert isinstance(before, SigningKey)
    with closing(open_store(settings_with(place, keeper))) as store:
        assert known_keys(store) == [before.public, store.key.public]
        assert store.key.public != before.public
