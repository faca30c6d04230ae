"""Exact differentially private mechanisms: K-norm, K-norm gradient, objective perturbation.

Usable without the service; needs numpy, scipy and python-flint only. From a question to an answer:
:func:`mechanisms.catalog.calibrate` turns a statistic, a schema and epsilon into a plan, made of
public facts alone; ``plan.draw(data, randomness)`` is the one step that touches data.

From the top; each layer imports only those below it:

- ``catalog`` (everything offered), ``derivations`` (answers computed from answers), ``testing``
  (shipped checks of the privacy claims);
- ``composition`` (several statistics in one release), ``single`` (one of them);
- the mechanisms: ``kng``, ``exponential``, ``perturbation``, ``functional``, and ``knorm``;
- ``statistics`` (the questions), ``sketches`` (data as integers);
- ``contract`` (the interfaces of statistics, plans and data) and ``objectives`` (losses);
- ``geometry`` (norm balls and output spaces), ``samplers`` (exact draws);
- ``accounting``, ``exact`` (balls, rationals, rounding), ``domain``, ``randomness``, ``privacy``.

May enter: the objects of a privacy proof. May import: nothing from the service, the web or a
database. The import contracts in ``pyproject.toml`` check the order.
"""
