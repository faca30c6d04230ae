"""The Kubernetes folder, rendered as Kustomize renders it and read as the cluster would."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.kustomize import Resource, containers, merged, pod_of, render
from tests.deploy.manifests import faults
from tests.deploy.recipes import ROOT, dask_options, image, options_of, settings_named
from tests.tiers import in_one

FOLDER = ROOT / "deploy" / "kubernetes"
PROFILES = ("sqlite", "postgresql")
ALL_PROFILES = (*PROFILES, "cluster")
PAGES = [ROOT / "docs/operations" / name for name in ("deployment.md", "many-machines.md")]


def secrets_of_the_page() -> dict[str, set[str]]:
    """Return the secrets that the pages have an operator make, each with its keys."""
    commands = re.findall(
        r"create secret generic (\S+)((?: \\?\n? *--\S+)*)",
        "\n".join(page.read_text("utf-8") for page in PAGES),
    )
    return {name: set(re.findall(r"--from-file=(\w+)=", rest)) for name, rest in commands}


def profile(name: str) -> list[Resource]:
    return render(FOLDER / "overlays" / name)


def of_kind(resources: list[Resource], kind: str) -> Resource:
    (found,) = [each for each in resources if each["kind"] == kind]
    return found


def workloads(resources: list[Resource]) -> list[Resource]:
    return [each for each in resources if pod_of(each) is not None]


def environment(container: Resource) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"]}


@pytest.mark.parametrize("name", ALL_PROFILES)
def test_what_a_profile_names_is_there(name: str) -> None:
    assert faults(profile(name), secrets_of_the_page()) == []


@pytest.mark.parametrize("name", ALL_PROFILES)
def test_every_file_is_part_of_a_profile(name: str) -> None:
    for folder in (FOLDER / "base", FOLDER / "overlays" / name):
        text = (folder / "kustomization.yaml").read_text("utf-8")
        others = {path.name for path in folder.iterdir()} - {"kustomization.yaml"}
        assert {other for other in others if other not in text} == set()


@pytest.mark.parametrize("name", ALL_PROFILES)
def test_all_is_in_one_namespace_that_allows_no_privilege(name: str) -> None:
    resources = profile(name)
    place = of_kind(resources, "Namespace")
    assert place["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    rest = [each for each in resources if each is not place]
    assert {each["metadata"]["namespace"] for each in rest} == {place["metadata"]["name"]}


@pytest.mark.parametrize("name", ALL_PROFILES)
def test_every_container_fits_the_image(name: str) -> None:
    built = image()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    for workload in workloads(profile(name)):
        pod = pod_of(workload)
        assert pod is not None
        user = pod["spec"]["securityContext"]
        assert f"{user['runAsUser']}:{user['runAsGroup']}" == built.user
        assert user["fsGroup"] == user["runAsGroup"], "whose files the volumes' are"
        for container in containers(workload):
            assert container["image"] == f"registry.example.org/release-desk:{version}"
            assert container.get("command", ["dask"]) == ["dask"], "else the image's own is meant"
            if "command" in container:
                assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}
                continue
            options = options_of([*built.entrypoint, *container["args"]])
            assert [port["containerPort"] for port in container.get("ports", [])] == [
                port for port in built.ports if options.get("port") == port
            ]
            said = environment(container)
            assert settings_named(said).keys() == said.keys()
            places = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert "/data" in places
            assert "/tmp" in places, "the root is read-only"


@pytest.mark.parametrize("name", ALL_PROFILES)
def test_every_pod_may_do_as_little_as_it_can(name: str) -> None:
    for workload in workloads(profile(name)):
        pod = pod_of(workload)
        assert pod is not None
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        for volume in spec["volumes"]:
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] == 0o440
        for container in containers(workload):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}


@pytest.mark.parametrize("name", PROFILES)
def test_a_server_is_asked_how_it_is_and_given_time_to_end(name: str) -> None:
    deployment = of_kind(profile(name), "Deployment")
    (server,) = containers(deployment)
    probes = [server[f"{each}Probe"] for each in ("startup", "readiness", "liveness")]
    # One data set that cannot be read turns /readyz to 503: see docs/operations/README.md.
    assert [probe["httpGet"]["path"] for probe in probes] == ["/livez"] * 3
    assert probes[0]["periodSeconds"] * probes[0]["failureThreshold"] >= 1_800
    pod = pod_of(deployment)
    assert pod is not None
    pause = server["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["spec"]["terminationGracePeriodSeconds"] > 30 + pause


def test_sqlite_has_one_server_and_an_anchor_of_its_own() -> None:
    resources = profile("sqlite")
    deployment = of_kind(resources, "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    (server,) = containers(deployment)
    mounts = {mount["mountPath"]: mount["name"] for mount in server["volumeMounts"]}
    assert mounts.keys() >= set(image().volumes)
    assert mounts["/anchor"] != mounts["/data"]
    assert "RELEASE_DESK_DATABASE_URL_FILE" not in environment(server)
    assert of_kind(resources, "NetworkPolicy")["spec"]["egress"] == [], "it speaks to nobody"


def test_postgresql_has_two_servers_that_share_their_data() -> None:
    resources = profile("postgresql")
    deployment, job = of_kind(resources, "Deployment"), of_kind(resources, "Job")
    assert deployment["spec"]["replicas"] == 2
    assert of_kind(resources, "PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteMany"]
    (server,), (migration,) = containers(deployment), containers(job)
    for container in (server, migration):
        assert settings_named(environment(container)).items() >= {
            ("RELEASE_DESK_DATABASE_URL_FILE", "database_url"),
            ("RELEASE_DESK_ANCHOR_URL_FILE", "anchor_url"),
        }
    assert migration["args"] == ["migrate"]
    owner = {mount["mountPath"] for mount in migration["volumeMounts"]}
    assert environment(migration)["RELEASE_DESK_DATABASE_URL_FILE"].rpartition("/")[0] in owner
    assert "release-desk-owner" not in str(deployment), "the servers never see that password"
    ports = {
        port["port"]
        for each in of_kind(resources, "NetworkPolicy")["spec"]["egress"]
        for port in each["ports"]
    }
    assert ports == {5432, 53}


def test_a_cluster_speaks_tls_and_its_workers_see_rows_and_no_keys() -> None:
    resources = profile("cluster")
    made = {each["metadata"]["name"]: each for each in resources if each["kind"] == "Deployment"}
    (server,), (scheduler,), (worker,) = (
        containers(made[name])
        for name in ("release-desk", "release-desk-scheduler", "release-desk-workers")
    )
    (service,) = [
        each
        for each in resources
        if each["metadata"]["name"] == "release-desk-scheduler" and each["kind"] == "Service"
    ]
    address = environment(server)["RELEASE_DESK_DASK_SCHEDULER"]
    (port,) = service["spec"]["ports"]
    assert address == f"tls://{service['metadata']['name']}:{port['port']}"
    assert address in worker["args"]
    for member in (scheduler, worker):
        options = dask_options(member["args"])
        assert options["dashboard"] is False
        assert options["dashboard_address"] == "127.0.0.1:0", "its pages ask nobody for a key"
        assert all(options[f"tls_{each}"] for each in ("ca_file", "cert", "key"))
    assert {each["containerPort"] for each in scheduler["ports"]} == {port["port"]}
    assert made["release-desk-workers"]["spec"]["replicas"] == 2
    mounts = [mount for mount in worker["volumeMounts"] if mount["name"] == "data"]
    places = {mount["mountPath"]: mount for mount in mounts}
    assert sorted(places) == ["/data/datasets", "/data/staging"], "the servers' own path"
    for place, mount in places.items():
        assert mount["readOnly"] is True
        assert place == f"/data/{mount['subPath']}"
    assert "release-desk-keys" not in str([made["release-desk-workers"], scheduler])
    ports = {each["containerPort"] for member in (scheduler, worker) for each in member["ports"]}
    (policy,) = [
        each
        for each in resources
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "release-desk-cluster"
    ]
    (out,) = policy["spec"]["egress"]
    assert {each["port"] for each in out["ports"]} == ports


def test_a_node_can_be_emptied_and_one_server_stays() -> None:
    for name in PROFILES:
        assert of_kind(profile(name), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def server_of(resources: list[Resource]) -> Any:
    (found,) = containers(of_kind(resources, "Deployment"))
    return found


def spec_of(resources: list[Resource]) -> Any:
    pod = pod_of(of_kind(resources, "Deployment"))
    assert pod is not None
    return pod["spec"]


@in_one(
    ("change", "expected"),
    [
        (lambda it: server_of(it).update(imagePullSecret="x"), "no field"),
        (lambda it: spec_of(it).update(serviceAccountName="x"), "no service account x"),
        (lambda it: spec_of(it)["volumes"].append({"name": "x", "emptyDir": {}}), "mounted"),
        (lambda it: it.remove(of_kind(it, "PersistentVolumeClaim")), "no claim"),
        (lambda it: server_of(it)["readinessProbe"]["httpGet"].update(port="x"), "not there"),
        (lambda it: server_of(it)["env"][0].update(value="/run/secrets/keys/x"), "no file"),
        (lambda it: server_of(it)["volumeMounts"][0].update(name="x"), "no volume x"),
        (lambda it: of_kind(it, "Service")["spec"]["selector"].update(x="y"), "selects no pod"),
        (lambda it: of_kind(it, "Service")["spec"]["ports"][0].update(targetPort="x"), "port x"),
        (lambda it: of_kind(it, "Deployment")["spec"].update(replicas="two"), "Expected `int"),
        (
            lambda it: of_kind(it, "Deployment")["spec"]["selector"]["matchLabels"].update(x="y"),
            "does not select its own pods",
        ),
    ],
)
def test_each_fault_is_found(change: Callable[[list[Resource]], Any], expected: str) -> None:
    resources = deepcopy(profile("postgresql"))
    change(resources)
    found = faults(resources, secrets_of_the_page())
    assert any(expected in each for each in found), found


def test_a_secret_that_nobody_makes_is_found() -> None:
    secrets = secrets_of_the_page()
    del secrets["release-desk-owner"]
    found = faults(profile("postgresql"), secrets)
    assert any("no secret release-desk-owner" in each for each in found)


def test_a_patch_is_merged_as_kustomize_merges_it() -> None:
    old = {"a": {"b": 1, "c": 2}, "env": [{"name": "x", "value": "1"}], "args": ["one", "two"]}
    new = {"a": {"b": 3}, "env": [{"name": "y"}, {"name": "x", "value": "2"}], "args": ["three"]}
    assert merged(old, new) == {
        "a": {"b": 3, "c": 2},
        "env": [{"name": "y"}, {"name": "x", "value": "2"}],
        "args": ["three"],
    }


def test_a_kustomization_that_says_more_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\nnamePrefix: x\n")
    with pytest.raises(AssertionError, match="more than the tests understand"):
        render(tmp_path)
