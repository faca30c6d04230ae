"""The style sheet and the script, which browsers may keep: their addresses change with them."""

from __future__ import annotations

from starlette.responses import FileResponse, Response

from app.desk.rendering import STATIC, static_address
from app.desk.routes import router_of
from app.domain.problems import Problem

router = router_of("files")

_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/static/{digest}/{name}")
def show_file(digest: str, name: str) -> Response:
    """Send a file of the desk."""
    known = {path.name for path in STATIC.iterdir() if path.is_file()}
    if name not in known or static_address(name) != f"/desk/static/{digest}/{name}":
        raise Problem("not-found")
    return FileResponse(STATIC / name, headers=_KEPT)
