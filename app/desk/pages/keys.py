"""Keys: the list, a new one whose secret is shown once, and revoking.

Access: who may see a data set, and groups of persons.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk.cookies import ShownOnce
from app.desk.forms import EMPTY, NONE, Faults, Form, act_once, faulted, lacking, read_as, read_form
from app.desk.rendering import DATE, Listing, address, page, path_of
from app.desk.routes import AdminVisitor, CuratorVisitor, State, router_of, state_of
from app.domain.access import Span
from app.domain.policies import Role
from app.domain.problems import Problem
from app.services.people.keys import NewKey
from app.web.requests.schemas import AccessRequest, GroupRequest, KeyRequest, access_in

router = router_of("keys")

_HERE = "/desk/keys"
_PAGE = 100
_DAY = len("2030-01-01")
_MOST_GROUPS = 1_000
_NAMED = "named"
_GROUPS = "/desk/groups"
_MADE: ShownOnce[NewKey] = ShownOnce(seconds=30)
"""By the form that made it: a double click shows the secret too, a reload later does not."""


@router.get("/keys")
def show_keys(request: Request, visitor: AdminVisitor) -> Response:
    """Show every key, newest first, and the form of a new one."""
    del visitor
    return _shown(request)


@router.post("/keys")
async def make_key(request: Request, visitor: AdminVisitor, state: State) -> Response:
    """Make a key; the page that comes of it shows the secret, and no other does."""
    form = await read_form(request)

    async def act() -> str:
        day = form.text("expires")
        fields = {name: form.text(name) for name in ("name", "role", "person")}
        expires = f"{day}T00:00:00Z" if len(day) == _DAY else day
        asked = read_as(KeyRequest, {**fields, "expires": expires})
        made = await state.services.keys.create(
            name=asked.name,
            role=asked.role,
            expires=asked.expires,
            person=asked.person,
            caller=visitor,
        )
        _MADE.hold(visitor.person, form.once, made)
        return address(_HERE, done="made")

    try:
        answer = await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_shown, request, form, Faults(problem))
    made = _MADE.look(visitor.person, form.once)
    return answer if made is None else await run_in_threadpool(_shown, request, made=made)


@router.get("/keys/{key}/revocation")
def show_revocation(request: Request, visitor: AdminVisitor, key: str) -> Response:
    """Show what revoking a key does, before it is done."""
    del visitor
    return _revocation(request, key)


@router.post("/keys/{key}/revocation")
async def revoke_key(request: Request, visitor: AdminVisitor, state: State, key: str) -> Response:
    """Revoke a key at once and for good, once that is confirmed."""
    form = await read_form(request)
    if (faults := lacking(form)) is not None:
        return await run_in_threadpool(_revocation, request, key, faults, form)

    async def act() -> str:
        await state.services.keys.revoke(key, caller=visitor)
        return address(_HERE, done="revoked")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_revocation, request, key, Faults(problem))


@router.post("/keys/{key}/sign-in")
async def allow_sign_in(
    request: Request, visitor: AdminVisitor, state: State, key: str
) -> Response:
    """Let somebody sign in at their provider again, whose key was revoked."""
    form = await read_form(request)

    async def act() -> str:
        await state.services.keys.allow_sign_in(key, caller=visitor)
        return address(_HERE, done="sign_in_allowed")

    return await act_once(request, form, caller=visitor, act=act)


def _revocation(request: Request, key: str, faults: Faults = NONE, form: Form = EMPTY) -> Response:
    return page(
        request,
        "revoke.html",
        status=faulted(request, faults),
        key=state_of(request).services.keys.get(key),
        form=form,
        faults=faults,
    )


def _shown(
    request: Request, form: Form = EMPTY, faults: Faults = NONE, *, made: NewKey | None = None
) -> Response:
    listing = Listing.of(request, _HERE, size=_PAGE, sorts=("name", DATE))
    found = state_of(request).services.keys.list(listing.span)
    part = listing.cut(found, lambda each: each.record.number)
    return page(
        request,
        "keys.html",
        status=faulted(request, faults),
        part=part,
        roles=[(role.value, role.value) for role in Role],
        form=form,
        faults=faults,
        made=made,
    )


# Access: who may see a data set, and groups of persons


@router.get("/datasets/{dataset}/access")
def show_access(request: Request, visitor: CuratorVisitor, dataset: str) -> Response:
    """Show who may see a data set."""
    del visitor
    return _access_page(request, dataset)


@router.post("/datasets/{dataset}/access")
async def set_access(
    request: Request, visitor: CuratorVisitor, state: State, dataset: str
) -> Response:
    """Restrict a data set to those who are named, or open it to everyone."""
    form = await read_form(request)

    async def act() -> str:
        listed = {name: _lines(form.text(name)) for name in ("persons", "groups")}
        restricted = form.text("who") == _NAMED
        fields = {"access": listed if restricted else None, "reason": form.text("reason")}
        asked = read_as(AccessRequest, fields)
        await state.services.access.restrict(
            dataset, access_in(asked), asked.reason, caller=visitor
        )
        done = "restricted" if restricted else "opened"
        return address(path_of("datasets", dataset, "access"), done=done)

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_access_page, request, dataset, form, Faults(problem))


def _lines(text: str) -> list[str]:
    """Return what stands in the lines of a field."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _access_page(
    request: Request, dataset: str, form: Form = EMPTY, faults: Faults = NONE
) -> Response:
    services = state_of(request).services
    listed = services.access.list_of(dataset)
    persons, groups = ((), ()) if listed is None else (listed.persons, listed.groups)
    known = services.access.groups(Span(limit=_MOST_GROUPS, ascending=True))
    return page(
        request,
        "access.html",
        status=faulted(request, faults),
        facts=services.datasets.facts(dataset),
        listed=listed,
        who=form.text("who") or ("everyone" if listed is None else _NAMED),
        persons=form.text("persons") or "\n".join(persons),
        groups=form.text("groups") or "\n".join(groups),
        known=[group.name for group in known],
        form=form,
        faults=faults,
    )


@router.get("/groups")
def show_groups(request: Request, visitor: AdminVisitor) -> Response:
    """Show the groups of persons, and the form of one."""
    del visitor
    return _groups_page(request)


@router.post("/groups")
async def set_group(request: Request, visitor: AdminVisitor, state: State) -> Response:
    """Say who is in a group."""
    form = await read_form(request)

    async def act() -> str:
        fields = {name: form.text(name) for name in ("name", "reason")}
        asked = read_as(GroupRequest, {**fields, "persons": _lines(form.text("persons"))})
        await state.services.access.set_group(
            asked.name, asked.persons, asked.reason, caller=visitor
        )
        return address(_GROUPS, done="grouped")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_groups_page, request, form, Faults(problem))


def _groups_page(request: Request, form: Form = EMPTY, faults: Faults = NONE) -> Response:
    listing = Listing.of(request, _GROUPS, size=_PAGE, oldest=True)
    found = state_of(request).services.access.groups(listing.span)
    return page(
        request,
        "groups.html",
        status=faulted(request, faults),
        part=listing.cut(found, lambda each: each.number),
        form=form,
        faults=faults,
    )
