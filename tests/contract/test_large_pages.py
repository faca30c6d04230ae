"""A list of large answers comes in pages of bounded bytes, and the client goes on to the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.api.answers.paging import MOST_BYTES
from app.client import ReleaseDesk
from app.places import open_store
from app.settings import Settings
from app.store import Debit, Finish
from tests.contract.service import ADMIN_KEY, MEAN, Service, ask, running, upload

LARGE = 12
PAD = 1_250_000


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with an answered release, and twelve copies with a large answer."""
    found = tmp_path_factory.mktemp("large") / "data"
    with running(found) as service, service.client() as client:
        assert ask(client, str(upload(client)["id"]), MEAN).status_code == 201
    store = open_store(Settings(data_dir=found))
    try:
        with store.reading() as reader:
            (small,) = reader.releases.list()

        for number in range(LARGE):
            charge = Debit(
                amount=1, dataset=small.dataset, idem=f"large {number}",
                principal=small.principal, request=small.request, plan=small.plan,
            )  # fmt: skip
            made = store.write(charge).record.id
            answer = {**json.loads(small.result or b""), "id": made, "reason": "x" * PAD}
            store.write(Finish(release=made, result=json.dumps(answer).encode()))
    finally:
        store.close()
    return found


@pytest.fixture(scope="module")
def large(data_dir: Path) -> Iterator[Service]:
    with running(data_dir) as found:
        yield found


@pytest.mark.wide
def test_a_page_is_bounded_in_bytes_and_next_leads_to_the_rest(large: Service) -> None:
    seen, cursor = [], None
    with large.client() as client:
        while True:
            params = {"limit": "200"} if cursor is None else {"limit": "200", "cursor": cursor}
            answer = client.get("/v1/releases", params=params)
            assert answer.status_code == 200
            assert len(answer.content) <= MOST_BYTES + 1000
            page = answer.json()
            assert page["items"]
            seen += [item["id"] for item in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
    assert len(seen) == len(set(seen)) == LARGE + 1


def test_a_single_answer_larger_than_a_page_is_shown_alone(
    large: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.endpoints.releases.MOST_BYTES", 1000)
    with large.client() as client:
        page = client.get("/v1/releases").json()
        assert len(page["items"]) == 1
        assert len(page["items"][0]["reason"]) == PAD
        assert page["next"] is not None


def test_the_client_goes_on_until_there_is_no_more(large: Service) -> None:
    with ReleaseDesk(large.url, ADMIN_KEY) as desk:
        ids = [release.id for release in desk.releases()]
    assert len(ids) == len(set(ids)) == LARGE + 1


@pytest.mark.wide
def test_a_page_of_data_sets_is_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.endpoints.datasets.MOST_BYTES", 30_000)
    with running(tmp_path / "data") as service, service.client() as client:
        names = []
        for number in range(4):
            wide = {"c": {"type": "category", "values": ["é" * 20 + str(i) for i in range(300)]}}
            rows = "c\n" + wide["c"]["values"][number] + "\n"
            names.append(upload(client, rows, columns=wide, name=f"{number}")["name"])
        seen, cursor = [], None
        while True:
            params = {"limit": "200"} if cursor is None else {"limit": "200", "cursor": cursor}
            answer = client.get("/v1/datasets", params=params)
            page = answer.json()
            assert len(page["items"]) == 1
            seen += [item["name"] for item in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert seen == names[::-1]
        monkeypatch.setattr("app.api.endpoints.datasets.MOST_BYTES", 10**7)
        assert len(client.get("/v1/datasets").json()["items"]) == 4
