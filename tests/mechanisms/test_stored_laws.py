"""Stored laws of noise on balls around moments: what a computation finds, for the usual shapes.

``python -m tests.mechanisms.test_stored_laws`` computes the file again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mechanisms.geometry import smooth
from mechanisms.geometry.cuts import CutBall, add_remove_ball, replace_one_ball
from mechanisms.geometry.joint_moments import JointMomentBall
from mechanisms.geometry.second_moments import SecondMomentBall
from mechanisms.geometry.smooth import SmoothBall, computed_laws

FILE = Path(smooth.__file__).with_name("laws.json")
MOST, EVERY = 12, 5
"""Columns of the largest shape; up to how many every number of squares is stored."""


def pairs(columns: int, squares: int) -> tuple[tuple[int, int], ...]:
    return tuple((j, k) for j in range(columns) for k in range(j, columns) if j != k or j < squares)


def shapes() -> Iterator[SmoothBall]:
    """Yield a ball of every stored shape: moments, those of regressions, and of means."""
    for columns in range(1, MOST + 1):
        yield JointMomentBall(columns, tuple((j, j) for j in range(columns)))
        usual = {0, columns - 1, columns}
        for squares in range(columns + 1) if columns <= EVERY else sorted(usual):
            if columns == 1:
                continue
            for whole, cut in (
                (SecondMomentBall(columns, pairs(columns, squares)), replace_one_ball),
                (JointMomentBall(columns, pairs(columns, squares)), add_remove_ball),
            ):
                yield whole
                if isinstance(ball := cut(whole), CutBall):  # type: ignore[operator]
                    yield ball


def computed(ball: SmoothBall) -> dict[str, object]:
    """Return what is stored of a shape, computed."""
    laws, places = computed_laws(ball)
    found = {kind: laws[place] for kind, place in zip(ball.coordinate_kinds, places, strict=True)}
    kept = ball.kept if isinstance(ball, CutBall) else 1 / ball.expected_tries
    return {
        "kept": kept,
        "log_volume": ball.log_volume,
        "laws": [
            [*kind, law.std, law.half_width_95, law.mean_size]
            for kind, law in sorted(found.items())
        ],
    }


def without_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smooth, "_stored", dict)


def test_every_usual_shape_is_stored() -> None:
    assert [ball.shape for ball in shapes()] == [*json.loads(FILE.read_text("utf-8"))]


SOME = ("second moments 2 2 cut", "joint moments 2 1 crossed cut", "joint moments 3 3 apart",
        "second moments 3 2")  # fmt: skip


@pytest.mark.parametrize("shape", SOME)
def test_what_is_stored_is_what_a_computation_finds(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ball,) = (ball for ball in shapes() if ball.shape == shape)
    stored = ball.stored
    assert stored is not None
    laws = ball.laws(2.0)
    without_stored(monkeypatch)
    again = computed(replace(ball))  # type: ignore[type-var]
    assert stored.kept == pytest.approx(again["kept"], rel=1e-6)
    assert stored.log_volume == pytest.approx(again["log_volume"], rel=1e-6)
    for *kind, std, half_width, size in again["laws"]:  # type: ignore[attr-defined]
        (law,) = {laws[place] for place, own in enumerate(ball.coordinate_kinds) if own == (*kind,)}
        assert (2 * law.std, 2 * law.half_width_95, 2 * law.mean_size) == pytest.approx(
            (std, half_width, size), rel=1e-6
        )


def test_the_order_of_columns_does_not_matter_for_a_law() -> None:
    """With the last column's square alone each coordinate has the law of its own kind."""
    first = replace_one_ball(SecondMomentBall(3, pairs(3, 1)))
    last = replace_one_ball(
        SecondMomentBall(3, tuple((j, k) for j, k in pairs(3, 3) if j != k or j == 2))
    )
    for one, other in ((first, last), (last, first)):
        laws = dict(zip(one.coordinate_kinds, one.laws(1.0), strict=True))
        assert [laws[kind] for kind in other.coordinate_kinds] == other.laws(1.0)


if __name__ == "__main__":
    smooth._stored = dict  # type: ignore[assignment]
    lines = (f"{json.dumps(ball.shape)}: {json.dumps(computed(ball))}" for ball in shapes())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
