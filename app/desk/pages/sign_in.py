"""Signing in with a key, and signing out."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.desk import cookies
from app.desk.forms import read_form, require_own_site, see
from app.desk.rendering import page
from app.desk.routes import SIGN_IN, State, router_of
from app.domain.policies import Role
from app.domain.problems import Problem

router = router_of("sign in")


@router.get("/sign-in")
async def show_sign_in(request: Request) -> Response:
    """Show where one signs in."""
    return _shown(request, _own(request.query_params.get("next", "")))


@router.post("/sign-in")
async def sign_in(request: Request, state: State) -> Response:
    """Begin a session; a wrong key is reported as such, and no more."""
    if request.scope.get("crowded"):  # everyone could keep requesting a form
        raise Problem("busy")
    form = await read_form(request)
    wanted = _own(form.text("next"))
    secret = form.text("key").strip()
    try:
        caller = await state.services.keys.recognise(secret.encode())
        caller.require(Role.ANALYST)
        await state.rates.take(caller.key)
        token = await state.services.sessions.begin(secret)
    except Problem as problem:
        if problem.code != "unauthorized":
            raise
        await state.anonymous.admit(request.scope)
        request.scope["problem"] = problem.code
        return _shown(request, wanted, wrong=True)
    response = see(wanted)
    cookies.remember(request, response, token)
    return response


@router.post("/sign-out")
async def sign_out(request: Request, state: State) -> Response:
    """End a session."""
    require_own_site(request)
    token = cookies.session_of(request)
    if token:
        await state.services.sessions.end(token)
    response = see(SIGN_IN)
    cookies.forget(request, response)
    return response


def _shown(request: Request, wanted: str, *, wrong: bool = False) -> Response:
    status = 401 if wrong else 200
    return page(request, "sign_in.html", status=status, wrong=wrong, wanted=wanted)


def _own(address: str) -> str:
    """Return an address of the desk; anything else is the desk's first page."""
    below = address.startswith("/desk/") and "//" not in address and "\\" not in address
    return address if below and address.isprintable() else "/desk"
