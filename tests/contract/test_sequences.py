"""Requests that follow from answers: what has been made is there, whatever is asked of it next.

What may follow, the tool finds by itself, in the names of the document's answers and parameters.
Its own check of this passes over every operation that has a parameter besides; ours does not.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import Flaky, FlakyStrategyDefinition
from schemathesis import Case, GenerationMode
from schemathesis.core.transport import Response

from app.api.application import snapshot
from app.domain.problems import Problem
from app.services.audit import AuditService
from app.services.datasets.budgets import BudgetService
from tests.contract.real_things import World, prepared
from tests.contract.service import ADMIN_KEY, Service, lying, running
from tests.tiers import wide

pytestmark = pytest.mark.slow

KEY = {"Authorization": f"Bearer {ADMIN_KEY}"}
STEPS = 10
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


@dataclass
class Seen:
    """What the sequences so far have come to."""

    begun: int = 0
    followed: Followed = field(default_factory=Counter)
    failures: list[BaseException] = field(default_factory=list)


def sequences(service: Service, world: World, seen: Seen) -> Any:
    """Return the state machine of requests to a service."""
    known: set[str] = set()
    schema = schemathesis.openapi.from_dict(json.loads(snapshot()))
    schema.config.generation.update(modes=[GenerationMode.POSITIVE])
    # one's own request is not one's own to decide on (403), archived data and decided releases
    # take no more (409), and only what waits for a review is as it was (412)
    schema.config.checks.positive_data_acceptance.expected_statuses = [
        "2xx", "403", "404", "409", "412", "422",
    ]  # fmt: skip
    # a data set that was deleted still shows that it was, and what has been spent of it
    schema.config.checks.use_after_free.enabled = False
    # it would revoke the key in use
    base: Any = schema.exclude(operation_id="revokeKey").as_state_machine()

    class Sequences(base):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            seen.begun += 1

        def before_call(self, case: Case) -> None:
            world.fill(case)

        def get_call_kwargs(self, case: Case) -> dict[str, Any]:
            return {"base_url": service.url, "headers": KEY, "timeout": 30}

        def after_call(self, response: Response, case: Case) -> None:
            super().after_call(response, case)
            parent = self.recorder.find_parent(case_id=case.id)
            if parent is not None:
                pair = parent.operation.label, case.operation.label
                seen.followed[*pair, response.status_code] += 1

        def validate_response(self, response: Response, case: Case, **kwargs: Any) -> None:
            try:
                self._validate(response, case, **kwargs)
            except BaseException as error:
                seen.failures.append(error)
                raise

        def _validate(self, response: Response, case: Case, **kwargs: Any) -> None:
            named = _IDS.findall(case.formatted_path)
            if response.status_code == 404 and case.operation.path not in _NOT_FOR_ALL:
                assert not known.intersection(named), f"{named} was there: {case}"
            known.update(_IDS.findall(response.text))
            case.validate_response(
                response, headers=KEY, transport_kwargs=kwargs, recorder=self.recorder
            )

    return Sequences


def answered(followed: Followed) -> set[str]:
    """Return the requests whose answers were followed by one that was answered."""
    return {made for made, _, status in followed if 200 <= status < 300}


def run(directory: Path, most: int, wanted: Collection[str] = ()) -> Followed:
    """Run sequences on a service of their own, since they archive whatever they come upon.

    Where they have not followed what all ``wanted`` requests answer, up to four times as many run.

    What one sequence makes, the next finds in a list. So the same choices may not lead to the same
    requests again, which the tool does not bear: it is started again then, with other choices.
    """
    seen = Seen()
    source = lying(directory / "data")
    roots = {"source_roots": source.rpartition("/")[0]}
    with running(directory / "data", **roots) as service, service.client() as admin:
        world = prepared(admin, source=source)
        with closing(world.analyst), closing(world.curator):
            limit = most
            while seen.begun < limit:
                try:
                    run_more(sequences(service, world, seen), seen.begun, limit)
                except Flaky as error:
                    if seen.failures:
                        raise seen.failures[0] from error
                    if not isinstance(error, FlakyStrategyDefinition):
                        raise
                lacking = not answered(seen.followed).issuperset(wanted)
                if lacking and seen.begun >= limit and limit < 4 * most:
                    limit += most
    return seen.followed


def run_more(machine: Any, begun: int, most: int) -> None:
    """Run the sequences that are left, with choices that no one has made before."""
    seed(begun)(machine).run(
        settings=settings(
            max_examples=most - begun,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("sequences", [15, *wide(80)])
def test_what_has_been_made_is_there(tmp_path: Path, sequences: int) -> None:
    wanted = {"GET /v1/datasets", "GET /v1/releases", "POST /v1/datasets"}
    followed = run(tmp_path, sequences, wanted)
    assert wanted <= answered(followed), followed


def test_what_has_been_made_and_is_lost_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""

    def lost(*_: object, **__: object) -> None:
        raise Problem("not-found")

    monkeypatch.setattr(AuditService, "entries", lost)
    monkeypatch.setattr(BudgetService, "view", lost)
    with pytest.raises(AssertionError, match="was there"):
        run(tmp_path, 30)
