"""The cells of linear, logistic and quantile regressions, in units where all columns fill [-1, 1].

Errors are distances to the coefficients that the same rows give without privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

import numpy as np
from scipy.optimize import linprog

from mechanisms.contract import Json
from mechanisms.privacy import Adjacency
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.quantile_regression import QuantileRegression
from studies.accuracy import LINEAR_THETA, LOGISTIC_BETA, logistic_mle
from studies.peers.cells import ADD, FLAG, REPLACE, UNIT, Call, Cell, Values, Way, listed
from studies.peers.measures import stated_for
from studies.peers.simple import SEED

_BOUND = 1.0
_WASTED = "holds at half of what is stated: the gradient's factor 2 is dropped from the exponent"
_NO_CHAIN = "holds of the law, not of a chain that stops"
_SAME_LAW = (
    "kng with a flat base measure draws the chain's own law, exactly; what auto takes errs less"
)
_SUMS = (
    "both add noise to sums of products; what there is to gain is one ball for all sums instead of "
    "a share of epsilon for each"
)
_SAME_NOISE = (
    "both disturb the objective; what there is to gain is the cube instead of the ball, the "
    "share of epsilon that the ridge gets, and a proof without waste"
)
_UNFINISHED = (
    "auto takes what answers at once, and the time of a draw by kng depends on the rows; kng is a "
    "job, with the chain's own law if its base measure is flat"
)


def cells() -> Iterator[Cell]:
    """Yield every cell."""
    yield _linear("one feature, add_remove", 10_000, np.array([0.1, 0.4]), ADD)
    yield from replaced()
    for epsilon in ("0.25", "1"):
        yield _algorithm_3(epsilon)
    yield _awan_wang()
    for tau in (0.5, 0.9):
        yield _quantile_regression(tau)


def replaced() -> Iterator[Cell]:
    """Yield the linear regressions of simulated rows that are replaced."""
    yield _linear("one feature", 1_000, np.array([0.1, 0.4]), REPLACE)
    yield _linear("three features", 10_000, np.array([0.1, 0.3, -0.2, 0.1]), REPLACE)
    for rows in (10_000, 100_000):
        yield _simulated(rows)


def coefficients(value: Json) -> list[float]:
    """Return a regression's coefficients in their order."""
    found = cast(Mapping[str, float], value["coefficients"])
    return [float(each) for each in found.values()]


def _linear(name: str, rows: int, theta: Values, adjacency: Adjacency) -> Cell:
    rng = np.random.default_rng(SEED + rows + len(theta))
    features = rng.uniform(-1, 1, (rows, len(theta) - 1))
    target = theta[0] + features @ theta[1:] + rng.normal(0, 0.1, rows)
    peers = (_theil_sen(),) if adjacency is ADD else _linear_peers(len(theta))
    about = f"{rows:,} rows, errors of 0.1, bound 1"
    sample = features, np.clip(target, -1, 1)
    return fitted(f"linear, {name}", about, sample, adjacency=adjacency, peers=peers)


def _simulated(rows: int) -> Cell:
    """Algorithm 1 of the KNG paper: 12 coefficients, scaled by the largest target."""
    rng = np.random.default_rng(SEED + rows)
    features = rng.uniform(-1, 1, (rows, 11))
    target = np.column_stack([np.ones(rows), features]) @ LINEAR_THETA + rng.standard_normal(rows)
    about = f"{rows:,} rows of the paper's Algorithm 1, bound 1"
    target /= np.abs(target).max()
    peers = _linear_peers(12)
    if rows > 10_000:
        peers = tuple(replace(each, draws=min(each.draws, 100)) for each in peers)
    name = f"linear, KNG's simulation, {rows:,}"
    return fitted(name, about, (features, target), adjacency=REPLACE, peers=peers)


def fitted(
    name: str,
    about: str,
    sample: tuple[Values, Values],
    *,
    adjacency: Adjacency,
    peers: tuple[Call, ...],
) -> Cell:
    """Return the cell of a linear regression of features and targets in [-1, 1]."""
    features, target = sample
    rows, count = features.shape
    names = tuple(f"x{place}" for place in range(count))
    plain = {each: listed(column) for each, column in zip(names, features.T, strict=True)}
    plain["y"] = listed(target)
    design = np.column_stack([np.ones(rows), features])
    ways = ("kng", "functional", "objective_perturbation", "exponential")
    return Cell(
        name=name,
        statistic="linear",
        about=about,
        adjacency=adjacency,
        epsilon="1",
        question=LinearRegression(target="y", features=names, bound=_BOUND),
        columns=dict.fromkeys((*names, "y"), UNIT),
        rows=rows,
        values=plain,
        plain=plain,
        truth=listed(np.asarray(np.linalg.lstsq(design, target, rcond=None)[0], np.float64)),
        read=coefficients,
        ours=(Way(draws=500), *(Way(mechanism=each, draws=200) for each in ways)),
        peers=peers,
    )


def _theil_sen() -> Call:
    return Call(
        peer="opendp",
        label="Theil-Sen",
        settings={"epsilon": 1.0, "distance": 1},
        stated=1.0,
        true=1.0,
        promise="holds for real numbers, as OpenDP itself says",
        draws=400,
    )


def _linear_peers(d: int) -> tuple[Call, ...]:
    steps = "10,000 steps"
    exact = 4 * (1 + _BOUND)
    return (
        Call(
            peer="diffprivlib",
            label="a column of ones for the intercept",
            settings={
                "epsilon": 1.0,
                "bounds": [-1.0, 1.0],
                "target": [-1.0, 1.0],
                "intercept": False,
            },
            stated=1.0,
            true=1.0,
            promise="holds so, for real numbers; its own intercept and bounds that are not "
            "symmetric break it (see audits)",
            remark=_SUMS,
            draws=200,
        ),
        Call(
            peer="chain",
            label=f"KNG as printed, {steps}",
            settings={"epsilon": 1.0, "delta": 2 * exact, "bound": _BOUND},
            stated=1.0,
            true=0.5,
            promise=_WASTED,
            draws=100,
        ),
        Call(
            peer="chain",
            label=f"KNG put right, {steps}",
            settings={"epsilon": 1.0, "delta": exact, "bound": _BOUND},
            stated=1.0,
            true=1.0,
            promise=_NO_CHAIN,
            remark=_SAME_LAW,
            draws=100 if d < 12 else 200,
        ),
    )


def _logistic(
    name: str, about: str, epsilon: str, features: Values, labels: Values, *, ones: bool
) -> Cell:
    rows, count = features.shape
    names = tuple(f"x{place}" for place in range(count))
    columns = dict(zip(names, features.T, strict=True)) | {"y": labels}
    plain = {each: listed(column) for each, column in columns.items()}
    table = np.column_stack([np.ones(rows), features]) if ones else features
    own = {"ones": [1.0] * rows, **plain} if ones else plain
    norm = math.sqrt(table.shape[1])
    stated = stated_for(float(epsilon), norm=norm, rows=rows)
    return Cell(
        name=name,
        statistic="logistic",
        about=about,
        adjacency=REPLACE,
        epsilon=epsilon,
        question=LogisticRegression(target="y", features=names, intercept=ones),
        columns=dict.fromkeys(names, UNIT) | {"y": FLAG},
        rows=rows,
        values=plain,
        plain=own,
        truth=listed(logistic_mle(table, labels)),
        read=coefficients,
        ours=(Way(draws=400), Way(mechanism="objective_perturbation", draws=100)),
        peers=(
            Call(
                peer="diffprivlib",
                label=f"rows of norm {norm:.2f}",
                settings={"epsilon": stated, "norm": norm, "C": 1.0},
                stated=stated,
                true=float(epsilon),
                promise="what can be proved is another epsilon than the stated one: the length of "
                "a row stands where its square is due",
                remark=_SAME_NOISE,
                draws=400,
            ),
        ),
    )


def _algorithm_3(epsilon: str) -> Cell:
    rng = np.random.default_rng(SEED + 3)
    features = rng.uniform(-1, 1, (10_000, 7))
    labels = (rng.uniform(size=10_000) < 1 / (1 + np.exp(-features @ LOGISTIC_BETA))).astype(float)
    name = f"logistic, SS Algorithm 3, epsilon {epsilon}"
    return _logistic(name, "10,000 rows, 7 slopes", epsilon, features, labels, ones=False)


def _awan_wang() -> Cell:
    rng = np.random.default_rng(SEED + 4)
    x = 2 * rng.beta(0.5, 0.5, 1_000) - 1
    labels = (rng.uniform(size=1_000) < 1 / (1 + np.exp(-0.5 - 2 * x))).astype(float)
    about = "1,000 rows of Awan and Wang's design, a slope and an intercept"
    return _logistic("logistic, one feature, epsilon 1", about, "1", x[:, None], labels, ones=True)


def _quantile_regression(tau: float) -> Cell:
    rng = np.random.default_rng(SEED + 5)
    x = rng.uniform(-1, 1, 1_000)
    y = np.clip(0.1 + 0.4 * x + rng.normal(0, 0.15, 1_000), -1, 1)
    plain = {"x0": listed(x), "y": listed(y)}
    truth = _check_loss_fit(np.column_stack([np.ones(1_000), x]), y, tau)
    exact, printed = 2 * max(tau, 1 - tau), 2 * (1 - tau)
    shared: dict[str, object] = {"tau": tau, "bound": _BOUND, "begin": truth, "epsilon": 1.0}
    wrong = Call(
        peer="chain",
        label="KNG as printed, 1,000 steps",
        settings={**shared, "delta": printed},
        stated=1.0,
        true=exact / printed,
        promise="false: the printed sensitivity 2 (1 - tau) is too small above 1/2",
        draws=100,
    )
    right = Call(
        peer="chain",
        label="KNG put right, 1,000 steps" if tau > 0.5 else "KNG, 1,000 steps",
        settings={**shared, "delta": exact},
        stated=1.0,
        true=1.0,
        promise=_NO_CHAIN,
        remark=_UNFINISHED,
        draws=200,
    )
    return Cell(
        name=f"quantile regression, tau {tau}",
        statistic="quantile_regression",
        about="1,000 rows, one feature, bound 1",
        adjacency=REPLACE,
        epsilon="1",
        question=QuantileRegression(target="y", features=("x0",), tau=tau, bound=_BOUND),
        columns={"x0": UNIT, "y": UNIT},
        rows=1_000,
        values=plain,
        plain=plain,
        truth=truth,
        read=coefficients,
        ours=(
            Way(draws=100),
            *(
                Way(mechanism="kng", norm=norm, draws=200)
                for norm in (("linf", "optimal") if tau > 0.5 else ("linf",))
            ),
        ),
        peers=(wrong, right) if tau > 0.5 else (right,),
    )


def _check_loss_fit(design: Values, target: Values, tau: float) -> list[float]:
    """Return the coefficients of least check loss, by a linear program."""
    rows, d = design.shape
    cost = np.concatenate([np.zeros(d), np.full(rows, tau), np.full(rows, 1 - tau)])
    table = np.hstack([design, np.eye(rows), -np.eye(rows)])
    bounds = [(None, None)] * d + [(0, None)] * (2 * rows)
    found = linprog(cost, A_eq=table, b_eq=target, bounds=bounds, method="highs")
    return listed(found.x[:d])
