"""Settings come from the environment or from files, and never from both."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from app.settings import PREFIX, Settings, SettingsError
from tests.tiers import in_one

SECRET = "a-bootstrap-key-of-thirty-two-characters"


def test_a_setting_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text(f"\n{SECRET}\n")
    monkeypatch.setenv(f"{PREFIX}BOOTSTRAP_KEY_FILE", str(file))
    monkeypatch.setenv(f"{PREFIX}MAX_UPLOAD_ROWS", "7")
    settings = Settings()
    assert settings.bootstrap_key is not None
    assert settings.bootstrap_key.get_secret_value() == SECRET
    assert settings.max_upload_rows == 7
    assert SECRET not in repr(settings)


def test_both_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}BOOTSTRAP_KEY", SECRET)
    monkeypatch.setenv(f"{PREFIX}BOOTSTRAP_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(SettingsError, match="BOOTSTRAP_KEY_FILE") as refused:
        Settings()
    assert SECRET not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}DATA_DIR_FILE", str(tmp_path / "absent"))
    with pytest.raises(SettingsError, match="DATA_DIR_FILE"):
        Settings()


def test_a_short_bootstrap_key_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"{PREFIX}BOOTSTRAP_KEY", "tooshortsecret")
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert "tooshortsecret" not in str(refused.value)


def test_white_space_makes_no_bootstrap_key_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match="bootstrap_key"):
        Settings(bootstrap_key=SecretStr(f"short{chr(10) * 40}"))
    monkeypatch.setenv(f"{PREFIX}BOOTSTRAP_KEY", f"short{' ' * 40}")
    with pytest.raises(ValidationError, match="bootstrap_key"):
        Settings()
    monkeypatch.setenv(f"{PREFIX}BOOTSTRAP_KEY", f"  {SECRET}\n")
    found = Settings().bootstrap_key
    assert found is not None
    assert found.get_secret_value() == SECRET


@in_one("name", Settings.model_fields)
def test_every_setting_is_described(name: str) -> None:
    assert Settings.model_fields[name].description
