"""Tables and synthetic rows of public microdata: ours next to OpenDP's ``extras.mbi``.

*Margins.* Half the sum of absolute differences of shares (TV), on average over all two-way margins:
of synthetic rows and the real ones, or of released tables and the real ones.

*Accuracy.* The share of real rows, set aside before, whose target a logistic regression on the
cells of all other columns predicts. It is fitted to synthetic rows. Both sides have the same
classifier, and as many synthetic rows as there are real ones.

Neighbours differ in one row more or less. Each epsilon is asked for in an account without a delta,
and, as the rho of epsilon and delta, in one with it. Ours are tables of all pairs, and
``select: "auto"``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from mechanisms.catalog import calibrate
from mechanisms.domain import CategoryColumn, Schema
from mechanisms.margins.synthetic import synthesize
from mechanisms.privacy import Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.tables import Tables
from studies.peers.asking import Peer
from studies.peers.cells import ADD
from studies.peers.deltas import epsilon_in_zcdp
from studies.peers.measures import MOST_ERROR, Ratio, ratio, summary
from studies.peers.published.methods import DELTA
from studies.peers.there.by_microdata import COLUMNS, TARGETS, sizes

EPSILONS = ("0.1", "1", "4")
DATA, MBI = "microdata", "mbi"
ROWS, TABLES = "synthetic rows", "released tables"
OURS = {"ours, all pairs": None, "ours, selected pairs": "auto"}
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A file, what is asked of whom, how often, and whether in a quick run too."""

    data: str
    what: str
    algorithm: str
    draws: int
    is_quick: bool = False


ASKED = (
    Asked(data="acs", what=TABLES, algorithm="fixed", draws=2),
    Asked(data="acs", what=ROWS, algorithm="mst", draws=3, is_quick=True),
    Asked(data="acs", what=ROWS, algorithm="aim", draws=1),
    Asked(data="wages", what=ROWS, algorithm="mst", draws=2),
    Asked(data="wages", what=ROWS, algorithm="aim", draws=1),
    Asked(data="adult", what=ROWS, algorithm="mst", draws=1),
    Asked(data="adult", what=ROWS, algorithm="aim", draws=1),
)
"""A draw of the peer takes half a minute of CPU time, and of Adult some minutes."""
OWN_DRAWS = 10
_NAMES = {"fixed": "opendp, fit of independent pairs", "mst": "opendp, MST", "aim": "opendp, AIM"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesized:
    """Errors of one method: mean TV of all two-way margins, and accuracy of a classifier.

    ``real_accuracy`` is that of the same classifier fitted to the real rows. Accuracies are None of
    tables, and standard errors of a single draw.
    """

    data: str
    rows: int
    columns: int
    what: str
    epsilon: str
    delta: float
    method: str
    replicate_count: int
    tv: float
    tv_se: float | None
    accuracy: float | None
    accuracy_se: float | None
    real_accuracy: float
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The cells of a file: rows to release, and rows to test with."""

    name: str
    rows: Codes
    tests: Codes

    @property
    def sizes(self) -> dict[str, int]:
        """Return how many cells each column has."""
        return sizes(self.name)

    def margins(self, codes: Codes) -> list[NDArray[np.float64]]:
        """Return the shares of all two-way margins."""
        many = list(self.sizes.values())
        return [
            np.bincount(codes[:, i] * many[j] + codes[:, j], minlength=many[i] * many[j])
            / max(len(codes), 1)
            for i, j in combinations(range(len(many)), 2)
        ]

    def mean_tv(self, margins: Sequence[NDArray[np.float64]]) -> float:
        """Return the mean total variation between these margins and the real ones."""
        real = self.margins(self.rows)
        return float(np.mean([np.abs(a - b).sum() / 2 for a, b in zip(margins, real, strict=True)]))

    def accuracy(self, codes: Codes) -> float:
        """Return the accuracy of a classifier that is fitted to these rows."""
        place = COLUMNS[self.name].index(TARGETS[self.name])
        labels, tests = codes[:, place], self.tests[:, place]
        if len(np.unique(labels)) < 2:
            return float((tests == labels[0]).mean())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = LogisticRegression(max_iter=200).fit(self._flags(codes, place), labels)
        return float(fitted.score(self._flags(self.tests, place), tests))

    def _flags(self, codes: Codes, place: int) -> NDArray[np.float64]:
        many = list(self.sizes.values())
        columns = [i for i in range(len(many)) if i != place]
        return np.column_stack([np.eye(many[i])[codes[:, i]] for i in columns])


def read(name: str, peer: Peer) -> File:
    """Return a file, which a package of the peers' environment ships."""
    parts = [
        np.array(peer.ask(name, {}, {"tested": tested}, draws=1).values[0], dtype=np.int64)
        for tested in (False, True)
    ]
    rows, tests = (part.reshape(-1, len(COLUMNS[name])) for part in parts)
    return File(name=name, rows=rows, tests=tests)


def synthetic(
    peers: Mapping[str, Peer], *, quick: bool, only: str = "", epsilons: Sequence[str] = EPSILONS
) -> Iterator[Synthesized]:
    """Yield our rows for each file and epsilon, then those of the peer.

    A quick run has one file and the middle epsilon.
    """
    for name in COLUMNS:
        if only not in name or (quick and not any(a.is_quick for a in ASKED if a.data == name)):
            continue
        file = read(name, peers[DATA])
        most = file.accuracy(file.rows)
        for epsilon in epsilons[1:2] if quick else epsilons:
            for delta in (0.0, DELTA):
                for found in _of_both(file, epsilon, delta, peers[MBI], quick=quick):
                    yield replace(found, real_accuracy=most)


def _of_both(
    file: File, epsilon: str, delta: float, peer: Peer, *, quick: bool
) -> Iterator[Synthesized]:
    amount = epsilon_in_zcdp(epsilon, delta) if delta else Epsilon.parse(epsilon)
    for name, select in OURS.items():
        yield from _ours(file, (epsilon, delta, amount), name, select, quick=quick)
    measure = {"measure": "rho", "amount": float(amount.fraction**2 / 2)} if delta else {
        "measure": "epsilon", "amount": float(epsilon)
    }  # fmt: skip
    for asked in ASKED:
        if asked.data != file.name or (quick and not asked.is_quick):
            continue
        settings = {
            **measure,
            "algorithm": asked.algorithm,
            "sizes": file.sizes,
            "rows": len(file.rows),
        }
        yield from _theirs(file, (epsilon, delta), asked, settings, peer, quick=quick)


def _ours(
    file: File,
    asked: tuple[str, float, Epsilon],
    name: str,
    select: str | None,
    *,
    quick: bool,
) -> Iterator[Synthesized]:
    epsilon, delta, amount = asked
    columns = {
        column: CategoryColumn(tuple(map(str, range(size)))) for column, size in file.sizes.items()
    }
    schema = Schema(columns, ADD, None, max_rows=2 * len(file.rows), zcdp=bool(delta))
    question = Tables(columns=tuple(columns), select="auto" if select else None)
    plan = calibrate(question, schema, amount)
    values = {
        column: [str(code) for code in file.rows[:, place]] for place, column in enumerate(columns)
    }
    data = ArrayData.from_values(schema, values)
    tables, rows, accuracies, spent_ms = [], [], [], []
    for seed in range(OWN_DRAWS // 4 if quick else OWN_DRAWS):
        begin_s = time.process_time()
        value = plan.draw(data, system_randomness()).value
        made = synthesize(question, value, schema, rows=len(file.rows), seed=seed)
        spent_ms.append(1000 * (time.process_time() - begin_s))
        codes = np.array([made.columns[column] for column in columns]).astype(np.int64).T
        rows.append(file.mean_tv(file.margins(codes)))
        accuracies.append(file.accuracy(codes))
        if select is None:
            tables.append(file.mean_tv(_shares(value)))
    of = _Of(file=file, epsilon=epsilon, delta=delta, method=name)
    yield _row(of, rows, accuracies, spent_ms)
    if tables:
        yield _row(replace(of, what=TABLES), tables, [], spent_ms)


def _shares(value: object) -> list[NDArray[np.float64]]:
    """Return the shares of all released tables."""
    found = []
    for table in value["tables"]:  # type: ignore[index]
        counts = np.array([cell["count"] for cell in table["cells"]], dtype=np.float64)
        found.append(counts / max(counts.sum(), 1))
    return found


def _theirs(
    file: File,
    asked_for: tuple[str, float],
    asked: Asked,
    settings: Mapping[str, object],
    peer: Peer,
    *,
    quick: bool,
) -> Iterator[Synthesized]:
    """Yield the row of a peer; none where it refused every draw."""
    data = {column: file.rows[:, place].tolist() for place, column in enumerate(COLUMNS[file.name])}
    statistic = "rows" if asked.what == ROWS else "margins"
    draws = 1 if quick else asked.draws
    answer = peer.ask(statistic, data, settings, draws=draws)
    values = [np.array(each) for each in answer.values if each is not None]
    if not values:
        return
    of = _Of(
        file=file,
        epsilon=asked_for[0],
        delta=asked_for[1],
        method=_NAMES[asked.algorithm],
        what=asked.what,
    )
    if asked.what == TABLES:
        cuts = np.cumsum([len(each) for each in file.margins(file.rows)])[:-1]
        split = [np.split(each, cuts) for each in values]
        tvs = [file.mean_tv([table / table.sum() for table in tables]) for tables in split]
        yield _row(of, tvs, [], answer.ms)
        return
    codes = [each.astype(np.int64).reshape(-1, len(file.sizes)) for each in values]
    tvs = [file.mean_tv(file.margins(each)) for each in codes]
    accuracies = [file.accuracy(each) for each in codes]
    yield _row(of, tvs, accuracies, answer.ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Of:
    """Whose rows or tables these are."""

    file: File
    epsilon: str
    delta: float
    method: str
    what: str = ROWS


def _row(
    of: _Of, tvs: Sequence[float], accuracies: Sequence[float], spent_ms: Sequence[float]
) -> Synthesized:
    many = len(tvs) > 1
    tv = summary(tvs, spent_ms) if many else None
    right = summary(accuracies, spent_ms) if many and accuracies else None
    return Synthesized(
        data=of.file.name,
        rows=len(of.file.rows),
        columns=len(of.file.sizes),
        what=of.what,
        epsilon=of.epsilon,
        delta=of.delta,
        method=of.method,
        replicate_count=len(tvs),
        tv=float(np.mean(tvs)),
        tv_se=None if tv is None else tv.error_se,
        accuracy=float(np.mean(accuracies)) if accuracies else None,
        accuracy_se=None if right is None else right.error_se,
        real_accuracy=0.0,
        ms=spent_ms[0] if tv is None else tv.ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A peer's row next to the best of ours, of the same file, epsilon and delta.

    ``tv`` is our mean TV over its, and ``wrong`` our share of wrong predictions over its.
    """

    row: Synthesized
    own: Synthesized
    tv: Ratio
    accurate: Synthesized
    wrong: Ratio | None

    @property
    def behind(self) -> bool:
        """Return whether ours is worse than allowed, by two standard errors."""
        return any(
            each is not None and each.value - 2 * each.se > MOST_ERROR
            for each in (self.tv, self.wrong)
        )


@dataclass(frozen=True, slots=True)
class _Error:
    error_mean: float
    error_se: float


def _tv(row: Synthesized) -> _Error:
    return _Error(row.tv, row.tv_se or 0.0)


def _wrong(row: Synthesized) -> _Error:
    return _Error(1 - (row.accuracy or 0.0), row.accuracy_se or 0.0)


def against(rows: Sequence[Synthesized]) -> Iterator[Against]:
    """Yield one for each row that is not ours."""
    for row in rows:
        if row.method in OURS:
            continue
        asked = row.data, row.what, row.epsilon, row.delta
        own = [
            each
            for each in rows
            if each.method in OURS and (each.data, each.what, each.epsilon, each.delta) == asked
        ]
        best = min(own, key=lambda each: each.tv)
        accurate = max(own, key=lambda each: each.accuracy or 0.0)
        yield Against(
            row=row,
            own=best,
            tv=ratio(_tv(best), _tv(row)),
            accurate=accurate,
            wrong=None if row.accuracy is None else ratio(_wrong(accurate), _wrong(row)),
        )


def lines(rows: Sequence[Synthesized]) -> Iterator[str]:
    """Yield the tables of the page."""
    found = list(against(rows))
    behind = [each for each in found if each.behind]
    yield (
        f"In {len(found) - len(behind)} of {len(found)} cells the best of ours is at most "
        f"{MOST_ERROR} times worse, within two standard errors. A single draw has none.\n"
    )
    for each in behind:
        row = each.row
        yield (
            f"- **Ours is worse: {row.data}, {row.what}, epsilon {row.epsilon}, "
            f"{_guarantee(row)}, {row.method}**: TV {_ratio(each.tv, row)} times, "
            f"wrong predictions {_ratio(each.wrong, row)} times."
        )
    yield (
        "\n| data | rows, columns | of | epsilon | guarantee | peer | its TV | our TV "
        "| our TV / its | its accuracy | our accuracy | of real rows | our wrong / its | draws |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for each in found:
        row = each.row
        tables = row.accuracy is None
        yield (
            f"| {row.data} | {row.rows:,}, {row.columns} | {row.what} | {row.epsilon} "
            f"| {_guarantee(row)} | {row.method} | {row.tv:.3f} "
            f"| {each.own.tv:.3f} ({_name(each.own)}) | {_ratio(each.tv, row)} "
            f"| {_share(row.accuracy)} | {_share(each.accurate.accuracy)}"
            f"{'' if tables else f' ({_name(each.accurate)})'} "
            f"| {'' if tables else _share(row.real_accuracy)} | {_ratio(each.wrong, row)} "
            f"| {each.own.replicate_count} / {row.replicate_count} |"
        )
    yield "\n| data | of | epsilon | guarantee | ours | TV | accuracy | ms | draws |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        if row.method in OURS:
            yield (
                f"| {row.data} | {row.what} | {row.epsilon} | {_guarantee(row)} | {_name(row)} "
                f"| {row.tv:.3f} | {_share(row.accuracy)} | {row.ms:,.0f} | {row.replicate_count} |"
            )


def _guarantee(row: Synthesized) -> str:
    return "zCDP" if row.delta else "pure"


def _name(row: Synthesized) -> str:
    return row.method.removeprefix("ours, ")


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _ratio(found: Ratio | None, row: Synthesized) -> str:
    """Return a ratio, with its standard error if the peer has more than one draw."""
    if found is None:
        return ""
    return f"{found.value:.2f}" + (f" ± {found.se:.2f}" if row.replicate_count > 1 else "")
