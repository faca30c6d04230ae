"""Every run of a sampler, depth-first: its law, in certified bounds.

The sampler is run again and again. Whenever an answer depends on random bits not yet looked at,
the run *chooses*: each choice has exact odds given those before it. The next run follows the same
choices up to the last one that has another option, and takes that. So the whole tree is walked.

*Bounds.* An outcome's probability is at least the mass of the runs that ended with it, and at most
that plus all mass that was not seen to the end. A run whose mass falls below a cutoff is stopped.

*Loops.* A rejection sampler may begin anew for ever. A run is stopped where one activation of a
function is again at an expression at which it chose before, and every local variable that it had
then is unchanged. Variables it has gained since cannot matter: a path from there that read one
before it set it would have failed the first time. What follows has the same law as the first
time, so the mass that came back is shared out among the other ends: divided by ``1 - r``. Positions
inside a ``for`` or a comprehension do not count: how far those are is hidden.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np
from flint import arb

from mechanisms.exact.balls import below, rational
from mechanisms.exact.floats import working_precision
from mechanisms.randomness import Randomness
from tests.enumeration.integers import Lazy, assignments
from tests.enumeration.reals import Races, Uniform

BITS = 128  # of the balls in which masses are kept
RESOLVED = Fraction(1, 2**20)
"""A law counts as enumerated where less mass than this was not seen to the end."""

Odds = Sequence[Fraction | arb]
Outcome = Any

LOOPS = frozenset(
    {
        "below",
        "discrete_laplace",
        "draw_by_weight",
        "draw_discrete_gaussian",
        "draw_from_points",
        "draw_hull",
        "draw_in_ball",
        "draw_linf",
        "_spread",
        "geometric_exp",
        "joint_points",
        "point",
    }
)
"""Functions that may begin anew: where they call others that choose."""

ITSELF = frozenset({"below", "discrete_laplace"})
"""Those of them that choose in the condition of a ``while``, and in nothing hidden like a sort."""


_OWN = (__name__, Lazy.__module__, Uniform.__module__)


class _StoppedError(BaseException):
    """The run goes no further; not an Exception, so that no sampler catches it."""

    def __init__(self, back_to: int | None = None) -> None:
        self.back_to = back_to


@dataclass(slots=True)
class _Choice:
    odds: Odds
    size: float  # about the mass on arrival
    first_end: int  # how many ends there were on arrival
    mass: arb | None = None
    taken: int = 0


@dataclass(slots=True)
class _End:
    outcome: Outcome
    mass: arb
    back_to: int | None = None
    seen: bool = True


@dataclass(frozen=True, slots=True)
class Bounds:
    """A law: every outcome's probability lies in [lower, lower + unresolved]."""

    lower: Mapping[Outcome, Fraction]
    unresolved: Fraction
    runs: int

    def upper(self, outcome: Outcome) -> Fraction:
        """Return an upper bound of an outcome's probability."""
        return self.lower.get(outcome, Fraction(0)) + self.unresolved

    def mapped(self, function: Callable[[Outcome], Outcome]) -> Bounds:
        """Return the law of a function of the outcome."""
        lower: dict[Outcome, Fraction] = {}
        for outcome, mass in self.lower.items():
            image = function(outcome)
            lower[image] = lower.get(image, Fraction(0)) + mass
        return Bounds(lower, self.unresolved, self.runs)


class Walk:
    """The tree of one sampler; a source of bits that chooses."""

    def __init__(self, *, cutoff: float, loops: frozenset[str]) -> None:
        self.races = Races()
        self._cutoff = cutoff
        self._loops = loops
        self._path: list[_Choice] = []
        self._ends: list[_End] = []
        self._depth = 0
        self._weighed = 0  # so many choices have their mass
        self._latest: dict[FrameType, object] = {}
        self._stands: list[list[_Stand]] = []
        self.runs = 0

    def bits(self, count: int) -> Lazy | int:
        """Return an integer uniform on [0, 2**count), not yet known."""
        return Lazy.uniform(self.choose, 1 << count) if count else 0

    def choose(self, odds: Odds) -> int:
        """Return which option this run takes."""
        self._depth += 1
        stands = list(self._where())
        if self._depth > len(self._path):
            self._new(odds, stands)
        self._stands.append(stands)
        return self._path[self._depth - 1].taken

    def walk(self, draw: Callable[[Randomness], Outcome]) -> Bounds:
        """Return the law of what ``draw`` returns."""
        more = True
        while more:
            self._run(draw)
            more = self._next()
        lower: dict[Outcome, Fraction] = {}
        with working_precision(BITS):
            for end in self._ends:
                if end.seen:
                    lower[end.outcome] = lower.get(end.outcome, Fraction(0)) + below(end.mass)
        return Bounds(lower, 1 - sum(lower.values(), Fraction(0)), self.runs)

    def _run(self, draw: Callable[[Randomness], Outcome]) -> None:
        self._depth, self._stands, self._latest, self.races = 0, [], {}, Races()
        self.runs += 1
        back_to, outcomes = None, []
        try:
            outcomes = list(assignments(draw(ScriptedRandomness(self))))
        except _StoppedError as stopped:
            back_to = stopped.back_to
        with working_precision(BITS):
            mass = self._mass()
            if not outcomes:
                self._ends.append(_End(None, mass, back_to, seen=False))
            share = rational(Fraction(1, max(len(outcomes), 1)))
            self._ends += [_End(outcome, mass * share) for outcome in outcomes]

    def _mass(self) -> arb:
        """Return the mass of this run; that of its beginning is known from the run before."""
        mass = arb(1)
        for choice in self._path[self._weighed :]:
            if self._weighed:
                before = self._path[self._weighed - 1]
                assert before.mass is not None
                mass = before.mass * _ball(before.odds[before.taken])
            choice.mass = mass
            self._weighed += 1
        if self._path:
            last = self._path[-1]
            assert last.mass is not None
            mass = last.mass * _ball(last.odds[last.taken])
        return mass

    def _new(self, odds: Odds, stands: list[_Stand]) -> None:
        for place, before in enumerate(self._stands):
            if any(now.returned_to(then) for now in stands for then in before):
                raise _StoppedError(place)
        size = self._path[-1].size * self._odds_taken() if self._path else 1.0
        choice = _Choice(odds, size, len(self._ends))
        self._path.append(choice)
        if size * float(odds[0]) < self._cutoff:
            raise _StoppedError

    def _odds_taken(self) -> float:
        last = self._path[-1]
        return float(last.odds[last.taken])

    def _next(self) -> bool:
        """Turn to the next option of the last choice that has one; say whether there is any."""
        with working_precision(BITS):
            while self._path:
                last = self._path[-1]
                while last.taken + 1 < len(last.odds):
                    last.taken += 1
                    odds = last.odds[last.taken]
                    if last.size * float(odds) >= self._cutoff:
                        return True
                    assert last.mass is not None
                    self._ends.append(_End(None, last.mass * _ball(odds), seen=False))
                self._path.pop()
                self._weighed = min(self._weighed, len(self._path))
                self._close(last)
        return False

    def _close(self, choice: _Choice) -> None:
        """Share out the mass that came back to a choice among the ends below it."""
        place, below_it = len(self._path), self._ends[choice.first_end :]
        back = [end for end in below_it if end.back_to == place]
        if not back or choice.mass is None:
            return
        del self._ends[choice.first_end :]
        factor = 1 / (1 - sum((end.mass for end in back), arb(0)) / choice.mass)
        for end in below_it:
            if end.back_to != place:
                end.mass = end.mass * factor
                self._ends.append(end)

    def _where(self) -> Iterator[_Stand]:
        """Yield, for each function on the stack that may begin anew, where it is.

        Only at the first choice of each call it makes: up to there a run is determined by where
        the function is and what it knows.
        """
        frame: FrameType | None = sys._getframe(2)
        called: FrameType | None = None
        while frame is not None and frame.f_code is not Walk.walk.__code__:
            if frame.f_globals["__name__"] not in _OWN:
                if frame.f_code.co_name in self._loops and not _iterating(frame):
                    place = _place(frame)
                    first = self._latest.get(frame) != (place, called)
                    if first if called is not None else frame.f_code.co_name in ITSELF:
                        self._latest[frame] = (place, called)
                        known = {name: _still(value) for name, value in frame.f_locals.items()}
                        yield _Stand(frame, place, known)
                called = frame
            frame = frame.f_back


@dataclass(frozen=True, slots=True)
class _Stand:
    """An activation of a function, where in its source it is, and its local variables."""

    frame: FrameType
    place: object
    known: Mapping[str, object]

    def returned_to(self, before: _Stand) -> bool:
        """Say whether this is where the same activation was before, with what it knew then."""
        return (
            self.frame is before.frame
            and self.place == before.place
            and all(
                name in self.known and self.known[name] == value
                for name, value in before.known.items()
            )
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """An object that equals itself alone."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _still(value: object, depth: int = 4) -> object:
    """Return what a variable holds, so that a later change of it shows."""
    if value is None or isinstance(value, int | str | Fraction | float):
        return value
    if isinstance(value, Lazy | Uniform):
        return value.state()
    if hasattr(value, "__next__"):
        return object()
    parts = _parts(value) if depth else None
    if parts is None:
        return _Same(value)
    return tuple(_still(part, depth - 1) for part in parts)


def _parts(value: object) -> Sequence[object] | None:
    """Return what an object is made of, where two made alike do the same; None if it is itself."""
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, np.ndarray):
        return list(value.ravel().tolist())
    if isinstance(value, FunctionType):
        return [value.__code__, *(cell.cell_contents for cell in value.__closure__ or ())]
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if type(value).__module__.startswith("mechanisms.") and "__slots__" in vars(type(value)):
        return [type(value), *(getattr(value, name) for name in type(value).__slots__)]
    return None


def _place(frame: FrameType) -> object:
    """Return where in the source a frame is: a loop's condition is compiled twice."""
    return _places(frame.f_code)[frame.f_lasti // 2]


@cache
def _places(code: CodeType) -> tuple[object, ...]:
    return tuple(code.co_positions())


def _iterating(frame: FrameType) -> bool:
    return any(start < frame.f_lasti < end for start, end in _for_loops(frame.f_code))


@cache
def _for_loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    return tuple(
        (each.offset, each.argval)
        for each in dis.get_instructions(code)
        if each.opname == "FOR_ITER"
    )


def _ball(odds: Fraction | arb) -> arb:
    return rational(odds) if isinstance(odds, Fraction) else odds


class ScriptedRandomness(Randomness):
    """The shipped primitives on bits that are chosen; lazy reals as symbols.

    A coin or a geometric variable is a function of fresh bits alone. So each is walked once, and
    afterwards chosen whole, by the bounds of its law.
    """

    __slots__ = ("_walk",)

    def __init__(self, walk: Walk) -> None:
        super().__init__(walk)  # type: ignore[arg-type]
        self._walk = walk

    def uniform(self) -> Uniform:  # type: ignore[override]
        """Return a real uniform on (0, 1), not yet known."""
        return Uniform(self._walk.choose, self._walk.races)

    def _bernoulli_exp_unit(self, numerator: int, denominator: int) -> bool:
        return bool(self._chosen("_bernoulli_exp_unit", numerator, denominator))

    def bernoulli_exp(self, exponent: Fraction) -> bool:
        """Return True with probability ``exp(-exponent)``."""
        return bool(self._chosen("bernoulli_exp", exponent))

    def geometric_exp(self, rate: Fraction) -> int:
        """Return a geometric variable."""
        return int(self._chosen("geometric_exp", rate))

    def _chosen(self, name: str, *given: Any) -> Any:
        outcomes, odds = _walked(name, *given)
        return outcomes[self._walk.choose(odds)]


@cache
def _walked(name: str, *given: Any) -> tuple[list[Outcome], list[arb]]:
    """Return what a primitive returns, and balls around how likely each is."""
    primitive = vars(Randomness)[name]
    bounds = law_of(lambda randomness: primitive(randomness, *given), cutoff=2.0**-80)
    with working_precision(BITS):
        most = rational(bounds.unresolved)
        odds = [rational(low).union(rational(low) + most) for low in bounds.lower.values()]
    return list(bounds.lower), odds


def forget() -> None:
    """Walk the primitives again when they are next used."""
    _walked.cache_clear()


def law_of(
    draw: Callable[[Randomness], Outcome],
    *,
    cutoff: float = 2.0**-40,
    loops: frozenset[str] = LOOPS,
) -> Bounds:
    """Return the law of a sampler, in bounds.

    Parameters
    ----------
    draw
        Draws once. What it returns may hold integers not yet known: each of their values counts.
    cutoff
        Runs of less mass are not followed.
    """
    return Walk(cutoff=cutoff, loops=loops).walk(draw)


@dataclass(frozen=True, slots=True)
class Stated:
    """A law in closed form: the probability of any outcome, and some that must be possible."""

    at: Callable[[Outcome], arb]
    support: Sequence[Outcome]


def require_law(bounds: Bounds, stated: Stated, *, unresolved: Fraction = RESOLVED) -> None:
    """Assert that the stated law lies within the bounds of another, and that this was resolved.

    Raises
    ------
    AssertionError
        Too little was seen, or an outcome's probability is certainly another than stated.
    """
    with working_precision(BITS):
        for outcome in {*bounds.lower, *stated.support}:
            probability = stated.at(outcome)
            low, high = bounds.lower.get(outcome, Fraction(0)), bounds.upper(outcome)
            assert not probability < rational(low), f"{outcome}: above {float(low)}, {probability}"
            assert not probability > rational(high), (
                f"{outcome}: below {float(high)}, {probability}"
            )
    assert bounds.unresolved < unresolved, f"unresolved: {float(bounds.unresolved):.3g}"
