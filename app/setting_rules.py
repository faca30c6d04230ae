"""What the settings have in common: their names and files, and the forms that some have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

PREFIX = "RELEASE_DESK_"


class SettingsError(ValueError):
    """A setting is contradictory or its file cannot be read; names settings, never values."""


_ORIGIN = r"https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?"
ORIGINS = rf"^(\*|{_ORIGIN}(\s*,\s*{_ORIGIN})*)?$"
"""As browsers send origins: a scheme, a host in small letters and no path."""
STORE = r"^(https://[a-z0-9.-]+|http://(127\.0\.0\.1|localhost|\[::1\]))?(:[0-9]{1,5})?$"
CLUSTER = (
    r"^(tls://([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}"
    r"|tcp://(127(\.[0-9]{1,3}){3}|localhost|\[::1\]):[0-9]{1,5})?$"
)
"""What goes over a network goes by TLS."""
TOGETHER = (
    ("webhook_url", "webhook_secret"),
    ("smtp_url", "smtp_sender"),
    ("s3_access_key_id", "s3_secret_access_key"),
    ("s3_session_token", "s3_access_key_id"),
    ("dask_tls_ca", "dask_tls_cert"),
    ("dask_tls_cert", "dask_tls_key"),
    ("dask_tls_key", "dask_tls_ca"),
    ("dask_tls_ca", "dask_scheduler"),
)
"""What is no use without another one."""


class FileSource(PydanticBaseSettingsSource):
    """Settings whose value is the content of the file named by ``..._FILE``."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the content of the setting's file, or None when none is named."""
        del field
        name = f"{PREFIX}{field_name.upper()}"
        path = os.environ.get(f"{name}_FILE")
        if path is None:
            return None, field_name, False
        if name in os.environ:
            raise SettingsError(f"set either {name} or {name}_FILE, not both")
        try:
            return Path(path).read_text("utf-8").strip(), field_name, False
        except (OSError, UnicodeDecodeError):
            raise SettingsError(f"the file named by {name}_FILE cannot be read") from None

    def __call__(self) -> dict[str, Any]:
        """Return every setting that comes from a file."""
        found = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in found.items() if value is not None}
