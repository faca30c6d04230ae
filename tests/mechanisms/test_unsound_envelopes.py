"""A law above the envelope it is drawn from ends the draw, wherever a try is kept or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from flint import arb

from mechanisms.exact.continuous import UnsoundEnvelopeError
from mechanisms.samplers import joint_quantiles
from mechanisms.samplers.affine.cube import Verdict, decide
from mechanisms.samplers.envelopes import Envelope, Piece
from mechanisms.samplers.intervals import GridCodes
from mechanisms.samplers.joint_quantiles import Tables, joint_points
from mechanisms.samplers.main_effects import coin_shows
from mechanisms.testing import seeded_randomness


def test_a_point_below_the_bound_of_its_piece() -> None:
    piece = Piece(exponent=5.0, points=1, size=1)
    envelope, randomness = Envelope(0.0, [piece]), seeded_randomness(1)
    for exponent in (5.0, 6.0, 600.0):
        envelope.keeps(piece, lambda _, e=exponent: arb(e), randomness)  # type: ignore[misc]
    with pytest.raises(UnsoundEnvelopeError):
        envelope.keeps(piece, lambda _: arb(4.999), randomness)


@dataclass(frozen=True)
class Stated:
    """A route whose tries all have one ratio, inside of what is allowed or not."""

    log_ratio: float
    room: float
    name = "stated"
    log_mass = 0.0
    guard_bits = 0
    choices = 0
    uniforms = 0

    def screen(self, choices: object, uniforms: object) -> object:
        raise AssertionError

    def verdict(self, choices: Sequence[int], uniforms: Sequence[arb], bits: int) -> Verdict:
        del choices, uniforms, bits
        return Verdict([arb(0)], [arb(self.room)], arb(self.log_ratio))


def test_a_try_whose_ratio_is_above_one() -> None:
    row = [1 << 63]
    tried = partial(decide, row=row, randomness=seeded_randomness(1), step_exponent=-20)
    assert tried(Stated(0.0, 1.0)) == (0,)  # type: ignore[arg-type]
    assert tried(Stated(-1.0, 1.0)) is None  # type: ignore[arg-type]
    # outside of what is allowed the law is 0, whatever its formula says
    assert tried(Stated(0.01, -1.0)) is None  # type: ignore[arg-type]
    with pytest.raises(UnsoundEnvelopeError):
        tried(Stated(0.01, 1.0))  # type: ignore[arg-type]


def test_a_coin_that_would_have_to_show_more_often_than_always() -> None:
    randomness = seeded_randomness(1)
    assert coin_shows(randomness.uniform(), lambda _: arb(1))
    with pytest.raises(UnsoundEnvelopeError):
        coin_shows(randomness.uniform(), lambda _: arb("1.01"))


def test_a_total_of_paths_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.arange(0, 80, 2, dtype=np.int32)
    grid = GridCodes.count(codes, np.ones_like(codes, dtype=np.int64), low=0, high=80)
    draw = partial(
        joint_points, grid, levels=(Fraction(1, 4), Fraction(3, 5)), rate=Fraction(2), bits=0
    )
    draw(randomness=seeded_randomness(6))
    build = Tables.build

    def careless(*given: object) -> Tables:
        tables = build(*given)  # type: ignore[arg-type]
        return replace(tables, log_total=tables.log_total - 1)

    monkeypatch.setattr(joint_quantiles.Tables, "build", careless)
    with pytest.raises(UnsoundEnvelopeError):
        draw(randomness=seeded_randomness(6))
