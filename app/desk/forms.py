"""What a form was filled with, where it was wrong, and confirming what cannot be undone.

A form comes from our own page or is refused: browsers say where a post comes from, in
``Sec-Fetch-Site`` or in ``Origin``. A program without a browser sends neither, and has no cookie
that somebody else could use.

*Help with bounds: what they typically are, and which look as if they were read off the file.* Both
are judged from what a curator has typed, or from a column's name, and never from a row.

*Acts that cannot be undone.* The form of such an act does nothing by itself. It leads to a page
that repeats what was filled in, says what will happen, and has a box to tick; a double click does
not tick it. A large grant takes the amount a second time, in digits. The form key stays the same
all the way, so that a reload or a second click of the last button acts once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.desk.rendering import grouped, page
from app.domain.ledger import sha256_hex
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.services.people.keys import Caller
from app.web.requests.exact_json import read_model
from app.web.requests.values import RequestBody
from app.web.state import AppState
from mechanisms.privacy import Epsilon, InvalidEpsilonError
from mechanisms.words import worded

# Help with bounds: what they typically are, and which look as if they were read off the file

_NUMBER = re.compile(r"[+-]?(\d+)(?:\.(\d+))?", re.ASCII)
_DAY = re.compile(r"\d{4}-(\d{2})-(\d{2})(T.*)?", re.ASCII)
_ENDS = {"01-01", "12-31", "06-30", "07-01"}
_FAMILIAR = frozenset({"127", "128", "168", "255", "256", "365", "366", "511", "512", "1023"}) | {
    str(power) for power in (1024, 1440, 2047, 2048, 3600, 4095, 4096, 65535, 65536, 86400)
}
_YEARS = frozenset(
    map(str, range(1800, 2101))
)  # a number between is taken for a year, and years are round in their own way
_OF_BODIES = {"kg", "body", "birth", "patient"}
_NOT_A_YEAR = {"monthly", "month", "weekly", "week", "daily", "day", "hourly", "hour"}
_DIGITS = 3  # a number of more digits that say something is seldom public knowledge


class Typical(NamedTuple):
    """The public bounds that a kind of quantity usually has; ``words`` are of its names."""

    kind: str
    unit: str
    lower: str
    upper: str
    words: Sequence[str]


TYPICAL: Sequence[Typical] = (
    Typical("age", "years", "0", "120", ("age",)),
    Typical("percentage", "per cent", "0", "100", ("percent", "percentage", "pct")),
    Typical("share", "of one", "0", "1", ("share", "fraction", "proportion", "probability")),
    Typical("yearly income", "currency", "0", "200000", ("income", "salary", "earnings", "wage")),
    Typical("hours a week", "hours", "0", "80", ("hours", "worktime")),
    Typical("year of birth", "year", "1900", "this year", ("birthyear", "yob")),
    Typical("people in a household", "people", "1", "20", ("household", "hhsize", "persons")),
    Typical("children", "people", "0", "15", ("children", "kids")),
    Typical("rooms", "rooms", "1", "20", ("rooms",)),
    Typical("height of a person", "cm", "50", "230", ("height",)),
    Typical("weight of a person", "kg", "2", "250", ("weight",)),
    Typical("blood pressure", "mmHg", "40", "250", ("pressure", "systolic", "diastolic", "bp")),
    Typical("body temperature", "°C", "30", "45", ("temperature",)),
    Typical("heart rate", "a minute", "20", "250", ("pulse", "heartrate")),
    Typical("rating", "points", "1", "5", ("rating", "likert", "satisfaction")),
    Typical("test score", "points", "0", "100", ("score", "points", "marks")),
    Typical("minutes of a day", "minutes", "0", "1440", ("minutes",)),
    Typical("latitude", "degrees", "-90", "90", ("latitude", "lat")),
    Typical("longitude", "degrees", "-180", "180", ("longitude", "lon", "lng")),
)


def typical_of(name: str) -> Typical | None:
    """Return what a column of this name usually has as bounds, if its name shows it.

    >>> typical_of("Age [years]").upper, typical_of("wages_2020"), typical_of("weight")
    ('120', None, None)
    >>> typical_of("monthly income")
    """
    words = set(re.split(r"[^a-z]+", name.lower()))
    if words.isdisjoint(_OF_BODIES):
        words.discard("weight")  # it may be that of a survey
    if not words.isdisjoint(_NOT_A_YEAR):
        words -= {"income", "salary", "earnings", "wage"}
    return next((each for each in TYPICAL if words & set(each.words)), None)


def looks_read_off(bound: str) -> bool:
    """Say whether a bound is so precise that it was probably read off the file.

    >>> [looks_read_off(text) for text in ("5000", "120", "0.5", "2030-12-31", "1440", "1950")]
    [False, False, False, False, False, False]
    >>> [looks_read_off(text) for text in ("4957.81", "11733", "98.6", "1987-03-17")]
    [True, True, True, True]
    """
    if (day := _DAY.fullmatch(bound)) is not None:
        return f"{day[1]}-{day[2]}" not in _ENDS
    if (number := _NUMBER.fullmatch(bound)) is None:
        return False
    whole, decimals = number[1].lstrip("0"), (number[2] or "").rstrip("0")
    if not decimals and (whole in _FAMILIAR or whole in _YEARS):
        return False
    digits = (whole + decimals).strip("0") if decimals else whole.rstrip("0")
    return len(digits) > _DIGITS or (len(digits) == _DIGITS and decimals not in ("", "5", "25"))


# What a form was filled with, and where it was wrong

Model = TypeVar("Model", bound=RequestBody)

_MOST_FIELDS = 20_000  # the table of a data set's columns has several for each
_MOST_KEY = 100
FORM_KEY = "form_key"
"""The field whose value makes a form count once (see :attr:`Form.once`)."""


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form, in order; a name may come several times."""

    pairs: Sequence[tuple[str, str]] = ()
    _first: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """The first value of each name: a page of many columns looks thousands of them up."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_first", dict(reversed(self.pairs)))

    def text(self, name: str) -> str:
        """Return a field's first value without the white space around it, or an empty text.

        Its lines end as they do everywhere else: browsers send two characters for each end.
        """
        return self.raw(name).replace("\r\n", "\n").strip()

    def raw(self, name: str) -> str:
        """Return a field's first value as it is: a choice may be white space."""
        return self._first.get(name, "")

    def texts(self, name: str) -> list[str]:
        """Return every value of a field, such as of check boxes."""
        return [value for known, value in self.pairs if known == name]

    def changed(self, **fields: str) -> Form:
        """Return the form with other values of some fields."""
        kept = [pair for pair in self.pairs if pair[0] not in fields]
        return Form((*kept, *fields.items()))

    def required(self, name: str) -> str:
        """Return a field's value.

        Raises
        ------
        Problem
            ``invalid-request``: it is empty.
        """
        value = self.text(name)
        if not value:
            raise invalid_request(name, "is required")
        return value

    @property
    def key(self) -> str:
        """Return the key that the form was shown with.

        Raises
        ------
        Problem
            ``invalid-request``: it has none.
        """
        key = self.text(FORM_KEY)
        if not 1 <= len(key) <= _MOST_KEY:
            raise invalid_request(FORM_KEY, "is missing; load the page again")
        return key

    @property
    def once(self) -> str:
        """Return what the form counts once by: its key, and all that it was filled in with.

        A double click sends the same again. A visitor who goes back and changes something wants it
        done.

        Raises
        ------
        Problem
            ``invalid-request``: it has no key.
        """
        return sha256_hex(json.dumps([self.key, *self.pairs]).encode())


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with a form: by field, and in all."""

    problem: Problem | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    """What a field of the request is called in the form."""

    def at(self, name: str) -> str | None:
        """Return what is wrong with a field, or None."""
        return next((message for place, message in self.all if place == name), None)

    @property
    def all(self) -> Sequence[tuple[str, str]]:
        """Return each field that is wrong, and why."""
        errors = self.problem.extras.get("errors", ()) if self.problem is not None else ()
        found = errors if isinstance(errors, list | tuple) else ()
        return [(self.renamed.get(e["field"], e["field"]), e["message"]) for e in found]


def faulted(request: Request, faults: Faults) -> int:
    """Return the status of a page with a form; where it was refused, the log knows why."""
    if faults.problem is None:
        return 200
    request.scope["problem"] = faults.problem.code
    return faults.problem.status


async def read_form(request: Request) -> Form:
    """Return what a browser's form was filled with.

    Raises
    ------
    Problem
        ``forbidden``: it was sent from another site; ``unsupported-media-type``,
        ``too-large``, ``malformed-request``.
    """
    require_own_site(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem("unsupported-media-type", "Send the form as a browser does.")
    state: AppState = request.state.app
    most, body = state.constants.max_request_bytes, bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise Problem(
                "too-large",
                worded("The form is larger than max_request_bytes (%(most)s bytes).", most=most),
                limit="max_request_bytes",
                maximum=most,
            )
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise Problem("malformed-request", "The form cannot be read.") from None
    return Form(pairs)


EMPTY, NONE = Form(), Faults()
"""An empty form, and no faults."""
CALLED = {"text": "comment"}
"""What the fields of a comment's request are called on a page that has other texts too."""


def read_as(model: type[Model], fields: Mapping[str, object]) -> Model:
    """Return what a form asks for, as the request of a program; an empty field is left out.

    Raises
    ------
    Problem
        ``invalid-request``, its places named as programs name them.
    """
    given = {name: value for name, value in fields.items() if value != ""}
    return read_model(model, json.dumps(given).encode())


def require_own_site(request: Request) -> None:
    """Pass for what our own pages send.

    Raises
    ------
    Problem
        ``forbidden``.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    own = site == "same-origin" if site is not None else origin is None or _ours(request, origin)
    if not own:
        raise Problem("forbidden", "The form was sent from another site.")


def _ours(request: Request, origin: str) -> bool:
    return urlsplit(origin).netloc == request.headers.get("host", "")


async def act_once(
    request: Request, form: Form, *, caller: Caller, act: Callable[[], Awaitable[str]]
) -> Response:
    """Do what a form asks for once, and lead to the page that shows it: post, redirect, get."""
    state: AppState = request.state.app
    location = await state.services.sessions.once(form.once, caller=caller, act=act)
    return see(location)


def see(address: str) -> Response:
    """Lead a browser to a page after what it sent was done."""
    return RedirectResponse(address, status_code=303)


STEP, CONFIRMED, AGAIN = "step", "confirmed", "again"
"""The fields of a confirmation: that it is one, the box, and the amount a second time."""
_LAST = "confirm"
_LEAST_REASON = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Irrevocable:
    """What a page says of an act before it is done."""

    heading: str
    button: str
    happens: Sequence[str]
    """What will happen, a sentence each; the first one is the most important."""
    facts: Sequence[tuple[str, str]] = ()
    """What was filled in and what it comes to, as pairs of a name and a text."""
    back: tuple[str, str]
    """The page that the act belongs to: its address and its name."""
    amount: Epsilon | None = None
    """What must be typed a second time, if anything."""


def lacking(form: Form, amount: Epsilon | None = None) -> Faults | None:
    """Return what a form lacks of a confirmation, or None where it has all of it.

    Of a form that has not been through the page yet nothing is wrong: ``NONE``.
    """
    if not form.text(STEP):
        return NONE
    wrong = []
    if amount is not None and not _is_again(form.text(AGAIN), amount):
        again = worded("type the amount a second time, in digits: %(amount)s", amount=amount)
        wrong.append((AGAIN, again))
    if not form.text(CONFIRMED):
        tick = worded("tick the box if this is meant; nothing has been done yet")
        wrong.append((CONFIRMED, tick))
    return Faults(invalid_requests(wrong)) if wrong else None


def confirm_page(request: Request, form: Form, act: Irrevocable, faults: Faults = NONE) -> Response:
    """Return the page that asks for a confirmation; its form sends on what was filled in."""
    kept = [pair for pair in form.pairs if pair[0] not in (STEP, CONFIRMED, AGAIN)]
    return page(
        request,
        "sure.html",
        status=faulted(request, faults),
        act=act,
        kept=kept,
        form=form,
        faults=faults,
    )


def changed_since(message: str) -> Faults:
    """Return that what the page said has changed: it is to be read and confirmed again."""
    return Faults(invalid_request(CONFIRMED, message))


def require_sentence(field: str, text: str) -> None:
    """Pass for a reason that says something to those who read it in years.

    Raises
    ------
    Problem
        ``invalid-request``: it is shorter than a sentence.
    """
    if len(text) < _LEAST_REASON:
        raise invalid_request(
            field,
            worded(
                "must be a sentence of at least %(least)s characters that says who decided and "
                "why, such as “The board approved the second wave on 3 May.”",
                least=_LEAST_REASON,
            ),
        )


def _is_again(text: str, amount: Epsilon) -> bool:
    """Say whether a text is an amount in digits: as it is shown, or without its commas.

    >>> thousand = Epsilon.parse("1e3")
    >>> [_is_again(text, thousand) for text in ("1000", "1,000", "1000.0", "1e3", "10,00", "")]
    [True, True, True, False, False, False]
    """
    if "e" in text.lower():
        return False
    try:
        read = Epsilon.parse(text.replace(",", ""), maximum_nanos=amount.nanos)
    except InvalidEpsilonError:
        return False
    return read == amount and ("," not in text or text == grouped(str(amount)))


@dataclass(frozen=True, slots=True)
class Named:
    """What a field for a data set offers.

    Attributes
    ----------
    choices
        All there are, as pairs of a value and a name; None: they are too many for a list.
    suggested
        Names of the newest ones.
    """

    choices: Sequence[tuple[str, str]] | None
    suggested: Sequence[str]


# Texts of fields as values

_WHOLE = re.compile(r"[+-]?\d{1,300}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_SHARE = re.compile(r"(\S.*?)[ \t]*[:=\t ][ \t]*(\S+)", re.ASCII)
"""A line of what is typical: a name, then a number."""


def number_of(text: str) -> int | float | str:
    """Return a number as JSON has it; what is none is left to be refused as a text."""
    if _WHOLE.fullmatch(text):
        return int(text)
    number = float(text) if _DECIMAL.fullmatch(text) else math.inf
    return number if math.isfinite(number) else text


def lines_in(text: str) -> list[str]:
    """Return the lines of a text that are not blank, without the blanks around them."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def label_in(line: str) -> tuple[str, str]:
    """Return the value and the label of a line such as ``1 = north``, ``1: north`` or ``1 north``.

    >>> [label_in(line) for line in ("1 = north", "1: north", "a:b = c", "1 far north", "alone")]
    [('1', 'north'), ('1', 'north'), ('a:b', 'c'), ('1', 'far north'), ('alone', '')]
    """
    for sign in (" = ", "\t", "=", ":", " "):
        value, found, label = line.partition(sign)
        if found and value.strip():
            return value.strip(), label.strip()
    return line, ""


def numbers_by_name(text: str) -> Iterator[tuple[str, object]]:
    """Yield a name and a number, such as `mean 980` or `north 0.3`, of each line.

    A line without a number is yielded with an empty text, to be refused.
    """
    for line in lines_in(text):
        match = _SHARE.fullmatch(line)
        yield (line, "") if match is None else (match[1], number_of(match[2]))
