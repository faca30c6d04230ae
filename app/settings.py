"""Every setting of the service, with its unit and default.

A setting ``x`` is read from ``RELEASE_DESK_X``, or from the file that
``RELEASE_DESK_X_FILE`` names (surrounding white space removed), which is how
container secrets arrive. Naming both is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.constants import most_connections

__all__ = ["PREFIX", "OidcProvider", "Settings", "SettingsError"]


PREFIX = "RELEASE_DESK_"


class SettingsError(ValueError):
    """A setting is contradictory or its file cannot be read; names settings, never values."""


_ORIGIN = r"https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?"
_ORIGINS = rf"^(\*|{_ORIGIN}(\s*,\s*{_ORIGIN})*)?$"
"""As browsers send origins: a scheme, a host in small letters and no path."""
_STORE = r"^(https://[a-z0-9.-]+|http://(127\.0\.0\.1|localhost|\[::1\]))?(:[0-9]{1,5})?$"
_CLUSTER = (
    r"^(tls://([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}"
    r"|tcp://(127(\.[0-9]{1,3}){3}|localhost|\[::1\]):[0-9]{1,5})?$"
)
"""What goes over a network goes by TLS."""
_TOGETHER = (
    ("webhook_url", "webhook_secret"),
    ("smtp_url", "smtp_sender"),
    ("s3_access_key_id", "s3_secret_access_key"),
    ("s3_session_token", "s3_access_key_id"),
    ("dask_tls_ca", "dask_tls_cert"),
    ("dask_tls_cert", "dask_tls_key"),
    ("dask_tls_key", "dask_tls_ca"),
    ("dask_tls_ca", "dask_scheduler"),
)
"""What is no use without another one."""


class _FileSource(PydanticBaseSettingsSource):
    """Settings whose value is the content of the file named by ``..._FILE``."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the content of the setting's file, or None when none is named."""
        del field
        name = f"{PREFIX}{field_name.upper()}"
        path = os.environ.get(f"{name}_FILE")
        if path is None:
            return None, field_name, False
        if name in os.environ:
            raise SettingsError(f"set either {name} or {name}_FILE, not both")
        try:
            return Path(path).read_text("utf-8").strip(), field_name, False
        except (OSError, UnicodeDecodeError):
            raise SettingsError(f"the file named by {name}_FILE cannot be read") from None

    def __call__(self) -> dict[str, Any]:
        """Return every setting that comes from a file."""
        found = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in found.items() if value is not None}


T = TypeVar("T")


def _read(reads: TypeAdapter[T], value: SecretStr, wanted: str) -> T:
    """Return what a setting says in JSON.

    Raises
    ------
    SettingsError
        Where it is wrong is said, and nothing of what it holds.
    """
    try:
        return reads.validate_json(value.get_secret_value())
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_context=False, include_url=False)[0]
        where = ".".join(map(str, wrong["loc"])) or "the whole"
        raise SettingsError(f"{wanted} is wanted; {where}: {wrong['msg']}") from None


def _providers_in(value: SecretStr | None) -> Sequence[OidcProvider]:
    if value is None:
        return []
    return _read(_PROVIDERS, value, "a JSON list of providers")


def _proxy_in(value: SecretStr | None) -> SignInProxy | None:
    return None if value is None else _read(_PROXY, value, "a JSON object about the proxy")


_UPLOAD_BYTES = 4 * 2**30
_UPLOAD_CPU_S = 1_800
"""For each 4 GiB: enough for some 10^9 rows of ten columns."""


_HEADER = r"^[A-Za-z0-9-]{1,60}$"
RolesOfGroups = dict[str, Literal["auditor", "analyst", "reviewer", "curator", "admin"]]


class OidcProvider(BaseModel):
    """A provider of identities that people may sign in at, by OpenID Connect."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: str = Field(pattern=r"^[a-z0-9-]{1,40}$")
    """What stands in addresses: its callback is `/desk/sign-in/{id}/callback`."""
    name: str = Field(min_length=1, max_length=60)
    """What people call it, as on the button."""
    issuer: str = Field(pattern=r"^(https://[^\s?#]+|http://(127\.0\.0\.1|localhost)[^\s?#]*)$")
    client_id: str = Field(min_length=1)
    client_secret: SecretStr | None = None
    """Without one the service is a public client, by PKCE alone."""
    scope: str = "openid email profile"
    person_claim: str = "email"
    """The claim that names a person who is new to the service."""
    groups_claim: str = "groups"
    roles: RolesOfGroups = Field(min_length=1)
    """The role of each group; of several the highest counts."""


class SignInProxy(BaseModel):
    """A reverse proxy that signs people in, and says in headers who they are.

    A request with the secret in its header is believed. So the proxy replaces all four headers in
    every request that it passes on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: str = Field(pattern=r"^[a-z0-9-]{1,40}$")
    """What stands in addresses: people sign in at `/desk/sign-in/{id}`."""
    name: str = Field(min_length=1, max_length=60)
    """What people call it, as on the button."""
    secret: SecretStr = Field(min_length=32)
    secret_header: str = Field(default="X-Sign-In-Secret", pattern=_HEADER)
    subject_header: str = Field(default="X-Forwarded-User", pattern=_HEADER)
    """What never changes hands: an account's id, not a name that somebody else may get."""
    name_header: str = Field(default="X-Forwarded-Email", pattern=_HEADER)
    """The name of a person who is new to the service."""
    groups_header: str = Field(default="X-Forwarded-Groups", pattern=_HEADER)
    """The groups, with commas between them."""
    roles: RolesOfGroups = Field(min_length=1)
    """The role of each group; of several the highest counts."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        headers = (self.secret_header, self.subject_header, self.groups_header)
        named = {each.lower() for each in (*headers, self.name_header)}
        if len({each.lower() for each in headers}) < len(headers) or (
            self.name_header.lower() in {self.secret_header.lower(), self.groups_header.lower()}
        ):
            raise ValueError("the headers of secret, subject and groups have names of their own")
        if named & {"authorization", "cookie", "host"}:
            raise ValueError("a header has a meaning of its own")
        return self


_PROVIDERS = TypeAdapter(list[OidcProvider])
_PROXY = TypeAdapter(SignInProxy)


class Settings(BaseSettings):
    """What an operator may set.

    The descriptions are the reference documentation: the table in
    ``docs/operations/README.md`` is made from them.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    max_upload_bytes: int = Field(
        default=_UPLOAD_BYTES,
        ge=1,
        description="Largest upload accepted, in bytes. Reading one may use half an hour of CPU "
        "time for each 4 GiB of this limit.",
    )
    max_upload_rows: int = Field(
        default=100_000_000, ge=1, description="Most rows one data set may have."
    )
    upload_memory_bytes: int = Field(
        default=2**31,
        ge=2**29,
        description="Memory of each process that reads an upload, in bytes; "
        "one that stores it has as much, and half a GiB, of address space.",
    )
    max_stored_bytes_per_day: int = Field(
        default=2**29,
        ge=0,
        description="Bytes that one person's releases may take in the database in a day (UTC): "
        "questions, plans, answers as they are reckoned beforehand, and 4 KiB each for entries; "
        "0 for any number. Above it releases are answered 429 too-much-stored, and nothing is "
        "charged.",
    )
    rate_limit_per_minute: int = Field(
        default=6_000,
        ge=0,
        description="Requests that one key may send per minute, to all server processes of a "
        "ledger together; 0 for any number. Above it requests are answered 429.",
    )
    anonymous_rate_limit_per_minute: int = Field(
        default=1_200,
        ge=0,
        description="Requests without a valid key that one address (of IPv6, a /64 network) may "
        "send per minute to each server process; 0 for any number. Above it requests wait for up "
        "to a second, and are then answered 429. All addresses together may send ten times as "
        "many. Probes count apart.",
    )
    trusted_proxies: str = Field(
        default="127.0.0.1",
        description="Addresses and networks of proxies, with commas between them, whose "
        "`X-Forwarded-For` and `X-Forwarded-Proto` are believed, such as `10.0.0.5,10.1.0.0/16`: "
        "limits on requests without a key and the log are about the address that they name. Empty "
        "for none. Connections are counted by the address that they come from.",
    )
    max_connections: int | None = Field(
        default=None,
        ge=1,
        description="Connections served at once, by each process; by default, and at most, as many "
        "as the limit on open files leaves room for, up to 10,000. For a further one the oldest "
        "goes that has no request; where all have one, it is answered 503 busy.",
    )
    max_connections_per_address: int | None = Field(
        default=None,
        ge=1,
        description="Connections of one address (of IPv6, of a /64 network) served at once; by "
        "default half of `max_connections`. Behind a proxy all have the proxy's address: set it to "
        "`max_connections` there, and limit clients in the proxy.",
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
    oidc_providers: SecretStr | None = Field(
        default=None,
        description="Providers of identities that people may sign in at to use the desk, as a JSON "
        "list; see [signing in](deployment.md#signing-in-with-accounts-of-your-institution).",
    )
    oidc_session_s: int = Field(
        default=3_600,
        ge=60,
        le=86_400,
        description="After how many seconds who has signed in at a provider or by a proxy is sent "
        "there again: who has left a group by then is out.",
    )
    proxy_sign_in: SecretStr | None = Field(
        default=None,
        description="A reverse proxy that signs people in to the desk and names them in headers, "
        "as a JSON object with a secret that the proxy sends along; see "
        "[signing in by a proxy](deployment.md#signing-in-by-a-proxy).",
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
        pattern=_STORE,
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
        "its budget given back. A study plan that waits expires too.",
    )
    study_plan_days: float = Field(
        default=180.0,
        gt=0,
        le=36_500,
        description="For how many days after its approval the questions of a study plan can be "
        "drawn.",
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
        pattern=_ORIGINS,
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
    traces_url: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="Where spans of requests are sent by OTLP over HTTP, such as "
        "`http://collector:4318/v1/traces`; empty: nowhere. A span names the route, its status "
        "and a class of durations. It needs the extra `traces`; see "
        "[traces](README.md#traces).",
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
    development: bool = Field(
        default=False,
        description="Whether `/desk/components` shows every part that the desk's pages are made "
        "of, for those who change them.",
    )
    drain_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="How long a stopping service waits for what was asked to finish, in seconds.",
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, value: str) -> str:
        found = [each.strip() for each in value.split(",") if each.strip()]
        try:
            for each in found:
                ip_network(each)
        except ValueError:
            raise SettingsError(
                "this is addresses and networks with commas between, such as 10.0.0.5,10.1.0.0/16"
            ) from None
        return ",".join(found)

    @field_validator("dask_scheduler", mode="before")
    @classmethod
    def _by_tls(cls, value: str) -> str:
        if re.fullmatch(_CLUSTER, value) is None:
            raise SettingsError("this is tls://host:port, or tcp://127.0.0.1:port on this machine")
        return value

    @field_validator("bootstrap_key", mode="before")
    @classmethod
    def _stripped(cls, value: object) -> object:
        """Remove white space, as from a file, before the characters are counted."""
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        return text.strip() if isinstance(text, str) else text

    @field_validator("oidc_providers")
    @classmethod
    def _providers(cls, value: SecretStr | None) -> SecretStr | None:
        found = _providers_in(value)
        if len({each.id for each in found}) < len(found):
            raise SettingsError("two providers have one id")
        return value

    @field_validator("proxy_sign_in")
    @classmethod
    def _proxy(cls, value: SecretStr | None) -> SecretStr | None:
        _proxy_in(value)
        return value

    @field_validator("smtp_url")
    @classmethod
    def _mail(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and re.match(r"smtps?://", value.get_secret_value()) is None:
            raise SettingsError("this begins with smtp:// or smtps://")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for given, needed in _TOGETHER:
            if getattr(self, given) and not getattr(self, needed):
                raise SettingsError(f"{given} needs {needed}")
        proxy = self.resolved_sign_in_proxy
        if proxy is not None and proxy.id in {each.id for each in self.resolved_oidc_providers}:
            raise SettingsError("the proxy has the id of a provider")
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
        return init_settings, env_settings, _FileSource(settings_cls)

    @property
    def resolved_oidc_providers(self) -> Sequence[OidcProvider]:
        """Return the providers that people may sign in at."""
        return _providers_in(self.oidc_providers)

    @property
    def resolved_sign_in_proxy(self) -> SignInProxy | None:
        """Return the proxy that signs people in, if one does."""
        return _proxy_in(self.proxy_sign_in)

    @property
    def upload_cpu_s(self) -> int:
        """Return the CPU time that reading one upload may take, in seconds."""
        return _UPLOAD_CPU_S * max(-(-self.max_upload_bytes // _UPLOAD_BYTES), 1)

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
