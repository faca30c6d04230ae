"""Neighbours that show a mechanism's privacy loss, and events chosen before the draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mechanisms.contract import Json, Statistic
from mechanisms.domain import CategoryColumn, Column
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.total import Sum
from studies.peers.cells import FLAG, Call, Table, number
from studies.peers.regressions import coefficients
from studies.peers.simple import counts, drawn_levels, named

Drawn = Sequence[float] | None
Event = Callable[[Drawn], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two data sets that differ in one replaced row, for peers and, in ``values``, for us."""

    name: str
    statistic: str
    about: str
    epsilon: str = "1"
    plain: tuple[Table, Table]
    events: Mapping[str, Event]
    calls: tuple[Call, ...]
    question: Statistic
    columns: Mapping[str, Column]
    values: tuple[Mapping[str, Sequence[object]], Mapping[str, Sequence[object]]] | None = None
    read: Callable[[Json], list[float]]
    draws: int = 20_000


def pairs() -> Iterator[Pair]:
    """Yield every pair."""
    yield _mean()
    yield _floats()
    yield _histogram()
    yield _median()
    yield _upper_quantile()
    yield _linear()
    for norm in (12.0, 100.0):
        yield _logistic(norm)
    yield _one_class()


def at_most(places: Sequence[float], of: Callable[[Sequence[float]], float]) -> dict[str, Event]:
    """Return the events that a number drawn is at most each of these."""

    def event(place: float) -> Event:
        return lambda drawn: drawn is not None and of(drawn) <= place

    return {f"at most {place:g}": event(place) for place in places}


def on_grid(drawn: Drawn) -> bool:
    """Return whether a small number is a multiple of 2^-54, as the floats next to 0.37 are."""
    return drawn is not None and 0 < drawn[0] < 2**-4 and (drawn[0] * 2**54).is_integer()


def _first(drawn: Sequence[float]) -> float:
    return drawn[0]


def _slope(drawn: Sequence[float]) -> float:
    return abs(drawn[-1])


def _call(peer: str, settings: Mapping[str, object], label: str = "", epsilon: float = 1.0) -> Call:
    merged = {**settings, "epsilon": epsilon}
    return Call(peer=peer, label=label, settings=merged, stated=epsilon, true=None)


def _mean() -> Pair:
    settings: dict[str, object] = {"bounds": [0.0, 1.0], "distance": 2}
    return Pair(
        name="mean of ten",
        statistic="mean",
        about="one of ten moves from 0 to 1",
        plain=({"x": [0.0] * 10}, {"x": [1.0] + [0.0] * 9}),
        events=at_most([each / 20 for each in range(-6, 9)], _first),
        calls=tuple(_call(peer, settings) for peer in ("opendp", "diffprivlib", "tumult")),
        question=Mean(columns=("x",)),
        columns={"x": number(0, 1)},
        read=named,
    )


def _floats() -> Pair:
    settings: dict[str, object] = {"bounds": [0.0, 0.37], "distance": 2}
    return Pair(
        name="floats of a sum",
        statistic="sum",
        about="one of two moves from 0 to 0.37",
        plain=({"x": [0.0, 0.0]}, {"x": [0.37, 0.0]}),
        epsilon="0.1",
        events={"a multiple of 2^-54 below 2^-4": on_grid, **at_most([0.0, 0.2, 0.37], _first)},
        calls=tuple(
            _call(peer, settings, epsilon=0.1) for peer in ("opendp", "diffprivlib", "tumult")
        ),
        question=Sum(columns=("x",)),
        columns={"x": number(0, 0.37)},
        read=named,
        draws=80_000,
    )


def _histogram() -> Pair:
    settings: dict[str, object] = {"cells": 2, "distance": 2}
    first, second = [0] * 10 + [1] * 10, [0] * 9 + [1] * 11
    return Pair(
        name="histogram",
        statistic="histogram",
        about="one of twenty rows moves to the other of two cells",
        plain=({"cell": first}, {"cell": second}),
        events=at_most(range(-8, 7), lambda drawn: drawn[0] - drawn[1]),
        calls=(
            _call("opendp", settings),
            _call("diffprivlib", settings),
            _call("tumult", settings),
        ),
        question=Histogram(columns=("cell",)),
        columns={"cell": CategoryColumn(("a", "b"))},
        values=tuple({"cell": ["ab"[each] for each in rows]} for rows in (first, second)),  # type: ignore[arg-type]
        read=counts,
    )


def _median() -> Pair:
    settings: dict[str, object] = {"bounds": [0.0, 1.0], "levels": [0.5], "distance": 2}
    return Pair(
        name="median of eight",
        statistic="quantile",
        about="one of eight moves from 0 to 1; two more are at 0.9",
        plain=(
            {"x": [0.0] * 4 + [0.9, 0.9] + [1.0] * 2},
            {"x": [0.0] * 3 + [0.9, 0.9] + [1.0] * 3},
        ),
        events=at_most([0.0, 0.1, 0.5, 0.89, 0.95], _first),
        calls=(
            _call("opendp", {**settings, "candidates": 101}),
            _call("diffprivlib", settings),
            _call("tumult", settings),
        ),
        question=Quantile(column="x", levels=(0.5,)),
        columns={"x": number(0, 1)},
        read=drawn_levels,
        draws=10_000,
    )


def _upper_quantile() -> Pair:
    settings: dict[str, object] = {"bounds": [0.0, 1.0], "levels": [0.9], "distance": 2}
    return Pair(
        name="quantile at 0.9",
        statistic="quantile",
        about="one of nine rows at 0 moves to 0.9",
        plain=({"x": [0.0] * 8 + [0.9]}, {"x": [0.0] * 9}),
        events=at_most([0.1, 0.5, 0.89, 0.95], _first),
        calls=(
            _call("chain", {**settings, "delta": 0.2}, "KNG as printed"),
            _call("chain", {**settings, "delta": 1.0}, "KNG put right"),
        ),
        question=Quantile(column="x", levels=(0.9,)),
        columns={"x": number(0, 1)},
        read=drawn_levels,
        draws=20_000,
    )


def _linear() -> Pair:
    y = [0.0, 1.0, 0.0]
    settings: dict[str, object] = {"bounds": [0.0, 1.0], "target": [0.0, 1.0], "intercept": True}
    return Pair(
        name="linear regression, bounds [0, 1]",
        statistic="linear",
        about="one of three features moves from 0 to 1",
        plain=({"x0": [0.0, 0.0, 0.0], "y": y}, {"x0": [1.0, 0.0, 0.0], "y": y}),
        events=at_most([0.01, 0.1, 1.0, 1e2, 1e4, 1e6], _slope),
        calls=(_call("diffprivlib", settings, "its own intercept"),),
        question=LinearRegression(target="y", features=("x0",), bound=1.0),
        columns={"x0": number(0, 1), "y": number(0, 1)},
        read=coefficients,
        draws=240,  # where it diverges, the peer takes half a second
    )


def _logistic(norm: float) -> Pair:
    y = [1.0, 0.0]
    return Pair(
        name=f"logistic regression, rows of norm {norm:g}",
        statistic="logistic",
        about=f"one of two features moves from 0 to {norm:g}",
        plain=({"x0": [0.0, 0.0], "y": y}, {"x0": [norm, 0.0], "y": y}),
        events=at_most([each / norm for each in (0.25, 0.5, 1.0, 2.0)], _slope),
        calls=(_call("diffprivlib", {"norm": norm, "C": 1.0}),),
        question=LogisticRegression(target="y", features=("x0",), intercept=False),
        columns={"x0": number(-norm, norm), "y": FLAG},
        read=coefficients,
        draws=40_000 if norm < 100 else 10_000,
    )


def _one_class() -> Pair:
    x = [0.5, 0.5]
    return Pair(
        name="logistic regression, one class",
        statistic="logistic",
        about="of two labels the one that is true becomes false",
        plain=({"x0": x, "y": [1.0, 0.0]}, {"x0": x, "y": [0.0, 0.0]}),
        events={"refused": lambda drawn: drawn is None, **at_most([0.1, 1.0], _slope)},
        calls=(_call("diffprivlib", {"norm": 1.0, "C": 1.0}),),
        question=LogisticRegression(target="y", features=("x0",), intercept=False),
        columns={"x0": number(-1, 1), "y": FLAG},
        read=coefficients,
        draws=4_000,
    )
