"""The same people get one budget, into however many uploads they are divided."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.contract.service import Service, assert_problem, make_key, send_upload, spec, upload
from tests.contract.test_lineage import COLUMNS, people
from tests.contract.test_versions import extend, extended


@pytest.mark.parametrize("unit", [None, {"column": "id", "max_rows": 1}])
@pytest.mark.parametrize("how", ["extend", "attach"])
def test_people_of_another_account_are_counted_over_all_uploads(
    admin: httpx.Client, curator: httpx.Client, unit: dict[str, Any] | None, how: str
) -> None:
    """Four of another account's people in each file of 20 were too few for each file alone."""
    case = f"{how} {unit is not None}"
    declared: dict[str, Any] = {"columns": COLUMNS}
    if unit is not None:
        declared |= {"adjacency": "add_remove", "max_rows": 5_000, "unit": unit}
    room = {} if unit is None else {"max_rows": 100}

    def named(seed: int, rows: int) -> list[str]:
        own = people(f"{case} {seed}", rows)
        return [f"{case} {seed} {at},{row}" for at, row in enumerate(own)]

    def content(rows: list[str]) -> str:
        return "\n".join(["id,income,food", *rows]) + "\n"

    victims = named(1, 100)
    # theirs came in several versions, too
    theirs = upload(admin, content(victims[:50]), **declared)
    extended(admin, theirs["id"], content(victims[50:]), **room)
    mine = upload(curator, content(named(2, 60)), **declared)

    def add(rows: list[str]) -> httpx.Response:
        if how == "extend":
            return extend(curator, mine["id"], content(rows), **room)
        changes = {"account": mine["account"], "budget": None, "name": rows[0]}
        return send_upload(curator, content(rows), spec(**declared | changes))

    taken = []
    for at in range(4):
        answer = add(victims[at::25] + named(10 + at, 16))
        if answer.status_code != 201:
            break
        taken.append(answer)
        mine = answer.json()
    assert len(taken) == 1, "4 of 20 are too few to show an overlap, 8 of 40 are not"
    refused = assert_problem(answer, 409, "overlapping-dataset")
    assert refused["account"] == theirs["account"]
    # people who are in no other account are added as before
    assert add(named(30, 20)).status_code == 201


@pytest.mark.wide
@pytest.mark.parametrize("unit", [None, {"column": "id", "max_rows": 1}])
def test_fifty_extensions_by_each_of_two_accounts_who_go_on_after_refusals(
    service: Service, admin: httpx.Client, unit: dict[str, Any] | None
) -> None:
    """Files of 20 rows, 4 of them people of the other account: at most a tenth of it comes in.

    What is refused is sent again without them, which makes room for people who come later.
    """
    declared: dict[str, Any] = {"columns": COLUMNS}
    if unit is not None:
        declared |= {"adjacency": "add_remove", "max_rows": 5_000, "unit": unit}
    room = {} if unit is None else {"max_rows": 30}
    case = f"fifty {unit is not None}"

    def named(seed: str, rows: int) -> list[str]:
        own = people(f"{case} {seed}", rows)
        return [f"{case} {seed} {at},{row}" for at, row in enumerate(own)]

    def content(rows: list[str]) -> str:
        return "\n".join(["id,income,food", *rows]) + "\n"

    with (
        service.client(make_key(admin, "curator")["secret"]) as one,
        service.client(make_key(admin, "curator")["secret"]) as two,
    ):
        clients = {"victims": one, "attackers": two}
        first = {"victims": named("victims", 400), "attackers": named("attackers", 60)}
        ids = {who: upload(clients[who], content(first[who]), **declared)["id"] for who in clients}
        rows = {who: len(first[who]) for who in clients}
        again, refused = dict.fromkeys(clients, 0), dict.fromkeys(clients, 0)
        barred: set[str] = set()

        def add(who: str, new: list[str]) -> bool:
            answer = extend(clients[who], ids[who], content(new), **room)
            if answer.status_code == 201:
                ids[who], rows[who] = answer.json()["id"], rows[who] + len(new)
                return True
            if answer.status_code == 429:  # refused too often: no more for a day
                assert_problem(answer, 429, "too-many-overlaps")
                barred.add(who)
            else:
                assert_problem(answer, 409, "overlapping-dataset")
            return False

        for turn in range(50):
            for who, other in {"victims": "attackers", "attackers": "victims"}.items():
                known = first[other][4 * turn : 4 * turn + 4]
                own = named(f"{who} {turn}", 20)
                if add(who, known + own[:16]):
                    again[who] += len(known)
                    continue
                refused[who] += 1
                # people who are in no other account are added as before
                assert add(who, own) or who in barred
    for who in clients:
        # Fewer than OTHERS.common people show no overlap, and a tenth is what the rule leaves.
        assert again[who] <= 4 + min(rows.values()) // 10, (again, rows, refused)
    assert refused["attackers"] >= 40, "four of five are refused"
    assert "attackers" in barred
