"""A draw gives its outcome or one fixed problem."""

from __future__ import annotations

import errno
import logging
import os
import traceback
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from app.domain.problems import DataUnreadableError, Problem
from app.engine.run import run
from app.logs import AllowListFormatter
from mechanisms.contract import Data, Draw, Drawing, LateNoise, Noise, Outcome, Plan
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon, Guarantee
from mechanisms.randomness import Randomness, SystemBits
from mechanisms.sketches import ArrayData
from mechanisms.statistics.count import Count
from tests.app.uploads import SENTINEL

DATA = ArrayData({"x": NumberColumn(0, 1)}, {"x": np.zeros(3, dtype=np.int32)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Drawn:
    """Parameters that are drawn by this function."""

    draw: Draw

    def drawing(self, _statistic: object, _schema: Schema) -> Drawing:
        return Drawing(draw=self.draw)


def _plan(draw: Any) -> Plan:
    guarantee = Guarantee(Epsilon.parse("1"), Adjacency.REPLACE_ONE, "1", "codes", "none")
    return Plan(
        mechanism="k_norm",
        norm=None,
        statistic=Count(),
        schema=Schema({}, Adjacency.REPLACE_ONE, 3),
        parameters=_Drawn(draw),
        guarantee=guarantee,
        grid={},
        reason="",
        expected_ms=0.1,
        time_depends_on_data=False,
    )


def test_a_draw_reads_the_operating_systems_randomness() -> None:
    def draw(data: Data, randomness: Randomness) -> Outcome:
        assert isinstance(randomness._source, SystemBits)
        return Outcome({"count": data.rows}, None)

    assert run(_plan(draw), DATA).value == {"count": 3}


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SENTINEL),
        RecursionError(SENTINEL),
        KeyError(SENTINEL),
        Problem("invalid-upload", SENTINEL),
        pl.exceptions.PanicException(SENTINEL),
        ExceptionGroup(SENTINEL, [ValueError(SENTINEL)]),
    ],
)
def test_whatever_fails_is_one_problem_that_says_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def draw(data: Data, randomness: Randomness) -> Outcome:
        secret = f"{SENTINEL}{data.rows}"
        raise error from ValueError(secret)

    with pytest.raises(Problem) as caught:
        run(_plan(draw), DATA)
    problem = caught.value
    assert (problem.code, problem.detail, problem.extras) == (
        "release-void",
        Problem("release-void").detail,
        {},
    )
    assert problem.__context__ is None
    assert problem.__cause__ is None
    (record,) = caplog.records
    line = AllowListFormatter().format(record)
    assert type(error).__name__ in line
    reported = [line, *map(str, vars(record).values()), *traceback.format_exception(problem)]
    assert not any(SENTINEL in text for text in reported)


@pytest.mark.parametrize("error", [MemoryError(SENTINEL), DataUnreadableError(SENTINEL)])
def test_what_may_be_drawn_again_is_told_apart_and_says_nothing(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def draw(data: Data, randomness: Randomness) -> Outcome:
        raise error from ValueError(SENTINEL)

    with pytest.raises(type(error)) as caught:
        run(_plan(draw), DATA)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    (record,) = caplog.records
    reported = [str(vars(record)), *traceback.format_exception(caught.value)]
    assert not any(SENTINEL in text for text in reported)


def test_noise_is_worked_out_where_failures_say_nothing() -> None:
    def fail() -> Noise:
        raise ValueError(SENTINEL)

    law = Noise(std={"x": 1.0}, interval_95={"x": [0.0, 2.0]})
    reported = run(_plan(lambda *_: Outcome({"x": 1.0}, LateNoise(lambda: law))), DATA)
    assert reported.noise is law
    with pytest.raises(Problem) as caught:
        run(_plan(lambda *_: Outcome({"x": 1.0}, LateNoise(fail))), DATA)
    assert caught.value.code == "release-void"
    assert not any(SENTINEL in text for text in traceback.format_exception(caught.value))


def test_a_draw_without_entropy_is_void_and_never_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(count: int) -> bytes:
        raise OSError("no entropy")

    def draw(data: Data, randomness: Randomness) -> Outcome:
        return Outcome({"count": data.rows + randomness.discrete_laplace(Fraction(1))}, None)

    monkeypatch.setattr(os, "urandom", fail)
    with pytest.raises(Problem) as caught:
        run(_plan(draw), DATA)
    assert caught.value.code == "release-void"


def test_stopping_the_process_is_no_failed_draw(caplog: pytest.LogCaptureFixture) -> None:
    def draw(data: Data, randomness: Randomness) -> Outcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(_plan(draw), DATA)
    assert caplog.records == []
    assert logging.getLogger("app.engine.run").level == logging.NOTSET


@pytest.mark.parametrize(
    "error", [RuntimeError("can't start new thread"), OSError(errno.EMFILE, SENTINEL)]
)
def test_a_system_that_gives_no_thread_or_file_is_as_one_without_memory(error: Exception) -> None:
    def draw(data: Data, randomness: Randomness) -> Outcome:
        raise error

    with pytest.raises(MemoryError) as caught:
        run(_plan(draw), DATA)
    assert not any(SENTINEL in text for text in traceback.format_exception(caught.value))
