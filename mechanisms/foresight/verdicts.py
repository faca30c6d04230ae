"""Whether an answer is worth its price: good, weak or noise, and why, in a sentence.

The yardstick is what was known anyway (:mod:`mechanisms.foresight.ranges`). Let r be the largest
expected error of an answer's numbers, each as a share of the range of values that were possible:

    good: r <= 2%,   weak: r <= 10%,   noise: beyond.

A release is judged by its numbers too: where 0 would mean that there is nothing (counts, sums,
slopes, covariances), and no number is further from 0 than twice its expected error, it is noise.
So it is where the noise that it states is so much larger than what was expected beforehand, as for
a mean of far fewer records than were assumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from mechanisms.contract import Json
from mechanisms.foresight.trees import at, numbers, placed
from mechanisms.times import UNITS, TimeKind, number_of

Verdict = Literal["good", "weak", "noise"]

_GOOD, _WEAK = 0.02, 0.1
_TOLD_APART = 2.0  # of expected errors: closer to zero, a number may as well be zero
_FAR_LARGER = 2.0
_SIZE_OF_STD = 0.8
"""About the mean size of noise, in its standard deviations."""
_WORDS: Mapping[Verdict, str] = {
    "good": "Good",
    "weak": "Weak",
    "noise": "Mostly noise",
}
_ZERO_IS_NOTHING = frozenset(
    {
        "count",
        "histogram",
        "sum",
        "covariance",
        "correlation",
        "linear_regression",
        "logistic_regression",
        "quantile_regression",
    }
)
_INTERCEPT = "(intercept)"
_PLACES = frozenset({"value", "coefficients", "cells", "groups", "quantiles", "parts", "means"})


@dataclass(frozen=True, slots=True)
class Usefulness:
    """A verdict and its reason.

    ``share`` is r, where it is known, and ``rows`` how many rows were assumed, where their number
    is private.
    """

    verdict: Verdict
    sentence: str
    share: float | None = None
    rows: int | None = None

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Usefulness:
        """Return what was told, and ``share`` and ``rows`` where they were kept with it."""
        verdict = cast(Verdict, told["verdict"])
        return cls(verdict, told["sentence"], told.get("share"), told.get("rows"))

    def to_json(self) -> dict[str, object]:
        """Return verdict and sentence, ready for JSON."""
        return {"verdict": self.verdict, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class _Compared:
    """An expected error beside the range of values that were possible."""

    name: str
    error: float
    low: float | str
    high: float | str

    @property
    def share(self) -> float:
        return self.error / (_number(self.high) - _number(self.low))

    @property
    def unit(self) -> str:
        """Return what the error counts, where the range is one of dates or moments."""
        kind = _time_kind(self.low)
        return "" if kind is None else f" {UNITS[kind]}"


def judged(errors: Json | None, ranges: Json | None, *, rows: int | None = None) -> Usefulness:
    """Return the verdict on an answer with these expected errors.

    ``rows`` is how many were assumed, where their number is private.
    """
    compared = [] if errors is None else list(_compared(errors, ranges))
    if not compared:
        return Usefulness(
            "weak", "Its error cannot be told beforehand. A preview by another mechanism may tell."
        )
    worst = max(compared, key=lambda each: each.share)
    share = worst.share
    verdict = _verdict(share)
    which = "The" if len(compared) == 1 else f"Of {len(compared)} numbers the largest"
    return Usefulness(
        verdict,
        f"{_WORDS[verdict]}. {which} expected error is {_told(worst.error)}{worst.unit} "
        f"({worst.name}), where values from {_told(worst.low)} to {_told(worst.high)} are taken "
        f"as possible: {_percent(share)} of that range.{_others(compared)}{_of_rows(rows)}",
        share,
        rows,
    )


def _of_rows(rows: int | None) -> str:
    """Return what the errors of an answer are for, where nobody may say how many rows there are."""
    if rows is None:
        return ""
    return f" {rows:,} {'row is' if rows == 1 else 'rows are'} assumed."


def _others(compared: Sequence[_Compared]) -> str:
    """Return how many numbers are good where the worst is not, as one small group of many."""
    good = sum(_verdict(each.share) == "good" for each in compared)
    if good in (0, len(compared)):
        return ""
    verb = "is" if good == 1 else "are"
    return f" {good} of the {len(compared)} {verb} good."


def known_errors(errors: Json, std: Json) -> Json:
    """Return expected errors once the noise is known: its size, where that is far larger."""

    def known(path: Sequence[object], error: float) -> float:
        stated = at(std, path)
        size = error if stated is None else _SIZE_OF_STD * stated
        return size if size >= _FAR_LARGER * error else error

    return placed(known, errors)


def judged_by_noise(
    before: Usefulness, errors: Json, known: Json, ranges: Json | None
) -> Usefulness:
    """Return the verdict once the noise is known, where only a simulation told of it before."""
    if before.share is None or ranges is None or known == errors:
        return before
    # Noise that is known can only worsen a verdict: that there is less of it, its interval tells.
    after = judged(known, ranges, rows=before.rows)
    if after.share is None or after.share <= before.share:
        return before
    return replace(after, sentence=f"{after.sentence} Less was expected beforehand.")


def judged_release(
    before: Usefulness, kinds: Sequence[str], value: Json, errors: Json | None
) -> Usefulness:
    """Return the verdict on released numbers, given the one before they were known."""
    tellable = list(_tellable(kinds, value, errors)) if errors is not None else []
    if not tellable:
        return before
    apart = sum(abs(number) > _TOLD_APART * error for _, number, error in tellable)
    if len(tellable) == 1:
        found = f"The number released for {tellable[0][0]} is" + ("" if apart else " not")
        seen = f"{found} further from 0 than twice its expected error."
    else:
        but = ", the intercept apart," if any(key == _INTERCEPT for key in _leaves(value)) else ""
        counted = f"{apart or 'None'} of {len(tellable)} released numbers{but}"
        verb = "is" if apart <= 1 else "are"
        seen = f"{counted} {verb} further from 0 than twice the expected error."
    if apart or before.verdict == "noise":
        return Usefulness(before.verdict, f"{before.sentence} {seen}")
    return Usefulness("noise", f"{_WORDS['noise']}. {seen}{_of_rows(before.rows)}")


def _verdict(share: float) -> Verdict:
    return "good" if share <= _GOOD else "weak" if share <= _WEAK else "noise"


def _tellable(
    kinds: Sequence[str], value: Json, errors: Json
) -> Iterator[tuple[str, float, float]]:
    """Yield the numbers that differ from nothing by being other than 0: name, number, error."""
    for path, number in numbers(value):
        error = at(errors, path)
        kind = kinds[int(str(path[1]))] if path[0] == "parts" else kinds[0]
        if error is None or kind not in _ZERO_IS_NOTHING or path[-1] == _INTERCEPT:
            continue
        # A diagonal is a variance or a 1: it is never 0, and tells nothing of the others.
        if _is_mirrored(path) or ("matrix" in path and path[-1] == path[-2]):
            continue
        yield _name(path, errors), number, float(error)


def _leaves(value: Json) -> Iterator[object]:
    return (path[-1] for path, _ in numbers(value))


def _is_mirrored(path: Sequence[object]) -> bool:
    """Return whether it is the other half of a symmetric matrix."""
    if not any(key in ("matrix", "second") for key in path):
        return False
    return int(str(path[-1])) < int(str(path[-2]))


def _compared(errors: Json, ranges: Json | None) -> Iterator[_Compared]:
    for path, error in numbers(errors):
        ends = at(ranges, path)
        if _is_mirrored(path):
            continue
        if ends is not None and _number(ends[0]) < _number(ends[1]):
            yield _Compared(_name(path, errors), error, ends[0], ends[1])


def _name(path: Sequence[object], tree: Json) -> str:
    """Return what people call the number at this place: "income, sex = f"."""
    own = [str(key) for key in path if isinstance(key, str) and key not in _PLACES]
    labels = []
    for depth in range(len(path)):
        node = at(tree, path[:depth])
        for key in ("by", "cell"):
            found = at(node, [key])
            if isinstance(found, Mapping):
                labels += [f"{name} = {label}" for name, label in found.items()]
        level = at(node, ["level"])
        labels += [] if level is None else [f"quantile {level}"]
    if path[0] == "parts":
        labels.append(f"part {int(str(path[1])) + 1}")
    if any(key in ("matrix", "second") for key in own):
        labels.append(f"row {int(str(path[-2])) + 1}, column {int(str(path[-1])) + 1}")
    return ", ".join([*own, *labels]) or "the number"


def _time_kind(end: float | str) -> TimeKind | None:
    """Return what the end of a range is a text of: a moment has a time of day."""
    if not isinstance(end, str):
        return None
    return "datetime" if "T" in end else "date"


def _number(end: float | str) -> float:
    kind = _time_kind(end)
    return float(end) if kind is None else float(number_of(kind, str(end)))


def _told(number: float | str) -> str:
    if isinstance(number, str):
        return number
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e15 else f"{number:.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:,.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"
