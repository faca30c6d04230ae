"""The ledger: reading entries, verifying everything, checking receipts."""

from __future__ import annotations

from app.api.dependencies import Analyst, Curator, Id, Sent, State
from app.api.endpoint import ANYONE, router_of
from app.api.ledger_answers import (
    EntryAnswer,
    PublicKeysAnswer,
    ReceiptCheckAnswer,
    VerificationAnswer,
    entry_answer,
    public_keys_answer,
    receipt_check_answer,
)
from app.api.paging import Page, Paging, page_of
from app.api.problems import documented

router = router_of("/v1", "ledger")


@router.get(
    "/datasets/{dataset}/ledger",
    operation_id="listLedger",
    response_model=Page[EntryAnswer],
    responses=documented("not-found"),
)
def list_ledger(caller: Curator, dataset: Id, cut: Paging, state: State) -> Page[EntryAnswer]:
    """List the entries of a data set's account, oldest first, with their hashes (curators)."""
    del caller
    entries = state.services.audit.entries(dataset, after=cut.position or 0, limit=cut.limit + 1)
    meter = state.services.datasets.facts(dataset).meter
    return page_of([(entry.seq, entry_answer(entry, meter)) for entry in entries], cut)


@router.get(
    "/ledger/verification",
    operation_id="verifyLedger",
    response_model=VerificationAnswer,
)
async def verify_ledger(caller: Curator, state: State) -> VerificationAnswer:
    """Walk every chain and sum; `head` is the SHA-256 over the sorted account heads (curators)."""
    del caller
    found = await state.services.audit.verify()
    return VerificationAnswer(
        ok=found.ok,
        entries=found.entries,
        head=found.head,
        anchor=found.anchored and str(found.anchored),
        faults=list(found.faults),
    )


@router.post(
    "/ledger/receipts",
    operation_id="checkReceipt",
    response_model=ReceiptCheckAnswer,
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
    response_model=PublicKeysAnswer,
    openapi_extra=ANYONE,
)
async def get_public_keys(state: State) -> PublicKeysAnswer:
    """Show the keys that sign receipts, the present one first (anyone)."""
    return public_keys_answer(state.services.receipts.ledger, state.services.receipts.keys)
