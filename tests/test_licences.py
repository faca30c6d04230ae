"""The page of licences tells of every package that is shipped, and of no other."""

from __future__ import annotations

from tests.licences import PAGE, TABLE, licence_of, locked, shipped, table
from tests.tiers import in_one


def rows() -> list[str]:
    found = TABLE.search(PAGE.read_text("utf-8"))
    assert found is not None
    return found[2].splitlines()


def test_the_page_tells_of_all_that_is_shipped() -> None:
    """A newer Python may need a package less."""
    assert set(table().splitlines()) <= set(rows()), "run: python -m tests.licences"


def test_the_page_tells_of_nothing_else() -> None:
    names = {row.split()[1] for row in rows()[2:]}
    assert names <= locked(), "run: python -m tests.licences"
    assert set(shipped()) <= locked()
    assert len(names) > 25


@in_one("name", shipped())
def test_what_shares_alike_is_explained(name: str) -> None:
    """Permissive licences ask for their text alone; of others the page says what they ask for."""
    if any(word in licence_of(name) for word in ("GPL", "MPL", "EPL")):
        assert f"`{name}`" in PAGE.read_text("utf-8").partition("<!-- licences -->")[0]


def test_what_is_under_the_lgpl_is_found() -> None:
    under = {name for name in shipped() if "LGPL" in licence_of(name)}
    assert {"psycopg", "psycopg-binary", "python-flint"} <= under
