"""The command that lists what the service consists of, as CycloneDX (ECMA-424).

    installed distributions + what each needs --listed--> a bill of materials in JSON

It is made of the metadata of what is installed, so it is right in an image, in a virtual
environment and on a machine without network. It says the same each time: no date, and a serial
number that follows from the rest.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import click

_SELF = "release-desk"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXPRESSION = re.compile(r"[A-Za-z0-9.+() -]{1,200}")


def bill_of_materials() -> dict[str, Any]:
    """Return what is installed, and what needs what, as CycloneDX 1.6."""
    found = {_normal(each.name): each for each in distributions()}
    own = found.pop(_SELF, None)
    body: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component("application", _SELF, own)},
        "components": [
            {
                "type": "platform", "bom-ref": "python", "name": platform.python_implementation(),
                "version": platform.python_version(),
            },
            *(_component("library", name, each) for name, each in sorted(found.items())),
        ],
        "dependencies": [
            {"ref": _reference(name, each), "dependsOn": sorted(_needed(each, found))}
            for name, each in sorted([*found.items(), *([] if own is None else [(_SELF, own)])])
        ],
    }  # fmt: skip
    serial = uuid5(NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return {**body, "serialNumber": f"urn:uuid:{serial}"}


def _component(kind: str, name: str, found: Distribution | None) -> dict[str, Any]:
    made: dict[str, Any] = {"type": kind, "bom-ref": _reference(name, found), "name": name}
    if found is None:
        return made
    made |= {"version": found.version, "purl": _reference(name, found)}
    said = _told(found, "License-Expression")
    if _EXPRESSION.fullmatch(said):
        return {**made, "licenses": [{"expression": said}]}
    said = next(iter(_told(found, "License").splitlines()), "")
    return {**made, "licenses": [{"license": {"name": said}}]} if said else made


def _told(found: Distribution, field: str) -> str:
    return next(iter(found.metadata.get_all(field) or ()), "")


def _reference(name: str, found: Distribution | None) -> str:
    return f"pkg:pypi/{name}" if found is None else f"pkg:pypi/{name}@{found.version}"


def _needed(found: Distribution, others: dict[str, Distribution]) -> Iterator[str]:
    """Yield what a distribution may need of what is installed; extras count where they are."""
    names = {_normal(match[0]) for each in found.requires or () if (match := _NAME.match(each))}
    yield from (_reference(name, others[name]) for name in names if name in others)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@click.command()
def sbom() -> None:
    """Print a bill of materials of what is installed, as CycloneDX."""
    click.echo(json.dumps(bill_of_materials(), indent=1, sort_keys=True))
