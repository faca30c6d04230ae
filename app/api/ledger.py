"""The ledger: reading entries, verifying everything."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.answers import EntryAnswer, VerificationAnswer, entry_answer
from app.api.dependencies import Curator, Id, State
from app.api.paging import Page, Paging, page_of
from app.api.problems import documented

router = APIRouter(prefix="/v1", tags=["ledger"])


@router.get(
    "/datasets/{dataset}/ledger",
    operation_id="listLedger",
    response_model=Page[EntryAnswer],
    responses=documented("unauthorized", "forbidden", "not-found", "invalid-request"),
)
def list_ledger(caller: Curator, dataset: Id, cut: Paging, state: State) -> Page[EntryAnswer]:
    """List the entries of a data set's account, oldest first, with their hashes (curators)."""
    del caller
    entries = state.services.audit.entries(dataset, after=cut.position or 0, limit=cut.limit + 1)
    return page_of([(entry.seq, entry_answer(entry)) for entry in entries], cut)


@router.get(
    "/ledger/verification",
    operation_id="verifyLedger",
    response_model=VerificationAnswer,
    responses=documented("unauthorized", "forbidden"),
)
def verify_ledger(caller: Curator, state: State) -> VerificationAnswer:
    """Walk every chain and sum; `head` is the SHA-256 over the sorted account heads (curators)."""
    del caller
    found = state.services.audit.verify()
    return VerificationAnswer(
        ok=found.ok, entries=found.entries, head=found.head, faults=list(found.faults)
    )
