"""The packages of the clients, to install them from the service: without a key.

An address with a digest answers with the same bytes for ever, or not at all. One without serves the
package of this version, for documents and for people.
"""

from __future__ import annotations

import json
from html import escape

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.dependencies import State
from app.api.pages.layout import page, wants_json
from app.domain.problems import Problem
from app.services.client_packages import ClientPackage, client_packages
from app.web.anonymous import KeptRoute
from app.web.caching import base_of, public_answer

router = APIRouter(include_in_schema=False, route_class=KeptRoute)

_TITLES = {"python": "Python", "r": "R"}
_IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/client")
def list_client_packages(request: Request, state: State) -> Response:
    """Show how to install each client: a page, or JSON for a program that asks for it."""
    base = base_of(request, state.settings.public_url)
    packages = client_packages().values()
    if wants_json(request):
        body = json.dumps({"packages": [_package_json(each, base) for each in packages]})
        return public_answer(body.encode(), "application/json")
    intro = (
        "<p>Install a client from this service. No package index has these packages: a package of"
        " the same name from anywhere else is not ours.</p>"
    )
    return page("Clients", intro + "".join(_package_html(each, base) for each in packages))


@router.get("/client/{package}")
def get_client_package(package: str) -> Response:
    """Send the package of this version."""
    found = _named(package)
    return public_answer(found.content, found.media_type)


@router.get("/client/{digest}/{package}")
def get_immutable_client_package(digest: str, package: str) -> Response:
    """Send the package whose SHA-256 the address names."""
    found = _named(package)
    if found.digest != digest:
        raise Problem("not-found")
    return public_answer(found.content, found.media_type, headers=_IMMUTABLE)


def _named(name: str) -> ClientPackage:
    for found in client_packages().values():
        if found.name == name:
            return found
    raise Problem("not-found")


def _package_json(package: ClientPackage, base: str) -> dict[str, object]:
    return {
        "language": package.language,
        "name": package.name,
        "version": package.version,
        "address": package.address(base),
        "sha256": package.digest,
        "bytes": len(package.content),
        "install": list(package.install(base)),
    }


def _package_html(package: ClientPackage, base: str) -> str:
    commands = escape("\n".join(package.install(base)))
    where = "In R" if package.language == "r" else "In a shell"
    return (
        f"<h2>{_TITLES[package.language]}</h2><p>{where}:</p><pre><code>{commands}</code></pre>"
        f'<p>File: <a href="{escape(package.address(""))}">{package.name}</a>,'
        f" {len(package.content)} bytes, SHA-256 <code>{package.digest}</code></p>"
    )
