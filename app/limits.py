"""Settings that limit what people, programs and files may ask for: bytes, rates, connections."""

from __future__ import annotations

from ipaddress import ip_network

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from app.setting_rules import SettingsError


class Limits(BaseSettings):
    """The limits among the settings; :class:`app.settings.Settings` has them all."""

    max_upload_bytes: int = Field(
        default=4 * 2**30, ge=1, description="Largest upload accepted, in bytes."
    )
    max_upload_rows: int = Field(
        default=100_000_000, ge=1, description="Most rows one data set may have."
    )
    max_expanded_bytes: int = Field(
        default=2**36, ge=1, description="Largest content of a gzip upload, in bytes."
    )
    max_compression_ratio: int = Field(
        default=250,
        ge=1,
        description="How many times larger than the gzip file its content may be, above 64 MiB.",
    )
    max_file_columns: int = Field(
        default=10_000, ge=1, description="Most columns an uploaded file may have, declared or not."
    )
    max_record_bytes: int = Field(
        default=2**20,
        ge=2**10,
        description="Largest CSV record, header and cell of an upload, in bytes.",
    )
    upload_memory_bytes: int = Field(
        default=2**31,
        ge=2**29,
        description="Memory of each process that reads an upload, in bytes; "
        "one that stores it has as much, and half a GiB, of address space.",
    )
    upload_cpu_s: int = Field(
        default=1_800,
        ge=1,
        description="Processor time that reading one upload may take, in seconds.",
    )
    max_columns: int = Field(
        default=1_000, ge=1, description="Most columns a data set spec may declare."
    )
    max_category_values: int = Field(
        default=10_000, ge=1, description="Most values one category column may declare."
    )
    max_question_bytes: int = Field(
        default=2**16,
        ge=2**10,
        description="Largest question of a release or preview as it is kept, all defaults filled "
        "in, in bytes. Larger ones are answered 413 and nothing is charged.",
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
        "to a second, and are then answered 429. Probes count apart.",
    )
    anonymous_total_per_minute: int = Field(
        default=12_000,
        ge=0,
        description="Requests without a valid key that all addresses together may send per minute "
        "to each server process; 0 for any number.",
    )
    trusted_proxies: str = Field(
        default="127.0.0.1",
        description="Addresses and networks of proxies, with commas between them, whose "
        "`X-Forwarded-For` and `X-Forwarded-Proto` are believed, such as `10.0.0.5,10.1.0.0/16`: "
        "limits on requests without a key and the log are about the address that they name. Empty "
        "for none. Connections are counted by the address that they come from.",
    )
    max_request_bytes: int = Field(
        default=2**20,
        ge=1,
        description="Largest JSON body, and largest spec part of an upload, in bytes.",
    )
    max_answer_bytes: int = Field(
        default=2**30,
        ge=1,
        description="Largest answer whose receipt is checked, in bytes; of one above "
        "`max_request_bytes` only the end is kept. No database stores a larger answer.",
    )
    max_head_bytes: int = Field(
        default=2**16, ge=2**10, description="Largest request line and headers, in bytes."
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
    head_timeout_s: float = Field(
        default=10.0,
        gt=0,
        description="How long a client may take for a request line and headers, in seconds.",
    )
    body_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="How long a client may take for a request body, in seconds, "
        "beyond one second per `min_body_bytes_per_s` received.",
    )
    min_body_bytes_per_s: int = Field(
        default=2**14, ge=1, description="Slowest sustained upload, in bytes per second."
    )
    write_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="How long a client may leave an answer unread, in seconds.",
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
