"""The K-norm gradient law of logistic regression, as a law of the box engine.

    E(theta) = rate ||g(theta)|| / r(||theta||_1),    g the gradient of the logistic loss,

r as in :mod:`mechanisms.objectives.logistic_law.sensitivity`, in norms scaled so that the cube
[-1, 1]^d lies in their unit ball and its corners on it.

*Bounds.* Over a box each g_j is its value at the centre plus or minus what the sides and a
remainder allow (:mod:`mechanisms.objectives.logistic_law.expansion`). The expansion that a box
inherits comes first. Where its remainder spoils the bound, cells of near rows are looked at, and
then rows: for a large box by chords, for a small one by an expansion of its own. A box that is
certain to weigh next to nothing gets no closer look. So near the minimiser hardly any box reads a
row.

*Start.* With w = theta - p, the derivative of g along w is at least exp(-s ||w||_1) of that at p,
so ``g(theta)'w >= g(p)'w + m(||w||_1) w'H w``, m(r) = (1 - exp(-r)) / r. Along a ray from p
``g(theta)'w / |w|`` grows. Hence for every theta outside a box C around p, b being where the ray
leaves C and w = b - p,

    ||g(theta)|| >= (g(p)'w + m(||w||_1) w'H w) / h(w),    h the dual norm,

whose least value over patches of the boundary of C bounds the norm everywhere outside of it. On a
patch w'H w is above its tangent plane at the centre, and h and ||w||_1 at most those of the largest
coordinates. That saturates, as m(r) falls like 1/r. Where distinct rows are few, each has its say:

    (g(b) - g(p))'w = sum_i c_i (sigma(t_i + s_i) - sigma(t_i)) s_i,

t_i = zeta_i'p, s_i = zeta_i'w. As sigma increases, a summand is never below 0 and grows with |s_i|:
on a patch it is least where s_i is nearest to 0. Where rows are many and the first bound says too
little, the loss itself has its say (:mod:`mechanisms.objectives.logistic_law.outside`).

*Values* are tried first from the expansion (or from cells), then by a pass in floats with proved
errors, then row by row in ball arithmetic; each is a ball around the exact value, so the last word
is exact. The bounds themselves are those of :mod:`mechanisms.objectives.logistic_law.held`, or of
:mod:`mechanisms.objectives.logistic_law.stored` where rows are too many to hold.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import rational
from mechanisms.exact.once import once
from mechanisms.objectives.gradient_norms import CubeNorm, NormName
from mechanisms.objectives.logistic_law.cells import Cells, cell_chords
from mechanisms.objectives.logistic_law.expansion import (
    MARGIN,
    Chords,
    Expansion,
    Frame,
)
from mechanisms.objectives.logistic_law.outside import Losses, risen_beyond
from mechanisms.objectives.logistic_law.sensitivity import Reach
from mechanisms.samplers.boxes import Box, Children, Space, Start
from mechanisms.samplers.boxes.faces import PATCHES, Patches, box_around, inner_faces, patches

_ROUNDING = 2.0**-48  # relative room for the float operations of a bound
_LITTLE_NATS = 0.2  # an expansion is good enough where its remainder costs no more
_SHARE = 1.0  # or costs at most as much as the box's own width does
_COARSE = 1.0  # boxes wider than this in theta: an expansion says nothing there
_ENOUGH_OUTSIDE = 0.75  # of the nats wanted: then no wider box is tried
_WORTH_WIDENING = 1.2  # a wider box must bound what is outside so much better
_TAIL_NATS = 12.0  # what lies outside then weighs exp(-12) of the whole
_WIDENINGS = 4  # a doubling of the sides each
_EXPANSION_BYTES = 3000
_EXPANSION_BITS = 128  # up to here the expansion known on the box decides
_FLOAT_BITS = 192  # up to here one at the point itself; beyond, balls row by row


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """What is known on a box: an expansion near it if there is one, and what moves the gradient.

    ``widths`` (d) is about how much a unit of each coordinate matters: a hint.
    """

    expansion: Expansion | None
    widths: Floats


def _fine(expansion: Expansion) -> Local:
    return Local(expansion, np.abs(expansion.slopes).sum(axis=0) + MARGIN)


Looked = Iterator[tuple[Floats, Local, bool]]
"""Of each box: lower bounds of |g_j|, what is known there, and whether a closer look may help."""

Look = Callable[[Local, Floats, Floats], Looked]
"""Looks at boxes inside one, by what is known there, their centres and half widths."""


class GradientBoxes(ABC):
    """``E(theta) = rate ||g(theta)|| / r(||theta||_1)``, wherever its rows are.

    Parameters
    ----------
    frame
        Theta, and how many private rows there are.
    rate
        ``epsilon / 2`` over the number of records that can change.
    norm
        The norm of the gradient.
    reach
        r: half of what two records can differ by.
    """

    floor = 0.0
    patches = PATCHES  # per side of what bounds E outside of a box

    def __init__(self, frame: Frame, *, rate: Fraction, norm: NormName, reach: Reach) -> None:
        self.frame = frame
        self.reach = reach
        self.rate = rate
        self.norm = CubeNorm(norm, frame.dimension)
        self.far = math.inf  # nats where a box weighs next to nothing: no closer look is worth it

    @property
    @abstractmethod
    def spans(self) -> Floats:
        """Return about how far a unit of each coordinate moves all tilts together."""

    @property
    @abstractmethod
    def coarse(self) -> Cells:
        """Return cells of all rows, for where an expansion says nothing."""

    @abstractmethod
    def nearest(self) -> Expansion | None:
        """Return an expansion about the minimiser, or None where none is well inside Theta."""

    @abstractmethod
    def expansions(self, points: Floats) -> list[Expansion]:
        """Return the expansions at points (k x d), any floats in grid steps."""

    @abstractmethod
    def gradient(self, point: Sequence[int], bits: int) -> list[arb]:
        """Return balls around g at a grid point, as sharp as the working bits asked for."""

    def floats(self, place: Floats) -> tuple[Floats, Floats]:
        """Return g at a grid point in floats, and the errors of its entries."""
        return self.expansions(place[None, :])[0].near(place * 0)  # its remainder is about nothing

    def start(self, space: Space) -> list[Start[Local]]:  # noqa: ARG002
        """Return boxes that cover Theta: where there is one, one around the minimiser first."""
        return self._started

    @property
    def pulled_out(self) -> bool:
        """Whether no minimiser was found well inside Theta."""
        return len(self._started) == 1

    @once
    def _started(self) -> list[Start[Local]]:
        """The boxes to start from: several covers ask for them."""
        space = self.frame.space
        root = Start(space.root(), self.floor, self._coarse(np.zeros((0, 0))))
        known = self.nearest()
        # Separable rows pull theta to the edge: no box around a minimiser then.
        if known is None:
            return [root]
        centre = np.asarray(np.linalg.solve(space.shear, known.point), dtype=np.float64)
        reach, nats = self._reach(known, space)
        self.far = nats
        best: tuple[float, Box] | None = None
        for widening in range(_WIDENINGS):
            box = box_around(centre, reach * 2.0**widening, root.box)
            if box is None:
                break
            outside = self._least_outside(known, box, root.box, nats * _ENOUGH_OUTSIDE)
            if best is None or outside > best[0] * _WORTH_WIDENING:
                best = outside, box
            if outside >= nats * _ENOUGH_OUTSIDE:
                break
        if best is None:
            return [root]
        outside, box = best
        slabs = [Start(slab, outside, root.known) for slab in root.box.less(box)]
        # LogisticPolytopes.start needs it first
        return [Start(box, self.floor, _fine(known)), *slabs]

    def widths(self, known: Local) -> Floats | None:
        """Return how far a unit of each coordinate moves the gradient."""
        return known.widths

    def split(self, known: Local, centres: Floats, half: Floats) -> Children[Local]:
        """Bound E on boxes: by the expansion known, and more dearly where that says too little."""
        sizes, local = np.zeros(centres.shape), [known] * len(centres)
        due = np.ones(len(centres), dtype=np.bool_)
        low = np.zeros(len(centres))
        if known.expansion is not None:
            # The expansion handed down may serve still: no row is read.
            sizes, due = self._sizes(known.expansion, centres, half)
            low = self._low(sizes, centres, half)
        for look in self.looks(centres, half):
            due &= low < self.far
            if not due.any():
                break
            for k, (own, each, loose) in zip(
                np.flatnonzero(due), look(known, centres[due], half), strict=True
            ):
                sizes[k], local[k], due[k] = np.maximum(sizes[k], own), each, loose
            low = self._low(sizes, centres, half)
        return Children(low, local)

    @abstractmethod
    def looks(self, centres: Floats, half: Floats) -> list[Look]:
        """Return ways to bound g on boxes, the cheapest first."""

    def _by_expansions(self, _: Local, centres: Floats, half: Floats) -> Looked:
        """Yield what an expansion at its centre says of each box: its parts inherit it."""
        found = self.expansions(centres @ self.frame.space.shear.T)
        for each, centre in zip(found, centres, strict=True):
            yield self._sizes(each, centre[None, :], half)[0][0], _fine(each), False

    def _by_chords(self, known: Local, each: Sequence[Chords], half: Floats) -> Looked:
        """Yield what chords say of each box, and whether that may be much sharper."""
        side = half * self.frame.step
        for chord in each:
            width = np.abs(chord.slopes) @ side * (1 + MARGIN)
            local = self._coarse(chord.slopes, known.expansion)
            own = np.abs(chord.middle) - width - chord.rest
            yield own, local, self._is_loose(chord.rest, width)

    def _is_coarse(self, half: Floats) -> bool:
        """Say whether boxes are too large for an expansion to say anything of them."""
        shear = np.abs(self.frame.space.shear)
        return float((shear @ (half * self.frame.step)).sum()) > _COARSE

    def _is_loose(self, rest: Floats, width: Floats) -> bool:
        """Say whether a remainder costs more than the box's own width does (d each)."""
        nats = self.norm.floats(np.stack([rest, width])) * float(self.rate)
        # NaN counts as loose
        return not nats[0] <= _LITTLE_NATS + _SHARE * nats[1]

    def _coarse(self, slopes: Floats, kept: Expansion | None = None) -> Local:
        """Return what is known of a box too large for an expansion: all rows may still matter."""
        widths = self.spans / 8 + MARGIN
        return Local(kept, widths + np.abs(slopes).sum(axis=0) if slopes.size else widths)

    def _sizes(
        self, known: Expansion, centres: Floats, half: Floats
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return lower bounds of |g_j| on boxes (k x d), and where an own expansion is due."""
        step, shear = self.frame.step, self.frame.space.shear
        offsets = (centres @ shear.T - known.point) * step
        # rounding of the centres, and of the point where they are near it
        places = ((np.abs(centres) @ np.abs(shear).T) + np.abs(known.point)) * step * _ROUNDING
        side = half * step
        moved = float(places.sum(axis=1).max())
        size = float((np.abs(shear) @ side).sum()) * (1 + MARGIN)
        middle, error, slopes = known.curved(offsets)
        width = np.abs(slopes @ shear) @ side * (1 + MARGIN)
        square = side @ np.abs(known.sheared_bends) @ side / 2 * (1 + MARGIN)
        rest = known.rest(offsets, np.abs(shear) @ side, size + moved)
        drift = (np.abs(slopes).max(axis=(1, 2)) + known.error) * (moved + MARGIN * size)
        drift += known.error * size * (1 + np.abs(offsets).sum(axis=1) + size)
        drift += np.abs(known.bends).max() * (moved + MARGIN * size) * (size + moved)
        beside = rest + drift
        found = np.abs(middle) - (error + width + square + beside[:, None])
        nats = float(self.rate) * self.norm.floats(width)
        # NaN counts as loose
        return found, ~(float(self.rate) * rest <= _LITTLE_NATS + _SHARE * nats)

    def _low(self, sizes: Floats, centres: Floats, half: Floats) -> Floats:
        """Return lower bounds of E where |g_j| is at least ``sizes`` (k x d)."""
        shear, step = np.abs(self.frame.space.shear), self.frame.step
        middle = np.abs(centres @ self.frame.space.shear.T).sum(axis=1)
        rounding = _ROUNDING * (np.abs(centres) @ shear.T).sum(axis=1)
        longest = middle + float((shear @ half).sum()) * (1 + MARGIN) + rounding
        # r grows with the length: the longest theta that is in Theta gives the lower bound.
        lengths = np.minimum(longest, self.frame.space.radius) * step * (1 + MARGIN)
        weight = self.reach.floats(lengths)
        norms = self.norm.floats(np.maximum(0, sizes))  # below 0 a bound says nothing of |g_j|
        return np.asarray(norms * float(self.rate) / weight * (1 - MARGIN))

    def _reach(self, known: Expansion, space: Space) -> tuple[Floats, float]:
        """Return sides of a box that should be enough (grid steps), and the nats wanted outside."""
        curvature = np.diag(space.shear.T @ known.slopes)
        root = np.sqrt(np.maximum(curvature, 1e-12))  # a flat direction has a finite box too
        dual = self.norm.dual(np.abs(space.shear.T)) / float(self.rate)
        widest = 2 * space.radius * self.frame.step
        nats = _TAIL_NATS + float(np.maximum(0, np.log(widest * root**2 / dual)).sum())
        reach = 1.5 * nats * float((dual / root).max()) / root
        return reach / self.frame.step + 2, nats

    def _least_outside(self, known: Expansion, box: Box, root: Box, nats: float) -> float:
        """Return a certified lower bound of E outside a box, or the floor."""
        half = np.array(box.sides) / 2
        centre = np.linalg.solve(self.frame.space.shear, known.point)
        faces = inner_faces(box, root)
        # The bound follows rays from p until they leave the box, so p has to be inside.
        inside = (np.abs(centre - np.array(box.lower) - half) < half).all()
        if not faces or not inside:
            return self.floor
        boundary = patches(box, faces, self.patches)
        low = self._outside_patches(known, boundary) * float(self.rate) * (1 - MARGIN)
        poor = low < nats
        if poor.any():
            some = Patches(boundary.centres[poor], boundary.halves[poor])
            risen = risen_beyond(self.frame, self.losses(known.point), some, self.norm.dual)
            low[poor] = np.maximum(low[poor], risen * float(self.rate) * (1 - MARGIN))
        return max(self.floor, float(low.min()))

    def _outside_patches(self, known: Expansion, boundary: Patches) -> Floats:
        """Return lower bounds of ||g|| beyond patches; their places in theta, from p on."""
        step, shear = self.frame.step, self.frame.space.shear
        centres = (boundary.centres @ shear.T - known.point) * step
        sizes = (np.abs(boundary.centres) @ np.abs(shear).T + np.abs(known.point)) * step
        sides = boundary.halves @ np.abs(shear).T * step + _ROUNDING * sizes
        largest = (np.abs(centres) + sides) * (1 + MARGIN)
        bent = centres @ known.hessian
        inner = (bent @ shear, (boundary.halves * step).T)
        square = (bent * centres).sum(axis=1) - 2 * (np.abs(inner[0]) * inner[1].T).sum(axis=1)
        whole = (largest @ (np.abs(known.hessian)) * largest).sum(axis=1)
        square -= _ROUNDING * 4 * whole + known.error * largest.sum(axis=1) ** 2
        square -= 2 * (np.abs(bent) @ np.ones(len(shear))) * (_ROUNDING * sizes.max(axis=1))
        reach = np.maximum(largest.sum(axis=1), _ROUNDING)  # it is divided by
        bent_share = -np.expm1(-reach) / reach * (1 - MARGIN)
        slope = (np.abs(known.gradient) + known.gradient_error) @ largest.T * (1 + MARGIN)
        growth = np.maximum(np.maximum(0, square) * bent_share, self._growth(known, boundary))
        dual = self.norm.dual(largest) * (1 + MARGIN)
        return np.asarray((growth - slope) / dual)

    @abstractmethod
    def losses(self, point: Floats) -> Losses:
        """Return the loss at a point, and cells that bound it elsewhere."""

    def _growth(self, known: Expansion, boundary: Patches) -> Floats:  # noqa: ARG002
        """Return lower bounds of ``(g(b) - g(p))'w`` on patches, of rows that are few: else 0."""
        return np.zeros(len(boundary))

    def size(self, known: Local) -> int:  # noqa: ARG002
        """Return the bytes of an expansion, though the parts of a box may share theirs."""
        return _EXPANSION_BYTES

    def exponent(self, known: Local, point: Sequence[int], bits: int) -> arb:
        """Return a ball around E at a grid point: from what is known, in floats, or row by row."""
        size = arb(sum(map(abs, point))) * arb((1, -self.frame.grid_bits))
        factor = rational(self.rate) / self.reach.ball(size)
        values = self._known_values(known, point) if bits <= _EXPANSION_BITS else None
        if values is None and bits <= _FLOAT_BITS:
            values = self.floats(np.array(point, dtype=np.float64))
        balls = self.gradient(point, bits) if values is None else _balls(*values)
        return factor * self.norm.ball(balls)

    def _known_values(self, known: Local, point: Sequence[int]) -> tuple[Floats, Floats] | None:
        """Return g and its errors by the expansion known, if there is one."""
        if known.expansion is None:
            return None
        place = np.array(point, dtype=np.float64)
        return known.expansion.near((place - known.expansion.point) * self.frame.step)

    def _by_cells(self, cells: Cells, point: Sequence[int]) -> tuple[Floats, Floats]:
        """Return g and wide errors: enough where E is far from what it is compared with."""
        theta = np.array(point, dtype=np.float64)
        u = np.asarray(np.linalg.solve(self.frame.space.shear, theta), dtype=np.float64)
        half = np.full(len(u), 1.0) + np.abs(u) * _ROUNDING  # the point is within it of u
        [found] = cell_chords(self.frame, cells, u[None, :], half)
        wide = np.abs(found.slopes) @ half * self.frame.step * (1 + MARGIN) + found.rest
        return found.middle, wide


def _balls(middle: Floats, error: Floats) -> list[arb]:
    return [arb(m, e) for m, e in zip(middle.tolist(), error.tolist(), strict=True)]
