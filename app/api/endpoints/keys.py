"""Keys: making, listing, revoking."""

from __future__ import annotations

from typing import Annotated

from fastapi import Response

from app.api.answers.paging import (
    KeyAnswer,
    NewKeyAnswer,
    Page,
    Paging,
    key_answer,
    new_key_answer,
    nothing,
    page_of,
)
from app.api.answers.problems import documented
from app.api.dependencies import Admin, Id, State, json_body, router_of
from app.web.requests.schemas import KeyRequest

router = router_of("/v1/keys", "keys")


@router.post(
    "",
    operation_id="createKey",
    status_code=201,
    responses=documented("name-confusable", "busy", "clock-behind"),
)
async def create_key(
    caller: Admin, body: Annotated[KeyRequest, json_body(KeyRequest)], state: State
) -> NewKeyAnswer:
    """Make a key for a person: `person`, or the one you call `name` (admins)."""
    made = await state.services.keys.create(
        name=body.name, role=body.role, expires=body.expires, person=body.person, caller=caller
    )
    return new_key_answer(made)


@router.post(
    "/{key}/sign-in",
    operation_id="allowSignIn",
    status_code=204,
    response_class=Response,
    responses=documented("not-found", "busy", "clock-behind"),
)
async def allow_sign_in(caller: Admin, key: Id, state: State) -> Response:
    """Let a person sign in at their provider again, whose key of a sign-in is revoked (admins).

    The key stays revoked: they get another one when they sign in.
    """
    await state.services.keys.allow_sign_in(key, caller=caller)
    return nothing()


@router.get("", operation_id="listKeys")
def list_keys(caller: Admin, cut: Paging, state: State) -> Page[KeyAnswer]:
    """List every key, newest first, revoked ones too (admins)."""
    del caller
    known = state.services.keys.list(cut.span())
    return page_of([(each.record.number, key_answer(each)) for each in known], cut)


@router.delete(
    "/{key}",
    operation_id="revokeKey",
    status_code=204,
    response_class=Response,
    responses=documented("not-found", "last-admin-key", "busy"),
)
async def revoke_key(caller: Admin, key: Id, state: State) -> Response:
    """Revoke a key at once and for good (admins); the last admin key stays."""
    await state.services.keys.revoke(key, caller=caller)
    return nothing()
