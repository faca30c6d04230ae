"""What is wrong with Kubernetes resources: fields that are none, names of what is not there.

Fields and their types are the Kubernetes API's, as the package ``lightkube-models`` has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from lightkube.core import resource_registry as registry

from tests.deploy.kustomize import Resource, containers, identity, pod_of


def faults(resources: list[Resource], secrets: dict[str, set[str]]) -> list[str]:
    """Return what is wrong, where ``secrets`` are made by hand, each with these keys."""
    found = []
    for each in resources:
        where = "/".join(identity(each))
        found += [f"{where}: {fault}" for fault in _of_fields(each)]
        found += [f"{where}: {fault}" for fault in _of_pods(each, resources, secrets)]
        found += [f"{where}: {fault}" for fault in _of_selectors(each, resources)]
    return found


def _of_fields(resource: Resource) -> Iterator[str]:
    model = registry.resource_registry.load(resource["apiVersion"], resource["kind"])
    try:
        read = msgspec.to_builtins(msgspec.convert(resource, model))
    except msgspec.ValidationError as error:
        yield str(error)
        return
    yield from (f"there is no field {name}" for name in _lost(resource, read, ""))


def _lost(given: Any, read: Any, path: str) -> Iterator[str]:
    """Yield what the API's model has not taken: fields that it does not know."""
    if isinstance(given, dict):
        for name, value in given.items():
            if not isinstance(read, dict) or name not in read:
                yield f"{path}.{name}"
            else:
                yield from _lost(value, read[name], f"{path}.{name}")
    elif isinstance(given, list):
        for one, other in zip(given, read, strict=True):
            yield from _lost(one, other, f"{path}[]")


def _of_pods(
    resource: Resource, resources: list[Resource], secrets: dict[str, set[str]]
) -> Iterator[str]:
    template = pod_of(resource)
    if template is None:
        return
    pod, there = template["spec"], {identity(each) for each in resources}
    if ("ServiceAccount", pod["serviceAccountName"]) not in there:
        yield f"there is no service account {pod['serviceAccountName']}"
    files: dict[str, set[str]] = {}
    for volume in pod["volumes"]:
        name = volume["name"]
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            if ("PersistentVolumeClaim", claim) not in there:
                yield f"there is no claim {claim}"
        elif "secret" in volume:
            secret = volume["secret"]["secretName"]
            if secret not in secrets:
                yield f"there is no secret {secret}"
            files[name] = secrets.get(secret, set())
        elif "emptyDir" not in volume:
            yield f"volume {name} is of no kind that is known here"
    for container in containers(resource):
        yield from _of_container(container, {each["name"] for each in pod["volumes"]}, files)
    mounted = {mount["name"] for each in containers(resource) for mount in each["volumeMounts"]}
    yield from (
        f"volume {each['name']} is mounted nowhere"
        for each in pod["volumes"]
        if each["name"] not in mounted
    )


def _of_container(
    container: Resource, volumes: set[str], files: dict[str, set[str]]
) -> Iterator[str]:
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    yield from (f"there is no volume {name}" for name in mounts.values() if name not in volumes)
    for variable in container["env"]:
        if not variable["name"].endswith("_FILE"):
            continue
        place, _, key = variable["value"].rpartition("/")
        if key not in files.get(mounts.get(place, ""), set()):
            yield f"{variable['name']} names no file of a secret"
    named = {port["name"] for port in container.get("ports", [])}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        port = container.get(probe, {}).get("httpGet", {}).get("port")
        if port is not None and port not in named:
            yield f"{probe} asks at a port that is not there"


def _of_selectors(resource: Resource, resources: list[Resource]) -> Iterator[str]:
    """Yield selectors that find no pod, and ports that no pod has."""
    spec, kind = resource.get("spec", {}), resource["kind"]
    if kind == "Deployment":
        own = pod_of(resource)
        wanted = spec["selector"]["matchLabels"]
        if own is None or not wanted.items() <= own["metadata"]["labels"].items():
            yield "it does not select its own pods"
        return
    if kind == "Service":
        wanted, ports = spec["selector"], {each["targetPort"] for each in spec["ports"]}
    elif kind == "PodDisruptionBudget":
        wanted, ports = spec["selector"]["matchLabels"], set()
    elif kind == "NetworkPolicy":
        wanted = spec["podSelector"]["matchLabels"]
        ports = {port["port"] for each in spec["ingress"] for port in each["ports"]}
    else:
        return
    found = [each for each in resources if _is_selected(each, wanted)]
    if not found:
        yield "it selects no pod"
    named = {
        port["name"] for each in found for one in containers(each) for port in one.get("ports", [])
    }
    yield from (f"no pod has the port {port}" for port in ports - named)


def _is_selected(resource: Resource, wanted: dict[str, str]) -> bool:
    pod = pod_of(resource)
    return pod is not None and wanted.items() <= pod["metadata"]["labels"].items()
