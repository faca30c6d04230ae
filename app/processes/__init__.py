"""Running work outside the server, in processes of its own.

*How*: a host that has loaded what is needed (``forking``), many processes at work
for many threads (``crews``), priorities (``spare_time``), what the two ends say (``channel``),
and what a process does first (``child``). *What for*: uploads, jobs, small draws, calculations.
Each has a module for the parent, and one named ``..._child`` for the process.

What may enter: another kind of work that must not hold up the server. What it may import:
services, for the work itself, and all below them; never ``app.api``. ``build`` puts the kinds
together for :mod:`app.services.build`.
"""
