"""Names of persons: one spelling of each, and no two that look alike."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.access import Span
from app.domain.policies import Role
from app.domain.problems import Problem
from app.services.people.keys import (
    Caller,
    KeyService,
    NewKey,
    duplicates_of,
    require_no_duplicate,
    secret_hash,
    spelled,
)
from tests.app.callers import register
from tests.app.ledgers import Place, opened

ADA = Caller(key="key_1", person="ada's admin", role=Role.ADMIN)
BOB = Caller(key="key_2", person="bob's admin", role=Role.ADMIN)
CYRILLIC_A = "\N{CYRILLIC CAPITAL LETTER A}"
ALIKE = (
    "ada",
    "ADA",
    f"{CYRILLIC_A}da",
    "Ad\N{CYRILLIC SMALL LETTER A}",
    "\N{GREEK CAPITAL LETTER ALPHA}da",
    "\N{CHEROKEE LETTER GO}da",
)
SAME = (" Ada", "Ada ", "\u3000Ada", "\uff21da", "\N{MATHEMATICAL BOLD CAPITAL A}da", "Ada\n")


@pytest.mark.parametrize("name", SAME)
def test_a_name_has_one_spelling(name: str) -> None:
    assert spelled(name) == "Ada"
    assert spelled(f"{name.rstrip(chr(10))}   Lovelace") == "Ada Lovelace"
    assert spelled("Ange\u0301le  McKAY") == "Ang\u00e9le McKAY"


@pytest.mark.parametrize(
    "name",
    [
        " ", "\u3000", "A\u200bda", "Ada\N{SOFT HYPHEN}", "Ada\ufe0f", "\N{HANGUL FILLER}",
        "Ada\u202eadA", "Ad\u034fa", "Ada\N{MUSICAL SYMBOL NULL NOTEHEAD}", "Ad\ufffca",
        "Ada\N{KHITAN SMALL SCRIPT FILLER}", "A\N{DUPLOYAN THICK LETTER SELECTOR}da",
        "Ad\N{BRAHMI NUMBER JOINER}a", "Ad\N{TIFINAGH CONSONANT JOINER}a",
        "Ad\N{SOYOMBO SUBJOINER}a", "Ad\N{ZANABAZAR SQUARE SUBJOINER}a",
        "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 6,
    ],
)  # fmt: skip
def test_a_name_can_be_seen(name: str) -> None:
    with pytest.raises(Problem) as refused:
        spelled(name)
    assert refused.value.code == "invalid-request"


@pytest.mark.parametrize("name", ALIKE)
def test_names_that_look_alike_are_refused(name: str) -> None:
    with pytest.raises(Problem) as refused:
        require_no_duplicate(name, ["Bob", "Ada"])
    assert refused.value.code == "name-confusable"
    assert refused.value.extras == {"person": "Ada"}
    assert duplicates_of(["Ada", "Bob", name]) == {"Ada": [name], name: ["Ada"]}


@pytest.mark.parametrize(
    "pair",
    [("modern", "modem"), ("lab 1", "lab I"), ("B0b", "Bob"), ("ROOT", "R00T"), ("Ada", "Ada ")],
)
def test_so_are_letters_of_one_script(pair: tuple[str, str]) -> None:
    assert set(duplicates_of(pair)) == set(pair)


def test_different_names_stay_different() -> None:
    """Real names, capitals next to small letters, accents, numbers, and other scripts."""
    different = [
        "Ada", "Ida", "Ian", "Lan", "Jose", "Jos\u00e9", "Ada #2", "Ada #3", "Adam", "A. da",
        "\u0410\u0434\u0430", "\u0395\u03bb\u03ad\u03bd\u03b7", "\u674e\u660e", "\u738b\u660e",
        "\u0641\u0627\u0637\u0645\u0629", "\u0e2a\u0e21\u0e0a\u0e32\u0e22", "Muller", "M\u00fcller",
        *(f"analyst {number}" for number in range(200)),
    ]  # fmt: skip
    assert duplicates_of(different) == {}


@pytest.mark.parametrize("own", ["s\N{CYRILLIC SMALL LETTER U}stem", "SY\u017fTEM"])
def test_nobody_looks_like_the_service(own: str) -> None:
    with pytest.raises(Problem, match="invalid-request"):
        require_no_duplicate(spelled(own), [])


async def make(
    keys: KeyService, name: str, *, caller: Caller = ADA, person: str | None = None
) -> NewKey:
    return await keys.create(
        name=name, role=Role.CURATOR, expires=None, caller=caller, person=person
    )


def test_a_new_person_is_no_duplicate(place: Place) -> None:
    """And the same admin's other spelling is the same person, who reviews no own request."""
    with opened(place) as ledger:
        register(ledger.store, ADA, BOB)
        keys = KeyService(ledger.store)

        async def scenario() -> None:
            ada = await make(keys, "Ada")
            for same in SAME:
                assert (await make(keys, same)).record.person == ada.record.person == "Ada"
            for name in ALIKE:
                for caller in (ADA, BOB):
                    with pytest.raises(Problem, match="name-confusable"):
                        await make(keys, name, caller=caller)
            # whoever the key is for, it may be called anything
            given = await make(keys, "ada", person="Ada")
            assert given.record.person == (await make(keys, "x", person="Ada ")).record.person
            # another admin's person of the same name is distinguished by a number
            assert (await make(keys, " Ada ", caller=BOB)).record.person == "Ada #2"
            with pytest.raises(Problem, match="name-confusable"):
                await make(keys, "ADA #2", caller=BOB)

        asyncio.run(scenario())
        assert {known.record.person for known in keys.list(Span(limit=100))} == {
            ADA.person,
            BOB.person,
            "Ada",
            "Ada #2",
        }
        assert ledger.store.verify().ok


def test_duplicates_of_earlier_versions_are_listed(place: Place) -> None:
    """They go on as they are, are named exactly, and leave the list when their keys are revoked."""
    with opened(place) as ledger:
        for number, person in enumerate(("Ada", "Ada ", f"{CYRILLIC_A}da", "Bob")):
            digest = secret_hash(str(number).encode())
            ledger.store.write(
                lambda work, person=person, digest=digest: work.keys.insert(
                    name=person, role=Role.ANALYST, person=person, secret_hash=digest,
                    expires_at=None, principal=ADA.person,
                )
            )  # fmt: skip
        register(ledger.store, ADA)
        keys = KeyService(ledger.store)

        def listed() -> dict[str, list[str]]:
            return {each.record.person: [*each.duplicates] for each in keys.list(Span(limit=9))}

        duplicates = {"Ada": ["Ada ", f"{CYRILLIC_A}da"], "Ada ": ["Ada", f"{CYRILLIC_A}da"]}
        assert listed() == duplicates | {
            ADA.person: [],
            f"{CYRILLIC_A}da": ["Ada", "Ada "],
            "Bob": [],
        }

        async def mend() -> None:
            exact = await make(keys, "other", person="Ada ")
            assert (exact.record.person, [*exact.duplicates]) == ("Ada ", duplicates["Ada "])
            for known in keys.list(Span(limit=9)):
                if known.record.person not in ("Ada", "Bob", ADA.person):
                    await keys.revoke(known.record.id, caller=ADA)

        asyncio.run(mend())
        assert all(not each for each in listed().values())
