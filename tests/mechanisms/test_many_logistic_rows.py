"""Logistic regression over rows that are too many to hold: the law, the bounds and the draws."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import Block
from mechanisms.domain import CODE_MAX
from mechanisms.exact.arrays import Floats
from mechanisms.exact.rounding import working_precision
from mechanisms.kng.logistic import LogisticDraw
from mechanisms.objectives.check_loss import survey
from mechanisms.objectives.gradient_norms import NormName
from mechanisms.objectives.logistic_law.cells import Cells, cell_chords
from mechanisms.objectives.logistic_law.expansion import SignedRecords, exact_gradient
from mechanisms.objectives.logistic_law.held import LogisticLaw
from mechanisms.objectives.logistic_law.passes import CellSums, ExactGradient, Expand, Sort
from mechanisms.objectives.logistic_law.sensitivity import Reach
from mechanisms.objectives.logistic_law.stored import StoredLogisticLaw, StoredSigned
from mechanisms.objectives.rows import distinct_rows
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import Randomness
from mechanisms.samplers.boxes import Cover
from mechanisms.sketches import ArrayData
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.testing import Law, check_draws, seeded_randomness
from tests.mechanisms.logistic_data import features, labelled

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BITS, RADIUS = 20, 4 << 20
RATE = Fraction(1, 4)
Codes = NDArray[np.int64]


def codes(dimension: int, rows: int, *, spread: float = 1.0) -> Codes:
    """Return correlated signed rows (n x d)."""
    rng = np.random.default_rng(rows + dimension)
    x = rng.uniform(-spread, spread, (rows, dimension))
    x[:, 0] = 1
    x[:, -1] = (x[:, -1] + x.mean(axis=1)) / 2
    labels = rng.uniform(size=rows) < 1 / (1 + np.exp(-2 * x[:, -1]))
    signed = np.rint(np.clip(x, -1, 1) * CODE_MAX) * np.where(labels, -1, 1)[:, None]
    return signed.astype(np.int64)


def read(block: Block) -> Floats:
    return np.array(list(block.values()), dtype=np.float64)


def blocks_of(rows: Codes, size: int) -> list[dict[str, NDArray[Any]]]:
    names = [f"column {place}" for place in range(rows.shape[1])]
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [dict(zip(names, part.T.astype(np.int32), strict=True)) for part in parts]


def stored(rows: Codes, *, size: int = 400, left: int = 0, sample: int = 1) -> StoredSigned:
    """Return rows that are read in blocks, of which the last ``left`` are lost after the survey."""
    blocks = blocks_of(rows, size)
    found = survey(lambda look: map(look, blocks), read, columns=rows.shape[1], stride=sample)
    kept = blocks[: len(blocks) - left]
    return StoredSigned.of(lambda look: map(look, kept), read, found, grid_bits=BITS, radius=RADIUS)


def law_of(rows: StoredSigned, norm: NormName = "linf", rate: Fraction = RATE) -> StoredLogisticLaw:
    return StoredLogisticLaw(rows, rate=rate, norm=norm, reach=Reach())


def held(rows: Codes) -> SignedRecords:
    return SignedRecords.build(*distinct_rows(rows), grid_bits=BITS, radius=RADIUS)


def exact(records: SignedRecords, norm: NormName, point: tuple[int, ...]) -> float:
    """Return E from every row in balls, as the one-tier law does."""
    law = LogisticLaw(records, rate=RATE, norm=norm)
    with working_precision(320):
        return float(law.exponent(law.start(records.space)[0].known, point, 320).mid())


def require_below(law: StoredLogisticLaw, records: SignedRecords, norm: NormName) -> int:
    """Assert bounds and values on the way down from some boxes; count bounds that say something."""
    randomness, rng, informative = seeded_randomness(2), np.random.default_rng(2), 0
    starts = law.start(law.rows.space)
    for start in (starts[0], starts[-1]):
        box, known, low = start.box, start.known, start.exponent
        for _ in range(9):
            points = [law.rows.space.draw_point(box, randomness) for _ in range(3)]
            for point in filter(law.rows.space.holds, points):
                value = exact(records, norm, point)
                assert low <= value + 1e-9
                for bits in (128, 192, 320):
                    with working_precision(bits):
                        ball = law.exponent(known, point, bits)
                    assert abs(float(ball.mid()) - value) <= float(ball.rad()) + 1e-12
            informative += low > 0
            parts = box.parts([2 if side > 1 else 1 for side in box.sides])
            half = np.array([part.sides for part in parts]).max(axis=0) / 2
            centres = np.array([part.lower for part in parts]) + half
            children = law.split(known, centres, half)
            pick = int(rng.integers(len(parts)))
            box, known = parts[pick], children.knowledge[pick]
            low = max(low, float(children.exponents[pick]))
    return informative


@pytest.mark.parametrize(
    ("dimension", "norm"), [(1, "linf"), (2, "linf"), (3, "l2"), (2, "l1"), (4, "linf")]
)
def test_bounds_and_values_hold_the_law_of_all_rows(dimension: int, norm: NormName) -> None:
    """Boxes near the minimiser, and far from it, split as the engine splits them."""
    rows = codes(dimension, 1000)
    assert require_below(law_of(stored(rows), norm), held(rows), norm) > 8


def test_a_lost_block_is_noticed() -> None:
    """The twin of the check above: passes that leave out rows bound another law."""
    rows = codes(2, 1000)
    with pytest.raises(AssertionError):
        require_below(law_of(stored(rows, size=100, left=3)), held(rows), "linf")


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_a_pass_in_floats_errs_by_no_more_than_it_says(dimension: int) -> None:
    """g at the point, H and T near it, against ball arithmetic; a twin without a remainder errs."""
    rows = codes(dimension, 3000)
    built, records = stored(rows, size=700), held(rows)
    rng, missed = np.random.default_rng(4), 0
    for size in (1e-6, 1e-3, 0.3, 2.0):
        place = np.rint(rng.uniform(-1, 1, dimension) * 2**BITS)
        [found] = built.expansions(place[None, :])
        away = np.rint(rng.uniform(-1, 1, dimension) * size * 2**BITS)
        for offset in (0 * away, away):
            point = tuple(int(k) for k in place + offset)
            with working_precision(160):
                truth = np.array([float(ball.mid()) for ball in exact_gradient(records, point)])
                wide = [float(ball.rad()) for ball in built.exact(point, 40)]
                sharp = [float(ball.mid()) for ball in built.exact(point, 160)]
            assert sharp == pytest.approx(truth, rel=1e-13, abs=1e-13)
            assert max(wide) < 1e-5
            middle, error = found.near(offset * built.step)
            assert (np.abs(middle - truth) <= error).all()
            alone, rounding, _ = found.curved(offset[None, :] * built.step)
            missed += bool((np.abs(alone - truth) > rounding).any())
            assert offset.any() or error.max() < 1e-8
    assert missed >= 2


@pytest.mark.parametrize("dimension", [2, 3])
def test_cells_made_in_passes_are_those_of_all_rows(dimension: int) -> None:
    rows = codes(dimension, 4000, spread=0.3)
    built, records = stored(rows), held(rows)
    one, two = built.cells, Cells.of(records).joined()
    assert two is not None
    for name in ("middle", "radius", "sums", "sizes"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), abs=1e-9)
    assert one.products == pytest.approx(two.products, abs=len(rows) * 2.0**-24)
    point = np.full((1, dimension), 0.7 * 2**BITS)
    half = np.full(dimension, 0.01 * 2**BITS)
    ours, theirs = (cell_chords(built, cells, point, half)[0] for cells in (one, two))
    assert (np.abs(ours.middle - theirs.middle) <= ours.rest - theirs.rest + 1e-3).all()
    assert (theirs.rest < ours.rest).all()
    assert (ours.rest < theirs.rest + 0.1).all()


def test_passes_travel_and_add_up_to_the_same_bits() -> None:
    """In blocks of any size, in any order."""
    rows = codes(3, 2000)
    look = [
        Expand(read, np.array([[0.1, -0.7, 2.3], [0.0, 1e-9, -3.0]])),
        Sort(read),
        ExactGradient(read, (12345, -7, 10**6), BITS, 100),
    ]
    for each in look:
        arrived = pickle.loads(pickle.dumps(each))
        whole = [each(block) for block in blocks_of(rows, 2000)]
        parts = [pickle.loads(pickle.dumps(arrived(block))) for block in blocks_of(rows, 77)][::-1]
        assert summed(parts) == summed(whole)
        assert summed(parts[1:]) != summed(whole)


def summed(parts: list[Any]) -> Any:
    if isinstance(parts[0], CellSums):
        total = parts[0]
        for part in parts[1:]:
            total = total.added(part)
        return [getattr(total, name).tolist() for name in total.__dataclass_fields__]
    return np.sum(np.array(parts, dtype=object), axis=0).tolist()


def test_a_poor_hint_costs_passes_alone() -> None:
    """The sample has a handful of rows; the start is about the minimiser all the same."""
    rows = codes(2, 4000)
    law = law_of(stored(rows, sample=256), rate=Fraction(2))
    parts = law.start(law.rows.space)
    assert len(parts) > 2
    assert all(part.exponent > 10 for part in parts[1:])
    assert sum(part.box.points for part in parts) == law.rows.space.root().points


def test_rows_that_a_line_separates_are_drawn_from_without_a_start() -> None:
    rows = codes(2, 2000)
    rows[:, 1] = -np.abs(rows[:, 1])
    rows[:, 0] = -CODE_MAX
    law = law_of(stored(rows), rate=Fraction(1, 100))
    assert len(law.start(law.rows.space)) == 1
    point = Cover(law, law.rows.space).draw(seeded_randomness(1))
    assert point[0] + point[1] > 0


# Draws of whole plans -----------------------------------------------------------------------


@dataclass(frozen=True)
class Parted:
    """The same rows, in blocks of another size, that are read elsewhere."""

    data: ArrayData
    size: int

    def map(self, function: Callable[[Block], Any], columns: list[str], /) -> Iterator[Any]:
        for start in range(0, self.data.rows, self.size):
            part = slice(start, start + self.size)
            arrived = pickle.loads(pickle.dumps(function))
            block = {name: self.data.codes[name][part] for name in columns}
            yield pickle.loads(pickle.dumps(arrived(block)))


def planned(
    rows: int, epsilon: str, *, adjacency: Adjacency = REPLACE, distinct: int | None = None
) -> tuple[LogisticDraw, ArrayData]:
    """Return a draw of two coefficients that would hold no row, and its data."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (rows, 1))
    if distinct is not None:
        x = np.rint(x * distinct) / distinct
    labels = rng.uniform(size=rows) < 1 / (1 + np.exp(-1.5 * x[:, 0]))
    schema, data = labelled(x, labels, adjacency=adjacency)
    statistic = LogisticRegression(target="y", features=features(schema), bound=3.0)
    plan = calibrate(statistic, schema, Epsilon.parse(epsilon), mechanism="kng")
    assert isinstance(plan.draw, LogisticDraw)
    return replace(plan.draw, held=0, sample=schema.row_bound // 64), data


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_blocks_of_any_size_give_the_same_bits(adjacency: Adjacency) -> None:
    draw, data = planned(4096, "1", adjacency=adjacency)
    drawn = [
        draw(Parted(data, size), seeded_randomness(7)).value  # type: ignore[arg-type]
        for size in (4096, 1024, 64 * 13)
    ]
    assert drawn[0] == drawn[1] == drawn[2]
    assert drawn[0]["coefficients"]["x0"] == pytest.approx(1.5, abs=0.3)


def test_which_law_is_read_depends_on_what_must_be_held() -> None:
    draw, data = planned(2000, "1")
    assert isinstance(draw.read_law(data), StoredLogisticLaw)
    assert isinstance(replace(draw, held=2000).read_law(data), LogisticLaw)
    few, repeated = planned(2000, "1", distinct=20)
    assert isinstance(few.read_law(repeated), LogisticLaw)


def drawn_slopes(draw: LogisticDraw, data: ArrayData, randomness: Randomness) -> list[float]:
    """Return slopes drawn from covers that serve several draws each."""
    slopes = []
    for _ in range(4):
        law = draw.law(data) if draw.held else draw.read_law(data)
        cover = Cover(law, law.frame.space)
        slopes += [cover.draw(randomness)[1] * float(draw.step) for _ in range(150)]
    return slopes


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", ["0.8", "0.1"])
def test_draws_have_the_law_of_rows_that_are_held(epsilon: str) -> None:
    """Both draws against one law, made of the exact exponent on a lattice; twins are refused."""
    draw, data = planned(600, epsilon)
    law, *twins = lattice_laws(draw, data, (1.0, 0.2, 5.0))
    for each in (draw, replace(draw, held=600)):
        slopes = drawn_slopes(each, data, seeded_randomness(11))
        check_draws(slopes, law, twins=twins)


def lattice_laws(draw: LogisticDraw, data: ArrayData, scales: Sequence[float]) -> list[Law]:
    """Return the slope's laws at some times the rate, summed over a lattice of Theta."""
    records = draw.law(data).records
    side = np.linspace(-3, 3, 301)
    a, b = np.meshgrid(side, side, indexing="ij")
    theta = np.column_stack([a.ravel(), b.ravel()])
    size = np.abs(theta).sum(axis=1)
    gradient = np.zeros(theta.shape)
    for zeta, count in zip(records.zeta, records.counts, strict=True):
        gradient += (count / (1 + np.exp(-theta @ zeta)))[:, None] * zeta
    energy = float(draw.rate) * np.abs(gradient).max(axis=1) * (1 + np.exp(-size))
    energy[size > 3] = np.inf
    middle, found = (side[1] - side[0]) / 2, []
    for scale in scales:
        sums = np.exp(scale * (energy.min() - energy)).reshape(a.shape).sum(axis=0)
        ends, total = np.append(side - middle, side[-1] + middle), np.cumsum(sums) / sums.sum()
        found.append(Law.continuous(partial(np.interp, xp=ends, fp=np.append(0, total))))
    return found
