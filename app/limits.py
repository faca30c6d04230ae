"""Settings that limit what people, programs and files may ask for: bytes, rates, connections."""

from __future__ import annotations

from ipaddress import ip_network

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from app.setting_rules import SettingsError

_UPLOAD_BYTES = 4 * 2**30
_UPLOAD_CPU_S = 1_800
"""For each 4 GiB: enough for some 10^9 rows of ten columns."""


class Limits(BaseSettings):
    """The limits among the settings; :class:`app.settings.Settings` has them all."""

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
        default=2**28,
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

    @property
    def upload_cpu_s(self) -> int:
        """Return the CPU time that reading one upload may take, in seconds."""
        return _UPLOAD_CPU_S * max(-(-self.max_upload_bytes // _UPLOAD_BYTES), 1)

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
