"""The export formats of a data set's public releases for catalogues, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.services.datasets.datasets import DatasetFacts
from app.services.publishing.linked_data import croissant, datacite
from app.services.publishing.published import Published
from app.services.publishing.registry import deployment

Export = Callable[[DatasetFacts, Sequence[Published], str], dict[str, Any]]

EXPORTS: Mapping[str, Export] = {
    "registry": deployment,
    "datacite": datacite,
    "croissant": croissant,
}
"""Each takes a data set's facts, its public releases, and where the service is."""
