"""Exact differentially private mechanisms: K-norm, K-norm gradient, objective perturbation.

Usable without the service; needs numpy, scipy and python-flint only. From a question to an answer:
:func:`mechanisms.catalog.calibrate` turns a statistic, a schema and epsilon into a plan, made of
public facts alone; ``plan.draw(data, randomness)`` is the one step that touches data.

From the top, and each imports only what stands below it:

- ``catalog`` (all that is on offer), ``derivations`` (answers computed from answers), ``extras``
  (for users of the library), ``testing`` (shipped checks of the privacy claims);
- ``composition`` (several statistics in one release), ``single`` (one of them);
- the mechanisms: ``kng``, ``exponential``, ``perturbation``, ``functional``, and ``knorm``;
- ``statistics`` (the questions), ``sketches`` (data as integers);
- ``contract`` (what a statistic, a plan and data look like) and ``objectives`` (losses);
- ``geometry`` (norm balls and output spaces), ``samplers`` (exact draws);
- ``accounting``, ``exact`` (balls, rationals, rounding), ``domain``, ``randomness``, ``privacy``.

May enter: what a privacy proof speaks of. May import: nothing of the service, of the web or of a
database. The order is checked by the import contracts in ``pyproject.toml``.
"""
