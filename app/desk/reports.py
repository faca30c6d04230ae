"""How files were read: each report waits for its uploader to see it once."""

from __future__ import annotations

from app.desk.once import ShownOnce
from app.domain.upload_reports import UploadReport

REPORTS: ShownOnce[UploadReport] = ShownOnce(seconds=600)
"""By the id of the data set."""
