"""The bill of materials, as CycloneDX: everything that is installed, and in the image."""

from __future__ import annotations

import json
import re
from importlib.metadata import requires, version

from click.testing import CliRunner

from app.cli import main
from app.cli.sbom import bill_of_materials
from tests.deploy.recipes import lines, stages
from tests.licences import shipped

FOUND = bill_of_materials()
COMPONENTS = {each["name"]: each for each in FOUND["components"]}


def test_everything_that_the_service_needs_is_in_it_with_its_version() -> None:
    for name in shipped():
        assert COMPONENTS[name]["version"] == version(name)
        assert COMPONENTS[name]["purl"] == f"pkg:pypi/{name}@{version(name)}"
    own = FOUND["metadata"]["component"]
    assert own["name"] == "release-desk"
    needs = {each["ref"]: each["dependsOn"] for each in FOUND["dependencies"]}
    wanted = [each for each in requires("release-desk") or () if "extra ==" not in each]
    direct = {re.split(r"[\[>;]", each)[0] for each in wanted}
    named = {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in needs[own["purl"]]}
    assert direct - {"uvloop"} <= named


def test_it_has_the_form_of_the_standard() -> None:
    assert (FOUND["bomFormat"], FOUND["specVersion"], FOUND["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", FOUND["serialNumber"]
    )
    references = [FOUND["metadata"]["component"]["bom-ref"]]
    references += [each["bom-ref"] for each in FOUND["components"]]
    assert len(set(references)) == len(references)
    for each in FOUND["dependencies"]:
        assert {each["ref"], *each["dependsOn"]} <= set(references)
    for each in FOUND["components"]:
        assert each["type"] in ("library", "platform")
        for licence in each.get("licenses", ()):
            assert licence.keys() in ({"expression"}, {"license"})


def test_the_command_prints_the_same_each_time() -> None:
    said = [CliRunner().invoke(main, ["sbom"]) for _ in range(2)]
    assert said[0].exit_code == 0
    assert said[0].output == said[1].output
    assert json.loads(said[0].output) == FOUND


def test_the_image_has_it_and_says_where_it_comes_from() -> None:
    build, _, last = stages()
    (written,) = [line for line in build if "release-desk sbom" in line]
    assert written.endswith("release-desk sbom > /opt/release-desk/sbom.cdx.json")
    (label,) = [line for line in last if line.startswith("LABEL ")]
    said = dict(re.findall(r'org\.opencontainers\.image\.([\w.]+)="([^"]*)"', label))
    name, _, digest = build[0].split()[1].partition("@")
    assert (said["base.name"], said["base.digest"]) == (f"docker.io/library/{name}", digest)
    given = {line.removeprefix("ARG ").rstrip("=") for line in last if line.startswith("ARG ")}
    assert given == {"CREATED", "REVISION", "SOURCE", "VERSION"}
    for argument in given:
        assert said[argument.lower()] == f"${argument}"
    assert len([line for line in lines() if line.startswith("FROM ")]) == 3
