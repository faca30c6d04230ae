"""What a script is about: a question to a data set, and perhaps the release that answered it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

URL, KEY = "RELEASE_DESK_URL", "RELEASE_DESK_KEY"
"""The environment variables that say where the service is, and who asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as JSON has it. ``dataset`` is a name, or an id where that alone is sure.

    ``service`` is where the request reached the service, which serves the packages.

    ``choice`` is next to the statistic in a release, ``assumed`` in a preview alone.
    """

    service: str
    dataset: str
    statistic: Mapping[str, object]
    choice: Mapping[str, object]
    assumed: Mapping[str, object] = field(default_factory=dict)
    release: str | None = None

    @property
    def title(self) -> str:
        """Return a line that says what it is, for a comment."""
        kind = self.statistic["kind"]
        of = f"release {self.release}" if self.release else f"a question of kind {kind}"
        return f"Release Desk: {of}, data set {json.dumps(self.dataset)}"

    @property
    def epsilon(self) -> str:
        """Return its price."""
        return str(self.choice["epsilon"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A piece of a program: what it does in words, its code, and a name that is then shown."""

    words: str
    code: str
    shown: str = ""


CONNECT = f"The environment says where the service is and who asks: {URL} and {KEY}. Keep it so."
QUESTION = "The data set, found by its name, and the question."
STORED = "The stored answer, read by its id. That is free."
RECEIPT = "Whether the answer is the one that the ledger charged for, as the service sees it."
WEIGH = "What it would cost, and what it would be worth. That is free, and reads no data."
REHEARSE = "The same on synthetic rows: free, without real people, and in the shape of the release."
_SAME_KEY = (
    "The Idempotency-Key follows from the data set, the question and the price. So the same person"
    " asks once and is charged once, however often this is run."
)


def asking(asked: Asked) -> str:
    """Return what is said where a release is asked for."""
    paid = f"Asking costs epsilon {asked.epsilon}: set ASK to do it. {_SAME_KEY}"
    if asked.release is None:
        return paid
    return f"{paid} The release above may have had another key: then this is a new draw and charge."
