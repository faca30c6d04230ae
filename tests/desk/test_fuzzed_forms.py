"""No form of the desk fails, however it is filled in."""

from __future__ import annotations

import itertools

import httpx
import pytest

from tests.contract.service import ADMIN_KEY, running
from tests.desk.browsing import Browsing, person, signed_in
from tests.desk.fuzzing import World, case_of, failures

_QUICK, _SLOW, _LONG = 80, 1_000, 10_000


def test_no_form_fails(admin: httpx.Client, chief: Browsing, curator: Browsing) -> None:
    assert not failures(World(admin, chief, curator), range(_QUICK))


@pytest.mark.parametrize(
    "posts",
    [
        pytest.param(150, marks=pytest.mark.slow),
        pytest.param(_SLOW, marks=[pytest.mark.slow, pytest.mark.wide, pytest.mark.timeout(900)]),
        pytest.param(_LONG, marks=[pytest.mark.long, pytest.mark.timeout(3_600)]),
    ],
)
def test_no_form_fails_in_many_posts(tmp_path_factory: pytest.TempPathFactory, posts: int) -> None:
    with (
        running(tmp_path_factory.mktemp("fuzzed") / "data") as service,
        service.client() as admin,
        signed_in(service, ADMIN_KEY) as chief,
        person(service, admin, "curator") as curator,
    ):
        world = World(admin, chief, curator)
        forms = world.forms()
        places = (at for at in itertools.count() if case_of(at, forms)[1].method == "POST")
        assert not failures(world, itertools.islice(places, posts))
