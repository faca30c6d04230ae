"""Every setting of the service, with its unit and default.

A setting ``x`` is read from ``RELEASE_DESK_X``, or from the file that
``RELEASE_DESK_X_FILE`` names (surrounding white space removed), which is how
container secrets arrive. Naming both is refused.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.descriptors import most_connections
from app.limits import Limits
from app.setting_rules import CLUSTER, ORIGINS, PREFIX, STORE, TOGETHER, FileSource, SettingsError

__all__ = ["PREFIX", "Settings", "SettingsError"]


class Settings(Limits):
    """What an operator may set.

    The descriptions are the reference documentation: the table in
    ``docs/operations/README.md`` is made from them.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    data_dir: Path = Field(
        default=Path("data"),
        description="Directory that holds the database, the data sets and uploads in progress.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="Database URL, sqlite:// or postgresql://; by default an SQLite file inside "
        "the data directory.",
    )
    replica_url: SecretStr | None = Field(
        default=None,
        description="URL of a copy of a PostgreSQL ledger, such as a hot standby: public pages, "
        "feeds and exports are read there while it can be read.",
    )
    anchor_dir: Path | None = Field(
        default=None,
        description="Directory of the anchor, which notices when an older database is put back; "
        "on another disk, best. By default `<data_dir>-anchor`. SQLite only.",
    )
    anchor_url: SecretStr | None = Field(
        default=None,
        description="PostgreSQL only: URL of a second database that keeps the anchor, best on "
        "another server. Without it nothing notices an older database put back.",
    )
    bootstrap_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Secret of the first admin key, 32 characters or more, such as `openssl rand "
        "-hex 32` prints. Without it a new service makes one and prints it once. Another secret "
        "replaces it at the next start: the key before is revoked.",
    )
    signing_key: SecretStr | None = Field(
        default=None,
        description="Ed25519 private key (PEM) that receipts are signed with; give it as a file "
        "outside the data directory. Without it `receipts.key` is made in the data directory.",
    )
    signer_command: str | None = Field(
        default=None,
        min_length=1,
        description="Program that signs receipts and keeps their key to itself, with its "
        "arguments, in place of `RELEASE_DESK_SIGNING_KEY`; each process that signs starts it.",
    )
    source_roots: str = Field(
        default="",
        description="What curators may register by URL lies below these: folders such as "
        "`file:///srv/people`, and buckets or prefixes in them such as `s3://bucket/people`, with "
        "commas between them. Nothing else can be reached. Without it there are only uploads.",
    )
    s3_endpoint: str = Field(
        default="",
        pattern=STORE,
        description="Where the object store is that has the roots in buckets; `http` on this "
        "machine alone. By default Amazon's of the region. Needs the extra `s3`.",
    )
    s3_region: str = Field(
        default="us-east-1", pattern=r"^[a-z0-9-]{1,40}$", description="The object store's region."
    )
    s3_access_key_id: str | None = Field(
        default=None,
        min_length=1,
        description="Whose key the object store is asked with; without one, anonymously. Needs "
        "`s3_secret_access_key`.",
    )
    s3_secret_access_key: SecretStr | None = Field(
        default=None, min_length=1, description="The secret of that key."
    )
    s3_session_token: SecretStr | None = Field(
        default=None, min_length=1, description="The token that belongs to a key for a while."
    )
    upload_threads: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Uploads that are read in at once; further ones wait on disk.",
    )
    max_grant: float = Field(
        default=1000, ge=1e-9, le=1e9, description="Largest epsilon that one grant may add."
    )
    job_processes: int | None = Field(
        default=None,
        ge=0,
        le=64,
        description="Processes that draw jobs for each server; by default one more than there "
        "are processors, but at most 8. Where there are two or more, one draws short jobs only. "
        "With 0 jobs are left to `release-desk worker`, which needs PostgreSQL.",
    )
    executor_processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes among which each process that draws from rows, or sketches an "
        "upload, divides its passes over the parts; with 1 it makes them itself.",
    )
    dask_scheduler: str = Field(
        default="",
        description="Dask scheduler whose workers make passes over rows in place of "
        "`executor_processes`, as `tls://scheduler.example.org:8786`; `tcp://` on this machine "
        "alone. They need the data directory at the same path. Needs the extra `dask`.",
    )
    dask_tls_ca: str = Field(
        default="",
        description="Certificate (PEM) of the authority that signs for this cluster and for "
        "nothing else; name its file. `tls://` needs it and the next two.",
    )
    dask_tls_cert: str = Field(
        default="", description="Certificate (PEM) that the cluster knows the service by."
    )
    dask_tls_key: SecretStr | None = Field(
        default=None, min_length=1, description="The private key (PEM) of that certificate."
    )
    review_days: float = Field(
        default=30.0,
        gt=0,
        le=36_500,
        description="After how many days a release that still waits for a review is given up and "
        "its budget given back.",
    )
    webhook_url: SecretStr | None = Field(
        default=None,
        description="Where each notice about a review is posted, signed, until it is taken. "
        "Needs `webhook_secret`.",
    )
    webhook_secret: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="Secret that posted notices are signed with, 16 characters or more.",
    )
    smtp_url: SecretStr | None = Field(
        default=None,
        description="Server that notices about reviews are mailed by, as "
        "`smtp://user:password@mail.example.org:587`, or `smtps://`. The password is sent over TLS "
        "alone; percent-encode an `@`, `:` or `/` in it. Needs `smtp_sender`.",
    )
    smtp_sender: str = Field(default="", description="Address that notices are mailed from.")
    smtp_reviewers: str = Field(
        default="",
        description="Addresses that reviewers' notices are mailed to, with commas between them. "
        "Who asks is mailed to where the name of their person is an address.",
    )
    response_slot_ms: int = Field(
        default=100,
        ge=0,
        le=60_000,
        description="Answers to release requests leave at ticks of this many milliseconds, so that "
        "their time reveals nothing; 0 sends them at once, for benchmarks.",
    )
    cors_origins: str = Field(
        default="",
        pattern=ORIGINS,
        description="Sites whose pages may read answers of the API in a browser, as origins such "
        "as `https://notes.example.org` with commas between them, or `*` for every site, but then "
        "not from a public site into a private network. By default none may. The desk is never "
        "shared. No cookies are sent along: a page needs a key of its own.",
    )
    public_url: str = Field(
        default="",
        pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*[^\s?#/])?)?$",
        description="Where people reach the service, such as `https://numbers.example.org`, for "
        "the addresses in citations and feeds. By default, where a request says that it came to. "
        "With `https` the desk's cookie is sent by TLS alone: set it behind a proxy.",
    )
    timestamp_url: str = Field(
        default="",
        pattern=r"^(https?://[^\s/?#]+(/\S*)?)?$",
        description="Authority that time-stamps each signed checkpoint (RFC 3161), such as "
        "`https://tsa.example.org`; it sees a hash. Where it is down nothing waits for it.",
    )
    max_clock_behind_s: float = Field(
        default=300.0,
        ge=0,
        description="How far the clock may be behind the ledger's last entry, in seconds. Behind "
        "that nothing is added to the ledger (503 clock-behind), jobs wait, and `/readyz` answers "
        "503. After entries that were written with a clock ahead of time, raise it until that time "
        "has come.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="warning",
        description="Least severe line in the log; at `info` there is one line per request.",
    )
    log_addresses: bool = Field(
        default=False,
        description="Whether lines of requests and of refused connections have the client's "
        "address, `client`; behind a proxy the one that `trusted_proxies` names.",
    )
    drain_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="How long a stopping service waits for what was asked to finish, in seconds.",
    )

    @field_validator("dask_scheduler", mode="before")
    @classmethod
    def _by_tls(cls, value: str) -> str:
        if re.fullmatch(CLUSTER, value) is None:
            raise SettingsError("this is tls://host:port, or tcp://127.0.0.1:port on this machine")
        return value

    @field_validator("bootstrap_key", mode="before")
    @classmethod
    def _stripped(cls, value: object) -> object:
        """Remove white space, as from a file, before the characters are counted."""
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        return text.strip() if isinstance(text, str) else text

    @field_validator("smtp_url")
    @classmethod
    def _mail(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and re.match(r"smtps?://", value.get_secret_value()) is None:
            raise SettingsError("this begins with smtp:// or smtps://")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for given, needed in TOGETHER:
            if getattr(self, given) and not getattr(self, needed):
                raise SettingsError(f"{given} needs {needed}")
        if self.dask_scheduler.startswith("tls:") and not self.dask_tls_ca:
            raise SettingsError("dask_scheduler needs dask_tls_ca for tls://")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read arguments first, then the environment, then files the environment names."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, FileSource(settings_cls)

    @property
    def resolved_job_processes(self) -> int:
        """Return how many processes draw jobs, with the default filled in."""
        if self.job_processes is not None:
            return self.job_processes
        return min((os.cpu_count() or 1) + 1, 8)

    @property
    def resolved_max_connections(self) -> tuple[int, int]:
        """Return how many connections are served, and of one address, defaults filled in."""
        room = most_connections()
        most = room if self.max_connections is None else min(self.max_connections, room)
        each = self.max_connections_per_address
        return most, max(most // 2, 1) if each is None else min(each, most)

    @property
    def resolved_cors_origins(self) -> tuple[str, ...]:
        """Return the origins whose pages may read answers, `*` for all."""
        return tuple(filter(None, map(str.strip, self.cors_origins.split(","))))

    @property
    def resolved_database_url(self) -> str:
        """Return the database URL, with the default filled in."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{(self.data_dir / 'release-desk.db').absolute()}"
