"""The service does what its OpenAPI document says, for whatever fits it and whatever does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode

from app.api.openapi import snapshot
from tests.contract.service import ADMIN_KEY, Service

DOCUMENT: dict[str, Any] = json.loads(snapshot())
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
SCHEMA.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
# A schema cannot say which columns a data set has or which cursors were given out: what fits the
# schema may still be refused, but with these and no other status.
REFUSALS = ["2xx", "3xx", "400", "403", "404", "409", "412", "413", "422"]
SCHEMA.config.checks.positive_data_acceptance.expected_statuses = REFUSALS
# RFC 6585 has a status of its own for a missing If-Match.
SCHEMA.config.checks.missing_required_header.expected_statuses = ["400", "401", "422", "428"]


@pytest.fixture(scope="module")
def key() -> dict[str, str]:
    return {"Authorization": f"Bearer {ADMIN_KEY}"}


@pytest.mark.slow
@SCHEMA.parametrize()
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_operation(case: schemathesis.Case, service: Service, key: dict[str, str]) -> None:
    """Every check there is: statuses, bodies, headers, methods, keys, and what must be refused."""
    case.call_and_validate(base_url=service.url, headers=key, timeout=30)
