"""Public limits that every regression shares."""

from __future__ import annotations

from mechanisms.contract import InvalidStatisticError

SMALLEST_BOUND, LARGEST_BOUND = 1e-6, 1e6
MAX_COEFFICIENTS = 100


def require_coefficients(dimension: int) -> None:
    """Refuse more coefficients than any mechanism draws."""
    if dimension > MAX_COEFFICIENTS:
        raise InvalidStatisticError(
            f"at most {MAX_COEFFICIENTS} coefficients", field_name="features"
        )


def require_bound(bound: float | None, *, may_be_null: bool = False) -> None:
    """Refuse a limit of the coefficients' l1 norm that is out of range (NaN is)."""
    if bound is None and may_be_null:
        return
    if bound is None or not SMALLEST_BOUND <= bound <= LARGEST_BOUND:
        ending = ", or be null" if may_be_null else ""
        raise InvalidStatisticError(
            f"bound must lie between 0.000001 and 1000000{ending}", field_name="bound"
        )
