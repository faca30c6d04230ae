"""The ledger: reading entries, verifying everything, checking receipts."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from app.api.answers.ledger import (
    EntryAnswer,
    PublicKeysAnswer,
    ReceiptCheckAnswer,
    VerificationAnswer,
    entry_answer,
    public_keys_answer,
    receipt_check_answer,
    verification_answer,
)
from app.api.answers.paging import Page, Paging, page_of
from app.api.answers.problems import documented
from app.api.dependencies import Analyst, Curator, Id, Sent, State
from app.api.endpoint import ANYONE, router_of

router = router_of("/v1", "ledger")

_FULL = (
    "Walk everything from the beginning, also what an earlier verification has found sound: an "
    "edit of old entries and results may be found by this alone."
)


@router.get(
    "/datasets/{dataset}/ledger",
    operation_id="listLedger",
    responses=documented("not-found"),
)
def list_ledger(caller: Curator, dataset: Id, cut: Paging, state: State) -> Page[EntryAnswer]:
    """List the entries of a data set's account, oldest first, with their hashes (curators)."""
    del caller
    entries, approvals = state.services.audit.entries(
        dataset, after=cut.position or 0, limit=cut.limit + 1
    )
    meter = state.services.datasets.facts(dataset).meter
    answers = [(entry.seq, entry_answer(entry, meter, approvals)) for entry in entries]
    return page_of(answers, cut)


@router.get(
    "/ledger/verification",
    operation_id="verifyLedger",
)
async def verify_ledger(
    caller: Curator,
    state: State,
    full: Annotated[bool, Query(description=_FULL, examples=[True])] = False,
) -> VerificationAnswer:
    """Walk every chain and sum; `head` is the SHA-256 over the sorted account heads (curators).

    A ledger of more than 1,000 entries is walked from where this server last found it sound.
    """
    del caller
    return verification_answer(await state.services.audit.verify(full=full))


@router.post(
    "/ledger/receipts",
    operation_id="checkReceipt",
    responses=documented("busy"),
)
def check_receipt(caller: Analyst, sent: Sent, state: State) -> ReceiptCheckAnswer:
    """Say whether a receipt is this ledger's, and fits its entry and its stored answer.

    Send a released answer byte for byte as it was received, or `{"receipt": "..."}` alone.
    """
    del caller
    return receipt_check_answer(state.services.receipts.check(sent))


@router.get(
    "/ledger/public-keys",
    operation_id="getPublicKeys",
    openapi_extra=ANYONE,
)
async def get_public_keys(state: State) -> PublicKeysAnswer:
    """Show the keys that sign receipts, the present one first (anyone)."""
    return public_keys_answer(state.services.receipts.ledger, state.services.receipts.keys)
