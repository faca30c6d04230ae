"""The one place where a plan meets data.

What may enter: reading stored data sets, passes over their parts, and running a plan's draw. What
it may import: the domain and ``mechanisms``. It knows neither how data came in
(:mod:`app.uploads`) nor the ledger (:mod:`app.store`).
"""
