"""In which language a page is shown, and its texts, numbers and times in that language.

English is the language of the sources: a text is its own key. The other languages are catalogues
(gettext) next to this file, ``catalogues/<language>.po``, read once. A text that a catalogue lacks
is shown in English; a test sees to it that none does.

The language is the one that the address names (``?lang=de``), else, at the desk, the one that the
visitor chose last (a cookie), else the best of ``Accept-Language``. Public pages look at no cookie:
a cache in front of the service that keeps them by address and ``Accept-Language`` is right.

Only screens have a language. Programs, exports and files get the same whatever the language is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from html import escape, unescape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

from babel import Locale
from babel.dates import format_date, format_time
from babel.messages.pofile import read_po
from babel.numbers import get_decimal_symbol, get_group_symbol
from starlette.datastructures import Headers
from starlette.types import Scope

from app.tidy.names import Phrase, marked, words

SOURCE = "en"
LANGUAGES: Mapping[str, str] = {"en": "English", "de": "Deutsch", "fr": "Français"}
"""The languages of the pages, each by its own name."""
PARAMETER = "lang"
COOKIE = "release-desk-language"

_CATALOGUES = Path(__file__).parent / "catalogues"
_LONGEST = 1_000
"""Letters of a header that are looked at: no one has more languages."""
_PREFERENCE = re.compile(
    r"\s*([A-Za-z]{1,8}|\*)(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q=([01](?:\.\d{0,3})?))?\s*"
)
_NUMBER = re.compile(r"[-+±−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?%?", re.ASCII)
_IN_TEXT = re.compile(rf"(?<![\w.,:/-]){_NUMBER.pattern}(?![\w/-]|[.,:]\d)", re.ASCII)
_NAME = re.compile(r'\baria-label="([^"]*)"')
_TEXT_NODE = re.compile(r">([^<>]+)<")
_PLACE = re.compile(r"%\((\w+)\)s")
_END = re.compile(r"(?<=[.:;?!]) | (?=\((?:did you mean|at character) )")
"""Where a sentence ends, or a refusal without what is added to it (:mod:`mechanisms.words`)."""
_LONGEST_TEXT = 2_000
_LONGEST_VALUE = 400
"""Letters of a value that is read as sentences, too: a longer one is no text of ours."""
_MOST_JOINED = 12
"""Sentences, or what looks like some, that one text may be: a value in it may have a full stop."""
_MOST_ENDS = 60
"""Ends of sentences that are looked at in one text: the rest is read as one sentence."""
_LONGEST_WORD = 40
_FEWEST_LETTERS = 12
"""A text of fewer that is no sentence would fit those that were made of another one."""


def language_of(scope: Scope) -> str:
    """Return the language of the page that a request asks for."""
    query = bytes(scope.get("query_string", b"")).decode("latin-1")
    if PARAMETER in query:
        asked = parse_qs(query, max_num_fields=None).get(PARAMETER, [""])[-1]
        if asked in LANGUAGES:
            return asked
    headers = Headers(scope=scope)
    if scope["path"].startswith("/desk") and COOKIE in (sent := headers.get("cookie", "")):
        chosen = _cookie(sent)
        if chosen in LANGUAGES:
            return chosen
    return negotiated(headers.get("accept-language", ""))


def _cookie(header: str) -> str:
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def negotiated(header: str) -> str:
    """Return the language that a header ``Accept-Language`` prefers (RFC 9110 12.5.4).

    >>> negotiated("de-CH, fr;q=0.9, en;q=0.8"), negotiated("it, fr;q=0.5"), negotiated("")
    ('de', 'fr', 'en')
    >>> negotiated("de;q=0, *"), negotiated("en;q=0.5, de;q=0.5"), negotiated("no sense; at all")
    ('en', 'en', 'en')
    """
    best, highest = SOURCE, 0.0
    for part in header[:_LONGEST].split(","):
        found = _PREFERENCE.fullmatch(part)
        if found is None:
            continue
        language, weight = found[1].lower(), float(found[2] or 1)
        if language in LANGUAGES and weight > highest:
            best, highest = language, weight
    return best


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Return the texts of a language by those in English."""
    if language == SOURCE:
        return {}
    with (_CATALOGUES / f"{language}.po").open("rb") as file:
        found = read_po(file, locale=language)
    return {str(each.id): str(each.string) for each in found if each.id and each.string}


def translated(text: str, language: str) -> str:
    """Return a text in a language, or as it is where the catalogue lacks it."""
    if not isinstance(text, Phrase):
        return catalogue(language).get(text, text)
    found = catalogue(language).get(text.text, text.text)
    values = {name: _of(name, each, language) for name, each in text.values.items()}
    said = found % values if values else found
    return f"{said[:1].upper()}{said[1:]}" if text.capital else said


# Finished sentences, found again by their texts


class Part(NamedTuple):
    """A part of a text, and the language it is in."""

    text: str
    language: str


def localized(text: str, language: str) -> Sequence[Part]:
    """Return the sentences of a finished English text in a language, as far as it is known.

    Services make sentences of texts with places (:func:`mechanisms.words.worded`). Answers, also
    those that were stored, have them as they read. Each is found by the text that fits, and said in
    the other language with the same values. What no text fits stays English.
    """
    if language == SOURCE or not text:
        return (Part(text, SOURCE),)
    if isinstance(text, Phrase):
        return (Part(translated(text, language), language),)
    return _localized(text[:_LONGEST_TEXT], language) + (
        (Part(text[_LONGEST_TEXT:], SOURCE),) if len(text) > _LONGEST_TEXT else ()
    )


def sentence(text: str, language: str) -> Sequence[Part]:
    """Return what :func:`localized` returns of a text that stands alone: it begins with a capital.

    A value at the beginning, such as a column's name, stays as it is: a capital is that of a word
    of ours, in English and in the language.
    """
    parts = localized(text, language)
    if not parts or not _begins_with_word(text, language):
        return parts
    first, *rest = parts
    return (Part(first.text[:1].upper() + first.text[1:], first.language), *rest)


_BEGINNING = re.compile(r"[^\W\d_A-Z]+(?=[ ,:;.]|$)")
"""A word without a capital. What has a line or a point in it may be a field's name."""


@lru_cache(maxsize=2_000)
def _begins_with_word(text: str, language: str) -> bool:
    """Return whether a text begins with a word of ours, as it is said in a language, too.

    Texts of ours are the same in all catalogues, so that of any language says so of English.
    """
    if _BEGINNING.match(text) is None:
        return False
    known = language if language != SOURCE else next(each for each in LANGUAGES if each != SOURCE)
    ends = [*[found.end() for found in _END.finditer(text[:_LONGEST_TEXT])][:_MOST_JOINED], None]
    for end in ends:
        said = text[:end].rstrip()
        for each in (said, said[:-1] if said[-1:] in _ENDINGS else said):
            if each in catalogue(known):
                return True
            for pattern in _fitting(each, known):
                begins = pattern.parts[0] if language == SOURCE else pattern.said
                return bool(pattern.parts[0]) and _BEGINNING.match(begins) is not None
    return False


@lru_cache(maxsize=2_000)
def _localized(text: str, language: str) -> tuple[Part, ...]:
    """Return the best reading: as little English as possible, then the most letters of texts.

    A value with a full stop in it counts as a letter of English.
    """
    ends = [*[found.end() for found in _END.finditer(text)][:_MOST_ENDS], len(text)]
    starts = [0, *ends[:-1]]
    best: dict[int, tuple[int, int, tuple[Part, ...]]] = {len(text): (0, 0, ())}
    for at, start in reversed([*enumerate(starts)]):
        readings = []
        for step, end in enumerate(ends[at : at + _MOST_JOINED]):
            sentence = text[start:end].rstrip()
            found = _found(sentence, language)
            unknown, letters, rest = best[end]
            if found is not None:
                said, own, english = found
                parts = (Part(said, language), *rest)
                readings.append((unknown + english, letters - own, parts))
            elif not step:
                readings.append((unknown + len(sentence), letters, (Part(sentence, SOURCE), *rest)))
        best[start] = min(readings, key=lambda each: each[:2])
    return _joined(best[0][2])


def _joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return parts of which no two neighbours have one language."""
    return tuple(
        Part(" ".join(each.text for each in same), language)
        for language, same in groupby(parts, key=lambda each: each.language)
    )


def _found(sentence: str, language: str) -> tuple[str, int, int] | None:
    """Return a sentence in a language, the letters of its text, and those that stay English.

    A text fits with its full stop, semicolon or colon or without it. None if no text fits.
    """
    found = _as_it_is(sentence, language)
    if sentence[-1:] not in _ENDINGS:
        return found
    inner = _as_it_is(sentence[:-1], language)
    if inner is None or (found is not None and found[1] > inner[1]):
        return found  # else a value at the end has taken the full stop
    space = _BEFORE_ENDINGS.get(language, "") if sentence[-1] != "." else ""
    return f"{inner[0]}{space}{sentence[-1]}", inner[1], inner[2]


_ENDINGS = (".", ";", ":")
_BEFORE_ENDINGS = {"fr": "\u202f"}


def _as_it_is(sentence: str, language: str) -> tuple[str, int, int] | None:
    whole = catalogue(language).get(sentence)
    if whole is not None:
        return whole, len(sentence), 0
    for each in _fitting(sentence, language):
        values = each.values_in(sentence) or {}
        own = {name: _of(name, value, language) for name, value in values.items()}
        unknown = sum(". " in value for value in values.values())
        unknown += _unknown_in(values.get("kinds", ""), language)
        return each.said % own, each.letters, unknown
    return None


def _fitting(sentence: str, language: str) -> Iterator[_Pattern]:
    """Yield the texts with places that a sentence fits, those of most letters first."""
    patterns = _patterns(language)
    for each in patterns.get(_first_word(sentence), patterns[""]):
        values = each.values_in(sentence)
        if values is not None and (_FORMS not in values or _are_forms(values[_FORMS], language)):
            yield each


def _of(name: str, value: str, language: str) -> str:
    """Return a value as a language writes it: a text, a number, or a list of names or texts."""
    if name in _WITHIN:
        return _WITHIN[name](value, language)
    if isinstance(value, Phrase):
        return translated(value, language)
    if name in _SAID and len(value) <= _LONGEST_VALUE:
        return local_number(" ".join(part.text for part in localized(value, language)), language)
    return _list_of(name, value, language) if name in _LISTED else local_number(value, language)


def _unknown_in(kinds: str, language: str) -> int:
    """Return how many of a list of kinds have no text in a language."""
    each = re.split(r", | and | or ", kinds) if kinds else ()
    return sum(kind not in catalogue(language) for kind in each)


def _list_of(name: str, value: str, language: str) -> str:
    each = _LISTED[name]
    for word, text in _LISTS.items():
        first, found, last = value.rpartition(word)
        if found:
            before = ", ".join(each(one, language) for one in first.split(", "))
            return translated(text, language) % {"first": before, "last": each(last, language)}
    return each(value, language)


_FORMS = "forms"
"""The place of a list of texts or of quoted choices, such as ``'keep' or a number``.

A text with one fits where each of them is known, so it needs few letters of its own.
"""
_BETWEEN = re.compile(r", | or ")
_CHOICE = re.compile(r"'[^']*'")
_MOST_FORMS = 40


def _are_forms(value: str, language: str) -> bool:
    return all(said is not None for said in _read_forms(value, language).values())


def _forms_of(value: str, language: str) -> str:
    *first, last = (said or form for form, said in _read_forms(value, language).items())
    if not first or " or " not in value:
        return ", ".join([*first, last])
    ends = {"first": ", ".join(first), "last": last}
    return translated(_LISTS[" or "], language) % ends


def _read_forms(value: str, language: str) -> Mapping[str, str | None]:
    """Return each form of a list in a language; a form may have commas or an "or" of its own."""
    ends = [*[found.start() for found in _BETWEEN.finditer(value)][:_MOST_FORMS], len(value)]
    found: dict[str, str | None] = {}
    start = 0
    while start < len(value):
        after = [end for end in ends if end > start]
        readings = ((end, _form(value[start:end], language)) for end in reversed(after))
        end, said = next((each for each in readings if each[1] is not None), (after[0], None))
        found[value[start:end]] = said
        between = _BETWEEN.match(value, end)
        start = len(value) if between is None else between.end()
    return found


_DERIVED = (
    marked("%(forms)s under the same conditions in the same groups of %(names)s"),
    marked("%(forms)s under the same conditions of %(names)s"),
    marked("%(forms)s in the same groups of %(names)s"),
    marked("%(forms)s of %(names)s"),
)
"""What follows from a release: too few letters to be looked for elsewhere."""


def _derived_of(value: str, language: str) -> str:
    return "; ".join(_derivation(each, language) for each in value.split("; "))


def _derivation(text: str, language: str) -> str:
    for each in _DERIVED:
        between = str(each).partition("%(forms)s")[2].partition("%(names)s")[0]
        forms, found, names = text.partition(between)
        if found:
            said = {"forms": _forms_of(forms, language), "names": names}
            return translated(each, language) % said
    return local_number(text, language)


_WITHIN = {_FORMS: _forms_of, "derived": _derived_of}
"""Places of what is read in a way of its own."""


def _form(text: str, language: str) -> str | None:
    if _CHOICE.fullmatch(text):
        return text
    read = _as_it_is(words(text), language)
    return None if read is None else read[0]


_LISTS = {" and ": marked("%(first)s and %(last)s"), " or ": marked("%(first)s or %(last)s")}
"""How lists end (:func:`mechanisms.words.listed`)."""
_LISTED: Mapping[str, Callable[[str, str], str]] = {
    "names": lambda name, _: name,
    "categories": lambda name, _: name,
    "kinds": lambda name, language: local_number(translated(name, language), language),
}
"""Places of lists, and how what they list is said in a language."""
_SAID = frozenset({
    "protects", "theorem", "unit", "unit_name", "shape", "by", "counted", "ball_name", "added",
    "whose", "why", "sentence", "value1", "value2", "value3", "timed",
})  # fmt: skip
"""Places of what is a text itself; of any other value nothing is known."""


class _Pattern(NamedTuple):
    """What finds a text with places: its letters, its parts and the places between, its words."""

    letters: int
    parts: Sequence[str]
    places: Sequence[str]
    said: str

    def values_in(self, sentence: str) -> dict[str, str] | None:
        """Return the values of a sentence that has the parts in order; None if it has not.

        Each value is as short as can be, and of at least a letter. So a sentence is read once, and
        the time does not depend on what somebody has written into it.
        """
        first, *between, last = self.parts
        if not (sentence.startswith(first) and sentence.endswith(last)):
            return None
        found: dict[str, str] = {}
        at, ends = len(first), len(sentence) - len(last)
        for place, part in zip(self.places, (*between, None), strict=True):
            end = ends if part is None else sentence.find(part, at + 1, ends)
            if not at < end:
                return None
            value = sentence[at:end]
            # at the beginning a value with a full stop would be the sentence before
            if found.setdefault(place, value) != value or (not at and ". " in value):
                return None
            at = end + len(part or "")
        return found


@cache
def _patterns(language: str) -> Mapping[str, Sequence[_Pattern]]:
    """Return what finds texts with places, by the first word of sentences that they may fit.

    Those of most letters come first. Of no word are those that begin with a place: they are among
    those of every word, too.
    """
    found: dict[str, list[_Pattern]] = {"": []}
    for text, said in catalogue(language).items():
        made = _pattern_of(text, said)
        if made is not None:
            first = _first_word(made.parts[0]) if " " in made.parts[0] else ""
            found.setdefault(first, []).append(made)
    return {
        word: sorted([*several, *(found[""] if word else ())], key=lambda each: -each.letters)
        for word, several in found.items()
    }


def _first_word(text: str) -> str:
    return text[:_LONGEST_WORD].partition(" ")[0]


def _pattern_of(text: str, said: str) -> _Pattern | None:
    """Return what finds a text, if it has places and enough letters."""
    parts = _PLACE.split(text)
    letters = len("".join(parts[::2]))
    few = letters < _FEWEST_LETTERS and not text.endswith(".") and _FORMS not in parts[1::2]
    if len(parts) == 1 or few or text in _DERIVED:
        return None
    between = tuple(part.replace("%%", "%") for part in parts[::2])
    return _Pattern(letters, between, parts[1::2], said)


def local_number(text: str, language: str) -> str:
    """Return a number that is written as in English as a language writes it; other texts stay.

    >>> local_number("1,234.5", "de"), local_number("-0.5", "fr"), local_number("1.2.3", "de")
    ('1.234,5', '-0,5', '1.2.3')
    """
    if language == SOURCE or not _NUMBER.fullmatch(text):
        return text
    return str(text.translate(_symbols(language)))


def local_numbers(text: str, language: str) -> str:
    """Return a text with the numbers in it as a language writes them.

    >>> local_numbers("0.5 to 1,200; 2026-11-23, v1.2.3", "de")
    '0,5 to 1.200; 2026-11-23, v1.2.3'
    """
    if language == SOURCE:
        return text
    return _IN_TEXT.sub(lambda found: found[0].translate(_symbols(language)), text)


def local_picture(svg: str, language: str) -> str:
    """Return a picture whose texts have their numbers as a language writes them.

    Its accessible name is said in the language, as a finished text is.

    >>> local_picture('<text x="1.5">0.25</text>', "de")
    '<text x="1.5">0,25</text>'
    """
    if language == SOURCE:
        return svg
    svg = _NAME.sub(lambda found: f'aria-label="{_name_in(found[1], language)}"', svg)
    return _TEXT_NODE.sub(lambda found: f">{local_numbers(found[1], language)}<", svg)


def _name_in(name: str, language: str) -> str:
    return escape(" ".join(part.text for part in localized(unescape(name), language)))


@cache
def _symbols(language: str) -> dict[int, str]:
    """Return what a language writes for the point and the comma of English numbers."""
    locale = Locale.parse(language)
    return {ord("."): get_decimal_symbol(locale), ord(","): get_group_symbol(locale)}


def local_moment(second: str, language: str) -> str:
    """Return a time (UTC, ISO 8601 to the second) as a language writes it.

    >>> local_moment("2026-11-23T20:15:09", "en"), local_moment("2026-11-23T20:15:09", "de")
    ('2026-11-23 20:15 UTC', '23.11.2026 20:15 UTC')
    """
    if language == SOURCE:
        return f"{second[:10]} {second[11:16]} UTC"
    at, locale = datetime.fromisoformat(second), Locale.parse(language)
    day, time = format_date(at, "medium", locale), format_time(at, "HH:mm", locale=locale)
    return f"{day} {time} UTC"
