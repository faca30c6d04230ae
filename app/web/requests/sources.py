"""A data set's spec that says where its rows lie."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from app.web.requests.schemas import EXAMPLE, DatasetSpec

LONGEST_SOURCE = 4_000
SOURCE = "file:///srv/people/2024/*.parquet"


class SourcedDatasetSpec(DatasetSpec):
    """The public description of a data set, and where its rows lie."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**EXAMPLE, "source": SOURCE}]})

    source: str = Field(max_length=LONGEST_SOURCE, examples=[SOURCE])
    """A `file:///` or `s3://` URL below one of the roots that the operator allows. A star stands
    for any characters of a name, and two as a whole name for any folders. Folders such as
    `year=2024` are columns where such are declared."""
