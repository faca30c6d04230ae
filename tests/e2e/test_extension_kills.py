"""A server that is killed while it adds rows: the version is there whole, or nothing of it is.

It dies before every step that is named, and at moments spread over the time that one takes. What
it leaves is looked at after the next start, which then gets the same request again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.endpoints import datasets
from app.vault.vault import Vault
from tests.app.killed_uploads import BEFORE
from tests.e2e.live import LiveServer, release_mean, serve, upload

pytestmark = pytest.mark.slow

ROWS = 4000
COLUMNS = {"x": {"type": "number", "lower": 0, "upper": 1000}}
PEOPLE = {
    "adjacency": "add_remove",
    "max_rows": ROWS,
    "unit": {"column": "person", "max_rows": 2},
}
STEPS: Mapping[str, tuple[Any, str]] = {
    **{step: place for step, place in BEFORE.items() if step != "written down"},
    "registered": (datasets, "uploaded_answer"),
}
EXACT = "10000"


def _order(data_dir: Path) -> Path:
    """Return the file that says before which step to die."""
    return data_dir.parent / "die-before"


def _mortal(step: str, done: Callable[..., Any], order: Path) -> Callable[..., Any]:
    """Return a step that is the death of its process where that has been ordered."""

    def stepped(*arguments: Any, **named: Any) -> Any:
        if order.exists() and order.read_text() == step:
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return done(*arguments, **named)

    return stepped


def _serve(environment: dict[str, str], port: int, log: str) -> None:
    order = _order(Path(environment["RELEASE_DESK_DATA_DIR"]))
    for step, (owner, name) in STEPS.items():
        setattr(owner, name, _mortal(step, getattr(owner, name), order))
    serve(environment, port, log)


class MortalServer(LiveServer):
    """A server that dies before the step that a file names."""

    target = staticmethod(_serve)


class Growing:
    """A data set, and what is known of its versions."""

    def __init__(self, server: LiveServer, *, unit: bool) -> None:
        self.server, self.unit = server, unit
        self._chance = random.Random(5)
        with server.client() as client:
            said = PEOPLE if unit else {}
            made = upload(client, self._batch(), COLUMNS, budget={"epsilon": "1000000"}, **said)
            self.first = str(made["id"])
            self.ids = [self.first]
            self.spent = self._spent(client)
        self.file = self._batch()

    def _batch(self) -> str:
        numbers = (f"{self._chance.uniform(0, 1000):.6f}" for _ in range(ROWS))
        if not self.unit:
            return "x\n" + "\n".join(numbers) + "\n"
        names = (f"p{self._chance.randrange(10**9)}" for _ in range(ROWS))
        lines = (",".join(pair) for pair in zip(names, numbers, strict=True))
        return "person,x\n" + "\n".join(lines) + "\n"

    def extend(self, client: httpx.Client) -> httpx.Response:
        """Ask for the rows of the file as the version after the newest that is known."""
        said = {"max_rows": ROWS} if self.unit else {}
        parts = {"file": ("rows.csv", self.file), "spec": (None, json.dumps(said))}
        return client.post(f"/v1/datasets/{self.ids[-1]}/versions", files=parts)

    def next(self, dataset: str) -> None:
        """Note a version, and make the rows of the one after it."""
        self.ids.append(dataset)
        self.file = self._batch()

    def look(self, client: httpx.Client) -> bool:
        """Check what there is after a death; return whether the version is among it."""
        items = client.get(f"/v1/datasets/{self.first}/versions").json()["items"]
        found = [each["id"] for each in reversed(items)]
        assert found[: len(self.ids)] == self.ids
        assert len(found) - len(self.ids) in (0, 1)
        size = "max_rows" if self.unit else "rows"
        sizes = [client.get(f"/v1/datasets/{each}").json()[size] for each in found]
        assert sizes == [ROWS * (number + 1) for number in range(len(found))]
        assert self._spent(client) == self.spent
        assert client.get("/v1/ledger/verification").json()["ok"] is True
        self._nothing_stray(set(found))
        return len(found) > len(self.ids)

    def _spent(self, client: httpx.Client) -> str:
        return json.dumps(client.get(f"/v1/datasets/{self.first}/budget").json()["epsilon"])

    def _nothing_stray(self, known: set[str]) -> None:
        place = self.server.data_dir
        for folder in ("staging", "datasets", "stale", "lineage"):
            names = {path.name.partition(".")[0] for path in (place / folder).glob("*")}
            assert names - {"key", "index"} <= known, (folder, names - known)


def _death(server: LiveServer, call: Callable[[], httpx.Response]) -> None:
    """Make a request that the server does not outlive."""
    with pytest.raises(httpx.TransportError):
        call()
    server.kill()


@pytest.mark.parametrize(
    ("unit", "steps", "moments"),
    [(False, list(STEPS), 2), (True, ["taken in", "registering"], 1)],
    ids=["rows", "people"],
)
def test_a_version_is_there_whole_or_not_at_all(
    tmp_path: Path, *, unit: bool, steps: list[str], moments: int
) -> None:
    server = MortalServer(tmp_path / "data").start()
    growing, order = Growing(server, unit=unit), _order(tmp_path / "data")
    with server.client() as client:
        started = time.monotonic()
        growing.next(growing.extend(client).json()["id"])
        took_s = time.monotonic() - started
    whole = []
    for point in [*steps, *(took_s * (part + 0.5) / moments for part in range(moments))]:
        with server.client() as client:
            if isinstance(point, str):
                order.write_text(point)
                _death(server, lambda: growing.extend(client))
                assert not order.exists(), "it died of something else"
            else:
                killing = threading.Timer(point, server.kill)
                killing.start()
                with suppress(httpx.TransportError):
                    growing.extend(client)
                killing.join()
        server.start()
        with server.client() as client:
            is_whole = growing.look(client)
            again = growing.extend(client)
            if is_whole:
                assert (again.status_code, again.json()["code"]) == (409, "newer-version")
                newest = client.get(f"/v1/datasets/{growing.first}/versions").json()["items"][0]
                growing.next(newest["id"])
                whole.append(point)
            else:
                assert again.status_code == 201, again.text
                growing.next(again.json()["id"])
    acknowledged = [step for step in steps if step == "registered"]
    assert [point for point in whole if isinstance(point, str)] == acknowledged
    with server.client() as client:
        for dataset in growing.ids[-2:]:
            drawn = release_mean(client, dataset, column="x", epsilon=EXACT, key=dataset)
            assert drawn.status_code == 201, drawn.text
            assert 450 < drawn.json()["value"]["x"] < 550
    server.stop()
    for dataset in growing.ids:
        Vault(tmp_path / "data").open(dataset)
