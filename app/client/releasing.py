"""The steps of asking: a release, waited for if it is a job, a preview, and publishing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import httpx

from app.client.errors import UnreachableError
from app.client.models import Derivation, DryRun, Preview, Publication, Release
from app.client.progress import OnWait, Progress
from app.client.steps import Line, Pause, Steps

_ACCEPTED = 202
_RUNNING = "running"
_LOOK_AGAIN_S = 5.0  # where the service does not say how long


def release_in(response: httpx.Response) -> Release:
    """Return a release with the bytes that it came in."""
    return replace(Release.model_validate_json(response.content), body=response.content)


def previewing(line: Line, dataset: str, body: Mapping[str, object]) -> Steps[Preview]:
    """Ask for a preview."""
    response = yield from line.repeatable("POST", f"/v1/datasets/{dataset}/previews", json=body)
    return Preview.model_validate_json(response.content)


def dry_running(line: Line, dataset: str, body: Mapping[str, object]) -> Steps[DryRun]:
    """Ask for a dry run."""
    response = yield from line.repeatable("POST", f"/v1/datasets/{dataset}/dry-runs", json=body)
    return DryRun.model_validate_json(response.content)


def deriving(
    line: Line,
    path: str,
    statistic: Mapping[str, object],
    together_with: Sequence[Release | str],
) -> Steps[Derivation]:
    """Ask what a release says, with others if there are any; ``path`` is its address."""
    body: dict[str, object] = {"statistic": dict(statistic)}
    if together_with:
        names = [each.id if isinstance(each, Release) else each for each in together_with]
        body["together_with"] = names
    response = yield from line.repeatable("POST", f"{path}/derivations", json=body)
    return Derivation.model_validate_json(response.content)


def scripting(line: Line, release: str, language: str) -> Steps[str]:
    """Ask for a release as a program."""
    response = yield from line.read(f"/v1/releases/{release}/script", params={"language": language})
    return str(response.text)


def question_scripting(
    line: Line, dataset: str, body: Mapping[str, object], language: str
) -> Steps[str]:
    """Ask for a question as a program."""
    path, params = f"/v1/datasets/{dataset}/scripts", {"language": language}
    response = yield from line.repeatable("POST", path, json=body, params=params)
    return str(response.text)


def releasing(
    line: Line,
    dataset: str,
    body: Mapping[str, object],
    *,
    key: str,
    wait: bool,
    on_wait: OnWait | None,
) -> Steps[Release]:
    """Ask for a release under a key and, if it is a job, again when it is done."""
    path, headers = f"/v1/datasets/{dataset}/releases", {"Idempotency-Key": key}
    response = yield from line.repeatable("POST", path, json=body, headers=headers)
    if response.status_code == _ACCEPTED and wait and release_in(response).status == _RUNNING:
        with Progress() as progress:
            yield from _waiting(line, response, key, on_wait or progress)
        # the stored bytes, or the refusal that says it has none
        response = yield from line.repeatable("POST", path, json=body, headers=headers)
    return release_in(response)


def _waiting(line: Line, response: httpx.Response, key: str, on_wait: OnWait) -> Steps[None]:
    """Ask for a running release, whenever the service says it is worth it, until it is not."""
    path = response.headers["Location"]
    while (release := release_in(response)).status == _RUNNING:
        pause_s = float(response.headers.get("Retry-After", _LOOK_AGAIN_S))
        on_wait(release, pause_s)
        yield Pause(pause_s)
        try:
            response = yield from line.read(path)
        except UnreachableError as error:
            raise UnreachableError(str(error), idempotency_key=key) from error


def publishing(line: Line, path: str, reason: str) -> Steps[Publication]:
    """Publish the release at a path as it was read just before."""
    seen = (yield from line.read(path)).headers["ETag"]
    body, headers = {"reason": reason}, {"If-Match": seen}
    sent = line.repeatable("POST", f"{path}/publication", json=body, headers=headers)
    return Publication.model_validate_json((yield from sent).content)
