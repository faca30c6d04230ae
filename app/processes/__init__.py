"""Running work outside the server, in processes of its own.

*How*: one program with a table of tasks, a host that has loaded what a task needs and processes at
work for many threads (``program``), priorities (``spare_time``), what the two ends say
(``channel``), and what the process that reads uploads can reach (``confinement``). *What for*:
draws (``small_draws`` and ``jobs``, by ``draws``), ``calculations``, ``uploads``, and
``upload_reading``, by ``upload_reader``.

What may enter: another kind of work that must not hold up the server. What it may import:
services, for the work itself, and all below them; never ``app.api``. ``build`` puts the kinds
together for :mod:`app.services.build`.
"""
