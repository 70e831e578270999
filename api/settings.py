"""Settings: defaults, then a TOML file, then environment variables `HORNBEAM_…`, then arguments."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from schema.errors import InvalidRequest

PREFIX = "HORNBEAM_"
NO_SETTINGS = {"HORNBEAM_URL", "HORNBEAM_API_KEY", "HORNBEAM_CLUSTER"}
"""Variables of the client, and of tests on a cluster that is up."""


class Settings(BaseSettings):
    """Everything an operator may set. Durations and sizes carry their unit in the name."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        toml_file="hornbeam.toml",
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
    )

    data: Path = Field(
        Path("var/hornbeam"),
        description="Folder of the embedded database, or for a node's spilled queries.",
    )
    host: str = Field(
        "127.0.0.1",
        description="Address to listen on; beyond loopback it takes authentication and TLS.",
    )
    port: int = Field(8780, ge=0, le=65_535, description="0 picks a free port.")
    store: Literal["embedded", "hbase"] = Field(
        "embedded", description="embedded: all in the folder data. hbase: on a cluster."
    )
    database: str = Field(
        "hornbeam",
        pattern="^[a-z][a-z0-9_]*$",
        description="Name on the cluster: of HBase's namespace, of folders in HDFS and ZooKeeper.",
    )
    gateways: str = Field(
        "127.0.0.1:9091", description="HBase's Thrift 2 gateways: host:port, by commas."
    )
    zookeeper: str = Field("127.0.0.1:2181", description="The ensemble: host:port, by commas.")
    session_s: float = Field(
        4, ge=1, description="A node that ZooKeeper has not heard of for so long is followed."
    )
    hdfs: str = Field("hdfs://127.0.0.1:8020", description="Where the log is kept.")
    address: str = Field(
        "",
        description="URL at which other nodes say that this one is; from host and port if empty.",
    )
    peer_host: str = Field(
        "127.0.0.1",
        description="Address to listen on for other nodes; beyond loopback it takes node_secret,"
        " node_ca and a certificate.",
    )
    peer_port: int = Field(0, ge=0, le=65_535, description="The same; 0 picks a free port.")
    peer_address: str = Field(
        "",
        pattern=r"^(.+:[1-9][0-9]{0,4})?$",
        description="host:port at which other nodes reach this one; from peer_host and peer_port"
        " if empty.",
    )
    node_secret: SecretStr = Field(
        SecretStr(""),
        description="What the nodes of a database know and nobody else: 64 hexadecimal digits.",
    )
    node_ca: Path | None = Field(
        None, description="PEM file: nodes show one another certificates of this authority."
    )
    max_clock_skew_s: float = Field(
        10,
        gt=0,
        description="A node whose clock differs by more from those of all others does not join.",
    )
    slot_idle_rate: int = Field(
        60,
        ge=1,
        description="What a slot weighs by itself, in locks a minute: the more, the more slots are"
        " divided among the nodes by number, the less by load.",
    )
    slave: str = Field("local", pattern="^[a-z0-9-]+$", description="Name of this slave.")

    snapshot_retention_s: float = Field(3_600, gt=0, description="Older snapshots are refused.")
    outcome_retention_s: float = Field(86_400, gt=0, description="How long answers are kept.")
    deferred_hold_s: float = Field(
        86_400, gt=0, description="What deferred views need is kept so long if nobody refreshes."
    )
    log_retention_s: float = Field(3_600, ge=0, description="Applied segments are kept so long.")
    housekeeping_interval_s: float = Field(60, gt=0, description="How often to clean up.")
    checkpoint_interval_s: float = Field(1, gt=0, description="How often to sync the store.")

    statement_timeout_s: float = Field(30, gt=0, description="Default time limit of a statement.")
    max_timeout_s: float = Field(600, gt=0, description="Longest limit that a client may ask for.")
    max_body_bytes: int = Field(64 * 1024 * 1024, gt=0, description="Bytes of one request.")
    max_parameters: int = Field(100_000, gt=0, description="Parameters of one request.")
    max_load_rows: int = Field(1_000_000, gt=0, description="Rows of one bulk load.")
    max_concurrent_requests: int = Field(
        256, gt=0, description="Requests at the same time; the next are told to come again."
    )
    max_connections: int = Field(
        2_048,
        gt=0,
        description="Connections of clients at the same time, at most half of the descriptors that"
        " the system allows; the next are closed at once.",
    )
    max_json_rows: int = Field(1_000_000, gt=0, description="Rows of one JSON answer.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="What is logged to standard error."
    )
    query_memory_mb: int = Field(128, gt=0, description="DuckDB's memory; beyond it, it spills.")

    authentication: Literal["none", "keys"] = Field(
        "none", description='"keys": every request brings an API key. "none": loopback only.'
    )
    bootstrap_key: str = Field(
        "",
        pattern="^([0-9a-f]{12}:[0-9a-f]{64})?$",
        description="An administrator's first key, as `hornbeam keys bootstrap` prints it.",
    )
    key_refresh_s: float = Field(
        2, gt=0, le=60, description="A key that another node revokes is refused after so long."
    )
    max_concurrent_requests_per_key: int = Field(
        128, gt=0, description="Requests with one key at the same time."
    )
    tls_certificate: Path | None = Field(None, description="PEM file: certificate and its chain.")
    tls_key: Path | None = Field(None, description="PEM file: the certificate's private key.")
    tls_client_ca: Path | None = Field(
        None, description="PEM file: clients must show a certificate of this authority."
    )
    tls_by_proxy: bool = Field(
        False, description="A proxy in front of this server does TLS; nobody else reaches it."
    )
    audit_log: Path | None = Field(
        None, description="File for a line per write and administrator's request; - standard error."
    )

    @field_validator("node_secret")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        secret = value.get_secret_value()
        if secret and not (len(secret) == 64 and set(secret) <= set("0123456789abcdef")):
            raise ValueError(
                "64 hexadecimal digits are asked for; `openssl rand -hex 32` prints some"
            )
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings(**given: Any) -> Settings:
    """Settings with `given` on top; None means not given.

    Raises pydantic's ValidationError, and InvalidRequest for a file that cannot be read.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except (TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidRequest(
            f"{Settings.model_config['toml_file']} cannot be read: {error}", cure="Mend the file."
        ) from None


def require_known(variables: Iterable[str]) -> None:
    """Raises InvalidRequest for one that looks like a setting and is none: misspelt, it would be
    ignored, and the server would run without what was asked for."""
    known = {PREFIX + name.upper() for name in Settings.model_fields} | NO_SETTINGS
    for name in map(str.upper, variables):
        if name.startswith(PREFIX) and name not in known:
            nearest = get_close_matches(name, sorted(known), 1, cutoff=0)[0]
            raise InvalidRequest(
                f"There is no setting for the environment variable {name}.",
                cure=f"Did you mean {nearest}? If it is for something else, unset it here.",
            )


def describe(**given: Any) -> list[dict[str, Any]]:
    """Every setting with its value, where the value came from, and what it means.

    Raises as `load_settings` does.
    """
    chosen = load_settings(**given)
    file = Path(str(Settings.model_config["toml_file"]))
    sources = {
        "argument": {name for name, value in given.items() if value is not None},
        "environment": set(EnvSettingsSource(Settings)()),
        f"file {file}": set(TomlConfigSettingsSource(Settings)()),
    }
    described = []
    for name, field in Settings.model_fields.items():
        value = getattr(chosen, name)
        described.append(
            {
                "name": name,
                "value": str(value) if isinstance(value, Path | SecretStr) else value,
                "source": next((s for s, names in sources.items() if name in names), "default"),
                "description": field.description or "",
            }
        )
    return described
