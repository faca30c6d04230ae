"""What the Dockerfile says, read without building it."""

from __future__ import annotations

import re
import shlex

from app.web.languages import LANGUAGES
from tests.deploy.recipes import (
    DOCKERFILE,
    compose_file,
    image,
    instruction,
    let_through,
    options_of,
    settings_named,
    stages,
)


def test_the_image_only_runs() -> None:
    build, slim, last = stages()
    assert re.fullmatch(r"\d+:\d+", image().user)
    assert instruction(last, "FROM") == "scratch", "what is removed is in no layer"
    assert [line for line in (*slim, *last) if line.startswith("COPY")] == [
        "COPY --from=build /opt/release-desk /opt/release-desk",
        "COPY --from=slim / /",
    ]
    text = "\n".join(slim + last)
    for tool in ("pip", "gcc", "apt-get", "curl", "wget", "build-essential"):
        assert tool not in shlex.split(
            re.sub(r"[\[\],]", " ", text.replace('"', " ").replace("'", " "))
        )
    assert "--require-hashes" in "\n".join(build)
    copied = {name for line in build if line.startswith("COPY ") for name in line.split()[1:-1]}
    assert copied == set(let_through())


def test_the_image_starts_the_desk_as_it_is_told() -> None:
    said = image()
    assert said.volumes == ["/data", "/anchor"]
    options = options_of([*said.entrypoint, *said.command])
    assert [options["port"]] == said.ports
    assert f"127.0.0.1:{options['port']}/readyz" in said.health[-1]
    assert settings_named(said.environment) == {
        "RELEASE_DESK_DATA_DIR": "data_dir",
        "RELEASE_DESK_ANCHOR_DIR": "anchor_dir",
    }
    assert {said.environment[name] for name in settings_named(said.environment)} == {
        "/data",
        "/anchor",
    }
    assert said.environment["PATH"].startswith("/opt/release-desk/bin:")


def test_the_locales_of_every_language_are_kept() -> None:
    text = "\n".join(stages()[0])
    kept = set(re.findall(r"! -name '([\w.]+)\*?'", text))
    assert kept == {"root.dat", *LANGUAGES}


def test_every_image_is_named_by_its_digest() -> None:
    named = [instruction(stage, "FROM").split()[0] for stage in stages()[:-1]]
    named += [
        service["image"]
        for service in compose_file()["services"].values()
        if "build" not in service
    ]
    assert len(named) == 4
    for name in named:
        assert re.fullmatch(r"[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}", name)
    assert "syntax=" not in DOCKERFILE, "that would be an image too"
