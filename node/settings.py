"""Settings. Arguments override environment variables `HORNBEAM_…`, these override a TOML file, and
the file overrides defaults."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from hornbeam_server.node.hosts import read_authority
from hornbeam_server.schema.errors import InvalidRequest

PREFIX = "HORNBEAM_"
NO_SETTINGS = {"HORNBEAM_URL", "HORNBEAM_API_KEY", "HORNBEAM_CLUSTER", "HORNBEAM_SPEEDUPS"}
"""Variables with the prefix that are no settings: those of the client, of tests on a cluster, and
of the implementation of codecs, which is chosen for a whole process."""


_THRIFT_1 = "thrift1://"
_HIGHEST_PORT = 65_535
_NAMESPACES_OF_HBASE = ("default", "hbase")


class Settings(BaseSettings):
    """All settings of a server. Names of durations and sizes end with the unit."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        toml_file="hornbeam.toml",
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
    )
    _sealed: ClassVar[bool] = False

    data: Path = Field(
        Path("var/hornbeam"),
        description="Folder of the embedded database. On a node: folder for rows that queries "
        "spill.",
    )
    host: str = Field(
        "127.0.0.1",
        description="Address to listen on. Anything but loopback requires authentication and TLS.",
    )
    port: int = Field(
        8780, ge=0, le=65_535, description="TCP port to listen on; 0 picks a free port."
    )
    postgresql_port: int | None = Field(
        None,
        ge=0,
        le=65_535,
        description="TCP port to listen on for clients of PostgreSQL's protocol, at the same host; "
        "0 picks a free port. Empty: none.",
    )
    console: bool = Field(
        True,
        description="True: the page at / is the console, which shows the database in a browser. "
        "False: it is not served, and / leads to /docs.",
    )
    workers: int = Field(
        1,
        ge=1,
        le=256,
        description="Nodes that `hornbeam serve` runs on this machine, each in a process of its "
        "own, behind the one address. More than one needs store = hbase.",
    )
    worker_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="First of the ports at which the workers can also be reached one by one, for "
        "example by monitoring; 0 picks free ports.",
    )
    allowed_hosts: str = Field(
        "",
        description="Host names and addresses, comma-separated, that the Host header of a "
        "request may have besides loopback and the host of address. With "
        "authentication and no value, any Host is accepted.",
    )
    store: Literal["embedded", "hbase"] = Field(
        "embedded",
        description="embedded: rows, log and locks in the folder data. hbase: rows in HBase, "
        "log in HDFS, coordination in ZooKeeper.",
    )
    database: str = Field(
        "hornbeam",
        pattern="^[a-z][a-z0-9_]*$",
        description="Name of the database on the cluster: the HBase namespace, and the folder "
        "in HDFS and ZooKeeper.",
    )
    gateways: str = Field(
        "127.0.0.1:9091",
        description="HBase Thrift 2 gateways: host:port, comma-separated. Or Thrift 1 gateways: "
        "thrift1://host:port for each.",
    )
    region_server_page_port: int = Field(
        16_030,
        ge=0,
        le=65_535,
        description="Port of the web pages of HBase's region servers, where nodes with Thrift 1 "
        "gateways read two settings that they need. 0: they are not read; the operator has made "
        "sure of them.",
    )
    zookeeper: str = Field(
        "127.0.0.1:2181", description="ZooKeeper servers: host:port, comma-separated."
    )
    session_s: float = Field(
        4,
        ge=1,
        description="Seconds without a ZooKeeper heartbeat after which a node is declared dead "
        "and another node takes over its work.",
    )
    hdfs: str = Field(
        "hdfs://127.0.0.1:8020", description="URL of the HDFS file system that keeps the log."
    )
    address: str = Field(
        "",
        description="URL at which clients and other nodes reach this node. Empty: made from "
        "host and port.",
    )
    peer_host: str = Field(
        "127.0.0.1",
        description="Address to listen on for other nodes. Anything but loopback requires "
        "node_secret, node_ca and a TLS certificate.",
    )
    peer_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="TCP port to listen on for other nodes; 0 picks a free port.",
    )
    peer_address: str = Field(
        "",
        pattern=r"^(.+:[1-9][0-9]{0,4})?$",
        description="host:port at which other nodes reach this node. Empty: made from peer_host "
        "and peer_port.",
    )
    node_secret: SecretStr = Field(
        SecretStr(""),
        description="Shared secret by which the nodes of one database authenticate one another: "
        "64 hexadecimal digits.",
    )
    node_ca: Path | None = Field(
        None, description="PEM file of the authority that signs the certificates of all nodes."
    )
    max_clock_skew_s: float = Field(
        10,
        gt=0,
        description="A node whose clock differs by more than this from the clocks of all other "
        "nodes does not join.",
    )
    slot_idle_rate: int = Field(
        60,
        ge=1,
        description="Load, in locks and changed rows of views per minute, that every slot counts "
        "as having even when idle. A higher value balances the number of slots per node rather "
        "than their load.",
    )
    slave: str = Field(
        "local",
        pattern="^[a-z0-9-]+$",
        description="Name of this process's log and epochs in an embedded database. Keep the "
        "default.",
    )

    snapshot_retention_s: float = Field(
        3_600,
        gt=0,
        description="How long old versions of rows are kept. Reads at older snapshots are refused.",
    )
    outcome_retention_s: float = Field(
        86_400,
        gt=0,
        description="How long the answer to a request with an idempotency key is kept.",
    )
    deferred_hold_s: float = Field(
        86_400,
        gt=0,
        description="How long changes and old versions that deferred views still need are kept "
        "when no process refreshes the views.",
    )
    resident_refresh: bool = Field(
        True,
        description="True: the nodes keep live and deferred views themselves. False: only "
        "`hornbeam refresh` does.",
    )
    resident_share_s: float = Field(
        default=0.05,
        ge=0,
        description="Several nodes divide the views of a batch of live or deferred views among"
        " them if the batch before it took so many seconds.",
    )
    resident_rows: int = Field(
        100_000,
        ge=0,
        description="Most rows from which a node builds a view, and most changes of one batch. "
        "`hornbeam refresh` does larger batches. On HBase, a node does at most 10 000.",
    )
    log_retention_s: float = Field(
        3_600, ge=0, description="How long log segments are kept after the store has applied them."
    )
    housekeeping_interval_s: float = Field(
        60,
        gt=0,
        description="Time between two rounds of purging old versions, outcomes and log segments.",
    )
    checkpoint_interval_s: float = Field(
        1,
        gt=0,
        description="Time between two checkpoints. A checkpoint syncs the store, so that "
        "recovery reads less of the log.",
    )

    statement_timeout_s: float = Field(
        30, gt=0, description="Time limit of a statement whose request names none."
    )
    max_timeout_s: float = Field(
        600, gt=0, description="Longest time limit that a request may ask for."
    )
    max_body_bytes: int = Field(64 * 1024 * 1024, gt=0, description="Largest body of a request.")
    max_parameters: int = Field(100_000, gt=0, description="Most parameters of a request.")
    max_load_rows: int = Field(1_000_000, gt=0, description="Most rows of one bulk load.")
    max_concurrent_requests: int = Field(
        256, gt=0, description="Most requests that run at the same time. Further requests get 429."
    )
    max_subscriptions: int = Field(
        10_000,
        gt=0,
        description="Most subscriptions to changes at the same time. Each takes a connection "
        "(max_connections).",
    )
    max_connections: int = Field(
        2_048,
        gt=0,
        description="Most client connections at the same time, limited to half of the process's "
        "file descriptors. Further connections are closed.",
    )
    max_statement_texts: int = Field(
        1_000,
        ge=0,
        description="Most texts of statements whose calls, times and rows are counted "
        "(`GET /v1/statements`); 0 counts none.",
    )
    max_json_rows: int = Field(1_000_000, gt=0, description="Most rows of one JSON answer.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="Lowest level of events that are logged to standard error."
    )
    query_memory_mb: int = Field(
        128, gt=0, description="DuckDB's memory for one statement; beyond it, the statement spills."
    )
    query_headroom_mb: int = Field(
        640,
        gt=0,
        description="Memory that a worker process may use beyond query_memory_mb, for "
        "allocations that DuckDB does not count. A statement that needs more is "
        "refused.",
    )
    query_places: int = Field(
        4, ge=2, description="Most statements that run in worker processes at the same time."
    )
    query_processes: int = Field(
        16,
        ge=2,
        description="Most worker processes, including those whose clients are still reading the "
        "result.",
    )

    authentication: Literal["none", "keys"] = Field(
        "none",
        description="keys: every request carries an API key. none: no authentication, on "
        "loopback only.",
    )
    bootstrap_key: str = Field(
        "",
        pattern="^([0-9a-f]{12}:[0-9a-f]{64})?$",
        description="First administrator key, as printed by `hornbeam keys bootstrap`.",
    )
    key_refresh_s: float = Field(
        2,
        gt=0,
        le=60,
        description="Longest time until this node refuses a key that was revoked at another node.",
    )
    max_concurrent_requests_per_key: int = Field(
        128, gt=0, description="Most requests with one API key that run at the same time."
    )
    tls_certificate: Path | None = Field(
        None, description="PEM file with the server's certificate and its chain."
    )
    tls_key: Path | None = Field(
        None, description="PEM file with the private key of tls_certificate."
    )
    tls_client_ca: Path | None = Field(
        None,
        description="PEM file of the authority that must have signed the certificates of clients.",
    )
    tls_by_proxy: bool = Field(
        False,
        description="True: a proxy in front of this server terminates TLS, and nothing else can "
        "connect to the server.",
    )
    audit_log: Path | None = Field(
        None,
        description="File with one line for each write and each administrator's request; - is "
        "standard error.",
    )

    telemetry: bool = Field(
        False,
        description="True: send traces and metrics by OTLP over HTTP, as the variables OTEL_… say. "
        "Needs hornbeam-server[otel].",
    )

    @field_validator("allowed_hosts")
    @classmethod
    def _are_hosts(cls, value: str) -> str:
        for name in filter(None, map(str.strip, value.split(","))):
            authority = read_authority(name)
            if authority is None or authority.port is not None or "*" in name:
                raise ValueError(f"{name!r} is not the name or address of a host, without a port")
        return value

    @field_validator("database")
    @classmethod
    def _is_own(cls, value: str) -> str:
        """The regions of tables in the namespace `default` have other names in `hbase:meta`."""
        if value in _NAMESPACES_OF_HBASE:
            raise ValueError(f"{value!r} is a namespace of HBase itself; choose another name")
        return value

    @field_validator("gateways")
    @classmethod
    def _are_gateways(cls, value: str) -> str:
        read_gateways(value)
        return value

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
        if cls._sealed:
            return (init_settings,)
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


class Gateways(NamedTuple):
    """Gateways of HBase: of Thrift `thrift` (1 or 2), at hosts and ports."""

    thrift: int
    addresses: tuple[tuple[str, int], ...]


def read_gateways(text: str) -> Gateways:
    """The gateways that the setting names: host:port for Thrift 2, thrift1://host:port for
    Thrift 1. Raises ValueError."""
    written = [address.strip() for address in text.split(",")]
    old = [address for address in written if address.startswith(_THRIFT_1)]
    if old and len(old) < len(written):
        (other, *_) = [address for address in written if address not in old]
        raise ValueError(f"{old[0]} is of Thrift 1 and {other} of Thrift 2; name gateways of one")
    addresses = tuple(_gateway_address(each.removeprefix(_THRIFT_1)) for each in written)
    return Gateways(1 if old else 2, addresses)


def _gateway_address(text: str) -> tuple[str, int]:
    authority = read_authority(text)
    if authority is None or not authority.port or authority.port > _HIGHEST_PORT:
        raise ValueError(f"{text!r} is not host:port, such as 127.0.0.1:9091")
    return authority.host, authority.port


def load_settings(**given: Any) -> Settings:
    """The settings; values in `given` override other sources, and None means not given.

    Raises pydantic's ValidationError, and InvalidRequest for a file that cannot be read.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except (TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidRequest(
            f"{Settings.model_config['toml_file']} cannot be read: {error}", cure="Correct it."
        ) from None


class _Sealed(Settings):
    """Settings that neither the environment nor a file changes."""

    model_config = SettingsConfigDict(toml_file=None)
    _sealed: ClassVar[bool] = True


def sealed_settings(**given: Any) -> Settings:
    """The settings in `given`; all others are defaults, whatever the environment and a file say.

    Raises pydantic's ValidationError.
    """
    return _Sealed(**given)


def require_known(variables: Iterable[str]) -> None:
    """Raises InvalidRequest for a variable that has the prefix of settings but is no setting: a
    misspelt setting would be ignored, and the server would run with another value."""
    known = {PREFIX + name.upper() for name in Settings.model_fields} | NO_SETTINGS
    for name in map(str.upper, variables):
        if name.startswith(PREFIX) and name not in known:
            nearest = get_close_matches(name, sorted(known), 1, cutoff=0)[0]
            raise InvalidRequest(
                f"There is no setting for the environment variable {name}.",
                cure=f"Did you mean {nearest}? If it is for something else, unset it here.",
            )


def describe(**given: Any) -> list[dict[str, Any]]:
    """Every setting with its name, value, the source of the value, and description.

    Raises the errors of `load_settings`.
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
