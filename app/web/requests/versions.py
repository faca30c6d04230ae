"""What is declared of rows that are added to a data set."""

from __future__ import annotations

from pydantic import ConfigDict, Field, JsonValue

from app.domain.datasets import Encoding, TextFile
from app.services.datasets.extending import NewRows
from app.web.requests.columns import Delimiter, SkippedRows
from app.web.requests.fields import Request
from app.web.requests.schemas import OverlapSpec
from app.web.requests.uploads import LONGEST_SOURCE, SOURCE
from app.web.requests.values import Name

_EXAMPLE: dict[str, JsonValue] = {"name": "engel, 1858"}


class VersionSpec(Request):
    """The public description of rows that are added to a data set; all else is the data set's."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: Name | None = Field(default=None, examples=["engel, 1858"])
    """What the new version is called: the data set's name and the version's number, unless this
    says otherwise."""
    max_rows: int | None = Field(default=None, ge=1, le=10**12, examples=[1000])
    """Public bound on how many rows are added, required where the data set has a bound. The new
    version's bound is their sum."""
    delimiter: Delimiter = Field(default=",", examples=[";"])
    """What stands between the cells of a CSV file."""
    encoding: Encoding = Field(default="utf-8", examples=["windows-1252"])
    """How the text of a CSV file is encoded."""
    skip_rows: SkippedRows = Field(default=0, examples=[3])
    """How many lines above the header of a CSV file are titles, which are not read."""
    overlap: OverlapSpec | None = Field(default=None, examples=[{"reason": "other people"}])
    """An admin's word that rows which look like earlier data are other people's."""

    def declared(self) -> NewRows:
        """Return the declaration, as the services know it."""
        return NewRows(
            name=self.name,
            max_rows=self.max_rows,
            text=TextFile(
                delimiter=self.delimiter, encoding=self.encoding, skip_rows=self.skip_rows
            ),
            overlap_reason=None if self.overlap is None else self.overlap.reason,
        )


class SourcedVersionSpec(VersionSpec):
    """The public description of rows that are added, and where they lie."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "source": SOURCE}]})

    source: str = Field(max_length=LONGEST_SOURCE, examples=[SOURCE])
    """A URL below one of the roots that the operator allows, as for a new data set."""
