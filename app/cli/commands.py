"""The program: every command and group of commands."""

from __future__ import annotations

import click

from app.cli.ledger import audit, ledger
from app.cli.remote import datasets, keys, releases
from app.cli.running import backup, demo, migrate, serve, worker


@click.group(
    epilog="Exit codes: 0 done, 1 refused or a check failed, 2 wrong usage, 3 no service there."
)
@click.version_option(package_name="release-desk", prog_name="release-desk")
def main() -> None:
    """Run a Release Desk service, or talk to one."""


for command in (serve, worker, migrate, backup, demo, ledger, audit, keys, datasets, releases):
    main.add_command(command)
