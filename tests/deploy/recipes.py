"""The Dockerfile and the compose file as tests read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from app.cli import main
from app.settings import PREFIX, Settings

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Image:
    """What the image says of itself: what runs, as whom, with which settings, where data lie."""

    entrypoint: list[str]
    command: list[str]
    health: list[str]
    environment: dict[str, str]
    user: str
    volumes: list[str]
    ports: list[int]


def lines() -> list[str]:
    """Return the Dockerfile's logical lines, without comments."""
    kept = "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#"))
    return [line for line in re.sub(r"\\\n\s*", "", kept).splitlines() if line]


def stages() -> list[list[str]]:
    """Return the logical lines of each stage."""
    found = lines()
    starts = [index for index, line in enumerate(found) if line.startswith("FROM")]
    return [found[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]


def instruction(stage: list[str], name: str) -> str:
    """Return what a stage's one instruction of this name says."""
    (found,) = [line for line in stage if line.startswith(f"{name} ")]
    return found.removeprefix(f"{name} ")


def let_through() -> list[str]:
    """Return the names of the project's top that reach the image's build."""
    rules = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert rules[0] == "*"
    return [rule.removeprefix("!") for rule in rules if rule.startswith("!")]


def image() -> Image:
    """Return what the last stage says of the image."""
    last = stages()[-1]
    words = instruction(last, "ENV").split()
    return Image(
        entrypoint=yaml.safe_load(instruction(last, "ENTRYPOINT")),
        command=yaml.safe_load(instruction(last, "CMD")),
        health=yaml.safe_load(instruction(last, "HEALTHCHECK").partition("CMD ")[2]),
        environment=dict(word.split("=", 1) for word in words),
        user=instruction(last, "USER"),
        volumes=yaml.safe_load(instruction(last, "VOLUME")),
        ports=[int(port) for port in instruction(last, "EXPOSE").split()],
    )


def compose_file() -> Any:
    """Return the compose file, its anchors filled in."""
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))


def volumes_of(service: dict[str, Any]) -> dict[str, str]:
    """Return the volume at each place of a service."""
    mounts = service["volumes"]
    short = {each.split(":")[1]: each.split(":")[0] for each in mounts if isinstance(each, str)}
    long = {each["target"]: each["source"] for each in mounts if isinstance(each, dict)}
    return short | long


def dask_options(command: list[str]) -> dict[str, Any]:
    """Return what a command of ``dask`` is started with; one that is none is a fault."""
    from distributed.cli import dask_scheduler, dask_worker

    found = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}[command[0]]
    # a file that is there stands for each secret
    here = [re.sub(r"/run/secrets/\S+", __file__, word) for word in command[1:]]
    with found.make_context(command[0], here) as context:
        return dict(context.params)


def settings_named(environment: dict[str, str]) -> dict[str, str]:
    """Return the setting that each of our variables sets; one of no setting is a fault."""
    found = {}
    for name in environment:
        if name.startswith(PREFIX):
            setting = name.removeprefix(PREFIX).removesuffix("_FILE").lower()
            assert setting in Settings.model_fields, f"{name} is not a setting"
            found[name] = setting
    return found


def options_of(command: list[str]) -> dict[str, Any]:
    """Return what a command of ``release-desk`` is started with; one that is none is a fault."""
    assert command[0] == "release-desk"
    found = main.get_command(click.Context(main), command[1])
    assert found is not None, f"release-desk has no command {command[1]}"
    return dict(found.make_context(command[1], command[2:]).params)
