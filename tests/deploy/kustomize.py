"""As much of Kustomize as the folder ``deploy/kubernetes`` uses: what it would apply to a cluster.

A field of a kustomization that is not known here is refused, so that nothing is left out in
silence. Patches are strategic merges: maps are merged, lists of things with names as well, and
other lists are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]

_KNOWN = {"apiVersion", "kind", "namespace", "resources", "patches", "images"}
_NAMES = {
    "containers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "topologySpreadConstraints": "topologyKey",
}
"""Lists that are merged, and what names their members (the API's ``patchMergeKey``)."""
_OF_THE_CLUSTER = {"Namespace"}


def render(folder: Path) -> list[Resource]:
    """Return the resources of a kustomization, as ``kubectl kustomize`` prints them."""
    reported = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    assert reported["kind"] == "Kustomization"
    assert reported.keys() <= _KNOWN, f"{folder} says more than the tests understand"
    found = [each for name in reported["resources"] for each in _resources(folder / name)]
    for patch in reported.get("patches", []):
        assert patch.keys() == {"path"}
        for change in _documents(folder / patch["path"]):
            _patch(found, change)
    for each in found:
        if each["kind"] not in _OF_THE_CLUSTER and "namespace" in reported:
            each["metadata"]["namespace"] = reported["namespace"]
        for container in containers(each):
            _rename(container, reported.get("images", []))
    names = [identity(each) for each in found]
    assert len(set(names)) == len(names), "a resource is there twice"
    return found


def identity(resource: Resource) -> tuple[str, str]:
    """Return what a patch finds a resource by."""
    return resource["kind"], resource["metadata"]["name"]


def pod_of(resource: Resource) -> Resource | None:
    """Return the template of the pods that a resource makes, if it makes any."""
    template: Resource | None = resource.get("spec", {}).get("template")
    return template


def containers(resource: Resource) -> Iterator[Resource]:
    """Yield the containers of the pods that a resource makes."""
    pod = pod_of(resource)
    if pod is not None:
        yield from pod["spec"].get("initContainers", [])
        yield from pod["spec"]["containers"]


def merged(old: Any, new: Any, key: str | None = None) -> Any:
    """Return a value with a strategic patch applied to it."""
    if isinstance(old, dict) and isinstance(new, dict):
        both = {name: merged(old.get(name), value, name) for name, value in new.items()}
        return old | both
    if isinstance(old, list) and key in _NAMES:
        name = _NAMES[key]
        kept = {each[name]: each for each in old}
        # What a patch adds comes first, as Kustomize has it.
        added = [each for each in new if each[name] not in kept]
        changes = {each[name]: each for each in new}
        return added + [merged(each, changes.get(each[name], {})) for each in old]
    return new


def _documents(file: Path) -> Iterator[Resource]:
    yield from (each for each in yaml.safe_load_all(file.read_text("utf-8")) if each is not None)


def _resources(place: Path) -> list[Resource]:
    return render(place) if place.is_dir() else list(_documents(place))


def _patch(found: list[Resource], change: Resource) -> None:
    (place,) = [at for at, each in enumerate(found) if identity(each) == identity(change)]
    found[place] = merged(deepcopy(found[place]), change)


def _rename(container: Resource, images: list[dict[str, str]]) -> None:
    for image in images:
        if container["image"] == image["name"]:
            container["image"] = f"{image['newName']}:{image['newTag']}"
