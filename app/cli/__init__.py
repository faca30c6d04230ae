"""``release-desk``: run the service, and talk to one from a shell.

``serve``, ``worker``, ``migrate``, ``backup``, ``demo``, ``ledger`` and ``audit`` work on this
machine's data directory and read the ``RELEASE_DESK_*`` settings. ``keys``, ``groups``,
``datasets``, ``releases`` and ``plans`` are a client of a running service (``--url``, ``--key``).

Commands may enter, a module for each kind; one of a group adds itself to it. They may import
everything, and what takes long to load only when it is needed: a client command should not wait for
the whole service.
"""

import click

from app.cli import files  # noqa: F401 - its commands add themselves
from app.cli.budgets import groups, pauses
from app.cli.ledger import audit, ledger, log
from app.cli.remote import datasets, keys, releases
from app.cli.reviewing import inbox, plans
from app.cli.running import application, backup, demo, migrate, serve, worker
from app.cli.sbom import sbom

__all__ = ["application", "main"]


@click.group(
    epilog="Exit codes: 0 done, 1 refused or a check failed, 2 wrong usage, 3 no service there."
)
@click.version_option(package_name="release-desk", prog_name="release-desk")
def main() -> None:
    """Run a Release Desk service, or talk to one."""


for command in (
    *(serve, worker, migrate, backup, demo, ledger, audit, sbom),
    *(keys, groups, pauses, datasets, releases, plans, inbox, log),
):
    main.add_command(command)
