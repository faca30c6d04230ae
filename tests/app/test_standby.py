"""A hot standby serves what is public: behind the ledger's own server, and never needed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.app.clusters import Cluster, cluster
from tests.contract.service import Service, ask, running, upload

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

LONGEST_S = 60


@contextmanager
def following(place: Path) -> Iterator[tuple[Cluster, str, Service]]:
    with cluster() as leader:
        standby = leader.add_standby().replace("{database}", "postgres")
        with running(place, database_url=leader.url("postgres"), replica_url=standby) as service:
            yield leader, standby, service


def caught_up(leader: Cluster, standby: str) -> None:
    """Wait until the standby has all that the leader has."""
    deadline = time.monotonic() + LONGEST_S
    with psycopg.connect(leader.url("postgres"), autocommit=True) as db:
        (there,) = db.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("",)
    with psycopg.connect(standby, autocommit=True) as db:
        query = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        while db.execute(query, (there,)).fetchone() != (True,):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def published(admin: httpx.Client) -> str:
    release = str(ask(admin, upload(admin)["id"]).json()["id"])
    made = admin.post(
        f"/v1/releases/{release}/publication", json={"reason": "r"}, headers={"If-Match": "*"}
    )
    assert made.status_code == 201, made.text
    return release


def state_of(service: Service) -> str:
    return str(httpx.get(f"{service.url}/readyz").json()["replica"])


def test_public_pages_come_from_a_standby_that_may_be_behind(tmp_path: Path) -> None:
    with following(tmp_path / "data") as (leader, standby, service), service.client() as admin:
        first = published(admin)
        caught_up(leader, standby)
        assert state_of(service) == "read"
        page = f"{service.url}/public/releases/{first}"
        assert httpx.get(page, verify=False).status_code == 200
        with psycopg.connect(standby, autocommit=True) as db:
            db.execute("SELECT pg_wal_replay_pause()")
            withdrawal = f"/v1/releases/{first}/publication/withdrawal"
            assert admin.post(withdrawal, json={"note": "wrong"}).status_code == 200
            later = published(admin)

            assert httpx.get(page, verify=False).status_code == 200, (
                "so far behind may a standby be"
            )
            found = httpx.get(f"{service.url}/public/releases.json").json()["items"]
            assert [each["release"] for each in found] == [first]
            mine = admin.get(f"/v1/releases/{first}/publication").json()
            assert mine["withdrawn_by"] is not None, "who has a key reads the ledger itself"
            # what the standby has not got yet is read of the leader, with its proof
            document = httpx.get(f"{service.url}/public/releases/{later}.json").json()
            assert document["proof"]["checkpoint"]
            db.execute("SELECT pg_wal_replay_resume()")
        caught_up(leader, standby)
        # what is public is looked at again a second after the last time
        deadline = time.monotonic() + LONGEST_S
        while (
            answer := httpx.get(page, verify=False).status_code
        ) == 200 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert answer == 410
        leader.stop_standby()
        assert httpx.get(page, verify=False).status_code == 410
        assert httpx.get(f"{service.url}/public/releases/{later}").status_code == 200
        assert state_of(service) == "away"
