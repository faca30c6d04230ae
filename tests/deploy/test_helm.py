"""The Helm chart, rendered as Helm renders the little of its language that it uses."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.deploy.kustomize import Resource, containers, pod_of
from tests.deploy.manifests import faults
from tests.deploy.recipes import ROOT, image, options_of, settings_named

CHART = ROOT / "deploy" / "helm" / "release-desk"
SECRETS = {"release-desk-keys": {"bootstrap_key", "signing_key"}}
_RANGE = re.compile(r"range \$(\w+), \$(\w+) := (\S+)")


def values(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return found | changes


def render(given: dict[str, Any], *, release: str = "desk") -> list[Resource]:
    """Return the chart's resources; what the renderer does not know is an error."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    chart = {name[0].upper() + name[1:]: value for name, value in about.items()}
    scope = {"Values": given, "Release": {"Name": release}, "Chart": chart}
    found: list[Resource] = []
    for path in sorted((CHART / "templates").iterdir()):
        lines = path.read_text("utf-8").split("\n")
        text = "\n".join(_lines(lines, scope, {}))
        found += [each for each in yaml.safe_load_all(text) if each]
    return found


def _lines(lines: list[str], scope: dict[str, Any], names: dict[str, Any]) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        block = re.fullmatch(r"\{\{- (if .+|range .+) \}\}", line)
        if block is None:
            out.append(re.sub(r"\{\{-? (.+?) \}\}", lambda m: _said(m[1], scope, names), line))
            at += 1
            continue
        end = next(i for i in range(at, len(lines)) if lines[i] == "{{- end }}")
        inner = lines[at + 1 : end]
        assert not any(re.match(r"\{\{- (if|range)", each) for each in inner), "no block in another"
        if block[1].startswith("if "):
            if _value(block[1].removeprefix("if "), scope, names):
                out += _lines(inner, scope, names)
        else:
            each_of = _RANGE.fullmatch(block[1])
            assert each_of is not None, line
            for key, value in sorted(_value(each_of[3], scope, names).items()):
                out += _lines(inner, scope, {**names, each_of[1]: key, each_of[2]: value})
        at = end + 1
    return out


def _said(said: str, scope: dict[str, Any], names: dict[str, Any]) -> str:
    first, *pipes = [each.strip() for each in said.split("|")]
    value = (
        yaml.safe_dump(_value(first.removeprefix("toYaml "), scope, names)).rstrip()
        if first.startswith("toYaml ")
        else _value(first, scope, names)
    )
    for pipe in pipes:
        name, _, argument = pipe.partition(" ")
        if name == "quote":
            value = f'"{value}"'
        elif name == "default":
            value = value or _value(argument, scope, names)
        elif name == "nindent":
            value = "".join(f"\n{' ' * int(argument)}{each}" for each in value.split("\n"))
        else:
            raise AssertionError(f"{name} is not rendered here")
    return str(value)


def _value(path: str, scope: dict[str, Any], names: dict[str, Any]) -> Any:
    if path.startswith("$"):
        return names[path[1:]]
    assert re.fullmatch(r"(\.\w+)+", path), path
    found: Any = scope
    for part in path[1:].split("."):
        found = found[part]  # a value that values.yaml lacks is an error
    return found


def of_kind(resources: list[Resource], kind: str) -> Resource:
    (found,) = [each for each in resources if each["kind"] == kind]
    return found


@pytest.mark.parametrize(
    "given",
    [
        {},
        {
            "publicUrl": "https://numbers.example.org",
            "settings": {"RELEASE_DESK_LOG_LEVEL": "INFO"},
        },
        {"data": {"size": "1Gi", "storageClass": "fast"}},
    ],
)
def test_the_cluster_takes_what_the_chart_makes(given: dict[str, Any]) -> None:
    assert faults(render(values(**given)), SECRETS) == []


def test_the_control_finds_a_field_that_is_none_and_a_secret_that_is_not_there() -> None:
    resources = render(values(keysSecret="another", resources={"limit": {"memory": "8Gi"}}))
    found = " ".join(faults(resources, SECRETS))
    assert "there is no secret another" in found
    assert "limit" in found


def test_there_is_one_server_with_the_rights_of_none() -> None:
    resources = render(values(publicUrl="https://numbers.example.org"))
    deployment = of_kind(resources, "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    pod = pod_of(deployment)
    assert pod is not None
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    built = image()
    user = spec["securityContext"]
    assert f"{user['runAsUser']}:{user['runAsGroup']}" == built.user
    (server,) = containers(deployment)
    assert server["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert server["image"] == f"registry.example.org/release-desk:{version}"
    options = options_of([*built.entrypoint, *server["args"]])
    assert [port["containerPort"] for port in server["ports"]] == [options["port"]]
    said = {each["name"]: each["value"] for each in server["env"]}
    assert said["RELEASE_DESK_PUBLIC_URL"] == "https://numbers.example.org"
    assert settings_named(said).keys() == said.keys()
    probes = [
        server[f"{each}Probe"]["httpGet"]["path"] for each in ("startup", "readiness", "liveness")
    ]
    assert probes == ["/livez"] * 3


def test_secrets_are_named_and_never_given() -> None:
    resources = render(values())
    assert not [each for each in resources if each["kind"] == "Secret"]
    text = (CHART / "values.yaml").read_text("utf-8")
    assert "BEGIN" not in text
    (server,) = containers(of_kind(resources, "Deployment"))
    secret = {each["name"] for each in server["env"] if "KEY" in each["name"]}
    assert all(name.endswith("_FILE") for name in secret)


def test_the_ledger_and_its_anchor_outlive_the_installation() -> None:
    claims = [each for each in render(values()) if each["kind"] == "PersistentVolumeClaim"]
    assert [each["metadata"]["name"] for each in claims] == ["desk-data", "desk-anchor"]
    for claim in claims:
        assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert "storageClassName" not in claim["spec"]
    sized = render(values(data={"size": "1Gi", "storageClass": "fast"}))
    claim = next(each for each in sized if each["metadata"]["name"] == "desk-data")
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}


def test_two_installations_do_not_meet() -> None:
    one, other = (
        {(each["kind"], each["metadata"]["name"]) for each in render(values(), release=name)}
        for name in ("desk", "second")
    )
    assert not one & other
    service = of_kind(render(values(), release="second"), "Service")
    assert service["spec"]["selector"]["app.kubernetes.io/instance"] == "second"
