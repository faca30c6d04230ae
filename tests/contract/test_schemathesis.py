"""The service does what its OpenAPI document says, for whatever fits it and whatever does not.

Every generated request is sent as it is, which mostly names things that are not there, and most are
sent again about real things (:mod:`tests.contract.real_things`), which is where answers other than
refusals come from. What is checked of sequences of requests is in
:mod:`tests.contract.test_sequences`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case, GenerationMode
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.transport import Response
from schemathesis.generation.hypothesis.builder import (
    HypothesisTestConfig,
    HypothesisTestMode,
    create_test,
)
from schemathesis.generation.meta import CoveragePhaseData, TestPhase
from schemathesis.specs.openapi.checks import ignored_auth

from tests.contract.real_things import BY_KIND, World, must_be_refused, prepared
from tests.contract.service import ADMIN_KEY, MEAN, Service, lying
from tests.tiers import wide

pytestmark = pytest.mark.slow

DOCUMENT: dict[str, Any] = json.loads(Path(__file__).with_name("openapi.json").read_text("utf-8"))
"""As `make check` holds it to be the service's own (:mod:`tests.contract.test_openapi`)."""
NOT_HERE = {
    "GET /v1/log/stamp": "a stamp needs an authority, which test_stamps has",
    "POST /v1/keys/{key}/sign-in": "a sign-in needs a provider, which test_providers has",
}
OPERATIONS = {
    label: described
    for path, methods in DOCUMENT["paths"].items()
    for method, described in methods.items()
    if (label := f"{method.upper()} {path}") not in NOT_HERE
}
ASKING = ("DryRunRequest", "PreviewRequest", "ReleaseRequest", "DerivationRequest")
QUESTIONS = tuple(
    label
    for label, described in OPERATIONS.items()
    if any(f'schemas/{name}"' in json.dumps(described.get("requestBody")) for name in ASKING)
)
"""Operations that take a question."""
SEVERAL = (
    "POST /v1/datasets/{dataset}/study-plans", "POST /v1/study-plans", "PUT /v1/study-plans/{plan}",
)  # fmt: skip
"""The operations that take several, which are asked of the others one by one."""
STATED = [*BY_KIND.values(), MEAN, *(part["statistic"] for part in BY_KIND["stack"]["parts"])]
REAL = {
    kind: [
        each for at, each in enumerate(STATED) if each["kind"] == kind and each not in STATED[:at]
    ]
    for kind in BY_KIND
}
"""What a kind of statistic is asked about real things."""
ONE_OF = dict.fromkeys(QUESTIONS, 2) | dict.fromkeys(
    ["POST /v1/datasets", "POST /v1/datasets/{dataset}/versions"], 4
)
"""Operations whose bodies come in hundreds of forms, of which they are sent one of so many."""
KEY = {"Authorization": f"Bearer {ADMIN_KEY}"}
WAIT_S = 120
"""No answer is waited for longer; on a busy machine a preview may take a while."""
SETTINGS = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def world(service: Service) -> Iterator[World]:
    with service.client() as admin:
        found = prepared(admin, source=lying(service.data_dir))
        with closing(found.analyst), closing(found.curator):
            yield found


def narrowed(label: str) -> dict[str, Any]:
    """Return the document as an operation that takes a question is tried with.

    Operations that take a question take the same ones, in thousands of forms, and so does a part
    of a stack. Each operation is given every form of some kinds, and of each other kind the real
    ones.
    """
    found = deepcopy(DOCUMENT)
    for name in (*ASKING, "Part"):
        statistic = found["components"]["schemas"][name]["properties"]["statistic"]
        kinds = statistic.pop("discriminator")["mapping"]
        statistic["oneOf"] = [
            {"$ref": place} if name != "Part" and kind in whole(label) else {"enum": REAL[kind]}
            for kind, place in kinds.items()
        ]
    return found


def whole(label: str) -> Sequence[str]:
    """Return the kinds of which an operation is given every form; each is one operation's."""
    return sorted(BY_KIND)[QUESTIONS.index(label) :: len(QUESTIONS)] if label in QUESTIONS else ()


@cache
def schema(question: str | None = None) -> Any:
    """Return the document as the tool reads it, narrowed for a question, with what it checks."""
    found = schemathesis.openapi.from_dict(narrowed(question) if question else DOCUMENT)
    found.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    checks = found.config.checks
    # A schema cannot say which things there are, which columns a data set has or which cursors were
    # given out: what fits the schema may still be refused, but with these and no other status. What
    # is about real things may not, see below.
    checks.positive_data_acceptance.expected_statuses = ["2xx", "404", "422"]
    # RFC 6585 has a status of its own for a missing If-Match.
    checks.missing_required_header.expected_statuses = ["400", "401", "422", "428"]
    # To HTTP an empty If-Match is well formed, and names no state that anything is in.
    checks.negative_data_rejection.expected_statuses += ["412"]
    return found


def test_the_document_is_read_whole() -> None:
    """What is asked below is all that the document has, but what is named above."""
    read = {each.ok().label for each in schema().get_all_operations()}
    assert read == OPERATIONS.keys() | NOT_HERE.keys()
    assert OPERATIONS.keys().isdisjoint(NOT_HERE)
    assert len(QUESTIONS) == 6
    given = [kind for label in QUESTIONS for kind in whole(label)]
    kinds = DOCUMENT["components"]["schemas"]["ReleaseRequest"]["properties"]["statistic"]
    assert sorted(given) == sorted(kinds["discriminator"]["mapping"])


@pytest.mark.parametrize("one_of", [5, *wide(1)], ids=["some", "all"])
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_operation(label: str, one_of: int, service: Service, world: World) -> None:
    """Statuses, bodies, media types, methods and keys are as described, and the rest is refused.

    One answer at least is a success: without that, nothing has compared what the operation answers
    with the document. After it ``some`` sends one of five requests, always the same.
    """
    tried = schema(label if label in (*QUESTIONS, *SEVERAL) else None)
    answered: Counter[int] = Counter()
    closed: set[str] = set()

    def sent(case: Case) -> None:
        seen = any(200 <= status < 300 for status in answered)
        if seen and crc32(repr(case).encode()) // 2 % one_of:
            return  # the last bit chooses what is sent about real things
        if not _is_left_out(case, label):
            answered.update(_answers(case, service, world, closed))

    # The tool's own way to parametrize gives every operation's test the same id, under which
    # several processes run the first alone.
    create_test(
        operation=tried.find_operation_by_label(label),
        test_func=SETTINGS(sent),
        config=HypothesisTestConfig(modes=list(HypothesisTestMode), project=tried.config),
    )()
    assert any(200 <= status < 300 for status in answered), dict(answered)


def _answers(case: Case, service: Service, world: World, closed: set[str]) -> Iterator[int]:
    """Send a request, and most of them again about real things; yield the statuses."""
    yield _send(case, service, closed).status_code
    if must_be_refused(case) and crc32(repr(case).encode()) % 2:
        return  # there are thousands: half of them are enough, always the same
    real = world.named(case)
    if real is None:
        return
    answer = _send(real, service, closed)
    yield answer.status_code
    if not must_be_refused(real):
        assert 200 <= answer.status_code < 300, (real, answer.text)


def _send(case: Case, service: Service, closed: set[str]) -> Response:
    """Send a request and check its answer.

    After its first success an operation is asked again without a key, and with a wrong one: which
    keys it takes does not depend on the rest. Then it is known to be ``closed`` to others.
    """
    label = str(case.operation.label)
    answer = case.call_and_validate(
        base_url=service.url,
        headers=KEY,
        timeout=WAIT_S,
        excluded_checks=[ignored_auth] if label in closed else [],
    )
    if 200 <= answer.status_code < 300 and not must_be_refused(case):
        closed.add(label)
    return answer


def _is_left_out(case: Case, label: str) -> bool:
    """Return whether a body is one of many that this operation need not see, always the same.

    Of what would be uploaded a process of its own reads each; a question is planned for.
    """
    if case.meta is None or label not in ONE_OF:
        return False
    phase = case.meta.phase
    of_the_body = phase.name is TestPhase.EXAMPLES or (
        isinstance(phase.data, CoveragePhaseData)
        and phase.data.parameter_location is ParameterLocation.BODY
    )
    return of_the_body and crc32(repr(case.body).encode()) % ONE_OF[label] > 0
