"""Settings: read from `WATERCLOCK_…` variables once, checked once, passed on as one value.

Only `Config.from_env` reads the environment. The field's name is the variable's in lower case; the
table in README is checked against this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from engine.errors import BadInput, Unusable
from engine.guard import Guard

SHORTEST_KEY = 32
"""Characters of a key in `secret_key`."""


class Config(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="WATERCLOCK_", frozen=True, extra="forbid")

    redis_url: str = Field(
        "redis://127.0.0.1:6379/0", description="the server: `redis://`, `rediss://` or `unix://`"
    )
    api_url: str = Field(
        "http://127.0.0.1:8787", description="where the command line finds the API"
    )
    public_url: str | None = Field(
        None, description="where targets reach the API to report on long jobs; else the API's URL"
    )
    auth: Literal["auto", "required", "off"] = Field(
        "auto",
        description="whether the API asks for keys: `required`, `off`, or `auto`, which asks unless"
        " only this machine reaches it",
    )
    api_key: SecretStr | None = Field(
        None, description="the key that the command line sends to the API"
    )
    api_key_file: Path | None = Field(None, description="a file that holds this key instead")
    data_dir: Path = Field(
        Path(".waterclock"), description="where `up` keeps its own server's data"
    )
    server_bin: str | None = Field(None, description="the server binary that `up` starts")
    host: str = Field("127.0.0.1", description="the address on which the API listens")
    port: int = Field(8787, ge=0, le=65_535, description="the port on which the API listens")
    shards: int = Field(
        16, ge=1, le=256, description="partitions of the jobs; fixed when the first process starts"
    )
    tick_ms: int = Field(
        50, ge=1, le=1_000, description="the longest sleep of a scheduler between two looks"
    )
    batch: int = Field(
        1_000, ge=1, le=1_000, description="due members that one script fires at the most"
    )
    lease_ttl_ms: int = Field(
        10_000, ge=300, le=300_000, description="how long a shard stays with a silent scheduler"
    )
    execution_lease_ms: int = Field(
        10_000, ge=300, le=300_000, description="how long a delivery stays with a silent worker"
    )
    max_deliveries: int = Field(
        5, ge=1, le=1_000, description="deliveries of one attempt before it is poison"
    )
    max_ready: int = Field(
        1_000_000,
        ge=16,
        description="entries of a queue above which its due jobs wait in the index",
    )
    history_limit: int = Field(50, ge=1, le=10_000, description="records kept per job")
    dead_limit: int = Field(
        100_000, ge=1, description="dead letters kept; beyond that the oldest are discarded"
    )
    dead_retention_ms: int = Field(
        2_592_000_000, ge=1_000, description="how long a dead letter is kept"
    )
    ledger_limit: int = Field(2_000, ge=100, description="entries kept in each shard's ledger")
    worker_concurrency: int = Field(
        100, ge=1, le=10_000, description="executions that a worker runs at once"
    )
    worker_queues: str = Field(
        "http",
        description="queues that a worker reads, `NAME` or `NAME=WEIGHT`, with commas between",
    )
    allow_shell: bool = Field(
        False, description="whether a worker runs shell targets; it then reads queue `shell` too"
    )
    allow_networks: str | None = Field(
        None,
        description="networks that http targets may be in beside public ones, with commas between",
    )
    allow_hosts: str | None = Field(
        None,
        description="hosts that may be called at any address: `NAME`, `*.SUFFIX`, `NAME:PORT`, …",
    )
    secret_key: SecretStr | None = Field(
        None,
        description="what the secrets of webhooks are encrypted with in Redis; several keys, the"
        " newest first, have commas between",
    )
    idempotency_ms: int = Field(
        86_400_000,
        ge=60_000,
        description="how long the answer to a request with an Idempotency-Key is kept",
    )
    shutdown_ms: int = Field(
        10_000, ge=0, description="how long a stopping process waits for running work"
    )

    @field_validator("secret_key")
    @classmethod
    def _check_key(cls, value: SecretStr | None) -> SecretStr | None:
        keys = [key.strip() for key in value.get_secret_value().split(",")] if value else []
        if any(len(key) < SHORTEST_KEY for key in keys):
            raise ValueError(
                f"a key has {SHORTEST_KEY} characters at least; `openssl rand -base64 32` makes one"
            )
        return value

    @model_validator(mode="after")
    def _check_lease(self) -> Self:
        if self.lease_ttl_ms < 6 * self.tick_ms:
            raise ValueError(
                "lease_ttl_ms must be at least six times tick_ms: a lease is renewed each third"
            )
        return self

    @field_validator("allow_networks", "allow_hosts")
    @classmethod
    def _check_allowed(cls, value: str | None, info: ValidationInfo) -> str | None:
        try:
            Guard.of(**{str(info.field_name).removeprefix("allow_"): value})
        except BadInput as error:
            raise ValueError(error.message) from None
        return value

    def read_api_key(self) -> str | None:
        """Return the key to send, from the file if one is named. Raises Unusable for one that
        cannot be read."""
        if self.api_key_file is None:
            return self.api_key.get_secret_value().strip() if self.api_key else None
        try:
            return self.api_key_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise Unusable(f"the key cannot be read from {self.api_key_file}: {reason}") from None

    def guard(self) -> Guard:
        """Return which targets may be called under these settings."""
        return Guard.of(self.allow_networks, self.allow_hosts)

    @classmethod
    def from_env(cls, **overrides: object) -> Config:
        """Return the settings from the environment, with `overrides` on top (None means not given).

        Refuses with Unusable, naming each variable that is wrong and why.
        """
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls(**given)  # type: ignore[arg-type]
        except ValidationError as error:
            wrong = "; ".join(
                ": ".join(
                    [
                        *(f"WATERCLOCK_{part}".upper() for part in e["loc"]),
                        e["msg"].removeprefix("Value error, "),
                    ]
                )
                for e in error.errors(include_input=False)
            )
            raise Unusable(f"settings: {wrong}") from None
