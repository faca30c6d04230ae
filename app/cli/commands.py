"""The program: every command and group of commands."""

from __future__ import annotations

import click

from app.cli.asking import (
    datasets_script,
    datasets_synthetic,
    releases_derive,
    releases_dry_run,
    releases_script,
)
from app.cli.audits import audit_privacy
from app.cli.budgets import datasets_budget, datasets_cap, datasets_caps, datasets_grant, pauses
from app.cli.files import (
    datasets_check,
    datasets_draft,
    datasets_extend,
    datasets_register,
    datasets_upload,
    datasets_versions,
)
from app.cli.ledger import audit, ledger, log
from app.cli.remote import datasets, keys, releases
from app.cli.reviewing import (
    audit_access_log,
    datasets_edit,
    datasets_export,
    inbox,
    releases_approve,
    releases_comment,
    releases_comments,
    releases_publication,
    releases_publish,
    releases_reject,
    releases_request_changes,
    releases_review,
    releases_revise,
    releases_unpublish,
    releases_versions,
)
from app.cli.running import backup, demo, migrate, serve, worker


@click.group(
    epilog="Exit codes: 0 done, 1 refused or a check failed, 2 wrong usage, 3 no service there."
)
@click.version_option(package_name="release-desk", prog_name="release-desk")
def main() -> None:
    """Run a Release Desk service, or talk to one."""


_RUNNING = (serve, worker, migrate, backup, demo, ledger, audit)
_REMOTE = (keys, pauses, datasets, releases, inbox, log)

for command in (*_RUNNING, *_REMOTE):
    main.add_command(command)

for command in (
    datasets_budget,
    datasets_grant,
    datasets_cap,
    datasets_caps,
    datasets_upload,
    datasets_register,
    datasets_extend,
    datasets_versions,
    datasets_draft,
    datasets_check,
    datasets_synthetic,
    datasets_script,
):
    datasets.add_command(command)
datasets.add_command(datasets_export)
datasets.add_command(datasets_edit)
audit.add_command(audit_access_log)
audit.add_command(audit_privacy)
for command in (
    releases_derive,
    releases_dry_run,
    releases_script,
    releases_publish,
    releases_unpublish,
    releases_publication,
    releases_review,
    releases_approve,
    releases_reject,
    releases_request_changes,
    releases_revise,
    releases_comment,
    releases_comments,
    releases_versions,
):
    releases.add_command(command)
