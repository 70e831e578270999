"""Settings: defaults, then a TOML file, then environment variables `HORNBEAM_…`, then arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)


class Settings(BaseSettings):
    """Everything an operator may set. Durations and sizes carry their unit in the name."""

    model_config = SettingsConfigDict(
        env_prefix="HORNBEAM_", toml_file="hornbeam.toml", extra="forbid", frozen=True
    )

    data: Path = Field(Path("var/hornbeam"), description="Folder of the embedded database.")
    host: str = Field("127.0.0.1", description="Address to listen on; loopback only for now.")
    port: int = Field(8780, ge=0, le=65_535, description="0 picks a free port.")
    slave: str = Field("local", pattern="^[a-z0-9-]+$", description="Name of this slave.")

    snapshot_retention_s: float = Field(3_600, gt=0, description="Older snapshots are refused.")
    outcome_retention_s: float = Field(86_400, gt=0, description="How long answers are kept.")
    log_retention_s: float = Field(3_600, ge=0, description="Applied segments are kept so long.")
    housekeeping_interval_s: float = Field(60, gt=0)
    checkpoint_interval_s: float = Field(1, gt=0)

    statement_timeout_s: float = Field(30, gt=0, description="Default time limit of a statement.")
    max_timeout_s: float = Field(600, gt=0, description="Longest limit that a client may ask for.")
    max_body_bytes: int = Field(64 * 1024 * 1024, gt=0)
    max_parameters: int = Field(100_000, gt=0)
    max_json_rows: int = Field(1_000_000, gt=0, description="Rows of one JSON answer.")
    query_memory_mb: int = Field(128, gt=0, description="DuckDB's memory; beyond it, it spills.")

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
    """Settings with `given` on top; None means not given. Raises pydantic's ValidationError."""
    return Settings(**{name: value for name, value in given.items() if value is not None})
