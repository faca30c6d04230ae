"""Several releases of the same records as one, by least squares: free, because it reads no data.

May enter: what releases have in common, and the weights of their noise. May import: derivations,
whose releases it reads, and all below it.
"""

from mechanisms.combined.squares import KINDS, combine, combining_ms

__all__ = ["KINDS", "combine", "combining_ms"]
