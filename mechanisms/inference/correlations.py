"""Correlations in the population.

Of each possible correlation r of n rows without privacy noise, the population's is
``tanh(artanh(r) + z / sqrt(n - 3))``, z standard normal: Fisher's interval, for columns that are
about normal together. Where a possible variance is not positive nothing is said of r.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import cast

import numpy as np

from mechanisms.contract import Inference, Statistic
from mechanisms.exact.arrays import Floats
from mechanisms.inference.evidence import Evidence, noise_of, term
from mechanisms.statistics.second_order import Jet

METHOD = (
    "simulated from the noisy moments and the law of their noise, with Fisher's z for the "
    "sampling, which takes two columns to be about normal together; sampling and privacy noise "
    "together; values outside their bounds count as the bound"
)
_NEAREST = 1 - 1e-12  # artanh is infinite at 1


def of_correlations(_statistic: Statistic, evidence: Evidence) -> Inference:
    """Return the inference about the correlation of every two columns."""
    places = list(evidence.sums)
    rows = evidence.simulated.possible(list(evidence.sums.values())).T
    sums = dict(zip(places, rows, strict=True))
    pairs = list(combinations(range(len(evidence.names)), 2))
    errors = evidence.simulated.normals("correlations", len(pairs)).T
    matrix = cast(Sequence[Sequence[float]], evidence.outcome.value["matrix"])
    terms = [
        term(
            f"{evidence.names[j]}:{evidence.names[k]}",
            float(matrix[j][k]) if _is_determined(evidence.sums, 1 + j, 1 + k) else np.nan,
            _sampled(_found(sums, 1 + j, 1 + k), sums[0, 0], error),
            (-1.0, 1.0),
            noise_of(evidence.outcome.noise, "matrix", j, k),
            place=("matrix", j, k),
            edges=True,
        )
        for (j, k), error in zip(pairs, errors, strict=True)
    ]
    return Inference(terms=tuple(terms), method=METHOD)


def _is_determined(sums: Mapping[tuple[int, int], Jet], j: int, k: int) -> bool:
    """Return whether the released sums determine a correlation: both variances are positive."""
    released = {place: np.array([float(jet.value)]) for place, jet in sums.items()}
    return bool(np.isfinite(_found(released, j, k)[0]))


def _found(sums: Mapping[tuple[int, int], Floats], j: int, k: int) -> Floats:
    """Return the correlation in each of the possible sums, NaN where a variance is not positive."""
    counts = np.maximum(sums[0, 0], 1.0)
    one, two = sums[0, j] / counts, sums[0, k] / counts
    # Noise may leave a variance that is not positive: of that nothing follows.
    variances = sums[j, j] / counts - one**2, sums[k, k] / counts - two**2
    known = (variances[0] > 0) & (variances[1] > 0)
    scale = np.sqrt(np.where(known, variances[0] * variances[1], np.nan))
    return np.asarray((sums[j, k] / counts - one * two) / scale, dtype=np.float64)


def _sampled(found: Floats, counts: Floats, error: Floats) -> Floats:
    """Return the possible correlations of the population, given a sample's."""
    # 1 / (n - 3) is no variance up to 3 rows: there it counts as 1.
    angle = np.arctanh(np.clip(found, -_NEAREST, _NEAREST))
    return np.asarray(np.tanh(angle + error / np.sqrt(np.maximum(counts - 3, 1.0))))
