"""The ledger: entries, verification and receipts; and its public log: checkpoints and proofs.

How the service is: probes and metrics.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.ledger import (
    NOTE_TYPE,
    STAMP_TYPE,
    ConsistencyAnswer,
    EntryAnswer,
    InclusionAnswer,
    LogKeysAnswer,
    PublicKeysAnswer,
    ReceiptCheckAnswer,
    VerificationAnswer,
    checkpoint_answer,
    consistency_answer,
    entry_answer,
    inclusion_answer,
    log_keys_answer,
    public_keys_answer,
    receipt_check_answer,
    stamp_answer,
    verification_answer,
)
from app.api.answers.paging import (
    MEDIA_TYPE,
    Page,
    Paging,
    ReadinessAnswer,
    StatusAnswer,
    liveness_answer,
    metrics_answer,
    page_of,
    readiness_answer,
)
from app.api.answers.problems import documented
from app.api.dependencies import (
    ANYONE,
    Id,
    Overseer,
    Reader,
    Sent,
    State,
    Watcher,
    kept,
    probe,
    router_of,
)

router = router_of("/v1", "ledger")

_FULL = (
    "Verify everything from the beginning, also what an earlier verification has found correct: an "
    "edit of old entries and results may be found by this alone."
)


@router.get(
    "/datasets/{dataset}/ledger", operation_id="listLedger", responses=documented("not-found")
)
def list_ledger(caller: Overseer, dataset: Id, cut: Paging, state: State) -> Page[EntryAnswer]:
    """List the entries of a data set's account, oldest first, with their hashes (curators)."""
    del caller
    entries, approvals = state.services.audit.entries(
        dataset, after=cut.position or 0, limit=cut.limit + 1
    )
    meter = state.services.datasets.facts(dataset).meter
    answers = [(entry.seq, entry_answer(entry, meter, approvals)) for entry in entries]
    return page_of(answers, cut)


@router.get("/ledger/verification", operation_id="verifyLedger")
async def verify_ledger(
    caller: Overseer,
    state: State,
    full: Annotated[bool, Query(description=_FULL, examples=[True])] = False,
) -> VerificationAnswer:
    """Verify all hash chains and totals (curators).

    `head` is the SHA-256 over the sorted account heads.

    A ledger of more than 1,000 entries is verified from where this server last found it correct.
    """
    del caller
    return verification_answer(await state.services.audit.verify(full=full))


@router.post("/ledger/receipts", operation_id="checkReceipt", responses=documented("busy"))
def check_receipt(caller: Reader, sent: Sent, state: State) -> ReceiptCheckAnswer:
    """Say whether a receipt is this ledger's, and fits its entry and its stored answer.

    Send a released answer byte for byte as it was received, or `{"receipt": "..."}` alone.
    """
    del caller
    return receipt_check_answer(state.services.receipts.check(sent))


@router.get("/ledger/public-keys", operation_id="getPublicKeys", openapi_extra=ANYONE)
async def get_public_keys(state: State) -> PublicKeysAnswer:
    """Show the keys that sign receipts, the present one first (anyone)."""
    return public_keys_answer(state.services.receipts.ledger, state.services.receipts.keys)


log = router_of("/v1/log", "log")

_MOST = 2**53  # the limit of exact integers in JSON readers with floats alone
Size = Annotated[
    int, Query(ge=1, le=_MOST, description="How many leaves the tree has.", examples=[1])
]


@log.get(
    "/checkpoint",
    operation_id="getCheckpoint",
    openapi_extra=ANYONE,
    response_class=Response,
    responses=documented(
        "invalid-request",
        "not-found",
        answers={
            200: {
                "description": "A signed note (C2SP `tlog-checkpoint`): name, size and root.",
                "content": {NOTE_TYPE: {"schema": {"type": "string"}}},
            }
        },
    ),
)
def get_checkpoint(
    state: State,
    size: Annotated[
        int | None,
        Query(
            ge=1,
            le=_MOST,
            description="A size that was signed; by default the newest.",
            examples=[3],
        ),
    ] = None,
) -> Response:
    """Show the newest signed checkpoint of the public log, or that of a size (anyone).

    After an upgrade, the log of a long ledger has none until all entries are in it.
    """
    return checkpoint_answer(state.services.log.checkpoint(size))


@log.get(
    "/stamp",
    operation_id="getStamp",
    openapi_extra=ANYONE,
    response_class=Response,
    responses=documented(
        "invalid-request",
        "not-found",
        answers={
            200: {
                "description": "What the authority answered (RFC 3161 `TimeStampResp`, DER).",
                "content": {STAMP_TYPE: {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    ),
)
def get_stamp(
    state: State,
    size: Annotated[
        int | None,
        Query(
            ge=1,
            le=_MOST,
            description="The size of a checkpoint; by default the newest that has a stamp.",
            examples=[3],
        ),
    ] = None,
) -> Response:
    """Show the time stamp of a checkpoint: by an authority, over its bytes' SHA-256 (anyone).

    A checkpoint gets one soon after it was signed, where the operator has set an authority.
    """
    return stamp_answer(state.services.stamps.stamp(size))


@log.get(
    "/proof/inclusion",
    operation_id="proveInclusion",
    openapi_extra=ANYONE,
    responses=documented("invalid-request", "not-found"),
)
@kept
def prove_inclusion(
    state: State,
    index: Annotated[
        int, Query(ge=0, le=_MOST, description="The leaf's place, from 0.", examples=[0])
    ],
    size: Size,
) -> InclusionAnswer:
    """Prove that a leaf is in the tree of the first `size` leaves (anyone)."""
    return inclusion_answer(state.services.log.inclusion(index, size))


@log.get(
    "/proof/consistency",
    operation_id="proveConsistency",
    openapi_extra=ANYONE,
    responses=documented("invalid-request", "not-found"),
)
@kept
def prove_consistency(
    state: State,
    before: Annotated[
        int,
        Query(
            alias="from", ge=1, le=_MOST, description="Leaves of the smaller tree.", examples=[1]
        ),
    ],
    size: Annotated[
        int,
        Query(alias="to", ge=1, le=_MOST, description="Leaves of the larger tree.", examples=[1]),
    ],
) -> ConsistencyAnswer:
    """Prove that the log has only grown from one size to another (anyone)."""
    return consistency_answer(before, size, state.services.log.consistency(before, size))


@log.get("/key", operation_id="getLogKeys", openapi_extra=ANYONE)
async def get_log_keys(state: State) -> LogKeysAnswer:
    """Show the log's name, and the keys that sign its checkpoints, the present one first (anyone).

    They are those that sign receipts.
    """
    return log_keys_answer(state.services.log.origin, state.services.log.keys)


# Probes and metrics

health = router_of("", "operation")


@health.get("/livez", operation_id="getLiveness", openapi_extra=ANYONE)
@probe
async def get_liveness() -> StatusAnswer:
    """Say that the process answers."""
    return liveness_answer()


@health.get(
    "/readyz",
    operation_id="getReadiness",
    openapi_extra=ANYONE,
    responses=documented("internal", "ledger-frozen", "clock-behind", "not-ready"),
)
@probe
def get_readiness(state: State) -> ReadinessAnswer:
    """Say that releases can be made: ledger, schema and disks are as they must be."""
    return readiness_answer(state.services.health.check())


# What was counted, for Prometheus


@health.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses=documented(
        answers={
            200: {
                "description": "Prometheus text format.",
                "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
            }
        }
    ),
)
async def get_metrics(request: Request, caller: Watcher, state: State) -> Response:
    """Count requests and refusals of this server process, for Prometheus (role `metrics`, admins).

    There is nothing about any data set, and no duration that depends on data or on noise.
    """
    del caller
    return metrics_answer(request.app.state.counts, state.settings.data_dir)
