"""The manifest: what an index was made for, and its shards; replaced whole, in one step."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from kgqa.errors import ShardDamagedError
from kgqa.files import read_plain, sync, write_whole
from kgqa.graph.model import Direction  # noqa: TC001 - pydantic reads annotations when it runs
from kgqa.paths.walk import Mediators, WalkRules

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.model import KGInfo
    from kgqa.paths.format import PathFormat
    from kgqa.trie.lexicon import TokenEncoder

SCHEMA_VERSION = 4
MANIFEST = "manifest.json"
REBUILD = "Build it again: kgqa precompute-tries --rebuild"
_FILE = re.compile(r"shard-[0-9]{5,9}(-[0-9]{1,5})?\.parquet")
_LARGEST = 1 << 30  # bytes of a manifest or a shard
_WORDS = {"kg": "KG", "kg_version": "KG version", "mediators": "mediator rule"}
_WORDS |= {"sample": "sampled paths"}


@dataclass(frozen=True, slots=True)
class IndexKey:
    """The settings that an index must have been built with to serve a question.

    ``tokenizer`` and ``path_format`` are fingerprints. ``walk``, ``sample`` and ``seed`` are those
    of samples of paths, which earlier versions stored: no question asks for one.
    """

    kg: str
    kg_version: str
    tokenizer: str
    path_format: str
    hops: int
    direction: Direction
    mediators: Mediators
    walk: Literal["breadth", "depth", "random"] = "breadth"
    sample: int | None = None
    seed: int = 0

    @classmethod
    def of(
        cls,
        info: KGInfo,
        encoder: TokenEncoder,
        form: PathFormat,
        rules: WalkRules,
    ) -> IndexKey:
        """Return the key of the index of a KG for a tokenizer, a path format and walk rules."""
        return cls(
            info.name,
            info.version,
            encoder.fingerprint,
            form.fingerprint,
            rules.hops,
            rules.direction,
            rules.mediators,
        )

    @property
    def rules(self) -> WalkRules:
        """The walk rules whose paths the index holds."""
        return WalkRules(self.hops, self.direction, self.mediators)

    @property
    def folder(self) -> str:
        """The index folder's name, without the KG's version, so that a new version replaces it."""
        content = asdict(self) | {"schema": SCHEMA_VERSION}
        del content["kg_version"]
        return _sha256(content)[:16]

    def differences(self, other: IndexKey) -> list[str]:
        """Return the settings in which ``other`` differs from this key, as phrases "x A, not B"."""
        return [
            f"{_WORDS.get(part.name, part.name.replace('_', ' '))} "
            f"{_short(getattr(other, part.name))}, not {_short(getattr(self, part.name))}"
            for part in fields(self)
            if getattr(self, part.name) != getattr(other, part.name)
        ]


def _short(value: object) -> str:
    """Return ``value`` as text, shortened to 12 characters if it is longer than 16."""
    text = "none" if value is None else str(value)
    return f"{text[:12]}…" if len(text) > 16 else text


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """One shard in the manifest: its rows are sorted by id, from ``first`` to ``last``.

    ``dropped``: rows that a change of the KG made invalid, and their number of paths, by id.
    """

    file: str
    first: str
    last: str
    entities: int
    paths: int
    bytes: int
    sha256: str
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of ``manifest.json``; ``token_width``: bytes of a token id in a text.

    ``closing``: the token that ends every path. ``composed``: ids of entities with more than
    ``cap`` paths, composed on the fly.
    """

    key: IndexKey
    cap: int
    token_width: int
    closing: int
    shards: tuple[ShardRecord, ...] = ()
    composed: tuple[str, ...] = ()
    tokenizer_name: str = ""
    schema: int = SCHEMA_VERSION

    @property
    def entities(self) -> int:
        """The number of stored entities."""
        return sum(shard.entities - len(shard.dropped) for shard in self.shards)

    @property
    def paths(self) -> int:
        """The number of stored paths."""
        return sum(shard.paths - sum(shard.dropped.values()) for shard in self.shards)

    @property
    def bytes(self) -> int:
        """The size of all shards."""
        return sum(shard.bytes for shard in self.shards)

    def write(self, folder: Path) -> None:
        """Write ``manifest.json`` into ``folder`` atomically."""
        content = asdict(self)
        content["sha256"] = _sha256(content)
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        write_whole(folder / MANIFEST, text.encode())
        sync(folder)


def _sha256(content: dict[str, Any]) -> str:
    """Return the hex SHA-256 of ``content`` as JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def _adapter() -> TypeAdapter[Manifest]:
    """Return the pydantic adapter that reads and writes manifests."""
    return TypeAdapter(Manifest)  # takes milliseconds to build


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in ``folder``, None if there is none of this format version.

    Raises ShardDamagedError.
    """
    path = folder / MANIFEST
    try:
        text = read_plain(path, _LARGEST).decode()
        content: dict[str, Any] = json.loads(text)
        digest = content.pop("sha256", None)
        if digest is None and content["schema"] != SCHEMA_VERSION:
            return None  # formats before this one had no checksum
        if digest != _sha256(content):
            raise ValueError("its checksum does not fit")
        if content["schema"] != SCHEMA_VERSION:
            return None
        manifest = _adapter().validate_json(text, strict=True)
        for shard in manifest.shards:
            _check(shard)
        return manifest
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ShardDamagedError(
            f"The index manifest {path} is damaged ({reason}).", REBUILD
        ) from None


def _check(shard: ShardRecord) -> None:
    """Raise ValueError for a malformed shard name: no file outside the folder is opened."""
    if not _FILE.fullmatch(shard.file):
        raise ValueError(f"{shard.file!r} is not the name of a shard")
    if shard.entities < 1 or shard.paths < 0 or not 0 < shard.bytes <= _LARGEST:
        raise ValueError(f"{shard.file} has counts that no shard has")


def index_folder(tries: Path, key: IndexKey) -> Path:
    """Return the folder of the index for ``key`` under ``<home>/<kg>/tries``."""
    return tries / key.folder
