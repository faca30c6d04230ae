"""Pages in German and French: every text is translated, numbers and times are as written there.

After a text has changed, ``python -m tests.desk.test_languages`` puts the new ones into the
catalogues, without a translation, and takes out those that no page has any more.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import get_args

import httpx
import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po
from jinja2.ext import extract_from_ast
from lxml import html

import app
import mechanisms
from app.desk.controls import CONTROLS, controls_of
from app.desk.declaring import TYPES
from app.desk.pages import audit
from app.desk.questions import summary_of
from app.desk.rendering import environment
from app.domain.ledger import EntryKind
from app.domain.policies import Role
from app.domain.problems import PROBLEMS
from app.domain.releases import ReleaseState
from app.domain.reviews import Decision
from app.services.audit import DECISIONS
from app.services.plans.questions import KINDS
from app.tidy.names import Phrase, marked, words
from app.tidy.rows import CANNOT_BE_SAID
from app.web.languages import (
    LANGUAGES,
    SOURCE,
    language_of,
    local_number,
    localized,
    negotiated,
    sentence,
    translated,
)
from mechanisms.catalog import STATISTICS, offers
from mechanisms.domain import Schema
from mechanisms.estimates import verdicts
from mechanisms.privacy import ONE_ROW, PURE, ZCDP, Adjacency
from tests.contract.service import ADMIN_KEY, Service, ask, make_key, settled, upload
from tests.desk.browsing import Browsing, Page, signed_in, signed_out
from tests.desk.test_public import INVENTED, publish
from tests.said import of_mechanisms, of_refusals
from tests.speed import in_time
from tests.tiers import in_one

APP = Path(app.__file__).parent
MECHANISMS = Path(mechanisms.__file__).parent
TEMPLATES = APP / "desk" / "templates"
CATALOGUES = APP / "web" / "catalogues"
OTHERS = [each for each in LANGUAGES if each != SOURCE]
KEYWORDS = {"marked": None, "worded": None}
"""Whose texts are on pages; those of refusals are found by :mod:`tests.said`."""
HEADER = "# Texts of the pages, by those in English.\n"

PLACES = re.compile(r"%\(\w+\)s|%%")
TAGS = re.compile(r"<[^>]*>")


def of_templates() -> dict[str, str]:
    """Return the marked texts of templates, each with a template that has it."""
    found: dict[str, str] = {}
    for path in sorted(TEMPLATES.glob("*.html")):
        tree = environment().parse(path.read_text("utf-8"))
        for _, _, said in extract_from_ast(tree, ("gettext", "ngettext", "_")):
            for text in said if isinstance(said, tuple) else (said,):
                if isinstance(text, str):
                    found.setdefault(text, path.name)
    return found


def of_modules() -> dict[str, str]:
    """Return the marked texts of modules, each with a module that has it."""
    return {
        text: name
        for folder in (APP, MECHANISMS)
        for name, _, said, _, _ in extract_from_dir(
            folder, [("**.py", "python")], keywords=KEYWORDS
        )
        for text in (said if isinstance(said, tuple) else (said,))
        if text
    }


def names() -> set[str]:
    """Return the names that pages show as words."""
    offered = {str(each.mechanism) for each in offers()}
    enums = {str(each) for kinds in (EntryKind, Role, Adjacency, Decision) for each in kinds}
    states = {str(each) for each in ReleaseState} | {"awaiting_review", "running"}
    others = {"active", "archived", "deleted", "revoked", *get_args(verdicts.Verdict)}
    called = {
        name for each in STATISTICS.values() for some in each.named_by.values()
        for name in some.values()
    }  # fmt: skip
    others |= {*TYPES, "derived", *MEASURES}
    others |= {"records", "rows", "mean of products", "approximate"}
    others |= {CANNOT_BE_SAID, "95% noise interval", "95% confidence interval"}  # of app.tidy
    return (
        {ONE_ROW.words, PURE, ZCDP}
        | called
        | {
            words(each)
            for each in {*KINDS, *audit.KINDS, *DECISIONS, *offered, *enums, *states, *others}
        }
    )


MEASURES = (
    "mean", "median", "sd", "lower_quartile", "upper_quartile", "n", "count", "share", "variance",
    "cumulative_share", "loading", "score_coefficient", "odds_ratio", "rate_ratio", "hazard_ratio",
    "difference in mean", "difference in median", "difference in share", "product", "p_value",
)  # fmt: skip
"""What numbers of answers of several statistics are."""


def of_hints() -> set[str]:
    hints = [hint for each in STATISTICS.values() for hint in each.hints.values()]
    summaries = {summary_of(each).replace("``", "") for each in KINDS}
    said = (
        text
        for hint in hints
        for text in (hint.label, hint.help, *hint.options.values(), *hint.members.values())
    )
    return summaries | choices() | {text for text in said if text}


def choices() -> set[str]:
    """Return the choices of fields that have no name of their own but their words."""
    schema = Schema({}, Adjacency.ADD_REMOVE, rows=None, max_rows=1)
    return {
        str(shown)
        for kind in STATISTICS
        for name in {each.name for each in fields(STATISTICS[kind])} - {*CONTROLS, "kind"}
        for field in controls_of(name, kind, schema)
        for value, shown in field.options
        if isinstance(shown, Phrase)
    }


def of_problems() -> set[str]:
    kinds = PROBLEMS.values()
    return {text for kind in kinds for text in (kind.title, kind.meaning, kind.remedy)}


@cache
def texts() -> set[str]:
    """Return every text that pages show in the reader's language."""
    stated = of_mechanisms(MECHANISMS).keys() | of_refusals(MECHANISMS, APP).keys()
    return {*of_templates(), *of_modules(), *stated, *names(), *of_hints(), *of_problems()}


def catalogue_of(language: str) -> Catalog:
    with (CATALOGUES / f"{language}.po").open("rb") as file:
        return read_po(file, locale=language)


@cache
def translations(language: str) -> Mapping[str, str]:
    return {str(each.id): str(each.string) for each in catalogue_of(language) if each.id}


def test_no_text_of_a_person_takes_long_to_read() -> None:
    """Names and conditions are in sentences, and may have been written to keep a page busy."""
    texts = (re.split(r"%\(\w+\)s", text) for text in translations("de"))
    for first, *parts in sorted(texts, key=len)[-40:]:
        for between in (" ", ". a "):
            text = (first + between.join(parts[:-1]) * 200)[:1_999] + "!"
            begin_s = time.process_time()
            localized(text, "de")
            assert in_time(time.process_time() - begin_s, 0.6), text[:100]


# Catalogues


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_has_a_translation_and_no_other_has_one(language: str) -> None:
    found = translations(language)
    assert [each for each in sorted(texts()) if not found.get(each)] == []
    assert sorted(found.keys() - texts()) == []


@pytest.mark.parametrize("language", OTHERS)
def test_translations_have_the_places_and_tags_of_their_texts(language: str) -> None:
    for text, said in translations(language).items():
        assert sorted(PLACES.findall(said)) == sorted(PLACES.findall(text)), text
        assert sorted(TAGS.findall(said)) == sorted(TAGS.findall(text)), text


def test_no_template_has_a_text_that_is_not_marked() -> None:
    pages = {*TEMPLATES.glob("*.html")} - {TEMPLATES / "components.html"}  # for developers
    assert [each for path in sorted(pages) for each in unmarked(path)] == []


def test_a_text_that_is_not_marked_is_found(tmp_path: Path) -> None:
    """The control: text, an attribute that is read out, and a text of an expression."""
    page = tmp_path / "page.html"
    for text in ("<p>Left over</p>", '<p title="Left over"></p>', "{{ field('a', 'Left over') }}"):
        page.write_text(text)
        assert unmarked(page), text
    page.write_text("{% trans %}<b>Said</b>{% endtrans %} {{ field('a', _('Said')) }} · {{ x }}")
    assert unmarked(page) == []


BLOCK = re.compile(
    r"\{%-?\s*trans\b.*?endtrans\s*-?%\}|\{#.*?#\}|<(pre|script)\b.*?</\1>", re.DOTALL
)
CODE = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
MARKED = re.compile(r"""\b_\((?:'[^']*'|"[^"]*")\)""")
LITERAL = re.compile(r"'([^']*)'")
SPOKEN = re.compile(r"[A-Z][a-z]|[a-z]{2,} [a-z]{2,}")
READ_OUT = re.compile(r'\b(?:title|alt|placeholder|aria-label|data-of)="([^"]*)"')
NO_TEXTS = ("Release Desk", "English")
"""What is the same in every language."""
CLASSES = re.compile(r"""class="[^"]*"|status status-|button quiet""")


def unmarked(path: Path) -> Iterator[str] | list[str]:
    """Return the texts of a template that no catalogue is asked for."""
    source = CLASSES.sub("", MARKED.sub("", BLOCK.sub("", path.read_text("utf-8"))))
    literals = [each for code in CODE.findall(source) for each in LITERAL.findall(code)]
    plain = CODE.sub("", source)
    said = [*literals, *READ_OUT.findall(plain), *TAGS.sub("\n", plain).split("\n")]
    return [
        f"{path.name}: {each.strip()}"
        for each in said
        if SPOKEN.search(each.replace("Release Desk", "")) and each.strip() not in NO_TEXTS
    ]


# Which language


def test_the_address_comes_before_the_choice_and_that_before_the_browser() -> None:
    def of(path: str, query: str = "", cookie: str = "", accepted: str = "") -> str:
        headers = [(b"cookie", cookie.encode()), (b"accept-language", accepted.encode())]
        return language_of(
            {"type": "http", "path": path, "query_string": query.encode(), "headers": headers}
        )

    chosen = "other=1; release-desk-language=fr"
    assert of("/desk", "lang=de", chosen, "en") == "de"
    assert of("/desk", "", chosen, "de") == "fr"
    assert of("/public", "", chosen, "de") == "de"
    assert of("/desk", "lang=xx", "release-desk-language=xx", "pt") == "en"


@in_one(
    ("header", "language"),
    [
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("en-US,en;q=0.9,de;q=0.8", "en"),
        ("pt-BR, fr-CA;q=0.7, *;q=0.1", "fr"),
        ("de;q=0", "en"),
        (",;q=,de;q=2,\x00", "en"),
        ("fr," * 100_000, "fr"),
    ],
)
def test_headers_are_read_as_the_standard_says(header: str, language: str) -> None:
    assert negotiated(header) == language


def test_values_have_their_places_in_a_translated_text() -> None:
    said = marked("Grant epsilon %(epsilon)s?", epsilon="1,000.5")
    assert said == "Grant epsilon 1,000.5?"
    assert isinstance(said, Phrase)
    assert translated(said, "de") == "Epsilon 1.000,5 gewähren?"
    assert translated("no text of ours", "de") == "no text of ours"


# Finished sentences

_LISTS = ("names", "categories")
VALUES = {
    "name": "income (EUR), sex = f: 1", "provider": "the University",
    **dict.fromkeys(_LISTS, "x and y"), "forms": "null",
}  # fmt: skip
"""By places whose values are no numbers."""


@cache
def sentences() -> list[str]:
    """Return the texts that services make sentences of, those of refusals among them."""
    found = {
        text
        for folder in (APP, MECHANISMS)
        for _, _, text, _, _ in extract_from_dir(
            folder, [("**.py", "python")], keywords={"worded": None}
        )
        if isinstance(text, str)
    }
    return sorted(found | of_refusals(MECHANISMS, APP).keys())


@pytest.mark.parametrize("language", OTHERS)
def test_every_sentence_is_found_again_by_its_text(language: str) -> None:
    """With numbers, names and lists of names as values, alone and among others."""
    ands = {"de": "x und y", "fr": "x et y"}
    for text in sentences():
        places = dict.fromkeys(re.findall(r"%\((\w+)\)s", text))
        given = {name: VALUES.get(name, f"{at}.5") for at, name in enumerate(places)}
        shown = {name: local_number(value, language) for name, value in given.items()}
        shown |= {name: ands[language] for name in shown if name in _LISTS}
        sentence = text % given if places else text
        expected = translations(language)[text]
        expected = expected % shown if places else expected
        for english in (sentence, f"Good. {sentence}" if text[0].isupper() else sentence):
            (part,) = localized(english, language)
            assert part.language == language
            assert part.text.removeprefix(f"{translations(language)['Good.']} ") == expected


DERIVED = "this release does not determine that; from it can be derived:"
ABLEITBAR = "diese Freigabe bestimmt das nicht; aus ihr lässt sich ableiten:"


@in_one(
    ("english", "german"),
    [
        ("must be 'keep', 'reject' or 'drop' or a number",
         "muss 'keep', 'reject', 'drop' oder eine Zahl sein"),
        ("must be text or an object", "muss ein Text oder ein Objekt sein"),
        ("must be a number; otherwise it has the wrong form",
         "muss eine Zahl sein; oder: hat die falsche Form"),
        ("unknown field; known: mean and std", "unbekannt (Feld); bekannt sind mean und std"),
        ("must be greater than 0.", "muss größer als 0 sein."),
        ("must be a date in ISO 8601, as text such as 2025-12-31",
         "muss nach ISO 8601 geschrieben sein (Datum), als Text wie 2025-12-31"),
        (f"{DERIVED} mean, std of a, b; count in the same groups of c",
         f"{ABLEITBAR} Mittelwert, Standardabweichung von a, b; Anzahl in denselben Gruppen von c"),
        ('the header is separated by a comma: declare "delimiter": ","',
         'die Kopfzeile ist durch ein Komma getrennt: Geben Sie "delimiter": "," an'),
    ],
)  # fmt: skip
def test_lists_of_what_may_be_are_said_in_the_language(english: str, german: str) -> None:
    (part,) = localized(english, "de")
    assert part == (german, "de")


def test_what_may_be_is_english_where_one_of_it_is_unknown() -> None:
    said = "must be a number or an apple"
    assert localized(said, "de") == ((said, "en"),)
    assert localized(f"{DERIVED} a riddle", "de") == ((f"{ABLEITBAR} a riddle", "de"),)


@in_one(
    ("text", "english", "german"),
    [
        ("is required", "Is required", "Muss ausgefüllt sein"),
        ("is required.", "Is required.", "Muss ausgefüllt sein."),
        ("income is no column (did you mean food?); the columns are a and b", None,
         "income ist keine Spalte (meinten Sie food?); die Spalten sind a und b"),
        ("max_rows is odd", None, None),
        ("quark is odd", None, None),
        ("Good.", None, "Gut."),
        ("", None, None),
        ("unknown field; known: a and b", "Unknown field; known: a and b",
         "Unbekannt (Feld); bekannt sind a und b"),
    ],
)  # fmt: skip
def test_what_stands_alone_begins_with_a_capital_if_a_word_is_ours(
    text: str, english: str | None, german: str | None
) -> None:
    for language, expected in (("en", english), ("de", german)):
        said = " ".join(part.text for part in sentence(text, language))
        assert said == (text if expected is None else expected), language


def test_refusals_of_a_drafted_table_are_in_the_language(curator: Browsing) -> None:
    rows = b"betrag,wahr,tag,pid,doppelt,doppelt,\n" + b"1,ja,2020-01-01,7,1,1,1\n" * 30
    address = "/desk/datasets/new"
    drafted = curator.send(curator.open(address), "Draft", file=("a.csv", rows))
    curator.open("/desk?lang=de")
    page = curator.send(
        curator.open(address), "Entwurf", file=("a.csv", rows),
        dictionary=b"name,label,min\nbetrag,Betrag,0\nalter,Alter,0\n",
    )  # fmt: skip
    assert "Grenzen sind die des Datenwörterbuchs" in page.text
    assert "alter steht im Datenwörterbuch" in page.text
    assert "pid ist ausgelassen" in page.text
    assert "doppelt steht zweimal" in page.text
    assert "Spalte 7 ist ausgelassen" in page.text
    assert left_in_english(page) == ""
    wrong = {f"columns.{at}.missing": "quatsch" for at in range(2)}
    wrong |= {"columns.0.typical": "mean 4"}
    refused = curator.send(page, "Prüfen", status=422, **wrong)
    assert "muss 'keep', 'reject', 'drop' oder eine Zahl sein" in refused.text
    curator.open("/desk?lang=en")
    assert drafted.text != page.text
    left = left_in_english(refused).replace("'std':", "")
    assert not left.strip(), left


def test_a_value_may_have_a_full_stop() -> None:
    said = (
        "Good. Records without a value of No. of rooms or age are left out. Two reviewers decide."
    )
    (part,) = localized(said, "de")
    assert part.text == (
        "Gut. Datensätze ohne einen Wert von No. of rooms oder age sind ausgelassen. "
        "Zwei Prüfer entscheiden."
    )


def test_what_no_text_fits_stays_english_and_is_marked() -> None:
    assert localized("Good. Some <b>text</b> of ours. 1,000 rows are assumed.", "de") == (
        ("Gut.", "de"),
        ("Some <b>text</b> of ours.", "en"),
        ("1.000 Zeilen werden angenommen.", "de"),
    )
    written = environment("de").from_string("{{ text | localized }}")
    assert written.render(text="A <b>. Good.") == '<span lang="en">A &lt;b&gt;.</span> Gut.'
    assert (
        environment("en").from_string("{{ text | localized }}").render(text="Good. x") == "Good. x"
    )
    assert localized("x. " * 2_000, "fr")[0].language == "en"


def test_a_text_is_written_out_where_it_is_said() -> None:
    """In braces of an f-string it is not found by who looks for texts."""
    for folder in (APP, MECHANISMS):
        for path in folder.rglob("*.py"):
            inside = [
                call.func.id
                for each in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(each, ast.JoinedStr)
                for call in ast.walk(each)
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            ]
            assert not {*inside} & {*KEYWORDS}, path


# Pages


@pytest.fixture(scope="module")
def release(admin: httpx.Client) -> str:
    rows = "income,food,region,owner\n" + "40.5,20,north,true\n" * 30 + "80,10,south,false\n" * 30
    dataset = upload(admin, rows, overlap=INVENTED, name="Haushalte")["id"]
    question = {"kind": "mean", "columns": ["income"]}
    found: str = settled(admin, ask(admin, dataset, question, epsilon="0.5")).json()["id"]
    publish(admin, found)
    return found


@pytest.fixture
def chief_abroad(service: Service) -> Iterator[Browsing]:
    """Return the admin in another browser, whose choice no other test sees."""
    with signed_in(service, ADMIN_KEY) as browsing:
        yield browsing


def test_a_language_is_the_persons_and_comes_with_signing_in(
    service: Service, admin: httpx.Client
) -> None:
    key = make_key(admin, "analyst")["secret"]
    with signed_in(service, key) as browsing:
        assert browsing.open("/desk").tree.get("lang") == "en"
        assert browsing.open("/desk?lang=fr").tree.get("lang") == "fr"
    with signed_in(service, key) as elsewhere:
        assert elsewhere.open("/desk/datasets").tree.get("lang") == "fr"
    other = make_key(admin, "analyst")["secret"]
    with signed_in(service, other) as browsing:
        assert browsing.open("/desk").tree.get("lang") == "en"


_NUMBERED = re.compile(
    r"(?i:Satz|Th[eé]or[eè]m\w*|Proposition|Korollar|Corollaire|Lemm[ae]|Section|Abschnitt) [\d.]+"
)
"""Where a paper says something: that is no amount."""


def english_numbers(page: str) -> list[str]:
    """Return the numbers with a point that a page shows outside of times, code and English."""
    tree = html.document_fromstring(page)
    apart = "//time | //code | //pre | //script | //option | //*[@lang='en'] | //*[@class='code']"
    for each in tree.xpath(apart):
        each.getparent().remove(each)
    text = _NUMBERED.sub("", tree.xpath("string(//main)"))
    found = re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", text)
    thousands = re.compile(r"[1-9]\d{0,2}(\.\d{3})+")  # as German writes them
    return [each for each in found if not thousands.fullmatch(each)]


def pages(service: Service, release: str) -> list[str]:
    return [
        "/desk", "/desk/datasets", "/desk/datasets/new", "/desk/releases",
        f"/desk/releases/{release}", "/desk/reviews", "/desk/keys", "/desk/audit",
    ]  # fmt: skip


@pytest.mark.parametrize("language", OTHERS)
def test_pages_of_the_desk_are_in_the_chosen_language(
    service: Service, chief_abroad: Browsing, release: str, language: str
) -> None:
    chief = chief_abroad
    english = {path: chief.open(path) for path in pages(service, release)}
    for path in pages(service, release):
        page = chief.open(f"{path}?lang={language}")
        assert page.tree.get("lang") == page.answer.headers["Content-Language"] == language
        assert english_numbers(page.answer.text) == [], path
        if path not in ("/desk", "/desk/audit"):  # words that are the same in both
            assert page.heading != english[path].heading
    assert chief.open("/desk").tree.get("lang") == language  # as chosen last
    assert chief.open("/desk?lang=en").tree.get("lang") == "en"
    assert chief.open("/desk").heading == english["/desk"].heading


def left_in_english(page: Page) -> str:
    return " ".join(" ".join(each.itertext()) for each in page.tree.xpath("//main//*[@lang='en']"))


def test_what_services_say_is_in_the_chosen_language(
    service: Service, admin: httpx.Client, release: str
) -> None:
    """Verdicts, guarantees, what reviewers read and refusals; of methods the words are English."""
    dataset = upload(admin, policy={"review": "always"}, overlap=INVENTED)["id"]
    asker = make_key(admin, "analyst")["secret"]
    with service.client(asker) as program:
        waiting = ask(program, dataset, epsilon="0.5").json()["id"]
    asked = "statistic=mean&columns=income&wanted=epsilon&epsilon=0.5&act=preview"
    shown = {
        f"/desk/releases/{release}": "Die Daten einer Person zu ersetzen",
        f"/desk/datasets/{dataset}/ask?{asked}": "ein wie großer Unterschied zählt",
        f"/desk/reviews/{waiting}": "höchstens zu 62% sicher. Ein Prüfer",
        f"/public/releases/{release}": "Jede Zahl hat absichtlich Rauschen",
    }
    # a language is the person's, and no other test's
    with signed_in(service, make_key(admin, "admin")["secret"]) as chief:
        for path, words in shown.items():
            page = chief.open(f"{path}{'&' if '?' in path else '?'}lang=de")
            assert words.split(". ")[0] in page.text
            english = left_in_english(page)
            assert not re.search(r"expected error|probability|sure after|reviewed", english), path
        gone = chief.open("/desk/releases/rel_none?lang=de", status=404)
        assert "Eine solche Freigabe gibt es nicht." in gone.text
        assert not left_in_english(gone)
        within = asked.replace("wanted=epsilon", "wanted=accuracy&accuracy=many")
        wrong = chief.open(f"/desk/datasets/{dataset}/ask?{within}&lang=de", status=422)
        assert "muss eine Zahl sein" in wrong.alerts()[0]
        assert left_in_english(wrong) == ""


def test_a_public_page_is_kept_once_for_each_language(service: Service, release: str) -> None:
    with signed_out(service) as visitor:
        path = f"/public/releases/{release}"
        got = {}
        for accepted in ("de-CH", "en", "fr", "de"):
            answer = visitor.client.get(path, headers={"Accept-Language": accepted})
            assert answer.headers["Vary"] == "Accept-Language"
            assert answer.headers["Cache-Control"].startswith("public")
            got[accepted] = (answer.headers["ETag"], answer.headers["Content-Language"])
        assert got["de-CH"] == got["de"]
        assert len(set(got.values())) == 3
        german = visitor.client.get(path, headers={"Accept-Language": "de"})
        same = visitor.client.get(
            path, headers={"Accept-Language": "en", "If-None-Match": german.headers["ETag"]}
        )
        assert same.status_code == 200, "one language's tag is no tag of another's"
        assert "Mittelwert" in german.text
        assert english_numbers(german.text) == []
        assert re.search(r"\d+,\d+", german.text)
        cookie = {"Cookie": "release-desk-language=fr", "Accept-Language": "de"}
        assert visitor.client.get(path, headers=cookie).headers["Content-Language"] == "de"


def test_a_language_in_a_public_address_stays_with_its_links(
    service: Service, release: str
) -> None:
    with signed_out(service) as visitor:
        page = visitor.open("/public?lang=de")
        links = [each for each in page.links().values() if f"/public/releases/{release}" in each]
        assert links == [f"/public/releases/{release}?lang=de"]
        shown = visitor.open(links[0])
        assert shown.tree.get("lang") == "de"
        assert shown.links()["Zertifikat"].endswith("/certificate?lang=de")
        assert "set-cookie" not in shown.answer.headers
        assert shown.links()["English"] == f"/public/releases/{release}?lang=en"


def test_files_and_programs_get_the_same_in_every_language(service: Service, release: str) -> None:
    with signed_out(service) as visitor:
        for ending in (".json", ".csv", ".bib", ".txt", "/chart.svg"):
            path = f"/public/releases/{release}{ending}"
            of = [
                visitor.client.get(path, headers={"Accept-Language": each}).content
                for each in ("en", "de")
            ]
            assert of[0] == of[1], ending


def refresh() -> None:
    """Put new texts into the catalogues, and take out those of no page."""
    for language in OTHERS:
        known = translations(language)
        made = Catalog(locale=language, header_comment=HEADER, fuzzy=False, domain="pages")
        for text in sorted(texts()):
            made.add(text, known.get(text, ""))
        with (CATALOGUES / f"{language}.po").open("wb") as file:
            write_po(file, made, width=0, omit_header=True)


if __name__ == "__main__":
    refresh()
