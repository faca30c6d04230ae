"""The public log: its checkpoints, its proofs and its keys, for everyone."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from app.api.answers.ledger import (
    NOTE_TYPE,
    STAMP_TYPE,
    ConsistencyAnswer,
    InclusionAnswer,
    LogKeysAnswer,
    checkpoint_answer,
    consistency_answer,
    inclusion_answer,
    log_keys_answer,
    stamp_answer,
)
from app.api.answers.problems import documented
from app.api.dependencies import State
from app.api.endpoint import ANYONE, kept, router_of

router = router_of("/v1/log", "log")

_MOST = 2**53  # the limit of exact integers in JSON readers with floats alone
Size = Annotated[
    int, Query(ge=1, le=_MOST, description="How many leaves the tree has.", examples=[1])
]


@router.get(
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

    The log of a long ledger has none until all of it has come in, after an upgrade.
    """
    return checkpoint_answer(state.services.log.checkpoint(size))


@router.get(
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


@router.get(
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


@router.get(
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


@router.get("/key", operation_id="getLogKeys", openapi_extra=ANYONE)
async def get_log_keys(state: State) -> LogKeysAnswer:
    """Show the log's name, and the keys that sign its checkpoints, the present one first (anyone).

    They are those that sign receipts.
    """
    return log_keys_answer(state.services.log.origin, state.services.log.keys)
