"""The service does what its OpenAPI document says, for whatever fits it and whatever does not.

Every generated request is sent as it is, which mostly names things that are not there, and most are
sent again about real things (:mod:`tests.contract.real_things`), which is where answers other than
refusals come from. What is checked of sequences of requests is in
:mod:`tests.contract.test_sequences`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from zlib import crc32

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case, GenerationMode

from app.api.openapi.snapshot import snapshot
from tests.contract.real_things import World, prepared
from tests.contract.service import ADMIN_KEY, Service, lying

pytestmark = pytest.mark.slow

DOCUMENT: dict[str, Any] = json.loads(snapshot())
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
SCHEMA.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
CHECKS = SCHEMA.config.checks
# A schema cannot say which things there are, which columns a data set has or which cursors were
# given out: what fits the schema may still be refused, but with these and no other status. What
# is about real things may not, see below.
CHECKS.positive_data_acceptance.expected_statuses = ["2xx", "404", "422"]
# RFC 6585 has a status of its own for a missing If-Match.
CHECKS.missing_required_header.expected_statuses = ["400", "401", "422", "428"]
# To HTTP an empty If-Match is well formed, and names no state that anything is in.
CHECKS.negative_data_rejection.expected_statuses += ["412"]
KEY = {"Authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture(scope="module")
def world(service: Service) -> Iterator[World]:
    with service.client() as admin:
        found = prepared(admin, source=lying(service.data_dir))
        with closing(found.analyst), closing(found.curator):
            yield found


@pytest.fixture
def answered() -> Iterator[Counter[int]]:
    """Count the statuses of one operation's answers; when it is done, one of them was a success.

    Without that, nothing has compared what it answers with the document.
    """
    found: Counter[int] = Counter()
    yield found
    assert any(200 <= status < 300 for status in found), dict(found)


# A stamp needs an authority, which `test_stamps` has and this service has not.
@pytest.mark.slow
@SCHEMA.exclude(path="/v1/log/stamp").parametrize()
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_operation(
    case: Case, service: Service, world: World, answered: Counter[int]
) -> None:
    """Statuses, bodies, media types, methods and keys are as described, and the rest is refused."""
    answer = case.call_and_validate(base_url=service.url, headers=KEY, timeout=30)
    answered[answer.status_code] += 1
    if _must_be_refused(case) and crc32(repr(case).encode()) % 2:
        return  # there are thousands: half of them are enough, always the same
    real = world.named(case)
    if real is None:
        return
    answer = real.call_and_validate(base_url=service.url, headers=KEY, timeout=30)
    answered[answer.status_code] += 1
    if not _must_be_refused(real):
        assert 200 <= answer.status_code < 300, (real, answer.text)


def _must_be_refused(case: Case) -> bool:
    return case.meta is not None and not case.meta.generation.mode.is_positive
