"""The expected quality of an answer: good, weak or noise, and why, in a sentence.

An expected error is compared with a scale that means something, never with the bounds of a column.
The scale of a number is a range (:mod:`mechanisms.estimates.sizes`): where values typically are,
or a natural one, as that of a correlation, a share or the cells of a histogram. Let r be the
largest expected error of an answer's numbers, each as a share of its scale. Where the error depends
on what is unknown it is the largest over populations (:mod:`mechanisms.estimates.closed_forms`).

    good: r <= 2%,   weak: r <= 10%,   noise: beyond.

A typical range is four standard deviations wide: 2% of it is 8% of one. A stated accuracy comes
before all others: the answer is good if 95% of its errors are within it, weak if they are within
twice that.

Without a scale the verdict is ``depends``, and the sentence has the error in units, unless it is
noise within the bounds. A release is then compared with its own numbers: an error is good up to 8%
of the number, and weak up to 40%.

A release is judged by its numbers too: where 0 would mean that there is nothing (counts, cells,
sums), and no number is further from 0 than twice its expected error, it is noise. For slopes and
correlations the sentence says so, and the verdict stays: a slope near 0 is as accurate as others.
A release is also judged by its stated noise, where that is far larger than expected, as for a mean
of far fewer records than were assumed.

Where the number of records that an answer is about is private, the verdict ``depends`` on it
(:mod:`mechanisms.estimates.sizes`), until the noise is known: from the stated law, from the counts
that curves were read off, or from inference. Where the answer is divided by the spread of values,
the verdict depends on that too (:mod:`mechanisms.estimates.asked`). So it depends on the size of
counts and sums under conditions; the release then decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from mechanisms.contract import Json, NearZero, Outcome, Term
from mechanisms.domain import UNITS, TimeKind, number_of
from mechanisms.estimates.trees import at, numbers, placed, reaching
from mechanisms.statistics.designs.scaling import is_slope
from mechanisms.words import listed, worded

Verdict = Literal["good", "weak", "noise", "depends"]

Estimate = Literal["closed form", "approximated", "simulated", "coarse"]
"""How an expected error was found: read off a law, to first order in several populations,
simulated, or simulated by few draws."""

GOOD, WEAK = 0.02, 0.1
_COARSE = worded("The error is a coarse estimate, by few simulated draws.")
_STATE_IT = worded("A preview takes in assume.population how values are distributed.")
_MENTIONED = 0.2
"""The share of an error from which on bias is named."""
DISTINCT = 2.0  # of expected errors: closer to zero, a number may as well be zero
_OF_ITSELF = 4.0  # a number's own scale, as that of a column with that standard deviation
_FAR_LARGER = 2.0
REACH = 2.5
"""What 95% of errors are within, in their mean: 2.46 of normal ones, 3 of Laplace's."""
_NEARLY = 1.2
"""How far beyond a wanted accuracy errors may be that just reach it: an estimate's own error."""
_SIZE_OF_STD = 0.8
"""About the mean size of noise, in its standard deviations."""
_WORDS: Mapping[Verdict, str] = {
    "good": worded("Good."),
    "weak": worded("Weak."),
    "noise": worded("Mostly noise."),
    "depends": worded("It depends."),
}
_TINY = 1e-300
_MOST_NAMED = 3
_LABELS = frozenset({"by", "cell"})
_PLACES = frozenset({
    "value", "curve", "coefficients", "cells", "groups", "quantiles", "parts", "means", "tables",
    "rows", "differences",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Usefulness:
    """A verdict and its reason.

    ``share`` is r, where it is known, and ``rows`` how many rows were assumed, where their number
    is private. ``estimate`` says how the errors were found.
    """

    verdict: Verdict
    sentence: str
    share: float | None = None
    rows: int | None = None
    estimate: Estimate = "closed form"

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Usefulness:
        """Return the stored verdict, with ``share`` and ``rows`` where they were stored."""
        verdict = cast(Verdict, stored["verdict"])
        known = {name: stored[name] for name in ("share", "rows", "estimate") if name in stored}
        return cls(verdict, stored["sentence"], **known)

    def to_json(self) -> dict[str, object]:
        """Return verdict, sentence and estimate, ready for JSON."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "estimate": self.estimate,
        }

    def by(self, estimate: Estimate, *, bias: float = 0.0, reason: str = "") -> Usefulness:
        """Return the verdict with the way in which its errors were estimated.

        And with the ``bias``, the largest share of an error, and its reason, where it is not
        negligible.
        """
        remarks = [_COARSE] if estimate == "coarse" else []
        if bias > _MENTIONED:
            off = worded("Up to %(share)s of an error is bias:", share=_percent(bias))
            remarks = [off, reason, *remarks]
        return replace(self, sentence=" ".join([self.sentence, *remarks]), estimate=estimate)


@dataclass(frozen=True, slots=True)
class _Compared:
    """An expected error and the range of possible values."""

    name: _Name
    error: float
    low: float | str
    high: float | str

    @property
    def share(self) -> float:
        return self.error / (_number(self.high) - _number(self.low))

    @property
    def unit(self) -> str:
        """Return the unit of the error, where the range is one of dates or moments."""
        return _unit((self.low, self.high))


def judged(
    errors: Json | None,
    scale: Json | None,
    *,
    rows: int | None = None,
    high: Json | None = None,
    possible: Json | None = None,
) -> Usefulness:
    """Return the verdict on an answer with these expected errors.

    Parameters
    ----------
    errors, scale
        The expected error of each number, and the range that it is compared with.
    rows
        How many were assumed, where their number is private.
    high
        The largest errors over several populations, which decide; None where there is one.
    possible
        Possible ranges, which are wider than any scale: what is noise there is noise anyway.
    """
    if errors is None:
        return Usefulness("depends", worded("It depends on the draw: no error can be estimated."))
    deciding = errors if high is None else high
    compared = list(_compared(deciding, scale))
    unscaled = [(name, error) for name, error in _unscaled(deciding, scale) if error > 0]
    if unscaled or not compared:
        anyway = _noise_anyway(errors, possible, rows)
        return anyway or _without_scale(
            unscaled, len(compared), rows, usual=errors, possible=possible
        )
    worst = max(compared, key=lambda each: each.share)
    share = worst.share
    verdict = verdict_of(share)
    sentence = _of_largest(len(compared), several=high is not None) % {
        "count": len(compared),
        "error": f"{_shown(worst.error)}{worst.unit}",
        "name": worst.name,
        "low": _shown(worst.low),
        "high": _shown(worst.high),
        "share": _percent(share),
    }
    shares = [each.share for each in compared]
    said = (_WORDS[verdict], sentence, *_good_of(shares), *_of_rows(rows))
    return Usefulness(verdict, " ".join(said), share, rows)


def _of_largest(count: int, *, several: bool) -> str:
    """Return the text about the largest error of so many numbers, of several populations or one."""
    if several:
        return (
            worded(
                "The expected error, in the worst of several populations, is %(error)s (%(name)s), "
                "where values from %(low)s to %(high)s are typical: %(share)s of that range."
            )
            if count == 1
            else worded(
                "Of %(count)s numbers the largest expected error, in the worst of several "
                "populations, is %(error)s (%(name)s), where values from %(low)s to %(high)s are "
                "typical: %(share)s of that range."
            )
        )
    return (
        worded(
            "The expected error is %(error)s (%(name)s), where values from %(low)s to %(high)s are "
            "typical: %(share)s of that range."
        )
        if count == 1
        else worded(
            "Of %(count)s numbers the largest expected error is %(error)s (%(name)s), where values "
            "from %(low)s to %(high)s are typical: %(share)s of that range."
        )
    )


def _noise_anyway(errors: Json, possible: Json | None, rows: int | None) -> Usefulness | None:
    """Return the verdict where an error is noise whatever is typical; None where it is not."""
    worst = max(_compared(errors, possible), key=lambda each: each.share, default=None)
    if worst is None or worst.share <= WEAK:
        return None
    sentence = worded(
        "The expected error of %(name)s is %(error)s, %(share)s of all that is possible, %(low)s "
        "to %(high)s.",
        name=worst.name,
        error=f"{_shown(worst.error)}{worst.unit}",
        share=_percent(worst.share),
        low=_shown(worst.low),
        high=_shown(worst.high),
    )
    said = (_WORDS["noise"], sentence, *_of_rows(rows))
    return Usefulness("noise", " ".join(said), worst.share, rows)


def _without_scale(
    unscaled: Sequence[tuple[_Name, float]],
    others: int,
    rows: int | None,
    *,
    usual: Json,
    possible: Json | None,
) -> Usefulness:
    """Return the verdict on an answer where nothing says how large a difference matters.

    It names the largest error of each column: those of two columns are in other units. Where the
    error depends on the population it is from the ``usual`` one to that in the worst.
    """
    if not unscaled:
        none = worded("The expected error rounds to 0.")
        return Usefulness("good", f"{_WORDS['good']} {none}", 0.0, rows)
    largest: dict[object, tuple[_Name, float]] = {}
    for name, error in unscaled:
        known = largest.get(name.kind)
        if known is None or error > known[1]:
            largest[name.kind] = (name, error)
    errors = [
        f"{_between(at(usual, name.path), error)}{_unit(at(possible, name.path))} ({name})"
        for name, error in largest.values()
    ]
    if len(unscaled) + others == 1:
        text = worded(
            "It depends on how large a difference matters: the expected error is %(names)s."
        )
    else:
        text = worded(
            "It depends on how large a difference matters. The largest of %(count)s expected "
            "errors: %(names)s."
        )
    sentence = text % {"count": len(unscaled) + others, "names": listed(errors[:_MOST_NAMED])}
    if any(error > at(usual, name.path) for name, error in largest.values()):
        two = worded("Two numbers: as usual, and in the worst of several populations.")
        sentence = f"{sentence} {two}"
    remedy = worded("State the accuracy that you want, or what is typical of the columns.")
    return Usefulness("depends", " ".join((sentence, remedy, *_of_rows(rows))), None, rows)


def _between(usual: float, most: float) -> str:
    """Return an error, or two: the usual one and the largest of several populations."""
    return _shown(most) if most <= usual else f"{_shown(usual)} - {_shown(most)}"


def judged_within(
    errors: Json | None, accuracy: float, *, rows: int | None = None, high: Json | None = None
) -> Usefulness:
    """Return the verdict on an answer of which this accuracy is wanted.

    ``errors`` are expected ones, and ``high`` the largest where several populations are considered:
    the verdict depends on the population where those have another one. ``accuracy`` is the
    half-width of a 95% interval, in the answer's units.
    """
    name, reach = _reach(errors)
    if not name:
        return judged(None, None)
    verdict = _within(reach, accuracy)

    def reached(reach: float, name: str) -> str:
        return worded(
            "An accuracy of ± %(accuracy)s is wanted, and 95%% of errors are expected to be within "
            "about %(reach)s (%(name)s).",
            accuracy=_shown(accuracy),
            reach=_shown(reach),
            name=name,
        )

    worst, most = _reach(high)
    if worst and _within(most, accuracy) != verdict:
        there = worded(
            "In the worst of several populations it is about %(reach)s (%(name)s).",
            reach=_shown(most),
            name=worst,
        )
        said = (worded("It depends on the records."), reached(reach, name), there, *_of_rows(rows))
        return Usefulness("depends", " ".join(said), None, rows)
    sentence = reached(most, worst) if worst else reached(reach, name)
    return Usefulness(verdict, " ".join((_WORDS[verdict], sentence, *_of_rows(rows))), None, rows)


def _reach(errors: Json | None) -> tuple[str, float]:
    """Return the name of the number with the largest error, and what 95% of its errors are within.

    Without a number the name is empty.
    """
    found = [] if errors is None else [(_Name(path, errors), e) for path, e in numbers(errors)]
    name, error = max(found, key=lambda each: each[1], default=("", 0.0))
    return str(name), REACH * error


def _within(reach: float, accuracy: float) -> Verdict:
    """Return the verdict on errors of which 95% are within ``reach``."""
    if reach > 2 * _NEARLY * accuracy:
        return "noise"
    return "good" if reach <= _NEARLY * accuracy else "weak"


def _of_rows(rows: int | None) -> Iterator[str]:
    """Yield the sentence on the assumed number of rows, where the true number is private."""
    if rows is not None:
        text = worded("1 row is assumed.") if rows == 1 else worded("%(rows)s rows are assumed.")
        yield text % {"rows": f"{rows:,}"}


def _good_of(shares: Sequence[float]) -> Iterator[str]:
    """Yield how many numbers are good where the worst is not, as one small group of many."""
    good = sum(verdict_of(each) == "good" for each in shares)
    if good not in (0, len(shares)):
        text = (
            worded("1 of the %(count)s is good.")
            if good == 1
            else worded("%(good)s of the %(count)s are good.")
        )
        yield text % {"good": good, "count": len(shares)}


def depending(found: Usefulness, *, on: str, where: str) -> Usefulness:
    """Return a verdict left open: on what it depends, and for what the stated error is.

    Both are sentences.
    """
    error = found.sentence.removeprefix(f"{_WORDS[found.verdict]} ")
    return replace(found, verdict="depends", sentence=f"{on} {error} {where} {_STATE_IT}")


def known_errors(errors: Json, outcome: Outcome, *, guessed: bool = False) -> Json:
    """Return expected errors once the noise is known: its size, where that is far larger.

    Where errors were ``guessed``, as for groups of private size, it is always the noise's size.
    What has no noise of a known law, as a quantile, has the noise interval or the standard error of
    the inference; a share that was read off counts has the error that these say it has.
    """
    terms = () if outcome.inference is None else outcome.inference.terms
    found = {each.place: each for each in terms}
    std = None if outcome.noise is None else outcome.noise.std

    def known(path: Sequence[object], error: float) -> float:
        stated, size = at(std, path), at(outcome.shares_off, path)
        if stated is not None:
            size = _SIZE_OF_STD * stated
        elif size is None and guessed:
            size = _size_of(found.get(cast(Any, tuple(path))))
        if size is None:
            return error
        return cast(float, size) if guessed or size >= _FAR_LARGER * error else error

    return placed(known, errors)


def _size_of(term: Term | None) -> float | None:
    """Return the mean size of the noise that the inference about a number states, if it does."""
    if term is None or term.noise_95 is None:
        return None if term is None or term.std_error is None else _SIZE_OF_STD * term.std_error
    low, high = map(_number, term.noise_95)
    return (high - low) / 2 / REACH


def judged_by_noise(
    before: Usefulness, errors: Json, known: Json, ranges: Json | None, value: Json | None = None
) -> Usefulness:
    """Return the verdict once the noise is known, where only a simulation estimated it before.

    Ranges reach to released numbers, as where more records were counted than were assumed.
    """
    if before.share is None or ranges is None:
        return before
    reached = reaching(ranges, value)
    if before.verdict == "depends" or reached != ranges:
        return judged(known, reached, rows=before.rows)
    if known == errors:
        return before
    # Known noise can only worsen a verdict: the interval shows where there is less noise.
    after = judged(known, ranges, rows=before.rows)
    if after.share is None or after.share <= before.share:
        return before
    less = worded("Less was expected beforehand.")
    return replace(after, sentence=f"{after.sentence} {less}")


def judged_release(
    before: Usefulness,
    meanings: Sequence[NearZero],
    value: Json,
    errors: Json | None,
    *,
    edges: Collection[Sequence[object]] = (),
) -> Usefulness:
    """Return the verdict on released numbers, given the one before they were known.

    ``meanings`` says what a number near 0 means, of each part of a stack. ``edges`` are the places
    of numbers that were clamped, which are not compared with 0.
    """
    apart = count = 0
    amounts, last = False, None
    # of up to a million numbers: none is stored
    for name, number, error, meant in _nonzero_candidates(meanings, value, errors or {}, edges):
        last, count, apart = name, count + 1, apart + (abs(number) > DISTINCT * error)
        amounts = amounts or meant == "nothing"
    if before.verdict == "depends" and before.share is None and errors is not None:
        before = _judged_by_itself(before, meanings, value, errors, edges)
    if last is None:
        return before
    fits = any(meant != "nothing" for meant in meanings)
    constants = fits and any(_is_constant(path) for path, _ in numbers(value))
    seen = _far_from_zero(last, apart, count, but_constants=constants)
    if before.verdict == "depends" and before.estimate == "closed form" and apart and before.share:
        verdict = verdict_of(before.share)  # of a known law: it depended on their size alone
        largest = worded(
            "The largest expected error is %(share)s of what was possible.",
            share=_percent(before.share),
        )
        said = (_WORDS[verdict], largest, *_of_rows(before.rows), seen)
        return Usefulness(verdict, " ".join(said), estimate=before.estimate)
    # That a slope is near 0 is worth knowing, to within an error that was expected.
    if apart or not amounts or before.verdict == "noise":
        sentence = f"{before.sentence} {seen}"
        return Usefulness(before.verdict, sentence, estimate=before.estimate)
    sentence = " ".join((_WORDS["noise"], seen, *_of_rows(before.rows)))
    return Usefulness("noise", sentence, estimate=before.estimate)


def _far_from_zero(name: _Name, apart: int, count: int, *, but_constants: bool) -> str:
    """Return how many of some numbers are further from 0 than twice their errors."""
    if count == 1:
        text = (
            worded(
                "The number released for %(name)s is further from 0 than twice its expected error."
            )
            if apart
            else worded(
                "The number released for %(name)s is not further from 0 than twice its expected "
                "error."
            )
        )
        return text % {"name": name}
    texts = _WITHOUT_CONSTANTS if but_constants else _OF_ALL
    return texts[min(apart, 2)] % {"apart": apart, "count": count}


_OF_ALL = (
    worded("None of %(count)s released numbers is further from 0 than twice the expected error."),
    worded("1 of %(count)s released numbers is further from 0 than twice the expected error."),
    worded(
        "%(apart)s of %(count)s released numbers are further from 0 than twice the expected error."
    ),
)
_WITHOUT_CONSTANTS = (
    worded(
        "None of %(count)s released numbers, constants apart, is further from 0 than twice the "
        "expected error."
    ),
    worded(
        "1 of %(count)s released numbers, constants apart, is further from 0 than twice the "
        "expected error."
    ),
    worded(
        "%(apart)s of %(count)s released numbers, constants apart, are further from 0 than "
        "twice the expected error."
    ),
)


def _judged_by_itself(
    before: Usefulness,
    meanings: Sequence[NearZero],
    value: Json,
    errors: Json,
    edges: Collection[Sequence[object]],
) -> Usefulness:
    """Return the verdict on released numbers without a scale, each compared with itself."""
    compared = [each for each in _released(meanings, value, errors, edges) if each[2] > 0]
    if not compared and edges:
        ends = worded("The released numbers are at the ends of what is possible.")
        sentence = f"{_WORDS['noise']} {ends}"
        return Usefulness("noise", sentence, None, before.rows, before.estimate)
    if not compared:
        return before
    # A slope that its error hides is as accurate as others: these decide, if there are any.
    clear = [
        (name, number, error)
        for name, number, error, meant in compared
        if meant != "no effect" or abs(number) * WEAK * _OF_ITSELF >= error
    ] or [each[:3] for each in compared]
    name, _, error = max(clear, key=lambda each: each[2] / max(abs(each[1]), _TINY))
    shares = [error / max(abs(number), _TINY) / _OF_ITSELF for _, number, error in clear]
    share, verdict = max(shares), verdict_of(max(shares))
    sentence = _relative(len(compared), all_of_it=share * _OF_ITSELF >= 1) % {
        "count": len(compared),
        "error": _shown(error),
        "name": name,
        "share": _percent(share * _OF_ITSELF),
    }
    said = " ".join((_WORDS[verdict], sentence, *_good_of(shares), *_of_rows(before.rows)))
    return Usefulness(verdict, said, share, before.rows, before.estimate)


def _relative(count: int, *, all_of_it: bool) -> str:
    """Return the text about the largest error next to its own number, of so many."""
    if all_of_it:
        return (
            worded("The expected error is %(error)s (%(name)s), more than all that was released.")
            if count == 1
            else worded(
                "The largest of %(count)s expected errors, next to the number's own size, is "
                "%(error)s (%(name)s), more than all that was released."
            )
        )
    return (
        worded("The expected error is %(error)s (%(name)s): %(share)s of what was released.")
        if count == 1
        else worded(
            "The largest of %(count)s expected errors, next to the number's own size, is "
            "%(error)s (%(name)s): %(share)s of what was released."
        )
    )


def _released(
    meanings: Sequence[NearZero], value: Json, errors: Json, edges: Collection[Sequence[object]]
) -> Iterator[tuple[_Name, float, float, NearZero]]:
    """Yield released numbers with their names, errors and what 0 would mean.

    Without the other half of a matrix, an intercept next to slopes, and clamped numbers.
    """
    for path, number in numbers(value):
        error = at(errors, path)
        if error is None or _is_mirrored(path) or tuple(path) in edges or _is_constant(path):
            continue
        # of a difference of two groups 0 means no effect, whatever the groups' numbers are
        meant = "no effect" if "differences" in path else _near_zero(meanings, path)
        yield _Name(path, value), number, float(error), meant


def _near_zero(meanings: Sequence[NearZero], path: Sequence[object]) -> NearZero:
    """Return what 0 means of the number at a place: of a stack's, what its part's 0 means."""
    return meanings[int(str(path[1])) if path[0] == "parts" else 0]


def verdict_of(share: float) -> Verdict:
    """Return the verdict on an error that is this share of the possible range."""
    return "good" if share <= GOOD else "weak" if share <= WEAK else "noise"


def _nonzero_candidates(
    meanings: Sequence[NearZero], value: Json, errors: Json, edges: Collection[Sequence[object]]
) -> Iterator[tuple[_Name, float, float, NearZero]]:
    """Yield the numbers for which 0 would mean that there is nothing, or no effect.

    Each with its name, its error and what 0 would mean.
    """
    for path, number in numbers(value):
        error = at(errors, path)
        meant = _near_zero(meanings, path)
        if error is None or meant == "a value" or _is_constant(path):
            continue
        # A diagonal is a variance or a 1: it is never 0, and says nothing about the others.
        if _is_mirrored(path) or ("matrix" in path and path[-1] == path[-2]):
            continue
        if tuple(path) in edges:
            continue
        yield _Name(path, value), number, float(error), meant


def _is_constant(path: Sequence[object]) -> bool:
    """Return whether it is an intercept, or a baseline hazard: 0 says nothing of it."""
    return path[-2:-1] == ("coefficients",) and not is_slope(str(path[-1]))


def _is_mirrored(path: Sequence[object]) -> bool:
    """Return whether it is the other half of a symmetric matrix."""
    if "matrix" not in path and "second" not in path:
        return False
    return int(str(path[-1])) < int(str(path[-2]))


def _unscaled(errors: Json, scale: Json | None) -> Iterator[tuple[_Name, float]]:
    """Yield the names and errors of numbers without a scale."""
    for path, error in numbers(errors):
        if at(scale, path) is None and not (_is_mirrored(path) or _LABELS.intersection(path)):
            yield _Name(path, errors), error


def _compared(errors: Json, ranges: Json | None) -> Iterator[_Compared]:
    for path, error in numbers(errors):
        ends = at(ranges, path)
        if _is_mirrored(path):
            continue
        if ends is not None and _number(ends[0]) < _number(ends[1]):
            yield _Compared(_Name(path, errors), error, ends[0], ends[1])


@dataclass(frozen=True, slots=True)
class _Name:
    """The name of the number at a place, made where it is shown: of a million numbers one is."""

    path: Sequence[object]
    tree: Json

    @property
    def kind(self) -> object:
        """Return what numbers that are alike have in common: of one column, measure and part."""
        own = [key for key in self.path if isinstance(key, str) and key not in _PLACES]
        part = self.path[1] if self.path[0] == "parts" else None
        row = at(self.tree, self.path[:-1])
        measured = row if isinstance(row, Mapping) and "measure" in row else {}
        return part, measured.get("column"), measured.get("measure"), *own

    def __str__(self) -> str:
        return _name(self.path, self.tree)


def _name(path: Sequence[object], tree: Json) -> str:
    """Return the readable name of the number at this place: "income, sex = f"."""
    own = [str(key) for key in path if isinstance(key, str) and key not in _PLACES]
    labels = []
    for depth in range(len(path)):
        node = at(tree, path[:depth])
        for key in ("by", "cell"):
            found = at(node, [key])
            if isinstance(found, Mapping):
                labels += [f"{name} = {label}" for name, label in found.items()]
        for key in ("time", "threshold"):  # a place of a curve
            if (place := at(node, [key])) is not None:
                labels.append(f"{key} {place}")
        if path[depth] == "count" and (columns := at(node, ["columns"])):  # of all its cells
            labels.append(" × ".join(columns))
        level = at(node, ["level"])
        if (measure := at(node, ["measure"])) is not None:  # a row of a summary
            of = [str(each) for each in (measure, at(node, ["column"]), level) if each is not None]
            own.insert(0, " of ".join(of[:2]) + "".join(f" = {each}" for each in of[2:]))
        else:
            labels += [] if level is None else [f"quantile {level}"]
    if path[0] == "parts":
        labels.append(f"part {int(str(path[1])) + 1}")
    if any(key in ("matrix", "second") for key in own):
        labels.append(f"row {int(str(path[-2])) + 1}, column {int(str(path[-1])) + 1}")
    return ", ".join([*own, *labels]) or "the number"


def _unit(possible: Any) -> str:
    """Return the unit of an error, where the range of its number is one of dates or moments."""
    kind = None if possible is None else _time_kind(possible[0])
    return "" if kind is None else f" {UNITS[kind]}"


def _time_kind(end: float | str) -> TimeKind | None:
    """Return the kind of time of a range's end, if it is one: a moment has a time of day."""
    if not isinstance(end, str):
        return None
    return "datetime" if "T" in end else "date"


def _number(end: float | str) -> float:
    kind = _time_kind(end)
    return float(end) if kind is None else float(number_of(kind, str(end)))


def _shown(number: float | str) -> str:
    if isinstance(number, str):
        return number
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e15 else f"{number:.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:,.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"
