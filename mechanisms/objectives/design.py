"""The public linear map from a record's codes to the columns of a regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Design:
    """The public map from codes to scaled columns: x = W (1, a_1/F, ..., a_k/F).

    Without an intercept x_j = offset_j + slope_j a_j / F. With one, x starts
    with the constant 1.
    """

    offsets: tuple[Fraction, ...]
    slopes: tuple[Fraction, ...]
    intercept: bool

    @property
    def dimension(self) -> int:
        """Return d, the intercept included."""
        return len(self.slopes) + self.intercept

    def pull(self, theta: Sequence[Fraction]) -> list[Fraction]:
        """Return w = W' theta, exactly."""
        slopes = theta[1:] if self.intercept else theta
        constant = sum((o * t for o, t in zip(self.offsets, slopes, strict=True)), Fraction(0))
        first = constant + (theta[0] if self.intercept else 0)
        return [first, *(s * t for s, t in zip(self.slopes, slopes, strict=True))]

    def matrix(self) -> list[list[Fraction]]:
        """Return W, d rows of k + 1."""
        size = len(self.slopes)
        rows = [[Fraction(1)] + [Fraction(0)] * size] if self.intercept else []
        for j, (offset, slope) in enumerate(zip(self.offsets, self.slopes, strict=True)):
            rows.append([offset] + [slope if j == k else Fraction(0) for k in range(size)])
        return rows
