"""Acts that cannot be undone: a page says what will happen and takes a confirmation.

The form of such an act does nothing by itself. It leads to a page that repeats what was filled in,
says what will happen, and has a box to tick; a double click does not tick it. A large grant takes
the amount a second time, in digits. The form key stays the same all the way, so that a reload or a
second click of the last button acts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.desk.forms import NONE, Faults, Form, faulted
from app.desk.rendering import grouped, page
from app.domain.problems import invalid_request, invalid_requests
from mechanisms.privacy import Epsilon, InvalidEpsilonError

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
        wrong.append((AGAIN, f"type the amount a second time, in digits: {amount}"))
    if not form.text(CONFIRMED):
        wrong.append((CONFIRMED, "tick the box if this is meant; nothing has been done yet"))
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
            f"must be a sentence of at least {_LEAST_REASON} characters that says who decided and "
            "why, such as “The board approved the second wave on 3 May.”",
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
