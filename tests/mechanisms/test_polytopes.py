"""The polytope engine: exact halves, frames that hold them, true bounds, draws by enumeration."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import working_precision
from mechanisms.objectives.check_loss import (
    GradientCells,
    GradientLaw,
    LossCells,
    LossLaw,
    Records,
    Undecided,
)
from mechanisms.objectives.design import GradientNorm, InterceptHullNorm, Linf
from mechanisms.randomness import Randomness
from mechanisms.samplers.boxes import Box, Cover, Space
from mechanisms.samplers.envelopes import Envelope, Piece, Trial, first_kept
from mechanisms.samplers.polytopes import Cut, Polytope, PolytopeCover, PolytopeLaw, Stack, View
from mechanisms.samplers.polytopes.polytope import Frame
from mechanisms.testing import Law, check_draws, draws_needed, seeded_randomness
from studies.patterns import KINDS, Pattern, table
from tests.mechanisms.covers import require_law

Cuts = st.lists(
    st.tuples(st.tuples(*[st.integers(-5, 5)] * 3), st.integers(-9, 9)), min_size=1, max_size=7
)


def ball(dimension: int, radius: int) -> list[tuple[int, ...]]:
    every = itertools.product(range(-radius, radius + 1), repeat=dimension)
    return [point for point in every if sum(map(abs, point)) <= radius]


# 1. Polytopes and frames --------------------------------------------------------------------


@settings(max_examples=15)
@given(cuts=Cuts, root=st.sampled_from([Polytope.cross, Polytope.cube]))
def test_the_halves_of_a_cut_hold_each_grid_point_once(
    cuts: list[tuple[tuple[int, ...], int]], root: object
) -> None:
    """Degenerate cuts as well: through corners, along walls, beside everything."""
    assert callable(root)
    whole = root(3, 3)
    points = [p for p in itertools.product(range(-4, 5), repeat=3) if whole.holds(p)]
    parts = [whole]
    for functional, level in cuts:
        cut = Cut(functional, level)
        halves = [half for part in parts for half in part.halves(cut)]
        parts = [half for half in halves if half is not None]
    for point in points:
        assert sum(part.holds(point) for part in parts) == 1
    for part in parts:
        inside = [point for point in points if part.holds(point)]
        [frame] = Frame.around(Stack([part]))
        held = {frame.point(place) for place in itertools.product(*map(range, frame.sides))}
        assert len(held) == frame.points
        assert held.issuperset(inside)


@given(cuts=Cuts)
def test_vertices_span_the_polytope(cuts: list[tuple[tuple[int, ...], int]]) -> None:
    """Each lies on its walls and above all others; every grid point is below their support."""
    part: Polytope | None = Polytope.cross(3, 4)
    rng = np.random.default_rng(1)
    for functional, level in cuts:
        smaller = part and part.halves(Cut(functional, level))[0]
        part = smaller if smaller is not None else part
    assert part is not None
    points = np.array([p for p in ball(3, 4) if part.holds(p)])
    for vertex in part.vertices:
        for k, wall in enumerate(part.walls):
            if wall is not None:
                assert (wall.side(vertex) == 0) == bool(vertex.walls >> k & 1)
                assert wall.side(vertex) >= 0
    for direction in rng.normal(size=(20, 3)) if len(points) else ():
        assert (points @ direction).max() <= (part.floats @ direction).max() + 1e-9


def test_a_thin_and_slanted_polytope_has_a_thin_frame() -> None:
    """A box of theta's own directions around this one would hold 10**7 times its points."""
    thin: Polytope | None = Polytope.cross(4, 10 << 34)
    for functional in ((3, -2, 1, 5), (1, 4, -3, 2)):
        for sign in (1, -1):
            thin = thin and thin.halves(Cut(tuple(sign * w for w in functional), -(1 << 12)))[0]
    assert thin is not None
    [frame] = Frame.around(Stack([thin]))
    assert frame.points < 2**26 * 2**76
    randomness, inside = seeded_randomness(1), 0
    for _ in range(400):
        inside += thin.holds(frame.draw_point(randomness))
    assert inside > 20


def test_a_box_s_faces_hold_what_the_box_holds() -> None:
    shear = np.array([[1.0, -0.75, 1.5], [0.0, 1.0, 2.0**-12 * 777], [0.0, 0.0, 1.0]])
    space, box = Space(radius=100, shear=shear), Box((-3, 1, -2), (3, 2, 4))
    places = itertools.product(*map(range, box.sides))
    inside = {space.point(box, place) for place in places}
    cuts = [Cut(*face) for face in space.faces(box)]
    found = {p for p in ball(3, 16) if all(cut.holds(p) for cut in cuts)}
    assert found == inside


# 2. Bounds ----------------------------------------------------------------------------------

ROWS = [(4, 4, -4, 4), (4, -4, 4, -4), (4, 4, 4, 4), (4, 4, -4, 4), (4, -1, 3, 0), (4, 4, 4, -4)]
HIGH = Fraction(9, 10)


def records(rows: Sequence[tuple[int, ...]], *, grid_bits: int, radius: int) -> Records:
    codes = np.array(rows, dtype=np.int64) * (CODE_MAX // 4)
    x, y = np.ascontiguousarray(codes[:, :-1]), np.ascontiguousarray(codes[:, -1])
    return Records.build(x, y, grid_bits=grid_bits, radius=radius, spread=grid_bits > 8)


def gradient(grid_bits: int, radius: int, norm: GradientNorm | None = None) -> GradientCells:
    built = records(ROWS, grid_bits=grid_bits, radius=radius)
    return GradientCells(GradientLaw(built, tau=HIGH, rate=Fraction(3), norm=norm or Linf()))


def laws(grid_bits: int, radius: int) -> dict[str, PolytopeLaw[object]]:
    built = records(ROWS, grid_bits=grid_bits, radius=radius)
    return {
        "gradient linf": gradient(grid_bits, radius),
        "gradient hull": gradient(grid_bits, radius, InterceptHullNorm(HIGH)),
        "loss": LossCells(LossLaw(built, tau=HIGH, rate=Fraction(3))),
    }


@pytest.mark.parametrize("name", laws(2, 5))
def test_bounds_on_polytopes_are_below_every_point(name: str) -> None:
    """Down random paths of cuts, on a grid so fine that polytopes hold points of every size."""
    law, rng, randomness = laws(34, 10 << 34)[name], random.Random(3), seeded_randomness(3)
    informative = 0
    for part in list(law.start()) * 4:
        stack, known, exponent = Stack([part.polytope]), part.known, part.exponent
        for _ in range(25):
            chosen = rng.randrange(len(stack.polytopes))
            polytope, frame = stack.polytopes[chosen], Frame.around(stack)[chosen]
            view = law.views([known] * len(stack.polytopes), stack)[chosen]
            known, exponent = view.known, max(exponent, view.exponent)
            informative += exponent > 0.1
            for point in (frame.draw_point(randomness) for _ in range(6)):
                if polytope.holds(point):
                    with working_precision(128):
                        assert exponent <= float(law.exponent(known, point, 128).upper())
            cut = view.cut or frame.halving(len(polytope.walls))
            kept = [half for half in polytope.halves(cut) if half is not None] if cut else []
            if not kept:
                break
            stack = Stack(kept)
    assert informative > 20


@pytest.mark.parametrize("name", laws(2, 5))
def test_polytopes_seen_together_are_seen_as_each_alone(name: str) -> None:
    """Their vertices are not as many, and means must not count one twice."""
    law = laws(34, 10 << 34)[name]
    part = law.start()[-1]
    pieces = [part.polytope]
    for direction in np.random.default_rng(2).normal(size=(3, 3)):
        cuts = [Cut.middle(direction, each.floats, 0.3) for each in pieces]
        halves = [each.halves(cut) for each, cut in zip(pieces, cuts, strict=True) if cut]
        pieces = [half for both in halves for half in both if half is not None]
    assert len({len(each.vertices) for each in pieces}) > 1
    stack, single = Stack(pieces), [Stack([each]) for each in pieces]
    alone = [law.views([part.known], each)[0] for each in single]
    for one, other in zip(law.views([part.known] * len(pieces), stack), alone, strict=True):
        assert one.exponent == pytest.approx(other.exponent, rel=1e-9)
        assert one.gain == pytest.approx(other.gain, rel=1e-9)
        assert (one.cut is None) == (other.cut is None)
    frames = [Frame.around(each)[0].points for each in single]
    assert [frame.points for frame in Frame.around(stack)] == pytest.approx(frames, rel=1e-6)


# 3. Distribution ----------------------------------------------------------------------------


TRIED_ALWAYS = {"gradient linf", "loss"}


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in TRIED_ALWAYS else [pytest.mark.slow])
        for name in laws(2, 5)
    ],
)
def test_draws_follow_the_law_and_no_other(name: str) -> None:
    """On a coarse grid of all three coefficients, against every point's own exponent."""
    law, points = laws(1, 4)[name], ball(3, 4)
    [known, *_] = [part.known for part in law.start()]
    with working_precision(128):
        values = {p: float(law.exponent(known, p, 128)) for p in points}
    require_law(lambda: PolytopeCover(law), values)


@pytest.mark.wide
@pytest.mark.statistical
def test_envelopes_that_take_turns_draw_from_the_one_law() -> None:
    """Boxes and polytopes are fresh after a few draws, so that either may end one."""
    polytopes, points = gradient(grid_bits=1, radius=3), ball(3, 3)
    law, known = polytopes.law, polytopes.law.root()
    with working_precision(128):
        values = {p: float(polytopes.exponent(known, p, 128)) for p in points}
    order = {point: i for i, point in enumerate(sorted(points, key=values.__getitem__))}
    exact, *twins = (
        Law.discrete(list(order.values()), [math.exp(-scale * values[p]) for p in order])
        for scale in (1.0, 0.4, 2.5)
    )
    randomness = seeded_randomness(7)
    draws = []
    for _ in range(
        draws_needed(min(exact.gap(twin, list(order.values())) for twin in twins)) // 20 + 1
    ):
        trials: list[Trial] = [Cover(law, law.records.space), PolytopeCover(polytopes)]
        draws += [order[first_kept(trials, randomness)] for _ in range(20)]
    check_draws(draws, exact, twins=twins)


class Seen(LossCells):
    """Counts how many polytopes are looked at at once."""

    def views(self, known: Sequence[Undecided], stack: Stack) -> list[View[Undecided]]:
        self.counts = [*getattr(self, "counts", []), len(known)]
        return super().views(known, stack)


def test_a_few_polytopes_that_failed_are_cut_together() -> None:
    """Unless one of them fails again: at first all weight is in few."""
    built = records(ROWS, grid_bits=34, radius=10 << 34)
    law = Seen(LossLaw(built, tau=HIGH, rate=Fraction(3)))
    cover, randomness = PolytopeCover(law), seeded_randomness(1)
    for _ in range(40):
        first_kept([cover], randomness)
    assert max(law.counts) == 8
    assert {1, 2} & set(law.counts[1:9])
    assert np.mean(law.counts) > 4


class Tired:
    """An envelope that never keeps a point, and spends the same at each try."""

    def __init__(self, name: str, spent: list[str], *, last: int) -> None:
        self.envelope: Envelope[Piece] = Envelope(0.0, [Piece(exponent=0.0, points=1, size=1)])
        self.name, self.spent, self.last = name, spent, last

    def attempt(self, randomness: Randomness) -> tuple[int, ...] | None:
        self.envelope.replace({self.envelope.choose(randomness)[0]: [self._piece()]})
        self.spent.append(self.name)
        return (0,) if len(self.spent) >= self.last else None

    def _piece(self) -> Piece:
        return Piece(exponent=0.0, points=1, size=1)


def test_the_first_envelope_has_more_turns_and_not_all() -> None:
    spent: list[str] = []
    tired = [Tired(name, spent, last=4000) for name in ("first", "second", "third")]
    assert first_kept(tired, seeded_randomness(1)) == (0,)
    late = spent[-1000:]
    assert set(spent[:200]) == {"first"}
    assert 550 < late.count("first") < 650
    assert abs(late.count("second") - late.count("third")) <= 1


# 4. Patterns that boxes alone could not end -------------------------------------------------

NAMED = {"0101": 1171, "0011": 236, "1011": 238, "0000": 595, "0010": 149, "1101": 660}
WORST = [
    Pattern("gradient", NAMED, "1"),
    Pattern(
        "gradient",
        {"1101": 970, "1110": 1319, "1011": 1419, "1111": 1137, "0100": 454, "0010": 786},
        "0.5",
    ),
    Pattern("loss", {"0010": 789, "0001": 396}, "10000"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", WORST, ids=lambda p: f"{p.kind} {len(p.counts)} {p.epsilon}")
def test_a_few_distinct_rows_do_not_hold_a_draw_up(pattern: Pattern) -> None:
    """Each took boxes alone from ten seconds to minutes."""
    assert min(pattern.seconds(seed) for seed in (1, 2)) < 4


@pytest.mark.slow
@pytest.mark.wide
def test_no_pattern_takes_four_times_as_long_as_even_rows() -> None:
    """Three random ones of each kind. The whole search is ``python -m studies.patterns``."""
    rows = list(table(patterns=3, seed=11, draws=2))
    assert [each.kind for each in rows] == list(KINDS)
    for each in rows:
        assert each.ratio < 4, each
