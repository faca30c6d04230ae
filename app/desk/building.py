"""What comes and goes in a question's form: its conditions, and the questions of a stack.

A condition has three fields, such as ``where 0 column``. A question of a stack has a whole form,
whose fields begin with its place, such as ``question 1 columns``. On a page one of them is open,
and the others are what they were filled in with. A button that adds, removes or opens one sends
:data:`CHANGE`, and the form is shown as :func:`changed` leaves it: without script too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count, takewhile

from app.desk.forms import Form

CHANGE, OPEN = "change", "open"
"""The field of the buttons that change a form, and that of the place of the open question."""
CONDITIONS = 3
"""How many conditions an empty form has room for."""
_PARTS = ("column", "op", "value")

_CHANGE = re.compile(
    r"(?:question (\d{1,3}) )?(add|remove|open) (condition|question)(?: (\d{1,3}))?", re.ASCII
)
_OF_QUESTION = re.compile(r"question (\d{1,3}) (.+)", re.ASCII | re.DOTALL)
_OF_CONDITION = re.compile(r"where (\d{1,3}) (column|op|value)", re.ASCII)


def room_of(form: Form) -> range:
    """Return the places of a form's conditions: some more than an empty form has, where filled."""
    names = {name for name, _ in form.pairs}
    filled = takewhile(lambda at: f"where {at} column" in names, count())
    return range(max(CONDITIONS, len([*filled])))


def conditions_in(form: Form) -> Sequence[int]:
    """Return the places of the conditions of which anything is filled in.

    >>> conditions_in(Form([("where 0 column", ""), ("where 1 column", ""), ("where 1 op", "<")]))
    [1]
    """
    return [at for at in room_of(form) if any(form.text(f"where {at} {part}") for part in _PARTS)]


def prefix_of(at: int) -> str:
    """Return what the fields of a question of a stack begin with."""
    return f"question {at} "


def inside(name: str) -> tuple[int, str] | None:
    """Return the place of the question that a field is of, and its name there.

    >>> inside("question 2 where 0 op"), inside("epsilon")
    ((2, 'where 0 op'), None)
    """
    match = _OF_QUESTION.fullmatch(name)
    return None if match is None else (int(match[1]), match[2])


def questions_in(form: Form) -> list[Form]:
    """Return the questions of a stack, in their order, each as a form of its own."""
    found: dict[int, list[tuple[str, str]]] = {}
    for name, value in form.pairs:
        if (at := inside(name)) is not None:
            found.setdefault(at[0], []).append((at[1], value))
    return [Form(found[at]) for at in sorted(found)]


def with_questions(form: Form, questions: Sequence[Form]) -> Form:
    """Return a form with these questions in place of its own."""
    others = [pair for pair in form.pairs if inside(pair[0]) is None]
    return Form([*others, *_placed(questions)])


def _placed(questions: Sequence[Form]) -> Iterator[tuple[str, str]]:
    for at, each in enumerate(questions):
        for name, value in each.pairs:
            yield f"{prefix_of(at)}{name}", value


def hidden_pairs(question: Form) -> list[tuple[str, str]]:
    """Return what a page sends of a question that is not open: all that is filled in."""
    return [
        pair for pair in question.pairs if pair[1] or pair[0].startswith("where ")
    ]  # the place of a condition counts those before it


def open_in(form: Form, wrong: Sequence[str] = ()) -> int:
    """Return the place of the question that is open: the first that is wrong, or the chosen one."""
    last = len(questions_in(form)) - 1
    faulty = [at[0] for at in map(inside, wrong) if at is not None]
    if faulty:
        return min(faulty)
    chosen = form.text(OPEN)
    return min(int(chosen), last) if chosen.isascii() and chosen.isdigit() else last


def changed(form: Form) -> Form:
    """Return a form as the button leaves it that it was sent by."""
    match = _CHANGE.fullmatch(form.text(CHANGE))
    form = Form([pair for pair in form.pairs if pair[0] != CHANGE])
    if match is None:
        return form
    within, verb, what, place = match.groups()
    at, questions = int(place or 0), questions_in(form)
    if what == "question":
        return _with_question(form, questions, verb, at)
    if within is None:
        return _with_condition(form, verb, at)
    chosen = int(within)
    if chosen < len(questions):
        questions[chosen] = _with_condition(questions[chosen], verb, at)
    return with_questions(form, questions)


def _with_question(form: Form, questions: list[Form], verb: str, at: int) -> Form:
    if verb == "open":
        return form.changed(**{OPEN: str(at)})
    if verb == "add":
        like = questions[-1].text("statistic") if questions else ""
        questions.append(Form([("statistic", like)]))
        at = len(questions) - 1
    elif len(questions) > 1:
        del questions[at : at + 1]
    return with_questions(form, questions).changed(**{OPEN: str(at)})


def _with_condition(form: Form, verb: str, at: int) -> Form:
    rows = [{part: form.text(f"where {each} {part}") for part in _PARTS} for each in room_of(form)]
    if verb == "add":
        rows.append(dict.fromkeys(_PARTS, ""))
    elif verb == "remove":
        del rows[at : at + 1]
    others = [pair for pair in form.pairs if _OF_CONDITION.fullmatch(pair[0]) is None]
    filled = [
        (f"where {each} {part}", value)
        for each, row in enumerate(rows)
        for part, value in row.items()
    ]
    return Form([*others, *filled])
