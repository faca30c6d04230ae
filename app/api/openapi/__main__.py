"""``python -m app.api.openapi FILE``: write the document."""

from __future__ import annotations

import sys
from pathlib import Path

from app.api.openapi.snapshot import snapshot

Path(sys.argv[1]).write_text(snapshot(), "utf-8")
