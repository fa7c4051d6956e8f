"""Settings: defaults, then environment, then flags. One frozen object, made once by the command.

The environment's names are those the field already has (``NEO4J_URI``, ``OPENAI_BASE_URL``, …) and
``KGQA_*`` for the rest. A secret is kept as ``SecretStr``, which prints as stars.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from kgqa.errors import UsageError


def default_home() -> Path:
    """Return the user's data folder for kgqa."""
    return Path(platformdirs.user_data_dir("kgqa"))


def _env(*names: str) -> AliasChoices:
    return AliasChoices(*names)


class Settings(BaseSettings):
    """What a command runs with. Fields are read from flags first, then from the environment."""

    model_config = SettingsConfigDict(
        frozen=True,
        populate_by_name=True,
        extra="ignore",
        env_prefix="KGQA_",  # the names of fields are read too: HOME is no data folder
    )

    home: Path = Field(default_factory=default_home, validation_alias=_env("KGQA_HOME"))
    kg: str | None = Field(None, validation_alias=_env("KGQA_KG"))
    graph: str | None = Field(None, validation_alias=_env("KGQA_GRAPH"))
    dumps: Path | None = Field(None, validation_alias=_env("KGQA_DUMPS"))
    cache: Path | None = Field(None, validation_alias=_env("KGQA_CACHE"))
    model: str | None = Field(None, validation_alias=_env("KGQA_MODEL"))
    adapter: str | None = Field(None, validation_alias=_env("KGQA_ADAPTER"))
    device: str | None = Field(None, validation_alias=_env("KGQA_DEVICE"))
    general_model: str | None = Field(None, validation_alias=_env("KGQA_GENERAL_MODEL"))

    neo4j_uri: str | None = Field(None, validation_alias=_env("NEO4J_URI"))
    neo4j_username: str = Field("neo4j", validation_alias=_env("NEO4J_USERNAME"))
    neo4j_password: SecretStr | None = Field(None, validation_alias=_env("NEO4J_PASSWORD"))
    neo4j_database: str | None = Field(None, validation_alias=_env("NEO4J_DATABASE"))
    neo4j_home: Path | None = Field(None, validation_alias=_env("KGQA_NEO4J_HOME"))
    neo4j_browser: str | None = Field(None, validation_alias=_env("KGQA_NEO4J_BROWSER"))

    api_key: SecretStr | None = Field(None, validation_alias=_env("KGQA_API_KEY"))

    openai_base_url: str | None = Field(None, validation_alias=_env("OPENAI_BASE_URL"))
    openai_api_key: SecretStr | None = Field(None, validation_alias=_env("OPENAI_API_KEY"))

    @property
    def graph_url(self) -> str | None:
        """The store's URL: ``--graph``, else ``NEO4J_URI``, else None (SQLite in the home)."""
        return self.graph or self.neo4j_uri

    @property
    def dumps_folder(self) -> Path:
        """Where dumps are looked for when no SOURCE is given."""
        return self.dumps or self.home / "dumps"

    @property
    def cache_folder(self) -> Path:
        """Where converted models are kept; several homes may share one (``KGQA_CACHE``)."""
        return self.cache or self.home / "cache"

    def kg_folder(self, kg: str) -> Path:
        """Where everything of one KG lies: the SQLite store, tries, rejects."""
        return self.home / kg


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load_settings(**flags: Any) -> Settings:
    """Return the settings, with every flag that is not None above the environment.

    Raises UsageError where a value has the wrong form.
    """
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"The setting {where} is not usable: {first['msg']}.") from None
