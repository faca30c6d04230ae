"""Samplers with one thing changed, each of which the walk must tell from the shipped one.

A mutant is a function's own source with one piece of text replaced. It must fail its case: have
another law, raise an error, or never come to an end.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mechanisms.exact import continuous
from mechanisms.geometry import smooth
from mechanisms.geometry.polytopes import Polytope
from mechanisms.objectives.geometric_median import MedianLaw
from mechanisms.randomness import Randomness
from mechanisms.samplers import geometric, intervals, joint_quantiles, knorm
from mechanisms.samplers import intervals as flip
from mechanisms.samplers.boxes import Space
from mechanisms.samplers.envelopes import Envelope, SumTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """Text of a sampler's source, what it becomes, and the case that must find it."""

    of: object
    name: str
    old: str
    new: str
    case: str
    slow: bool = False

    @property
    def title(self) -> str:
        """Return what is changed, in a line."""
        return f"{self.name}: {self.old} -> {self.new}"

    @property
    def table_row(self) -> str:
        """Return its row in the page of documents."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"| `{self.name}` | `{old}` | `{new}` |"

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the mutant in the sampler's place."""
        shipped = inspect.unwrap(inspect.getattr_static(self.of, self.name))
        is_property = isinstance(shipped, property)
        function: Any = shipped.fget if is_property else shipped
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.title}: found {source.count(self.old)} times"
        made = _compiled(source.replace(self.old, self.new), function)
        monkeypatch.setattr(self.of, self.name, property(made) if is_property else made)


def _compiled(source: str, function: Callable[..., Any]) -> Callable[..., Any]:
    lines = source.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(("def ", "class ")))
    names: dict[str, Any] = {}
    space = vars(sys.modules[function.__module__])
    # the annotations are those of the module: not evaluated
    text = "from __future__ import annotations\n" + "\n".join(lines[start:])
    exec(compile(text, f"<mutant of {function.__name__}>", "exec"), space, names)
    made: Callable[..., Any] = names[function.__name__]
    return made


_L1, _L2, _HULL = "draw_l1: one coordinate", "draw_l1: two coordinates", "draw_hull: three cells"
_LINF, _BALL = "draw_linf: two coordinates", "draw_in_ball: a hexagon"
_POINTS, _FLIP = "draw_from_points: a hexagon", "permute_and_flip_point"
_NARROW, _WIDE = (f"draw_discrete_gaussian: sigma {side} 1" for side in ("below", "above"))
_ROUND, _LINE = "draw_l2: two coordinates", "boxes on a line"
_PLACES, _SPREAD_PLACES = "draw_point: places", "joint_points: places"
_JOINT, _TIES = "joint_points: no ties", "joint_points: ties"


def _mutant(of: object, name: str, old: str, new: str, case: str, *, slow: bool = False) -> Mutant:
    return Mutant(of=of, name=name, old=old, new=new, case=case, slow=slow)


MUTANTS: tuple[Mutant, ...] = (
    # an acceptance that takes or loses one number
    _mutant(Randomness, "below", ">= bound", "> bound", "below"),
    _mutant(Randomness, "below", ">= bound", ">= bound - 1", "below"),
    _mutant(Randomness, "below", "(bound - 1).bit_length()", "bound.bit_length() - 1", "below"),
    _mutant(Randomness, "bernoulli", "< probability", "<= probability", "bernoulli"),
    # a parity, a ratio, a sign
    _mutant(Randomness, "_bernoulli_exp_unit", "== 1", "== 0", "bernoulli_exp"),
    _mutant(Randomness, "_bernoulli_exp_unit", "< numerator", "<= numerator", "bernoulli_exp"),
    _mutant(Randomness, "_bernoulli_exp_unit", "trials = 1", "trials = 2", "bernoulli_exp"),
    _mutant(Randomness, "bernoulli_exp", "range(whole)", "range(whole + 1)", "bernoulli_exp"),
    _mutant(Randomness, "geometric_exp", "scale * quotient", "quotient", "geometric_exp"),
    _mutant(Randomness, "geometric_exp", "while not self", "while self", "geometric_exp"),
    _mutant(
        Randomness, "discrete_laplace", "magnitude or not negative", "True", "discrete_laplace"
    ),
    _mutant(knorm, "draw_discrete_gaussian", "* step - upper", "* step + upper", _WIDE),
    _mutant(knorm, "draw_discrete_gaussian", "(1, scale)", "(2, scale)", _WIDE),
    _mutant(knorm, "draw_discrete_gaussian", "2 * upper", "upper", _NARROW),
    # the coins of a geometric variable
    _mutant(
        geometric.Geometric,
        "_flips",
        "words < self._prefixes",
        "words > self._prefixes",
        "geometric",
    ),
    _mutant(geometric.Geometric, "_prefix", "self.rate * (1 << column)", "self.rate", "geometric"),
    _mutant(geometric, "coin_prefix", "(1 + power)", "(2 + power)", _L1),
    _mutant(knorm, "draw_l1", "both[dimension:]", "both[:dimension]", _L1),
    _mutant(knorm, "draw_l1", "- both", "+ both", _L2),
    # radii and boxes
    _mutant(knorm, "draw_linf", "dimension + 1)\n", "dimension)\n", _LINF),
    _mutant(knorm, "draw_linf", "< side**dimension", "<= side**dimension", _LINF),
    _mutant(knorm, "draw_linf", "2 * radius + 1\n", "2 * radius + 2\n", _LINF),
    _mutant(knorm, "draw_linf", "- radius for", "- radius + 1 for", _LINF),
    _mutant(knorm, "draw_hull", "rate / 2)\n        last", "rate)\n        last", _HULL),
    _mutant(knorm, "draw_hull", "abs(last) * rate / 2", "abs(last) * rate", _HULL),
    _mutant(knorm, "draw_hull", "last = -sum", "last = sum", _HULL),
    _mutant(knorm, "draw_in_ball", "if not randomness", "if randomness", _BALL),
    _mutant(knorm, "draw_in_ball", "contains(point, radius)", "contains(point, radius + 1)", _BALL),
    _mutant(knorm, "draw_in_ball", "(2 * half + 1) - half", "(2 * half + 1) - half + 1", _BALL),
    # a length and a direction
    _mutant(
        continuous,
        "_L2Vector",
        "_uniforms(dimension,",
        "_uniforms(dimension + 1,",
        _ROUND,
        slow=True,
    ),
    _mutant(continuous, "_L2Vector", "2 * angle", "angle", _ROUND, slow=True),
    _mutant(
        continuous,
        "inverse_root",
        "(1 / rate_squared).sqrt()",
        "(1 / rate_squared)",
        _ROUND,
        slow=True,
    ),
    _mutant(smooth, "draw_from_points", ">= (radius", "> (radius", _POINTS, slow=True),
    _mutant(
        smooth, "draw_from_points", "steps * radius)", "steps * radius + 1)", _POINTS, slow=True
    ),
    _mutant(Polytope, "contains", "<= size", "< size", _POINTS, slow=True),
    # a quantile's steps
    _mutant(intervals, "_steps_near", "[under - ", "[under + 1 - ", "draw_point"),
    _mutant(
        intervals,
        "_steps_near",
        "codes[quantile - 1 : last] + 1",
        "codes[quantile - 1 : last]",
        "draw_point",
    ),
    _mutant(intervals, "_certified", "place if target", "place + 1 if target", "draw_point"),
    _mutant(intervals, "_certified", "target > below and", "target < below and", "draw_point"),
    _mutant(
        intervals, "draw_scored_place", "lengths[index]))", "lengths[index]) + 1)", "draw_point"
    ),
    _mutant(intervals.GridCodes, "places", "points - self.low", "points - self.low - 1", _PLACES),
    _mutant(intervals.GridCodes, "point", ")) - 1", "))", _PLACES),
    # permute-and-flip's coins and clocks
    _mutant(flip, "_is_first_ring", "exceeds(patience, limit)", "exceeds(limit, patience)", _FLIP),
    _mutant(
        flip,
        "_is_first_ring",
        "-(-rational(exponent)).expm1()",
        "(-rational(exponent)).exp()",
        _FLIP,
    ),
    _mutant(flip, "permute_and_flip_point", "if place in drawn", "if False", _FLIP, slow=True),
    _mutant(flip, "permute_and_flip_point", "exponent == 0 or", "exponent != 0 or", _FLIP),
    # several quantiles
    _mutant(joint_quantiles, "_kept", "exceeds(limit, ", "exceeds(2 * limit, ", _JOINT),
    _mutant(joint_quantiles.JointLaw, "score", "count - rows", "count + 1 - rows", _JOINT),
    _mutant(joint_quantiles.Tables, "odds", "runs[count - 1]", "runs[0]", _TIES),
    _mutant(joint_quantiles, "_draw", "int(sums[-1])", "int(sums[-1]) // 2", _JOINT),
    _mutant(geometric.FineGrid, "_spread", "while missing.any()", "if missing.any()", _TIES),
    _mutant(geometric.FineGrid, "_uniform", "points < np", "points <= np", _SPREAD_PLACES),
)

COVER_MUTANTS: tuple[Mutant, ...] = (
    _mutant(Envelope, "keeps", "exceeds(density, ", "exceeds(2 * density, ", _LINE),
    _mutant(Envelope, "weight", "_SCALE - 52", "_SCALE - 54", _LINE),
    _mutant(SumTree, "choose", "target -= self._sums[place]", "target -= 1", _LINE),
    _mutant(SumTree, "choose", "place *= 2", "place = place * 2 + 1", _LINE),
    _mutant(Space, "draw_point", "below(side) for", "below(side // 2 + 1) for", _LINE),
    _mutant(MedianLaw, "split", "- moves", "+ moves", _LINE),
)
"""Of adaptive rejection on boxes."""
