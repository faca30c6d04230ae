"""The catalog's own examples, asked of the rows of the contract tests.

Examples speak of the columns of the demonstration data. Here each has a counterpart, so that a
statistic that is added to the catalog is asked for in every test that asks for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mechanisms.catalog import STATISTICS
from mechanisms.statistics.second_order import MomentStatistic

COUNTERPARTS = {
    "foodexp": "food",
    "households": "food",
    "population": "income",
    "median_income": "income",
    "ocean_proximity": "region",
}


OWN: Mapping[str, dict[str, Any]] = {
    "poisson_regression": {"target": "food", "features": ["income"]},
    "multinomial_regression": {"target": "region", "features": ["income"]},
    "cox_regression": {
        "time": "income",
        "event": "owner",
        "features": ["food"],
        "edges": {"income": {"step": 25}},
    },
    "kaplan_meier": {"time": "income", "event": "owner", "edges": {"income": {"step": 25}}},
    "pca": {"columns": ["income", "food"]},
    "roc": {"score": "income", "label": "owner", "edges": {"income": [0, 25, 50, 100]}},
}
"""Questions of kinds whose example speaks of values, too."""


def example(kind: str) -> dict[str, Any]:
    """Return a kind's example about our columns."""
    if kind in OWN:
        return {"kind": kind, **OWN[kind]}
    found: dict[str, Any] = _ours(json.loads(json.dumps(STATISTICS[kind].example)))
    return found


def with_examples(
    asked: list[dict[str, Any]], kinds: Iterable[str] = tuple(STATISTICS)
) -> list[dict[str, Any]]:
    """Return these questions, and the examples of the kinds that none of them is of."""
    known = {each["kind"] for each in asked}
    return [*asked, *(example(kind) for kind in kinds if kind not in known)]


def of_moments() -> list[str]:
    """Return the kinds whose columns' moments determine them under either adjacency."""
    classes = STATISTICS.items()
    return [kind for kind, each in classes if issubclass(each, MomentStatistic) and kind != "count"]


def _ours(part: Any) -> Any:
    if isinstance(part, dict):
        return {COUNTERPARTS.get(name, name): _ours(each) for name, each in part.items()}
    if isinstance(part, list):
        return [_ours(each) for each in part]
    return COUNTERPARTS.get(part, part) if isinstance(part, str) else part
