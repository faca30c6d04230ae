"""A desk that is only an answering machine: it counts with Laplace noise, as loudly as it is told.

It speaks just enough of the contract for an audit, and remembers what was made and taken away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

CATALOG = [
    {"statistic": "count", "mechanism": "k_norm", "norms": ["l1"]},
    {"statistic": "geometric_median", "mechanism": "kng", "norms": ["l2"]},
    {"statistic": "mode", "mechanism": "guess", "norms": []},
    {"statistic": "stack", "mechanism": "composition", "norms": [], "limits": {"parts": 20}},
]
"""A count, a job, a statistic that no audit has heard of, and the stack."""


@dataclass
class FakeDesk:
    """Draws at ``louder`` times the epsilon it is asked for, and refuses some requests at first.

    ``refusals`` are the codes with which releases are refused, one after the other. ``asked``
    holds the statistic of each release, and ``most_running`` is how many jobs it had at once.
    """

    louder: float = 1.0
    refusals: list[str] = field(default_factory=list)
    datasets: dict[str, int] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    specs: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    made_keys: int = 0
    releases: int = 0
    most_running: int = 0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(5)
        self._running: dict[str, dict[str, Any]] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        path = request.url.path
        if path == "/v1/catalog":
            usual = {"limits": {}, "adjacencies": ["replace_one"], "accounting": ["pure", "zcdp"]}
            lines = [usual | line for line in CATALOG]
            return httpx.Response(200, json={"items": lines, "next": None})
        if path.startswith("/v1/keys"):
            return self._key(request)
        if path.endswith("/archive"):
            name = path.split("/")[3]
            del self.datasets[name]
            return httpx.Response(200, json=_dataset(name, "archived"))
        if path == "/v1/datasets":
            return self._upload(request)
        if path.endswith("/releases"):
            return self._release(path.split("/")[3], json.loads(request.content))
        return httpx.Response(200, json=self._running.pop(path.split("/")[3]))

    def _key(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            self.keys.remove(request.url.path.split("/")[3])
            return httpx.Response(204)
        self.made_keys += 1
        key = f"key_{self.made_keys}"
        self.keys.add(key)
        asked = json.loads(request.content)
        facts = {"id": key, "secret": "s" * 40, "person": asked["name"], **asked}
        return httpx.Response(201, json=facts)

    def _upload(self, request: httpx.Request) -> httpx.Response:
        found = re.search(r"\{.*\}", request.read().decode())
        assert found is not None
        spec = json.loads(found.group())
        self.specs.append(spec)
        dataset = f"ds_{len(self.specs)}"
        self.datasets[dataset] = 1 if spec["name"].endswith(" 1") else 0
        return httpx.Response(201, json=_dataset(dataset, "open"))

    def _release(self, dataset: str, asked: Mapping[str, Any]) -> httpx.Response:
        if self.refusals:
            code = self.refusals.pop(0)
            body = {"code": code, "status": 429, "detail": "no", "retry_after": 0}
            return httpx.Response(429, json=body)
        self.releases += 1
        statistic = asked["statistic"]
        parts = statistic.get("parts", [{"statistic": statistic}])
        self.asked.append(parts[0]["statistic"]["kind"])
        scale = len(parts) / (self.louder * float(asked["epsilon"]))
        values = [self._value(part["statistic"]["kind"], dataset, scale) for part in parts]
        value = {"parts": values} if "parts" in statistic else values[0]
        name = f"rel_{self.releases}"
        release = {"id": name, "dataset": dataset, "epsilon": asked["epsilon"], "value": value}
        if "geometric_median" not in str(statistic):
            return httpx.Response(201, json={**release, "status": "released"})
        self._running[name] = {**release, "status": "released"}
        self.most_running = max(self.most_running, len(self._running))
        return httpx.Response(202, json={**release, "status": "running", "value": None})

    def _value(self, kind: str, dataset: str, scale: float) -> dict[str, object]:
        drawn = float(self._random.laplace(self.datasets[dataset], scale))
        return {"count": drawn, "label": "of records above", "bound": None} | (
            {"x": drawn} if kind == "geometric_median" else {}
        )


def _dataset(name: str, status: str) -> dict[str, object]:
    return {
        "id": name,
        "name": name,
        "adjacency": "replace_one",
        "status": status,
        "columns": {},
    }
