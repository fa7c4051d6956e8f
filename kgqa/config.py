"""Settings: defaults, then environment, then flags. One frozen object, made once by the command.

The environment's names are those the field already has (``NEO4J_URI``, ``OPENAI_BASE_URL``, …) and
``KGQA_*`` for the rest. A secret is kept as ``SecretStr``, which prints as stars.
"""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from kgqa.errors import UsageError


def default_home() -> Path:
    """Return the user's data folder for kgqa."""
    return Path(platformdirs.user_data_dir("kgqa"))


def _setting(variable: str, description: str, default: Any = None) -> Any:
    """Return a settings field that an environment variable sets; ``default``: value or factory."""
    given = {"default_factory": default} if callable(default) else {"default": default}
    return Field(**given, validation_alias=AliasChoices(variable), description=description)


class Settings(BaseSettings):
    """What a command runs with. Fields are read from flags first, then from the environment."""

    model_config = SettingsConfigDict(
        frozen=True,
        populate_by_name=True,
        extra="ignore",
        env_prefix="KGQA_",  # the names of fields are read too: HOME is not a data folder
    )

    home: Path = _setting(
        "KGQA_HOME",
        "The data folder: KGs with their indexes and learned models. (the user's data folder)",
        default_home,
    )
    kg: str | None = _setting("KGQA_KG", "The KG that is meant. (the only one)")
    graph: str | None = _setting(
        "KGQA_GRAPH", "The store's URL, above `NEO4J_URI`. (SQLite in the data folder)"
    )
    dumps: Path | None = _setting(
        "KGQA_DUMPS", "Where `kgqa ingest` looks for dumps. (`dumps` in the data folder)"
    )
    cache: Path | None = _setting(
        "KGQA_CACHE", "Where converted models are kept. (the user's cache folder)"
    )
    model: str | None = _setting(
        "KGQA_MODEL", "The KG-LLM: a hub name, a folder or a GGUF file. (SmolLM2-135M-Instruct)"
    )
    adapter: str | None = _setting(
        "KGQA_ADAPTER",
        "The KG-LLM's LoRA adapter: a folder, a name, or none. (the bundled one that suits the KG)",
    )
    encoder: Literal["small", "large"] | None = _setting(
        "KGQA_ENCODER",
        "The sentence encoder that ranks paths, small or large. (large if it is installed)",
    )
    device: str | None = _setting("KGQA_DEVICE", "cpu, cuda or cuda:N. (a GPU if there is one)")
    general_model: str | None = _setting(
        "KGQA_GENERAL_MODEL", "The general LLM's name on the OpenAI-compatible server. (none)"
    )
    general_masked: bool = _setting(
        "KGQA_GENERAL_MASKED", "Whether names never reach the general LLM. (false)", False
    )

    neo4j_uri: str | None = _setting(
        "NEO4J_URI",
        "A Neo4j server; if it is set, KGs are there unless `KGQA_GRAPH` names another store.",
    )
    neo4j_username: str = _setting("NEO4J_USERNAME", "Neo4j's user. (neo4j)", "neo4j")
    neo4j_password: SecretStr | None = _setting("NEO4J_PASSWORD", "Neo4j's password.")
    neo4j_database: str | None = _setting(
        "NEO4J_DATABASE", "Neo4j's database. (the user's default)"
    )
    neo4j_home: Path | None = _setting(
        "KGQA_NEO4J_HOME", "The server's folder, for the bulk import of large KGs."
    )
    neo4j_browser: str | None = _setting(
        "KGQA_NEO4J_BROWSER", "Address of Neo4j Browser, for links. (the server's own, port 7474)"
    )

    api_key: SecretStr | None = _setting(
        "KGQA_API_KEY",
        "The key that clients of `kgqa serve` must send (not needed on this machine).",
    )

    openai_base_url: str | None = _setting(
        "OPENAI_BASE_URL", "Address of the OpenAI-compatible server. (OpenAI's)"
    )
    openai_api_key: SecretStr | None = _setting("OPENAI_API_KEY", "The key of that server.")

    @property
    def graph_url(self) -> str | None:
        """The store's URL: ``--graph``, else ``NEO4J_URI``, else None (SQLite in the home)."""
        return self.graph or self.neo4j_uri

    @property
    def dumps_folder(self) -> Path:
        """The folder searched for dumps when no source is given."""
        return self.dumps or self.home / "dumps"

    @property
    def cache_folder(self) -> Path:
        """The folder of converted models: one for each user, whatever the home (``KGQA_CACHE``).

        A user whose own cache folder is not writable, as in a container, has it in the home.
        """
        if self.cache:
            return self.cache
        folder = Path(platformdirs.user_cache_dir("kgqa"))
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        return folder if os.access(there, os.W_OK) else self.home / "cache"

    @property
    def calls_folder(self) -> Path:
        """The folder of cached replies of a general LLM, beside the data that they are about."""
        return self.cache or self.home / "cache"

    def kg_folder(self, kg: str) -> Path:
        """Return the folder of one KG's files: the SQLite store, tries, rejects."""
        return self.home / kg


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine; names are not looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load_settings(**flags: Any) -> Settings:
    """Return the settings; flags that are not None override the environment.

    Raises UsageError if a value is malformed.
    """
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"The setting {where} is not usable: {first['msg']}.") from None
