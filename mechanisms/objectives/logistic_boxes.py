"""The K-norm gradient law of logistic regression, as a law of the box engine.

    E(theta) = rate ||g(theta)|| / r(||theta||_1),    g the gradient of the logistic loss,

r as in :mod:`mechanisms.objectives.logistic_sensitivity`, in norms scaled so that the cube
[-1, 1]^d lies in their unit ball and its corners on it.

*Bounds.* Over a box each g_j is its value at the centre plus or minus what the sides and a
remainder allow (:mod:`mechanisms.objectives.logistic_expansion`). A large box gets that from
chords, by one pass over the rows or over cells of near rows; a small one from an expansion at a
point near it, which it inherits, and only gets one of its own where the remainder would spoil the
bound. So near the minimiser, where draws fall, hardly any box reads a row.

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
on a patch it is least where s_i is nearest to 0.

*Values* are tried first from the expansion (or from cells), then by a pass in floats with proved
errors, then row by row in ball arithmetic; each is a ball around the exact value, so the last word
is exact. Where rows are too many to hold, :mod:`mechanisms.objectives.logistic_stored` has its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import dot, norm_largest, norm_one, rational
from mechanisms.exact.floats import sigmoid
from mechanisms.objectives.logistic_cells import Cells, cell_chords
from mechanisms.objectives.logistic_expansion import (
    MARGIN,
    Chords,
    Expansion,
    Frame,
    SignedRecords,
    bend,
    chords,
    exact_gradient,
    expand,
)
from mechanisms.objectives.logistic_sensitivity import Reach
from mechanisms.samplers.boxes import Box, Children, Space, Start
from mechanisms.samplers.boxes.faces import PATCHES, Patches, box_around, inner_faces, patches

NormName = Literal["linf", "l2", "l1"]

_ROUNDING = 2.0**-48  # relative room for the float operations of a bound
_LITTLE_NATS = 0.2  # an expansion is good enough where its remainder costs no more
_SHARE = 1.0  # or costs at most as much as the box's own width does
_COARSE = 1.0  # boxes wider than this in theta: an expansion says nothing there
_ENOUGH_OUTSIDE = 0.75  # of the nats wanted: then no wider box is tried
_WORTH_WIDENING = 1.2  # a wider box must bound what is outside so much better
_TAIL_NATS = 30.0  # what lies outside then weighs exp(-30) of the whole
_FEW_ROWS = 32  # so many distinct rows cost next to nothing on each patch
_FINE_PATCHES = 8  # per side, where rows are few
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


class CubeNorm:
    """linf, or l2 over sqrt(d), or l1 over d: at most 1 on the cube."""

    __slots__ = ("dimension", "name")

    def __init__(self, name: NormName, dimension: int) -> None:
        self.name = name
        self.dimension = dimension

    def floats(self, sizes: Floats) -> Floats:
        """Return the norms of rows of absolute values, to a few units in the last place."""
        if self.name == "linf":
            return np.asarray(sizes.max(axis=1))
        if self.name == "l2":
            return np.asarray(np.sqrt((sizes**2).sum(axis=1) / self.dimension))
        return np.asarray(sizes.sum(axis=1) / self.dimension)

    def dual(self, sizes: Floats) -> Floats:
        """Return the dual norms of rows of absolute values, to a few units in the last place."""
        if self.name == "linf":
            return np.asarray(sizes.sum(axis=1))
        if self.name == "l2":
            return np.asarray(np.sqrt((sizes**2).sum(axis=1) * self.dimension))
        return np.asarray(sizes.max(axis=1) * self.dimension)

    def ball(self, vector: Sequence[arb]) -> arb:
        """Return a ball around the norm."""
        if self.name == "linf":
            return norm_largest(vector)
        if self.name == "l2":
            square = dot(vector, vector) / self.dimension
            return square.nonnegative_part().sqrt()
        return norm_one(vector) / self.dimension


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

    @property
    @abstractmethod
    def spans(self) -> Floats:
        """Return about how far a unit of each coordinate moves all tilts together."""

    @abstractmethod
    def nearest(self) -> Expansion | None:
        """Return an expansion about the minimiser, or None where none is well inside Theta."""

    @abstractmethod
    def expansions(self, points: Floats) -> list[Expansion]:
        """Return the expansions at points (k x d), any floats in grid steps."""

    @abstractmethod
    def chords(self, centres: Floats, half: Floats) -> list[Chords]:
        """Return what chords say of boxes ``|u - centre| <= half`` (k x d, grid steps)."""

    @abstractmethod
    def gradient(self, point: Sequence[int], bits: int) -> list[arb]:
        """Return balls around g at a grid point, as sharp as the working bits asked for."""

    def start(self, space: Space) -> list[Start[Local]]:
        """Return boxes that cover Theta: where there is one, one around the minimiser first."""
        root = Start(space.root(), self.floor, self._coarse(np.zeros((0, 0))))
        known = self.nearest()
        # Separable rows pull theta to the edge: no box around a minimiser then.
        if known is None:
            return [root]
        centre = np.asarray(np.linalg.solve(space.shear, known.point), dtype=np.float64)
        reach, nats = self._reach(known, space)
        best: tuple[float, Box] | None = None
        for widening in range(_WIDENINGS):
            box = box_around(centre, reach * 2.0**widening, root.box)
            if box is None:
                break
            outside = self._least_outside(known, box, root.box)
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
        """Bound E on boxes, by the expansion known, by new ones or by chords."""
        sizes = np.zeros(centres.shape)
        if known.expansion is not None:
            sizes, loose = self._sizes(known.expansion, centres, half)
            # The expansion handed down still serves: no row is read.
            if not loose:
                return Children(self._low(sizes, centres, half), [known] * len(centres))
        local: list[Local] = []
        near = self._straight(centres, half)
        if near is not None:
            side = half * self.frame.step
            for k, each in enumerate(near):
                own = np.abs(each.middle) - np.abs(each.slopes) @ side * (1 + MARGIN) - each.rest
                sizes[k] = np.maximum(sizes[k], own)
                local.append(self._coarse(each.slopes, self._inherited(known)))
        # Small boxes: an expansion of their own, which their parts inherit.
        else:
            for k, found in enumerate(self.expansions(centres @ self.frame.space.shear.T)):
                own = self._sizes(found, centres[k : k + 1], half)[0][0]
                sizes[k] = np.maximum(sizes[k], own)
                local.append(_fine(found))
        return Children(self._low(sizes, centres, half), local)

    def _straight(self, centres: Floats, half: Floats) -> list[Chords] | None:
        """Return what chords say of boxes that are large; of small ones None."""
        return self.chords(centres, half) if self._is_coarse(half) else None

    def _is_coarse(self, half: Floats) -> bool:
        """Say whether boxes are too large for an expansion to say anything of them."""
        shear = np.abs(self.frame.space.shear)
        return float((shear @ (half * self.frame.step)).sum()) > _COARSE

    def _is_loose(self, rest: Floats, width: Floats) -> bool:
        """Say whether a remainder costs more than the box's own width does (d each)."""
        nats = self.norm.floats(np.stack([rest, width])) * float(self.rate)
        # NaN counts as loose
        return not nats[0] <= _LITTLE_NATS + _SHARE * nats[1]

    def _inherited(self, known: Local) -> Expansion | None:  # noqa: ARG002
        """Return what parts of a large box keep of its expansion: nothing."""
        return None

    def _coarse(self, slopes: Floats, kept: Expansion | None = None) -> Local:
        """Return what is known of a box too large for an expansion: all rows may still matter."""
        widths = self.spans / 8 + MARGIN
        return Local(kept, widths + np.abs(slopes).sum(axis=0) if slopes.size else widths)

    def _sizes(self, known: Expansion, centres: Floats, half: Floats) -> tuple[Floats, bool]:
        """Return lower bounds of |g_j| on boxes (k x d), and whether an own expansion is due."""
        step, shear = self.frame.step, self.frame.space.shear
        offsets = (centres @ shear.T - known.point) * step
        # rounding of the centres, and of the point where they are near it
        places = ((np.abs(centres) @ np.abs(shear).T) + np.abs(known.point)) * step * _ROUNDING
        side = half * step
        size = float((np.abs(shear) @ side).sum()) * (1 + MARGIN)
        width = np.abs(known.slopes) @ side * (1 + MARGIN)
        square = np.sqrt(known.box_squares(side, size))
        found, loose = np.empty_like(offsets), False
        for k, (offset, place) in enumerate(zip(offsets, places, strict=True)):
            moved = float(place.sum())
            middle, error = known.linear(offset)
            reach = (float(np.abs(offset).sum()) + size + moved) * (1 + MARGIN)
            root = np.sqrt(known.squares(offset)) + square
            root += np.sqrt(np.abs(known.thirds).max() + known.hessian_error) * moved
            rest = bend(reach) * root**2 * (1 + MARGIN)
            drift = (np.abs(known.hessian).max() + known.hessian_error) * (moved + MARGIN * size)
            drift += known.hessian_error * size
            found[k] = np.abs(middle) - (error + rest + width + drift)
            loose |= self._is_loose(rest, width)
        return found, loose

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

    def _least_outside(self, known: Expansion, box: Box, root: Box) -> float:
        """Return a certified lower bound of E outside a box, or the floor."""
        half = np.array(box.sides) / 2
        centre = np.linalg.solve(self.frame.space.shear, known.point)
        faces = inner_faces(box, root)
        # The bound follows rays from p until they leave the box, so p has to be inside.
        inside = (np.abs(centre - np.array(box.lower) - half) < half).all()
        if not faces or not inside:
            return self.floor
        return max(self.floor, self._outside_patches(known, patches(box, faces, self.patches)))

    def _outside_patches(self, known: Expansion, boundary: Patches) -> float:
        """Return the least bound over patches of a boundary; its places in theta, from p on."""
        step, shear = self.frame.step, self.frame.space.shear
        centres = (boundary.centres @ shear.T - known.point) * step
        sizes = (np.abs(boundary.centres) @ np.abs(shear).T + np.abs(known.point)) * step
        sides = boundary.halves @ np.abs(shear).T * step + _ROUNDING * sizes
        largest = (np.abs(centres) + sides) * (1 + MARGIN)
        bent = centres @ known.hessian
        inner = (bent @ shear, (boundary.halves * step).T)
        square = (bent * centres).sum(axis=1) - 2 * (np.abs(inner[0]) * inner[1].T).sum(axis=1)
        whole = (largest @ (np.abs(known.hessian)) * largest).sum(axis=1)
        square -= _ROUNDING * 4 * whole + known.hessian_error * largest.sum(axis=1) ** 2
        square -= 2 * (np.abs(bent) @ np.ones(len(shear))) * (_ROUNDING * sizes.max(axis=1))
        reach = np.maximum(largest.sum(axis=1), _ROUNDING)  # it is divided by
        bent_share = -np.expm1(-reach) / reach * (1 - MARGIN)
        slope = (np.abs(known.gradient) + known.gradient_error) @ largest.T * (1 + MARGIN)
        growth = np.maximum(np.maximum(0, square) * bent_share, self._growth(known, boundary))
        dual = self.norm.dual(largest) * (1 + MARGIN)
        return float(((growth - slope) / dual).min()) * float(self.rate) * (1 - MARGIN)

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
            place = np.array(point, dtype=np.float64)
            # its remainder is about nothing
            values = self.expansions(place[None, :])[0].near(place * 0)
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


class LogisticLaw(GradientBoxes):
    """The law of rows that are held; parameters as of :class:`GradientBoxes`."""

    def __init__(
        self,
        records: SignedRecords,
        *,
        rate: Fraction,
        norm: NormName,
        reach: Reach = Reach(),  # noqa: B008
    ) -> None:
        super().__init__(records, rate=rate, norm=norm, reach=reach)
        self.records = records
        self.cells = Cells.build(records)
        if len(records.zeta) <= _FEW_ROWS:
            self.patches = _FINE_PATCHES
        self._spans = records.counts @ np.abs(records.zeta @ records.space.shear)

    @property
    def spans(self) -> Floats:
        """Return how far a unit of each coordinate moves all tilts together."""
        return self._spans

    def nearest(self) -> Expansion | None:
        """Return an expansion at the hint, if that is inside Theta."""
        if not self.records.hint.inside:
            return None
        scale = 2.0**self.records.grid_bits
        return self.expansions((self.records.hint.point * scale)[None, :])[0]

    def expansions(self, points: Floats) -> list[Expansion]:
        """Return the expansions at points, by one pass over the rows."""
        return expand(self.records, points)

    def chords(self, centres: Floats, half: Floats) -> list[Chords]:
        """Return what chords say of boxes, by cells of rows where those are fine enough."""
        if self.cells is not None and self.cells.serve(self.records, centres, half):
            return cell_chords(self.records, self.cells, centres, half)
        return chords(self.records, centres, half)

    def _growth(self, known: Expansion, boundary: Patches) -> Floats:
        if len(self.records.zeta) > _FEW_ROWS:
            return super()._growth(known, boundary)
        return growth_by_rows(self.records, known.point, boundary)

    def gradient(self, point: Sequence[int], bits: int) -> list[arb]:  # noqa: ARG002
        """Return balls around g, row by row."""
        return exact_gradient(self.records, point)

    def _known_values(self, known: Local, point: Sequence[int]) -> tuple[Floats, Floats] | None:
        """Return g and its errors by the expansion known, or by cells."""
        if known.expansion is None and self.cells is not None:
            return self._by_cells(self.cells, point)
        return super()._known_values(known, point)


def growth_by_rows(records: SignedRecords, point: Floats, boundary: Patches) -> Floats:
    """Return lower bounds of ``(g(p + w) - g(p))'w`` on patches of p + w, row by row.

    The point p is in grid steps of theta, any floats.
    """
    step, shear, zeta = records.step, records.space.shear, records.zeta
    tilts, moved = zeta @ point * step, (boundary.centres @ shear.T - point) * step @ zeta.T
    sizes = (np.abs(boundary.centres) @ np.abs(shear).T + np.abs(point)).sum(axis=1) * step
    sides = boundary.halves * step @ np.abs(zeta @ shear).T * (1 + MARGIN)
    sides += _ROUNDING * sizes[:, None]
    nearest = np.sign(moved) * np.maximum(np.abs(moved) - sides, 0)
    rise = sigmoid(tilts + nearest)[0] - sigmoid(tilts)[0]
    size = float(sizes.max()) + 1
    error = 4 * (records.relative_error(size) + MARGIN) * records.total * size
    return np.asarray((rise * nearest) @ records.counts - error)


def _balls(middle: Floats, error: Floats) -> list[arb]:
    return [arb(m, e) for m, e in zip(middle.tolist(), error.tolist(), strict=True)]
