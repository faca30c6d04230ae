"""Several releases of the same records as one, by least squares: free, as it reads no data.

May enter: what releases have in common, and how their noise is weighed against each other. May
import: derivations, whose releases it reads, and all below it.
"""

from mechanisms.combined.squares import combine, combining_ms

__all__ = ["combine", "combining_ms"]
