"""Questions as the contract has them, and the keys under which they are charged once.

One line that shows the progress of a job or an upload, on a terminal or in a notebook.
"""

from __future__ import annotations

import ast
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from numbers import Rational
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, TypedDict

from app.client.answers import plain
from app.client.errors import ClientError
from app.client.models import Release
from app.tidy.names import OwnFields

OnWait = Callable[[Release, float], None]
"""Called before each pause, with the running release and the seconds of the pause."""

_CLEAR = "\x1b[K"
_MEGABYTE = 1_000_000
_EVERY_S = 0.2  # often enough for an eye, and no load for a notebook
_BAR = 20


def expected_words(job: Mapping[str, Any] | None) -> str:
    """Say about how long a job takes, by the public facts in an answer; "" of none.

    >>> expected_words({"deadline_s": 16, "expected_s": 2})
    'drawn in about 2 s, shown 16 s after the charge or at a doubling of that'
    """
    if job is None:
        return ""
    shown = f"shown {job['deadline_s']} s after the charge or at a doubling of that"
    drawn_s = job.get("expected_s")
    return shown if drawn_s is None else f"drawn in about {drawn_s} s, {shown}"


class Line:
    """A line on a terminal or in a notebook, gone at the end; elsewhere nothing."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._seen = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._shown = False
        self._next_s = 0.0
        self._ended = threading.Event()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._shown:
            self._write("")

    @property
    def passed_s(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began_s

    @property
    def is_due(self) -> bool:
        """Return whether it is time to say something again."""
        due = self._seen and self.passed_s >= self._next_s
        if due:
            self._next_s = self.passed_s + _EVERY_S
        return due

    @property
    def is_seen(self) -> bool:
        """Return whether somebody is looking."""
        return self._seen

    def say(self, text: str) -> None:
        """Put a text in the line's place."""
        if self._seen:
            self._write(text)
            self._shown = True

    def keep_saying(self, text: str) -> None:
        """Show a text with the elapsed seconds, and refresh it from time to time."""
        if self._seen and self._clock is None:
            self._clock = threading.Thread(target=self._tick, args=(text,), daemon=True)
            self._clock.start()

    def stop(self) -> None:
        """Say nothing more by itself."""
        if self._clock is not None:
            self._ended.set()
            self._clock.join()
            self._clock = None
            self._ended.clear()

    def _tick(self, text: str) -> None:
        self.say(f"{text}, {self.passed_s:.0f} s")
        while not self._ended.wait(_EVERY_S):
            self.say(f"{text}, {self.passed_s:.0f} s")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{_CLEAR}{text}")
        sys.stderr.flush()

    def tell_reading(self, name: str, far: Mapping[str, Any]) -> None:
        """Say how far the service has read a file: bytes of how many, and rows."""
        self.stop()
        size = far["of_bytes"]
        read = "" if size is None else f"{far_of(far['bytes'], size)}, "
        self.keep_saying(f"the service reads {name}: {read}{far['rows']:,} rows")


class Progress(Line):
    """What is waited for. It is an :data:`OnWait`, and a context in which it is shown."""

    def __call__(self, release: Release, pause_s: float) -> None:
        """Say what is waited for, about how long it takes, and how long until the next look."""
        expected = expected_words(release.job)
        self.say(
            f"{release.id} is running: {self.passed_s:.0f} s"
            f"{f' ({expected})' if expected else ''}, looking again in {pause_s:.0f} s"
        )


class Calculating(Line):
    """How far a free calculation is, and a context in which it is shown."""

    def __call__(self, share: float) -> None:
        """Say which share is done."""
        self.say(f"calculating: {share:.0%}, {self.passed_s:.0f} s")


class Reading(Line):
    """How far a file on this machine has been read: rows, and bytes where they are known."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._name = path.name
        self._size = path.stat().st_size

    def __call__(self, rows: int, place: int | None) -> None:
        """Say from time to time how many rows have been read, and up to which byte."""
        if self.is_due:
            far = "" if place is None else f"{far_of(place, self._size)}, "
            self.say(f"{self._name}: {far}{rows:,} rows, {self.passed_s:.0f} s")


class Sending(Line):
    """A file that says how much of it has been read to be sent, and a context of that.

    Its methods are those that httpx asks for.
    """

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        super().__init__()
        self._name = path.name
        self._stream = stream
        self._size = path.stat().st_size

    def fileno(self) -> int:
        """Return the file's descriptor, which has its length."""
        return self._stream.fileno()

    def seek(self, place: int) -> int:
        """Begin again at a place."""
        self.stop()
        return self._stream.seek(place)

    def tell(self) -> int:
        """Return where it is."""
        return self._stream.tell()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, and say from time to time how far it is."""
        found, sent = self._stream.read(size), self._stream.tell()
        if sent >= self._size:
            self.keep_saying(f"{self._name} is sent; the service reads it")
        elif self.is_due:
            self.say(f"{self._name}: {far_of(sent, self._size)} sent, {self.passed_s:.0f} s")
        return found


def far_of(place: int, size: int) -> str:
    """Return a bar, and how many of a file's bytes are done.

    >>> far_of(250_000_000, 1_000_000_000)
    '[#####...............] 250 of 1,000 MB'
    """
    done = _BAR * min(place, size) // max(size, 1)
    bar = "#" * done + "." * (_BAR - done)
    return f"[{bar}] {place / _MEGABYTE:,.0f} of {size / _MEGABYTE:,.0f} MB"


# Questions as the contract has them, and the keys under which they are charged once


# Conditions as text: ``"age > 40 and sex in ['f', 'x']"`` in place of a list of comparisons

Condition = dict[str, object]

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in",
}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""The sign of the same comparison with its sides exchanged."""
_MISSING = "missing"
_HELP = (
    "Join comparisons of one column with values by `and`, as in \"age > 40 and sex in ['f', 'x']\" "
    'or "income is not missing"; everything else is a column of `derive`'
)


def conditions_in(text: str) -> list[Condition]:
    """Return the comparisons that a text joins by ``and``, as the contract has them.

    Values are numbers, texts in quotes, ``True`` and ``False``, or a list of these after ``in``.
    A name alone is a boolean column that is true. A column whose name is no Python name is compared
    in a dictionary: ``{"column": "net pay", "op": ">", "value": 100}``.

    >>> conditions_in("18 <= age < 65 and not retired")[1:]  # doctest: +NORMALIZE_WHITESPACE
    [{'column': 'age', 'op': '<', 'value': 65},
     {'column': 'retired', 'op': '==', 'value': False}]
    >>> conditions_in("income is not missing")
    [{'column': 'income', 'op': 'present'}]

    Raises
    ------
    ClientError
        The text is another expression.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ClientError(f"where: {text!r} is not a condition. {_HELP}.") from None
    return list(_comparisons(tree, text))


def _comparisons(node: ast.expr, text: str) -> Iterator[Condition]:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            for part in parts:
                yield from _comparisons(part, text)
        case ast.Compare(left=left, ops=signs, comparators=others):
            sides = [left, *others]
            for sign, one, other in zip(signs, sides, sides[1:], strict=False):
                yield _comparison(sign, one, other, text)
        case ast.Name(id=column):
            yield {"column": column, "op": "==", "value": True}
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=column)):
            yield {"column": column, "op": "==", "value": False}
        case _:
            raise _refusal(node, text)


def _comparison(sign: ast.cmpop, one: ast.expr, other: ast.expr, text: str) -> Condition:
    match one, sign, other:
        case ast.Name(id=column), ast.Is(), ast.Name(id="missing"):
            return {"column": column, "op": _MISSING}
        case ast.Name(id=column), ast.IsNot(), ast.Name(id="missing"):
            return {"column": column, "op": "present"}
        case ast.Name(id=column), _, _ if type(sign) in _SIGNS:
            return {"column": column, "op": _SIGNS[type(sign)], "value": _value(other, text)}
        case _, _, ast.Name(id=column) if _SIGNS.get(type(sign)) in _TURNED:
            turned = _TURNED[_SIGNS[type(sign)]]
            return {"column": column, "op": turned, "value": _value(one, text)}
    raise _refusal(one, text)


def _value(node: ast.expr, text: str) -> object:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        raise _refusal(node, text) from None
    if isinstance(value, list | tuple | set):
        return list(value)
    if isinstance(value, str | bool | int | float):
        return value
    raise _refusal(node, text)


def _refusal(node: ast.expr, text: str) -> ClientError:
    part = ast.get_source_segment(text.strip(), node)
    return ClientError(f"where: {part!r} is not a comparison of a column with a value. {_HELP}.")


# Questions as the contract has them, and the keys under which they are charged once

Question = Mapping[str, object]
Amount = str | int | float | Decimal
"""A price. Text and Decimal are exact; a float is taken by its first 15 digits."""

Where = str | Mapping[str, object] | Sequence[str | Mapping[str, object]]
"""Conditions that all hold: as text (:mod:`app.client.questions`) or as the contract has them."""
By = str | Mapping[str, object] | Sequence[str | Mapping[str, object]]
"""Columns to group by; a numeric one with its ``edges``."""


class Options(TypedDict, total=False):
    """What every release takes in addition to its statistic and its epsilon.

    ``fresh`` asks for a new draw and a new charge; the other members are those of
    :meth:`~app.client.datasets.Asked.release`.
    """

    mechanism: str
    norm: str
    inference: float | str | Rational | Mapping[str, object] | None
    purpose: str | None
    fresh: bool
    idempotency_key: str | None
    wait: bool
    on_wait: OnWait | None


class Selecting(TypedDict, total=False):
    """Fields of a statistic of some records, or of each group.

    ``derive`` names new columns by their expressions. ``missing`` is what becomes of records
    without a value.
    """

    where: Where | None
    by: By | None
    derive: Mapping[str, str | Mapping[str, object]] | None
    missing: Literal["complete", "available", "cell"] | None


class Weighing(Selecting, total=False):
    """Fields of a statistic that takes a column of weights."""

    weights: str | Mapping[str, object] | None


class Clipping(Selecting, total=False):
    """Fields of a statistic of values that may be clipped.

    ``clip`` is ``"none"``, ``"private"``, or public bounds: ``{"lower": 0, "upper": 60000}``.
    """

    clip: str | Mapping[str, object] | None


class Ranking(Weighing, total=False):
    """Fields of quantiles: ``base_measure`` is ``"auto"``, ``"uniform"`` or ``"log"``."""

    base_measure: str | None


class Binning(Selecting, total=False):
    """Fields of a histogram: the ``edges`` of numeric columns, and what is outside of them."""

    edges: Mapping[str, object] | None
    outside: Literal["keep", "drop"] | None


class Fitting(Weighing, total=False):
    """Fields of a regression: ``target`` and ``features`` stand for a formula.

    ``bound`` limits the sum of the absolute coefficients, of columns scaled to [-1, 1].
    """

    target: str | Mapping[str, object] | None
    features: str | Sequence[str | Mapping[str, object]] | None
    intercept: bool | None
    bound: float | None


class LinearFitting(Fitting, total=False):
    """Fields of a linear regression; ``ridge`` is the weight of its penalty.

    ``loss`` is ``"auto"``, ``"squared"`` or ``"huber"``, and ``threshold`` Huber's, in units of the
    target.
    """

    loss: str
    threshold: float | str
    ridge: float | None
    base_measure: str | None


class LogisticFitting(Fitting, total=False):
    """Fields of a logistic regression; ``q`` is the share of epsilon that the tilt takes."""

    q: float | None


class QuantileFitting(Fitting, total=False):
    """Fields of a quantile regression; ``tau`` is the level."""

    tau: float | str | None
    base_measure: str | None


class Fields(
    LinearFitting, LogisticFitting, QuantileFitting, Binning, Clipping, OwnFields, total=False
):
    """Every field that some statistic has, and ``inference`` and ``purpose``.

    The service refuses fields that a kind does not have, and names the nearest.
    """

    columns: str | Sequence[str] | None
    column: str | None
    levels: float | str | Sequence[float | str] | None
    formula: str | None
    parts: Sequence[Mapping[str, object]] | None
    inference: float | str | Rational | Mapping[str, object] | None
    purpose: str | None


class Weighed(Fields, total=False):
    """Fields of a preview or a dry run: what to assume, and ``accuracy`` in place of epsilon."""

    accuracy: float | None
    assume: Mapping[str, object] | None
    assume_rows: int | None


class Selected(Selecting, Options, total=False):
    """Keywords of a statistic of some records."""


class Summed(Weighing, Clipping, Options, total=False):
    """Keywords of a statistic that takes weights."""


class Ranked(Ranking, Options, total=False):
    """Keywords of quantiles."""


class Binned(Binning, Options, total=False):
    """Keywords of a histogram."""


class LinearFit(LinearFitting, Options, total=False):
    """Keywords of a linear regression."""


class LogisticFit(LogisticFitting, Options, total=False):
    """Keywords of a logistic regression."""


class QuantileFit(QuantileFitting, Options, total=False):
    """Keywords of a quantile regression."""


OWN_KEY = "auto"
"""The Idempotency-Key that stands for the one that a question has by itself."""

_BESIDE = frozenset({"assume", "accuracy", "assume_rows", "inference", "purpose"})
"""Members of a request that are next to its statistic, not in it."""
_LISTS = frozenset({"by", "columns", "features", "levels", "where"})


def question(
    statistic: Question,
    epsilon: Amount | None,
    mechanism: str = "auto",
    norm: str = "auto",
    /,
    **options: object,
) -> dict[str, object]:
    """Return the body of a release or preview request; a preview may leave the price open.

    A ``datetime`` in a condition is sent as an instant, see :mod:`app.client.answers`. A share of
    epsilon may stand for an ``inference``.
    """
    asked: dict[str, object] = {
        "statistic": plain(_with_conditions(statistic)),
        "mechanism": mechanism,
        "norm": norm,
    }
    price = {} if epsilon is None else {"epsilon": amount(epsilon)}
    return {**asked, **price, **{name: _in_full(name, each) for name, each in options.items()}}


def several(questions: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Return the questions of a study plan, each as the body of a preview request."""
    return [_one_of_several(**each) for each in questions]


def _one_of_several(
    statistic: Question, epsilon: Amount | None = None, mechanism: str = "auto", norm: str = "auto",
    **options: object,
) -> dict[str, object]:  # fmt: skip
    return question(statistic, epsilon, mechanism, norm, **options)


def _with_conditions(statistic: Question) -> dict[str, Any]:
    """Return a statistic, and a stack's parts, with conditions that are text as comparisons."""
    asked = dict(statistic)
    where, parts = asked.get("where"), asked.get("parts")
    if isinstance(where, str):
        asked["where"] = conditions_in(where)
    elif isinstance(where, list | tuple):
        each = (conditions_in(one) if isinstance(one, str) else [one] for one in where)
        asked["where"] = [condition for some in each for condition in some]
    if isinstance(parts, list | tuple):
        asked["parts"] = [
            {**part, "statistic": _with_conditions(part["statistic"])}
            if isinstance(part, Mapping) and isinstance(part.get("statistic"), Mapping)
            else part
            for part in parts
        ]
    return asked


def amount(value: Amount) -> str:
    """Return a price in one spelling: 0.5, "0.50" and "5e-1" are one price, "0.5".

    A float has 15 digits, so that .1 + .2 is .3. What is no number is returned as it is, for the
    service to say so.
    """
    try:
        number = Decimal(f"{value:.15g}" if isinstance(value, float) else str(value))
    except InvalidOperation:
        return str(value)
    if not number.is_finite():
        return str(value)
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def key_to_send(key: str | None = None, *, fresh: bool = False) -> str:
    """Return the key to send: the one given, one that no one has used, or the question's own.

    :data:`OWN_KEY` has the service name the question, by data set, question, epsilon and person.
    It knows which spellings mean the same. So a person who asks twice has one release, in any
    language and spelling, and two people who ask the same have one each.
    """
    return key or (str(uuid.uuid4()) if fresh else OWN_KEY)


def parted(
    statistic: Question | str, fields: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return a statistic with the fields that belong in it, and the members next to it.

    A field that is None is left out: the service has its default. But ``weights=None`` is said, and
    each record then counts once, whatever the data set's design declares. One column, condition or
    level may stand for a list of it, and a share of epsilon for an ``inference``:

    >>> parted("quantile", {"column": "income", "levels": 0.5, "by": "sex", "inference": "1/3"})[1]
    {'inference': {'share': '1/3'}}
    """
    asked = {"kind": statistic} if isinstance(statistic, str) else dict(statistic)
    given = {
        name: _in_full(name, value)
        for name, value in fields.items()
        if value is not None or name == "weights"
    }
    options = {name: value for name, value in given.items() if name in _BESIDE}
    return {**asked, **{name: given[name] for name in given.keys() - options.keys()}}, options


def _in_full(name: str, value: object) -> object:
    """Return a field as the contract has it."""
    if name in _LISTS and isinstance(value, str | int | float | Mapping):
        return [value]
    if name == "inference" and isinstance(value, str | int | float | Rational | Decimal):
        return {"share": str(value)}
    return value
