"""The body of answers that are programs."""

from __future__ import annotations

from starlette.responses import Response

from app.services.scripts.scripts import Script


def script_answer(script: Script) -> Response:
    """Return a program as a file to be saved."""
    return Response(
        script.text,
        media_type=f"{script.media_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{script.name}"'},
    )
