"""Requests that follow from answers: what has been made is there, whatever is asked of it next.

What may follow, the tool finds by itself, in the names of the document's answers and parameters.
Its own check of this passes over every operation that has a parameter besides; ours does not.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case, GenerationMode
from schemathesis.core.transport import Response

from app.api.openapi.snapshot import snapshot
from app.domain.problems import Problem
from app.services.audit import AuditService
from app.services.datasets.budgets import BudgetService
from tests.contract.real_things import World, prepared
from tests.contract.service import ADMIN_KEY, Service, lying, running

pytestmark = pytest.mark.slow

KEY = {"Authorization": f"Bearer {ADMIN_KEY}"}
_IDS = re.compile(r"(?:ds|rel)_[0-9a-f]{32}")
_NOT_FOR_ALL = (
    # their owner's alone
    "/v1/releases/{release}/withdrawal",
    "/v1/releases/{release}/revisions",
    # only some have one
    "/v1/releases/{release}/publication",
)
Followed = Counter[tuple[str, str, int]]
"""An operation, the one that followed from its answer, and the status of that."""


def sequences(service: Service, world: World, followed: Followed) -> Any:
    """Return the state machine of requests to a service."""
    known: set[str] = set()
    schema = schemathesis.openapi.from_dict(json.loads(snapshot()))
    schema.config.generation.update(modes=[GenerationMode.POSITIVE])
    # one's own request is not one's own to decide on (403), archived data and decided releases
    # take no more (409), and only what waits for a review is as it was (412)
    schema.config.checks.positive_data_acceptance.expected_statuses = [
        "2xx", "403", "404", "409", "412", "422",
    ]  # fmt: skip
    # it would revoke the key in use; and nothing else is ever deleted, or shown at the address
    # of what was: there is no use after a deletion to look for
    base: Any = schema.exclude(operation_id="revokeKey").as_state_machine()

    class Sequences(base):  # type: ignore[misc]
        def before_call(self, case: Case) -> None:
            world.fill(case)

        def get_call_kwargs(self, case: Case) -> dict[str, Any]:
            return {"base_url": service.url, "headers": KEY, "timeout": 30}

        def after_call(self, response: Response, case: Case) -> None:
            super().after_call(response, case)
            parent = self.recorder.find_parent(case_id=case.id)
            if parent is not None:
                pair = parent.operation.label, case.operation.label
                followed[*pair, response.status_code] += 1

        def validate_response(self, response: Response, case: Case, **kwargs: Any) -> None:
            named = _IDS.findall(case.formatted_path)
            if response.status_code == 404 and case.operation.path not in _NOT_FOR_ALL:
                assert not known.intersection(named), f"{named} was there: {case}"
            known.update(_IDS.findall(response.text))
            case.validate_response(
                response, headers=KEY, transport_kwargs=kwargs, recorder=self.recorder
            )

    return Sequences


def run(directory: Path) -> Followed:
    """Run sequences on a service of their own, since they archive whatever they come upon."""
    followed: Followed = Counter()
    source = lying(directory / "data")
    roots = {"source_roots": source.rpartition("/")[0]}
    with running(directory / "data", **roots) as service, service.client() as admin:
        world = prepared(admin, source=source)
        with closing(world.analyst), closing(world.curator):
            sequences(service, world, followed).run(
                settings=settings(
                    max_examples=80,
                    stateful_step_count=10,
                    deadline=None,
                    derandomize=True,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
            )
    return followed


@pytest.mark.slow
def test_what_has_been_made_is_there(tmp_path: Path) -> None:
    followed = run(tmp_path)
    answered = {made for made, _, status in followed if 200 <= status < 300}
    assert {"GET /v1/datasets", "GET /v1/releases", "POST /v1/datasets"} <= answered, followed


def test_what_has_been_made_and_is_lost_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""

    def lost(*_: object, **__: object) -> None:
        raise Problem("not-found")

    monkeypatch.setattr(AuditService, "entries", lost)
    monkeypatch.setattr(BudgetService, "view", lost)
    with pytest.raises(AssertionError, match="was there"):
        run(tmp_path)
