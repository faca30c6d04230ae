"""``release-desk``: run the service, and talk to one from a shell.

``serve``, ``worker``, ``migrate``, ``backup``, ``demo``, ``ledger`` and ``audit`` work on this
machine's data directory and read the ``RELEASE_DESK_*`` settings. ``keys``, ``datasets`` and
``releases`` are a client of a running service (``--url``, ``--key``).

Commands may enter, a module for each kind. They may import everything, and what takes long to
load only when it is needed: a client command should not wait for the whole service.
"""

from app.cli.commands import main
from app.cli.running import application

__all__ = ["application", "main"]
