"""Means of the population.

Of each possible mean m and variance v of n rows without privacy noise, the population's mean is
``m + sqrt(v / (n - 1)) t`` with t of n - 1 degrees of freedom: the interval of any textbook, and of
a yes-or-no column that of a share. A possible variance is no less than 0, and no more than bounds
and mean allow, (U - m)(m - L) (Bhatia & Davis 2000).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from mechanisms.contract import Inference, Statistic
from mechanisms.inference.evidence import Evidence, noise_of, term

METHOD = (
    "simulated from the noisy moments and the law of their noise, for rows drawn independently "
    "from the population; sampling and privacy noise together; values outside their bounds count "
    "as the bound"
)


def of_means(_statistic: Statistic, evidence: Evidence) -> Inference:
    """Return the inference about the means of all columns."""
    size = len(evidence.names)
    places = [(0, 0), *((0, j) for j in range(1, 1 + size)), *((j, j) for j in range(1, 1 + size))]
    sums = evidence.simulated.possible([evidence.sums[place] for place in places])
    # A variance needs two rows, even if a noisy count is smaller.
    counts = np.maximum(sums[:, :1], 2.0)
    means = sums[:, 1 : 1 + size] / counts
    widest = np.maximum(1 - means**2, 0.0)
    variances = np.clip(sums[:, 1 + size :] / counts - means**2, 0.0, widest)
    degrees = counts - 1
    scales = np.sqrt(degrees[:, 0] / evidence.simulated.chi_squares("scale", degrees[:, 0]))
    students = evidence.simulated.normals("means", size) * scales[:, None]
    possible = means + np.sqrt(variances / degrees) * students
    terms = [
        term(
            name,
            cast(float, evidence.outcome.value[name]),
            float(column.midpoint) + float(column.sum_half_width) * possible[:, j],
            (float(column.lower), float(column.upper)),
            noise_of(evidence.outcome.noise, name),
            place=(name,),
        )
        for j, (name, column) in enumerate(zip(evidence.names, evidence.numbers, strict=True))
    ]
    return Inference(terms=tuple(terms), method=METHOD)
